// Types of a function's context, for the editor; this file is not deployed.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Row = { id: string; data: Record<string, any>; [field: string]: any };
export type Page<T> = { data: T[]; total_count: number; limit: number; offset: number };

export interface Rows {
  list(values?: Record<string, string | number>): Promise<Page<Row>>;
  get(row: string): Promise<Row>;
  create(data: Record<string, unknown>): Promise<Row>;
  update(row: string, changes: Record<string, unknown>): Promise<Row>;
  delete(row: string): Promise<unknown>;
  query(request?: { where?: unknown; sort?: unknown; limit?: number; offset?: number }): Promise<Page<Row>>;
}

export interface Api {
  /** Calls any route of the app, such as `/v1/public/tables`. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** The rows of a table, by its title or id. */
  rows(table: string): Rows;
  table(table: string): Promise<any>;
  members: {
    list(values?: Record<string, string | number>): Promise<Page<any>>;
    get(member: string): Promise<any>;
    update(member: string, changes: Record<string, unknown>): Promise<any>;
  };
  files(storage: string): {
    list(values?: Record<string, string | number>): Promise<any>;
    get(path: string): Promise<any>;
    delete(file: string): Promise<any>;
    read(path: string): Promise<Uint8Array>;
    write(path: string, data: string | Uint8Array | ArrayBuffer, type?: string): Promise<any>;
  };
  functions: { invoke(name: string, payload?: Record<string, unknown>): Promise<any> };
  workflows: { execute(workflow: string, input?: Record<string, unknown>): Promise<any> };
}

type Log = (...parts: unknown[]) => void;

export interface Context {
  /** Acts as the function, within its scopes. */
  api: Api;
  /** Has the rights of the client that called; null where none did. */
  asCaller: Api | null;
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
