/** Where a link may lead outside of the app: into the person's browser, by https, to these places and no others. */
const hosts: ReadonlySet<string> = new Set(['github.com', 'docs.vllm.ai', 'huggingface.co']);

export const projectUrl = 'https://github.com/vllm-project/vllm-omni';

export function isExternalLink(text: string): boolean {
  const url = URL.parse(text);
  if (url?.protocol !== 'https:' || !hosts.has(url.host)) return false;
  return url.username === '' && url.password === '';
}
