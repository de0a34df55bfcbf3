import type { ApiError, Client, Member, Query, Row, TableTypes } from "@pilotis/client";

export type Status = "loading" | "ready" | "error";
/** What a list is at a moment; it is replaced, never changed. */
export interface ListState<Data> {
  rows: Row<Data>[];
  /** How many rows there are in all. */
  total: number;
  status: Status;
  error: ApiError | null;
  /** Of a live list: whether the connection stands. */
  isConnected: boolean;
}
type AnyQuery = Query<any>;
type Patch = { change: (rows: Row<any>[]) => Row<any>[]; isDone: boolean };

const EMPTY: ListState<any> = { rows: [], total: 0, status: "loading", error: null, isConnected: false };
/** Milliseconds for which a list is kept that nobody shows: React mounts twice in strict mode, and pages come back. */
const KEPT = 1000;
const PAGE = 20;

/** A list that all components with an equal query share: it is read, or kept true, while one of them shows it. */
export class List {
  state: ListState<any> = EMPTY;
  private base = EMPTY;
  private limit: number;
  private readonly listeners = new Set<() => void>();
  private readonly patches = new Set<Patch>();
  private stop: (() => void) | null = null;
  private ending: ReturnType<typeof setTimeout> | undefined;
  private first: Promise<void> | null = null;
  private settle: () => void = () => {};

  constructor(
    private readonly query: AnyQuery,
    private readonly isLive: boolean,
    private readonly end: () => void,
  ) {
    this.limit = query.toJSON().limit ?? PAGE;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    this.begin();
    return () => {
      this.listeners.delete(listener);
      this.leave();
    };
  };

  /** Resolves once the list was read, or has failed. */
  read(): Promise<void> {
    this.first ??= new Promise((resolve) => (this.settle = resolve));
    this.begin();
    // It may never be shown: what suspends may be thrown away. But it is read to its end, which React waits for.
    void this.first.then(() => this.leave());
    return this.first;
  }

  begin(): void {
    clearTimeout(this.ending);
    if (this.stop) return;
    const query = this.query.limit(this.limit);
    const stopped = new AbortController();
    const { signal } = stopped;
    this.stop = () => stopped.abort();
    const rows = (rows: Row<any>[], total: number) => this.set({ rows, total, status: "ready", error: null });
    const error = (error: ApiError) => this.set({ status: "error", error });
    if (this.isLive) return void query.live({ rows, error, connected: (isConnected) => this.set({ isConnected }), signal });
    query.run({ signal }).then(
      (page) => rows(page.rows, page.total ?? page.rows.length),
      (reason) => signal.aborted || error(reason),
    );
  }

  /** Takes over what a server has rendered. */
  fill(rows: Row<any>[], total: number): void {
    this.set({ rows, total, status: "ready" });
  }

  readonly reload = (): void => {
    this.stop?.();
    this.stop = null;
    if (this.listeners.size) this.begin();
  };

  /** Shows as many rows more as the query has asked for. */
  readonly more = (): void => {
    this.limit += this.query.toJSON().limit ?? PAGE;
    this.reload();
  };

  /** Changes what is shown until the function that is returned tells how it ended. */
  patch(change: Patch["change"]): (isDone: boolean) => void {
    const patch: Patch = { change, isDone: false };
    this.patches.add(patch);
    this.show();
    return (isDone) => {
      patch.isDone = isDone;
      if (!isDone) this.patches.delete(patch);
      else if (!this.isLive) this.reload();
      // The change was made: it is shown until the list tells of it, or has told already.
      if (isDone) setTimeout(() => this.patches.delete(patch) && this.show(), KEPT);
      this.show();
    };
  }

  private set(change: Partial<ListState<any>>): void {
    this.base = { ...this.base, ...change };
    if (change.rows) for (const patch of this.patches) if (patch.isDone) this.patches.delete(patch);
    this.show();
    if (this.base.status !== "loading") this.settle();
  }

  private show(): void {
    let rows = this.base.rows;
    for (const { change } of this.patches) rows = change(rows);
    this.state = { ...this.base, rows };
    for (const listener of this.listeners) listener();
  }

  private leave(): void {
    clearTimeout(this.ending);
    if (this.listeners.size) return;
    this.ending = setTimeout(() => {
      this.stop?.();
      this.stop = null;
      this.end();
    }, KEPT);
  }
}

export interface MemberState {
  /** The member who is signed in; null for a visitor, and until `status` is no longer `loading`. */
  member: Member | null;
  status: Status;
  error: ApiError | null;
}

/** What the components below a provider share. */
export class Store {
  member: MemberState = { member: null, status: "loading", error: null };
  private readonly lists = new Map<string, List>();
  /** What a server has read, until lists of the same queries begin. */
  private readonly hydrated = new Map<string, [Row<any>[], number]>();
  private readonly watching = new Set<() => void>();
  private end: (() => void) | null = null;
  private asked = 0;

  constructor(readonly client: Client<any>) {}

  list<Table extends TableTypes>(query: Query<Table>, isLive: boolean): List {
    const key = `${isLive}${JSON.stringify(query)}`;
    let found = this.lists.get(key);
    if (!found) {
      this.lists.set(key, (found = new List(query, isLive, () => this.lists.delete(key))));
      const known = this.hydrated.get(key);
      if (known) found.fill(...known);
      this.hydrated.delete(key);
    }
    return found;
  }

  /** All lists of a query, live or not. */
  listsOf(query: AnyQuery): List[] {
    return [true, false].flatMap((isLive) => this.lists.get(`${isLive}${JSON.stringify(query)}`) ?? []);
  }

  readonly watchMember = (listener: () => void): (() => void) => {
    this.watching.add(listener);
    if (!this.end) {
      this.end = this.client.members.onChange((event) => {
        if (event.type !== "refreshed") void this.readMember();
      });
      void this.readMember();
    }
    return () => {
      this.watching.delete(listener);
      if (this.watching.size) return;
      this.end?.();
      this.end = null;
    };
  };

  readonly memberNow = (): MemberState => this.member;

  private async readMember(): Promise<void> {
    const number = ++this.asked;
    let now: MemberState = { member: null, status: "ready", error: null };
    try {
      const session = await this.client.members.session();
      if (session) now = { ...now, member: await this.client.members.me() };
    } catch (error) {
      now = { member: null, status: "error", error: error as ApiError };
    }
    if (number !== this.asked) return;
    this.member = now;
    for (const listener of this.watching) listener();
  }

  /** The lists that were read, for `hydrate`. */
  dehydrate(): [string, Row<any>[], number][] {
    return [...this.lists].filter(([, { state }]) => state.status === "ready").map(([key, { state }]) => [key, state.rows, state.total]);
  }

  /** Takes over what a server has read. */
  hydrate(lists: [string, Row<any>[], number][]): void {
    for (const [key, rows, total] of lists) this.hydrated.set(key, [rows, total]);
  }
}
