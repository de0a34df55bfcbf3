// Live lists and channels with the JavaScript client; each check prints its name. Connections are cut in `fetch`.
import assert from "node:assert/strict";
const { createClient, isApiError } = await import(process.env.CLIENT);
const { saved, url, publicKey } = JSON.parse(process.env.GIVEN);

/** A client whose streams can be cut; `opened` has what each of them asked for. */
function fragile() {
  const opened = [];
  let reads = 0;
  let cut = () => {};
  let held = null;
  const given = async (input, init) => {
    if (!String(input).endsWith("/realtime")) {
      const answer = await fetch(input, init);
      if (String(input).endsWith("/query")) reads++;
      if (held && String(input).endsWith("/query")) await held;
      return answer;
    }
    opened.push(JSON.parse(init.body));
    const answer = await fetch(input, init);
    if (!answer.ok) return answer;
    const reader = answer.body.getReader();
    const body = new ReadableStream({
      start(controller) {
        cut = () => {
          reader.cancel();
          controller.error(new TypeError("terminated"));
          cut = () => {};
        };
      },
      async pull(controller) {
        const { value, done } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => reader.cancel(),
    });
    return new Response(body, { status: 200 });
  };
  return { client: createClient({ url, publicKey, fetch: given }), opened, reads: () => reads, cut: () => cut(), hold: (until) => (held = until) };
}
/** Resolves with the values of a listener's call that satisfy a condition, of all calls so far and to come. */
function calls() {
  const seen = [];
  let look = () => {};
  const listener = (...values) => {
    seen.push(values);
    look();
  };
  const until = (holds) =>
    new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`not told: ${holds}, but ${JSON.stringify(seen)}`)), 20_000);
      look = () => {
        const last = seen.at(-1);
        if (!last || !holds(...last)) return;
        clearTimeout(late);
        resolve(last);
      };
      look();
    });
  return { seen, listener, until };
}
const names = (rows) => rows.map((row) => row.data.customer).join(" ");
const writer = createClient({ url, publicKey });
const orders = writer.rows(saved.orders);

const checks = {
  async "a list stays true over a cut connection"() {
    const { client, opened, cut } = fragile();
    const list = calls(), connection = calls(), changes = calls();
    const mine = { state: "cut" };
    const row = await orders.create({ customer: "b", ...mine });
    const stop = client.rows(saved.orders).where(mine).orderBy("customer").live({
      rows: list.listener, connected: connection.listener, change: changes.listener, error: assert.fail,
    });
    await list.until((rows, total) => names(rows) === "b" && total === 1);
    await orders.create({ customer: "a", ...mine });
    await list.until((rows, total) => names(rows) === "a b" && total === 2);
    cut();
    await connection.until((isConnected) => !isConnected);
    const other = await orders.create({ customer: "c", ...mine });
    await orders.delete(row);
    await list.until((rows) => names(rows) === "a c");
    assert.ok(opened.length === 2 && opened[1].after, "It goes on where it ended.");
    assert.deepEqual(connection.seen, [[true], [false], [true]]);
    await orders.update(other.id, { state: "paid" });
    await list.until((rows) => names(rows) === "a");
    assert.deepEqual(list.seen.at(-1)[0], (await orders.where(mine)).rows);
    assert.equal(changes.seen.at(-1)[0].type, "leave");
    stop();
    const before = list.seen.length;
    await orders.create({ customer: "after", ...mine });
    await new Promise((soon) => setTimeout(soon, 100));
    assert.equal(list.seen.length, before);
  },
  async "a server of a newer version"() {
    // It has another version, and tells more: fields, events and kinds of errors that this client does not know.
    const newer = async (input, init) => {
      const answer = await fetch(input, init), headers = { ...Object.fromEntries(answer.headers), "x-pilotis-version": "99.0.0" };
      if (!String(input).endsWith("/realtime")) {
        const body = { ...(await answer.json()), later: { all: [] } };
        if (init.method === "DELETE") return new Response('{"code": "LATER", "message": "Later."}', { status: 409, headers });
        return new Response(JSON.stringify(body), { status: answer.status, headers });
      }
      const { subscriptions, channels } = JSON.parse(init.body);
      const more = `event: later\ndata: {"subscription": "${subscriptions[0]?.id}", "later": 1}\n\nevent: later\ndata: {"channel": "${channels[0]?.name}"}\n\nevent: none\n\n`;
      const add = new TransformStream({
        transform: (bytes, out) => out.enqueue(new TextEncoder().encode(new TextDecoder().decode(bytes).replaceAll("event: ready", `${more}event: ready`).replaceAll("event: change", `${more}event: change`))),
      });
      return new Response(answer.body.pipeThrough(add), { status: answer.status, headers });
    };
    const client = createClient({ url, publicKey, fetch: newer }), list = calls(), connection = calls(), missed = calls();
    const mine = { state: "newer" };
    const stop = client.rows(saved.orders).where(mine).live({ rows: list.listener, connected: connection.listener, error: assert.fail });
    const leave = client.channel("room:newer").on("x", () => {}, { missed: missed.listener });
    await list.until((rows) => rows.length === 0);
    const row = await client.rows(saved.orders).create({ customer: "a", ...mine });
    await list.until((rows) => names(rows) === "a");
    assert.deepEqual([connection.seen, missed.seen, client.serverVersion], [[[true]], [], "99.0.0"]);
    await assert.rejects(client.rows(saved.orders).delete(row), (error) => isApiError(error, "LATER"));
    stop();
    leave();
  },
  async "what changes while the list is read"() {
    const { client, hold } = fragile();
    const list = calls(), changes = calls(), mine = { state: "late" };
    const gone = await orders.create({ customer: "gone", ...mine });
    let release;
    hold(new Promise((resolve) => (release = resolve)));
    const stop = client.rows(saved.orders).where(mine).live({ rows: list.listener, change: changes.listener });
    // Until it is read nothing is shown: wait for a change that the stream tells, and make the others after it.
    const telling = setInterval(() => orders.create({ customer: "x", ...mine }), 50);
    await changes.until(() => true);
    clearInterval(telling);
    await orders.delete(gone);
    await orders.create({ customer: "last", ...mine });
    await changes.until((change) => change.row.data?.customer === "last");
    assert.equal(list.seen.length, 0);
    release();
    const [rows] = await list.until((rows) => rows.at(-1).data.customer === "last");
    assert.deepEqual(rows, (await orders.where(mine)).rows);
    assert.equal(list.seen.length, 1);
    stop();
  },
  async "a list of some of the rows"() {
    const list = calls(), mine = { state: "some" };
    for (const customer of ["1", "2", "3"]) await orders.create({ customer, ...mine });
    const ended = new AbortController();
    orders.where(mine).orderBy("id", "desc").limit(2).live({ rows: list.listener, signal: ended.signal });
    await list.until((rows, total) => names(rows) === "3 2" && total === 3);
    const newest = await orders.create({ customer: "4", ...mine });
    await list.until((rows, total) => names(rows) === "4 3" && total === 4);
    await orders.delete(newest);
    await list.until((rows, total) => names(rows) === "3 2" && total === 3);
    await orders.where({ customer: "1", ...mine }).delete();
    await list.until((rows, total) => names(rows) === "3 2" && total === 2);
    ended.abort();
  },
  async "the first rows of an order, with rows beside"() {
    const { client, reads } = fragile();
    const list = calls(), mine = { state: "first" };
    const due = (day) => `2026-01-${day}T00:00:00Z`;
    const [ada] = (await writer.rows(saved.people).createMany([{ name: "Ada" }])).created;
    const many = [["b", "09"], ["ä", "03"], ["Z", "05"], ["\u{1F600}", "07"]].map(([customer, day]) => ({ customer, due: due(day), by: ada.id, ...mine }));
    const made = (await orders.createMany(many)).created;
    const asked = client.rows(saved.orders).where(mine).orderBy("customer", "asc", { ignoreCase: true }).orderBy("due", "desc");
    const stop = asked.expand("by").fields("customer").limit(3).live(list.listener);
    await list.until((rows, total) => names(rows) === "b Z ä" && total === 4);
    const was = reads();
    await orders.create({ customer: "B", due: due("10"), by: ada.id, ...mine });
    const [rows] = await list.until((rows, total) => names(rows) === "B b Z" && total === 5);
    assert.deepEqual(Object.keys(rows[0]).sort(), ["created_at", "data", "expanded", "id", "updated_at"]);
    assert.equal(rows[0].expanded.by.data.name, "Ada");
    await orders.update(made[3].id, { amount: 1 });
    await orders.update(made[0].id, { customer: "a" });
    await list.until((rows) => names(rows) === "a B Z");
    assert.equal(reads(), was, "Changes tell all of this.");
    await orders.update(made[0].id, { customer: "\u{10FFFF}" });
    await list.until((rows) => names(rows) === "B Z ä");
    assert.ok(reads() > was, "What comes after the last row is read.");
    stop();
  },
  async "lists of one stream, one of which is wrong"() {
    const { client, opened } = fragile();
    const good = calls(), lost = calls(), wrong = calls();
    const stops = [
      client.rows(saved.orders).where({ missing: 1 }).live({ error: wrong.listener }),
      client.rows("no such table").live({ error: lost.listener }),
      client.rows(saved.orders).where({ state: "good" }).live(good.listener),
    ];
    await good.until((rows) => rows.length === 0);
    await wrong.until((error) => isApiError(error, "UNKNOWN_COLUMN"));
    await lost.until((error) => isApiError(error, "VALIDATION_FAILED"));
    assert.deepEqual(opened.map((asked) => asked.subscriptions.length), [3, 2, 1]);
    const more = calls();
    stops.push(client.rows(saved.orders).where({ state: "more" }).live(more.listener));
    await more.until((rows) => rows.length === 0);
    await orders.create({ customer: "x", state: "good" });
    await good.until((rows) => names(rows) === "x");
    stops.forEach((stop) => stop());
  },
  async "rows of those who have signed in"() {
    const client = createClient({ url, publicKey });
    const refused = calls(), list = calls(), over = calls();
    client.rows(saved.closed).live({ error: refused.listener });
    await refused.until((error) => isApiError(error, "MEMBER_TOKEN_REQUIRED"));
    await client.members.guest();
    client.rows(saved.closed).live({ rows: list.listener, error: over.listener });
    await list.until((rows) => rows.length === 0);
    await client.rows(saved.closed).create({ customer: "mine" });
    await list.until((rows) => names(rows) === "mine");
    await client.members.signOut();
    await over.until((error) => isApiError(error, "MEMBER_TOKEN_REQUIRED"));
  },
  async "a channel, and who is there"() {
    const ada = fragile(), bea = createClient({ url, publicKey });
    const room = ada.client.channel("room:1"), other = bea.channel("room:1");
    const strokes = calls(), present = calls(), missed = calls(), own = calls();
    const stops = [room.on("stroke", strokes.listener, { missed: missed.listener }), room.present(present.listener), other.on("stroke", own.listener)];
    await present.until((all, count) => count === 0 && all.length === 0);
    await other.enter({ at: 1 });
    await present.until((all) => all[0]?.state.at === 1);
    await other.enter({ at: 2 });
    await present.until((all, count) => count === 1 && all[0].state.at === 2);
    const id = await other.send("stroke", { x: 1 });
    const [payload, message] = await strokes.until(() => true);
    assert.deepEqual([payload, message.id, message.from], [{ x: 1 }, id, null]);
    await other.send("other");
    ada.cut();
    await missed.until(() => true);
    await room.send("stroke", "back");
    await own.until((text) => text === "back");
    assert.equal(own.seen.length, 1, "Its own message came back.");
    assert.equal(strokes.seen.length, 1);
    await other.leave();
    await present.until((all, count) => count === 0);
    const refused = calls();
    bea.channel("none").on("x", () => {}, { error: refused.listener });
    await refused.until((error) => isApiError(error, "CHANNEL_DENIED"));
    await other.send("stroke", { x: 2 });
    await strokes.until((payload) => payload.x === 2);
    await assert.rejects(other.enter({ text: "x".repeat(2000) }), (error) => isApiError(error, "VALIDATION_FAILED"));
    await other.enter();
    await room.send("stroke", "still");
    await own.until((text) => text === "still");
    await other.leave();
    stops.forEach((stop) => stop());
  },
  async "what a channel keeps, and what comes while the connection is lost"() {
    const sender = createClient({ url, publicKey }).channel("kept:1"), { client, cut } = fragile();
    for (const text of ["a", "b"]) await sender.send("said", text);
    const said = calls(), missed = calls();
    const stops = [client.channel("kept:1").on("said", said.listener, { missed: missed.listener })];
    await said.until((text, message) => text === "b" && message.replay);
    cut();
    await sender.send("said", "c");
    await said.until((text) => text === "c");
    await sender.send("said", "d");
    await said.until((text, message) => text === "d" && !message.replay);
    assert.deepEqual(said.seen.map(([text]) => text), ["a", "b", "c", "d"]);
    assert.equal(missed.seen.length, 0);
    stops.forEach((stop) => stop());
  },
};
for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(name);
}
// A stream that is left open would keep the program from its end.
console.log(`${Object.keys(checks).length} checks`);
