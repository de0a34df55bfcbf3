/**
 * What rows are called where others refer to them: the text of their first column, asked for together when they are
 * first shown.
 */
import { signal } from "../vendor/view.js";
import { plain } from "../ui/format.js";
import { appId, ofApp, tables } from "./app.js";

const TOGETHER = 50;
const KEPT = 2000;
const PAUSE_MS = 30;

/**
 * What is known of a row: undefined until it is, null where it is gone or cannot be read.
 * @typedef {import("../vendor/view.js").Signal<string | null | undefined>} Name
 */

/** @type {Map<string, Name>} */
const known = new Map();
/** @type {Map<string, Set<string>>} */
const waiting = new Map();
let timer = 0;

/** The table of the open app with a title. @param {string} title */
export const tableCalled = (title) => tables.value?.find((table) => table.title === title);

/**
 * The column whose text names a row of a table: the first with plain texts, else the first of all.
 * @param {Record<string, any>} schema
 */
export function namingColumn(schema) {
  const plainColumns = Object.entries(schema).filter(
    ([, one]) => !one.encrypted && (one.type || one) !== "object" && (one.type || one) !== "array",
  );
  return (plainColumns.find(([, one]) => (one.type || one) === "string") || plainColumns[0])?.[0];
}

/**
 * What a row is called by its naming column; its id where that is empty.
 * @param {any} row
 * @param {string | undefined} column
 */
export const rowName = (row, column) => {
  const value = column === undefined ? undefined : row.data[column];
  return value === undefined || value === null || value === "" ? `…${row.id.slice(-4)}` : plain(String(value), 60);
};

/**
 * The name of a row of a table of the open app, as a signal.
 * @param {string} title
 * @param {string} id
 * @returns {Name}
 */
export function rowNameOf(title, id) {
  const key = `${appId.peek()} ${title} ${id}`;
  const found = known.get(key);
  if (found) return found;
  if (known.size >= KEPT) known.clear();
  const name = signal(/** @type {string | null | undefined} */ (undefined));
  known.set(key, name);
  waiting.set(title, (waiting.get(title) || new Set()).add(id));
  // Those of a whole screen share a request.
  if (!timer) timer = setTimeout(ask, PAUSE_MS);
  return name;
}

function ask() {
  timer = 0;
  const app = appId.peek();
  for (const [title, ids] of waiting) {
    const all = [...ids];
    for (let at = 0; at < all.length; at += TOGETHER) read(app, title, all.slice(at, at + TOGETHER));
  }
  waiting.clear();
}

/** @param {string} app @param {string} title @param {string[]} ids */
async function read(app, title, ids) {
  const table = tables.peek()?.find((one) => one.title === title);
  const column = table && namingColumn(table.schema);
  const body = { where: { id: { $in: ids } }, limit: TOGETHER, ...(column ? { fields: [column] } : {}) };
  try {
    const page = table && (await ofApp(`/v1/public/tables/${table.id}/data/query`, { method: "POST", body }));
    const names = new Map((page ? page.data : []).map((row) => [row.id, rowName(row, column)]));
    for (const id of ids) {
      const name = known.get(`${app} ${title} ${id}`);
      if (name) name.value = names.get(id) ?? null;
    }
  } catch {
    for (const id of ids) known.delete(`${app} ${title} ${id}`);
  }
}

/** Forget the names of a table whose rows have changed. @param {string} title */
export function forgetRows(title) {
  for (const key of known.keys()) if (key.startsWith(`${appId.peek()} ${title} `)) known.delete(key);
}
