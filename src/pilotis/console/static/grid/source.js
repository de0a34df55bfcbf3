/** The rows of a table as a grid sees them: by their place, loaded page by page as they come into view. */
import { signal } from "../vendor/view.js";
import { appId, ofApp } from "../state/app.js";
import { taken } from "../state/begin.js";
import { PAGE, rowsRequest } from "./query.js";

const KEPT = 40;
const PAUSE = 60;
// The search route ranks and returns this many rows.
export const RANKED = 1000;
const MARKED = 1500;

/**
 * @typedef {{id: string, data: Record<string, any>, created_at: string, updated_at: string, created_by?: string |
 *   null}} Row
 */

export class Source {
  /**
   * A `search` has words, and the columns they are searched in; it finds rows by rank, whatever order there is.
   * @param {string} tableId
   * @param {{where: unknown, sort: import("./query.js").Sort[], search?: {query: string, fields: string[]} | null}}
   *   query
   */
  constructor(tableId, query) {
    this.tableId = tableId;
    this.query = query;
    /** How many rows there are; null until it is known. */
    this.total = signal(/** @type {number | null} */ (null));
    /** Grows with each change of what `row` returns. */
    this.version = signal(0);
    this.error = signal(/** @type {any} */ (null));
    /** How many rows there are, where only the first `total` can be read. */
    this.beyond = 0;
    /** The rows that other clients have just changed. @type {Set<string>} */
    this.changed = new Set();
    /** How many editors hold the rows as they are. */
    this.held = 0;
    /** @type {Map<number, Row[]>} */
    this.pages = new Map();
    /** @type {AbortController | null} */
    this.abort = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.window = [0, PAGE];
    /** Pages whose rows may have changed since: they are read again when they come into view. @type {Set<number>} */
    this.stale = new Set();
    /** Rows a page; an app may allow fewer. */
    this.size = PAGE;
  }

  /** @param {number} index @returns {Row | undefined} */
  row(index) {
    return this.pages.get(Math.floor(index / this.size))?.[index % this.size];
  }

  /**
   * Load what stands between two places; a jump further on takes the place of what is on its way.
   * @param {number} first
   * @param {number} last
   */
  show(first, last) {
    this.window = [first, last];
    clearTimeout(this.timer);
    if (this.missing() !== undefined) this.timer = setTimeout(() => this.load(), this.total.value === null ? 0 : PAUSE);
  }

  missing() {
    const last = Math.floor(this.window[1] / this.size);
    for (let page = Math.floor(this.window[0] / this.size); page <= last; page++) {
      if (
        (!this.pages.has(page) || this.stale.has(page)) &&
        (this.total.value === null || page * this.size < Math.max(this.total.value, 1))
      )
        return page;
    }
    return undefined;
  }

  /** @returns {Promise<void>} */
  async load() {
    const page = this.missing();
    if (page === undefined) return;
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    try {
      const answer = await this.fetch(page * this.size, this.size, abort.signal);
      if (answer.limit < this.size) {
        this.size = Math.max(1, answer.limit);
        this.pages.clear();
        return this.load();
      }
      this.pages.set(page, answer.data);
      this.stale.delete(page);
      this.count(answer.total_count);
      this.error.value = null;
      this.forget(page);
      this.version.value++;
      this.load();
    } catch (error) {
      if (!abort.signal.aborted) this.error.value = error;
    }
  }

  /** @param {number} total */
  count(total) {
    this.beyond = this.query.search && total > RANKED ? total : 0;
    this.total.value = this.beyond ? RANKED : total;
  }

  /** Keep the rows as they are while one of them is edited. Returns how to release them. */
  hold() {
    this.held++;
    return () => void this.held--;
  }

  /** The pages in view, with their rows. @returns {[number, Row[]][]} */
  inView() {
    const [first, last] = this.window.map((index) => Math.floor(index / this.size));
    return [...this.pages].filter(([page]) => page >= first && page <= last);
  }

  /**
   * Read what is in view again, and mark the rows that have changed since. Returns how many rows were added, and null
   * where it is not the time to read.
   * @returns {Promise<number | null>}
   */
  async refresh() {
    const before = this.total.value;
    if (before === null || this.held || this.error.value || this.missing() !== undefined) return null;
    // What is on its way for rows out of view may be older than what has changed.
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    const known = new Map(this.inView().flatMap(([, rows]) => rows.map((row) => [row.id, row.updated_at])));
    let total = before;
    /** @type {Map<number, Row[]>} */
    const read = new Map();
    for (const [page] of this.inView()) {
      const answer = await this.fetch(page * this.size, this.size, abort.signal);
      read.set(page, answer.data);
      total = answer.total_count;
    }
    if (abort.signal.aborted || this.held) return null;
    const rows = [...read.values()].flat();
    const changed = rows.filter((row) => known.get(row.id) !== row.updated_at).map((row) => row.id);
    const isOther = total !== (this.beyond || before);
    if (isOther) this.pages.clear();
    for (const page of this.pages.keys()) this.stale.add(page);
    for (const [page, found] of read) {
      this.pages.set(page, found);
      this.stale.delete(page);
    }
    this.count(total);
    this.mark(changed);
    return Math.max(0, total - before);
  }

  /** @param {string[]} ids */
  mark(ids) {
    for (const id of ids) this.changed.add(id);
    this.version.value++;
    setTimeout(() => {
      for (const id of ids) this.changed.delete(id);
      this.version.value++;
    }, MARKED);
  }

  /**
   * @param {number} offset
   * @param {number} limit
   * @param {AbortSignal} [abort]
   * @returns {Promise<{data: Row[], total_count: number, limit: number}>}
   */
  fetch(offset, limit, abort) {
    if (this.query.search) return this.rank(this.query.search, offset, limit, abort);
    const [path, options] = rowsRequest(this.tableId, this.query, offset, limit);
    return taken(path, { ...options, app: appId.peek(), signal: abort });
  }

  /**
   * @param {{query: string, fields: string[]}} search
   * @param {number} offset
   * @param {number} limit
   * @param {AbortSignal} [abort]
   */
  async rank({ query, fields }, offset, limit, abort) {
    const answer = await ofApp("/v1/public/search", {
      method: "POST",
      exact: true,
      signal: abort,
      body: {
        table_id: this.tableId,
        query,
        fields,
        limit,
        offset,
        ...(this.query.where ? { where: this.query.where } : {}),
      },
    });
    // Without a cursor all are counted.
    const total = /** @type {number} */ (answer.total_count);
    // An app may allow fewer rows a page; this route does not say so.
    const full = Math.min(limit, Math.min(total, RANKED) - offset);
    return { ...answer, total_count: total, limit: answer.data.length < full ? answer.data.length || 1 : limit };
  }

  /** Keep the pages nearest to the one in view. @param {number} around */
  forget(around) {
    const pages = [...this.pages.keys()].sort((a, b) => Math.abs(b - around) - Math.abs(a - around));
    for (const page of pages.slice(0, Math.max(0, pages.length - KEPT))) this.pages.delete(page);
  }

  /** Put a row in the place of the one with its id. @param {Row} row */
  put(row) {
    for (const rows of this.pages.values()) {
      const index = rows.findIndex((one) => one.id === row.id);
      if (index >= 0) rows[index] = row;
    }
    this.version.value++;
  }

  /** @param {string} id */
  find(id) {
    for (const [page, rows] of this.pages) {
      const index = rows.findIndex((one) => one.id === id);
      if (index >= 0) return { row: rows[index], index: page * this.size + index };
    }
    return null;
  }

  /** Load again what is in view. */
  reload() {
    this.pages.clear();
    this.stale.clear();
    this.error.value = null;
    this.load();
  }

  stop() {
    clearTimeout(this.timer);
    this.abort?.abort();
  }
}
