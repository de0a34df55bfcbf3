// Components with the hooks of `@pilotis/react`, which `test_react.py` operates; `counts` has how often what was asked.
import { Component, StrictMode, Suspense, useState, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { renderToString } from "react-dom/server.browser";
import {
  dehydrate, hydrate, PilotisProvider, prefetch, rowsOptions, useFunction, useMember, useMutation, usePilotis, useRow, useRows, useUpload,
} from "../src/index.ts";

const { api, key, table, closed, storage } = Object.fromEntries(new URLSearchParams(location.search)) as Record<string, string>;
const { createClient } = await import(`${api}/sdk/v1/pilotis.js`);
const counts: Record<string, number> = {};
let failing = false;
const given: typeof fetch = async (input, init) => {
  const name = `${init?.method} ${new URL(String(input)).pathname.split("/").pop()}`;
  counts[name] = (counts[name] ?? 0) + 1;
  // Longer than a list is kept that nobody shows.
  if (/"limit":7/.test(String(init?.body))) await new Promise((later) => setTimeout(later, 1500));
  if (failing && init?.method === "PATCH") throw new TypeError("cut");
  return fetch(input, init);
};
const client = createClient({ url: api, publicKey: key, fetch: given, retries: 0 });
const query = client.rows(table!).all().orderBy("n").limit(2);
const names = (rows: { data: { n: number } }[]) => rows.map((row) => row.data.n).join(" ");

function Rows({ id, live = true }: { id: string; live?: boolean }) {
  const { rows, total, status, hasMore, more, reload } = useRows<any>(query, { live });
  return (
    <p id={id}>
      <output>{`${status}: ${names(rows)} of ${total}`}</output>
      {hasMore && <button onClick={more}>more {id}</button>}
      <button onClick={reload}>reload {id}</button>
    </p>
  );
}
function Member() {
  const { members } = usePilotis();
  const { member, status } = useMember();
  return (
    <p id="member">
      <output>{status === "loading" ? "?" : (member?.member_id ?? "visitor")}</output>
      <button onClick={() => members.guest()}>guest</button>
      <button onClick={() => members.signOut()}>sign out</button>
    </p>
  );
}
function Change({ id }: { id: string }) {
  const { rows } = client.rows(table!);
  const change = useMutation((n: number) => client.rows(table!).update(id, { n }), {
    query,
    change: (rows: any[], n) => rows.map((row) => (row.id === id ? { ...row, data: { ...row.data, n } } : row)),
  });
  const { row } = useRow<any>(table!, id);
  return (
    <p id="change">
      <output>{`${change.status} ${change.error?.code ?? ""} ${row?.data.n ?? "none"}`}</output>
      <button onClick={() => change.run(7).catch(() => {})}>change</button>
      <button onClick={change.reset}>reset</button>
    </p>
  );
}
function Extras() {
  const greet = useFunction<string>("none");
  const upload = useUpload(storage!);
  return (
    <p id="extras">
      <output>{`${greet.status} ${greet.error?.code ?? ""} ${upload.status} ${upload.progress} ${upload.result?.size ?? ""}`}</output>
      <button onClick={() => greet.run({}).catch(() => {})}>greet</button>
      <button onClick={() => upload.run(new Blob(["meow"]), { name: "cat.txt" }).catch(() => {})}>upload</button>
    </p>
  );
}
function Suspended() {
  return <output>{names(useRows<any>(query.limit(1), { suspense: true }).rows)}</output>;
}
function Slow() {
  return <output>{names(useRows<any>(query.limit(7), { suspense: true, live: false }).rows)}</output>;
}
function Broken() {
  return <output>{useRows(client.rows(closed!).all(), { suspense: true }).status}</output>;
}
class Boundary extends Component<{ children: ReactNode }, { code?: string }> {
  override state: { code?: string } = {};
  static getDerivedStateFromError(error: { code: string }) {
    return { code: error.code };
  }
  override render() {
    return this.state.code ?? this.props.children;
  }
}
function All({ id }: { id: string }) {
  const [shown, show] = useState(true);
  return (
    <PilotisProvider client={client}>
      {shown && <Rows id="one" />}
      {shown && <Rows id="same" />}
      <Rows id="once" live={false} />
      <Member />
      <Change id={id} />
      <Extras />
      <p id="suspended"><Suspense fallback="waiting"><Suspended /></Suspense></p>
      <p id="slow"><Suspense fallback="waiting"><Slow /></Suspense></p>
      <p id="broken"><Boundary><Suspense fallback="waiting"><Broken /></Suspense></Boundary></p>
      <button onClick={() => show(!shown)}>toggle</button>
    </PilotisProvider>
  );
}

/** What a server renders, and a page that takes it over. */
async function rendered() {
  const ours = createClient({ url: api, publicKey: key, fetch: given });
  const Page = ({ with: client }: { with: any }) => (
    <PilotisProvider client={client}><Titles /></PilotisProvider>
  );
  const Titles = () => <b>{names(useRows<any>(usePilotis().rows(table!).all().orderBy("n")).rows)}</b>;
  await prefetch(ours, ours.rows(table!).all().orderBy("n"));
  const html = renderToString(<Page with={ours} />);
  const state = JSON.parse(JSON.stringify(dehydrate(ours)));
  const theirs = createClient({ url: api, publicKey: key });
  hydrate(theirs, state);
  return [html, renderToString(<Page with={theirs} />), renderToString(<Page with={createClient({ url: api, publicKey: key })} />)];
}
async function options() {
  const { queryKey, queryFn } = rowsOptions<any>(query);
  return [queryKey, names((await queryFn({})).rows as any)];
}

Object.assign(globalThis, { client, counts, rendered, options, fail: (is: boolean) => (failing = is) });
const first = (await query).rows[0];
for (const name of Object.keys(counts)) delete counts[name];
createRoot(document.getElementById("root")!).render(<StrictMode><All id={first.id} /></StrictMode>);
