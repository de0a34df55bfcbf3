/** The columns of a table as they are edited: in a new table, and in the schema of one. */
import { html } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { Button } from "../ui/widgets.js";

/** @typedef {{key: number, name: string, type: string, required: boolean, encrypted: boolean, was?: string, from?: string}} Draft */

export const TYPES = ["string", "number", "int", "boolean", "date", "uuid", "object", "array"];

let keys = 0;

/** @param {Partial<Draft>} [known] @returns {Draft} */
export const newColumn = (known = {}) => ({ key: ++keys, name: "", type: "string", required: false, encrypted: false, ...known });

/** The schema that drafts make; those without a name are left out. @param {Draft[]} columns */
export const schemaOf = (columns) =>
  Object.fromEntries(columns.filter((column) => column.name.trim()).map((column) => [column.name.trim(), { type: column.type, ...(column.required ? { required: true } : {}), ...(column.encrypted ? { encrypted: true } : {}) }]));

/** @param {{columns: Draft[], onChange: (columns: Draft[]) => void}} props */
export function ColumnList({ columns, onChange }) {
  const set = (/** @type {number} */ key, /** @type {Partial<Draft>} */ part) => onChange(columns.map((column) => (column.key === key ? { ...column, ...part } : column)));
  return html`<div class="columnlist">${columns.map((column, index) => html`<div key=${column.key}>
      <input class="in" aria-label=${t.tables.columnName(index + 1)} placeholder=${t.tables.columnPlaceholder} maxlength="63" value=${column.name} spellcheck="false" autocomplete="off" onInput=${(/** @type {any} */ event) => set(column.key, { name: event.target.value })} />
      <select class="in" aria-label=${t.tables.columnType(column.name)} value=${column.type} onChange=${(/** @type {any} */ event) => set(column.key, { type: event.target.value })}>${TYPES.map((type) => html`<option value=${type} selected=${type === column.type}>${type}</option>`)}</select>
      <label class="check s12 wide"><input type="checkbox" checked=${column.required} onChange=${(/** @type {any} */ event) => set(column.key, { required: event.target.checked })} />${t.grid.required}</label>
      <label class="check s12 wide" title=${t.tables.encryptedHelp}><input type="checkbox" checked=${column.encrypted} onChange=${(/** @type {any} */ event) => set(column.key, { encrypted: event.target.checked })} />${t.tables.encrypted}</label>
      <${Button} kind="flat small" icon="cross" label=${t.tables.removeColumn(column.name)} onClick=${() => onChange(columns.filter((one) => one.key !== column.key))} /></div>`)}
    <div><${Button} kind="flat small" icon="plus" onClick=${() => onChange([...columns, newColumn()])}>${t.tables.addColumn}</${Button}></div></div>`;
}
