import { type ReactElement, type ReactNode } from "react";
import type { ApiError, AppTypes, AnyApp, CallOptions, Client, FileItem, JsonObject, Query, Row, TableTypes, UploadOptions } from "@pilotis/client";
import { type ListState, type MemberState, type Status } from "./store.js";
export type { ListState, MemberState, Status };
/** Gives a client to the components below. */
export declare function PilotisProvider({ client, children }: {
    client: Client<any>;
    children?: ReactNode;
}): ReactElement;
/** The client of the nearest `PilotisProvider`. */
export declare function usePilotis<App extends AppTypes = AnyApp>(): Client<App>;
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
export declare function useRows<Table extends TableTypes>(query: Query<Table>, options?: RowsOptions): RowsResult<Table["row"]>;
/** One row by its id; `row` is null while it is read, and where there is none. */
export declare function useRow<Table extends TableTypes = any>(table: string, id: string, options?: RowsOptions): Omit<RowsResult<Table["row"]>, "rows" | "total" | "hasMore" | "more"> & {
    row: Row<Table["row"]> | null;
};
/** The member who is signed in: changes with each sign-in and sign-out, also in other tabs. */
export declare function useMember(): MemberState;
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
export declare function useMutation<Values extends unknown[], Result, Table extends TableTypes = any>(work: (...values: Values) => Promise<Result>, optimistic?: Optimistic<Values, Table>): Mutation<Values, Result>;
/** Calls a function of the app. */
export declare function useFunction<Result = any>(name: string): Mutation<[payload?: JsonObject, options?: CallOptions], Result>;
/** Sends files to a storage; `progress` goes from 0 to 1, and `abort` ends it. */
export declare function useUpload(storage: string): Mutation<[content: Blob, options?: UploadOptions], FileItem> & {
    progress: number;
    abort: () => void;
};
/** Reads a query on a server, so that `useRows` has its rows in the first render. */
export declare function prefetch(client: Client<any>, query: Query<any>, options?: RowsOptions): Promise<void>;
/** What was read, as a value that can be sent to the page as JSON. */
export declare function dehydrate(client: Client<any>): unknown;
/** Takes over, before the first render, what `dehydrate` has returned on the server. */
export declare function hydrate(client: Client<any>, state: unknown): void;
/** The options of TanStack Query's `useQuery` for a query: its key, and the function that reads it. */
export declare function rowsOptions<Table extends TableTypes>(query: Query<Table>): {
    queryKey: readonly ["pilotis", JsonObject & {
        table: string;
    }];
    queryFn: ({ signal }: {
        signal?: AbortSignal;
    }) => Promise<import("@pilotis/client").Page<import("@pilotis/client").RowOf<Table>>>;
};
