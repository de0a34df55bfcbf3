/** Filters as a person builds them, and as the interface takes them. Pure. */

/** @typedef {{column: string, operator: string, value: unknown}} Condition */
/** @typedef {{mode: "all" | "any", conditions: Condition[]}} Filter */

const ORDERED = ["equals", "not", "greater", "atLeast", "less", "atMost", "between", "oneOf", "isNull", "notNull"];

/** The operators that a column's type allows; values of encrypted columns can only be compared whole. */
export const OPERATORS = /** @type {Record<string, string[]>} */ ({
  string: ["contains", "equals", "not", "starts", "ends", "oneOf", "isNull", "notNull"],
  number: ORDERED,
  int: ORDERED,
  date: ORDERED,
  boolean: ["equals", "not", "isNull", "notNull"],
  uuid: ["equals", "not", "oneOf", "isNull", "notNull"],
  object: ["isNull", "notNull"],
  array: ["isNull", "notNull"],
  encrypted: ["equals", "oneOf", "isNull", "notNull"],
});

const KEYS = /** @type {Record<string, string>} */ ({
  contains: "$contains", starts: "$startsWith", ends: "$endsWith", equals: "$eq", not: "$ne", greater: "$gt", atLeast: "$gte", less: "$lt", atMost: "$lte", between: "$between", oneOf: "$in",
});
const NAMES = Object.fromEntries(Object.entries(KEYS).map(([name, key]) => [key, name]));

/** The condition that the interface takes; null for no filter. @param {Filter} filter @returns {Record<string, unknown> | null} */
export function toWhere({ mode, conditions }) {
  const parts = conditions.map(one);
  if (!parts.length) return null;
  if (parts.length === 1) return parts[0];
  if (mode === "any") return { $or: parts };
  const columns = conditions.map((condition) => condition.column);
  // Several conditions on one column need a list; else one object is enough.
  return new Set(columns).size === columns.length ? Object.assign({}, ...parts) : { $and: parts };
}

/** @param {Condition} condition @returns {Record<string, unknown>} */
function one({ column, operator, value }) {
  if (operator === "isNull") return { [column]: { $eq: null } };
  if (operator === "notNull") return { [column]: { $ne: null } };
  return { [column]: { [KEYS[operator]]: value } };
}

/** The filter that a condition draws, or null where it says more than filters can. @param {unknown} where @returns {Filter | null} */
export function fromWhere(where) {
  if (!isObject(where)) return null;
  const names = Object.keys(where);
  if (names.length === 1 && (names[0] === "$and" || names[0] === "$or")) {
    const list = where[names[0]];
    if (!Array.isArray(list) || list.length < 2) return null;
    const conditions = list.map(single);
    return conditions.includes(null) ? null : { mode: names[0] === "$or" ? "any" : "all", conditions: /** @type {Condition[]} */ (conditions) };
  }
  const conditions = names.map((name) => single({ [name]: where[name] }));
  return conditions.includes(null) ? null : { mode: "all", conditions: /** @type {Condition[]} */ (conditions) };
}

/** @param {unknown} part @returns {Condition | null} */
function single(part) {
  if (!isObject(part)) return null;
  const [[column, given], ...more] = Object.entries(part);
  if (more.length || column === undefined || column.startsWith("$")) return null;
  if (!isObject(given)) return Array.isArray(given) ? null : given === null ? { column, operator: "isNull", value: null } : { column, operator: "equals", value: given };
  const [[key, value], ...others] = Object.entries(given).length ? Object.entries(given) : [["", undefined]];
  if (others.length) return null;
  if (value === null) return key === "$eq" ? { column, operator: "isNull", value } : key === "$ne" ? { column, operator: "notNull", value } : null;
  const operator = NAMES[key];
  return operator && (operator === "between" || operator === "oneOf") === Array.isArray(value) ? { column, operator, value } : null;
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value) && !("text" in value && value.constructor !== Object);
