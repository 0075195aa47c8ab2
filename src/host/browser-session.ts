/**
 * Who may speak to the browser host: whoever has the token, which is made anew at each start and travels in
 * the address's fragment, where neither a server nor a log sees it. The page gives it once and gets a cookie
 * that scripts can't read. Neither is worth anything after the host has ended.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';

const secretBytes = 32;

export class BrowserSession {
  readonly token = randomBytes(secretBytes).toString('base64url');
  readonly #cookie = randomBytes(secretBytes).toString('base64url');
  #port = 0;

  /** Cookies don't know ports: hosts on several ports of one machine need names of their own. */
  listensOn(port: number): void {
    this.#port = port;
  }

  accepts(token: unknown): boolean {
    return typeof token === 'string' && equalSecrets(token, this.token);
  }

  /** The value of Set-Cookie. Without an age it goes with the browser's session. */
  get setCookie(): string {
    return `${this.#cookieName}=${this.#cookie}; Path=/; HttpOnly; SameSite=Strict`;
  }

  isSignedIn(cookieHeader: string | undefined): boolean {
    const prefix = `${this.#cookieName}=`;
    return (cookieHeader ?? '')
      .split(';')
      .map((part) => part.trim())
      .some((part) => part.startsWith(prefix) && equalSecrets(part.slice(prefix.length), this.#cookie));
  }

  get #cookieName(): string {
    return `weightroom_${this.#port}`;
  }
}

/** Takes as long for a near miss as for a far one. */
function equalSecrets(given: string, secret: string): boolean {
  const [left, right] = [Buffer.from(given), Buffer.from(secret)];
  return left.length === right.length && timingSafeEqual(left, right);
}
