/** A calendar under a date in edit. It keeps the form of what stands there: a day, or a moment with its offset. */
import { html, useState } from "../vendor/view.js";
import { locale, t } from "../strings/index.js";
import { Button } from "../ui/widgets.js";

const month = new Intl.DateTimeFormat(locale, { month: "long", year: "numeric", timeZone: "UTC" });
const weekday = new Intl.DateTimeFormat(locale, { weekday: "narrow", timeZone: "UTC" });
const full = new Intl.DateTimeFormat(locale, { dateStyle: "long", timeZone: "UTC" });
const DAY = 86400000;

/** @param {number} time */
const iso = (time) => new Date(time).toISOString().slice(0, 10);

/** @param {{text: string, choose: (text: string) => void}} props */
export function Picker({ text, choose }) {
  const rest = text.slice(10);
  const chosen = /^\d{4}-\d\d-\d\d/.test(text) && !Number.isNaN(Date.parse(text.slice(0, 10))) ? text.slice(0, 10) : "";
  const today = iso(Date.now() - new Date().getTimezoneOffset() * 60000);
  const [shown, setShown] = useState((chosen || today).slice(0, 7));
  const first = Date.parse(`${shown}-01T00:00:00Z`);
  // Weeks begin on a Monday (ISO 8601).
  const begin = first - ((new Date(first).getUTCDay() + 6) % 7) * DAY;
  const turn = (/** @type {number} */ step) => {
    const date = new Date(first);
    date.setUTCMonth(date.getUTCMonth() + step);
    setShown(date.toISOString().slice(0, 7));
  };
  const keep = (/** @type {Event} */ event) => event.preventDefault();
  return html`<div class="picker" role="group" aria-label=${t.grid.calendar} onMouseDown=${keep}>
    <header><b>${month.format(first)}</b><span class="grow"></span><${Button} kind="flat small" icon="left" label=${t.grid.monthBefore} tabindex="-1" onClick=${() => turn(-1)} /><${Button} kind="flat small" icon="right" label=${t.grid.monthAfter} tabindex="-1" onClick=${() => turn(1)} /></header>
    <div class="month">${Array.from({ length: 7 }, (_, day) => html`<small aria-hidden="true">${weekday.format(begin + day * DAY)}</small>`)}
      ${Array.from({ length: 42 }, (_, index) => {
        const day = iso(begin + index * DAY);
        return html`<button type="button" tabindex="-1" class=${`num ${day.startsWith(shown) ? "" : "off"} ${day === chosen ? "on" : ""} ${day === today ? "today" : ""}`} aria-label=${full.format(begin + index * DAY)} aria-pressed=${day === chosen ? "true" : "false"} onClick=${() => choose(day + rest)}>${Number(day.slice(8))}</button>`;
      })}</div>
    <div class="foot"><${Button} kind="flat small" tabindex="-1" onClick=${() => choose(today)}>${t.grid.today}</${Button}><${Button} kind="flat small" tabindex="-1" onClick=${() => choose(new Date().toISOString().slice(0, 19) + "Z")}>${t.grid.now}</${Button}></div>
    <p class="s12 soft"><kbd>Enter</kbd> ${t.save} <kbd>Tab</kbd> ${t.grid.nextCell} <kbd>Esc</kbd> ${t.cancel}</p></div>`;
}
