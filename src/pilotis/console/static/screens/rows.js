/** The rows of a table: grid, filters, the row beside it, and what is done to several at once. */
import { html, useEffect, useMemo, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { denied, loadTables, ofApp, store } from "../state/app.js";
import { change, go, place } from "../state/router.js";
import { Cards } from "../grid/cards.js";
import { ColumnChooser, ColumnFilter, ColumnMenu } from "../grid/columns.js";
import { Edits } from "../grid/edits.js";
import { Filters } from "../grid/filters.js";
import { Grid } from "../grid/grid.js";
import { useLive } from "../grid/live.js";
import { NewRow, RowPanel } from "../grid/panel.js";
import { SavedFilters } from "../grid/saved.js";
import { SearchBox, searched } from "../grid/search.js";
import { MAX_SORTS, readSort, readWhere, writeSort } from "../grid/query.js";
import { RANKED, Source } from "../grid/source.js";
import { handedOver } from "../grid/handed.js";
import { withCondition } from "../grid/where.js";
import { memberPlace } from "../ui/member.js";
import { CREATOR, Value, columnsOf, labelOf, parseCells, textOf, valueOf } from "../grid/values.js";
import { prefetch } from "../ui/editor.js";
import { isCommand, plain, shortcut } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import {
  Bones,
  Button,
  Confirm,
  Dialog,
  Empty,
  Failure,
  Menu,
  MenuItem,
  complain,
  copyText,
  later,
  toast,
} from "../ui/widgets.js";

// Nobody waits for dialogs before the first rows are there.
const DeleteRows = later(() => import("../grid/bulk.js"), "DeleteRows");
const EditRows = later(() => import("../grid/bulk.js"), "EditRows");
const PasteDialog = later(() => import("../grid/bulk.js"), "PasteDialog");
const ExportDialog = later(() => import("../grid/export.js"), "ExportDialog");
const ImportDialog = later(() => import("../grid/import.js"), "ImportDialog");

const WIDTHS = /** @type {Record<string, number>} */ ({
  string: 180,
  number: 110,
  int: 100,
  boolean: 90,
  date: 170,
  uuid: 280,
  object: 220,
  array: 200,
  member: 150,
});

/**
 * What this browser remembers of a table's columns. Rows that anybody may create mostly have no creator to show.
 * @param {import("../state/app.js").Table} table
 * @returns {{widths: Record<string, number>, hidden: string[], pinned: string[]}}
 */
function layoutOf(table) {
  const usual = {
    widths: {},
    pinned: [],
    hidden: ["id", "updated_at", ...(table.access_level === "Public" ? [CREATOR] : [])],
  };
  try {
    return { ...usual, ...JSON.parse(localStorage.getItem(`pilotis.grid.${table.id}`) || "{}") };
  } catch {
    return usual;
  }
}

/** When the editor of JSON is loaded ahead, after the rows are drawn. */
const PREFETCH_MS = 300;
const PHONE = matchMedia("(max-width: 640px)");

/** Whether the window is as narrow as a phone. */
function useNarrow() {
  const [narrow, setNarrow] = useState(PHONE.matches);
  useEffect(() => {
    const change = () => setNarrow(PHONE.matches);
    PHONE.addEventListener("change", change);
    return () => PHONE.removeEventListener("change", change);
  }, []);
  return narrow;
}

/** @param {{table: import("../state/app.js").Table, tabs: Markup}} props */
export function Rows({ table, tabs }) {
  const query = place.value.query;
  const whereText = query.get("where");
  const columns = useMemo(() => columnsOf(table.schema), [table.schema]);
  const fields = useMemo(() => searched(columns), [columns]);
  const words = fields.length ? query.get("q") || "" : "";
  const where = useMemo(() => readWhere(whereText), [whereText]);
  // Of a search the best comes first: the order waits until it is over.
  const isLive = query.get("live") === "1";
  const sort = words ? [] : readSort(query.get("sort"));
  const opened = query.get("row") || "";
  const source = useMemo(
    () => new Source(table.id, { where, sort, search: words ? { query: words, fields } : null }),
    [table.id, whereText, query.get("sort"), words, fields],
  );
  const edits = useMemo(() => new Edits(source), [source]);
  const live = useLive(source, isLive);
  const [layout, setLayout] = useState(() => layoutOf(table));
  const [at, setAt] = useState({ row: 0, column: 0 });
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const [anchor, setAnchor] = useState(0);
  const [allMatch, setAllMatch] = useState(false);
  const [dialog, setDialog] = useState(
    /** @type {any} */ (
      () => {
        const given = handedOver(table.id);
        return given && { import: given };
      }
    ),
  );
  const [menu, setMenu] = useState(/** @type {any} */ (null));
  const [ofColumn, setOfColumn] = useState(
    /** @type {{column: any, rect: DOMRect, filters?: boolean} | null} */ (null),
  );
  const [focus, setFocus] = useState("");
  const [row, setRow] = useState(/** @type {any} */ (null));
  const total = source.total.value;
  void source.version.value;
  const why = denied("editor");
  const isNarrow = useNarrow();
  const isPinned = (/** @type {{name: string}} */ column) => layout.pinned.includes(column.name);
  const visible = columns.filter((column) => !layout.hidden.includes(column.name));
  const shown = [...visible.filter(isPinned), ...visible.filter((column) => !isPinned(column))];
  const pinned = visible.filter(isPinned).length;
  const widths = Object.fromEntries(
    columns.map((column) => [column.name, layout.widths[column.name] || WIDTHS[column.type] || 160]),
  );
  const arrange = (/** @type {Partial<typeof layout>} */ part) => {
    const next = { ...layout, ...part };
    setLayout(next);
    store(`pilotis.grid.${table.id}`, JSON.stringify(next));
  };

  useEffect(() => {
    setSelected(new Set());
    setAllMatch(false);
    setAt((old) => ({ row: 0, column: old.column }));
    source.show(0, 60);
    return () => source.stop();
  }, [source]);
  const hasJson = columns.some((column) => column.type === "object" || column.type === "array");
  useEffect(() => {
    if (total === null || !hasJson) return undefined;
    const later = setTimeout(prefetch, PREFETCH_MS);
    return () => clearTimeout(later);
  }, [total === null, hasJson]);
  const found = opened ? source.find(opened) : null;
  useEffect(() => {
    setRow(null);
    if (opened && opened !== "new" && !source.find(opened))
      ofApp(`/v1/public/tables/${table.id}/data/${opened}`, { exact: true }).then(
        setRow,
        (error) => (complain(error), change({ row: null }, { replace: true })),
      );
  }, [opened, source]);
  useEffect(() => {
    const keys = (/** @type {KeyboardEvent} */ event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (
        isCommand(event) &&
        event.key.toLowerCase() === "z" &&
        !event.shiftKey &&
        !(target.closest("dialog, .editing, .panel") && target.matches("input, textarea"))
      ) {
        event.preventDefault();
        edits.undo();
      }
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, [edits]);

  const select = (/** @type {any} */ one, /** @type {number} */ index, /** @type {boolean} */ range) => {
    const next = new Set(selected);
    if (range)
      for (let place = Math.min(anchor, index); place <= Math.max(anchor, index); place++) {
        const between = source.row(place);
        if (between) next.add(between.id);
      }
    else if (!next.delete(one.id)) next.add(one.id);
    setAnchor(index);
    setAllMatch(false);
    setSelected(next);
  };
  const selectAll = () => {
    if (selected.size) return (setSelected(new Set()), setAllMatch(false));
    const ids = [...source.pages.values()].flat().map((one) => one.id);
    setSelected(new Set(ids));
    setAllMatch(!words && total !== null && ids.length < total);
  };
  const again = () => {
    setSelected(new Set());
    setAllMatch(false);
    source.reload();
  };
  const open = (/** @type {string | null} */ id, name = "") => {
    setFocus(name);
    change({ row: id }, { replace: !!opened });
  };
  const openEditor = (/** @type {number} */ index, /** @type {any} */ column) => {
    const one = source.row(index);
    if (one) open(one.id, column.name);
  };
  const step = (/** @type {number} */ by) => {
    const next = found && source.row(found.index + by);
    if (!next) return;
    setAt((old) => ({ row: /** @type {any} */ (found).index + by, column: old.column }));
    open(next.id);
  };
  // The row beside the grid is the active one.
  useEffect(() => {
    if (found && !isNarrow) setAt((old) => (old.row === found.index ? old : { row: found.index, column: old.column }));
  }, [opened, !found, isNarrow]);
  const setWhere = (/** @type {any} */ next) => change({ where: next && JSON.stringify(next), row: null });
  const toEnd = () => {
    live.seen();
    setAt((old) => ({ row: (source.total.value || 1) - 1, column: old.column }));
    const grid = document.querySelector(".grid");
    grid?.scrollTo({ top: grid.scrollHeight });
  };
  const clear = () => (words ? change({ q: null, row: null }) : setWhere(null));
  // With `more` other columns stay before it, or behind it.
  const sortBy = (
    /** @type {string} */ name,
    /** @type {"asc" | "desc" | null} */ way,
    /** @type {boolean} */ more,
  ) => {
    const given = /** @type {import("../grid/query.js").Sort[]} */ (way ? [[name, way]] : []);
    const isThere = sort.some(([one]) => one === name);
    const all = !more
      ? given
      : isThere
        ? sort.flatMap((one) => (one[0] === name ? given : [one]))
        : [...sort, ...given].slice(0, MAX_SORTS);
    change({ q: null, sort: writeSort(all) });
  };
  const sortNext = (/** @type {string} */ name, /** @type {boolean} */ more) => {
    const way = more || sort.length === 1 ? sort.find(([one]) => one === name)?.[1] : undefined;
    sortBy(name, !way ? "asc" : way === "asc" ? "desc" : null, more);
  };
  const create = async (/** @type {Record<string, unknown>} */ data) => {
    const made = await ofApp(`/v1/public/tables/${table.id}/data`, { method: "POST", body: { data } });
    toast(t.grid.created, {
      undo: () => ofApp(`/v1/public/tables/${table.id}/data/${made.id}`, { method: "DELETE" }).then(again, complain),
    });
    change({ row: null }, { replace: true });
    source.reload();
    /** @type {HTMLElement | null} */ (
      document.querySelector("main .grid [tabindex='0'], main .grid, main .b.go")
    )?.focus();
  };
  const paste = (/** @type {string} */ text) => {
    if (why) return (toast(why, { kind: "bad" }), true);
    const cells = parseCells(text);
    if (cells.length === 1 && cells[0].length === 1) return false;
    const rows = cells.map((_, index) => source.row(at.row + index)).filter(Boolean);
    setDialog({ paste: cells, rows });
    return true;
  };
  const current = found?.row || (row?.id === opened ? row : null);
  const commit = (/** @type {any} */ one, /** @type {any} */ column, /** @type {unknown} */ value) =>
    edits
      .commit(one, column, value)
      .then(() => row && ofApp(`/v1/public/tables/${table.id}/data/${row.id}`, { exact: true }).then(setRow));
  // Whether a column has days without a time, as far as its rows are here.
  const daysAlone = (/** @type {any} */ column) => {
    const values = [...source.pages.values()]
      .flat()
      .map((one) => valueOf(one, column))
      .filter(Boolean);
    return values.length > 0 && values.every((one) => /^\d{4}-\d\d-\d\d$/.test(String(one)));
  };
  const chosen = allMatch ? total || 0 : selected.size;
  /** The focus returns to the active cell. */
  const closeColumn = () => {
    setOfColumn(null);
    /** @type {HTMLElement | null} */ (document.querySelector(".grid .active input"))?.focus({ preventScroll: true });
  };
  const newRow = () => open("new");
  // The focus returns to the button, or to the rows after one was made.
  const closeNew = () => {
    change({ row: null });
    /** @type {HTMLElement | null} */ (document.querySelector("main .b.go"))?.focus();
  };

  return html`<div class="data">
    <div class="strip tabstrip">
      ${tabs}
      <span class="grow"></span>
      <${Button} kind="flat small" icon="in" class="wide" why=${why} onClick=${() => setDialog({ import: true })}>
        ${t.transfer.import}
      </${Button}>
      <${Button} kind="flat small" icon="out" class="wide" onClick=${() => setDialog({ export: true })}>
        ${t.transfer.export}
      </${Button}>
      <${Button} kind="go small" icon="plus" why=${why} onClick=${newRow}>${t.grid.newRow}</${Button}>
    </div>
    <div class="strip filters" role="toolbar" aria-label=${t.filters}>
      ${fields.length > 0 && html`<${SearchBox}
        text=${words}
        onChange=${(/** @type {string} */ text) =>
          change({ q: text || null, row: null }, { replace: !!words && !!text })}
      />`}
      <${Filters}
        key=${whereText || ""} where=${where} onChange=${setWhere} columns=${columns} daysAlone=${daysAlone}
      />
      <${SavedFilters} tableId=${table.id} where=${where} onChange=${setWhere} />
      ${words && query.get("sort") && html`<span class="s12 soft cut">${t.grid.searchWaits}</span>`}
      <span class="grow"></span>
      ${live.added > 0 && html`<${Button} kind="flat small" onClick=${toEnd}>${t.grid.added(live.added)}</${Button}>`}
      <span class="line s12 soft num wide" role="status">
        ${live.isLost
          ? html`<${Icon} name="warn" />${t.disconnected}`
          : live.elsewhere > 0 && t.grid.elsewhere(live.elsewhere)}
      </span>
      <span class="s12 soft num" role="status">
        ${total === null
          ? ""
          : source.beyond
            ? t.grid.ranked(RANKED, source.beyond)
            : t.grid.found(total, !!where || !!words)}
      </span>
      <${Button}
        kind=${`flat small ${isLive ? "on" : ""}`} icon="activity" class="wide" title=${t.grid.liveHelp}
        aria-pressed=${isLive ? "true" : "false"}
        onClick=${() => change({ live: isLive ? null : "1" }, { replace: true })}
      >
        ${t.grid.live}
      </${Button}>
      <${ColumnChooser}
        columns=${columns} hidden=${layout.hidden} hide=${(/** @type {string[]} */ hidden) => arrange({ hidden })}
      />
      <${Button} kind="flat small" icon="retry" label=${t.reload} onClick=${again} />
    </div>
    <div class=${`split ${opened ? "opened" : ""}`}>
      <div class="gridbox">
        ${isNarrow
          ? html`<${Cards} source=${source} columns=${shown} open=${open} label=${plain(table.title, 80)} />`
          : html`<${Grid}
              source=${source} columns=${shown} pinned=${pinned} widths=${widths}
              onWidth=${(/** @type {string} */ name, /** @type {number} */ width) =>
                arrange({ widths: { ...layout.widths, [name]: width } })}
              sort=${sort} onSort=${sortNext} at=${at} setAt=${setAt} selected=${selected} onSelect=${select}
              onSelectAll=${selectAll} commit=${commit} openEditor=${openEditor} why=${why} onPaste=${paste}
              rowOpen=${opened} label=${plain(table.title, 80)}
              onHead=${(/** @type {any} */ column, /** @type {any} */ rect) => setOfColumn({ column, rect })}
              onMenu=${(/** @type {number} */ index, /** @type {any} */ column, /** @type {any} */ rect) =>
                setMenu({ index, column, rect })}
            />`}
        ${source.error.value
          ? html`<div class="overlay">
              <${Failure} title=${t.grid.notRead} error=${source.error.value} retry=${() => source.reload()}>
                ${(where || words) && html`<${Button} kind="flat" onClick=${clear}>
                  ${words ? t.grid.endSearch : t.clearFilters}
                </${Button}>`}
              </${Failure}>
            </div>`
          : total === null
            ? html`<div class="overlay"><${Bones} rows=${14} columns=${6} /></div>`
            : total === 0
              ? html`<div class="overlay">
                  ${where || words
                    ? html`<${Empty}
                        title=${t.grid.noneFound} text=${words ? t.grid.noneSearched : t.grid.noneFoundText}
                      >
                        <${Button} onClick=${clear}>${words ? t.grid.endSearch : t.clearFilters}</${Button}>
                      </${Empty}>`
                    : html`<${Empty} title=${t.grid.none} text=${t.grid.noneText}>
                        <div class="line">
                          <${Button} icon="plus" why=${why} onClick=${newRow}>${t.grid.newRow}</${Button}>
                          <${Button} icon="in" why=${why} onClick=${() => setDialog({ import: true })}>
                            ${t.transfer.import}
                          </${Button}>
                        </div>
                      </${Empty}>`}
                </div>`
              : null}
        ${chosen > 0 && html`<div class="bulk" role="toolbar" aria-label=${t.grid.selection}>
          <b class="num">${t.grid.selected(chosen)}</b>
          ${!allMatch && !words && total !== null && selected.size < total && html`<${Button}
            kind="flat small" onClick=${() => setAllMatch(true)}
          >
            ${t.grid.allThat(total)}
          </${Button}>`}
          <${Button}
            kind="flat small" icon="edit" why=${why || (allMatch && t.grid.notAll)}
            onClick=${() => setDialog({ edit: true })}
          >
            ${t.grid.editField}
          </${Button}>
          <${Button} kind="flat small bad" icon="trash" why=${why} onClick=${() => setDialog({ delete: true })}>
            ${t.grid.delete}
          </${Button}>
          <${Button}
            kind="flat small" icon="cross" label=${t.grid.unselect}
            onClick=${() => (setSelected(new Set()), setAllMatch(false))}
          />
        </div>`}
        <div class="status s12 soft">
          <span class="num">${total ? t.grid.row(at.row + 1) : ""}</span>
          <span>
            ${words
              ? t.grid.byRank
              : sort.length
                ? t.grid.sortedBy(sort.map(([name, way]) => [plain(name === CREATOR ? t.grid.creator : name, 40), way]))
                : t.grid.unsorted}
          </span>
          <span class="grow"></span>
          <span class="line">
            ${edits.pending.value
              ? html`<${Icon} name="run" class="spin" />${t.grid.saving}`
              : edits.done.value.length
                ? html`<${Icon} name="done" />${t.saved}`
                : ""}
          </span>
          ${edits.done.value.length > 0 && html`<${Button} kind="flat small" onClick=${() => edits.undo()}>
            ${t.undo} <kbd>${shortcut("Z")}</kbd>
          </${Button}>`}
        </div>
      </div>
      ${opened === "new"
        ? html`<${NewRow} key="new" tableId=${table.id} columns=${columns} create=${create} onClose=${closeNew} />`
        : current &&
          html`<${RowPanel}
            key=${opened} table=${table} row=${current} index=${found ? found.index : -1} columns=${columns}
            focus=${focus} hold=${() => source.hold()} commit=${commit} why=${why} step=${step}
            onClose=${() => change({ row: null })} onDelete=${() => setDialog({ one: current })}
          />`}
    </div>
    ${menu && html`<${CellMenu}
      ...${menu} source=${source} why=${why} commit=${commit} open=${open} onClose=${() => setMenu(null)}
      filter=${setWhere} remove=${(/** @type {any} */ one) => setDialog({ one })}
      ofColumn=${() => setOfColumn({ column: menu.column, rect: menu.rect })}
    />`}
    ${
      ofColumn &&
      (ofColumn.filters
        ? html`<${ColumnFilter}
            ...${ofColumn} columns=${columns} daysAlone=${daysAlone}
            save=${(/** @type {any} */ condition) => setWhere(withCondition(where, condition))} onClose=${closeColumn}
          />`
        : html`<${ColumnMenu}
            ...${ofColumn} tableId=${table.id} sort=${sort} isPinned=${isPinned(ofColumn.column)}
            isLast=${shown.length === 1} onClose=${closeColumn} sortBy=${sortBy}
            filter=${() => setOfColumn({ ...ofColumn, filters: true })}
            hide=${() => arrange({ hidden: [...layout.hidden, ofColumn.column.name] })}
            pin=${() =>
              arrange({
                pinned: isPinned(ofColumn.column)
                  ? layout.pinned.filter((one) => one !== ofColumn.column.name)
                  : [...layout.pinned, ofColumn.column.name],
              })}
          />`)
    }
    ${dialog?.one && html`<${Confirm}
      title=${t.grid.deleteRows(1)} text=${t.grid.deleteText} action=${t.grid.deleteRow}
      onClose=${() => setDialog(null)}
      run=${async () => (
        await ofApp(`/v1/public/tables/${table.id}/data/${dialog.one.id}`, { method: "DELETE" }),
        opened === dialog.one.id && change({ row: null }, { replace: true }),
        again()
      )}
    />`}
    ${dialog?.delete && html`<${DeleteRows}
      tableId=${table.id} ids=${[...selected]} all=${allMatch ? total : null} where=${where}
      onClose=${() => setDialog(null)} done=${again}
    />`}
    ${dialog?.edit && html`<${EditRows}
      tableId=${table.id} ids=${[...selected]} columns=${columns} onClose=${() => setDialog(null)} done=${again}
    />`}
    ${dialog?.paste && html`<${PasteDialog}
      tableId=${table.id} cells=${dialog.paste} rows=${dialog.rows} columns=${shown.slice(at.column)}
      onClose=${() => setDialog(null)} done=${() => source.reload()}
    />`}
    ${dialog?.import && html`<${ImportDialog}
      table=${table} given=${dialog.import === true ? null : dialog.import}
      onClose=${() => (setDialog(null), loadTables().catch(complain), again())}
    />`}
    ${dialog?.export && html`<${ExportDialog}
      table=${table} columns=${columns.filter((column) => column.name !== CREATOR)} source=${source} where=${where}
      onClose=${() => setDialog(null)}
    />`}
    ${edits.conflict.value && html`<${Conflict} edits=${edits} />`}
  </div>`;
}

/**
 * @param {{index: number, column: any, rect: any, source: Source, why: string | false, commit: any, open: any, onClose:
 *   () => void, filter: (where: Record<string, unknown>) => void, remove: (row: Api.Row) => void, ofColumn: () =>
 *   void}} props
 */
function CellMenu({ index, column, rect, source, why, commit, open, onClose, filter, remove, ofColumn }) {
  const row = source.row(index);
  if (!row) return null;
  const value = valueOf(row, column);
  const closed = why || (column.own && t.grid.ownField) || false;
  const plainType = column.type !== "object" && column.type !== "array";
  const act = (/** @type {() => void} */ action) => () => (onClose(), action());
  return html`<${Menu} at=${rect} label=${t.grid.cellMenu(labelOf(column))} onClose=${onClose}>
    <${MenuItem} icon="right" onClick=${act(() => open(row.id))}>${t.grid.openRow}</${MenuItem}>
    <${MenuItem}
      icon="copy" hint=${shortcut("C")} why=${value === undefined && t.grid.absentHelp}
      onClick=${act(() => copyText(textOf(value, column)))}
    >
      ${t.copy}
    </${MenuItem}>
    <${MenuItem}
      icon="filter" why=${!plainType && t.grid.notFiltered}
      onClick=${act(() => filter({ [column.name]: { $eq: value ?? null } }))}
    >
      ${t.grid.filterBy}
    </${MenuItem}>
    ${row.created_by && html`<${MenuItem}
      icon="member" onClick=${act(() => go(memberPlace(/** @type {string} */ (row.created_by))))}
    >
      ${t.grid.openCreator}
    </${MenuItem}>`}
    <hr />
    <${MenuItem} icon="edit" hint="F2" why=${closed} onClick=${act(() => open(row.id, column.name))}>
      ${t.edit}
    </${MenuItem}>
    <${MenuItem}
      icon="cross" hint="Del" why=${closed || (value === null && t.unchanged)}
      onClick=${act(() => commit(row, column, null))}
    >
      ${t.grid.setNull}
    </${MenuItem}>
    ${column.type === "string" && html`<${MenuItem}
      icon="t-string" why=${closed || (value === "" && t.unchanged)} onClick=${act(() => commit(row, column, ""))}
    >
      ${t.grid.setEmpty}
    </${MenuItem}>`}
    ${column.type === "uuid" && !column.own && html`<${MenuItem}
      icon="t-uuid" why=${closed} onClick=${act(() => commit(row, column, crypto.randomUUID()))}
    >
      ${t.grid.generate}
    </${MenuItem}>`}
    <hr />
    <${MenuItem} icon="columns" onClick=${act(ofColumn)}>${t.grid.columnMenu(labelOf(column))}</${MenuItem}>
    <hr />
    <${MenuItem} icon="trash" kind="bad" why=${why} onClick=${act(() => remove(row))}>${t.grid.deleteRow}</${MenuItem}>
  </${Menu}>`;
}

/** @param {{edits: Edits}} props */
function Conflict({ edits }) {
  const { row, theirs, column, value } = /** @type {any} */ (edits.conflict.value);
  const close = () => (edits.conflict.value = null);
  const mine = () => {
    close();
    edits.commit(theirs, column, value);
  };
  const cell = (/** @type {string} */ title, /** @type {unknown} */ one, own = false) => html`<div class=${own
    ? "mine"
    : ""}>
    <dt>${title}</dt>
    <dd>
      ${one === undefined
        ? html`<span class="null">${t.grid.absent}</span>`
        : html`<${Value} value=${one} column=${column} />`}
    </dd>
  </div>`;
  return html`<${Dialog}
    role="alertdialog" title=${t.grid.conflict} onClose=${close}
    footer=${html`
      <${Button} kind="flat" onClick=${close}>${t.grid.keepTheirs}</${Button}>
      <span class="grow"></span>
      <${Button} kind="go" onClick=${mine}>${t.grid.saveMine}</${Button}>
    `}
  >
    <p class="soft">${t.grid.conflictText} <code>${plain(column.name, 60)}</code></p>
    <dl class="choices3">
      ${cell(t.grid.was, valueOf(row, column))}
      ${cell(t.grid.theirs, valueOf(theirs, column))}
      ${cell(t.grid.yours, value, true)}
    </dl>
  </${Dialog}>`;
}
