// The client's types, for pilotis.d.ts; this file is not deployed.
/** What the API answers with a status of 400 or more, or what the client met instead of an answer. */
export declare class ApiError extends Error {
  /** The status of the answer; 0 without one. */
  readonly status: number;
  readonly code: ErrorCode;
  readonly requestId: string | null;
  /** Which fields of the request are wrong. */
  readonly details: { field: string; code: string; message: string }[];
  /** Seconds after which the server asks to try again. */
  readonly retryAfter: number | null;
  /** The whole body of the answer, such as the `key` and the `existing_id` of a unique key's violation. */
  readonly body: Record<string, unknown>;
  /** The execution of a function that failed. */
  readonly executionId: string | null;
}
/**
 * The codes of the server, and those of the client: `NETWORK` without an answer, `TIMEOUT` without one in time,
 * `SESSION_ENDED` if the member must sign in again, `UNSAFE_NUMBER` for a number that JavaScript would round,
 * `FUNCTION_ERROR` for a function that failed, `BAD_ANSWER` for what is not JSON, `NOT_A_PAGE` where `signInWithPage`
 * cannot be, `NOT_SUPPORTED_BY_SERVER` for a route that a server of an older version lacks.
 */
export type ErrorCode =
  "NETWORK" | "TIMEOUT" | "SESSION_ENDED" | "UNSAFE_NUMBER" | "FUNCTION_ERROR" | "BAD_ANSWER" | "NOT_A_PAGE" | "NOT_SUPPORTED_BY_SERVER" | (string & {});

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = Record<string, any>;
export type Increment = { $inc: number };

/** The types of a table: of its rows, of a new row, its unique keys, its encrypted columns and the rows it refers to. */
export interface TableTypes {
  row: JsonObject;
  new: JsonObject;
  keys: string;
  encrypted: string;
  /** The rows to which columns refer, by the columns, as `expand` shows them. */
  expanded?: Record<string, any>;
}
/** The types of an app, as `pilotis types` writes them. */
export interface AppTypes {
  tables: { [title: string]: TableTypes };
}
export interface AnyTable {
  row: JsonObject;
  new: JsonObject;
  keys: string;
  encrypted: never;
}
export interface AnyApp {
  tables: { [title: string]: AnyTable };
}

export interface Row<Data = JsonObject, Expanded = Record<string, any>> {
  id: string;
  data: Data;
  created_at: string;
  updated_at: string;
  created_by?: string | null;
  /** Related rows, where `expand` asks for them. */
  expanded?: Expanded;
  expanded_more?: string[];
  counts?: Record<string, number | boolean>;
}
/** A row of a table. */
export type RowOf<Table extends TableTypes> = Row<Table["row"], Table extends { expanded: infer Expanded extends Record<string, any> } ? Expanded : Record<string, any>>;
export interface Page<Item> {
  rows: Item[];
  /** How many rows there are in all; null where they were not counted. */
  total: number | null;
  /** Where the next page begins: `page({ cursor })`; null on the last page. */
  cursor: string | null;
}

type Comparable = { $gt?: number | string; $gte?: number | string; $lt?: number | string; $lte?: number | string };
type Texts = {
  $contains?: string;
  $startsWith?: string;
  $endsWith?: string;
  $ieq?: string;
  $icontains?: string;
  $istartsWith?: string;
  $matches?: string;
};
type Equality<Value> = { $eq?: Value | null; $ne?: Value | null; $in?: Value[]; $nin?: Value[]; $isNull?: boolean };
/** The operators of `where` for a column's type. */
export type Operators<Value> = Equality<Value> & { $not?: Operators<Value> } & (Value extends string
    ? Comparable & Texts & { $between?: [string, string] }
    : Value extends number
      ? Comparable & { $between?: [number, number] }
      : Value extends readonly (infer Item)[]
        ? { $arrayContains?: Item; $arrayContainsAny?: Item[] }
        : unknown);
/** A condition on the columns of a row; a name with a point leads into an object or along a reference. */
export type Where<Table extends TableTypes = AnyTable> = {
  [Column in keyof Table["row"]]?:
    | NonNullable<Table["row"][Column]>
    | null
    | (Column extends Table["encrypted"]
        ? Equality<NonNullable<Table["row"][Column]>>
        : Operators<NonNullable<Table["row"][Column]>>);
} & {
  [path: `${string}.${string}`]: unknown;
  $and?: Where<Table>[];
  $or?: Where<Table>[];
  $not?: Where<Table>;
} & Facts<Table["row"]>;
type Facts<Data> = { [Name in Exclude<"id" | "created_at" | "updated_at" | "created_by", keyof Data>]?: string | null | Operators<string> };

type Column<Table extends TableTypes> = (keyof Table["row"] & string) | "id" | "created_at" | "updated_at";
/** What an update may set: null empties a column that is not required. */
export type Changes<Table extends TableTypes> = {
  [Name in keyof Table["row"]]?: Table["row"][Name] | (NonNullable<Table["row"][Name]> extends number ? Increment : never);
};

/** Related rows; without `from` or `through` the one to which the column of this name refers. */
export interface Related {
  from?: string;
  through?: string;
  to?: string;
  where?: JsonObject;
  order_by?: string | { column: string; direction?: "asc" | "desc"; ignore_case?: boolean }[];
  order_direction?: "asc" | "desc";
  limit?: number;
  fields?: string[];
  expand?: string[] | Record<string, Related>;
}
export interface CallOptions {
  signal?: AbortSignal;
  /** Milliseconds after which the call fails with `TIMEOUT`, repeats included. */
  timeout?: number;
}

export type RowChange<Data = JsonObject> = {
  /** `enter`: the row did not match, or was not visible, and does now; `leave`: it does not match any more. */
  type: "create" | "update" | "enter" | "leave" | "delete";
  /** After `leave` and `delete` it has `id` and `updated_at` alone. */
  row: Pick<Row<Data>, "id" | "updated_at"> & Partial<Row<Data>>;
  /** Whether the row is too large to be sent: read it by its id. */
  truncated?: boolean;
};
/** Who is told of a live list. */
export interface LiveListener<Data = JsonObject> {
  /** Called with the rows, and how many there are in all: first when they have been read, then each time they change. */
  rows?: (rows: Row<Data>[], total: number) => void;
  /** Called with each change, for what a list does not show, such as a sound. One may be told twice. */
  change?: (change: RowChange<Data>) => void;
  /** Called with false when the connection is lost, and with true when the list is live again. */
  connected?: (isConnected: boolean) => void;
  /** Called when the list has ended, such as where the caller may not read it. Without it the error is thrown. */
  error?: (error: ApiError) => void;
  /** Ends the list, as the function that `live` returns. */
  signal?: AbortSignal;
}
/** Who is told of a live row. */
export type LiveRowListener<Data = JsonObject> = Omit<LiveListener<Data>, "rows"> & {
  /** Called with the row, and again each time it changes: null while there is none, or none that the caller may see. */
  row?: (row: Row<Data> | null) => void;
};
export interface ChannelMessage<Payload = any> {
  id: string;
  channel: string;
  event: string;
  payload: Payload;
  /** The signed-in member that sent it, as the server knows it; null for all others. */
  from: { member_id: string } | null;
  at: string;
  /** Whether it was sent before this page listened, and the channel has kept it. */
  replay?: boolean;
}
/** A page, or another program, that is present in a channel. */
export interface Present<State = any> {
  /** Tells it from others of the same member. */
  key: string;
  member_id: string | null;
  state: State;
}
export interface ChannelOptions {
  /** Called where messages may have been missed, as after a lost connection. */
  missed?: () => void;
  /** Called when nothing is told any more, as where the caller may not listen. Without it the error is thrown. */
  error?: (error: ApiError) => void;
  signal?: AbortSignal;
}
/** A channel that the app has declared. */
export interface Channel {
  readonly name: string;
  /** Calls a function with each message of an event; returns what ends that. A sender gets none of its own. */
  on<Payload = any>(event: string, listener: (payload: Payload, message: ChannelMessage<Payload>) => void, options?: ChannelOptions): () => void;
  /** Sends a message to those who listen, at most once; resolves to its id. */
  send(event: string, payload?: unknown, options?: CallOptions): Promise<string>;
  /** Calls a function with those who are present, now and each time that changes; above 200 with their number alone. */
  present<State = any>(listener: (present: Present<State>[], count: number) => void, options?: ChannelOptions): () => void;
  /** Is present from now on, with a state that the others see; a second call changes the state. */
  enter(state?: JsonObject): Promise<void>;
  leave(): Promise<void>;
}

/** An immutable question to a table. `await` runs it, and `for await` reads one row after the other, page by page. */
export interface Query<Table extends TableTypes = AnyTable> extends PromiseLike<Page<RowOf<Table>>>, AsyncIterable<RowOf<Table>> {
  /** Adds a condition: rows satisfy all that were added. */
  where(condition: Where<Table>): Query<Table>;
  /** Sorts by a column; a second call sorts those that are equal by the first. */
  orderBy(column: Column<Table> | (string & {}), direction?: "asc" | "desc", options?: { ignoreCase?: boolean }): Query<Table>;
  /** How many rows to read at most: 20 by default, as one page at most 1000, and all in `for await`. */
  limit(rows: number): Query<Table>;
  offset(rows: number): Query<Table>;
  /** Reads these columns only. */
  fields(...columns: Column<Table>[]): Query<Table>;
  /** Shows related rows in `expanded`: columns that refer to rows, such as `author`, or names with options. */
  expand(...related: (string | Record<string, Related>)[]): Query<Table>;
  /** Counts the rows that refer to a row, in `counts`. */
  counts(counts: Record<string, { from: string; where?: JsonObject; exists?: boolean }>): Query<Table>;
  /** What it asks, as JSON: equal questions have equal texts. */
  toJSON(): JsonObject & { table: string };
  run(options?: CallOptions): Promise<Page<RowOf<Table>>>;
  /** Reads a page by cursor, the first without one: it stays right while rows are added before it. */
  page(options?: CallOptions & { cursor?: string | null }): Promise<Page<RowOf<Table>>>;
  /**
   * Keeps a list true: calls a function with the rows, and again each time that they change; returns what ends that. It
   * has `limit` rows, by default the first 1000.
   */
  live(listener: LiveListener<Table["row"]> | ((rows: RowOf<Table>[], total: number) => void)): () => void;
  first(options?: CallOptions): Promise<RowOf<Table> | null>;
  count(options?: CallOptions): Promise<number>;
  /** Changes all rows that satisfy the condition, or none, and returns how many. */
  update(changes: Changes<Table>, options?: CallOptions & { maxRows?: number }): Promise<number>;
  /** Deletes all rows that satisfy the condition, and returns how many. */
  delete(options?: CallOptions): Promise<number>;
}

/** The rows of a table. */
export interface Rows<Table extends TableTypes = AnyTable> {
  where(condition: Where<Table>): Query<Table>;
  /** All rows. */
  all(): Query<Table>;
  /** Keeps a list of all rows true, up to 1000; see `Query`. */
  live(listener: LiveListener<Table["row"]> | ((rows: RowOf<Table>[], total: number) => void)): () => void;
  /** Keeps one row true: calls a function with it, or null, and again each time that it changes; returns what ends that. */
  live(id: string, listener: LiveRowListener<Table["row"]> | ((row: RowOf<Table> | null) => void)): () => void;
  get(id: string, options?: CallOptions & { fields?: Column<Table>[]; expand?: string[] }): Promise<RowOf<Table>>;
  create(data: Table["new"], options?: CallOptions): Promise<RowOf<Table>>;
  /** Creates rows; `failed` says which were not, and why. Rejects if there is none that was. */
  createMany(data: Table["new"][], options?: CallOptions): Promise<{
    created: RowOf<Table>[];
    failed: { index: number; code: string; message: string; key?: string; existing_id?: string }[];
  }>;
  /** Changes the given columns: of a row that was read only if nobody has changed it since, of an id in any case. */
  update(row: Row<Table["row"]> | string, changes: Changes<Table>, options?: CallOptions): Promise<RowOf<Table>>;
  /** Creates the row, or changes the one with the same values in a unique key. */
  upsert(key: Table["keys"], data: Table["new"], options?: CallOptions & { mode?: "merge" | "replace" | "ignore" }): Promise<
    RowOf<Table> & { created: boolean }
  >;
  delete(row: Row<Table["row"]> | string, options?: CallOptions): Promise<void>;
  /** The row with these values in a unique key. */
  by(key: Table["keys"], ...values: (string | number | boolean)[]): {
    get(options?: CallOptions & { fields?: Column<Table>[]; expand?: string[] }): Promise<RowOf<Table>>;
    update(changes: Changes<Table>, options?: CallOptions): Promise<RowOf<Table>>;
    delete(options?: CallOptions): Promise<void>;
  };
  /** The documents of a pipeline, such as `[{ $group: { _id: "$state", n: { $sum: 1 } } }]`. */
  aggregate<Item = JsonObject>(pipeline: JsonObject[], options?: CallOptions): Promise<Item[]>;
  search(text: string, options?: CallOptions & SearchOptions<Table>): Promise<Page<RowOf<Table> & { score: number; highlights: Record<string, string> }>>;
  autocomplete(text: string, field: Column<Table>, options?: CallOptions & { limit?: number; where?: Where<Table> }): Promise<string[]>;
  /** Rows by the place in a column: exactly one of `near`, `within` and `polygon`. */
  geo(field: Column<Table>, place: GeoPlace, options?: CallOptions & { limit?: number; offset?: number; where?: Where<Table> }): Promise<
    Page<RowOf<Table> & { distance: number }>
  >;
}
export interface SearchOptions<Table extends TableTypes> {
  fields?: Column<Table>[];
  limit?: number;
  offset?: number;
  where?: Where<Table>;
}
export type Coordinates = { latitude: number; longitude: number };
export type GeoPlace =
  | { near: { center: Coordinates; max_distance?: number } }
  | { within: { south_west: Coordinates; north_east: Coordinates } | { center: Coordinates; radius: number } }
  | { polygon: { points: Coordinates[] } | JsonObject };

/** A row that an earlier operation creates: use it as a value of a column, or as the row of a later operation. */
export interface RowReference {
  $ref: number;
}
/** Collects operations. */
export interface Operations<App extends AppTypes> {
  create<Title extends keyof App["tables"] & string>(table: Title, data: Referring<App["tables"][Title]["new"]>): RowReference;
  update<Title extends keyof App["tables"] & string>(
    table: Title,
    row: string | Row | RowReference,
    changes: Referring<Changes<App["tables"][Title]>>,
  ): RowReference;
  upsert<Title extends keyof App["tables"] & string>(
    table: Title,
    key: App["tables"][Title]["keys"],
    data: Referring<App["tables"][Title]["new"]>,
    mode?: "merge" | "replace" | "ignore",
  ): RowReference;
  delete<Title extends keyof App["tables"] & string>(table: Title, row: string | Row | RowReference): void;
}
type Referring<Data> = { [Name in keyof Data]: Data[Name] | RowReference };
export interface OperationResult {
  index: number;
  type: string;
  success: boolean;
  id?: string | null;
  data?: JsonObject | null;
  updated_at?: string | null;
  created?: boolean | null;
  error?: { code: string; message: string } | null;
}

export interface Session {
  member_id: string;
  access_token: string;
  refresh_token: string;
}
export interface Member {
  member_id: string;
  nickname: string | null;
  is_active: boolean;
  custom_data: JsonObject;
}
export interface Account extends Member {
  login_id: string | null;
  is_guest: boolean;
  roles: string[];
  claims: JsonObject;
  created_at: string;
  email: string | null;
  pending_email: string | null;
  language: string | null;
}
/**
 * `signed_out` has the reason `asked`, if this or another tab signed out, or `ended`, if the server ended the session.
 * `sign_in_failed` tells that the sign-in with which a page of the server sent the browser back was not taken over.
 */
export type SessionEvent =
  | { type: "signed_in" | "refreshed"; member_id: string }
  | { type: "sign_in_failed"; error: ApiError }
  | { type: "signed_out"; reason: "asked" | "ended" };
/** Which page of the server signs in, in which language, and to which address it sends the browser back. */
export interface PageOptions {
  page?: "sign-in" | "sign-up";
  language?: string;
  redirectUri?: string;
}
/** Where a client keeps its session, its unfinished uploads, and what tells the server who has signed in here before. */
export interface SessionStorage {
  get(name: string): string | null | undefined | Promise<string | null | undefined>;
  set(name: string, value: string): void | Promise<void>;
  remove(name: string): void | Promise<void>;
}
/** The member who is signed in. Tokens are renewed, stored and shared with other tabs by the client. */
export interface Members {
  /** `profile` says what the app's `sign_up_fields` ask for, `invitation` is the token of a mailed invitation. */
  signUp(data: { login_id: string; password: string; nickname?: string; email?: string; language?: string; profile?: JsonObject; invitation?: string }): Promise<Session & { nickname: string | null }>;
  signIn(data: { login_id: string; password: string }): Promise<Session & { nickname: string | null }>;
  /**
   * Leaves this page for the app's account pages, which send the browser back signed in. The next client takes the session
   * over on its own, and tells `signed_in` or `sign_in_failed`. The app's `login_redirect_uris` have the address to come
   * back to, by default that of this page without its query.
   */
  signInWithPage(options?: PageOptions): Promise<never>;
  /** Signs in as a new guest. */
  guest(): Promise<Session>;
  /** Makes the guest who is signed in a member, who keeps its rows. */
  promote(data: { login_id: string; password: string; nickname?: string; email?: string; language?: string; profile?: JsonObject; invitation?: string }): Promise<Session & { nickname: string | null }>;
  signOut(): Promise<void>;
  /** The session that is stored, or null: without a request. */
  session(): Promise<Session | null>;
  /** An access token that is valid for a while, or null for a visitor: for programs beside the server. */
  token(): Promise<string | null>;
  /** Stores a session from elsewhere, such as one from a page of the server. */
  setSession(session: Session): Promise<void>;
  me(options?: CallOptions): Promise<Member>;
  account(options?: CallOptions): Promise<Account>;
  update(data: { nickname: string | null }): Promise<Member>;
  /** Merges into the member's own data; null deletes a key. */
  setCustomData(data: JsonObject): Promise<JsonObject>;
  setPassword(currentPassword: string, newPassword: string): Promise<void>;
  /** Resolves to the time until which the member may come back, or to null where it is gone. */
  deleteAccount(password?: string): Promise<string | null>;
  /** Keeps the account of a member that has deleted it, and has signed in again before it is gone. */
  restore(): Promise<Account>;
  /** Mails a code and a link to a new address; `confirmEmail` takes the code with the ticket. */
  setEmail(email: string): Promise<{ ticket: string; expires_at: string }>;
  confirmEmail(proof: { code: string; ticket: string } | { token: string }): Promise<Account>;
  requestPasswordReset(who: { login_id: string } | { email: string }): Promise<void>;
  resetPassword(token: string, password: string): Promise<void>;
  /** Calls a function after each change of the session, in any tab; returns what ends that. */
  onChange(listener: (event: SessionEvent) => void): () => void;
}

export interface FileItem {
  type: "file";
  id: string;
  name: string;
  path: string;
  mime_type: string;
  size: number;
  url: string;
  parent_id: string | null;
  version: number;
  sha256: string | null;
  created_at: string;
  updated_at: string;
  created_by?: string | null;
}
export interface FolderItem {
  type: "folder";
  id: string;
  name: string;
  path: string;
  parent_id: string | null;
  created_at: string;
  updated_at: string;
}
export interface UploadOptions extends CallOptions {
  /** The file's name, if it is not that of a `File`. */
  name?: string;
  /** Its MIME type, if it is not that of the `Blob`. */
  type?: string;
  /** The id of the folder to put it into; or `path`, a path of its own, which `overwrite` replaces. */
  parent?: string;
  path?: string;
  overwrite?: boolean;
  onProgress?: (progress: { sent: number; total: number }) => void;
}
/** The files of a storage, by its id or name. */
export interface Files {
  /** Sends a file: above 8 MiB in parts, and where an earlier call, or an earlier visit, has ended. */
  upload(content: Blob | ArrayBuffer | Uint8Array | string, options?: UploadOptions): Promise<FileItem>;
  list(options?: CallOptions & { parent?: string; search?: string; createdBy?: string; limit?: number; offset?: number }): Promise<{
    files: (FileItem | FolderItem)[];
    total: number;
  }>;
  /** What is at a path: a file, or a folder with its `files`. */
  get(path: string, options?: CallOptions): Promise<FileItem | (FolderItem & { files: (FileItem | FolderItem)[]; total_count: number })>;
  read(path: string, options?: CallOptions): Promise<Blob>;
  createFolder(name: string, parent?: string): Promise<FolderItem>;
  delete(id: string, options?: CallOptions & { recursive?: boolean }): Promise<void>;
  /** An address that reads a file without a key, for some time. */
  signedUrl(id: string, seconds?: number): Promise<{ url: string; expires_at: string }>;
}

export interface RequestOptions extends CallOptions {
  /** What follows `?`; undefined values are left out. */
  query?: Record<string, string | number | boolean | null | undefined>;
  /** Sent as JSON. */
  body?: unknown;
  headers?: Record<string, string>;
  /** Whether a POST only reads, so that it needs no key to be repeated. */
  reads?: boolean;
}
export interface ClientOptions {
  /** The server's address, such as `https://api.example.com`. */
  url: string;
  publicKey: string;
  /** Only on a server of one's own: acts as the app, not as a member. */
  secretKey?: string;
  /** Where the session is kept: in a page `localStorage`, elsewhere the memory of this client. */
  storage?: SessionStorage;
  /** Milliseconds after which a call fails, repeats included; 30,000 by default. */
  timeout?: number;
  /** How often a request is repeated at most that got no answer, or the server was too busy for; 3 by default, 0 for never. */
  retries?: number;
  fetch?: typeof fetch;
  /** The texts of shared links, each by the name that rules call it. */
  capabilities?: Record<string, string>;
  /** Reads whole numbers beyond 2⁵³ as `bigint`, instead of failing where one is read. */
  bigint?: boolean;
}
/** The client of an app. */
export interface Client<App extends AppTypes = AnyApp> {
  readonly members: Members;
  rows<Title extends keyof App["tables"] & string>(table: Title): Rows<App["tables"][Title]>;
  channel(name: string): Channel;
  /** The definition of a table, with its schema. */
  table(table: keyof App["tables"] & string): Promise<JsonObject>;
  tables(): Promise<JsonObject[]>;
  /** Runs operations that all succeed or all fail. */
  transaction(collect: (operations: Operations<App>) => void, options?: CallOptions): Promise<OperationResult[]>;
  /** Runs operations one by one: some may fail. */
  batch(collect: (operations: Operations<App>) => void, options?: CallOptions): Promise<OperationResult[]>;
  /** The documents of a saved view. */
  view<Item = JsonObject>(name: string, params?: JsonObject, options?: CallOptions): Promise<Item[]>;
  files(storage: string): Files;
  readonly functions: {
    /** Resolves to what the function returned; rejects with `FUNCTION_ERROR` if it failed. */
    invoke<Result = any>(name: string, payload?: JsonObject, options?: CallOptions): Promise<Result>;
  };
  authSettings(): Promise<{ allow_id_password_login: boolean; allow_guest_login: boolean; enabled_oauth_providers: string[] }>;
  stats(): Promise<JsonObject>;
  /** Sends any request with the client's credentials, and returns the JSON of the answer. */
  request<Answer = any>(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  /** The version of the server that answered last; null before the first answer. */
  readonly serverVersion: string | null;
}
