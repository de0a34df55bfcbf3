/** The limits of an app: in words and groups, searched, and with durations and sizes as people read them. */
import { html, useState } from "../vendor/view.js";
import { locale, t, worded } from "../strings/index.js";
import { LIMITS } from "../strings/limits.js";
import { appId, denied, onApp } from "../state/app.js";
import { count } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Bones, Button, Empty, Failure, FormDialog, TextField, complain, useLoad } from "../ui/widgets.js";

const LANGUAGE = locale === "ko" ? 1 : 0;
const KNOWN = new Set(LIMITS.flatMap((group) => Object.keys(group.limits)));
const SECONDS = /** @type {[string, number][]} */ ([
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
]);
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB"];

/**
 * @typedef {{value: number, server_value: number, plan_value: number | null, is_own: boolean, is_settable: boolean, unit: string | null,
 *   zero_is_unlimited: boolean}} Limit
 */

/** @param {number} value @param {string} unit */
const timed = (value, unit) =>
  new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: "long" }).format(value);

/** A number of bytes in the largest unit that leaves it whole. @param {number} value */
function bytes(value) {
  let step = 0;
  while (value && value % 1024 === 0 && step < BINARY.length - 1) {
    value /= 1024;
    step++;
  }
  return `${count(value)} ${BINARY[step]}`;
}

/** The value of a limit as people read it. @param {number} value @param {string | null} unit */
function readable(value, unit) {
  if (unit === "bytes") return bytes(value);
  if (unit === "seconds") {
    const [name, length] = SECONDS.find(([, length]) => value && value % length === 0) || ["second", 1];
    return timed(value / length, name);
  }
  if (unit === "hours" || unit === "days") return timed(value, unit.slice(0, -1));
  return unit ? `${count(value)} ${worded(t.settings.units, unit) || unit}` : count(value);
}

/** @param {string} name @returns {string} */
export const wordsOf = (name) =>
  LIMITS.find((group) => group.limits[name])?.limits[name][LANGUAGE] || name.replaceAll("_", " ");

/** A value that a limit has or could have, as people read it. @param {Limit} limit @param {number} value */
export const shownLimit = (limit, value) =>
  value === 0 && limit.zero_is_unlimited ? t.settings.unlimited : readable(value, limit.unit);

export function Limits() {
  const { data, error, reload, set } = useLoad((signal) => onApp("/limits", { signal }), [appId.value]);
  const [editing, setEditing] = useState("");
  const [typed, setTyped] = useState("");
  const why = denied("editor");
  const save = async (/** @type {string} */ name, /** @type {number | null} */ value) =>
    set(await onApp("/limits", { method: "PATCH", body: { [name]: value } }));
  if (error) return html`<section class="slab"><${Failure} error=${error} retry=${reload} /></section>`;
  if (!data) return html`<section class="slab"><${Bones} rows=${10} columns=${3} /></section>`;
  /** @type {Record<string, Limit>} */
  const limits = data.limits;
  const wanted = typed.trim().toLowerCase();
  // A limit newer than its words stands by its name.
  const others = Object.keys(limits).filter((name) => !KNOWN.has(name));
  const groups = [
    ...LIMITS.map((group) => ({
      title: group.title[LANGUAGE],
      names: Object.keys(group.limits).filter((name) => limits[name]),
    })),
    { title: t.settings.otherLimits, names: others },
  ]
    .map(({ title, names }) => ({
      title,
      names: names.filter((name) => !wanted || `${name} ${wordsOf(name)} ${title}`.toLowerCase().includes(wanted)),
    }))
    .filter((group) => group.names.length);
  const line = (/** @type {string} */ name) => html`<tr key=${name}>
    <td><span class="whole">${wordsOf(name)}</span> <code class="soft s12">${name}</code></td>
    <td class=${`r ${limits[name].is_own ? "main" : ""}`}>${shownLimit(limits[name], limits[name].value)}</td>
    <td class="r soft wide">
      ${shownLimit(limits[name], limits[name].server_value)}
      ${limits[name].plan_value !== null && html`
        <br />
        <small>${t.plan.limit(shownLimit(limits[name], limits[name].plan_value))}</small>
      `}
    </td>
    <td class="fit">
      ${limits[name].is_settable && html`<${Button}
        kind="flat small" icon="edit" label=${t.settings.change(wordsOf(name))} why=${why}
        onClick=${() => setEditing(name)}
      />`}
      ${limits[name].is_own && html`<${Button}
        kind="flat small" icon="undo" label=${t.settings.reset(wordsOf(name))} why=${why}
        onClick=${() => save(name, null).catch(complain)}
      />`}
    </td>
  </tr>`;
  return html`
    <div class="line wrap">
      <p class="soft s13 grow">${t.settings.limitsText}</p>
      <label class="searchbox">
        <${Icon} name="search" />
        <span class="sr">${t.settings.findLimit}</span>
        <input
          class="in small" type="search" placeholder=${t.settings.findLimit} value=${typed}
          onInput=${(/** @type {Typed} */ event) => setTyped(event.target.value)}
        />
      </label>
    </div>
    ${!groups.length && html`<section class="slab">
      <${Empty} title=${t.settings.noLimit} text="">
        <${Button} onClick=${() => setTyped("")}>${t.clearFilters}</${Button}>
      </${Empty}>
    </section>`}
    ${groups.map(
      ({ title, names }) => html`<section class="slab" key=${title}>
        <header><h2>${title}</h2></header>
        <table class="list limits">
          <thead>
            <tr>
              <th>${t.settings.limit}</th>
              <th class="r">${t.settings.value}</th>
              <th class="r">${t.settings.server}</th>
              <th><span class="sr">${t.edit}</span></th>
            </tr>
          </thead>
          <tbody>${names.map(line)}</tbody>
        </table>
      </section>`,
    )}
    ${editing && html`<${LimitDialog}
      key=${editing} name=${editing} limit=${limits[editing]} save=${save} onClose=${() => setEditing("")}
    />`}
  `;
}

/**
 * @param {{name: string, limit: Limit, save: (name: string, value: number) => Promise<unknown>, onClose: () => void}}
 *   props
 */
function LimitDialog({ name, limit, save, onClose }) {
  const [value, setValue] = useState(String(limit.value));
  const isWhole = /^\d+$/.test(value);
  const units = /** @type {Record<string, string>} */ (t.settings.units);
  const unit = limit.unit && (units[limit.unit] || limit.unit);
  return html`<${FormDialog}
    title=${t.settings.change(wordsOf(name))} action=${t.save} onClose=${onClose}
    submit=${async () => (await save(name, Number(value)), onClose())} why=${!isWhole && t.wholeNumber}
  >
    <${TextField}
      label=${html`<code>${name}</code>${unit && html` <span class="soft">${unit}</span>`}`} inputmode="numeric"
      value=${value} onInput=${setValue} help=${t.settings.stricter(shownLimit(limit, limit.server_value))}
    />
    ${isWhole && Number(value) > 0 && html`<p class="soft s13" role="status">
      = ${readable(Number(value), limit.unit)}
    </p>`}
  </${FormDialog}>`;
}
