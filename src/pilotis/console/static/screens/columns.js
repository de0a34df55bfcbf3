/** The columns of a table as they are edited: in a new table, and in the schema of one. */
import { html, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { tables } from "../state/app.js";
import { plain } from "../ui/format.js";
import { Button } from "../ui/widgets.js";

/** `refers` is the table to whose rows a column refers, by its id, with the name of a unique key behind a slash, or
 * MEMBERS; "" for none.
 * @typedef {{key: number, name: string, type: string, required: boolean, encrypted: boolean, refers: string, onDelete:
 *   string, checks: Record<string, any>, unique?: boolean, was?: string, from?: string}} Draft
 */

/** In the place of a table: the members of the app. */
export const MEMBERS = "members";

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
export function referenceOf(draft) {
  if (!draft.refers || !targetsOf(draft.type).some((one) => one.value === draft.refers)) return null;
  const way = waysOf(draft).includes(draft.onDelete) ? draft.onDelete : waysOf(draft)[0];
  if (draft.refers === MEMBERS) return { member: true, on_delete: way };
  const [table, key] = draft.refers.split("/");
  return { table, ...(key ? { key } : {}), on_delete: way };
}

/** The `refers` of a column as the routes show its reference. @param {any} reference */
export const refersOf = (reference) =>
  !reference ? "" : reference.member ? MEMBERS : reference.table_id + (reference.key ? `/${reference.key}` : "");

/** What a column of a type can refer to. @param {string} type */
export function targetsOf(type) {
  const all = tables.value || [];
  const typeOf = (/** @type {any} */ definition) => definition?.type || definition;
  const keys = all.flatMap((table) =>
    (table.unique || [])
      .filter((/** @type {any} */ key) => key.columns.length === 1 && !key.where && !key.ignore_case && !key.state)
      .filter((/** @type {any} */ key) => typeOf(table.schema[key.columns[0]]) === type)
      .filter((/** @type {any} */ key) => !table.schema[key.columns[0]].encrypted)
      .map((/** @type {any} */ key) => ({
        value: `${table.id}/${key.name}`,
        text: t.tables.refersByKey(plain(table.title, 40), key.name),
      })),
  );
  const rows = type === "uuid" ? all.map((table) => ({ value: table.id, text: plain(table.title, 40) })) : [];
  const members = type === "string" ? [{ value: MEMBERS, text: t.tables.refersMembers }] : [];
  return REFERRING.includes(type) ? [...members, ...rows, ...keys] : [];
}

const REFERRING = ["uuid", "string", "int", "number"];

/** What a deletion may do, by what a draft refers to. @param {Draft} draft */
const waysOf = (draft) =>
  draft.refers === MEMBERS ? ["keep", "set_null", "cascade"] : ["restrict", "set_null", "cascade"];

/**
 * To what a column refers, and what a deletion there does. A uuid mostly refers to something; behind the other types a
 * button asks first.
 * @param {{draft: Draft, why?: string | false, onChange: (part: Partial<Draft>) => void}} props
 */
export function Refers({ draft, why, onChange }) {
  const [open, setOpen] = useState(false);
  const targets = targetsOf(draft.type);
  if (!targets.length) return null;
  if (!open && !draft.refers && draft.type !== "uuid")
    return html`<span class="refersto closed">
      <${Button}
        kind="flat small" icon="plus" label=${`${t.tables.reference}, ${draft.name}`} why=${why}
        onClick=${() => setOpen(true)}
      >
        ${t.tables.reference}
      </${Button}>
    </span>`;
  const chosen = referenceOf(draft);
  return html`<span class="refersto">
    <select
      class="in" aria-label=${t.tables.refersOf(draft.name)} title=${why || undefined} disabled=${!!why}
      value=${draft.refers} onChange=${(/** @type {Typed} */ event) => onChange({ refers: event.target.value })}
    >
      <option value="">${t.tables.refersNowhere}</option>
      ${targets.map(
        (one) => html`<option value=${one.value} selected=${one.value === draft.refers}>→ ${one.text}</option>`,
      )}
    </select>
    ${chosen && html`<select
      class="in" aria-label=${t.tables.onDeleteOf(draft.name)} title=${why || t.tables.onDeleteHelp} disabled=${!!why}
      value=${chosen.on_delete} onChange=${(/** @type {Typed} */ event) => onChange({ onDelete: event.target.value })}
    >
      ${waysOf(draft).map(
        (name) => html`<option value=${name} selected=${name === chosen.on_delete}>
          ${worded(t.tables.onDelete, name)}
        </option>`,
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
