/**
 * The grid: only the rows and columns in view are elements. One input follows the active cell and holds the focus, so
 * that the first key of an input method already composes in the right place.
 */
import { html, useCallback, useEffect, useLayoutEffect, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { isCommand } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Picker } from "./picker.js";
import { Value, labelOf, parse, textOf, valueOf } from "./values.js";

/** @typedef {import("./values.js").Column} Column */
/** @typedef {import("./source.js").Row} Row */

const HEIGHT = 32;
const HEAD = 34;
// Browsers do not make elements taller than this; longer tables are scrolled in larger steps.
const TALLEST = 12_000_000;

/**
 * @param {{source: import("./source.js").Source, columns: Column[], pinned: number, widths: Record<string, number>,
 *   onWidth: (name: string, width: number) => void,
 *   sort: import("./query.js").Sort[], onSort: (name: string, more: boolean) => void, at: {row: number, column:
 *   number}, setAt: (at: {row: number, column: number}) => void,
 *   selected: Set<string>, onSelect: (row: Row, index: number, range: boolean) => void, onSelectAll: () => void,
 *   commit: (row: Row, column: Column, value: unknown) => void,
 *   onHead: (column: Column, at: {left: number, right: number, top: number, bottom: number}) => void, openEditor:
 *   (index: number, column: Column) => void, onMenu: (index: number, column: Column, at: {left: number, right: number,
 *   top: number, bottom: number}) => void,
 *   why: string | false, onPaste: (text: string) => boolean, rowOpen: string, label: string, onNew: () => void}} props
 */
export function Grid({
  source,
  columns,
  pinned,
  widths,
  onWidth,
  sort,
  onSort,
  at,
  setAt,
  selected,
  onSelect,
  onSelectAll,
  commit,
  openEditor,
  onMenu,
  onHead,
  why,
  onPaste,
  rowOpen,
  label,
}) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [view, setView] = useState({ top: 0, left: 0, width: 1200, height: 600 });
  const [edit, setEdit] = useState(/** @type {{text: string, wrong?: string, selected?: boolean} | null} */ (null));
  const [said, setSaid] = useState("");
  const total = source.total.value ?? 0;
  void source.version.value;

  // Wide enough for the last row's number.
  const gutter = Math.max(54, 26 + String(total).length * 7);
  const lefts = [gutter];
  for (const column of columns) lefts.push(lefts[lefts.length - 1] + widths[column.name]);
  const wide = lefts[lefts.length - 1];
  const edge = (/** @type {HTMLElement | null} */ element) => element && (element.style.width = `${gutter}px`);
  const tall = total * HEIGHT;
  const drawn = Math.min(tall, TALLEST);
  const room = Math.max(HEIGHT, view.height - HEAD);
  const ratio = drawn > room ? (tall - room) / (drawn - room) : 1;
  const from = view.top * ratio;
  const first = Math.max(0, Math.floor(from / HEIGHT) - 2);
  const last = Math.min(total - 1, Math.ceil((from + room) / HEIGHT) + 2);
  // What is pinned stands at the left edge, however far the others are scrolled.
  const held = lefts[Math.min(pinned, columns.length)];
  const firstColumn = Math.max(
    pinned,
    lefts.findIndex(
      (left, index) =>
        index >= pinned && index < columns.length && left + widths[columns[index].name] > view.left + held,
    ),
  );
  let lastColumn = firstColumn;
  while (lastColumn < columns.length - 1 && lefts[lastColumn + 1] < view.left + view.width) lastColumn++;
  const y = (/** @type {number} */ row) => HEAD + view.top + (row * HEIGHT - from);

  useEffect(() => {
    const grid = /** @type {HTMLElement} */ (box.current);
    const observer = new ResizeObserver(() =>
      setView((old) => ({ ...old, width: grid.clientWidth, height: grid.clientHeight })),
    );
    observer.observe(grid);
    return () => observer.disconnect();
  }, []);
  useEffect(() => source.show(first, Math.max(last, 0)), [source, first, last]);
  useEffect(() => (edit ? source.hold() : undefined), [source, !!edit]);
  const scroll = useCallback(() => {
    const grid = /** @type {HTMLElement} */ (box.current);
    setView((old) => ({ ...old, top: grid.scrollTop, left: grid.scrollLeft }));
  }, []);

  const column = columns[Math.min(at.column, columns.length - 1)];
  const row = source.row(at.row);
  const value = row && column ? valueOf(row, column) : undefined;

  /** Scroll so that a cell is in view. @param {number} index @param {number} place */
  const reveal = (index, place) => {
    const grid = /** @type {HTMLElement} */ (box.current);
    const top = index * HEIGHT;
    if (top < from) grid.scrollTop = top / ratio;
    else if (top + HEIGHT > from + room) grid.scrollTop = (top + HEIGHT - room) / ratio;
    if (place < pinned) return;
    if (lefts[place] - held < grid.scrollLeft) grid.scrollLeft = lefts[place] - held;
    else if (lefts[place + 1] > grid.scrollLeft + grid.clientWidth)
      grid.scrollLeft = lefts[place + 1] - grid.clientWidth;
  };
  /** @param {number} index @param {number} place */
  const move = (index, place) => {
    const next = {
      row: Math.max(0, Math.min(total - 1, index)),
      column: Math.max(0, Math.min(columns.length - 1, place)),
    };
    setEdit(null);
    setAt(next);
    reveal(next.row, next.column);
  };
  useLayoutEffect(() => {
    if (input.current && !edit) input.current.value = "";
    // At once, as what is typed a moment later must not be replaced.
    if (edit?.selected) input.current?.select();
  }, [at, edit]);

  // The panel of a row takes width from the grid: an active cell that was in view stays in view.
  const width = useRef(view.width);
  useLayoutEffect(() => {
    const place = columns.indexOf(column);
    const wasInView =
      at.row >= first &&
      at.row <= last &&
      lefts[place] < view.left + width.current &&
      lefts[place + 1] > view.left + gutter;
    width.current = view.width;
    if (wasInView) reveal(at.row, place);
  }, [view.width]);

  /** Why the active cell cannot be typed into. */
  const closed = () => why || (column?.own && t.grid.ownField) || (column?.rewriting && t.grid.rewriting) || false;
  /** @param {string} [typed] */
  const begin = (typed) => {
    if (!row || !column) return;
    if (closed()) return setSaid(String(closed()));
    const text = textOf(value, column);
    if (column.type === "object" || column.type === "array" || text.includes("\n")) return openEditor(at.row, column);
    if (column.type === "boolean") return commit(row, column, value === true ? false : true);
    setEdit({ text: typed ?? text, selected: typed === undefined });
  };
  /** @param {string} text @returns {boolean} */
  const finish = (text) => {
    if (!edit || !row || !column) return true;
    const { value: meant, wrong } = parse(text, column);
    if (wrong) {
      setEdit({ text, wrong });
      setSaid(wrong);
      return false;
    }
    // Leaving an empty cell as it was sets nothing.
    if (text !== textOf(value, column)) commit(row, column, meant);
    setEdit(null);
    return true;
  };

  /** @param {KeyboardEvent} event */
  const keys = (event) => {
    if (event.isComposing) return;
    const command = isCommand(event);
    const page = Math.max(1, Math.floor(room / HEIGHT) - 1);
    const typed = /** @type {HTMLInputElement} */ (event.target).value;
    const done = () => event.preventDefault();
    if (edit) {
      if (event.key === "Escape") setEdit(null);
      else if (event.key === "Enter") finish(typed) && move(at.row + (event.shiftKey ? -1 : 1), at.column);
      else if (event.key === "Tab") finish(typed) && move(at.row, at.column + (event.shiftKey ? -1 : 1));
      else return event.stopPropagation();
      event.stopPropagation();
      return done();
    }
    const steps = /** @type {Record<string, [number, number]>} */ ({
      ArrowDown: [command ? total - 1 : at.row + 1, at.column],
      ArrowUp: [command ? 0 : at.row - 1, at.column],
      ArrowRight: [at.row, command ? columns.length - 1 : at.column + 1],
      ArrowLeft: [at.row, command ? 0 : at.column - 1],
      PageDown: [at.row + page, at.column],
      PageUp: [at.row - page, at.column],
      Home: [command ? 0 : at.row, 0],
      End: [command ? total - 1 : at.row, columns.length - 1],
    });
    if (
      event.key === "ContextMenu" ||
      (event.key === "F10" && event.shiftKey) ||
      (event.key === "ArrowDown" && event.altKey)
    ) {
      const place = /** @type {HTMLElement} */ (event.target).getBoundingClientRect();
      if (column) onMenu(at.row, column, place);
    } else if (steps[event.key]) move(...steps[event.key]);
    else if (event.key === "Enter" || event.key === "F2") begin();
    else if (event.key === " " && event.shiftKey) row && onSelect(row, at.row, false);
    else if (event.key === " " && column?.type === "boolean") begin();
    else if (event.key === "Delete" || event.key === "Backspace") {
      if (closed()) setSaid(String(closed()));
      else if (row && column) commit(row, column, null);
    } else return;
    done();
    event.stopPropagation();
  };
  /** What is typed into the active cell begins its edit. @param {any} event */
  const type = (event) => {
    if (edit) setEdit({ text: event.target.value });
    else if (event.target.value) {
      if (closed() || column?.type === "boolean" || column?.type === "object" || column?.type === "array") {
        event.target.value = "";
        begin();
      } else begin(event.target.value);
    }
  };
  /** @param {ClipboardEvent} event */
  const copy = (event) => {
    if (edit || !column) return;
    event.preventDefault();
    event.clipboardData?.setData("text/plain", textOf(value, column));
    setSaid(t.copied);
  };
  /** @param {ClipboardEvent} event */
  const paste = (event) => {
    const text = event.clipboardData?.getData("text/plain") || "";
    if (!edit && onPaste(text)) event.preventDefault();
  };

  const cells = [];
  for (let index = first; index <= last; index++) cells.push(index);
  const drawnColumns = columns
    .map((one, place) => ({ one, place }))
    .filter(({ place }) => place < pinned || (place >= firstColumn && place <= lastColumn));
  /** What the elements of rows that stay do is looked up when it is done. */
  const act = useRef(/** @type {any} */ (null));
  act.current = {
    /** @param {MouseEvent} event @param {number} index @param {number} place */
    press(event, index, place) {
      event.preventDefault();
      if (edit && input.current && !finish(input.current.value)) return;
      setAt({ row: index, column: place });
      input.current?.focus({ preventScroll: true });
    },
    begin,
    onSelect,
    /** @param {MouseEvent} event @param {Row | undefined} one @param {Column} cell @param {unknown} content */
    toggle(event, one, cell, content) {
      if (/** @type {HTMLElement} */ (event.target).closest(".tick") && one && !why && !cell.own)
        commit(one, cell, content !== true);
    },
    /** @param {MouseEvent} event @param {number} index @param {number} place @param {Column} cell */
    menu(event, index, place, cell) {
      event.preventDefault();
      setAt({ row: index, column: place });
      onMenu(index, cell, { left: event.clientX, right: event.clientX, top: event.clientY, bottom: event.clientY });
    },
  };
  // As many slots for rows as are in view at most, so that a row that stays in view stays in its slot; and what was
  // drawn there last, which is drawn again only if it has changed.
  const pool = Math.ceil(room / HEIGHT) + 6;
  const drawnRows = useRef(/** @type {Map<number, {from: unknown[], drawn: any}>} */ (new Map()));
  /** @param {number} index */
  const line = (index) => {
    const one = source.row(index);
    const chosen = !!one && selected.has(one.id);
    const here = index === at.row || (!!one && one.id === rowOpen);
    const fresh = !!one && source.changed.has(one.id);
    const top = y(index);
    const made = [one, index, chosen, here, fresh, top, columns, widths, firstColumn, lastColumn, pinned, gutter];
    const kept = keptRow(drawnRows.current.get(index % pool), made);
    if (kept) return kept;
    const drawn = html`<div
      key=${index % pool} role="row" aria-rowindex=${index + 2} aria-selected=${chosen ? "true" : "false"}
      class=${`gr ${here ? "here" : ""} ${chosen ? "chosen" : ""} ${fresh ? "fresh" : ""}`}
      ref=${(/** @type {HTMLElement | null} */ element) =>
        element && (element.style.transform = `translateY(${top}px)`)}
    >
      <span class=${`gn num ${here ? "upright" : ""}`} role="rowheader" aria-colindex="1" ref=${edge}>
        <input
          type="checkbox" class="tickbox" tabindex="-1" aria-label=${t.grid.selectRow(index + 1)} checked=${chosen}
          disabled=${!one}
          onClick=${(/** @type {MouseEvent} */ event) => one && act.current.onSelect(one, index, event.shiftKey)}
        />
        <span class="number">${index + 1}</span>
      </span>
      ${drawnColumns.map(({ one: cell, place }) => {
        const content = one && valueOf(one, cell);
        return html`<span
          key=${place} role="gridcell" aria-colindex=${place + 2} aria-readonly=${cell.own ? "true" : undefined}
          class=${`gc t-${cell.type} ${place < pinned ? "held" : ""} ${one ? (content === undefined ? "absent" : "") : "pending"}`}
          ref=${(/** @type {HTMLElement | null} */ element) =>
            element && ((element.style.left = `${lefts[place]}px`), (element.style.width = `${widths[cell.name]}px`))}
          onMouseDown=${(/** @type {MouseEvent} */ event) => act.current.press(event, index, place)}
          onDblClick=${() => (cell.type === "boolean" ? null : act.current.begin())}
          onClick=${(/** @type {MouseEvent} */ event) =>
            cell.type === "boolean" && act.current.toggle(event, one, cell, content)}
          onContextMenu=${(/** @type {MouseEvent} */ event) => act.current.menu(event, index, place, cell)}
        >
          ${one ? html`<${Value} value=${content} column=${cell} />` : html`<span class="bone" />`}
        </span>`;
      })}
    </div>`;
    drawnRows.current.set(index % pool, { from: made, drawn });
    return drawn;
  };
  const active = total > 0 && column;
  return html`
    <div class="grid" ref=${box} onScroll=${scroll}>
      <div
        class="sizer"
        ref=${(/** @type {HTMLElement | null} */ one) =>
          one && ((one.style.height = `${drawn + HEAD}px`), (one.style.width = `${wide}px`))}
      >
        <div
          class="rows" role="grid" aria-label=${label} aria-rowcount=${total + 1} aria-colcount=${columns.length + 1}
        >
          <div class="gr head" role="row" aria-rowindex="1">
            <span class="gn" role="columnheader" aria-colindex="1" aria-label=${t.grid.selectAll} ref=${edge}>
              <input
                type="checkbox" class="tickbox" tabindex="-1" aria-label=${t.grid.selectAll}
                checked=${selected.size > 0 && selected.size === total}
                indeterminate=${selected.size > 0 && selected.size < total} onChange=${onSelectAll}
              />
            </span>
            ${drawnColumns.map(
              ({ one, place }) => html`<${Head}
                key=${place} column=${one} place=${place} left=${lefts[place]} isPinned=${place < pinned}
                width=${widths[one.name]} sort=${sort} onSort=${onSort} onWidth=${onWidth} onMenu=${onHead}
              />`,
            )}
          </div>
          ${cells.map(line)}
        </div>
        ${active && html`<div
          class=${`active ${edit ? "editing" : ""} ${edit?.wrong ? "wrong" : ""}`}
          ref=${(/** @type {HTMLElement | null} */ element) => {
            if (!element) return;
            element.style.transform = `translate(${lefts[at.column] + (at.column < pinned ? view.left : 0)}px, ${y(at.row)}px)`;
            element.style.width = `${widths[column.name]}px`;
          }}
        >
          <input
            ref=${input} class=${column.type === "uuid" ? "mono" : ""}
            aria-label=${`${labelOf(column)}, ${t.grid.row(at.row + 1)}: ${value === undefined ? t.grid.absent : value === null ? "null" : textOf(value, column).slice(0, 200)}`}
            aria-invalid=${edit?.wrong ? "true" : undefined} autocomplete="off" spellcheck="false"
            value=${edit ? edit.text : ""} onInput=${type} onKeyDown=${keys} onCopy=${copy} onPaste=${paste}
            onDblClick=${() => edit || begin()}
            onBlur=${(/** @type {FocusEvent} */ event) =>
              edit &&
              !(/** @type {Element | null} */ (event.relatedTarget)?.closest(".picker")) &&
              finish(/** @type {HTMLInputElement} */ (event.target).value)}
          />
          ${edit?.wrong && html`<span class="complaint" role="alert">${edit.wrong}</span>`}
          ${edit && column.type === "date" && html`<${Picker}
            text=${edit.text}
            choose=${(/** @type {string} */ text, /** @type {boolean=} */ stays) => (
              setEdit({ text }),
              stays || input.current?.focus()
            )}
            onLeave=${() => finish(edit.text)}
          />`}
        </div>`}
      </div>
    </div>
    <span class="sr" role="status" aria-live="polite">${said}</span>
  `;
}

/**
 * What was drawn of a row, if it was made of the same parts. A function of its own: among the functions of a row, one
 * that used what was drawn before would keep that alive, with everything that was drawn before it.
 * @param {{from: unknown[], drawn: any} | undefined} known @param {unknown[]} made
 */
const keptRow = (known, made) => known && made.every((part, place) => part === known.from[place]) && known.drawn;

/**
 * @param {{column: Column, place: number, left: number, isPinned: boolean, width: number, sort:
 *   import("./query.js").Sort[], onSort: (name: string, more: boolean) => void, onWidth: (name: string, width: number)
 *   => void, onMenu: (column: Column, at: DOMRect) => void}} props
 */
function Head({ column, place, left, isPinned, width, sort, onSort, onWidth, onMenu }) {
  /** @param {PointerEvent} event */
  const drag = (event) => {
    event.preventDefault();
    event.stopPropagation();
    const start = event.clientX;
    const handle = /** @type {HTMLElement} */ (event.currentTarget);
    handle.setPointerCapture(event.pointerId);
    handle.onpointermove = (moved) => onWidth(column.name, Math.max(56, Math.min(800, width + moved.clientX - start)));
    handle.onpointerup = () => (handle.onpointermove = null);
  };
  const rank = sort.findIndex(([name]) => name === column.name);
  const way = sort[rank]?.[1];
  const sortable = !column.encrypted && column.type !== "object" && column.type !== "array";
  const open = (/** @type {MouseEvent} */ event) => {
    event.preventDefault();
    const head = /** @type {HTMLElement} */ (event.currentTarget);
    onMenu(column, /** @type {HTMLElement} */ (head.closest("[role=columnheader]")).getBoundingClientRect());
  };
  const hint = `${labelOf(column)}: ${column.type}${column.required ? `, ${t.grid.required}` : ""}${column.description ? `. ${column.description}` : ""}`;
  return html`<span
    role="columnheader" aria-colindex=${place + 2}
    aria-sort=${rank === 0 ? (way === "asc" ? "ascending" : "descending") : undefined}
    class=${`gh ${isPinned ? "held" : ""}`} title=${hint} onContextMenu=${open}
    ref=${(/** @type {HTMLElement | null} */ element) =>
      element && ((element.style.left = `${left}px`), (element.style.width = `${width}px`))}
  >
    <button
      type="button" tabindex="-1" disabled=${!sortable}
      onClick=${(/** @type {MouseEvent} */ event) => onSort(column.name, event.shiftKey)}
    >
      <${Icon} name=${column.encrypted ? "lock" : `t-${column.type}`} />
      <span class="cut">${labelOf(column)}</span>
      ${way && html`
        <${Icon} name=${way === "asc" ? "up" : "down"} class="sort" />
        ${sort.length > 1 && html`<span class="s12 num sortplace">${rank + 1}</span>`}
      `}
    </button>
    <button
      type="button" class="headmenu" tabindex="-1" aria-haspopup="menu" aria-label=${t.grid.columnMenu(labelOf(column))}
      onClick=${open}
    >
      <${Icon} name="more" />
    </button>
    <span class="resize" onPointerDown=${drag}></span>
  </span>`;
}
