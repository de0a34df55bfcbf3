import { Deadline, now } from "./deadline.ts";
import { ApiError, errorOf } from "./errors.ts";
import { parse, stringify } from "./json.ts";
import type { ClientOptions, RequestOptions } from "./types.ts";

/** A request as the parts of the client send it. */
export interface Sent extends RequestOptions {
  /** Whose credential it has: by default the member's, if one is signed in. */
  auth?: "none" | { token: string };
  raw?: BodyInit;
  /** Whether the body of the answer may take as long as it takes. */
  slow?: boolean;
  /** Whether to send it once: the caller repeats it. */
  once?: boolean;
  /** Whether the caller has chosen the path, which may be wrong. */
  isCallers?: boolean;
  /** Is given each answer, also one that is an error. */
  hears?: (response: Response) => void;
}
/** Gives tokens; `Session` implements it. */
export interface Tokens {
  /** Returns an access token that is valid for a while, or null without a session; `now` is the server's clock. */
  token(now: () => number): string | null | Promise<string | null>;
  /** Takes note that the server rejected a token. */
  rejected(token: string): void;
}

declare const VERSION: string;
const NOTHING: Sent = {};
const LONGEST_PAUSE = 5000;
const SHORTEST_PAUSE = 200;

/** Sends requests: with credentials, repeated where that is safe, within a time. */
export class Http {
  /** How much the server's clock is ahead of this one's, in milliseconds. */
  skew = 0;
  serverVersion: string | null = null;
  tokens: Tokens | null = null;
  readonly url: string;
  /** What all requests to the server say of this client. */
  readonly own: Record<string, string>;
  private readonly fetch: typeof fetch;
  /** Whether requests can be aborted: it costs Node.js a tenth of each, and there one ends on its own in five minutes. */
  private aborts: boolean;
  private noticedAt = -Infinity;

  constructor(readonly options: ClientOptions) {
    this.url = options.url.replace(/\/+$/, "");
    this.own = { "X-Public-Key": options.publicKey };
    const shared = Object.entries(options.capabilities ?? {});
    if (shared.length) this.own["X-Capability"] = shared.map(([name, text]) => `${name}=${text}`).join(", ");
    // Called without a `this`, which browsers insist on.
    const given = options.fetch ?? globalThis.fetch;
    this.fetch = (input, init) => given(input, init);
    const { process, document, Deno, Bun } = globalThis as any;
    this.aborts = !!options.fetch || process?.release?.name !== "node" || !!(document ?? Deno ?? Bun);
  }

  /** The server's clock, in milliseconds since 1970. */
  readonly clock = (): number => Date.now() + this.skew;

  /** Returns the JSON of an answer, or null where it is empty. */
  json(method: string, path: string, sent: Sent = NOTHING): Promise<any> {
    return this.send(method, path, sent, this.parsed);
  }

  private readonly parsed = async (response: Response): Promise<any> => {
    const text = await response.text();
    if (!text) return null;
    try {
      return parse(text, this.options.bigint ?? false);
    } catch (cause) {
      throw new ApiError(response.status, "BAD_ANSWER", "Not JSON.", {}, null, { cause });
    }
  };

  /**
   * Returns an answer with a status below 400, or what `take` makes of it; rejects with an `ApiError`, or
   * the reason of an abort. An answer whose end is lost is none.
   */
  async send<T = Response>(method: string, path: string, sent: Sent = NOTHING, take?: (response: Response) => Promise<T>): Promise<T> {
    const elsewhere = path[0] !== "/";
    // An address that the server gave may be that of an object store, which takes no other headers.
    const headers: Record<string, string> = elsewhere ? { ...sent.headers } : { ...this.own, ...sent.headers };
    if (sent.body !== undefined) headers["Content-Type"] = "application/json";
    const writes = !sent.reads && (method === "POST" || method === "PATCH") && sent.raw === undefined;
    if (writes) headers["Idempotency-Key"] ??= uuid();
    const address = (elsewhere ? path : this.url + path) + queryOf(sent.query);
    const body = sent.raw ?? (sent.body === undefined ? undefined : stringify(sent.body));
    const milliseconds = sent.timeout ?? this.options.timeout ?? 30_000;
    const clock = new Deadline(milliseconds, sent.signal);
    const repeats = !sent.once && (writes || (method !== "POST" && method !== "PATCH") || !!sent.reads);
    try {
      for (let number = 0, renewed = false, lost = false; ; number++) {
        if (clock.isOver) throw clock.reason;
        const given = this.authorize(headers, sent);
        // A promise for a token only where there is none yet: a wait takes longer than all else here.
        const token = given instanceof Promise ? this.sign(headers, await clock.race(given)) : given;
        const init: RequestInit = { method, headers, body };
        if (sent.signal || this.aborts) init.signal = clock.signal;
        let failed: ApiError;
        try {
          return await clock.race(this.attempt(address, init, clock, take, sent));
        } catch (cause) {
          if (clock.isOver) throw cause;
          failed = cause instanceof ApiError ? cause : new ApiError(0, "NETWORK", `No answer from ${this.url}.`, {}, null, { cause });
        }
        // What is not there has a code of its own: it is the route that an older server lacks.
        if (["NOT_FOUND", "METHOD_NOT_ALLOWED"].includes(failed.code) && !elsewhere && !sent.isCallers) {
          const told = `Server ${this.serverVersion} has no ${method} ${path}, which client ${VERSION} needs.`;
          failed = new ApiError(failed.status, "NOT_SUPPORTED_BY_SERVER", told, failed.body);
        }
        if (failed.status === 401 && failed.code === "INVALID_TOKEN" && token && !renewed) {
          this.tokens!.rejected(token);
          renewed = true;
          continue;
        }
        // What was deleted by a request without an answer is not there for the next one.
        if (method === "DELETE" && lost && failed.status === 404) return null as T;
        lost ||= failed.status === 0 || failed.status >= 502;
        if (!repeats || number >= (this.options.retries ?? 3) || !passes(failed)) throw failed;
        await pause(number, failed.retryAfter, clock);
      }
    } catch (cause) {
      if (!clock.isLate) throw cause;
      // A server that hangs must not gather connections.
      this.aborts = true;
      throw new ApiError(0, "TIMEOUT", `No answer in ${milliseconds} ms.`, {}, null, { cause });
    } finally {
      clock.stop();
    }
  }

  private async attempt<T>(address: string, init: RequestInit, clock: Deadline, take: ((response: Response) => Promise<T>) | undefined, sent: Sent): Promise<T> {
    const { fetch } = this;
    const response = await fetch(address, init);
    // Nobody waits for it any more.
    if (clock.isOver) void response.body?.cancel().catch(() => undefined);
    this.notice(response);
    sent.hears?.(response);
    if (!response.ok && response.status !== 304) throw errorOf(response.status, await response.text(), response.headers.get("Retry-After"));
    if (sent.slow) clock.end = Infinity;
    return take ? take(response) : (response as T);
  }

  /** Adds the credential, and returns the token that can be renewed, or a promise of it, which is not added yet. */
  private authorize(headers: Record<string, string>, sent: Sent): string | null | Promise<string | null> {
    if (sent.auth === "none" || sent.headers?.["Authorization"]) return null;
    const fixed = sent.auth ? sent.auth.token : this.options.secretKey;
    if (fixed) {
      this.sign(headers, fixed);
      return null;
    }
    const token = this.tokens?.token(this.clock) ?? null;
    return token instanceof Promise ? token : this.sign(headers, token);
  }

  private sign(headers: Record<string, string>, token: string | null): string | null {
    if (token) headers["Authorization"] = `Bearer ${token}`;
    else delete headers["Authorization"];
    return token;
  }

  private notice(response: Response): void {
    const time = now();
    // Once a second at most: reading a header takes as long as the rest.
    if (time < this.noticedAt + 1000 && response.ok) return;
    this.noticedAt = time;
    this.serverVersion = response.headers.get("X-Pilotis-Version") ?? this.serverVersion;
    const date = Date.parse(response.headers.get("Date") ?? "");
    // The header is in whole seconds, and was on its way.
    if (date && Math.abs(date - this.clock()) > 5000) this.skew = date - Date.now();
  }
}

/** Whether an error may pass: no answer, or one that asks to come back. */
export function passes(error: ApiError): boolean {
  return [0, 429, 502, 503, 504].includes(error.status) || error.code === "IDEMPOTENCY_KEY_IN_USE";
}

/** Waits before a repeat: a random time, which doubles, or what the server asks for. */
async function pause(number: number, retryAfter: number | null, clock: Deadline): Promise<void> {
  const random = Math.max(SHORTEST_PAUSE, Math.random() * Math.min(LONGEST_PAUSE, 2 * SHORTEST_PAUSE * 2 ** number));
  const wait = retryAfter === null ? random : retryAfter * 1000 + Math.random() * SHORTEST_PAUSE;
  await sleep(Math.min(wait, Math.max(0, clock.left())), clock.signal);
}

export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const ended = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", ended);
      resolve();
    }, milliseconds);
    if (signal.aborted) ended();
    else signal.addEventListener("abort", ended);
  });
}

/** Pages without TLS have no `randomUUID`, and React Native has no `crypto`. */
export function uuid(): string {
  const source = globalThis.crypto;
  if (source?.randomUUID) return source.randomUUID();
  const bytes = source ? source.getRandomValues(new Uint8Array(16)) : Uint8Array.from({ length: 16 }, () => Math.random() * 256);
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function queryOf(values: RequestOptions["query"]): string {
  let text = "";
  for (const name in values) {
    const value = values[name];
    if (value !== undefined && value !== null) text += `${text ? "&" : "?"}${encodeURIComponent(name)}=${encodeURIComponent(value)}`;
  }
  return text;
}

/** The parts of a path, encoded. */
export function path(strings: TemplateStringsArray, ...values: string[]): string {
  let text = strings[0]!;
  for (let index = 0; index < values.length; index++) text += encodeURIComponent(values[index]!) + strings[index + 1];
  return text;
}

/** A path of files: its slashes stay. */
export function segments(text: string): string {
  return text.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/");
}
