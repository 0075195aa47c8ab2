/** What the preload and the main process say to each other. */
export const channels = {
  /** Page to main: give me a port. */
  connect: 'weightroom:connect',
  /** Main to page, with the port; the page's own message of the same name. */
  port: 'weightroom:port',
  /** Page to main: the first content is on the screen. */
  painted: 'weightroom:painted',
} as const;
