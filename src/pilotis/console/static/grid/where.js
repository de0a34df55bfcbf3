/** Filters as a person builds them, and as the interface takes them. Pure. */

/** @typedef {{column: string, operator: string, value: unknown}} Condition */
/** @typedef {{mode: "all" | "any", conditions: Condition[]}} Filter */

const ORDERED = ["equals", "not", "greater", "atLeast", "less", "atMost", "between", "oneOf", "isNull", "notNull"];

/** The operators that a column's type allows; values of encrypted columns can only be compared whole. */
export const OPERATORS = /** @type {Record<string, string[]>} */ ({
  string: [
    "contains",
    "equals",
    "not",
    "starts",
    "ends",
    "containsAnyCase",
    "equalsAnyCase",
    "startsAnyCase",
    "oneOf",
    "isNull",
    "notNull",
  ],
  number: ORDERED,
  int: ORDERED,
  date: ["on", "greater", "atLeast", "less", "atMost", "between", "equals", "not", "isNull", "notNull"],
  boolean: ["equals", "not", "isNull", "notNull"],
  member: ["equals", "not", "isNull", "notNull"],
  uuid: ["equals", "not", "oneOf", "isNull", "notNull"],
  object: ["isNull", "notNull"],
  array: ["isNull", "notNull"],
  encrypted: ["equals", "oneOf", "isNull", "notNull"],
});

const KEYS = /** @type {Record<string, string>} */ ({
  contains: "$contains",
  starts: "$startsWith",
  ends: "$endsWith",
  containsAnyCase: "$icontains",
  equalsAnyCase: "$ieq",
  startsAnyCase: "$istartsWith",
  equals: "$eq",
  not: "$ne",
  greater: "$gt",
  atLeast: "$gte",
  less: "$lt",
  atMost: "$lte",
  between: "$between",
  oneOf: "$in",
});
const NAMES = Object.fromEntries(Object.entries(KEYS).map(([name, key]) => [key, name]));

/**
 * The condition that the interface takes; null for no filter.
 * @param {Filter} filter
 * @returns {Record<string, unknown> | null}
 */
export function toWhere({ mode, conditions }) {
  const parts = conditions.map(one);
  if (!parts.length) return null;
  if (parts.length === 1) return parts[0];
  if (mode === "any") return { $or: parts };
  const columns = conditions.map((condition) => condition.column);
  // Several conditions on one column need a list; else one object is enough.
  return new Set(columns).size === columns.length ? Object.assign({}, ...parts) : { $and: parts };
}

const DAY = /^\d{4}-\d\d-\d\d$/;

/**
 * When a day begins where the browser is, as an RFC 3339 time; `after` counts days from it.
 * @param {string} day
 * @param {number} [after]
 */
export function beginOf(day, after = 0) {
  const [year, month, date] = day.split("-").map(Number);
  const begin = new Date(year, month - 1, date + after);
  if (year < 100) begin.setFullYear(year);
  return begin.toISOString();
}

/** The day between two moments where the browser is, or "". @param {unknown} from @param {unknown} to */
function dayOf(from, to) {
  const begin = new Date(String(from));
  if (Number.isNaN(begin.getTime())) return "";
  const pad = (/** @type {number} */ number, /** @type {number} */ width) => String(number).padStart(width, "0");
  const day = `${pad(begin.getFullYear(), 4)}-${pad(begin.getMonth() + 1, 2)}-${pad(begin.getDate(), 2)}`;
  return beginOf(day) === begin.toISOString() && Date.parse(beginOf(day, 1)) === Date.parse(String(to)) ? day : "";
}

/**
 * What a day means in a condition on moments: "on" is the whole of it where the browser is, "after" begins at its end.
 * A column that has days alone is compared with the day itself, which has no zone.
 * @param {string} operator @param {any} value @param {boolean} daysAlone @returns {{operator: string, value: unknown}}
 */
export function ofDay(operator, value, daysAlone) {
  const isDay = (/** @type {unknown} */ one) => DAY.test(String(one));
  if (daysAlone || !(Array.isArray(value) ? value.some(isDay) : isDay(value)))
    return { operator: operator === "on" ? "equals" : operator, value };
  const last = (/** @type {string} */ day) => new Date(Date.parse(beginOf(day, 1)) - 1).toISOString();
  if (operator === "between")
    return {
      operator,
      value: [isDay(value[0]) ? beginOf(value[0]) : value[0], isDay(value[1]) ? last(value[1]) : value[1]],
    };
  if (operator === "greater") return { operator: "atLeast", value: beginOf(value, 1) };
  if (operator === "atMost") return { operator: "less", value: beginOf(value, 1) };
  if (operator === "atLeast" || operator === "less") return { operator, value: beginOf(value) };
  return { operator, value };
}

/** @param {Condition} condition @returns {Record<string, unknown>} */
function one({ column, operator, value }) {
  if (operator === "on") return { [column]: { $gte: beginOf(String(value)), $lt: beginOf(String(value), 1) } };
  if (operator === "isNull") return { [column]: { $eq: null } };
  if (operator === "notNull") return { [column]: { $ne: null } };
  return { [column]: { [KEYS[operator]]: value } };
}

/**
 * The filter that a condition draws, or null where it says more than filters can.
 * @param {unknown} where
 * @returns {Filter | null}
 */
export function fromWhere(where) {
  if (!isObject(where)) return null;
  const names = Object.keys(where);
  if (names.length === 1 && (names[0] === "$and" || names[0] === "$or")) {
    const list = where[names[0]];
    if (!Array.isArray(list) || list.length < 2) return null;
    const conditions = list.map(single);
    return conditions.includes(null)
      ? null
      : { mode: names[0] === "$or" ? "any" : "all", conditions: /** @type {Condition[]} */ (conditions) };
  }
  const conditions = names.map((name) => single({ [name]: where[name] }));
  return conditions.includes(null) ? null : { mode: "all", conditions: /** @type {Condition[]} */ (conditions) };
}

/**
 * A condition with one more; what filters cannot draw stays as it is.
 * @param {unknown} where
 * @param {Condition} condition
 * @returns {Record<string, unknown> | null}
 */
export function withCondition(where, condition) {
  const filter = where ? fromWhere(where) : { mode: /** @type {"all"} */ ("all"), conditions: [] };
  return filter
    ? toWhere({ ...filter, conditions: [...filter.conditions, condition] })
    : { $and: [where, one(condition)] };
}

/** @param {unknown} part @returns {Condition | null} */
function single(part) {
  if (!isObject(part)) return null;
  const [[column, given], ...more] = Object.entries(part);
  if (more.length || column === undefined || (column.startsWith("$") && column !== "$creator")) return null;
  if (!isObject(given))
    return Array.isArray(given)
      ? null
      : given === null
        ? { column, operator: "isNull", value: null }
        : { column, operator: "equals", value: given };
  const day = Object.keys(given).join() === "$gte,$lt" ? dayOf(given.$gte, given.$lt) : "";
  if (day) return { column, operator: "on", value: day };
  const [[key, value], ...others] = Object.entries(given).length ? Object.entries(given) : [["", undefined]];
  if (others.length) return null;
  if (value === null)
    return key === "$eq"
      ? { column, operator: "isNull", value }
      : key === "$ne"
        ? { column, operator: "notNull", value }
        : null;
  const operator = NAMES[key];
  return operator && (operator === "between" || operator === "oneOf") === Array.isArray(value)
    ? { column, operator, value }
    : null;
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) =>
  typeof value === "object" &&
  value !== null &&
  !Array.isArray(value) &&
  !("text" in value && value.constructor !== Object);
