import assert from "node:assert/strict";
import { test } from "node:test";
import { OPERATORS, fromWhere, ofDay, toWhere, withCondition } from "../../../src/pilotis/console/static/grid/where.js";

// The tests run in Berlin, where a day begins an hour before that of UTC in winter.
const DAY = { $gte: "2026-12-11T23:00:00.000Z", $lt: "2026-12-12T23:00:00.000Z" };

test("what is drawn is what is written", () => {
  for (const where of [
    { due: DAY },
    { name: { $eq: "x" } },
    { price: { $between: [1, 2] }, name: { $contains: "a" } },
    { $and: [{ price: { $gt: 1 } }, { price: { $lt: 5 } }] },
    { $or: [{ price: { $gt: 1 } }, { name: { $in: ["a", "b"] } }] },
    { since: { $eq: null } },
    { since: { $ne: null } },
    { $creator: { $eq: "m1" } },
  ])
    assert.deepEqual(toWhere(fromWhere(where)), where);
});

test("a short condition is drawn as the long one", () => {
  assert.deepEqual(toWhere(fromWhere({ a: 1, b: null })), { a: { $eq: 1 }, b: { $eq: null } });
});

test("what says more than a filter is not drawn", () => {
  for (const where of [
    { $or: [{ $and: [] }] },
    { price: { $gt: 1, $lt: 5 } },
    { $not: { price: 1 } },
    { name: { $regex: "a" } },
    { name: { $in: "a" } },
    { name: ["a"] },
    { $or: [{ a: 1 }, { a: 1, b: 2 }] },
    [],
    "text",
    null,
  ])
    assert.equal(fromWhere(where), null, JSON.stringify(where));
});

test("each operator that a column offers can be written and drawn", () => {
  for (const operator of new Set(Object.values(OPERATORS).flat())) {
    const value = { on: "2026-12-12", between: [1, 2], oneOf: [1], isNull: null, notNull: null }[operator];
    const filter = { mode: "all", conditions: [{ column: "a", operator, value: value === undefined ? 1 : value }] };
    assert.deepEqual(fromWhere(toWhere(filter)), filter);
  }
});

test("a condition is added to what cannot be drawn", () => {
  const added = { column: "b", operator: "equals", value: 1 };
  assert.deepEqual(withCondition(null, added), { b: { $eq: 1 } });
  assert.deepEqual(withCondition({ b: 2 }, added), { $and: [{ b: { $eq: 2 } }, { b: { $eq: 1 } }] });
  assert.deepEqual(withCondition({ $not: { a: 1 } }, added), { $and: [{ $not: { a: 1 } }, { b: { $eq: 1 } }] });
});

test("a day is the whole day where the viewer is", () => {
  assert.deepEqual(ofDay("greater", "2026-12-12", false), { operator: "atLeast", value: DAY.$lt });
  assert.deepEqual(ofDay("atMost", "2026-12-12", false), { operator: "less", value: DAY.$lt });
  assert.deepEqual(ofDay("atLeast", "2026-12-12", false), { operator: "atLeast", value: DAY.$gte });
  assert.deepEqual(ofDay("between", ["2026-12-12", "2026-12-12"], false), {
    operator: "between",
    value: [DAY.$gte, "2026-12-12T22:59:59.999Z"],
  });
  // The day on which the clocks go back has 25 hours.
  assert.deepEqual(toWhere({ mode: "all", conditions: [{ column: "a", operator: "on", value: "2026-10-25" }] }), {
    a: { $gte: "2026-10-24T22:00:00.000Z", $lt: "2026-10-25T23:00:00.000Z" },
  });
  // A column of days, and a moment, are compared as they are.
  assert.deepEqual(ofDay("on", "2026-12-12", true), { operator: "equals", value: "2026-12-12" });
  assert.deepEqual(ofDay("less", "2026-12-12T10:00:00Z", false), { operator: "less", value: "2026-12-12T10:00:00Z" });
});
