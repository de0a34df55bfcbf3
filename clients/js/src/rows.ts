import { path, type Http } from "./http.ts";
import type { Listed, Order } from "./lists.ts";
import type { CallOptions, JsonObject, LiveListener, LiveRowListener, Page, Query, Row, Rows } from "./types.ts";

const DATA = "/v1/public/tables/";
const MAX_PAGE = 1000;

/** Keeps a list true; see `lists.ts`. Functions of the server have none. */
export type Live = (listed: Listed, listener: LiveListener | Required<LiveListener>["rows"]) => () => void;
/** What requests are sent by: `Http`, or the server itself for its functions. */
export type Sender = Pick<Http, "json">;
interface Asked {
  where?: JsonObject;
  order_by?: Order[];
  limit?: number;
  offset?: number;
  fields?: string[];
  expand?: string[] | JsonObject;
  counts?: JsonObject;
}

class Question implements Query {
  // The fields of a class could be mistaken for columns nowhere: rows are what the server sent.
  readonly #http: Sender;
  readonly #live: Live;
  readonly #table: string;
  readonly #data: string;
  readonly #asked: Asked;

  constructor(http: Sender, live: Live, table: string, asked: Asked) {
    this.#http = http;
    this.#live = live;
    this.#table = table;
    this.#data = DATA + path`${table}/data`;
    this.#asked = asked;
  }

  #with(more: Asked): Query {
    return new Question(this.#http, this.#live, this.#table, { ...this.#asked, ...more });
  }

  where(condition: JsonObject): Query {
    const before = this.#asked.where;
    return this.#with({ where: before ? { $and: [before, condition] } : condition });
  }

  orderBy(column: string, direction: "asc" | "desc" = "asc", options: { ignoreCase?: boolean } = {}): Query {
    const key = { column, direction, ...(options.ignoreCase ? { ignore_case: true } : {}) };
    return this.#with({ order_by: [...(this.#asked.order_by ?? []), key] });
  }

  limit(limit: number): Query {
    return this.#with({ limit });
  }

  offset(offset: number): Query {
    return this.#with({ offset });
  }

  fields(...fields: string[]): Query {
    return this.#with({ fields });
  }

  expand(...related: (string | JsonObject)[]): Query {
    const named = related.filter((one) => typeof one === "string");
    if (named.length === related.length) return this.#with({ expand: named as string[] });
    const all = related.map((one) => (typeof one === "string" ? { [one]: {} } : one));
    return this.#with({ expand: Object.assign({}, ...all) });
  }

  counts(counts: JsonObject): Query {
    return this.#with({ counts });
  }

  toJSON(): JsonObject & { table: string } {
    return { table: this.#table, ...this.#asked };
  }

  async #page(more: JsonObject, options?: CallOptions): Promise<Page<Row>> {
    const body = { ...this.#asked, ...more };
    const found = await this.#http.json("POST", `${this.#data}/query`, { ...call(options), body, reads: true });
    return { rows: found.data, total: found.total_count, cursor: found.next_cursor ?? null };
  }

  run(options?: CallOptions): Promise<Page<Row>> {
    return this.#page({}, options);
  }

  page(options: CallOptions & { cursor?: string | null } = {}): Promise<Page<Row>> {
    return this.#page({ cursor: options.cursor ?? "first" }, options);
  }

  async first(options?: CallOptions): Promise<Row | null> {
    return (await this.#page({ limit: 1, count: false }, options)).rows[0] ?? null;
  }

  async count(options?: CallOptions): Promise<number> {
    const { where } = this.#asked;
    const body = { where, limit: 0 };
    return (await this.#http.json("POST", `${this.#data}/query`, { ...call(options), body, reads: true })).total_count;
  }

  async update(data: JsonObject, options: CallOptions & { maxRows?: number } = {}): Promise<number> {
    const { where } = this.#asked;
    const body = { data, ...(where ? { where } : { all: true }), max_rows: options.maxRows };
    return (await this.#http.json("POST", `${this.#data}/update-where`, { ...call(options), body })).updated_count;
  }

  async delete(options?: CallOptions): Promise<number> {
    const body = { where: this.#asked.where ?? {} };
    return (await this.#http.json("POST", `${this.#data}/delete-where`, { ...call(options), body })).deleted_count;
  }

  live(listener: LiveListener | Required<LiveListener>["rows"]): () => void {
    const { where, order_by, limit, offset, fields, expand, counts } = this.#asked;
    // What a change shows beside the row, and by what it is sorted.
    const isNear = !expand || (Array.isArray(expand) && expand.length <= 3 && !expand.some((name) => name.includes(".")));
    const isPlain = !offset && !counts && isNear && !order_by?.some(({ column }) => column.includes("."));
    const shown = isPlain ? { fields, order_by, expand } : { fields };
    const listed: Listed = {
      subscription: { table_id: this.#table, where, ...shown },
      limit,
      isPlain,
      read: (most, signal) => this.#page({ limit: most, with_sort: isPlain && !!order_by }, { signal }),
    };
    return this.#live(listed, listener);
  }

  then<A = Page<Row>, B = never>(
    done?: ((page: Page<Row>) => A | PromiseLike<A>) | null,
    failed?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.run().then(done, failed);
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Row> {
    let left = this.#asked.limit ?? Infinity;
    let cursor: string | null = "first";
    while (cursor && left > 0) {
      const page: Page<Row> = await this.#page({ cursor, limit: Math.min(left, MAX_PAGE / 5) });
      yield* page.rows;
      left -= page.rows.length;
      cursor = page.cursor;
    }
  }
}

/** The options that a request takes, of those of a method. */
function call(options?: CallOptions): CallOptions | undefined {
  return options && { signal: options.signal, timeout: options.timeout };
}

function reading(options?: CallOptions & { fields?: string[]; expand?: string[] }): object | undefined {
  return options && { ...call(options), query: { fields: options.fields?.join(","), expand: options.expand?.join(",") } };
}

/** The listener of the list that is one row. */
function ofRow(given: LiveRowListener | Required<LiveRowListener>["row"]): LiveListener {
  const listener = typeof given === "function" ? { row: given } : given;
  return { ...listener, rows: ([row]) => listener.row?.(row ?? null) };
}

export function rows(http: Sender, live: Live, table: string): Rows {
  const data = DATA + path`${table}/data`;
  const byId = (row: Row | string) => `${data}/${encodeURIComponent(typeof row === "string" ? row : row.id)}`;
  const query = (asked: Asked) => new Question(http, live, table, asked);
  const change = (path: string, changes: JsonObject, options?: CallOptions, expected_updated_at?: string) =>
    http.json("PATCH", path, { ...call(options), body: { data: changes, expected_updated_at } });
  const ask = (route: string, body: JsonObject, options?: CallOptions) =>
    http.json("POST", `/v1/public/${route}`, { ...call(options), body: { table_id: table, ...body }, reads: true });
  const paged = (found: any) => ({ rows: found.data, total: found.total_count, cursor: found.next_cursor ?? null });
  return {
    all: () => query({}),
    where: (condition) => query({ where: condition }),
    live: (first: any, listener?: any) =>
      typeof first === "string" ? query({ where: { id: first }, limit: 1 }).live(ofRow(listener)) : query({}).live(first),
    get: (id, options) => http.json("GET", byId(id), reading(options)),
    create: (row, options) => http.json("POST", data, { ...call(options), body: { data: row } }),
    async createMany(many, options) {
      const { created, failed = [] } = await http.json("POST", `${data}/bulk`, { ...call(options), body: { data: many } });
      return { created, failed };
    },
    update: (row, changes, options) =>
      change(byId(row), changes, options, typeof row === "string" ? undefined : row.updated_at),
    upsert: (key, row, options) =>
      http.json("POST", `${data}/upsert`, { ...call(options), body: { key, data: row, mode: options?.mode } }),
    async delete(row, options) {
      await http.json("DELETE", byId(row), call(options));
    },
    by(key, ...values) {
      const place = `${data}/by/` + [key, ...values].map((part) => encodeURIComponent(part)).join("/");
      return {
        get: (options) => http.json("GET", place, reading(options)),
        update: (changes, options) => change(place, changes, options),
        async delete(options) {
          await http.json("DELETE", place, call(options));
        },
      };
    },
    aggregate: async (pipeline, options) => (await ask("aggregate", { pipeline }, options)).data,
    search: async (query, { signal, timeout, ...rest } = {}) => paged(await ask("search", { query, ...rest }, { signal, timeout })),
    autocomplete: async (query, field, { signal, timeout, ...rest } = {}) =>
      (await ask("autocomplete", { query, field, ...rest }, { signal, timeout })).suggestions,
    geo: async (field, place, { signal, timeout, ...rest } = {}) => paged(await ask("geo", { field, ...place, ...rest }, { signal, timeout })),
  };
}
