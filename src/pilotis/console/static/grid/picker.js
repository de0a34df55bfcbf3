/** A calendar under a date in edit, with its time and zone: it keeps the form of what stands there. */
import { html, useState } from "../vendor/view.js";
import { locale, t } from "../strings/index.js";
import { Button } from "../ui/widgets.js";

const month = new Intl.DateTimeFormat(locale, { month: "long", year: "numeric", timeZone: "UTC" });
const weekday = new Intl.DateTimeFormat(locale, { weekday: "narrow", timeZone: "UTC" });
const full = new Intl.DateTimeFormat(locale, { dateStyle: "long", timeZone: "UTC" });
const DAY = 86400000;
const MINUTE = 60000;
const FORM = /^(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?([Zz]|[+-]\d\d:\d\d)?)?$/;

/** @param {number} time */
const iso = (time) => new Date(time).toISOString().slice(0, 10);

/** How far the browser's zone is from UTC at a moment, as RFC 3339 writes it. @param {string} [moment] */
export function localOffset(moment) {
  const at = moment ? new Date(moment) : new Date();
  const minutes = -(Number.isNaN(at.getTime()) ? new Date() : at).getTimezoneOffset();
  const pad = (/** @type {number} */ number) => String(Math.abs(Math.trunc(number))).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${pad(minutes / 60)}:${pad(minutes % 60)}`;
}

/** The parts of a written date; none of what is no date. @param {string} text */
function partsOf(text) {
  const [, day = "", time = "", seconds = "", zone = ""] = FORM.exec(text.trim()) || [];
  return Number.isNaN(Date.parse(day))
    ? { day: "", time: "", seconds: "", zone: "" }
    : { day, time, seconds, zone: zone.toUpperCase() };
}

/**
 * `choose` gets the text, and whether the focus stays where it is; `onLeave` is called when it leaves the fields here.
 * @param {{text: string, choose: (text: string, stays?: boolean) => void, hint?: boolean, onLeave?: () => void}} props
 */
export function Picker({ text, choose, hint = true, onLeave }) {
  const { day: chosen, time, seconds, zone } = partsOf(text);
  const today = iso(Date.now() - new Date().getTimezoneOffset() * MINUTE);
  const [shown, setShown] = useState((chosen || today).slice(0, 7));
  const first = Date.parse(`${shown}-01T00:00:00Z`);
  // Weeks begin on a Monday (ISO 8601).
  const begin = first - ((new Date(first).getUTCDay() + 6) % 7) * DAY;
  const turn = (/** @type {number} */ step) => {
    const date = new Date(first);
    date.setUTCMonth(date.getUTCMonth() + step);
    setShown(date.toISOString().slice(0, 7));
  };
  const put = (/** @type {{day?: string, time?: string, seconds?: string, zone?: string}} */ change, stays = false) => {
    const next = { day: chosen || today, time, seconds, zone, ...change };
    choose(
      next.time
        ? `${next.day}T${next.time}${next.seconds || ":00"}${next.zone || localOffset(`${next.day}T${next.time}`)}`
        : next.day,
      stays,
    );
  };
  /** @param {KeyboardEvent} event */
  const keys = (event) => {
    event.stopPropagation();
    if (!onLeave || (event.key !== "Enter" && event.key !== "Escape")) return;
    event.preventDefault();
    choose(text);
  };
  const leave = (/** @type {FocusEvent} */ event) =>
    /** @type {Element | null} */ (event.relatedTarget)?.closest(".picker, .active") || onLeave?.();
  const local = localOffset(chosen && `${chosen}T${time || "00:00"}`);
  const zones = [...new Set([local, "Z", zone || local])];
  const named = (/** @type {string} */ one) =>
    one === "Z" ? "UTC" : one === local ? `${one} ${Intl.DateTimeFormat().resolvedOptions().timeZone}` : one;
  // A press leaves the focus in the field above; what is itself a field takes it.
  const keep = (/** @type {Event} */ event) =>
    event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement || event.preventDefault();
  return html`<div class="picker" role="group" aria-label=${t.grid.calendar} onMouseDown=${keep}>
    <header>
      <b>${month.format(first)}</b>
      <span class="grow"></span>
      <${Button} kind="flat small" icon="left" label=${t.grid.monthBefore} tabindex="-1" onClick=${() => turn(-1)} />
      <${Button} kind="flat small" icon="right" label=${t.grid.monthAfter} tabindex="-1" onClick=${() => turn(1)} />
    </header>
    <div class="month">
      ${Array.from(
        { length: 7 },
        (_, day) => html`<small aria-hidden="true">${weekday.format(begin + day * DAY)}</small>`,
      )}
      ${Array.from({ length: 42 }, (_, index) => {
        const day = iso(begin + index * DAY);
        return html`<button
          type="button" tabindex="-1"
          class=${`num ${day.startsWith(shown) ? "" : "off"} ${day === chosen ? "on" : ""} ${day === today ? "today" : ""}`}
          aria-label=${full.format(begin + index * DAY)} aria-pressed=${day === chosen ? "true" : "false"}
          onClick=${() => put({ day })}
        >
          ${Number(day.slice(8))}
        </button>`;
      })}
    </div>
    <div class="clock" onKeyDown=${keys} onFocusOut=${leave}>
      <input
        class="in small num" type="time" step="1" aria-label=${t.grid.time}
        value=${time && time + (seconds.slice(0, 3) || ":00")}
        onInput=${(/** @type {Typed} */ event) =>
          put({ time: event.target.value.slice(0, 5), seconds: event.target.value.slice(5) }, true)}
      />
      <select
        class="in small" aria-label=${t.functions.zone} disabled=${!time} value=${zone || local}
        onChange=${(/** @type {Typed} */ event) => put({ zone: event.target.value }, true)}
      >
        ${zones.map((one) => html`<option value=${one} selected=${one === (zone || local)}>${named(one)}</option>`)}
      </select>
    </div>
    <div class="foot">
      <${Button} kind="flat small" tabindex="-1" onClick=${() => choose(today)}>${t.grid.today}</${Button}>
      <${Button} kind="flat small" tabindex="-1" onClick=${() => choose(`${new Date().toISOString().slice(0, 19)}Z`)}>
        ${t.grid.now}
      </${Button}>
    </div>
    ${hint && html`<p class="s12 soft">
      <kbd>Enter</kbd> ${t.save} <kbd>Tab</kbd> ${t.grid.nextCell} <kbd>Esc</kbd> ${t.cancel}
    </p>`}
  </div>`;
}

/**
 * A date in a form: typed, or chosen below.
 * @param {{label?: string, text: string, onInput: (text: string) => void, [name: string]: any}} props
 */
export function DateField({ label, text, onInput, ...rest }) {
  const [isOpen, setOpen] = useState(false);
  return html`<div class="datefield">
    <div class="line">
      <input
        class="in" aria-label=${label} value=${text} placeholder="2026-01-31" spellcheck="false" autocomplete="off"
        onInput=${(/** @type {Typed} */ event) => onInput(event.target.value)} ...${rest}
      />
      <${Button}
        kind="small" icon="t-date" label=${t.grid.calendar} aria-expanded=${isOpen ? "true" : "false"}
        onClick=${() => setOpen(!isOpen)}
      />
    </div>
    ${isOpen && html`<${Picker} key=${text.slice(0, 7)} text=${text} choose=${onInput} hint=${false} />`}
  </div>`;
}
