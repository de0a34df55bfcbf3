/** What is done to many rows at once: deleting, setting a field, and pasting a rectangle of cells. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { ofApp } from "../state/app.js";
import { count, plain } from "../ui/format.js";
import { Button, Dialog, Field, FormDialog, SelectField, TextField, toast } from "../ui/widgets.js";
import { parse } from "./values.js";

/** @typedef {import("./values.js").Column} Column */

const TYPED_ABOVE = 1000;
const PACKET = 500;
const LISTED = 100;

/** Many writes, sent in packets: they can be paused, and go on where an error interrupted them. */
class Sending {
  /** @param {any[]} operations */
  constructor(operations) {
    this.operations = operations;
    this.done = 0;
    this.isStopped = false;
    this.isPaused = false;
    this.resume = () => {};
    /** @type {{id: string, message: string}[]} */
    this.failed = [];
  }

  /** @param {() => void} tell */
  async run(tell) {
    while (this.done < this.operations.length && !this.isStopped) {
      const packet = this.operations.slice(this.done, this.done + PACKET);
      const answer = await ofApp("/v1/public/batch", { method: "POST", body: { operations: packet } });
      for (const result of answer.results)
        if (!result.success)
          this.failed.push({ id: packet[result.index].doc_id, message: result.error?.message || t.failed });
      this.done += packet.length;
      tell();
      if (this.isPaused && this.done < this.operations.length && !this.isStopped)
        await new Promise((resume) => (this.resume = () => resume(undefined)));
    }
  }

  toggle() {
    this.isPaused = !this.isPaused;
    if (!this.isPaused) this.resume();
  }

  stop() {
    this.isStopped = true;
    this.resume();
  }
}

/**
 * A dialog that sends many writes: how far it is, a pause, and afterwards the rows that failed.
 * @param {{title: string, action: string, kind?: string, why?: string | false | null, operations: () => unknown[],
 *   said:
 *   (count: number) => string, onClose: () => void, done: () => void, children?: Markup}} props
 */
function SendDialog({ title, action, kind, why, operations, said, onClose, done, children }) {
  const sending = useRef(/** @type {Sending | null} */ (null));
  const [, draw] = useState(0);
  const tell = () => draw((turn) => turn + 1);
  const one = sending.current;
  const isOver = !!one && one.done === one.operations.length;
  useEffect(() => () => sending.current?.stop(), []);
  const close = () => {
    if (one?.done && !isOver) toast(said(one.done - one.failed.length));
    if (one?.done && !isOver) done();
    onClose();
  };
  const submit = async () => {
    if (!sending.current?.done) sending.current = new Sending(operations());
    tell();
    await sending.current.run(tell);
    const { isStopped, failed, done: number } = sending.current;
    if (isStopped) return;
    done();
    if (failed.length < number || !number) toast(said(number - failed.length));
    if (!failed.length) onClose();
  };
  if (isOver && one.failed.length)
    return html`<${Dialog}
      key="failed" role="alertdialog" title=${t.grid.notAllDone(one.failed.length)} onClose=${onClose}
      footer=${html`<span class="grow"></span><${Button} kind="go" onClick=${onClose}>${t.close}</${Button}>`}
    >
      <ul class="planned failures">
        ${one.failed
          .slice(0, LISTED)
          .map(
            (row) => html`<li key=${row.id}>
              <code class="soft">${plain(row.id, 40)}</code>
              <span class="grow">${plain(row.message, 300)}</span>
            </li>`,
          )}
      </ul>
      ${one.failed.length > LISTED && html`<p class="soft s12">${t.transfer.firstOnly(LISTED)}</p>`}
    </${Dialog}>`;
  return html`<${FormDialog} title=${title} onClose=${close} submit=${submit} action=${action} kind=${kind} why=${why}>
    ${children}
    ${one && one.operations.length > PACKET && html`<div class="line">
      <div class="grow">
        <${Progress}
          at=${one.done} of=${one.operations.length}
          text=${one.isPaused ? t.grid.pausedAt(one.done, one.operations.length) : undefined}
        />
      </div>
      <${Button} kind="small" onClick=${() => (one.toggle(), tell())}>
        ${one.isPaused ? t.files.resume : t.files.pause}
      </${Button}>
    </div>`}
  </${FormDialog}>`;
}

/**
 * @param {{tableId: string, ids: string[], all: number | null, where: Record<string, unknown>, onClose: () => void,
 *   done: () => void}}
 *   props
 */
export function DeleteRows({ tableId, ids, all, where, onClose, done }) {
  const number = all ?? ids.length;
  const [typed, setTyped] = useState("");
  const props = {
    title: t.grid.deleteRows(number),
    action: t.grid.deleteAction,
    kind: "danger",
    why: number > TYPED_ABOVE && typed !== String(number) && t.typeName(String(number)),
    onClose,
  };
  const children = html`
    <p>${t.grid.deleteText}</p>
    ${number > TYPED_ABOVE && html`<${TextField}
      label=${t.typeName(String(number))} inputmode="numeric" value=${typed} onInput=${setTyped} autocomplete="off"
    />`}
  `;
  const removeAll = async () => {
    const answer = await ofApp(`/v1/public/tables/${tableId}/data/delete-where`, {
      method: "POST",
      body: where ? { where } : { all: true },
    });
    toast(t.grid.deleted(answer.deleted_count));
    done();
    onClose();
  };
  if (all !== null) return html`<${FormDialog} ...${props} submit=${removeAll}>${children}</${FormDialog}>`;
  return html`<${SendDialog}
    ...${props} said=${t.grid.deleted} done=${done}
    operations=${() => ids.map((id) => ({ type: "delete", table_id: tableId, doc_id: id }))}
  >
    ${children}
  </${SendDialog}>`;
}

/** @param {{at: number, of: number, text?: string}} props */
export const Progress = ({ at, of, text }) => html`<div class="field">
  <div class="meter" role="progressbar" aria-valuenow=${at} aria-valuemax=${of} aria-label=${t.progress}>
    <span ref=${(/** @type {HTMLElement | null} */ bar) =>
      bar && (bar.style.width = `${(at / Math.max(1, of)) * 100}%`)}></span>
  </div>
  <p class="s12 soft num">${text || `${count(at)} / ${count(of)}`}</p>
</div>`;

/** @param {{tableId: string, ids: string[], columns: Column[], onClose: () => void, done: () => void}} props */
export function EditRows({ tableId, ids, columns, onClose, done }) {
  const own = columns.filter((column) => !column.own);
  const [name, setName] = useState(own[0]?.name || "");
  const [text, setText] = useState("");
  const [empty, setEmpty] = useState(false);
  const column = own.find((one) => one.name === name) || own[0];
  const { value, wrong } = empty ? { value: null, wrong: "" } : parse(text, column);
  return html`<${SendDialog}
    title=${t.grid.editRows(ids.length)} onClose=${onClose} done=${done} said=${t.grid.changed} action=${t.save}
    why=${wrong}
    operations=${() =>
      ids.map((id) => ({ type: "update", table_id: tableId, doc_id: id, data: { [column.name]: value } }))}
  >
    <${SelectField}
      label=${t.grid.column} value=${name} onInput=${setName}
      options=${own.map((one) => [one.name, plain(one.name, 60)])}
    />
    <${Field} label=${t.grid.value} wrong=${text && wrong}>
      ${(/** @type {Bind} */ bind) => html`<input
        class="in" value=${text} disabled=${empty} spellcheck="false"
        onInput=${(/** @type {Typed} */ event) => setText(event.target.value)} ...${bind}
      />`}
    </${Field}>
    <label class="check">
      <input
        type="checkbox" checked=${empty} onChange=${(/** @type {Typed} */ event) => setEmpty(event.target.checked)}
      />
      ${t.grid.setNull}
    </label>
  </${SendDialog}>`;
}

/**
 * @param {{tableId: string, cells: string[][], rows: any[], columns: Column[], onClose: () => void, done: () => void}}
 *   props
 */
export function PasteDialog({ tableId, cells, rows, columns, onClose, done }) {
  const bad = /** @type {{line: number, column: string, wrong: string}[]} */ ([]);
  const operations = cells.slice(0, rows.length).map((line, index) => {
    /** @type {Record<string, unknown>} */
    const data = {};
    line.slice(0, columns.length).forEach((text, place) => {
      const column = columns[place];
      const { value, wrong } = column.own ? { value: null, wrong: t.grid.ownField } : parse(text, column);
      if (wrong) bad.push({ line: index + 1, column: column.name, wrong });
      else data[column.name] = value;
    });
    return { type: "update", table_id: tableId, doc_id: rows[index].id, data };
  });
  const width = Math.min(columns.length, Math.max(...cells.map((line) => line.length)));
  return html`<${SendDialog}
    title=${t.grid.paste} onClose=${onClose} done=${done} said=${t.grid.changed} operations=${() => operations}
    action=${t.grid.pasteAction}
  >
    <p>
      ${t.grid.pasteText(
        operations.length,
        columns
          .slice(0, width)
          .map((column) => plain(column.name, 40))
          .join(", "),
      )}
    </p>
    ${bad.length > 0 && html`
      <div class="notice warn"><span>${t.grid.pasteBad(bad.length)}</span></div>
      <ul class="planned">
        ${bad
          .slice(0, 6)
          .map(
            (one) => html`<li>
              <span class="soft num">${one.line}</span>
              <b>${plain(one.column, 40)}</b>
              <span>${one.wrong}</span>
            </li>`,
          )}
      </ul>
    `}
  </${SendDialog}>`;
}
