/** The tables of an app, and a new one. */
import { html, useEffect, useMemo, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { app, appId, denied, loadTables, ofApp, tables, tablesError } from "../state/app.js";
import { change, go, href, place } from "../state/router.js";
import { ago, count, plain, size } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Bones, Button, Choice, Empty, Failure, FormDialog, Pager, TextField, said } from "../ui/widgets.js";
import { sampleOf } from "../grid/csv.js";
import { handOver } from "../grid/handed.js";
import { Access, levels } from "../ui/access.js";
import { usePublicKey } from "../ui/calls.js";
import { TableViews } from "../ui/table-views.js";
import { ColumnList, newColumn, schemaOf } from "./columns.js";

export const head = () => ({ title: t.sectionNames.tables });

const PAGE = 100;
const PREVIEWED = 5;

/** @param {{children?: Markup}} props */
function NoTables({ children }) {
  const key = usePublicKey();
  return html`<${Empty}
    title=${t.tables.none} text=${t.tables.noneText}
    command=${`curl -X POST "${location.origin}/v1/public/tables" -H "X-Public-Key: ${key || "pk_…"}" \\\n  -H "Content-Type: application/json" \\\n  -d '{"title": "books", "schema": {"title": "string"}, "access_level": "Public"}'`}
  >
    ${children}
  </${Empty}>`;
}

export function Screen() {
  const creating = place.value.query.has("new");
  const all = tables.value;
  const offset = Math.max(0, Number(place.value.query.get("offset")) || 0);
  const page = useMemo(() => (all || []).slice(offset, offset + PAGE), [all, offset]);
  const [counts, setCounts] = useState(/** @type {Record<string, number | null>} */ ({}));
  useEffect(() => void loadTables().catch(() => {}), [appId.value]);
  useEffect(() => {
    const abort = new AbortController();
    (async () => {
      for (const table of page) {
        const counted = await ofApp(`/v1/public/tables/${table.id}/data`, {
          query: { limit: 0 },
          signal: abort.signal,
        });
        setCounts((known) => ({ ...known, [table.id]: counted.total_count }));
      }
    })().catch(() => {});
    return () => abort.abort();
  }, [page]);
  const countOf = (/** @type {number | null | undefined} */ known) => (typeof known === "number" ? count(known) : "");
  const create = html`<${Button}
    kind="go small" icon="plus" why=${denied("editor")} onClick=${() => change({ new: "1" })}
  >
    ${t.tables.create}
  </${Button}>`;
  return html`<div class="data">
    <div class="strip tabstrip">
      <${TableViews} on="tables" />
      <span class="grow"></span>
      <span class="soft s13 wide">${all && t.tables.count(all.length)}</span>
      ${all?.length ? create : null}
    </div>
    <div class="scroll">
      ${!all && tablesError.value
        ? html`<${Failure} error=${tablesError.value} retry=${() => void loadTables().catch(() => {})} />`
        : !all
          ? html`<${Bones} rows=${6} />`
          : !all.length
            ? html`<${NoTables}>${create}</${NoTables}>`
            : html`<table class="list">
                <thead>
                  <tr>
                    <th>${t.name}</th>
                    <th>${t.tables.access}</th>
                    <th class="r">${t.tables.columns}</th>
                    <th class="r">${t.stats.rows}</th>
                    <th>${t.tables.changed}</th>
                  </tr>
                </thead>
                <tbody>
                  ${page.map(
                    (table) => html`<tr key=${table.id}>
                      <td class="main">
                        <a class="cover line" href=${href(`/apps/${appId.value}/tables/${table.id}`)}>
                          <${Icon} name="table" />
                          <span class="cut">${plain(table.title, 100)}</span>
                        </a>
                      </td>
                      <td><${Access} level=${table.access_level} rules=${table.has_rules} /></td>
                      <td class="r wide">${count(Object.keys(table.schema).length)}</td>
                      <td class="r" data-label=${t.stats.rows}>${countOf(counts[table.id])}</td>
                      <td class="soft wide" title=${table.update_time}>${ago(table.update_time)}</td>
                    </tr>`,
                  )}
                </tbody>
              </table>`}
    </div>
    ${all && all.length > PAGE && html`<${Pager}
      offset=${offset} limit=${PAGE} total=${all.length}
      onChange=${(/** @type {number} */ next) => change({ offset: next ? String(next) : null })}
    />`}
    ${creating && app.value && html`<${NewTable} onClose=${() => change({ new: null }, { replace: true })} />`}
  </div>`;
}

/** @param {{onClose: () => void}} props */
function NewTable({ onClose }) {
  const [title, setTitle] = useState("");
  const [level, setLevel] = useState("Creator");
  const [columns, setColumns] = useState([newColumn()]);
  const [given, setGiven] = useState(/** @type {{file: File, records: string[][], names: string[]} | null} */ (null));
  const [failed, setFailed] = useState(/** @type {any} */ (null));
  const [over, setOver] = useState(false);
  const picker = useRef(/** @type {HTMLInputElement | null} */ (null));
  const take = async (/** @type {File | undefined} */ file) => {
    if (!file) return;
    setFailed(null);
    try {
      const { names, columns: valid, types, records } = await sampleOf(file);
      setColumns(names.map((name, index) => newColumn({ name: valid[index], type: types[index], from: name })));
      setGiven({ file, records, names });
      if (!title) setTitle(file.name.replace(/\.[^.]*$/, ""));
    } catch (error) {
      setFailed(error);
    }
  };
  const create = async () => {
    const made = await ofApp("/v1/public/tables", {
      method: "POST",
      body: { title, schema: schemaOf(columns), access_level: level },
    });
    await loadTables();
    if (given)
      handOver(
        made.id,
        given.file,
        Object.fromEntries(
          given.names.map((name) => [name, columns.find((column) => column.from === name)?.name.trim() || ""]),
        ),
      );
    go(`/apps/${appId.value}/tables/${made.id}`);
  };
  return html`<${FormDialog}
    class="broad" title=${t.tables.create} onClose=${onClose} submit=${create} action=${t.tables.createAction}
    why=${!title.trim() && t.nameFirst}
  >
    <${TextField} label=${t.name} value=${title} onInput=${setTitle} maxlength="255" autocomplete="off" data-first />
    <${Choice} label=${t.tables.access} value=${level} onInput=${setLevel} options=${levels()} />
    <div class="field">
      <span class="label">${t.transfer.fromFile} <span class="soft">${t.optional}</span></span>
      <div
        class=${`drop low ${over ? "over" : ""}`}
        onDragOver=${(/** @type {Event} */ event) => (event.preventDefault(), setOver(true))}
        onDragLeave=${() => setOver(false)}
        onDrop=${(/** @type {DragEvent} */ event) => (
          event.preventDefault(),
          setOver(false),
          take(event.dataTransfer?.files[0])
        )}
      >
        <span class="grow">
          ${given
            ? html`<b>${plain(given.file.name, 80)}</b> <span class="soft num">${size(given.file.size)}</span>`
            : t.transfer.fromFileText}
        </span>
        <${Button} kind="small" onClick=${() => picker.current?.click()}>
          ${given ? t.transfer.other : t.transfer.choose}
        </${Button}>
        <input
          ref=${picker} type="file" hidden accept=".csv,.tsv,.txt,text/csv"
          onChange=${(/** @type {any} */ event) => take(event.target.files[0])}
        />
      </div>
      ${failed && html`<p class="wrong" role="alert">${said(failed)}</p>`}
    </div>
    <div class="field">
      <span class="label">${t.tables.columns}</span>
      <${ColumnList} columns=${columns} onChange=${setColumns} />
      <p class="help">${given ? t.transfer.guessed(given.records.length) : t.tables.columnsHelp}</p>
    </div>
    ${given && html`<div class="field">
      <span class="label">${t.transfer.preview}</span>
      <div class="numbers mend" tabindex="0" role="region" aria-label=${t.transfer.preview}>
        <table class="list">
          <thead><tr>${columns.map((column) => html`<th key=${column.key}>${plain(column.name, 40)}</th>`)}</tr></thead>
          <tbody>
            ${given.records
              .slice(0, PREVIEWED)
              .map(
                (cells) => html`<tr>
                  ${columns.map(
                    (column) => html`<td class=${column.type === "int" || column.type === "number" ? "r" : ""}>
                      ${column.from === undefined ? "" : plain(cells[given.names.indexOf(column.from)] ?? "", 60)}
                    </td>`,
                  )}
                </tr>`,
              )}
          </tbody>
        </table>
      </div>
    </div>`}
  </${FormDialog}>`;
}
