import assert from "node:assert/strict";
import { test } from "node:test";
import { placeAt } from "../../../src/pilotis/console/static/ui/json-place.js";
import { proposals } from "../../../src/pilotis/console/static/ui/rule-words.js";

const KNOWN = {
  columns: [
    { name: "state", type: "string", values: ["draft", "done"] },
    { name: "readers", type: "array" },
    { name: "team", type: "uuid" },
  ],
  tables: {
    seats: [
      { name: "team", type: "uuid" },
      { name: "member", type: "string" },
    ],
  },
  presets: [{ name: "Own rows", rules: { read: { $creator: { $member: "id" } }, create: { $member: {} } } }],
  defined: ["ours"],
};
const ON_ROWS = ["state", "readers", "team", "id", "created_at", "updated_at", "$creator", "$member", "$exists"];

/** The labels of what is proposed behind a text. */
const at = (text) => proposals(text, KNOWN, {})?.options.map((one) => one.label);

test("where a text ends", () => {
  for (const [text, path, isKey] of [
    ["{", [], true],
    ['{"read": {"$or": [{"a": 1}, {"b', ["read", "$or", 1], true],
    ['{"read": {"$or": [{"a": 1}, {"b": "x\\"y', ["read", "$or", 1, "b"], false],
    ['{"a": [1, "x", {}, tr', ["a", 3], false],
    ['{"a": {"b": 1}, "c": ', ["c"], false],
    ["", [], false],
  ]) {
    const place = placeAt(text);
    assert.deepEqual([place?.path, place?.isKey], [path, isKey], text);
  }
  assert.equal(placeAt('{"a": "xy')?.from, 6);
  assert.deepEqual(placeAt('{"table": "seats", "where": {')?.texts, [{ table: "seats" }, {}]);
  // Where only a mark may follow, and where it is no JSON.
  for (const text of ['{"a"', '{"a": 1 ', '{"a": 1} ', '{"a": "b\n', "}}", "{,", '{"a" "b"', '{"a": 1 "b"'])
    assert.equal(placeAt(text), null, text);
});

test("keys by their place", () => {
  assert.deepEqual(at("{"), ["list", "read", "create", "update", "delete", "define", "columns"]);
  assert.deepEqual(at('{"read": true, "cr'), ["list", "create", "update", "delete", "define", "columns"]);
  assert.deepEqual(at('{"read": {"'), [...ON_ROWS, "$use", "$and", "$or", "$not"]);
  assert.deepEqual(at('{"read": {"state": "x", "$or": [{"'), [...ON_ROWS, "$use", "$and", "$or", "$not"]);
  assert.deepEqual(at('{"update": {"'), [...ON_ROWS, "$use", "$old", "$new", "$and", "$or", "$not"]);
  assert.deepEqual(at('{"define": {"ours": {"'), [...ON_ROWS, "$and", "$or", "$not"]);
  assert.deepEqual(at('{"read": {"$member": {"'), ["id", "is_guest", "roles", "teams", "claims."]);
  assert.deepEqual(at('{"read": {"$exists": {"table": "seats", "'), ["where"]);
  const ofSeats = at('{"read": {"$exists": {"table": "seats", "where": {"team": {"$row": "team"}, "');
  assert.deepEqual(ofSeats?.slice(0, 4), ["member", "id", "created_at", "updated_at"]);
  assert.ok(!ofSeats?.includes("$use") && !ofSeats?.includes("$old"));
  assert.deepEqual(at('{"columns": {"'), ["state", "readers", "team"]);
  assert.deepEqual(at('{"columns": {"state": {"'), ["read", "create", "update"]);
  assert.deepEqual(at('{"columns": {"state": {"update": {"'), ["$member", "$and", "$or", "$not"]);
  assert.deepEqual(
    at('{"read": {"readers": {"$not": {"')?.filter((one) => one.startsWith("$array")),
    ["$arrayContains", "$arrayContainsAny"],
  );
  assert.ok(at('{"update": {"$new": {"state": {"')?.includes("$old"));
  assert.deepEqual(at('{"nothing": {"'), []);
});

test("values by their place", () => {
  assert.deepEqual(at('{"read": '), ["null", "true", '{"$member": {}}', '{"$creator": {"$member": "id"}}']);
  assert.deepEqual(at('{"create": '), ["null", "true", '{"$member": {}}']);
  assert.deepEqual(at('{"columns": {"state": {"update": '), ["null", "true", '{"$member": {}}']);
  assert.deepEqual(at('{"read": {"$use": "'), ["ours"]);
  assert.deepEqual(at('{"read": {"$exists": {"table": "'), ["seats"]);
  assert.deepEqual(at('{"read": {"state": '), ['"draft"', '"done"', '{"$member": "id"}']);
  assert.deepEqual(at('{"read": {"team": {"$member": "'), ["id", "is_guest", "roles", "teams", "claims."]);
  const row = '{"read": {"$exists": {"table": "seats", "where": {"team": ';
  assert.deepEqual(at(row), ['{"$member": "id"}', '{"$row": "team"}']);
  assert.deepEqual(at(`${row}{"$row": "`), ["state", "readers", "team", "id", "created_at", "updated_at", "$creator"]);
  assert.deepEqual(at('{"update": {"$new": {"team": {"$old": "'), ["state", "readers", "team"]);
  assert.deepEqual(at('{"read": {"$member": {"is_guest": '), ["false", "true"]);
});
