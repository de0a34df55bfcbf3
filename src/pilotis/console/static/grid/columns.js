/** The columns of a grid: which of them are shown, and what is done with one by its header. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId } from "../state/app.js";
import { href } from "../state/router.js";
import { plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Button, Menu, MenuButton, MenuItem } from "../ui/widgets.js";
import { ConditionEditor } from "./filters.js";
import { MAX_SORTS } from "./query.js";
import { labelOf } from "./values.js";

/**
 * @typedef {import("./values.js").Column} Column
 * @typedef {{left: number, right: number, top: number, bottom: number}} Place
 */

// So many columns are found at a glance.
const FEW = 8;

/**
 * Which columns are shown. The last one stays, as a grid without columns has no rows.
 * @param {{columns: Column[], hidden: string[], hide: (names: string[]) => void}} props
 */
export function ColumnChooser({ columns, hidden, hide }) {
  const [typed, setTyped] = useState("");
  const words = typed.trim().toLowerCase();
  const found = columns.filter((column) => labelOf(column).toLowerCase().includes(words));
  const shown = columns.filter((column) => !hidden.includes(column.name));
  const names = found.map((column) => column.name);
  const rest = shown.filter((column) => !names.includes(column.name));
  const keep = rest.length ? [] : names.slice(0, 1);
  const toggle = (/** @type {string} */ name) =>
    hide(hidden.includes(name) ? hidden.filter((one) => one !== name) : [...hidden, name]);
  return html`<${MenuButton}
    role="dialog" label=${t.grid.columns} align="right"
    button=${(/** @type {Bind} */ bind) => html`<${Button} kind="flat small" icon="columns" class="wide" ...${bind}>
      ${shown.length}/${columns.length}
    </${Button}>`}
  >
    ${() => html`
      ${columns.length > FEW && html`<div class="choosing">
        <input
          class="in small" type="search" aria-label=${t.grid.findColumn} placeholder=${t.grid.findColumn}
          spellcheck="false" autocomplete="off" value=${typed}
          onInput=${(/** @type {Typed} */ event) => setTyped(event.target.value)}
        />
        <div class="line">
          <${Button}
            kind="flat small" why=${names.every((name) => !hidden.includes(name)) && t.unchanged}
            onClick=${() => hide(hidden.filter((name) => !names.includes(name)))}
          >
            ${t.grid.showAll}
          </${Button}>
          <${Button}
            kind="flat small" why=${names.every((name) => hidden.includes(name) || keep.includes(name)) && t.unchanged}
            onClick=${() => hide([...new Set([...hidden, ...names])].filter((name) => !keep.includes(name)))}
          >
            ${t.grid.hideAll}
          </${Button}>
        </div>
      </div>`}
      ${found.map(
        (column) => html`<label key=${column.name} class="item check">
          <input
            type="checkbox" class="item" checked=${!hidden.includes(column.name)}
            disabled=${shown.length === 1 && shown[0] === column} onChange=${() => toggle(column.name)}
          />
          <${Icon} name=${column.encrypted ? "lock" : `t-${column.type}`} />
          <span class="cut">${plain(labelOf(column), 60)}</span>
        </label>`,
      )}
      ${!found.length && html`<p class="head">${t.palette.nothing}</p>`}
    `}
  </${MenuButton}>`;
}

/**
 * What is done with a column.
 * @param {{column: Column, rect: Place, tableId: string, sort: import("./query.js").Sort[], isPinned: boolean, isLast:
 *   boolean, onClose: () => void, sortBy: (name: string, way: "asc" | "desc" | null, more: boolean) => void, filter: ()
 *   => void, pin: () => void, hide: () => void}} props
 */
export function ColumnMenu({ column, rect, tableId, sort, isPinned, isLast, onClose, sortBy, filter, pin, hide }) {
  const isPlain = column.type !== "object" && column.type !== "array";
  const act = (/** @type {() => void} */ action) => () => (onClose(), action());
  const way = sort.find(([name]) => name === column.name)?.[1];
  const isFurther = sort.length > 0 && sort[0][0] !== column.name && (way || sort.length < MAX_SORTS);
  const toggle = (/** @type {"asc" | "desc"} */ wanted, /** @type {boolean} */ more) =>
    act(() => sortBy(column.name, way === wanted && (more || sort.length === 1) ? null : wanted, more));
  return html`<${Menu} at=${rect} label=${t.grid.columnMenu(labelOf(column))} onClose=${onClose}>
    ${isPlain && !column.encrypted && html`
      <${MenuItem} icon=${way === "asc" && !isFurther ? "check" : "up"} onClick=${toggle("asc", false)}>
        ${t.grid.sortUp}
      </${MenuItem}>
      <${MenuItem} icon=${way === "desc" && !isFurther ? "check" : "down"} onClick=${toggle("desc", false)}>
        ${t.grid.sortDown}
      </${MenuItem}>
      ${isFurther && html`
        <${MenuItem} icon=${way === "asc" ? "check" : "up"} onClick=${toggle("asc", true)}>
          ${t.grid.thenUp}
        </${MenuItem}>
        <${MenuItem} icon=${way === "desc" ? "check" : "down"} onClick=${toggle("desc", true)}>
          ${t.grid.thenDown}
        </${MenuItem}>
      `}
    `}
    <${MenuItem} icon="filter" why=${!isPlain && t.grid.notFiltered} onClick=${act(filter)}>
      ${t.grid.filterColumn}
    </${MenuItem}>
    <hr />
    <${MenuItem} icon="left" onClick=${act(pin)}>${isPinned ? t.grid.unpin : t.grid.pin}</${MenuItem}>
    <${MenuItem} icon="columns" why=${isLast && t.grid.lastColumn} onClick=${act(hide)}>
      ${t.grid.hideColumn}
    </${MenuItem}>
    ${!column.own && html`
      <hr />
      <${MenuItem}
        icon="edit"
        href=${href(`/apps/${appId.value}/tables/${tableId}/schema?column=${encodeURIComponent(column.name)}`)}
        onClick=${onClose}
      >
        ${t.grid.changeColumn}
      </${MenuItem}>
    `}
  </${Menu}>`;
}

/**
 * A condition on one column, asked for under its header.
 * @param {{column: Column, rect: Place, columns: Column[], daysAlone: (column: Column) => boolean, save: (condition:
 *   import("./where.js").Condition) => void, onClose: () => void}} props
 */
export const ColumnFilter = ({ column, rect, columns, daysAlone, save, onClose }) => html`<${Menu}
  at=${rect} role="dialog" label=${t.grid.filter} onClose=${onClose}
>
  <${ConditionEditor}
    columns=${columns} known=${{ column: column.name, operator: "", value: "" }} daysAlone=${daysAlone}
    save=${(/** @type {any} */ condition) => (onClose(), save(condition))}
  />
</${Menu}>`;
