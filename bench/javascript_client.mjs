// What a call of the JavaScript client costs over the same request by bare `fetch`, in Node.js:
//   node bench/javascript_client.mjs [CLIENT]
// CLIENT is the file of the client, by default the newest that is served. Both send to the same server, which answers at
// once, in a process of its own; calls take turns in short rounds, so that what else the machine does meets both. Printed
// is the processor's time of the fastest tenth of the rounds, after as many to warm up. A new row is compared with one
// whose request has the same headers: its key is what makes it safe to repeat.
import { fork } from "node:child_process";
import { createServer } from "node:http";
import { readdirSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";

const ROUNDS = 400;
const CALLS = 20;
const ROW = JSON.stringify({ id: "0198", data: { customer: "Ada", amount: 120, state: "open" }, created_at: "2026-11-27T10:00:00Z", updated_at: "2026-11-27T10:00:00Z" });
const LIST = `{"data":[${Array(20).fill(ROW).join(",")}],"total_count":20,"limit":20,"offset":0}`;

if (process.send) {
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      const body = request.url.endsWith("/query") ? LIST : ROW;
      response.writeHead(200, { "Content-Type": "application/json", "X-Pilotis-Version": "1.0.0", "Content-Length": Buffer.byteLength(body) });
      response.end(body);
    });
  });
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));
} else {
  const folder = fileURLToPath(new URL("../src/pilotis/http/reference/client/", import.meta.url));
  const newest = readdirSync(folder).sort((a, b) => b.localeCompare(a, undefined, { numeric: true }))[0];
  const { createClient } = await import(pathToFileURL(process.argv[2] ?? `${folder}${newest}/pilotis.js`));
  const server = fork(fileURLToPath(import.meta.url));
  const port = await new Promise((resolve) => server.once("message", resolve));
  const url = `http://127.0.0.1:${port}`;
  const client = createClient({ url, publicKey: "pk_x" });
  const rows = client.rows("orders");
  const headers = { "X-Public-Key": "pk_x" };
  const posted = { ...headers, "Content-Type": "application/json" };
  const asked = { where: { state: "open" } }, made = { data: { customer: "Ada", amount: 120 } };
  const kinds = {
    "a row by its id": [
      async () => (await fetch(`${url}/v1/public/tables/orders/data/1`, { headers })).json(),
      () => rows.get("1"),
    ],
    "a query of 20 rows": [
      async () => (await fetch(`${url}/v1/public/tables/orders/data/query`, { method: "POST", headers: posted, body: JSON.stringify(asked) })).json(),
      () => rows.where({ state: "open" }).run(),
    ],
    "a new row": [
      async () => {
        const keyed = { ...posted, "Idempotency-Key": crypto.randomUUID() };
        return (await fetch(`${url}/v1/public/tables/orders/data`, { method: "POST", headers: keyed, body: JSON.stringify(made) })).json();
      },
      () => rows.create({ customer: "Ada", amount: 120 }),
    ],
  };
  const fastest = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 10)];
  for (const [name, works] of Object.entries(kinds)) {
    const times = works.map(() => []);
    for (let round = -ROUNDS; round < ROUNDS; round++) {
      // In turns also who is first.
      for (const index of round % 2 ? [0, 1] : [1, 0]) {
        const work = works[index];
        const began = process.cpuUsage();
        for (let call = 0; call < CALLS; call++) await work();
        const used = process.cpuUsage(began);
        if (round >= 0) times[index].push((used.user + used.system) / CALLS);
      }
    }
    const [bare, ours] = times.map(fastest);
    console.log(`${name}: fetch ${bare.toFixed(0)} µs, the client ${ours.toFixed(0)} µs, ${(ours - bare).toFixed(0)} µs more`);
  }
  server.kill();
}
