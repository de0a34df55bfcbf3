/** Records and lines of text files in the browser, read piece by piece, so that a file may be larger than memory. */
import { t } from "../strings/index.js";

const DELIMITERS = [",", ";", "\t"];

/** A cell as CSV writes it (RFC 4180). @param {string} cell @param {string} [delimiter] */
export const quoted = (cell, delimiter = ",") =>
  cell.includes(delimiter) || /["\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;

/** The delimiter of CSV text: the one that its first line has most of outside quotes. @param {string} text */
export function delimiterOf(text) {
  const line = text.split(/\r?\n/, 1)[0].replace(/"(?:[^"]|"")*"/g, "");
  const counts = DELIMITERS.map((one) => line.split(one).length);
  return DELIMITERS[counts.indexOf(Math.max(...counts))];
}

/**
 * The records of CSV text, each with where the next begins. Without `whole`, a record that the text may cut short is
 * left out.
 * @param {string} text
 * @param {string} [delimiter]
 * @param {boolean} [whole]
 * @returns {Generator<{cells: string[], end: number}>}
 */
export function* records(text, delimiter = ",", whole = true) {
  const mark = delimiter === "\t" ? "\\t" : delimiter;
  const rest = `[^${mark}\\r\\n]`;
  const quotes = '"((?:[^"]|"")*)"';
  // Without its closing quote, a cell may go on after the text, and may have delimiters and lines in it.
  const other = whole ? `${rest}*` : `(?!")${rest}*|"(?:[^"]|"")*"(?!")${rest}+`;
  const pattern = new RegExp(`(?:${quotes}|(${other}))(${mark}|\\r\\n|\\n|\\r|$)`, "y");
  /** @type {string[]} */
  let cells = [];
  while (pattern.lastIndex < text.length) {
    const found = pattern.exec(text);
    const cut = !whole && (!found || found[3] === "" || (found[3] === "\r" && pattern.lastIndex === text.length));
    if (cut) return;
    if (!found) throw new Error(t.transfer.notCsv);
    cells.push(found[1] === undefined ? found[2] : found[1].replaceAll('""', '"'));
    if (found[3] === delimiter) continue;
    yield { cells, end: pattern.lastIndex };
    cells = [];
  }
  if (cells.length && whole) yield { cells: [...cells, ""], end: text.length };
}

/** The text of a file in pieces, without a byte-order mark. @param {Blob} file @returns {AsyncGenerator<string>} */
async function* pieces(file) {
  const decoder = new TextDecoder();
  const reader = file.stream().getReader();
  for (;;) {
    const { done, value } = await reader.read();
    yield decoder.decode(value, { stream: !done });
    if (done) return;
  }
}

/** All records of a file. @param {Blob} file @param {string} delimiter @returns {AsyncGenerator<string[]>} */
export async function* recordsOf(file, delimiter) {
  let rest = "";
  for await (const piece of pieces(file)) {
    rest += piece;
    let end = 0;
    for (const record of records(rest, delimiter, false)) {
      yield record.cells;
      end = record.end;
    }
    rest = rest.slice(end);
  }
  for (const record of records(rest, delimiter)) yield record.cells;
}

/**
 * Lines of a file by their numbers, from 1.
 * @param {Blob} file
 * @param {Set<number>} wanted
 * @returns {Promise<Map<number, string>>}
 */
export async function linesOf(file, wanted) {
  const found = new Map();
  let number = 1;
  let rest = "";
  for await (const piece of pieces(file)) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop() || "";
    for (const line of lines) {
      if (wanted.has(number)) found.set(number, line.replace(/\r$/, ""));
      number++;
    }
    if (found.size === wanted.size) return found;
  }
  if (wanted.has(number)) found.set(number, rest.replace(/\r$/, ""));
  return found;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const DATE = /^\d{4}-\d\d-\d\d([Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d))?$/;
const LARGEST_INT = 2n ** 63n;

/** @param {string} text @param {(value: unknown) => boolean} fits */
function json(text, fits) {
  try {
    return fits(JSON.parse(text));
  } catch {
    return false;
  }
}

/** The types in the order in which they are tried, as the command line guesses them: a value is exported as it came. */
const FITS = /** @type {[string, (text: string) => boolean][]} */ ([
  ["int", (text) => /^-?(0|[1-9]\d*)$/.test(text) && BigInt(text) < LARGEST_INT && BigInt(text) >= -LARGEST_INT],
  ["number", (text) => /^-?(0|[1-9]\d*)(\.\d+)?$/.test(text) && text.length <= 300],
  ["boolean", (text) => text === "true" || text === "false"],
  ["date", (text) => DATE.test(text) && !Number.isNaN(Date.parse(text))],
  ["uuid", (text) => UUID.test(text)],
  ["object", (text) => text.startsWith("{") && json(text, (value) => typeof value === "object")],
  ["array", (text) => text.startsWith("[") && json(text, Array.isArray)],
]);

/** The type that all values of a column have; text where none fits, or there is no value. @param {string[]} values */
export function guess(values) {
  const given = values.filter((text) => text !== "" && text !== "\\N");
  return (given.length && FITS.find(([, fits]) => given.every(fits))?.[0]) || "string";
}

const SAMPLE_RECORDS = 5000;
const SAMPLE_BYTES = 4 << 20;

/**
 * What the beginning of a CSV file says of its columns: their names, the types that all their values have, and the
 * first records. @param {File} file
 */
export async function sampleOf(file) {
  const delimiter = delimiterOf((await file.slice(0, 65536).text()).replace(/^\ufeff/, ""));
  /** @type {string[][]} */
  const rows = [];
  for await (const cells of recordsOf(file.slice(0, SAMPLE_BYTES), delimiter)) {
    if (cells.length > 1 || cells[0] !== "") rows.push(cells);
    if (rows.length > SAMPLE_RECORDS) break;
  }
  const [names = [], ...records] = rows;
  // The last record may be cut short by the end of the sample.
  if (file.size > SAMPLE_BYTES && rows.length <= SAMPLE_RECORDS) records.pop();
  if (!names.length) throw new Error(t.transfer.emptyFile);
  return {
    names,
    columns: columnNames(names),
    types: names.map((_, index) => guess(records.map((cells) => cells[index] ?? ""))),
    records,
  };
}

/** Names that a table can have for the names of a file, as the command line adapts them. @param {string[]} names */
export function columnNames(names) {
  /** @type {string[]} */
  const made = [];
  names.forEach((name, index) => {
    let wanted =
      name
        .normalize("NFC")
        .trim()
        .replace(/[^\p{L}\p{N}\p{M}_]/gu, "_") || `column_${index + 1}`;
    if (!/^\p{L}/u.test(wanted)) wanted = `_${wanted.replace(/^_+/, "")}`;
    while (new TextEncoder().encode(wanted).length > 59) wanted = wanted.slice(0, -1);
    if (["id", "created_at", "updated_at"].includes(wanted)) wanted += "_";
    while (made.includes(wanted)) wanted += "_";
    made.push(wanted);
  });
  return made;
}
