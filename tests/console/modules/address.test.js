import "./page.js";
import assert from "node:assert/strict";
import { test } from "node:test";
import { readSort, readWhere, rowsRequest, writeSort } from "../../../src/pilotis/console/static/grid/query.js";
import { href, match } from "../../../src/pilotis/console/static/state/router.js";

test("an address says the order of rows, whatever its columns are called", () => {
  const sort = [
    ["a.b", "asc"],
    ["c,d", "desc"],
  ];
  assert.deepEqual(readSort(writeSort(sort)), sort);
  assert.equal(writeSort([]), null);
  assert.deepEqual(readSort("a.up,b"), []);
  assert.equal(readSort("a.asc,b.asc,c.asc,d.asc").length, 3);
  assert.deepEqual(readSort(null), []);
});

test("a condition that is no JSON is none", () => {
  assert.deepEqual(readWhere('{"a":1}'), { a: 1 });
  assert.equal(readWhere("{"), null);
  assert.equal(readWhere(""), null);
});

test("rows are asked for in one form by one column and another by several", () => {
  const body = (sort, where = null) => rowsRequest("t", { where, sort }, 5, 10)[1].body;
  assert.deepEqual(body([]), { limit: 10, offset: 5 });
  assert.deepEqual(body([["a", "desc"]], { b: 1 }), {
    limit: 10,
    offset: 5,
    where: { b: 1 },
    order_by: "a",
    order_direction: "desc",
  });
  assert.deepEqual(
    body([
      ["a", "asc"],
      ["b", "desc"],
    ]).order_by,
    [
      { column: "a", direction: "asc" },
      { column: "b", direction: "desc" },
    ],
  );
});

test("a path is matched with its parameters", () => {
  const patterns = [
    ["/", "apps"],
    ["/apps/:app", "app"],
    ["/apps/:app/tables/new", "new"],
    ["/apps/:app/tables/:table", "table"],
  ];
  assert.equal(match(patterns, "/")?.value, "apps");
  assert.deepEqual(match(patterns, "/apps/a%20b/"), { value: "app", params: { app: "a b" } });
  assert.equal(match(patterns, "/apps/1/tables/new")?.value, "new");
  assert.deepEqual(match(patterns, "/apps/1/tables/2")?.params, { app: "1", table: "2" });
  for (const path of ["/apps//tables/2", "/apps/%", "/apps/1/tables/2/3", "/other"])
    assert.equal(match(patterns, path), null);
  assert.deepEqual([href("/"), href("/apps/1")], ["/console", "/console/apps/1"]);
});
