/** The values of cells: how they look, how they are typed, and what a typed text means. */
import { html } from "../vendor/view.js";
import { t, locale } from "../strings/index.js";
import { Exact, parseExact } from "../state/exact.js";
import { plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { MemberName } from "../ui/member.js";
import { RowName } from "../ui/row.js";

/**
 * `refers` is the title of the table to whose rows it refers by their ids, `ofMember` says that it refers to members, `field` is the name in rows of what conditions name
 * otherwise, `label` what people read instead of the name.
 * @typedef {{name: string, type: string, required: boolean, encrypted: boolean, description?: string, default?:
 *   unknown, refers?: string, ofMember?: boolean, own?: boolean, rewriting?: string, field?: string, label?: string}} Column
 */

/** Who created a row, as conditions and orders name it. */
export const CREATOR = "$creator";

const OWN = /** @type {Column[]} */ ([
  { name: "id", type: "uuid", required: false, encrypted: false, own: true },
  { name: "created_at", type: "date", required: false, encrypted: false, own: true },
  { name: "updated_at", type: "date", required: false, encrypted: false, own: true },
  {
    name: CREATOR,
    type: "member",
    required: false,
    encrypted: false,
    own: true,
    field: "created_by",
    label: t.grid.creator,
  },
]);

/**
 * The columns of a table by its schema, with those that every row has at the end.
 * @param {Record<string, any>} schema
 * @returns {Column[]}
 */
export function columnsOf(schema) {
  const own = Object.entries(schema).map(([name, given]) => {
    const definition = typeof given === "string" ? { type: given } : given;
    return {
      name,
      type: definition.type === "bool" ? "boolean" : definition.type,
      required: !!definition.required,
      encrypted: !!definition.encrypted,
      description: definition.description,
      default: definition.default,
      refers: definition.references?.key ? undefined : definition.references?.table,
      ofMember: !!definition.references?.member,
    };
  });
  return [...own, ...OWN];
}

/** What stands in a row under a column; undefined where the field is absent. @param {any} row @param {Column} column */
export const valueOf = (row, column) => (column.own ? row[column.field || column.name] : row.data[column.name]);

/** What people read as the name of a column. @param {Column} column */
export const labelOf = (column) => column.label || column.name;

const moments = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
const days = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeZone: "UTC" });

/** A date as it is read: in the zone of the browser, unless it is a day. @param {string} text */
export function readable(text) {
  const time = Date.parse(text);
  if (Number.isNaN(time)) return plain(text);
  return /^\d{4}-\d\d-\d\d$/.test(text) ? days.format(time) : moments.format(time);
}

/** A value on one line. @param {{value: unknown, column: Column}} props */
export function Value({ value, column }) {
  if (value === undefined) return null;
  if (column.type === "member")
    return value === null
      ? html`<span class="null">${t.grid.noCreator}</span>`
      : html`<${MemberName} id=${String(value)} />`;
  if (value === null) return html`<span class="null">null</span>`;
  if (column.ofMember) return html`<${MemberName} id=${String(value)} />`;
  if (column.refers) return html`<${RowName} table=${column.refers} id=${String(value)} />`;
  if (column.encrypted) return html`<span class="seal"><${Icon} name="lock" />••••••••</span>`;
  if (value === "") return html`<span class="null">${t.grid.emptyText}</span>`;
  if (column.type === "boolean")
    return html`<span class=${`tick ${value}`}>${value && html`<${Icon} name="check" />`}</span>`;
  if (column.type === "date") return html`<span class="num" title=${String(value)}>${readable(String(value))}</span>`;
  if (column.type === "object" || column.type === "array") return html`<code class="soft">${jsonOf(value)}</code>`;
  if (column.type === "uuid") return html`<code>${plain(value)}</code>`;
  return plain(value);
}

/** What a cell shows of an object or array. @type {WeakMap<object, string>} */
const written = new WeakMap();

/**
 * The beginning of an object or array as JSON; written once, since a grid is drawn with each step of scrolling.
 * @param {object} value
 */
function jsonOf(value) {
  const known = written.get(value) ?? plain(JSON.stringify(value));
  written.set(value, known);
  return known;
}

/** The text of a value in an editor or on the clipboard. @param {unknown} value @param {Column} column */
export function textOf(value, column) {
  if (value === undefined || value === null) return "";
  if (column.type === "object" || column.type === "array") return JSON.stringify(value);
  return String(value);
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const DATE = /^\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d))?$/;

/**
 * What a typed text means in a column; `wrong` says why it means nothing.
 * @param {string} text
 * @param {Column} column
 * @returns {{value?: unknown, wrong?: string}}
 */
export function parse(text, column) {
  const trimmed = text.trim();
  if (column.type === "string") return { value: text };
  if (trimmed === "" || trimmed === "null") return { value: null };
  if (column.type === "int")
    return /^[+-]?\d+$/.test(trimmed) ? { value: number(trimmed.replace(/^\+/, "")) } : { wrong: t.grid.notInt };
  if (column.type === "number")
    return /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(trimmed)
      ? { value: number(trimmed) }
      : { wrong: t.grid.notNumber };
  if (column.type === "boolean") {
    const value = /** @type {Record<string, boolean>} */ ({
      true: true,
      yes: true,
      1: true,
      false: false,
      no: false,
      0: false,
    })[trimmed.toLowerCase()];
    return value === undefined ? { wrong: t.grid.notBoolean } : { value };
  }
  if (column.type === "date")
    return DATE.test(trimmed) && !Number.isNaN(Date.parse(trimmed)) ? { value: trimmed } : { wrong: t.grid.notDate };
  if (column.type === "member") return { value: trimmed };
  if (column.type === "uuid") return UUID.test(trimmed) ? { value: trimmed.toLowerCase() } : { wrong: t.grid.notUuid };
  try {
    const value = parseExact(trimmed);
    const fits =
      column.type === "array"
        ? Array.isArray(value)
        : typeof value === "object" && value !== null && !Array.isArray(value);
    return fits ? { value } : { wrong: column.type === "array" ? t.grid.notArray : t.grid.notObject };
  } catch (error) {
    return { wrong: t.grid.notJson(/** @type {Error} */ (error).message) };
  }
}

/** @param {string} text */
const number = (text) => (String(Number(text)) === text ? Number(text) : new Exact(text));

/** Whether two values are written alike. @param {unknown} a @param {unknown} b */
export const same = (a, b) => a === b || JSON.stringify(a) === JSON.stringify(b);

/**
 * Cells of a spreadsheet: lines of texts between tabs, in quotes where they hold either.
 * @param {string} text
 * @returns {string[][]}
 */
export function parseCells(text) {
  /** @type {string[][]} */
  const lines = [[]];
  const pattern = /("(?:[^"]|"")*"|[^\t\r\n]*)(\t|\r\n|\n|\r|$)/g;
  for (const [, cell, end] of text.matchAll(pattern)) {
    lines[lines.length - 1].push(
      cell.startsWith('"') && cell.endsWith('"') && cell.length > 1 ? cell.slice(1, -1).replaceAll('""', '"') : cell,
    );
    if (end === "") break;
    if (end !== "\t") lines.push([]);
  }
  if (lines.length > 1 && lines[lines.length - 1].length === 1 && lines[lines.length - 1][0] === "") lines.pop();
  return lines;
}
