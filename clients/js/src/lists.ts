import { ApiError } from "./errors.ts";
import { passes, sleep } from "./http.ts";
import { call, fail, type Part, type Stream } from "./live.ts";
import type { JsonObject, LiveListener, Page, Row, RowChange } from "./types.ts";

type Sorted<Shown> = Shown & { sort?: string };
type Told = RowChange & { row: Sorted<RowChange["row"]> };

/** Milliseconds between two readings of a list that cannot be kept by its changes alone. */
const BETWEEN = 500;
const AFTER_FAILURE = 2000;
const MOST_ROWS = 1000;

export interface Order {
  column: string;
  direction: string;
  ignore_case?: boolean;
}
/** What a list shows, and how it is read. */
export interface Listed {
  subscription: JsonObject;
  limit?: number;
  /** Whether changes have all that a row of the list has, and it begins with the first row. */
  isPlain: boolean;
  read(limit: number, signal: AbortSignal): Promise<Page<Sorted<Row>>>;
}

/**
 * A list that stays true: it is read when the stream is ready, and then changes are applied. Where a change does not tell
 * what the list is like, since other rows than those in it come in, it is read again.
 */
class List implements Part {
  private rows: Row[] = [];
  /** The places of the rows in the order, unless that is the order of their ids. */
  private readonly sorts = new WeakMap<object, string>();
  private total = 0;
  private isRead = false;
  private isStale = false;
  private isReading = false;
  private isShown = true;
  private isConnected: boolean | undefined;
  /** Changes that were told while the rows were read. */
  private late: Told[] | null = null;
  private readAt = 0;
  private readonly limit: number;
  private readonly stopped = new AbortController();

  constructor(
    private readonly stream: Stream,
    readonly name: string,
    private readonly listed: Listed,
    private readonly listener: LiveListener,
  ) {
    this.limit = listed.limit ?? MOST_ROWS;
  }

  asked(): JsonObject {
    return { id: this.name, ...this.listed.subscription };
  }

  ready(resumed: boolean): void {
    if (!this.isRead || !resumed) this.read();
  }

  forget(): void {
    this.isRead = false;
  }

  connected(isConnected: boolean): void {
    if (this.isConnected !== isConnected) call(this.listener.connected, (this.isConnected = isConnected));
  }

  ended(error: ApiError): void {
    this.stop();
    fail([this.listener.error], error);
  }

  readonly stop = (): void => {
    this.stopped.abort();
    this.listener.signal?.removeEventListener("abort", this.stop);
    this.stream.remove("subscriptions", this.name);
  };

  told(event: string, data: Told): void {
    if (event === "reset") return this.read();
    // A server of a newer version may tell more.
    if (event !== "change") return;
    const { sort, ...row } = data.row;
    call(this.listener.change, { type: data.type, row });
    if (this.late) this.late.push(data);
    else if (this.isRead) this.apply(data);
  }

  private apply(change: Told): void {
    const { type } = change;
    const row = this.withoutSort(change.row);
    const at = this.rows.findIndex((one) => one.id === row.id);
    if (at >= 0 && this.rows[at]!.updated_at > row.updated_at) return;
    const isWhole = this.total <= this.rows.length;
    const isGone = type === "leave" || type === "delete";
    // Also of a row that is not shown: there is one less in all, or others move up.
    if (!this.listed.isPlain || (isGone ? !isWhole : change.truncated)) return this.read();
    if (isGone && at < 0) return;
    const rows = this.rows.filter((one) => one.id !== row.id);
    if (!isGone) {
      const place = this.placeIn(rows, row as Row);
      const isBehind = place === rows.length && !isWhole;
      // It is one of those behind the last row, as it was.
      if (isBehind && at < 0 && type === "update" && place === this.limit) return;
      if (place < 0 || isBehind) return this.read();
      rows.splice(place, 0, row as Row);
    }
    if (isWhole) this.total = rows.length;
    else if (at < 0 && type !== "update") this.total++;
    this.rows = rows.slice(0, this.limit);
    this.show();
  }

  /** Where a row belongs; -1 if that is not known. */
  private placeIn(rows: Row[], row: Row): number {
    let low = 0;
    try {
      for (let high = rows.length; low < high; ) {
        const middle = (low + high) >> 1;
        if (this.compare(rows[middle]!, row) < 0) low = middle + 1;
        else high = middle;
      }
    } catch {
      return -1;
    }
    return low;
  }

  /** Compares as the server does, by the texts that it gave for the order; throws where they do not tell. */
  private compare(one: Row, other: Row): number {
    const [a, b] = [this.sorts.get(one) ?? one.id, this.sorts.get(other) ?? other.id];
    if (a.startsWith(b) || b.startsWith(a)) throw a;
    return a < b ? -1 : 1;
  }

  /** The row as it is shown; its place in the order is noted. */
  private withoutSort<Shown extends { sort?: string }>({ sort, ...row }: Shown): Omit<Shown, "sort"> {
    if (sort) this.sorts.set(row, sort);
    return row;
  }

  private read(): void {
    this.isStale = true;
    if (!this.isReading) void this.readAll();
  }

  private async readAll(): Promise<void> {
    const { signal } = this.stopped;
    this.isReading = true;
    try {
      while (this.isStale) {
        // Also if it is time: a reset may follow at once.
        await sleep(Math.max(0, this.readAt - Date.now()), signal);
        this.isStale = false;
        this.late = [];
        try {
          const { rows, total } = await this.listed.read(this.limit, signal);
          this.rows = rows.map((row) => this.withoutSort(row));
          this.total = total ?? rows.length;
          this.isRead = true;
        } catch (error) {
          if (signal.aborted) return;
          // Then the stream is opened for a visitor, and the list is read once it is ready.
          if ((error as ApiError).code === "SESSION_ENDED") return this.forget();
          if (!(error instanceof ApiError) || !passes(error)) return this.ended(error as ApiError);
          this.isStale = true;
        }
        this.readAt = Date.now() + (this.isStale ? AFTER_FAILURE : BETWEEN);
        const late = this.late;
        this.late = null;
        if (this.isStale) continue;
        for (const change of late) this.apply(change);
        this.show();
      }
    } catch {
      // Stopped.
    } finally {
      this.isReading = false;
    }
  }

  /** Shows the rows once for all changes that came together. */
  private show(): void {
    if (!this.isShown) return;
    this.isShown = false;
    queueMicrotask(() => {
      this.isShown = true;
      if (!this.stopped.signal.aborted) call(this.listener.rows, this.rows, this.total);
    });
  }
}

/** Keeps a list true until the function that is returned is called, or the signal is aborted. */
export function live(stream: Stream, listed: Listed, given: LiveListener | Required<LiveListener>["rows"]): () => void {
  const listener = typeof given === "function" ? { rows: given } : given;
  const name = stream.name();
  const list = new List(stream, name, listed, listener);
  if (!listener.signal?.aborted) {
    listener.signal?.addEventListener("abort", list.stop);
    stream.add("subscriptions", name, list);
  }
  return list.stop;
}
