// Runs the cases of `cases.json` with the JavaScript client; prints the names of those that passed, or fails.
const environment = globalThis.Deno ? Deno.env.toObject() : process.env;
const { createClient, isApiError } = await import(environment.CLIENT);
const { cases, saved: given, url, publicKey } = JSON.parse(environment.GIVEN);

function filled(value, saved) {
  if (typeof value === "string" && value.startsWith("$") && value.slice(1).split(".")[0] in saved) return at(saved, value.slice(1));
  if (Array.isArray(value)) return value.map((item) => filled(item, saved));
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, filled(item, saved)]));
  return value;
}
const at = (value, path) => path.split(".").reduce((found, name) => found?.[name], value);
const sorted = (value) =>
  value && typeof value === "object" && !Array.isArray(value)
    ? Object.fromEntries(Object.keys(value).sort().map((name) => [name, sorted(value[name])]))
    : Array.isArray(value) ? value.map(sorted) : value;
/** A live row: `until` resolves once what is shown satisfies a condition. */
function live(rows, id) {
  const seen = [];
  let look = () => {};
  const stop = rows.live(id, (row) => {
    seen.push(row);
    look();
  });
  const until = (holds) =>
    new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`not shown, but ${JSON.stringify(seen)}`)), 20_000);
      look = () => {
        if (!seen.length || !holds(seen.at(-1))) return;
        clearTimeout(late);
        resolve();
      };
      look();
    });
  return { stop, until };
}
const same = (found, wanted) => JSON.stringify(sorted(found)) === JSON.stringify(sorted(wanted));

async function run(client, { do: calls, operations }, saved) {
  let value = client;
  for (const [name, ...values] of filled(calls, saved)) {
    if (name === "collect") {
      const rows = [];
      for await (const row of value) rows.push(row);
      return rows;
    }
    if (operations) values.push((collected) => filled(operations, saved).forEach(([kind, ...rest]) => collected[kind](...rest)));
    value = typeof value[name] === "function" ? value[name](...values) : value[name];
    if (typeof value?.then === "function" && typeof value.where !== "function") value = await value;
  }
  return value;
}

const passed = [];
for (const { name, steps } of cases) {
  const client = createClient({ url, publicKey });
  const saved = { ...given, login: `js ${crypto.randomUUID()}` };
  for (const [number, step] of steps.entries()) {
    const place = `${name}, step ${number + 1}`;
    if (step.live) {
      const [[, table], [, id]] = filled(step.do, saved);
      saved[step.live] = live(client.rows(table), id);
      continue;
    }
    if (step.until) {
      const wanted = Object.entries(filled(step.expect ?? {}, saved));
      await saved[step.until].until((row) => ("is" in step ? row === step.is : row && wanted.every(([path, value]) => same(at(row, path), value))));
      continue;
    }
    let found;
    try {
      found = await run(client, step, saved);
    } catch (error) {
      if (step.error && isApiError(error, step.error)) continue;
      throw new Error(`${place}: ${error.code}: ${error.message}`, { cause: error });
    }
    if (step.error) throw new Error(`${place}: no error ${step.error}`);
    if ("is" in step && !same(found, step.is)) throw new Error(`${place}: ${JSON.stringify(found)}`);
    if ("text" in step && (await found.text()) !== step.text) throw new Error(`${place}: another text`);
    for (const [path, wanted] of Object.entries(filled(step.expect ?? {}, saved))) {
      if (!same(at(found, path), wanted)) throw new Error(`${place}: ${path} is ${JSON.stringify(at(found, path))}`);
    }
    if (step.save) saved[step.save] = found;
  }
  for (const one of Object.values(saved)) if (one?.until) one.stop();
  passed.push(name);
}
console.log(JSON.stringify(passed));
