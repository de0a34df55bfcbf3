import { ApiError } from "./errors.ts";
import { passes, sleep, uuid, type Http } from "./http.ts";
import { parse, stringify } from "./json.ts";
import type { Sessions } from "./session.ts";
import { Tabs, type Told } from "./tabs.ts";
import type { JsonObject } from "./types.ts";

/** Milliseconds in which changes of what is listened to are gathered. */
const GATHER = 10;
/** Milliseconds without a byte, after which a connection is dead: the server says something every 20 seconds. */
const SILENCE = 50_000;
const LONGEST_WAIT = 10_000;
declare const VERSION: string;

/** What a stream tells of: a list, or a channel. */
export interface Part {
  readonly name: string;
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

/**
 * The one stream of a client. It is opened with the first part, and again when parts come or go. Pages of the same member
 * share one for their lists: that of the tab that leads tells all of them. Channels have a stream for each page, since it
 * is the stream that is present in them.
 */
export class Stream {
  /** The secret of the stream that is open. */
  secret: string | undefined;
  /** The secret of the stream before, in whose place the next one is present in channels. */
  private former: string | undefined;
  private readonly parts = { subscriptions: new Map<string, Part>(), channels: new Map<string, Part>() };
  /** The id of the last event of lists, where the next stream goes on. */
  private last: string | undefined;
  private opened: AbortController | null = null;
  private failures = 0;
  private named = 0;
  private readonly tab = uuid();
  private tabs: Tabs | null = null;
  /** Whether it shares a stream, or will. */
  private shares: boolean;
  private joins = 0;
  /** The lists of other tabs, by their names. */
  private readonly others = new Map<string, JsonObject>();

  constructor(
    readonly http: Http,
    private readonly sessions: Sessions,
  ) {
    const { secretKey, fetch } = http.options;
    // A `fetch` of one's own may have credentials of its own.
    const isPage = typeof document === "object";
    this.shares = isPage && !!navigator.locks && !secretKey && !fetch;
    if (isPage) this.rejoin(`pilotis:${http.options.publicKey}:stream`);
    sessions.onChange(({ type }) => {
      if (type === "refreshed" || secretKey) return;
      this.last = undefined;
      for (const kind of ["subscriptions", "channels"] as const) for (const part of this.parts[kind].values()) part.forget();
      if (this.joins) void this.join();
      this.opened?.abort();
    });
  }

  /** A page that is loaded again goes on in the place of the one before, so that others do not see it twice. */
  private rejoin(name: string): void {
    try {
      this.former = sessionStorage[name];
      // A copy of the tab is another one.
      delete sessionStorage[name];
      addEventListener("pagehide", () => this.secret && (sessionStorage[name] = this.secret));
    } catch {
      // Without storage it is seen for some seconds more.
    }
  }

  name(): string {
    return `${this.tab}.${++this.named}`;
  }

  add(kind: Kind, name: string, part: Part): void {
    this.parts[kind].set(name, part);
    this.changed(kind);
  }

  remove(kind: Kind, name: string): void {
    if (this.parts[kind].delete(name)) this.changed(kind);
  }

  private changed(kind: Kind): void {
    if (kind === "channels" || !this.follows) this.reopen();
    else if (this.joins) this.want();
    else void this.join();
  }

  private reopen(): void {
    if (this.opened) this.opened.abort();
    else void this.run();
  }

  /** Whether another tab tells of the lists, or it is not known yet. */
  private get follows(): boolean {
    return this.shares && !this.tabs?.leads;
  }

  /** Joins the tabs of the same member. */
  private async join(): Promise<void> {
    const number = ++this.joins;
    this.leave();
    const session = await this.sessions.get();
    if (number !== this.joins || !this.shares) return;
    const { url, own } = this.http;
    const group = ["pilotis", VERSION, url, JSON.stringify(own), session?.member_id].join(" ");
    try {
      this.tabs = new Tabs(group, this.tab, (told) => this.heard(told), () => this.led(), () => this.part());
    } catch {
      // A page that may store nothing may have no channel either.
      this.part();
    }
  }

  /** Keeps a stream of its own from now on. */
  private part(): void {
    this.shares = false;
    this.leave();
    this.reopen();
  }

  private leave(): void {
    this.tabs?.leave();
    this.tabs = null;
    this.others.clear();
  }

  /** Begins to lead, or to follow. */
  private led(): void {
    if (this.follows) {
      // What was told by a stream that is not the one of all tabs may have a gap.
      if (this.opened) for (const part of this.parts.subscriptions.values()) part.forget();
      this.others.clear();
      this.opened?.abort();
      this.want();
    } else {
      this.tabs!.post({ is: "leading" });
      this.reopen();
    }
  }

  private want(): void {
    this.tabs?.post({ is: "wants", tab: this.tab, lists: stringify(this.asked("subscriptions")) });
  }

  private heard(told: Told): void {
    if (!this.follows) {
      if (told.is !== "wants") return;
      if (this.shares) this.adopt(told.tab, parse(told.lists, true));
      else this.tabs!.post({ is: "full" });
    } else if (told.is === "event") this.tell(told.lines, false);
    else if (told.is === "leading") this.want();
    else if (told.is === "lost") this.lost();
    else if (told.is === "full") this.part();
    else if (told.is === "ended") {
      this.end("subscriptions", told.list, new ApiError(...told.error));
    }
  }

  /** Takes over the lists of another tab, in place of those that it had. */
  private adopt(tab: string, lists: JsonObject[]): void {
    const before = [...this.others.keys()].filter((name) => name.startsWith(tab));
    if (before.join() === lists.map(({ id }) => id).join()) return;
    for (const name of before) this.others.delete(name);
    for (const list of lists) this.others.set(list.id, list);
    if (!before.length) this.tabs!.watch(tab, () => this.adopt(tab, []));
    this.reopen();
  }

  private asked(kind: Kind): JsonObject[] {
    return [...this.parts[kind].values()].map((part) => part.asked());
  }

  /** What the stream of this tab is to tell. */
  private all(): { subscriptions: JsonObject[]; channels: JsonObject[] } {
    return { subscriptions: this.follows ? [] : [...this.asked("subscriptions"), ...this.others.values()], channels: this.asked("channels") };
  }

  private async run(): Promise<void> {
    for (let wait = GATHER, isLost = false; ; ) {
      const { signal } = (this.opened = new AbortController());
      await sleep(wait, signal).catch(() => undefined);
      wait = GATHER;
      // Not at once: a page that is closed hands over.
      if (isLost && this.tabs?.leads) this.tabs.post({ is: "lost" });
      isLost = false;
      const { subscriptions, channels } = this.all();
      if (!subscriptions.length && !channels.length) break;
      if (signal.aborted) continue;
      try {
        wait = await this.listen(signal, subscriptions, channels);
      } catch (error) {
        if (!signal.aborted) wait = (error as ApiError).retryAfter ? (error as ApiError).retryAfter! * 1000 : this.pause();
      }
      this.secret = undefined;
      if (signal.aborted || !wait) continue;
      for (const part of this.parts.channels.values()) part.connected(false);
      if (this.follows) continue;
      this.lost();
      isLost = true;
    }
    this.opened = null;
    if (!this.follows) this.last = undefined;
  }

  private lost(): void {
    for (const part of this.parts.subscriptions.values()) part.connected(false);
  }

  private pause(): number {
    return (0.5 + Math.random() / 2) * Math.min(LONGEST_WAIT, 500 * 2 ** this.failures++);
  }

  /**
   * Opens a stream, and reads it to its end; returns how many milliseconds to wait before the next: 0 where no connection
   * was lost, but a part has ended.
   */
  private async listen(signal: AbortSignal, subscriptions: JsonObject[], channels: JsonObject[]): Promise<number> {
    const names = { subscriptions: subscriptions.map(({ id }) => id), channels: channels.map(({ name }) => name) };
    const body = { subscriptions, channels, after: subscriptions.length ? this.last : undefined, stream: this.former };
    let response: Response;
    try {
      response = await this.http.send("POST", "/v1/public/realtime", { body, reads: true, once: true, signal });
      if (!response.body) throw new ApiError(response.status, "BAD_ANSWER", "This fetch reads no streams.");
    } catch (error) {
      // Whose session has ended, goes on as a visitor.
      if (!(error instanceof ApiError) || passes(error) || error.code === "SESSION_ENDED") throw error;
      const [, kind, at] = /^(subscriptions|channels)\[(\d+)\]/.exec(error.details[0]?.field ?? "") ?? [];
      if (kind) this.end(kind as Kind, names[kind as Kind][Number(at)]!, error);
      else if (this.others.size) {
        // It may be too many lists for one stream: each tab goes on by itself.
        this.tabs!.post({ is: "full" });
        this.others.clear();
        this.shares = false;
      } else for (const each of ["subscriptions", "channels"] as const) for (const name of names[each]) this.end(each, name, error);
      return 0;
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

  /** Takes one event, of the own stream or of the tab that leads; returns the time to wait of the last one. */
  private tell(lines: string, isOwn = true): number | undefined {
    const { event, data, id } = Object.fromEntries(lines.split("\n").map((line) => line.split(/: (.*)/s)));
    const told = data && parse(data, this.http.options.bigint ?? false);
    const { subscriptions, channels } = this.parts;
    // The own stream of a tab that follows is for its channels.
    const isOfLists = isOwn !== this.follows;
    if (event === "ready") {
      if (isOwn) {
        this.secret = this.former = told.stream;
        this.failures = 0;
      }
      const parts = [...(isOwn ? channels.values() : []), ...(isOfLists ? subscriptions.values() : [])];
      for (const part of parts) {
        // What one stream on the way has not told, the next does not make up for.
        if (!told.channels.includes(part.name) && !told.subscriptions.includes(part.name)) part.forget();
        else {
          part.connected(true);
          part.ready(told.resumed);
        }
      }
    } else if (told && event !== "bye") {
      const [kind, name]: [Kind, string] = told.channel ? ["channels", told.channel] : ["subscriptions", told.subscription];
      if (told.code) this.end(kind, name, new ApiError(0, told.code, `Ended: ${told.reason}.`, told));
      else this.parts[kind].get(name)?.told(event, told);
    }
    if (isOfLists) this.last = id ?? this.last;
    if (isOwn && this.shares && this.tabs?.leads && !told?.channel) this.tabs.post({ is: "event", lines });
    return told?.retry_ms;
  }

  /** Ends a part; the stream that is open does not tell of it any more. */
  private end(kind: Kind, name: string, error: ApiError): void {
    const part = this.parts[kind].get(name);
    this.parts[kind].delete(name);
    part?.ended(error);
    if (this.others.delete(name)) this.tabs!.post({ is: "ended", list: name, error: [error.status, error.code, error.message, error.body] });
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
