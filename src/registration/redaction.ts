/**
 * What leaves this machine in a bundle says nothing of secrets: no environment at all, the home directory and the
 * user's name replaced, and whatever looks like a token taken out, wherever it stands.
 */
const tokens: readonly RegExp[] = [
  /\b(?:hf|sk|pk|ghp|gho|ghs|github_pat|glpat|xox[abp]|nvapi|AKIA)[-_]?[A-Za-z0-9_-]{12,}/g,
  /\beyJ[\w-]+\.[\w-]+\.[\w-]+/g,
  /(?<=\b(?:bearer|basic)\s+)[\w+/=.-]{8,}/gi,
  /(?<=[\w-]*(?:token|secret|passw(?:or)?d|api[-_]?key|credential|auth)[\w-]*["']?(?:\s*[=:]\s*|\s+)["']?)[^\s"',&]+/gi,
  /(?<=:\/\/)[^/\s@]+(?=@)/g,
];

export interface Person {
  readonly home: string;
  readonly user: string;
}

export function redactText(text: string, { home, user }: Person): string {
  let result = text;
  if (home.length > 1) result = result.replaceAll(home, '~');
  if (user !== '' && user !== 'root')
    result = result.replaceAll(new RegExp(`\\b${escaped(user)}\\b`, 'g'), 'USER');
  for (const token of tokens) result = result.replaceAll(token, 'REDACTED');
  return result;
}

/** Names of fields stay; every text in them is redacted. */
export function redacted(value: unknown, person: Person): unknown {
  if (typeof value === 'string') return redactText(value, person);
  if (Array.isArray(value)) return value.map((item) => redacted(item, person));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => !/^env(ironment)?$/i.test(name))
      .map(([name, item]) => [name, redacted(item, person)]),
  );
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
