/** The quieter tabs of a table: its indexes, how it is called, its title and access level. */
import { html, useEffect, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, loadTables, ofApp, onApp } from "../state/app.js";
import { go, href } from "../state/router.js";
import { ago, count, plain, size } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { listing } from "../ui/listing.js";
import {
  Bones,
  Button,
  Choice,
  Confirm,
  Copy,
  Empty,
  Failure,
  FormDialog,
  Pill,
  TextAreaField,
  TextField,
  said,
  toast,
  useAction,
  useLoad,
} from "../ui/widgets.js";
import { Calls, RunAs, useMember, usePublicKey } from "../ui/calls.js";
import { sampleRow } from "../ui/snippets.js";
import { levels } from "../ui/access.js";
import { valuesOf } from "./view.js";

/** @typedef {{table: import("../state/app.js").Table, tabs: Markup, config: Api.ConsoleConfig}} Props */

/** @param {{tabs: Markup, children?: Markup}} props */
const Frame = ({ tabs, children }) => html`<div class="stack">
  <div class="strip tabstrip">${tabs}</div>
  <div class="scroll"><div class="page tabpage">${children}</div></div>
</div>`;

const STATES = /** @type {Record<string, [string, string]>} */ ({
  ready: ["", "done"],
  building: ["info", "run"],
  failed: ["bad", "fail"],
  dropped: ["", "trash"],
});

/** @param {{table: import("../state/app.js").Table, onClose: () => void, done: () => void}} props */
function NewKey({ table, onClose, done }) {
  const [chosen, setChosen] = useState(/** @type {string[]} */ ([]));
  const [name, setName] = useState("");
  const [noCase, setNoCase] = useState(false);
  const [where, setWhere] = useState("");
  const types = /** @type {Record<string, any>} */ (table.schema);
  const names = Object.keys(types).filter((one) => !["object", "array"].includes(types[one].type || types[one]));
  const toggle = (/** @type {string} */ one) =>
    setChosen(chosen.includes(one) ? chosen.filter((other) => other !== one) : [...chosen, one]);
  let limited = /** @type {any} */ (undefined);
  try {
    limited = where.trim() ? JSON.parse(where) : undefined;
  } catch {
    limited = null;
  }
  const submit = async () => {
    await onApp(`/tables/${table.id}/unique`, {
      method: "POST",
      body: {
        columns: chosen,
        ...(name.trim() && { name: name.trim() }),
        ...(noCase && { ignore_case: true }),
        ...(limited && { where: limited }),
      },
    });
    done();
    toast(t.unique.made);
    onClose();
  };
  return html`<${FormDialog}
    title=${t.unique.create} onClose=${onClose} submit=${submit} action=${t.unique.add}
    why=${(!chosen.length && t.unique.columnFirst) || (limited === null && t.rules.notJson)}
  >
    <fieldset class="field plain">
      <legend class="label">${t.tables.columns}</legend>
      ${[...names, "$creator"].map(
        (one) => html`<label class="check">
          <input type="checkbox" checked=${chosen.includes(one)} onChange=${() => toggle(one)} />
          ${" "}<code>${plain(one, 63)}</code>
          ${one === "$creator" && html` <span class="soft s12">${t.unique.creator}</span>`}
        </label>`,
      )}
    </fieldset>
    <label class="check">
      <input type="checkbox" checked=${noCase} onChange=${() => setNoCase(!noCase)} /> ${t.unique.noCase}
    </label>
    <${TextField} label=${t.unique.name} optional value=${name} onInput=${setName} help=${t.unique.nameHelp} />
    <${TextAreaField}
      label=${t.unique.where} optional rows=${2} value=${where} onInput=${setWhere}
      wrong=${limited === null && t.rules.notJson} help=${t.unique.whereHelp}
    />
  </${FormDialog}>`;
}

/** @param {{table: import("../state/app.js").Table}} props */
function UniqueKeys({ table }) {
  const { data, error, reload } = useLoad((signal) => onApp(`/tables/${table.id}/unique`, { signal }), [table.id]);
  const [makes, setMakes] = useState(false);
  const isBuilding = data?.unique.some((key) => key.state === "building");
  useEffect(() => {
    if (!isBuilding) return;
    const timer = setTimeout(reload, 2000);
    return () => clearTimeout(timer);
  }, [isBuilding, data]);
  const [removed, setRemoved] = useState(/** @type {any} */ (null));
  const why = denied("editor");
  const done = () => {
    reload();
    loadTables();
  };
  const remove = async () => {
    await onApp(`/tables/${table.id}/unique/${encodeURIComponent(removed.name)}`, { method: "DELETE" });
    done();
  };
  const notes = (/** @type {any} */ key) =>
    [
      key.ignore_case && t.unique.noCaseShort,
      key.nulls === "equal" && t.unique.nulls,
      key.where && JSON.stringify(key.where),
    ]
      .filter(Boolean)
      .join(" · ");
  return html`<section class="slab">
    <header>
      <h2>${t.unique.title}</h2>
      <span class="grow"></span>
      <${Button}
        kind="small" icon="plus" why=${why || (!Object.keys(table.schema).length && t.unique.schemaFirst)}
        onClick=${() => setMakes(true)}
      >
        ${t.unique.create}
      </${Button}>
    </header>
    <p class="lead">${t.unique.lead}</p>
    ${listing({
      loaded: { error, reload },
      items: data?.unique,
      bones: { rows: 2, columns: 3 },
      empty: null,
      columns: html`<th>${t.unique.key}</th><th>${t.tables.columns}</th><th>${t.unique.options}</th><th></th>`,
      row: (key) => html`<tr key=${key.name}>
        <td class="main">
          ${plain(key.name, 63)}
          ${" "}${key.state === "building" && html`<${Pill} kind="info" icon="run">${t.unique.building}</${Pill}>`}
          ${key.state === "failed" && html`
            <${Pill} kind="bad" icon="fail">${t.unique.failed(key.rows || 0)}</${Pill}>
            ${" "}${!!key.pairs?.length && html`<a
              class="link s12"
              href=${href(
                `/apps/${appId.value}/tables/${table.id}?where=${encodeURIComponent(JSON.stringify({ id: { $in: key.pairs.flat() } }))}`,
              )}
            >
              ${t.tables.showRows}
            </a>`}
          `}
        </td>
        <td>${key.columns.map((/** @type {string} */ one) => html`<code>${plain(one, 63)}</code> `)}</td>
        <td class="soft wide">${plain(notes(key), 160) || "–"}</td>
        <td class="r">
          <${Button}
            kind="flat small" icon="trash" label=${t.unique.delete(key.name)} why=${why}
            onClick=${() => setRemoved(key)}
          />
        </td>
      </tr>`,
    })}
    ${makes && html`<${NewKey} table=${table} onClose=${() => setMakes(false)} done=${done} />`}
    ${removed && html`<${Confirm}
      title=${t.unique.delete(removed.name)} text=${t.unique.deleteText} action=${t.unique.remove}
      onClose=${() => setRemoved(null)} run=${remove}
    />`}
  </section>`;
}

/** @param {Props} props */
export function Indexes({ table, tabs }) {
  const { data, error, reload } = useLoad((signal) => onApp(`/tables/${table.id}/indexes`, { signal }), [table.id]);
  const uses = (/** @type {any[]} */ list) => list.map((use) => `${plain(use.column, 63)} ${use.kind}`).join(", ");
  return html`<${Frame} tabs=${tabs}>
    <${UniqueKeys} table=${table} />
    ${error
      ? html`<section class="slab"><${Failure} error=${error} retry=${reload} /></section>`
      : !data
        ? html`<section class="slab"><${Bones} rows=${3} /></section>`
        : html`
            <section class="slab">
              <header><h2>${t.tables.tabs.indexes}</h2></header>
              <p class="lead">${t.tables.indexesText}</p>
              ${data.indexes.length
                ? html`<table class="list">
                    <thead>
                      <tr>
                        <th>${t.tables.columns}</th>
                        <th>${t.tables.reason}</th>
                        <th>${t.members.state}</th>
                        <th class="r">${t.tables.size}</th>
                        <th>${t.keys.used}</th>
                      </tr>
                    </thead>
                    <tbody>
                      ${data.indexes.map(
                        (index) => html`<tr key=${index.name}>
                          <td class="main">
                            ${index.columns.map((/** @type {string} */ name) => html`<code>${plain(name, 63)}</code> `)}
                          </td>
                          <td class="soft wide">
                            ${plain(index.reason)}
                            ${index.error && html`<div class="state bad s12">${plain(index.error)}</div>`}
                          </td>
                          <td>
                            <${Pill} kind=${STATES[index.state][0]} icon=${STATES[index.state][1]}>
                              ${worded(t.tables.indexStates, index.state)}
                            </${Pill}>
                          </td>
                          <td class="r wide">${size(index.size_bytes)}</td>
                          <td class="soft wide">${index.last_used_at ? ago(index.last_used_at) : t.keys.never}</td>
                        </tr>`,
                      )}
                    </tbody>
                  </table>`
                : html`<${Empty} title=${t.tables.noIndexes} text=${t.tables.noIndexesText} />`}
            </section>
            ${data.noted.length > 0 && html`<section class="slab">
              <header><h2>${t.tables.noted}</h2></header>
              <table class="list">
                <tbody>
                  ${data.noted.map(
                    (one) => html`<tr>
                      <td class="main"><code>${uses(one.uses)}</code></td>
                      <td class="r">${t.tables.times(one.count)}</td>
                      <td class="r soft wide">${count(Math.round(one.total_ms))} ms</td>
                    </tr>`,
                  )}
                </tbody>
              </table>
            </section>`}
          `}
  </${Frame}>`;
}

/** @param {Props} props */
export function Api({ table, tabs, config }) {
  const key = usePublicKey();
  const as = useMember();
  // Only a public table answers to the public key alone.
  const bearer = table.access_level === "Public" ? {} : { bearer: "ACCESS_TOKEN" };
  const rows = /** @type {const} */ (`/v1/public/tables/${table.id}/data`);
  const first = useLoad((signal) => ofApp(rows, { query: { limit: 1 }, signal }), [rows]);
  const saved = useLoad((signal) => onApp("/views", { signal }), [appId.value]);
  const id = first.data?.data[0]?.id || "…";
  const column = Object.keys(table.schema)[0];
  const data = sampleRow(table.schema);
  const refers = Object.entries(table.schema)
    .filter(([, one]) => one.references?.table)
    .map(([name]) => name);
  const related = {
    ...Object.fromEntries(refers.map((name) => [name, {}])),
    ...Object.fromEntries(
      (table.referenced_by || [])
        .slice(0, 3)
        .map((one, index) => [`list_${index + 1}`, { from: `${one.table_id}.${one.column}`, limit: 10 }]),
    ),
  };
  const calls = /** @type {[string, any][]} */ ([
    [t.api.list, { method: "GET", path: `${rows}?limit=20` }],
    [
      t.api.find,
      {
        method: "POST",
        path: `${rows}/query`,
        body: {
          where: column ? { [column]: { $ne: null } } : {},
          order_by: "created_at",
          order_direction: "desc",
          limit: 20,
        },
      },
    ],
    ...(refers.length || table.referenced_by
      ? [[t.api.related, { method: "POST", path: `${rows}/query`, body: { expand: related, limit: 20 } }]]
      : []),
    [t.api.create, { method: "POST", path: rows, body: { data } }],
    [t.api.read, { method: "GET", path: `${rows}/${id}` }],
    [
      t.api.update,
      { method: "PATCH", path: `${rows}/${id}`, body: { data: Object.fromEntries(Object.entries(data).slice(0, 1)) } },
    ],
    [t.api.delete, { method: "DELETE", path: `${rows}/${id}` }],
    ...(saved.data?.views || [])
      .filter((view) => view.table_id === table.id)
      .map((view) => [
        t.api.view(plain(view.name, 63)),
        { method: "POST", path: `/v1/public/views/${view.name}`, body: { params: valuesOf(view) } },
      ]),
  ]);
  const why = (/** @type {any} */ request) =>
    (key === null && t.noPublicKey) ||
    (bearer.bearer && !as.member && t.api.memberFirst) ||
    (request.path.includes("…") && t.api.rowFirst) ||
    (request.method === "DELETE" && t.api.notHere);
  return html`<${Frame} tabs=${tabs}>
    <div class="line wrap">
      <p class="soft s13 grow">
        ${t.api.lead} ${bearer.bearer && t.api.token} <a class="link" href="/docs" target="_blank">${t.reference}</a>
      </p>
      ${bearer.bearer && html`<${RunAs} ...${as} />`}
    </div>
    <${Calls}
      base=${config.base_url} token=${as.token}
      calls=${calls.map(([title, request]) => ({
        title,
        request: { ...request, key: key || "pk_…", ...bearer },
        why: why(request),
      }))}
    />
  </${Frame}>`;
}

/** @param {Props} props */
export function TableSettings({ table, tabs }) {
  const [title, setTitle] = useState(table.title);
  const [level, setLevel] = useState(table.access_level);
  const [drop, setDrop] = useState(false);
  const why = denied("editor");
  const { busy, error, run } = useAction(async () => {
    await ofApp(`/v1/public/tables/${table.id}`, {
      method: "PATCH",
      body: { title, schema: (await ofApp(`/v1/public/tables/${table.id}`)).schema, access_level: level },
    });
    await loadTables();
    toast(t.saved);
  });
  return html`<${Frame} tabs=${tabs}>
    <section class="slab pad">
      <form class="form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), run())}>
        <${TextField}
          label=${t.name} value=${title} onInput=${setTitle} maxlength="255" required disabled=${!!why}
          title=${why || undefined}
        />
        <${Choice} label=${t.tables.access} value=${level} onInput=${setLevel} options=${levels()} />
        <div class="field">
          <span class="label">${t.tables.id}</span>
          <div class="secret"><code>${table.id}</code><${Copy} text=${table.id} label=${t.copy} /></div>
        </div>
        ${error && html`<p class="notice bad" role="alert"><${Icon} name="fail" /><span>${said(error)}</span></p>`}
        <div class="actions">
          <${Button}
            type="submit" busy=${busy}
            why=${why || (title === table.title && level === table.access_level && t.unchanged)}
          >
            ${t.save}
          </${Button}>
        </div>
      </form>
    </section>
    <section class="slab pad">
      <h2>${t.tables.drop}</h2>
      <p class="soft s13">${t.tables.dropText}</p>
      <p><${Button} kind="bad" icon="trash" why=${why} onClick=${() => setDrop(true)}>${t.tables.drop}</${Button}></p>
    </section>
    ${drop && html`<${Confirm}
      title=${t.tables.dropTitle(plain(table.title, 60))} text=${t.tables.dropWarning} note=${t.tables.dropNote}
      action=${t.tables.drop} onClose=${() => setDrop(false)}
      run=${async () => (
        await ofApp(`/v1/public/tables/${table.id}`, { method: "DELETE" }),
        await loadTables(),
        go(`/apps/${appId.value}/tables`),
        toast(t.tables.dropped(table.title))
      )}
    />`}
  </${Frame}>`;
}
