import { isApiError, type ApiError } from "./errors.ts";
import { path } from "./http.ts";
import { call, fail, type Part, type Stream } from "./live.ts";
import type { Channel, ChannelMessage, ChannelOptions, JsonObject, Present } from "./types.ts";

interface Ear extends ChannelOptions {
  event?: string;
  message?: (payload: any, message: ChannelMessage) => void;
  present?: (present: Present[], count: number) => void;
}

/** A channel of the stream: who listens here, and whether the others see it. */
class Room implements Part {
  private readonly ears = new Set<Ear>();
  private state: JsonObject | null = null;
  private readonly present = new Map<string, Present>();
  private count: number | null = null;
  /** The id of the last message. */
  private last: string | undefined;
  private isOpen = false;
  private wasOpen = false;
  private entering: { resolve(): void; reject(error: ApiError): void }[] = [];

  constructor(
    private readonly stream: Stream,
    readonly name: string,
  ) {}

  asked(): JsonObject {
    return { name: this.name, presence: this.state ? { state: this.state } : undefined, after: this.last };
  }

  ready(): void {
    // With a message to go on from, the server says whether others were missed.
    if (this.wasOpen && !this.last) this.missed();
    this.isOpen = this.wasOpen = true;
    for (const { resolve } of this.entering.splice(0)) resolve();
  }

  forget(): void {
    this.last = undefined;
  }

  connected(isConnected: boolean): void {
    this.isOpen &&= isConnected;
  }

  told(event: string, data: any): void {
    if (event === "message") {
      this.last = data.id;
      for (const ear of this.ears) if (ear.event === data.event) call(ear.message, data.payload, data);
    } else if (event === "presence") {
      // Of many only their number is told.
      if (data.all || !data.joined) this.present.clear();
      for (const one of data.all ?? data.joined ?? []) this.present.set(one.key, one);
      for (const key of data.left ?? []) this.present.delete(key);
      this.count = data.count;
      for (const ear of this.ears) this.show(ear);
    } else if (event === "reset") {
      this.missed();
    }
  }

  ended(error: ApiError): void {
    const entering = this.entering.splice(0);
    this.state = null;
    this.isOpen = this.wasOpen = false;
    for (const { reject } of entering) reject(error);
    if (!this.ears.size) return;
    // It may have been the presence that was wrong: those who listen go on without.
    if (entering.length) return this.open();
    const ears = [...this.ears];
    this.ears.clear();
    fail(ears.map((ear) => ear.error), error);
  }

  listen(ear: Ear): () => void {
    const stop = () => {
      this.ears.delete(ear);
      this.close();
    };
    if (ear.signal?.aborted) return stop;
    ear.signal?.addEventListener("abort", stop, { once: true });
    this.ears.add(ear);
    if (this.isOpen) this.show(ear);
    else this.open();
    return stop;
  }

  async enter(state: JsonObject): Promise<void> {
    const before = this.state;
    this.state = state;
    try {
      if (this.stream.secret && this.isOpen && (await this.change("PUT", { body: { stream: this.stream.secret, state } }))) return;
    } catch (error) {
      this.state = before;
      throw error;
    }
    await new Promise<void>((resolve, reject) => {
      this.entering.push({ resolve, reject });
      this.open();
    });
  }

  async leave(): Promise<void> {
    this.state = null;
    if (this.stream.secret && this.isOpen) await this.change("DELETE", { query: { stream: this.stream.secret } });
    this.close();
  }

  async send(event: string, payload: unknown, options: object): Promise<string> {
    const body = { event, payload, stream: this.stream.secret };
    // Once: nobody could tell a message that is told twice from two.
    const sent = await this.stream.http.json("POST", path`/v1/public/realtime/channels/${this.name}/messages`, { ...options, body, once: true });
    return sent.ids[0];
  }

  /** Changes what the others see; returns whether the stream was still there. */
  private async change(method: string, sent: object): Promise<boolean> {
    try {
      await this.stream.http.json(method, path`/v1/public/realtime/channels/${this.name}/presence`, sent);
      return true;
    } catch (error) {
      if (isApiError(error, "STREAM_NOT_FOUND")) return false;
      throw error;
    }
  }

  private open(): void {
    this.stream.add("channels", this.name, this);
  }

  private close(): void {
    if (this.ears.size || this.state) return;
    this.isOpen = this.wasOpen = false;
    this.last = undefined;
    this.stream.remove("channels", this.name);
  }

  private missed(): void {
    for (const ear of this.ears) call(ear.missed);
  }

  private show(ear: Ear): void {
    if (this.count !== null) call(ear.present, [...this.present.values()], this.count);
  }
}

/** Gives the channels of a client, each by its name once. */
export function channels(stream: Stream): (name: string) => Channel {
  const rooms = new Map<string, Room>();
  return (name) => {
    const room = rooms.get(name) ?? new Room(stream, name);
    rooms.set(name, room);
    return {
      name,
      on: (event, message, options) => room.listen({ ...options, event, message }),
      present: (present, options) => room.listen({ ...options, present }),
      send: (event, payload = null, { signal, timeout } = {}) => room.send(event, payload, { signal, timeout }),
      enter: (state = {}) => room.enter(state),
      leave: () => room.leave(),
    };
  };
}
