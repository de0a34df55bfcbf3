/** Rows as cards, for a phone: three columns of each; a card opens the whole row. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { Value, labelOf, valueOf } from "./values.js";

/** @typedef {import("./values.js").Column} Column */

const HEIGHT = 62;
const TALLEST = 12_000_000;

/**
 * @param {{source: import("./source.js").Source, columns: Column[], open: (id: string) => void, label: string}} props
 */
export function Cards({ source, columns, open, label }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [view, setView] = useState({ top: 0, height: 800 });
  const total = source.total.value ?? 0;
  void source.version.value;
  const tall = total * HEIGHT;
  const drawn = Math.min(tall, TALLEST);
  const ratio = drawn > view.height ? (tall - view.height) / (drawn - view.height) : 1;
  const from = view.top * ratio;
  const first = Math.max(0, Math.floor(from / HEIGHT) - 2);
  const last = Math.min(total - 1, Math.ceil((from + view.height) / HEIGHT) + 2);
  useEffect(() => {
    const list = /** @type {HTMLElement} */ (box.current);
    const observer = new ResizeObserver(() => setView((old) => ({ ...old, height: list.clientHeight })));
    observer.observe(list);
    return () => observer.disconnect();
  }, []);
  useEffect(() => source.show(first, Math.max(last, 0)), [source, first, last]);
  const [main, second, third] = columns;
  const shown = (/** @type {Api.Row} */ row, /** @type {Column | undefined} */ column) =>
    column &&
    (valueOf(row, column) === undefined
      ? html`<span class="null">${t.grid.absent}</span>`
      : html`<${Value} value=${valueOf(row, column)} column=${column} />`);
  // The first value is the title of its card; what the others are is not plain without their names.
  const named = (/** @type {Column | undefined} */ column) =>
    column && html`<small class="soft">${labelOf(column)}</small> `;
  return html`<div
    class="cardrows" ref=${box} onScroll=${() => setView((old) => ({ ...old, top: box.current?.scrollTop || 0 }))}
  >
    <ul
      class="sizer" aria-label=${label}
      ref=${(/** @type {HTMLElement | null} */ one) => one && (one.style.height = `${drawn}px`)}
    >
      ${Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index).map((index) => {
        const row = source.row(index);
        return html`<li
          key=${index % (last - first + 1)} aria-posinset=${index + 1} aria-setsize=${total}
          ref=${(/** @type {HTMLElement | null} */ one) =>
            one && (one.style.transform = `translateY(${view.top + index * HEIGHT - from}px)`)}
        >
          ${row
            ? html`<button type="button" onClick=${() => open(row.id)}>
                <b class="cut">${shown(row, main)}</b>
                <span class="num cut">${named(second)}${shown(row, second)}</span>
                <span class="soft s12 cut">${named(third)}${shown(row, third)}</span>
              </button>`
            : html`<span class="bone" />`}
        </li>`;
      })}
    </ul>
  </div>`;
}
