import {
  createContext,
  createElement,
  useCallback,
  useContext,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
  type ReactElement,
  type ReactNode,
} from "react";
import type { ApiError, AppTypes, AnyApp, CallOptions, Client, FileItem, JsonObject, Query, Row, TableTypes, UploadOptions } from "@pilotis/client";
import { Store, type ListState, type MemberState, type Status } from "./store.ts";

export type { ListState, MemberState, Status };

const stores = new WeakMap<object, Store>();
function storeOf(client: Client<any>): Store {
  let store = stores.get(client);
  if (!store) stores.set(client, (store = new Store(client)));
  return store;
}

const Context = createContext<Client<any> | null>(null);

/** Gives a client to the components below. */
export function PilotisProvider({ client, children }: { client: Client<any>; children?: ReactNode }): ReactElement {
  return createElement(Context.Provider, { value: client }, children);
}

/** The client of the nearest `PilotisProvider`. */
export function usePilotis<App extends AppTypes = AnyApp>(): Client<App> {
  const client = useContext(Context);
  if (!client) throw new Error("There is no <PilotisProvider> around this component.");
  return client as Client<App>;
}

export interface RowsOptions {
  /** Whether the list stays true, as by `live`: true by default. */
  live?: boolean;
  /** Whether the component suspends until the rows are read, and throws an error to the nearest boundary. */
  suspense?: boolean;
}
export interface RowsResult<Data> extends ListState<Data> {
  /** Whether there are rows that `more` would show. */
  hasMore: boolean;
  more: () => void;
  reload: () => void;
}

/**
 * The rows of a query, such as `pilotis.rows("orders").where({ state: "open" })`. Components with an equal query share
 * one list and one request; without `limit` it begins with 20 rows.
 */
export function useRows<Table extends TableTypes>(query: Query<Table>, options: RowsOptions = {}): RowsResult<Table["row"]> {
  const client = usePilotis<any>();
  const isLive = options.live ?? true;
  const key = JSON.stringify(query);
  const list = useMemo(() => storeOf(client).list(query, isLive), [client, key, isLive]);
  const now = useCallback(() => list.state, [list]);
  const state = useSyncExternalStore(list.subscribe, now, now);
  if (options.suspense && state.status === "loading") throw list.read();
  if (options.suspense && state.status === "error") throw state.error;
  return { ...state, hasMore: state.rows.length < state.total, more: list.more, reload: list.reload };
}

/** One row by its id; `row` is null while it is read, and where there is none. */
export function useRow<Table extends TableTypes = any>(
  table: string,
  id: string,
  options?: RowsOptions,
): Omit<RowsResult<Table["row"]>, "rows" | "total" | "hasMore" | "more"> & { row: Row<Table["row"]> | null } {
  const client = usePilotis<any>();
  const { rows, status, error, isConnected, reload } = useRows(client.rows(table).where({ id }).limit(1), options);
  return { row: rows[0] ?? null, status, error, isConnected, reload };
}

/** The member who is signed in: changes with each sign-in and sign-out, also in other tabs. */
export function useMember(): MemberState {
  const store = storeOf(usePilotis<any>());
  return useSyncExternalStore(store.watchMember, store.memberNow, store.memberNow);
}

export interface Mutation<Values extends unknown[], Result> {
  /** Does it; resolves to the result, or rejects, which `error` has as well. */
  run: (...values: Values) => Promise<Result>;
  status: "idle" | Status;
  error: ApiError | null;
  result: Result | undefined;
  reset: () => void;
}
/** What lists of a query show while it is done: it is taken back if it fails. */
export interface Optimistic<Values extends unknown[], Table extends TableTypes> {
  query: Query<Table>;
  change: (rows: Row<Table["row"]>[], ...values: Values) => Row<Table["row"]>[];
}

/** A write, with its status; the newest call counts. */
export function useMutation<Values extends unknown[], Result, Table extends TableTypes = any>(
  work: (...values: Values) => Promise<Result>,
  optimistic?: Optimistic<Values, Table>,
): Mutation<Values, Result> {
  type Now = Pick<Mutation<Values, Result>, "status" | "error" | "result">;
  const idle: Now = { status: "idle", error: null, result: undefined };
  const store = storeOf(usePilotis<any>());
  const [now, set] = useState(idle);
  const number = useRef(0);
  // What is called is what the last render was given.
  const latest = useRef({ work, optimistic });
  latest.current = { work, optimistic };
  const run = useCallback(
    async (...values: Values): Promise<Result> => {
      const mine = ++number.current;
      const { work, optimistic } = latest.current;
      const ends = optimistic ? store.listsOf(optimistic.query).map((list) => list.patch((rows) => optimistic.change(rows, ...values))) : [];
      set({ ...idle, status: "loading" });
      try {
        const result = await work(...values);
        for (const end of ends) end(true);
        if (mine === number.current) set({ status: "ready", error: null, result });
        return result;
      } catch (error) {
        for (const end of ends) end(false);
        if (mine === number.current) set({ status: "error", error: error as ApiError, result: undefined });
        throw error;
      }
    },
    [store],
  );
  const reset = useCallback(() => {
    number.current++;
    set(idle);
  }, []);
  return { ...now, run, reset };
}

/** Calls a function of the app. */
export function useFunction<Result = any>(name: string): Mutation<[payload?: JsonObject, options?: CallOptions], Result> {
  const client = usePilotis();
  return useMutation((payload?: JsonObject, options?: CallOptions) => client.functions.invoke<Result>(name, payload, options));
}

/** Sends files to a storage; `progress` goes from 0 to 1, and `abort` ends it. */
export function useUpload(
  storage: string,
): Mutation<[content: Blob, options?: UploadOptions], FileItem> & { progress: number; abort: () => void } {
  const client = usePilotis();
  const [progress, set] = useState(0);
  const aborting = useRef<AbortController>(null);
  const mutation = useMutation(async (content: Blob, options: UploadOptions = {}) => {
    const controller = new AbortController();
    aborting.current = controller;
    const { signal } = options;
    const abort = () => controller.abort(signal!.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort);
    set(0);
    const onProgress: UploadOptions["onProgress"] = (told) => {
      set(told.total ? told.sent / told.total : 1);
      options.onProgress?.(told);
    };
    try {
      return await client.files(storage).upload(content, { ...options, signal: controller.signal, onProgress });
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  });
  return { ...mutation, progress, abort: useCallback(() => aborting.current?.abort(), []) };
}

/** Reads a query on a server, so that `useRows` has its rows in the first render. */
export async function prefetch(client: Client<any>, query: Query<any>, options: RowsOptions = {}): Promise<void> {
  // Nothing is kept true on a server.
  const { rows, total } = await query;
  storeOf(client).list(query, options.live ?? true).fill(rows, total ?? rows.length);
}

/** What was read, as a value that can be sent to the page as JSON. */
export function dehydrate(client: Client<any>): unknown {
  return storeOf(client).dehydrate();
}

/** Takes over, before the first render, what `dehydrate` has returned on the server. */
export function hydrate(client: Client<any>, state: unknown): void {
  storeOf(client).hydrate(state as ReturnType<Store["dehydrate"]>);
}

/** The options of TanStack Query's `useQuery` for a query: its key, and the function that reads it. */
export function rowsOptions<Table extends TableTypes>(query: Query<Table>) {
  return {
    queryKey: ["pilotis", query.toJSON()] as const,
    queryFn: ({ signal }: { signal?: AbortSignal }) => query.run({ signal }),
  };
}
