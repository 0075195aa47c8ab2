/** How something that is said is meant; each has a colour and an icon. */
export type DeskTone = 'accent' | 'good' | 'bad' | 'warning' | 'quiet';
