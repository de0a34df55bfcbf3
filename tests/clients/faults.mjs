// What the JavaScript client does in bad weather; each check prints its name. The faults are those of `fetch`.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
const { createClient, inc, isApiError } = await import(process.env.CLIENT);
const { saved, url, publicKey } = JSON.parse(process.env.GIVEN);

/** Sends a request and loses its answer, or answers something else, as long as there is a fault for it. */
function weather(faults) {
  const sent = [];
  const fault = async (input, init) => {
    const path = String(input).replace(url, "");
    sent.push(`${init.method} ${path}`);
    const next = faults.shift();
    if (next === "lose") {
      await fetch(input, init);
      throw new TypeError("fetch failed");
    }
    if (next === "hang") return new Promise((_, reject) => init.signal.addEventListener("abort", () => reject(init.signal.reason)));
    if (next === "cut" || next === "stall") {
      const answer = await fetch(input, init), bytes = new Uint8Array(await answer.arrayBuffer());
      const half = (controller) => {
        controller.enqueue(bytes.slice(0, bytes.length / 2));
        if (next === "cut") controller.error(new TypeError("terminated"));
      };
      return new Response(new ReadableStream({ start: half }), { status: answer.status, headers: answer.headers });
    }
    return next instanceof Response ? next : fetch(input, init);
  };
  return { sent, client: createClient({ url, publicKey, fetch: fault }) };
}
const code = (wanted) => (error) => isApiError(error, wanted) || assert.fail(`${error.code}: ${error.message}`);
const busy = (status, headers = {}) => new Response('{"code":"UNAVAILABLE","message":"Busy."}', { status, headers });

const checks = {
  async "a create whose answer is lost creates once"() {
    const { client } = weather(["lose", "lose"]);
    const row = await client.rows(saved.orders).create({ customer: "lost" });
    assert.deepEqual((await client.rows(saved.orders).where({ customer: "lost" })).rows.map((found) => found.id), [row.id]);
  },
  async "an answer that is cut is none"() {
    const { client, sent } = weather(["cut", null, "cut"]);
    const row = await client.rows(saved.orders).create({ customer: "cut" });
    assert.equal((await client.rows(saved.orders).get(row.id)).data.customer, "cut");
    assert.equal(sent.length, 4);
    assert.equal(await client.rows(saved.orders).where({ customer: "cut" }).count(), 1);
  },
  async "an increment whose answer is lost increments once"() {
    const orders = weather([null, "lose", null, "lose"]).client.rows(saved.orders);
    const row = await orders.create({ customer: "inc", amount: 1 });
    assert.equal((await orders.update(row.id, { amount: inc(2) })).data.amount, 3);
    assert.equal(await orders.where({ id: row.id }).update({ amount: inc(2) }), 1);
    assert.equal((await orders.get(row.id)).data.amount, 5);
  },
  async "a change of a row whose answer is lost is no conflict"() {
    const orders = weather([null, "lose"]).client.rows(saved.orders);
    const row = await orders.create({ customer: "same" });
    assert.equal((await orders.update(row, { customer: "other" })).data.customer, "other");
  },
  async "a transaction whose answer is lost runs once"() {
    const { client } = weather([null, "lose"]);
    await client.transaction((t) => t.create(saved.orders, { customer: "together" }));
    assert.equal(await client.rows(saved.orders).where({ customer: "together" }).count(), 1);
  },
  async "a delete whose answer is lost has deleted"() {
    const orders = weather([null, "lose"]).client.rows(saved.orders);
    const row = await orders.create({ customer: "gone" });
    await orders.delete(row);
    await assert.rejects(orders.delete(row), code("ROW_NOT_FOUND"));
  },
  async "a busy server is asked again, when it says"() {
    const { client, sent } = weather([busy(503), busy(502), busy(429, { "Retry-After": "0" })]);
    await client.authSettings();
    assert.equal(sent.length, 4);
  },
  async "not for ever"() {
    const { client, sent } = weather([...Array(9)].map(() => busy(503, { "Retry-After": "0" })));
    await assert.rejects(client.authSettings(), code("UNAVAILABLE"));
    assert.equal(sent.length, 4);
    const once = createClient({ url: "http://127.0.0.1:9", publicKey, retries: 0 });
    await assert.rejects(once.stats(), code("NETWORK"));
  },
  async "an error of the caller's is not repeated"() {
    const { client, sent } = weather([]);
    await assert.rejects(client.rows(saved.orders).create({}), code("VALIDATION_FAILED"));
    assert.equal(sent.length, 1);
  },
  async "a server that does not answer"() {
    const { client } = weather(["hang", "hang"]);
    await assert.rejects(client.request("GET", "/v1/public/stats", { timeout: 100 }), code("TIMEOUT"));
    const stop = new AbortController();
    const asked = client.request("GET", "/v1/public/stats", { signal: stop.signal });
    stop.abort(new Error("enough"));
    await assert.rejects(asked, /enough/);
    const stalled = weather(["stall", "stall"]).client;
    await assert.rejects(stalled.request("GET", "/v1/public/stats", { timeout: 100 }), code("TIMEOUT"));
    const late = new AbortController();
    setTimeout(() => late.abort(new Error("late")), 50);
    await assert.rejects(stalled.request("GET", "/v1/public/stats", { signal: late.signal }), /late/);
    // Also by a fetch that nobody has given a signal, and with a time that is longer than a timer's.
    const closed = createServer(() => {}).listen(0, "127.0.0.1");
    await once(closed, "listening");
    const silent = createClient({ url: `http://127.0.0.1:${closed.address().port}`, publicKey, retries: 0 });
    const outcomes = await Promise.all([10, 120, 60].map((timeout) => silent.request("GET", "/", { timeout }).catch((error) => [error.code, timeout])));
    assert.deepEqual(outcomes, [["TIMEOUT", 10], ["TIMEOUT", 120], ["TIMEOUT", 60]]);
    closed.closeAllConnections();
    closed.close();
    assert.ok(await createClient({ url, publicKey, timeout: Infinity }).stats());
  },
  async "an error tells where the call was"() {
    async function hereItWas() {
      await createClient({ url, publicKey }).rows(saved.orders).get(crypto.randomUUID());
    }
    await assert.rejects(hereItWas(), (error) => isApiError(error, "ROW_NOT_FOUND") && /hereItWas/.test(error.stack));
  },
  async "a proxy's page"() {
    const { client } = weather([new Response("<h1>Bad gateway</h1>", { status: 500 }), new Response("<h1>Welcome</h1>")]);
    await assert.rejects(client.stats(), code("BAD_ANSWER"));
    await assert.rejects(client.stats(), code("BAD_ANSWER"));
  },
  async "numbers that a double would round"() {
    const big = createClient({ url, publicKey, bigint: true }).rows(saved.numbers);
    const row = await big.create({ whole: 2n ** 53n + 1n, text: "9007199254740993", part: 0.30000000000000004 });
    assert.deepEqual(row.data, { whole: 2n ** 53n + 1n, text: "9007199254740993", part: 0.30000000000000004 });
    assert.deepEqual((await big.where({ whole: 2n ** 53n + 1n })).rows.map((found) => found.id), [row.id]);
    const { data } = await createClient({ url, publicKey }).rows(saved.numbers).get(row.id);
    assert.deepEqual(Object.keys(data).sort(), ["part", "text", "whole"]);
    assert.equal(data.text, "9007199254740993");
    assert.throws(() => data.whole, code("UNSAFE_NUMBER"));
    assert.equal((await createClient({ url, publicKey }).rows(saved.numbers).create({ whole: 2 ** 53 - 1, part: 1e21 })).data.part, 1e21);
  },
  async "a server of an older version"() {
    const older = (input, init) => fetch(String(input).replace("/query", "/no-such-route"), init);
    const rows = createClient({ url, publicKey, fetch: older }).rows(saved.numbers);
    await assert.rejects(rows.all().run(), (error) => isApiError(error, "NOT_SUPPORTED_BY_SERVER") && /^Server \S+ has no POST .*\/query/.test(error.message));
    await assert.rejects(rows.get(crypto.randomUUID()), code("ROW_NOT_FOUND"));
    await assert.rejects(createClient({ url, publicKey }).request("GET", "/v1/public/mistyped"), code("NOT_FOUND"));
  },
  async "an access token for another program"() {
    const client = createClient({ url, publicKey });
    assert.equal(await client.members.token(), null);
    const { access_token } = await client.members.guest();
    assert.equal(await client.members.token(), access_token);
  },
  async "columns with the names of methods"() {
    const rows = createClient({ url, publicKey }).rows(saved.names);
    const row = await rows.create({ then: "a", constructor: "b", toString: "c", where: "d" });
    assert.deepEqual(row.data, { then: "a", constructor: "b", toString: "c", where: "d" });
    assert.equal((await rows.where({ then: "a" })).total, 1);
  },
};
for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(name);
}
console.log(`${Object.keys(checks).length} checks`);
