import "./page.js";
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  columnNames,
  delimiterOf,
  guess,
  linesOf,
  quoted,
  records,
  recordsOf,
  sampleOf,
} from "../../../src/pilotis/console/static/grid/csv.js";

const cells = (text, ...more) => [...records(text, ...more)].map((one) => one.cells);

/** A file that is read in pieces of a few bytes. */
const inPieces = (text, bytes) => ({
  stream: () => {
    const all = new TextEncoder().encode(text);
    let at = 0;
    return new ReadableStream({
      pull: (to) => (at < all.length ? to.enqueue(all.slice(at, (at += bytes))) : to.close()),
    });
  },
});

test("records have quotes, delimiters and any end of a line", () => {
  assert.deepEqual(cells('a,"b,\n""c"""\r\n1,\r2,3\n'), [
    ["a", 'b,\n"c"'],
    ["1", ""],
    ["2", "3"],
  ]);
  assert.deepEqual(cells("a;b,c", ";"), [["a", "b,c"]]);
  assert.deepEqual(cells("a\tb", "\t"), [["a", "b"]]);
  assert.deepEqual(cells("a,"), [["a", ""]]);
  assert.deepEqual(cells(""), []);
  assert.deepEqual(cells('"b" c,"d'), [['"b" c', '"d']]);
});

test("a record that a piece cuts short is left for the next piece", () => {
  for (const text of ["a,b\nc,d", "a,b\nc,", 'a,b\n"c', 'a,b\n"c\nd', 'a,b\n"c,"', "a,b\nc\r"])
    assert.deepEqual(cells(text, ",", false), [["a", "b"]], text);
  assert.equal([...records("a,b\nc,d", ",", false)][0].end, 4);
});

test("a file read in pieces of any size has the same records and lines", async () => {
  const text = '이름,"두\r\n줄"\r\n"a""b",☃\r\n"c" d,"e,f"\r\nlast,';
  for (let bytes = 1; bytes < 12; bytes++) {
    assert.deepEqual(await Array.fromAsync(recordsOf(inPieces(text, bytes), ",")), [
      ["이름", "두\r\n줄"],
      ['a"b', "☃"],
      ['"c" d', "e,f"],
      ["last", ""],
    ]);
    assert.deepEqual(
      [...(await linesOf(inPieces(text, bytes), new Set([2, 5])))],
      [
        [2, '줄"'],
        [5, "last,"],
      ],
    );
  }
});

test("a cell that is written is read again", () => {
  for (const text of ["plain", 'with "quotes"', "a,b", "two\nlines", ""])
    assert.deepEqual(cells(`${quoted(text)},x`), [[text, "x"]]);
  assert.equal(quoted("a,b", ";"), "a,b");
});

test("the delimiter is the most frequent one outside quotes", () => {
  assert.equal(delimiterOf('"a,b,c";d;e\n1,2,3,4,5'), ";");
  assert.equal(delimiterOf("a\tb,c\td"), "\t");
  assert.equal(delimiterOf("one"), ",");
});

test("a type fits all values of a column, as they would be exported", () => {
  const types = {
    int: ["1", "-9223372036854775808", "", "\\N"],
    number: ["1", "0.5"],
    boolean: ["true", "false"],
    date: ["2026-01-31", "2026-01-31T09:30:00+09:00"],
    uuid: ["018f3a5e-7c1b-7000-8000-000000000000"],
    object: ["{}", '{"a": 1}'],
    array: ["[1]"],
  };
  for (const [type, values] of Object.entries(types)) assert.equal(guess(values), type);
  for (const values of [[], [""], ["1", "x"], ["007"], ["2026-13-01"], ["{"], ["TRUE"]])
    assert.equal(guess(values), "string", values.join());
  assert.equal(guess(["9223372036854775808"]), "number");
});

test("a sample says what the columns are, without the mark of the byte order", async () => {
  const sample = await sampleOf(new File(["\ufeffname;price\nboat;7\n\nsail;8.5\n"], "things.csv"));
  assert.deepEqual(
    [sample.columns, sample.types],
    [
      ["name", "price"],
      ["string", "number"],
    ],
  );
  assert.equal(sample.records.length, 2);
  await assert.rejects(sampleOf(new File([""], "empty.csv")));
});

test("the names of a file become names that columns can have", () => {
  assert.deepEqual(columnNames(["Name", " 가격 ", "a b", "", "id", "2nd", "a_b", "x".repeat(80)]), [
    "Name",
    "가격",
    "a_b",
    "column_4",
    "id_",
    "_2nd",
    "a_b_",
    "x".repeat(59),
  ]);
});
