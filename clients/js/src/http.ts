import { ApiError, errorOf } from "./errors.ts";
import { parse, stringify } from "./json.ts";
import type { ClientOptions, RequestOptions } from "./types.ts";

/** A request as the parts of the client send it. */
export interface Sent extends RequestOptions {
  /** Whose credential it has: by default the member's, if one is signed in. */
  auth?: "none" | { token: string };
  raw?: BodyInit;
  /** Whether to send it once: the caller repeats it. */
  once?: boolean;
}
/** Gives tokens; `Session` implements it. */
export interface Tokens {
  /** Returns an access token that is valid for a while, or null without a session; `now` is the server's clock. */
  token(now: () => number): string | null | Promise<string | null>;
  /** Takes note that the server rejected a token. */
  rejected(token: string): void;
}

const LONGEST_PAUSE = 5000;
const SHORTEST_PAUSE = 200;

/** Sends requests: with credentials, repeated where that is safe, within a time. */
export class Http {
  /** How much the server's clock is ahead of this one's, in milliseconds. */
  skew = 0;
  serverVersion: string | null = null;
  tokens: Tokens | null = null;
  readonly url: string;
  private readonly fetch: typeof fetch;
  private lastDate: string | null = null;

  constructor(readonly options: ClientOptions) {
    this.url = options.url.replace(/\/+$/, "");
    // Called without a `this`, which browsers insist on.
    const given = options.fetch ?? globalThis.fetch;
    this.fetch = (input, init) => given(input, init);
  }

  /** The server's clock, in milliseconds since 1970. */
  readonly clock = (): number => Date.now() + this.skew;

  /** Returns the JSON of an answer, or null where it is empty. */
  async json(method: string, path: string, sent: Sent = {}): Promise<any> {
    const response = await this.send(method, path, sent);
    const text = await response.text();
    if (!text) return null;
    try {
      return parse(text, this.options.bigint ?? false);
    } catch (cause) {
      throw new ApiError(response.status, "BAD_ANSWER", "The answer is not JSON.", {}, null, { cause });
    }
  }

  /** Returns an answer with a status below 400; rejects with an `ApiError`, or the reason of an abort. */
  async send(method: string, path: string, sent: Sent = {}): Promise<Response> {
    const elsewhere = /^https?:/.test(path);
    // An address that the server gave may be that of an object store, which takes no other headers.
    const headers: Record<string, string> = elsewhere ? { ...sent.headers } : { "X-Public-Key": this.options.publicKey, ...sent.headers };
    if (sent.body !== undefined) headers["Content-Type"] = "application/json";
    const writes = !sent.reads && (method === "POST" || method === "PATCH") && sent.raw === undefined;
    if (writes) headers["Idempotency-Key"] ??= uuid();
    const address = (elsewhere ? path : this.url + path) + queryOf(sent.query);
    const body = sent.raw ?? (sent.body === undefined ? undefined : stringify(sent.body));
    const clock = deadline(sent.timeout ?? this.options.timeout ?? 30_000, sent.signal);
    const repeats = !sent.once && (writes || (method !== "POST" && method !== "PATCH") || !!sent.reads);
    try {
      for (let number = 0, renewed = false, lost = false; ; number++) {
        const token = await this.authorize(headers, sent, clock.signal);
        clock.signal.throwIfAborted();
        let error: unknown;
        try {
          const response = await this.fetch(address, { method, headers, body, signal: clock.signal });
          this.notice(response);
          if (response.ok || response.status === 304) return response;
          error = errorOf(response.status, await response.text(), response.headers.get("Retry-After"));
        } catch (cause) {
          if (clock.signal.aborted) throw cause;
          error = cause instanceof ApiError ? cause : new ApiError(0, "NETWORK", `No answer from ${this.url}.`, {}, null, { cause });
        }
        const failed = error as ApiError;
        if (failed.status === 401 && failed.code === "INVALID_TOKEN" && token && !renewed) {
          this.tokens!.rejected(token);
          renewed = true;
          continue;
        }
        // What was deleted by a request without an answer is not there for the next one.
        if (method === "DELETE" && lost && failed.status === 404) return new Response(null, { status: 204 });
        lost ||= failed.status === 0 || failed.status >= 502;
        if (!repeats || number >= (this.options.retries ?? 3) || !passes(failed)) throw failed;
        await pause(number, failed.retryAfter, clock);
      }
    } catch (error) {
      throw clock.reason(error);
    } finally {
      clock.stop();
    }
  }

  private async authorize(headers: Record<string, string>, sent: Sent, signal: AbortSignal): Promise<string | null> {
    if (sent.auth === "none") return null;
    if (sent.auth) {
      headers["Authorization"] = `Bearer ${sent.auth.token}`;
      return null;
    }
    if (sent.headers?.["Authorization"]) return null;
    let token = this.options.secretKey ?? this.tokens?.token(this.clock) ?? null;
    if (token instanceof Promise) token = await unless(signal, token);
    if (token) headers["Authorization"] = `Bearer ${token}`;
    else delete headers["Authorization"];
    return this.options.secretKey ? null : token;
  }

  private notice(response: Response): void {
    this.serverVersion = response.headers.get("X-Pilotis-Version") ?? this.serverVersion;
    const header = response.headers.get("Date");
    // Once a second at most: reading it takes as long as the rest.
    if (header === this.lastDate) return;
    this.lastDate = header;
    const date = Date.parse(header ?? "");
    // The header is in whole seconds, and was on its way.
    if (date && Math.abs(date - this.clock()) > 5000) this.skew = date - Date.now();
  }
}

/** Whether an error may pass: no answer, or one that asks to come back. */
export function passes(error: ApiError): boolean {
  return [0, 429, 502, 503, 504].includes(error.status) || error.code === "IDEMPOTENCY_KEY_IN_USE";
}

interface Deadline {
  signal: AbortSignal;
  left(): number;
  stop(): void;
  reason(error: unknown): unknown;
}

function deadline(milliseconds: number, outer?: AbortSignal): Deadline {
  const controller = new AbortController();
  const end = Date.now() + milliseconds;
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    controller.abort();
  }, milliseconds);
  const abort = () => controller.abort(outer!.reason);
  if (outer?.aborted) abort();
  outer?.addEventListener("abort", abort);
  return {
    signal: controller.signal,
    left: () => end - Date.now(),
    stop: () => {
      clearTimeout(timer);
      outer?.removeEventListener("abort", abort);
    },
    reason: (error) => {
      if (late) return new ApiError(0, "TIMEOUT", `No answer within ${milliseconds} ms.`, {}, null, { cause: error });
      return outer?.aborted ? outer.reason : error;
    },
  };
}

/** Waits before a repeat: a random time, which doubles, or what the server asks for. */
async function pause(number: number, retryAfter: number | null, clock: Deadline): Promise<void> {
  const random = Math.max(SHORTEST_PAUSE, Math.random() * Math.min(LONGEST_PAUSE, 2 * SHORTEST_PAUSE * 2 ** number));
  const wait = retryAfter === null ? random : retryAfter * 1000 + Math.random() * SHORTEST_PAUSE;
  await sleep(Math.min(wait, Math.max(0, clock.left())), clock.signal);
}

/** Settles as a promise does, or rejects once the signal is aborted. */
function unless<T>(signal: AbortSignal, wanted: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const ended = () => reject(signal.reason);
    signal.addEventListener("abort", ended);
    wanted.then(resolve, reject).finally(() => signal.removeEventListener("abort", ended));
  });
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

/** Pages without TLS have no `randomUUID`. */
export function uuid(): string {
  if (crypto.randomUUID) return crypto.randomUUID();
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function queryOf(values: RequestOptions["query"] = {}): string {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  return given.length ? "?" + new URLSearchParams(given.map(([name, value]) => [name, String(value)])) : "";
}

/** The parts of a path, encoded. */
export function path(strings: TemplateStringsArray, ...values: string[]): string {
  return String.raw({ raw: strings }, ...values.map(encodeURIComponent));
}

/** A path of files: its slashes stay. */
export function segments(text: string): string {
  return text.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/");
}
