/** What may stand at a place of a document of rules. Pure. */
import { placeAt } from "./json-place.js";

/** A column: its name, its type, and the values that it may have where these are few. @typedef {{name: string, type: string, values?: any[]}} Column */
/**
 * What is known: the columns of the rows, those of other tables by their titles, rules to begin with, and the names that the
 * document defines.
 * @typedef {{columns: Column[], tables: Record<string, Column[]>, presets: {name: string, rules: any}[], defined: string[]}} Known
 */
/** One proposal: what is written, how it is shown, and what it is. @typedef {{text: string, label: string, detail: string}} Proposal */
/**
 * @typedef {{is: "document" | "define" | "columns" | "column" | "rule" | "condition" | "list" | "member" | "exists" | "title" |
 *   "used" | "fact" | "row" | "old" | "compared" | "asked" | "other", action: string, columns: Column[], outer: Column[] | null,
 *   column: Column | null, name: string, alone?: boolean}} Context
 */

const ACTIONS = ["list", "read", "create", "update", "delete"];
const OWN = [
  { name: "id", type: "uuid" },
  { name: "created_at", type: "date" },
  { name: "updated_at", type: "date" },
];
const FACTS = ["id", "is_guest", "roles", "teams", "claims."];
const COMPARISONS = ["$eq", "$ne", "$in", "$nin", "$isNull", "$not"];
const ORDERED = ["$gt", "$gte", "$lt", "$lte", "$between"];
const OF_TEXTS = ["$contains", "$startsWith", "$endsWith", "$ieq", "$icontains", "$istartsWith"];
const OF_LISTS = ["$arrayContains", "$arrayContainsAny"];
/** The operators of each type beside the comparisons. @type {Record<string, string[]>} */
const OPERATORS = {
  string: [...ORDERED, ...OF_TEXTS],
  number: ORDERED,
  int: ORDERED,
  date: ORDERED,
  array: OF_LISTS,
};

/** Return the proposals at the end of a text, and where what is being written begins. @param {string} text @param {Known} known @param {Record<string, string>} words */
export function proposals(text, known, words) {
  const place = placeAt(text);
  if (!place) return null;
  /** @type {Context} */
  let here = { is: "document", action: "", columns: known.columns, outer: null, column: null, name: "" };
  place.path.forEach((step, depth) => (here = within(here, step, place.texts[depth] || {}, known)));
  const found = place.isKey
    ? keys(here, known, words)
        .filter(([name]) => !place.keys.includes(name))
        .map(([name, detail]) => proposal(name.endsWith(".") ? `"${name}` : JSON.stringify(name), name, detail))
    : values(here, known, words);
  return { from: place.from, isKey: place.isKey, options: found };
}

/** @param {string} text @param {string} label @param {string} [detail] @returns {Proposal} */
const proposal = (text, label, detail = "") => ({ text, label, detail });

/** Where a key or an item leads. @param {Context} here @param {string | number} step @param {Record<string, string>} texts @param {Known} known @returns {Context} */
function within(here, step, texts, known) {
  const name = String(step);
  /** @param {Partial<Context>} change @returns {Context} */
  const to = (change) => ({ ...here, name, ...change });
  if (typeof step === "number") return here.is === "list" ? to({ is: "condition" }) : here;
  switch (here.is) {
    case "document":
      if (ACTIONS.includes(name)) return to({ is: "rule", action: name });
      return to({ is: name === "define" || name === "columns" ? name : "other" });
    case "define":
      return to({ is: "condition", action: "define" });
    case "columns":
      return to({ is: "column" });
    case "column":
      return to({ is: "rule", action: name, alone: name !== "read" });
    case "rule":
    case "condition":
      if (name === "$and" || name === "$or") return to({ is: "list" });
      if (name === "$not" || name === "$old" || name === "$new") return to({ is: "condition" });
      if (name === "$member") return to({ is: "member" });
      if (name === "$exists") return to({ is: "exists" });
      if (name === "$use") return to({ is: "used" });
      return to({ is: "compared", column: rows(here.columns).find((one) => one.name === name) || null });
    case "exists":
      if (name === "table") return to({ is: "title" });
      if (name !== "where") return to({ is: "other" });
      return to({ is: "condition", outer: here.columns, columns: known.tables[texts.table || ""] || [] });
    case "member":
      return to({ is: "asked", column: null });
    case "compared":
    case "asked":
      if (name === "$member") return to({ is: "fact" });
      if (name === "$row") return to({ is: "row" });
      if (name === "$old") return to({ is: "old" });
      return here.is === "asked" ? { ...here } : to({ is: "compared" });
    default:
      return to({ is: "other" });
  }
}

/** @param {Column[]} columns */
const rows = (columns) => [...columns, ...OWN];

/** The keys that an object may have, and what they are. @param {Context} here @param {Known} known @param {Record<string, string>} words @returns {[string, string][]} */
function keys(here, known, words) {
  const said = (/** @type {string[]} */ names) =>
    names.map((name) => /** @type {[string, string]} */ ([name, words[name] || ""]));
  switch (here.is) {
    case "document":
      return said([...ACTIONS, "define", "columns"]);
    case "columns":
      return here.columns.map((one) => [one.name, one.type]);
    case "column":
      return said(["read", "create", "update"]);
    case "rule":
    case "condition":
      if (here.alone) return said(["$member", "$and", "$or", "$not"]);
      return [
        ...rows(here.columns).map((one) => /** @type {[string, string]} */ ([one.name, one.type])),
        ...said(["$creator", "$member", "$exists"]),
        ...(here.outer || here.action === "define" || !known.defined.length ? [] : said(["$use"])),
        ...(here.action === "update" && !here.outer ? said(["$old", "$new"]) : []),
        ...said(["$and", "$or", "$not"]),
      ];
    case "member":
      return said(FACTS);
    case "exists":
      return said(["table", "where"]);
    case "compared":
      return said([
        ...COMPARISONS,
        ...(here.column
          ? OPERATORS[here.column.type] || []
          : here.name === "$creator"
            ? []
            : [...ORDERED, ...OF_TEXTS]),
        "$member",
        ...(here.outer ? ["$row"] : []),
        ...(here.action === "update" && !here.outer ? ["$old"] : []),
        "$now",
        "$capability",
      ]);
    case "asked":
      return said(here.name === "roles" || here.name === "teams" ? OF_LISTS : ["$eq", "$ne", "$in", "$nin"]);
    default:
      return [];
  }
}

/** @param {Context} here @param {Known} known @param {Record<string, string>} words @returns {Proposal[]} */
function values(here, known, words) {
  const texts = (/** @type {string[]} */ names) =>
    names.map((name) => proposal(name.endsWith(".") ? `"${name}` : JSON.stringify(name), name, words[name]));
  const written = (/** @type {any} */ value, /** @type {string} */ detail = "") => {
    const source = onOneLine(value);
    return proposal(source, source, detail);
  };
  switch (here.is) {
    case "rule": {
      const begun = here.alone ? [] : known.presets.map((one) => [one.rules[here.action], one.name]);
      const common = [
        [null, words.null],
        [true, words.true],
        [{ $member: {} }, words.members],
        ...begun.filter(([rule]) => rule && typeof rule === "object"),
      ];
      const told = new Set();
      return common
        .map(([rule, detail]) => written(rule, detail))
        .filter((one) => !told.has(one.text) && told.add(one.text));
    }
    case "title":
      return texts(Object.keys(known.tables));
    case "used":
      return texts(known.defined);
    case "fact":
      return texts(FACTS);
    case "row":
      return texts([...rows(here.outer || []).map((one) => one.name), "$creator"]);
    case "old":
      return texts(here.columns.map((one) => one.name));
    case "compared": {
      const { column, outer } = here;
      const same = outer?.some((one) => one.name === here.name);
      return [
        ...(column?.values || (column?.type === "bool" ? [true, false] : [])).map((/** @type {any} */ one) =>
          written(one),
        ),
        written({ $member: "id" }, words.id),
        ...(outer ? [written({ $row: same ? here.name : "id" }, words.$row)] : []),
        ...(column?.type === "array" ? [written({ $arrayContains: { $member: "id" } }, words.$arrayContains)] : []),
      ];
    }
    case "member":
      return [written({}, words.members)];
    case "asked":
      return here.name === "is_guest" ? [written(false), written(true)] : [];
    default:
      return [];
  }
}

/** @param {any} value */
const onOneLine = (value) =>
  JSON.stringify(value, null, 1)
    .replace(/([{[])\n\s*/g, "$1")
    .replace(/\n\s*([}\]])/g, "$1")
    .replace(/\n\s*/g, " ");
