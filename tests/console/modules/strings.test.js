import assert from "node:assert/strict";
import { test } from "node:test";
import english from "../../../src/pilotis/console/static/strings/en.js";
import korean from "../../../src/pilotis/console/static/strings/ko.js";

/** The keys in their order, and how many arguments each text takes. */
const shape = (value) =>
  typeof value === "function"
    ? `takes ${value.length}`
    : typeof value === "object"
      ? Object.entries(value).map(([name, one]) => [name, shape(one)])
      : "text";

test("each language has the same texts", () => {
  assert.ok(JSON.stringify(shape(english)).length > 10_000);
  assert.deepEqual(shape(korean), shape(english));
});
