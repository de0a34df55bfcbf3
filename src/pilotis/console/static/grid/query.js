/**
 * Which rows of a table an address shows, and the request for some of them. It imports nothing, because the first rows
 * are asked for before the modules of any screen are there.
 * @typedef {{where: unknown, sort: [string, "asc" | "desc"] | null}} Query
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

/** The order in an address, `column.asc` or `column.desc`; or null. @param {string | null} text @returns {Query["sort"]} */
export function readSort(text) {
  const [name, direction] = (text || "").split(/\.(?=(?:asc|desc)$)/);
  return name && direction ? [name, /** @type {"asc" | "desc"} */ (direction)] : null;
}

/** The path and the options of the request for rows. @param {string} tableId @param {Query} query @param {number} offset @param {number} limit @returns {[string, {method: string, exact: boolean, body: Record<string, unknown>}]} */
export const rowsRequest = (tableId, { where, sort }, offset, limit) => [
  `/v1/public/tables/${tableId}/data/query`,
  { method: "POST", exact: true, body: { limit, offset, ...(where ? { where } : {}), ...(sort ? { order_by: sort[0], order_direction: sort[1] } : {}) } },
];
