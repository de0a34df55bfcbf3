/** A row where another one refers to it, and the choice of one. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, ofApp } from "../state/app.js";
import { href } from "../state/router.js";
import { namingColumn, rowName, rowNameOf, tableCalled } from "../state/row-names.js";
import { useLoad } from "./widgets.js";

const OFFERED = 6;

/** @param {{table: string, id: string}} props */
export function RowName({ table, id }) {
  const name = rowNameOf(table, id).value;
  return html`<span class="refers" title=${id}>
    ${name === null
      ? html`<span class="null">${t.grid.rowGone(id.slice(-4))}</span>`
      : name === undefined
        ? `…${id.slice(-4)}`
        : name}
  </span>`;
}

/** Where a row of a table is shown; nowhere if the table is not known yet. @param {string} table @param {string} id */
export function rowPlace(table, id) {
  const found = tableCalled(table);
  return found && href(`/apps/${appId.value}/tables/${found.id}?row=${id}`);
}

/**
 * The choice of a row to refer to: by its id, or by a part of its name.
 * @param {{table: string, label: string, value: string, wrong?: Markup, bind: any, onInput: (text: string) => void}}
 *   props
 */
export function RowField({ table, label, value, bind, onInput }) {
  const [typed, setTyped] = useState("");
  const found = tableCalled(table);
  const column = found && namingColumn(found.schema);
  const isText = column !== undefined && found && (found.schema[column].type || found.schema[column]) === "string";
  const where = isText && typed.trim() ? { [column]: { $icontains: typed.trim() } } : {};
  const body = { where, limit: OFFERED, ...(column ? { fields: [column] } : {}) };
  const { data } = useLoad(
    (signal) =>
      found
        ? ofApp(`/v1/public/tables/${found.id}/data/query`, { method: "POST", body, signal })
        : new Promise(() => {}),
    [found?.id, body],
  );
  return html`<div class="memberfield">
    <input
      ...${bind} value=${value}
      onInput=${(/** @type {Typed} */ event) => (setTyped(event.target.value), onInput(event.target.value))}
      placeholder=${t.grid.findRow(table)}
    />
    ${(data?.data || []).map(
      (/** @type {Api.Row} */ row) => html`<button
        type="button" key=${row.id} class="item" aria-label=${`${label}: ${rowName(row, column)}`}
        aria-pressed=${row.id === value ? "true" : "false"} onClick=${() => onInput(row.id)}
      >
        <span class="cut">${rowName(row, column)}</span>
      </button>`,
    )}
    ${data && !data.data.length && html`<span class="s12 soft">${t.grid.noSuchRow}</span>`}
  </div>`;
}
