/** The tables of an app as a diagram: their columns, and which refer to the rows of which table. */
import { html, useLayoutEffect, useMemo, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, loadTables, tables, tablesError } from "../state/app.js";
import { href } from "../state/router.js";
import { plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { WIDTH, layout, line } from "../ui/layers.js";
import { TableViews } from "../ui/table-views.js";
import { Bones, Button, Empty, Failure } from "../ui/widgets.js";

export const head = () => ({ title: t.sectionNames.tables });

/** @typedef {import("../state/app.js").Table} Table */
/** @typedef {{name: string, type: string, to?: string, onDelete?: keyof typeof t.tables.onDelete}} Column */

const HEAD = 36;
const ROW = 22;
const FOOT = 8;
const SHOWN = 8;
const SCALES = [0.4, 0.55, 0.75, 1];
const READABLE = 0.75;

/** The columns that are shown of a table, references first among equals. @param {Table} table @returns {Column[]} */
function columnsOf(table) {
  const all = Object.entries(table.schema).map(([name, one]) => ({
    name,
    type: one.type || one,
    to: one.references?.table,
    onDelete: one.references?.on_delete,
  }));
  if (all.length <= SHOWN) return all;
  const kept = new Set([...all.filter((one) => one.to), ...all].slice(0, SHOWN));
  return all.filter((one) => kept.has(one));
}

/** @param {Table} table */
const restOf = (table) => Math.max(0, Object.keys(table.schema).length - SHOWN);

/** @param {Table} table */
const heightOf = (table) => HEAD + ROW * Math.max(1, columnsOf(table).length + (restOf(table) ? 1 : 0)) + FOOT;

/** @param {Table[]} all */
function drawn(all) {
  const byId = new Map(all.map((table) => [table.id, table]));
  const arrows = all.flatMap((table) =>
    (table.referenced_by || []).flatMap((one) => {
      const from = byId.get(one.table_id);
      const at = from ? columnsOf(from).findIndex((column) => column.name === one.column) : -1;
      return from && at >= 0
        ? [
            {
              from: one.table_id,
              to: table.id,
              y: HEAD + ROW * (at + 0.5),
              column: one.column,
              onDelete: one.on_delete,
            },
          ]
        : [];
    }),
  );
  const boxes = [...all]
    .sort((a, b) => a.title.localeCompare(b.title))
    .map((table) => ({ id: table.id, height: heightOf(table) }));
  return { arrows, ...layout(boxes, arrows) };
}

export function Screen() {
  const all = tables.value;
  const strip = (/** @type {Markup} */ aside) => html`<div class="strip tabstrip">
    <${TableViews} on="diagram" />
    <span class="grow"></span>
    ${aside}
  </div>`;
  if (!all)
    return html`<div class="data">
      ${strip(null)}
      ${tablesError.value
        ? html`<${Failure} error=${tablesError.value} retry=${() => void loadTables().catch(() => {})} />`
        : html`<${Bones} rows=${6} />`}
    </div>`;
  if (!all.length)
    return html`<div class="data">
      ${strip(null)}
      <div class="scroll"><${Empty} title=${t.tables.none} text=${t.tables.noneText} /></div>
    </div>`;
  return html`<${Diagram} all=${all} strip=${strip} />`;
}

/** @param {{all: Table[], strip: (aside: Markup) => Markup}} props */
function Diagram({ all, strip }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [near, setNear] = useState("");
  const [scale, setScale] = useState(1);
  const { arrows, places, width, height } = useMemo(() => drawn(all), [all]);
  // As much as fits, but not smaller than can be read.
  useLayoutEffect(() => {
    const { clientWidth, clientHeight } = /** @type {HTMLElement} */ (box.current);
    setScale(width <= clientWidth && height <= clientHeight ? 1 : READABLE);
  }, [width, height]);
  const placeOf = (/** @type {string} */ id) => /** @type {import("../ui/layers.js").Place} */ (places.get(id));
  const at = SCALES.indexOf(scale);
  const connected = new Set(arrows.flatMap((one) => (one.from === near || one.to === near ? [one.from, one.to] : [])));
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const next = near && neighbour(places, near, event.key);
    if (!next) return;
    event.preventDefault();
    /** @type {HTMLElement | null} */ (box.current?.querySelector(`[data-table="${next}"]`))?.focus();
  };
  const zoom = html`
    <${Button}
      kind="flat small" icon="minus" label=${t.diagram.smaller} why=${at <= 0 && t.noMore}
      onClick=${() => setScale(SCALES[at - 1])}
    />
    <span class="num s12 soft">${Math.round(scale * 100)}%</span>
    <${Button}
      kind="flat small" icon="plus" label=${t.diagram.larger} why=${at === SCALES.length - 1 && t.noMore}
      onClick=${() => setScale(SCALES[at + 1])}
    />
  `;
  return html`<div class="data">
    ${strip(zoom)}
    <div
      class="plan" ref=${box} role="group" aria-label=${t.diagram.label} onKeyDown=${keys}
      onMouseLeave=${() => setNear("")}
    >
      <div class="plansize" style=${{ width: `${width * scale}px`, height: `${height * scale}px` }}>
        <div
          class=${`drawn ${connected.size ? "chosen" : ""}`}
          style=${{ width: `${width}px`, height: `${height}px`, transform: `scale(${scale})` }}
        >
          <svg width=${width} height=${height} aria-hidden="true">
            ${arrows.map((one) => {
              const [from, to] = [placeOf(one.from), placeOf(one.to)];
              const path = line(from, to, one.y, HEAD / 2);
              const [x, y] = (path.match(/(-?[\d.]+) (-?[\d.]+)$/) || []).slice(1).map(Number);
              const into = to.x < from.x || to.x === from.x ? -1 : 1;
              const on = one.from === near || one.to === near;
              return html`<g
                key=${`${one.from}.${one.column}`}
                class=${`${on ? "on" : ""} ${one.onDelete === "set_null" ? "loose" : ""}`}
              >
                <path class="edge" d=${path} />
                <path class="tip" d=${`M${x} ${y - 4}L${x + into * 7} ${y}L${x} ${y + 4}Z`} />
              </g>`;
            })}
          </svg>
          ${[...places].map(([id, place]) => {
            const table = /** @type {Table} */ (all.find((one) => one.id === id));
            return html`<${Card}
              key=${id} table=${table} place=${place} near=${connected.has(id)} choose=${() => setNear(id)}
            />`;
          })}
        </div>
      </div>
    </div>
  </div>`;
}

/** @param {{table: Table, place: import("../ui/layers.js").Place, near: boolean, choose: () => void}} props */
function Card({ table, place, near, choose }) {
  const columns = columnsOf(table);
  const rest = restOf(table);
  return html`<article
    class=${`entity ${near ? "near" : ""}`} onMouseEnter=${choose} onFocusIn=${choose}
    style=${{ left: `${place.x}px`, top: `${place.y}px`, width: `${WIDTH}px`, height: `${heightOf(table)}px` }}
  >
    <a data-table=${table.id} href=${href(`/apps/${appId.value}/tables/${table.id}/schema`)}>
      <${Icon} name="table" />
      <b class="cut">${plain(table.title, 60)}</b>
    </a>
    <ul>
      ${columns.map(
        (one) => html`<li class=${one.to ? "refers" : ""} title=${one.to ? refersTo(one) : undefined}>
          <span class="cut">${plain(one.name, 40)}</span>
          ${one.to
            ? html`<span class="cut soft">
                <span class="sr">${refersTo(one)}</span>
                <span aria-hidden="true">→ ${plain(one.to, 30)}</span>
              </span>`
            : html`<code class="soft">${one.type}</code>`}
        </li>`,
      )}
      ${rest > 0 && html`<li class="soft">${t.diagram.more(rest)}</li>`}
      ${!columns.length && html`<li class="soft">${t.diagram.freeForm}</li>`}
    </ul>
  </article>`;
}

/** @param {Column} column */
const refersTo = ({ to, onDelete }) => t.diagram.refers(plain(to, 60), t.tables.onDelete[onDelete || "restrict"]);

/**
 * The table that stands next to another in the direction of an arrow key.
 * @param {Map<string, {x: number, y: number}>} places @param {string} id @param {string} key
 */
function neighbour(places, id, key) {
  const [dx, dy] = /** @type {Record<string, number[]>} */ ({
    ArrowLeft: [-1, 0],
    ArrowRight: [1, 0],
    ArrowUp: [0, -1],
    ArrowDown: [0, 1],
  })[key] || [0, 0];
  const here = places.get(id);
  if (!here || (!dx && !dy)) return undefined;
  let [best, least] = [/** @type {string | undefined} */ (undefined), Infinity];
  for (const [other, place] of places) {
    const [ahead, aside] = dx
      ? [dx * (place.x - here.x), Math.abs(place.y - here.y)]
      : [dy * (place.y - here.y), Math.abs(place.x - here.x)];
    const far = ahead + 3 * aside;
    if (other !== id && ahead > 0 && far < least) [best, least] = [other, far];
  }
  return best;
}
