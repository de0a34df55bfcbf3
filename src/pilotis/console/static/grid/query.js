/**
 * Which rows of a table an address shows, and the request for some of them. It imports nothing, because the first rows
 * are asked for before the modules of any screen are there.
 * @typedef {[string, "asc" | "desc"]} Sort
 * @typedef {{where: unknown, sort: Sort[]}} Query
 */

/** How many rows are asked for at once. */
export const PAGE = 200;

/** The condition in an address, or null. @param {string | null} text */
export function readWhere(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

/** By how many columns rows can be sorted. */
export const MAX_SORTS = 3;

/** The order in an address, such as `column.asc,other.desc`. @param {string | null} text @returns {Sort[]} */
export function readSort(text) {
  const parts = (text || "").split(/(?<=\.(?:asc|desc)),/).map((part) => part.split(/\.(?=(?:asc|desc)$)/));
  return /** @type {Sort[]} */ (parts.filter(([name, direction]) => name && direction)).slice(0, MAX_SORTS);
}

/** The order as an address has it; null for that of creation. @param {Sort[]} sort */
export const writeSort = (sort) => sort.map((one) => one.join(".")).join(",") || null;

/** How a request says it: one column as it always did. @param {Sort[]} sort */
function order(sort) {
  if (sort.length > 1) return { order_by: sort.map(([column, direction]) => ({ column, direction })) };
  return sort.length ? { order_by: sort[0][0], order_direction: sort[0][1] } : {};
}

/**
 * The path and the options of the request for rows.
 * @param {string} tableId
 * @param {Query} query
 * @param {number} offset
 * @param {number} limit
 * @returns {[string, {method: string, exact: boolean, body: Record<string, unknown>}]}
 */
export const rowsRequest = (tableId, { where, sort }, offset, limit) => [
  `/v1/public/tables/${tableId}/data/query`,
  { method: "POST", exact: true, body: { limit, offset, ...(where ? { where } : {}), ...order(sort) } },
];
