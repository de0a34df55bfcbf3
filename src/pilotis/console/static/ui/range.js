/** The time that a log shows: the last hours, or between two moments, which stand in the address. */
import { html, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { change, place } from "../state/router.js";
import { DateField } from "../grid/picker.js";
import { beginOf } from "../grid/where.js";
import { shortMoment } from "./format.js";
import { Button, FormDialog } from "./widgets.js";

const MINUTE = 60_000;
const SPANS = /** @type {Record<string, number>} */ ({
  "15m": 15 * MINUTE,
  "1h": 60 * MINUTE,
  "24h": 1440 * MINUTE,
  "7d": 10080 * MINUTE,
});
const DAY = /^\d{4}-\d\d-\d\d$/;

/** What the address says of the time; a span ends now. @returns {{span: string, from: string, to: string}} */
export function rangeOf() {
  const query = place.value.query;
  const span = query.get("span") || "";
  return { span: SPANS[span] ? span : "", from: query.get("from") || "", to: query.get("to") || "" };
}

/** The times of a range as requests take them. @param {{span: string, from: string, to: string}} range */
export const timesOf = ({ span, from, to }) => ({
  from: span ? new Date(Date.now() - SPANS[span]).toISOString() : from,
  to,
});

export function RangePicker() {
  const range = rangeOf();
  const [own, setOwn] = useState(false);
  const isOwn = !!(range.from || range.to);
  const set = (/** @type {string} */ value) =>
    value === "own" ? setOwn(true) : change({ span: value, from: null, to: null, offset: null });
  return html`
    <select
      class="in small" aria-label=${t.logs.time} value=${isOwn ? "own" : range.span}
      onChange=${(/** @type {Typed} */ event) => set(event.target.value)}
    >
      <option value="">${t.logs.anyTime}</option>
      ${Object.keys(SPANS).map(
        (one) => html`<option value=${one} selected=${one === range.span}>${worded(t.logs.spans, one)}</option>`,
      )}
      <option value="own" selected=${isOwn}>
        ${isOwn
          ? [range.from && shortMoment(range.from), range.to && shortMoment(range.to)]
              .map((one) => one || "…")
              .join(" – ")
          : t.logs.between}
      </option>
    </select>
    ${isOwn && html`<${Button} kind="flat small" icon="edit" label=${t.logs.between} onClick=${() => setOwn(true)} />`}
    ${own && html`<${Between} range=${range} onClose=${() => setOwn(false)} />`}
  `;
}

/** @param {{range: {from: string, to: string}, onClose: () => void}} props */
function Between({ range, onClose }) {
  const [from, setFrom] = useState(range.from);
  const [to, setTo] = useState(range.to);
  // A day begins and ends where the viewer is.
  const read = (/** @type {string} */ text, /** @type {number} */ after) =>
    !text.trim() ? "" : DAY.test(text.trim()) ? beginOf(text.trim(), after) : new Date(text).toISOString();
  const isWrong = [from, to].some((one) => one.trim() && Number.isNaN(Date.parse(one)));
  return html`<${FormDialog}
    title=${t.logs.between} onClose=${onClose} action=${t.grid.apply} why=${isWrong && t.grid.notDate}
    submit=${async () => (change({ span: null, from: read(from, 0), to: read(to, 1), offset: null }), onClose())}
  >
    <div class="field">
      <span class="label">${t.logs.from}</span>
      <${DateField} label=${t.logs.from} text=${from} onInput=${setFrom} />
    </div>
    <div class="field">
      <span class="label">${t.logs.to}</span>
      <${DateField} label=${t.logs.to} text=${to} onInput=${setTo} />
    </div>
  </${FormDialog}>`;
}
