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
type Patch = {
    change: (rows: Row<any>[]) => Row<any>[];
    isDone: boolean;
};
/** A list that all components with an equal query share: it is read, or kept true, while one of them shows it. */
export declare class List {
    private readonly query;
    private readonly isLive;
    private readonly end;
    state: ListState<any>;
    private base;
    private limit;
    private readonly listeners;
    private readonly patches;
    private stop;
    private ending;
    private first;
    private settle;
    constructor(query: AnyQuery, isLive: boolean, end: () => void);
    readonly subscribe: (listener: () => void) => (() => void);
    /** Resolves once the list was read, or has failed. */
    read(): Promise<void>;
    begin(): void;
    /** Takes over what a server has rendered. */
    fill(rows: Row<any>[], total: number): void;
    readonly reload: () => void;
    /** Shows as many rows more as the query has asked for. */
    readonly more: () => void;
    /** Changes what is shown until the function that is returned tells how it ended. */
    patch(change: Patch["change"]): (isDone: boolean) => void;
    private set;
    private show;
    private leave;
}
export interface MemberState {
    /** The member who is signed in; null for a visitor, and until `status` is no longer `loading`. */
    member: Member | null;
    status: Status;
    error: ApiError | null;
}
/** What the components below a provider share. */
export declare class Store {
    readonly client: Client<any>;
    member: MemberState;
    private readonly lists;
    /** What a server has read, until lists of the same queries begin. */
    private readonly hydrated;
    private readonly watching;
    private end;
    private asked;
    constructor(client: Client<any>);
    list<Table extends TableTypes>(query: Query<Table>, isLive: boolean): List;
    /** All lists of a query, live or not. */
    listsOf(query: AnyQuery): List[];
    readonly watchMember: (listener: () => void) => (() => void);
    readonly memberNow: () => MemberState;
    private readMember;
    /** The lists that were read, for `hydrate`. */
    dehydrate(): [string, Row<any>[], number][];
    /** Takes over what a server has read. */
    hydrate(lists: [string, Row<any>[], number][]): void;
}
export {};
