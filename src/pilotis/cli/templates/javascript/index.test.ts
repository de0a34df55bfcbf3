// Run it with `deno test` or with `node --test`, version 24 or newer.
import assert from "node:assert/strict";
import { test } from "node:test";
import main from "./index.ts";
import type { Context } from "./pilotis.d.ts";

const ctx = { log: { info: () => {} }, caller: { type: "public", id: null } } as unknown as Context;

test("greets by name", async () => {
  assert.equal(await main({ name: "Ada" }, ctx), "Hello, Ada!");
  assert.equal(await main({}, ctx), "Hello, world!");
});
