import "./page.js";
import assert from "node:assert/strict";
import { test } from "node:test";
import { Source } from "../../../src/pilotis/console/static/grid/source.js";

const soon = () => new Promise((resume) => setTimeout(resume, 100));

test("what was on its way out of view while rows changed is read again", async () => {
  const source = new Source("things", { where: null, sort: [] });
  let [price, late] = [1, (/** @type {any} */ _answer) => {}];
  source.fetch = (offset, limit, abort) => {
    const data = [{ id: `row ${offset}`, data: { price }, created_at: "", updated_at: `${price}` }];
    const answer = { data, total_count: 1000, limit };
    if (!offset || price > 1) return Promise.resolve(answer);
    return new Promise((resolve, reject) => {
      late = () => resolve(answer);
      abort?.addEventListener("abort", () => reject(abort.reason));
    });
  };
  const end = 4 * source.size;
  source.show(0, 10);
  await soon();
  source.show(end, end + 10);
  await soon();
  source.show(0, 10);
  price = 2;
  assert.equal(await source.refresh(), 0);
  late(null);
  await soon();
  source.show(end, end + 10);
  await soon();
  assert.deepEqual([source.row(0)?.data, source.row(end)?.data], [{ price: 2 }, { price: 2 }]);
});
