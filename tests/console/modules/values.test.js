import "./page.js";
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  columnsOf,
  parse,
  parseCells,
  same,
  textOf,
  valueOf,
} from "../../../src/pilotis/console/static/grid/values.js";
import { parseExact } from "../../../src/pilotis/console/static/state/exact.js";

const as = (type, text) => parse(text, { name: "a", type });

test("a text means a value of its column's type", () => {
  assert.equal(as("string", " x ").value, " x ");
  assert.equal(as("int", " +12 ").value, 12);
  assert.equal(as("number", "-1.5").value, -1.5);
  assert.equal(as("boolean", "YES").value, true);
  assert.equal(as("boolean", "0").value, false);
  assert.equal(as("date", "2026-01-31").value, "2026-01-31");
  assert.equal(as("uuid", "018F3A5E-7C1B-7000-8000-000000000000").value, "018f3a5e-7c1b-7000-8000-000000000000");
  assert.deepEqual(as("object", '{"a": [1]}').value, { a: [1] });
  assert.deepEqual(as("array", "[]").value, []);
  for (const type of ["int", "number", "boolean", "date", "uuid", "object", "array", "member"])
    for (const text of ["", "null"]) assert.equal(as(type, text).value, null);
});

test("a text that means nothing is told why", () => {
  for (const [type, text] of [
    ["int", "1.5"],
    ["number", "1,5"],
    ["number", "007"],
    ["boolean", "maybe"],
    ["date", "31.01.2026"],
    ["date", "2026-13-01"],
    ["uuid", "1"],
    ["object", "[]"],
    ["object", "{"],
    ["array", "{}"],
  ])
    assert.ok(as(type, text).wrong, `${type} ${text}`);
});

test("numbers keep every digit", () => {
  const text = '{"serial":9007199254740993,"price":0.12345678901234567891,"small":1,"text":"9007199254740993"}';
  assert.equal(JSON.stringify(parseExact(text)), text);
  assert.equal(JSON.stringify(as("int", "9223372036854775807").value), "9223372036854775807");
  assert.equal(
    textOf(as("number", "20000000000000000000.01").value, { name: "a", type: "number" }),
    "20000000000000000000.01",
  );
  assert.ok(same(parseExact("[9007199254740993]"), parseExact("[9007199254740993]")));
  assert.ok(!same(parseExact("[9007199254740993]"), parseExact("[9007199254740992]")));
  assert.throws(() => parseExact("[1"), SyntaxError);
});

test("cells of a spreadsheet are quoted only where they hold a tab, a line or a quote", () => {
  assert.deepEqual(parseCells('one\t1.5\r\n"two\n""lines"""\t\r\n'), [
    ["one", "1.5"],
    ['two\n"lines"', ""],
  ]);
  assert.deepEqual(parseCells("a"), [["a"]]);
  assert.deepEqual(parseCells('"\t"x'), [['"', '"x']]);
});

test("the columns of a schema come before those that every row has", () => {
  const columns = columnsOf({ name: "string", done: { type: "bool", required: true } });
  assert.deepEqual(
    columns.slice(0, 2).map((one) => [one.name, one.type, one.required]),
    [
      ["name", "string", false],
      ["done", "boolean", true],
    ],
  );
  const row = { id: "r", created_by: "m", data: { name: "boat" } };
  assert.equal(valueOf(row, columns[0]), "boat");
  assert.equal(valueOf(row, columns[1]), undefined);
  assert.ok(columns.slice(2).every((one) => one.own));
  assert.equal(valueOf(row, /** @type {any} */ (columns.find((one) => one.type === "member"))), "m");
});
