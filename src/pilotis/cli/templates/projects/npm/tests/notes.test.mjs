// `pilotis test` runs it against an app of its own.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createClient, isApiError } from "@pilotis/client";

const { PILOTIS_URL: url, PILOTIS_PUBLIC_KEY: publicKey } = process.env;

test("a note belongs to its author", async () => {
  const [ada, bea] = [createClient({ url, publicKey }), createClient({ url, publicKey })];
  await Promise.all([ada.members.guest(), bea.members.guest()]);
  const note = await ada.rows("notes").create({ text: "mine" });
  await assert.rejects(bea.rows("notes").update(note.id, { text: "taken" }), (error) => isApiError(error));
  assert.equal((await bea.rows("notes").get(note.id)).data.text, "mine");
});

test("the function greets", async () => {
  const client = createClient({ url, publicKey });
  assert.equal(await client.functions.invoke("greet", { name: "Ada" }), "Hello, Ada!");
});
