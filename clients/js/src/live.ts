import { ApiError } from "./errors.ts";
import { passes, sleep, type Http } from "./http.ts";
import { parse } from "./json.ts";
import type { Sessions } from "./session.ts";
import type { JsonObject } from "./types.ts";

/** Milliseconds in which changes of what is listened to are gathered. */
const GATHER = 10;
/** Milliseconds without a byte, after which a connection is dead: the server says something every 20 seconds. */
const SILENCE = 50_000;
const LONGEST_WAIT = 10_000;

/** What a stream tells of: a list, or a channel. */
export interface Part {
  /** Its entry in the request. */
  asked(): JsonObject;
  /** From now on it is told everything; with `resumed` also what there was since it was last told. */
  ready(resumed: boolean): void;
  told(event: string, data: any): void;
  /** The member has changed: what it was told so far may not be so for the new one. */
  forget(): void;
  connected(isConnected: boolean): void;
  ended(error: ApiError): void;
}
type Kind = "subscriptions" | "channels";

/** The one stream of a client. It is opened with the first part, and again when parts come or go. */
export class Stream {
  /** The secret of the stream that is open. */
  secret: string | undefined;
  private readonly parts = { subscriptions: new Map<string, Part>(), channels: new Map<string, Part>() };
  /** The id of the last event, where the next stream goes on. */
  private last: string | undefined;
  private opened: AbortController | null = null;
  private failures = 0;
  private named = 0;

  constructor(
    readonly http: Http,
    sessions: Sessions,
  ) {
    sessions.onChange(({ type }) => {
      if (type === "refreshed" || http.options.secretKey || !this.opened) return;
      this.last = undefined;
      for (const part of this.all()) part.forget();
      this.opened.abort();
    });
  }

  name(): string {
    return String(++this.named);
  }

  add(kind: Kind, name: string, part: Part): void {
    this.parts[kind].set(name, part);
    if (this.opened) this.opened.abort();
    else void this.run();
  }

  remove(kind: Kind, name: string): void {
    if (this.parts[kind].delete(name)) this.opened?.abort();
  }

  private all(): Part[] {
    return [...this.parts.subscriptions.values(), ...this.parts.channels.values()];
  }

  private async run(): Promise<void> {
    for (let wait = GATHER; ; ) {
      const { signal } = (this.opened = new AbortController());
      await sleep(wait, signal).catch(() => undefined);
      wait = GATHER;
      if (!this.all().length) break;
      if (signal.aborted) continue;
      try {
        wait = await this.listen(signal);
      } catch (error) {
        if (!signal.aborted) wait = (error as ApiError).retryAfter ? (error as ApiError).retryAfter! * 1000 : this.pause();
      }
      this.secret = undefined;
      if (!signal.aborted) for (const part of this.all()) part.connected(false);
    }
    this.opened = null;
    this.last = undefined;
  }

  private pause(): number {
    return (0.5 + Math.random() / 2) * Math.min(LONGEST_WAIT, 500 * 2 ** this.failures++);
  }

  /** Opens a stream, and reads it to its end; returns how many milliseconds to wait before the next. */
  private async listen(signal: AbortSignal): Promise<number> {
    const asked = (kind: Kind) => [...this.parts[kind].values()].map((part) => part.asked());
    const names = { subscriptions: [...this.parts.subscriptions.keys()], channels: [...this.parts.channels.keys()] };
    const body = { subscriptions: asked("subscriptions"), channels: asked("channels"), after: this.last };
    let response: Response;
    try {
      response = await this.http.send("POST", "/v1/public/realtime", { body, reads: true, once: true, signal });
      if (!response.body) throw new ApiError(response.status, "BAD_ANSWER", "This fetch cannot read an answer as it comes.");
    } catch (error) {
      // Whose session has ended, goes on as a visitor.
      if (!(error instanceof ApiError) || passes(error) || error.code === "SESSION_ENDED") throw error;
      const [, kind, at] = /^(subscriptions|channels)\[(\d+)\]/.exec(error.details[0]?.field ?? "") ?? [];
      if (kind) this.end(kind as Kind, names[kind as Kind][Number(at)]!, error);
      else for (const each of ["subscriptions", "channels"] as const) for (const name of names[each]) this.end(each, name, error);
      return GATHER;
    }
    const reader = response.body!.getReader();
    const decoder = new TextDecoder();
    const stop = () => void reader.cancel().catch(() => undefined);
    signal.addEventListener("abort", stop);
    let timer: ReturnType<typeof setTimeout> | undefined;
    let wait: number | undefined;
    try {
      for (let text = ""; ; ) {
        timer = setTimeout(stop, SILENCE);
        const { value, done } = await reader.read();
        clearTimeout(timer);
        if (signal.aborted) return GATHER;
        if (done) return wait ?? this.pause();
        const events = (text + decoder.decode(value, { stream: true })).split("\n\n");
        text = events.pop()!;
        for (const event of events) wait = this.tell(event) ?? wait;
      }
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
    }
  }

  /** Takes one event; returns the time to wait of the last one. */
  private tell(lines: string): number | undefined {
    const { event, data, id } = Object.fromEntries(lines.split("\n").map((line) => line.split(/: (.*)/s)));
    const told = data && parse(data, this.http.options.bigint ?? false);
    if (event === "ready") {
      this.secret = told.stream;
      this.failures = 0;
      for (const part of this.all()) {
        part.connected(true);
        part.ready(told.resumed);
      }
    } else if (told && event !== "bye") {
      const [kind, name]: [Kind, string] = told.channel ? ["channels", told.channel] : ["subscriptions", told.subscription];
      if (told.code) this.end(kind, name, new ApiError(0, told.code, `Not told any more: ${told.reason}.`, told));
      else this.parts[kind].get(name)?.told(event, told);
    }
    this.last = id ?? this.last;
    return told?.retry_ms;
  }

  /** Ends a part; the stream that is open does not tell of it any more. */
  private end(kind: Kind, name: string, error: ApiError): void {
    const part = this.parts[kind].get(name);
    this.parts[kind].delete(name);
    part?.ended(error);
  }
}

/** Calls a listener: what it throws is nobody's here, and must be seen. */
export function call<Values extends unknown[]>(listener: ((...values: Values) => void) | undefined, ...values: Values): void {
  try {
    listener?.(...values);
  } catch (error) {
    void Promise.reject(error);
  }
}

/** Tells an error to those who want to know; an error that nobody wants to know is thrown. */
export function fail(listeners: (((error: ApiError) => void) | undefined)[], error: ApiError): void {
  for (const listener of listeners) call(listener ?? ((it) => { throw it; }), error);
}
