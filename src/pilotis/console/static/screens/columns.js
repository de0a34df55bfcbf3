/** The columns of a table as they are edited: in a new table, and in the schema of one. */
import { html } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { tables } from "../state/app.js";
import { plain } from "../ui/format.js";
import { Button } from "../ui/widgets.js";

/** `refers` is the table to whose rows a uuid column refers, by its id; "" for none.
 * @typedef {{key: number, name: string, type: string, required: boolean, encrypted: boolean, refers: string, onDelete:
 *   string, checks: Record<string, any>, unique?: boolean, was?: string, from?: string}} Draft
 */

export const TYPES = ["string", "number", "int", "boolean", "date", "uuid", "object", "array"];

let keys = 0;

/** @param {Partial<Draft>} [known] @returns {Draft} */
export const newColumn = (known = {}) => ({
  key: ++keys,
  name: "",
  type: "string",
  required: false,
  encrypted: false,
  refers: "",
  onDelete: "restrict",
  checks: {},
  ...known,
});

/** The schema that drafts make; those without a name are left out. @param {Draft[]} columns */
export const schemaOf = (columns) =>
  Object.fromEntries(
    columns
      .filter((column) => column.name.trim())
      .map((column) => [
        column.name.trim(),
        {
          type: column.type,
          ...(column.required ? { required: true } : {}),
          ...(column.encrypted ? { encrypted: true } : {}),
          ...(column.unique && canBeUnique(column.type) ? { unique: true } : {}),
          ...(referenceOf(column) ? { references: referenceOf(column) } : {}),
        },
      ]),
  );

/** Whether a unique key compares values of a type. @param {string} type */
const canBeUnique = (type) => type !== "object" && type !== "array";

/** What a draft's column refers to, as the routes take it. @param {Draft} draft */
export const referenceOf = (draft) =>
  draft.type === "uuid" && draft.refers ? { table: draft.refers, on_delete: draft.onDelete } : null;

/**
 * To which table a uuid column refers, and what a deletion there does.
 * @param {{draft: Draft, why?: string | false, onChange: (part: Partial<Draft>) => void}} props
 */
export function Refers({ draft, why, onChange }) {
  if (draft.type !== "uuid") return null;
  return html`<span class="refersto">
    <select
      class="in" aria-label=${t.tables.refersOf(draft.name)} title=${why || undefined} disabled=${!!why}
      value=${draft.refers} onChange=${(/** @type {Typed} */ event) => onChange({ refers: event.target.value })}
    >
      <option value="">${t.tables.refersNowhere}</option>
      ${(tables.value || []).map(
        (table) => html`<option value=${table.id} selected=${table.id === draft.refers}>
          → ${plain(table.title, 40)}
        </option>`,
      )}
    </select>
    ${draft.refers && html`<select
      class="in" aria-label=${t.tables.onDeleteOf(draft.name)} title=${why || t.tables.onDeleteHelp} disabled=${!!why}
      value=${draft.onDelete} onChange=${(/** @type {Typed} */ event) => onChange({ onDelete: event.target.value })}
    >
      ${Object.entries(t.tables.onDelete).map(
        ([name, text]) => html`<option value=${name} selected=${name === draft.onDelete}>${text}</option>`,
      )}
    </select>`}
  </span>`;
}

/** @param {{columns: Draft[], onChange: (columns: Draft[]) => void}} props */
export function ColumnList({ columns, onChange }) {
  const set = (/** @type {number} */ key, /** @type {Partial<Draft>} */ part) =>
    onChange(columns.map((column) => (column.key === key ? { ...column, ...part } : column)));
  return html`<div class="columnlist">
    ${columns.map(
      (column, index) => html`<div key=${column.key}>
        <input
          class="in" aria-label=${t.tables.columnName(index + 1)} placeholder=${t.tables.columnPlaceholder}
          maxlength="63" value=${column.name} spellcheck="false" autocomplete="off"
          onInput=${(/** @type {Typed} */ event) => set(column.key, { name: event.target.value })}
        />
        <select
          class="in" aria-label=${t.tables.columnType(column.name)} value=${column.type}
          onChange=${(/** @type {Typed} */ event) => set(column.key, { type: event.target.value })}
        >
          ${TYPES.map((type) => html`<option value=${type} selected=${type === column.type}>${type}</option>`)}
        </select>
        <${Refers} draft=${column} onChange=${(/** @type {Partial<Draft>} */ part) => set(column.key, part)} />
        <label class="check s12 wide">
          <input
            type="checkbox" checked=${column.required}
            onChange=${(/** @type {Typed} */ event) => set(column.key, { required: event.target.checked })}
          />
          ${t.grid.required}
        </label>
        <label class="check s12 wide" title=${t.unique.columnHelp}>
          <input
            type="checkbox" checked=${!!column.unique && canBeUnique(column.type)} disabled=${!canBeUnique(column.type)}
            onChange=${(/** @type {Typed} */ event) => set(column.key, { unique: event.target.checked })}
          />
          ${t.unique.column}
        </label>
        <label class="check s12 wide" title=${t.tables.encryptedHelp}>
          <input
            type="checkbox" checked=${column.encrypted}
            onChange=${(/** @type {Typed} */ event) => set(column.key, { encrypted: event.target.checked })}
          />
          ${t.tables.encrypted}
        </label>
        <${Button}
          kind="flat small" icon="cross" label=${t.tables.removeColumn(column.name)}
          onClick=${() => onChange(columns.filter((one) => one.key !== column.key))}
        />
      </div>`,
    )}
    <div>
      <${Button} kind="flat small" icon="plus" onClick=${() => onChange([...columns, newColumn()])}>
        ${t.tables.addColumn}
      </${Button}>
    </div>
  </div>`;
}
