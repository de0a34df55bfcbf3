/**
 * Traffic by day as stacked bars, and durations as lines on the same axis, drawn as SVG: it follows the theme, and its
 * numbers stand in a table as well.
 */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { compact, count, dayName, duration } from "./format.js";

/** @typedef {{name: string, kind: string, values: number[]}} Series */
/**
 * Milliseconds by day; null where there was nothing to measure.
 * @typedef {{name: string, kind: string, values: (number | null)[]}} Line
 */

const LEFT = 44;
const BOTTOM = 24;
// Below the bars, where there are lines: their height with the gap above them, and the room for their names.
const STRIP = 96;
const GAP = 34;
const NAMES = 72;

/** The next number of 1, 2 or 5 times a power of ten. @param {number} value */
function round(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value) || value;
}

/**
 * @param {{days: string[], series: Series[], label: string, lines?: Line[], named?: (step: string) => string}} props
 */
export function Bars({ days, series, label, lines: given = [], named = dayName }) {
  const lines = given.filter((one) => one.values.some((value) => value !== null));
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [[width, room], setSize] = useState([0, 0]);
  const [at, setAt] = useState(-1);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) =>
      setSize([entry.contentRect.width, entry.contentRect.height - BOTTOM]),
    );
    observer.observe(/** @type {HTMLElement} */ (box.current));
    return () => observer.disconnect();
  }, []);
  const totals = days.map((_, day) => series.reduce((sum, one) => sum + one.values[day], 0));
  const tick = Math.max(1, round(Math.max(...totals, 1) / 4));
  const top = Math.max(tick, Math.ceil(Math.max(...totals, 1) / tick) * tick);
  const height = room - (lines.length ? STRIP : 0);
  const right = width - (lines.length ? NAMES : 0);
  const step = (right - LEFT) / days.length;
  const x = (/** @type {number} */ day) => LEFT + step * day;
  const y = (/** @type {number} */ value) => height - (value / top) * (height - 12);
  const every = Math.ceil(days.length / Math.max(2, Math.floor((right - LEFT) / 80)));
  /** @param {PointerEvent} event */
  const move = (event) => {
    const left = /** @type {HTMLElement} */ (box.current).getBoundingClientRect().left;
    const day = Math.floor((event.clientX - left - LEFT) / step);
    setAt(day >= 0 && day < days.length ? day : -1);
  };
  return html`<figure class="chart" ref=${box} onPointerMove=${move} onPointerLeave=${() => setAt(-1)}>
    ${width > 0 && html`
      <svg width=${width} height=${room + BOTTOM} role="img" aria-label=${label}>
        ${Array.from(
          { length: Math.round(top / tick) + 1 },
          (_, line) => html`<g key=${line}>
            <line class=${line ? "rule" : "base"} x1=${LEFT} x2=${right} y1=${y(line * tick)} y2=${y(line * tick)} />
            <text x=${LEFT - 5} y=${y(line * tick) + 4} text-anchor="end">${compact(line * tick)}</text>
          </g>`,
        )}
        ${days.map((day, index) => {
          let base = 0;
          return html`<g key=${day} class=${at === index ? "on" : ""}>
            ${series.map((one) => {
              const raw = (one.values[index] / top) * (height - 12);
              const tall = raw ? Math.max(1.5, raw) : 0;
              const bar = html`<rect
                class=${one.kind} x=${x(index) + step * 0.19} width=${Math.max(2, step * 0.62)}
                y=${height - base - tall} height=${tall}
              />`;
              base += tall + (tall ? 1 : 0);
              return bar;
            })}
            ${index % every === Math.floor(every / 2) && html`<text
              x=${x(index) + step / 2} y=${room + BOTTOM - 6} text-anchor="middle"
            >
              ${named(day)}
            </text>`}
          </g>`;
        })}
        ${lines.length > 0 && html`<${Lines}
          lines=${lines} x=${(/** @type {number} */ day) => x(day) + step / 2} right=${right} top=${height + GAP}
          bottom=${room} at=${at}
        />`}
        ${at >= 0 && html`<line class="cursor" x1=${x(at) + step / 2} x2=${x(at) + step / 2} y1="8" y2=${room} />`}
      </svg>
      ${at >= 0 && html`<div
        class="tip"
        ref=${(/** @type {HTMLElement | null} */ tip) =>
          tip && (tip.style.left = `${x(at) > width / 2 ? x(at) - 178 : x(at) + step + 8}px`)}
      >
        <b>${named(days[at])}</b>
        <dl>
          ${series.map(
            (one) => html`
              <dt><span class=${`dot ${one.kind}`} />${one.name}</dt>
              <dd class="num">${count(one.values[at])}</dd>
            `,
          )}
          ${lines.map((one) => html`<dt>${one.name}</dt><dd class="num">${duration(one.values[at])}</dd>`)}
        </dl>
      </div>`}
    `}
  </figure>`;
}

/**
 * Lines below bars, each named where it ends.
 * @param {{lines: Line[], x: (day: number) => number, right: number, top: number, bottom: number, at: number}} props
 */
function Lines({ lines, x, right, top, bottom, at }) {
  const highest = round(Math.max(...lines.flatMap((one) => one.values.map((value) => value || 0)), 1));
  const y = (/** @type {number} */ value) => bottom - (value / highest) * (bottom - top);
  let above = -Infinity;
  return html`<g class="lines">
    ${[0, highest].map(
      (value) => html`<g key=${value}>
        <line class=${value ? "rule" : "base"} x1=${LEFT} x2=${right} y1=${y(value)} y2=${y(value)} />
        <text x=${LEFT - 5} y=${y(value) + 4} text-anchor="end">${value ? duration(value) : 0}</text>
      </g>`,
    )}
    ${lines.map((one) => {
      const points = /** @type {[number, number][]} */ (
        one.values.flatMap((value, day) => (value === null ? [] : [[day, value]]))
      );
      const last = points.at(-1);
      if (!last) return null;
      const path = points
        .map(([day, value], index) => `${index && points[index - 1][0] === day - 1 ? "L" : "M"}${x(day)} ${y(value)}`)
        .join("");
      const alone = points.filter(
        ([day], index) => points[index - 1]?.[0] !== day - 1 && points[index + 1]?.[0] !== day + 1,
      );
      const place = (above = Math.max(y(last[1]) + 4, above + 13));
      return html`<g class=${one.kind} key=${one.kind}>
        <path d=${path} />
        ${alone.map(([day, value]) => html`<circle cx=${x(day)} cy=${y(value)} r="2" />`)}
        ${at >= 0 && one.values[at] !== null && html`<circle
          class="at" cx=${x(at)} cy=${y(one.values[at] || 0)} r="3"
        />`}
        <text x=${right + 6} y=${place}>${one.kind} ${duration(last[1])}</text>
      </g>`;
    })}
  </g>`;
}

/**
 * The same numbers as a table.
 * @param {{days: string[], series: Series[], lines?: Line[], named?: (step: string) => string}} props
 */
export const Numbers = ({ days, series, lines = [], named = dayName }) => html`<div
  class="numbers" tabindex="0" role="region" aria-label=${t.overview.table}
>
  <table class="list">
    <thead>
      <tr>
        <th>${t.overview.day}</th>
        ${series.map((one) => html`<th class="r">${one.name}</th>`)}
        ${lines.map((one) => html`<th class="r">${one.name}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${days
        .map(
          (day, index) => html`<tr key=${day}>
            <td>${named(day)}</td>
            ${series.map((one) => html`<td class="r">${count(one.values[index])}</td>`)}
            ${lines.map((one) => html`<td class="r">${duration(one.values[index])}</td>`)}
          </tr>`,
        )
        .reverse()}
    </tbody>
  </table>
</div>`;

/**
 * A row of small bars without axes: how much there was by step, and the failed part of it.
 * @param {{values: number[], failed: number[], label: string}} props
 */
export function Spark({ values, failed, label }) {
  const top = Math.max(...values, 1);
  const tall = (/** @type {number} */ value) => (value ? Math.max(2, (value / top) * 40) : 0);
  return html`<svg
    class="spark" viewBox=${`0 0 ${values.length * 10} 41`} preserveAspectRatio="none" role="img" aria-label=${label}
  >
    <title>${label}</title>
    <rect class="base" width="100%" y="40" height="1" />
    ${values.map(
      (value, at) => html`
        <rect class="ok" x=${at * 10 + 1.5} width="7" y=${40 - tall(value)} height=${tall(value)} />
        <rect class="bad" x=${at * 10 + 1.5} width="7" y=${40 - tall(failed[at])} height=${tall(failed[at])} />
      `,
    )}
  </svg>`;
}
