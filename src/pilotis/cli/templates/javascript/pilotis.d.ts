// Types of a function's context, for the editor; this file is not deployed.
import type * as client from "./client.d.ts";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Row = {
  id: string;
  data: Record<string, any>;
  created_at: string;
  updated_at: string;
  [field: string]: any;
};
export type Page<T> = { data: T[]; total_count: number; limit: number; offset: number };
/** At most `limit` items after the first `offset`. */
export type Range = { limit?: number; offset?: number };

/** Rows in the order of their creation; `fields` are the columns to return, separated by commas, and `expand` those that
 * refer to rows which are shown, too, such as `author,post.author`. */
export type RowRange = Range & { fields?: string; expand?: string; cursor?: string; count?: boolean };
/** Related rows; without `from` or `through` the one to which the column of this name refers. */
export type Related = {
  /** A table and its column that refers to this table, such as `comments.post`. */
  from?: string;
  /** Such a column of a table of pairs, whose column `to` refers to the rows to show. */
  through?: string;
  to?: string;
  where?: Record<string, unknown>;
  order_by?: RowQuery["order_by"];
  order_direction?: "asc" | "desc";
  /** At most 200; by default 10. */
  limit?: number;
  fields?: string[];
  expand?: string[] | Record<string, Related>;
};
/** `next_cursor` is there with a cursor, and null on the last page; `total_count` is null where it was left out. */
export type RowPage = Page<Row> & { next_cursor?: string | null };
export type RowQuery = Range & {
  /** Columns with the value to equal or an object of operators, such as `{ rating: { $gte: 4 } }`. */
  where?: Record<string, unknown>;
  /** A column, or `id`, `created_at` or `updated_at`; or up to three, each of which sorts rows that are equal in those before it. */
  order_by?: string | { column: string; direction?: "asc" | "desc"; ignore_case?: boolean }[];
  order_direction?: "asc" | "desc";
  /** The columns to return. */
  fields?: string[];
  /** Related rows to show in `expanded`: columns that refer to rows, such as `post.author`, or names with options. */
  expand?: string[] | Record<string, Related>;
  /** How many rows refer to a row, in `counts`; with `exists` whether any does. */
  counts?: Record<string, { from: string; where?: Record<string, unknown>; exists?: boolean }>;
  /** Whether each row has `sort`, a text that compares as the rows are ordered. */
  with_sort?: boolean;
  /** `first`, and then each answer's `next_cursor`, until that is null. */
  cursor?: string;
  /** Whether to count all rows found: true without a cursor, else false. */
  count?: boolean;
};
export type MemberQuery = Range & {
  search?: string; is_guest?: boolean; is_active?: boolean; email?: string; role?: string; team_id?: string; provider?: string;
  factor?: "totp" | "passkey" | "recovery_code"; created_after?: string; active_after?: string;
};
export type MemberChange = { nickname?: string | null; email?: string | null; is_active?: boolean; custom_data?: Record<string, unknown>; roles?: string[]; claims?: Record<string, unknown>; banned_until?: string | null; ban_reason?: string | null };
export type FileQuery = Range & { parent_id?: string; search?: string; created_by?: string };
export type FileList = { files: any[]; total_count: number; limit: number; offset: number };

/**
 * The rows of a table, with the builder of queries that the client has: `where`, `all`, `by`, `createMany`, `upsert`,
 * `aggregate`, `search` and so on. There are no live lists.
 */
export interface Rows extends Omit<client.Rows<client.AnyTable>, "live" | "delete"> {
  /** A page, as the API answers it; `all()` is the builder's. */
  list(range?: RowRange): Promise<RowPage>;
  delete(row: client.Row | string): Promise<unknown>;
  /** A page of the rows of a request to the API; `where()` is the builder's. */
  query(request?: RowQuery): Promise<RowPage>;
}

export interface Api {
  /** Calls any route of the app, such as `/v1/public/tables`. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** The rows of a table, by its title or id. */
  rows(table: string): Rows;
  /** Runs operations that all succeed or all fail; `batch` runs each by itself. */
  transaction(collect: (operations: client.Operations<client.AnyApp>) => void): Promise<client.OperationResult[]>;
  batch(collect: (operations: client.Operations<client.AnyApp>) => void): Promise<client.OperationResult[]>;
  table(table: string): Promise<any>;
  /** The documents of a saved view, with the values of its parameters. */
  view<Item = any>(name: string, params?: Record<string, unknown>): Promise<{ data: Item[]; total_count: number }>;
  members: {
    list(query?: MemberQuery): Promise<Page<any>>;
    get(member: string): Promise<any>;
    update(member: string, changes: MemberChange): Promise<any>;
  };
  files(storage: string): {
    list(query?: FileQuery): Promise<FileList>;
    get(path: string): Promise<any>;
    delete(file: string): Promise<any>;
    read(path: string): Promise<Uint8Array>;
    write(path: string, data: string | Uint8Array | ArrayBuffer, type?: string): Promise<any>;
  };
  functions: { invoke(name: string, payload?: Record<string, unknown>): Promise<any> };
  /** Needs the scope `channels:send`. */
  channel(name: string): { send(event: string, payload?: unknown): Promise<{ ids: string[] }> };
  workflows: { execute(workflow: string, input?: Record<string, unknown>): Promise<any> };
}

type Log = (...parts: unknown[]) => void;

export interface Context {
  /** Acts as the function, within its scopes. */
  api: Api;
  /** Has the rights of the client that called; null where none did. */
  asCaller: Api | null;
  /** Has the rights of a member, by its id; needs the scope `members:act`. */
  asMember(member: string): Api;
  /**
   * Returns a token for libraries that call the API over HTTP, with the scopes of `api`: `Authorization: Bearer …`. It
   * is valid until this call ends, and needs an `egress` that permits the server's address.
   */
  token(): Promise<string>;
  env: Readonly<Record<string, string>>;
  log: { debug: Log; info: Log; warn: Log; error: Log };
  headers: Readonly<Record<string, string>>;
  method: string;
  caller: { type: string; id: string | null };
  /** The claims of the caller's OAuth access token. */
  claims: Record<string, unknown> | null;
  trigger: { type: string; id?: string };
  executionId: string;
  functionId: string;
  functionName: string;
  version: number | "draft";
  appId: string;
  /** Milliseconds since 1970 at which the call ends. */
  deadline: number;
  idempotencyKey: string;
  attempt: number;
  /** Only in the webhook form: */
  rawBody?: string;
  rawBodyBase64?: string;
  query?: Record<string, string>;
}

declare global {
  /** What methods of `ctx.api` other than `fetch` throw for a status of 400 or more. */
  class ApiError extends Error {
    status: number;
    code: string;
  }
}
