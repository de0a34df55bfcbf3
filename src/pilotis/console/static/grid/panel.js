/** One row beside the grid: every field, long texts and JSON included; or a new row before it is there. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, ofApp } from "../state/app.js";
import { count, isCommand, moment, plain } from "../ui/format.js";
import { Editor } from "../ui/editor.js";
import { Icon } from "../ui/icons.js";
import { MemberLink, memberPlace } from "../ui/member.js";
import { RowField, rowPlace } from "../ui/row.js";
import { useDraft } from "../state/drafts.js";
import { guard, href } from "../state/router.js";
import { Button, Copy, MenuButton, MenuItem, copyText, said, useLoad } from "../ui/widgets.js";
import { DateField } from "./picker.js";
import { Value, parse, textOf, valueOf } from "./values.js";

/** @typedef {import("./values.js").Column} Column */

/**
 * How a value is written in the panel's editor: JSON spread over lines.
 * @param {unknown} value
 * @param {Column} column
 */
const draftOf = (value, column) =>
  (column.type === "object" || column.type === "array") && value !== undefined && value !== null
    ? JSON.stringify(value, null, 2)
    : textOf(value, column);

/**
 * @param {{table: import("../state/app.js").Table, row: Api.Row, index: number, columns: Column[], focus: string,
 *   commit:
 *   (row: Api.Row, column: Column, value: unknown) => void, why: string | false, onClose: () => void, onDelete: () =>
 *   void,
 *   step: (by: number) => void, hold: () => () => void}} props
 */
export function RowPanel({ table, row, index, columns, focus, commit, why, onClose, onDelete, step, hold }) {
  return html`<aside class="panel" aria-label=${t.grid.row(index + 1)}>
    <header>
      <b>${index >= 0 ? t.grid.row(index + 1) : t.grid.rowOpen}</b>
      <code class="soft cut grow" title=${row.id}>${row.id}</code>
      <${Copy} text=${row.id} />
      <${Button} kind="flat small" icon="up" label=${t.grid.rowBefore} onClick=${() => step(-1)} />
      <${Button} kind="flat small" icon="down" label=${t.grid.rowAfter} onClick=${() => step(1)} />
      <${Button} kind="flat small" icon="cross" label=${t.close} onClick=${onClose} />
    </header>
    <dl class="rowfields">
      ${columns
        .filter((column) => !column.own)
        .map(
          (column) => html`<${Entry}
            key=${row.id + column.name} row=${row} column=${column} commit=${commit} hold=${hold}
            why=${why || (column.rewriting && t.grid.rewriting) || false} focused=${focus === column.name}
          />`,
        )}
    </dl>
    ${!!table.referenced_by?.length && html`<${Referrers} key=${row.id} table=${table} row=${row} />`}
    <footer>
      <p class="s12 soft grow">
        ${t.grid.madeAt(moment(row.created_at))}
        <br />
        ${t.grid.changedAt(moment(row.updated_at))}
        ${row.created_by && html`<br />${t.grid.madeBy} <${MemberLink} id=${row.created_by} />`}
      </p>
      <${Button} kind="flat small bad" why=${why} onClick=${onDelete}>${t.grid.deleteRow}</${Button}>
    </footer>
  </aside>`;
}

// As many as a query counts.
const COUNTED = 5;

/**
 * How many rows of other tables refer to this one, and where they are.
 * @param {{table: import("../state/app.js").Table, row: Api.Row}} props
 */
function Referrers({ table, row }) {
  const all = (table.referenced_by || []).slice(0, COUNTED);
  const counts = Object.fromEntries(all.map((one, index) => [`c${index}`, { from: `${one.table_id}.${one.column}` }]));
  const { data } = useLoad(
    (signal) =>
      ofApp(`/v1/public/tables/${table.id}/data/query`, {
        method: "POST",
        body: { where: { id: row.id }, limit: 1, fields: [], counts },
        signal,
      }),
    [table.id, row.id, counts],
  );
  const found = data?.data[0]?.counts;
  // A reference to a unique key, of one column, names the row by its value there.
  const namedBy = (/** @type {string | undefined} */ name) => {
    const column = table.unique?.find((key) => key.name === name)?.columns[0];
    return column ? (row.data[column] ?? null) : row.id;
  };
  return html`<section class="referrers">
    <h3>${t.grid.referrers}</h3>
    ${all.map(
      (one, index) => html`<a
        key=${one.table_id + one.column} class="line"
        href=${href(
          `/apps/${appId.value}/tables/${one.table_id}?where=${encodeURIComponent(JSON.stringify({ [one.column]: { $eq: namedBy(one.key) } }))}`,
        )}
      >
        <${Icon} name="table" />
        <span class="cut grow">${plain(one.table, 60)} <span class="soft">${plain(one.column, 63)}</span></span>
        <span class="soft s12">${found ? count(found[`c${index}`]) : "…"}</span>
      </a>`,
    )}
  </section>`;
}

/**
 * @param {{row: Api.Row, column: Column, commit: (row: Api.Row, column: Column, value: unknown) => void, why: string |
 *   false,
 *   focused: boolean, hold: () => () => void}} props
 */
function Entry({ row, column, commit, why, focused, hold }) {
  const value = valueOf(row, column);
  const [draft, setDraft] = useState(/** @type {string | null} */ (focused && !why ? draftOf(value, column) : null));
  const [shown, setShown] = useState(false);
  useEffect(() => {
    if (focused && !why) setDraft(draftOf(value, column));
  }, [focused]);
  useEffect(
    () => (draft !== null && draft !== draftOf(value, column) ? guard(() => t.grid.unsaved) : undefined),
    [draft],
  );
  useEffect(() => (draft === null ? undefined : hold()), [draft === null]);
  const broad = draft !== null && (column.type === "object" || column.type === "array" || column.type === "string");
  const { value: meant, wrong } = draft === null ? { value: null, wrong: "" } : parse(draft, column);
  const save = () => {
    if (wrong) return;
    if (draft !== draftOf(value, column)) commit(row, column, meant);
    setDraft(null);
  };
  const menu = html`<${MenuButton}
    label=${column.name} align="right"
    button=${(/** @type {Bind} */ bind) => html`<${Button}
      kind="flat small" icon="more" label=${t.grid.cellMenu(column.name)} ...${bind}
    />`}
  >
    ${(/** @type {() => void} */ close) => html`
      ${column.refers && html`<${MenuItem}
        icon="link" why=${!value && t.grid.refersNowhere}
        href=${value ? rowPlace(column.refers, String(value)) : undefined} onClick=${close}
      >
        ${t.grid.openReferred(column.refers)}
      </${MenuItem}>`}
      ${column.ofMember && html`<${MenuItem}
        icon="link" why=${!value && t.grid.refersNowhere} href=${value ? href(memberPlace(String(value))) : undefined}
        onClick=${close}
      >
        ${t.grid.openMember}
      </${MenuItem}>`}
      <${MenuItem} icon="edit" why=${why} onClick=${() => (close(), setDraft(draftOf(value, column)))}>
        ${t.edit}
      </${MenuItem}>
      <${MenuItem}
        icon="cross" why=${why || (value === null && t.unchanged)} onClick=${() => (close(), commit(row, column, null))}
      >
        ${t.grid.setNull}
      </${MenuItem}>
      ${column.type === "string" && html`<${MenuItem}
        icon="t-string" why=${why || (value === "" && t.unchanged)} onClick=${() => (close(), commit(row, column, ""))}
      >
        ${t.grid.setEmpty}
      </${MenuItem}>`}
      ${column.type === "uuid" && !column.refers && html`<${MenuItem}
        icon="t-uuid" why=${why} onClick=${() => (close(), commit(row, column, crypto.randomUUID()))}
      >
        ${t.grid.generate}
      </${MenuItem}>`}
      <${MenuItem}
        icon="copy" why=${value === undefined && t.grid.absentHelp}
        onClick=${() => (close(), copyText(textOf(value, column)))}
      >
        ${t.copy}
      </${MenuItem}>
    `}
  </${MenuButton}>`;
  return html`<div class=${broad ? "broad" : ""}>
    <dt title=${column.description || column.type}>
      <${Icon} name=${column.encrypted ? "lock" : `t-${column.type}`} />
      <span class="cut">${column.name}</span>
    </dt>
    <dd>
      ${draft !== null
        ? html`<div class="jsonbox">
            <${Input}
              column=${column} value=${draft} onInput=${setDraft} onSave=${save} onCancel=${() => setDraft(null)}
              wrong=${wrong}
            />
            <div class="line">
              <span class="grow wrong">${wrong}</span>
              <${Button} kind="flat small" onClick=${() => setDraft(null)}>${t.cancel}</${Button}>
              <${Button} kind="small" why=${wrong} onClick=${save}>${t.save}</${Button}>
            </div>
          </div>`
        : column.type === "boolean"
          ? html`
              <button
                type="button" class="value"
                aria-label=${`${t.grid.toggle(column.name)}: ${value === undefined ? t.grid.absent : value}`}
                disabled=${!!why} onClick=${() => commit(row, column, value !== true)}
              >
                ${value === undefined
                  ? html`<${AbsentMark} />`
                  : html`<${Value} value=${value} column=${column} /> ${value === null ? "" : String(value)}`}
              </button>
              ${menu}
            `
          : html`
              <button
                type="button" class="value" disabled=${!!why} title=${why || undefined}
                onClick=${() => setDraft(draftOf(value, column))}
              >
                ${value === undefined
                  ? html`<${AbsentMark} />`
                  : column.encrypted && shown
                    ? plain(textOf(value, column), 1000)
                    : column.type === "string" && !column.encrypted && value
                      ? plain(value, 1000)
                      : html`<${Value} value=${value} column=${column} />`}
              </button>
              ${column.encrypted && value !== undefined && value !== null && html`<${Button}
                kind="flat small" onClick=${() => setShown(!shown)}
              >
                ${shown ? t.grid.hide : t.grid.reveal}
              </${Button}>`}
              ${menu}
            `}
    </dd>
  </div>`;
}

const AbsentMark = () => html`<span title=${t.grid.absentHelp}>
  <span class="absentbox"></span>
  <span class="null">${t.grid.absent}</span>
</span>`;

/**
 * @param {{column: Column, value: string, onInput: (text: string) => void, onSave?: () => void, onCancel?: () => void,
 *   wrong?: Markup, id?: string}} props
 */
function Input({ column, value, onInput, onSave, onCancel, wrong, id }) {
  if (column.type === "object" || column.type === "array")
    return html`<${Editor}
      language="json" label=${column.name} rows=${Math.min(14, Math.max(3, value.split("\n").length))} focused=${!id}
      value=${value} onInput=${onInput} wrong=${!!wrong} onSave=${onSave} onCancel=${onCancel}
    />`;
  if (column.type === "date" && id)
    return html`<${DateField} id=${id} text=${value} onInput=${onInput} aria-invalid=${wrong ? "true" : undefined} />`;
  const tall = column.type === "string";
  /** @param {KeyboardEvent} event */
  const keys = (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape" && !onCancel) return;
    if (event.key === "Escape") onCancel?.();
    else if (event.key === "Enter" && onSave && (!tall || isCommand(event))) (event.preventDefault(), onSave());
    event.stopPropagation();
  };
  const bind = {
    id,
    class: `in ${column.type === "string" ? "" : "mono"} ${tall ? "code" : ""}`,
    value,
    "aria-label": id ? undefined : column.name,
    "aria-invalid": wrong ? "true" : undefined,
    spellcheck: column.type === "string",
    onInput: (/** @type {Typed} */ event) => onInput(event.target.value),
    onKeyDown: keys,
    ref: (/** @type {any} */ element) =>
      element && !element.dataset.seen && ((element.dataset.seen = "1"), id || element.focus()),
  };
  if (column.refers)
    return html`<${RowField}
      table=${column.refers} label=${column.name} value=${value} bind=${bind} onInput=${onInput}
    />`;
  return tall
    ? html`<textarea
        rows=${Math.min(14, Math.max(1 + Math.floor(value.length / 48), value.split("\n").length))} ...${bind}
      ></textarea>`
    : html`<input placeholder=${column.type === "date" ? "2026-01-31T12:00:00Z" : ""} ...${bind} />`;
}

/**
 * A new row: fields left empty are left out, so that defaults apply. What is typed stays until it is saved.
 * @param {{tableId: string, columns: Column[], create: (data: Record<string, unknown>) => Promise<unknown>, onClose: ()
 *   =>
 *   void}} props
 */
export function NewRow({ tableId, columns, create, onClose }) {
  const [texts, setTexts, forget] = useDraft(`row ${tableId}`);
  const typed = Object.values(texts).some(Boolean);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const first = box.current?.querySelector(".in");
    if (first instanceof HTMLElement) first.focus();
  }, []);
  /** @param {KeyboardEvent} event */
  const keys = (event) => {
    if (event.key !== "Escape" || event.isComposing || event.defaultPrevented) return;
    event.preventDefault();
    onClose();
  };
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const own = columns.filter((column) => !column.own);
  const parsed = Object.fromEntries(
    own.filter((column) => texts[column.name]).map((column) => [column.name, parse(texts[column.name], column)]),
  );
  const wrong = Object.values(parsed).some((one) => one.wrong);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (wrong || busy) return;
    setBusy(true);
    setError(null);
    try {
      await create(Object.fromEntries(Object.entries(parsed).map(([name, one]) => [name, one.value])));
      forget();
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  return html`<aside class="panel" aria-label=${t.grid.newRow} ref=${box} onKeyDown=${keys}>
    <header>
      <b class="grow">${t.grid.newRow}</b>
      <${Button} kind="flat small" icon="cross" label=${t.close} onClick=${onClose} />
    </header>
    <form onSubmit=${submit} class="newrow">
      <dl class="rowfields">
        ${own.map(
          (column) => html`<div class="broad" key=${column.name}>
            <dt>
              <${Icon} name=${column.encrypted ? "lock" : `t-${column.type}`} />
              <label for=${`new-${column.name}`} class="cut">${column.name}</label>
              ${column.required && html`<span class="soft s12">${t.grid.required}</span>`}
            </dt>
            <dd>
              <div class="jsonbox">
                ${column.type === "boolean"
                  ? html`<select
                      class="in" id=${`new-${column.name}`} value=${texts[column.name] || ""}
                      onChange=${(/** @type {Typed} */ event) =>
                        setTexts({ ...texts, [column.name]: event.target.value })}
                    >
                      <option value=""></option>
                      <option value="true">true</option>
                      <option value="false">false</option>
                    </select>`
                  : html`<${Input}
                      id=${`new-${column.name}`} column=${column} value=${texts[column.name] || ""}
                      onInput=${(/** @type {string} */ text) => setTexts({ ...texts, [column.name]: text })}
                      wrong=${parsed[column.name]?.wrong}
                    />`}
                ${parsed[column.name]?.wrong && html`<span class="wrong">${parsed[column.name].wrong}</span>`}
              </div>
            </dd>
          </div>`,
        )}
      </dl>
      ${error && html`<p class="notice bad" role="alert"><${Icon} name="fail" /><span>${said(error)}</span></p>`}
      <footer>
        <span class="s12 soft grow">${t.grid.leftOut}</span>
        ${typed && html`<${Button} kind="flat small" onClick=${forget}>${t.tables.discard}</${Button}>`}
        <${Button} kind="go small" type="submit" busy=${busy} why=${wrong && t.grid.mendFirst}>
          ${t.grid.createRow}
        </${Button}>
      </footer>
    </form>
  </aside>`;
}
