/** Numbers, sizes, dates and texts as people read them, in the language of the page. */
import { locale, t } from "../strings/index.js";

const whole = new Intl.NumberFormat(locale);
const short = new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 });
const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
const dated = new Intl.DateTimeFormat(locale, { dateStyle: "medium" });
const timed = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
const exactly = new Intl.DateTimeFormat(locale, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  hourCycle: "h23",
});
const dayOnly = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", timeZone: "UTC" });

/** @param {number} value */
export const count = (value) => whole.format(value);
/** @param {number} value */
export const compact = (value) => (value < 10000 ? whole.format(value) : short.format(value));

/** @param {number} bytes */
export function size(bytes) {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
  let step = 0;
  while (bytes >= 1000 && step < units.length - 1) {
    bytes /= 1000;
    step++;
  }
  if (!step) return `${whole.format(bytes)} B`;
  return new Intl.NumberFormat(locale, {
    style: "unit",
    unit: units[step],
    unitDisplay: "short",
    maximumFractionDigits: bytes < 100 ? 1 : 0,
  }).format(bytes);
}

const STEPS = /** @type {[Intl.RelativeTimeFormatUnit, number][]} */ ([
  ["year", 31536000],
  ["month", 2592000],
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
]);

/** How long ago, or how soon. @param {string | null} time */
export function ago(time) {
  if (!time) return "";
  const seconds = (Date.parse(time) - Date.now()) / 1000;
  const [unit, length] = STEPS.find(([, length]) => Math.abs(seconds) >= length) || ["second", 1];
  return unit === "second" ? relative.format(0, "second") : relative.format(Math.round(seconds / length), unit);
}

/** @param {string} time */
export const date = (time) => dated.format(new Date(time));
/** @param {string} time */
export const moment = (time) => timed.format(new Date(time));
/** The time of day, to the millisecond. @param {string} time */
export const clock = (time) => exactly.format(new Date(time));
const near = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const STAMP = /** @type {Intl.DateTimeFormatOptions} */ ({
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  hourCycle: "h23",
});
const stamped = new Intl.DateTimeFormat(locale, STAMP);
const stampedYear = new Intl.DateTimeFormat(locale, { ...STAMP, year: "numeric" });
const isThisYear = (/** @type {Date} */ date) => date.getFullYear() === new Date().getFullYear();
/** The time of a moment of today, with its day where it is another. @param {string} time */
export const shortMoment = (time) =>
  new Date(time).toDateString() === new Date().toDateString()
    ? near.format(new Date(time))
    : timed.format(new Date(time));
/** Day and time to the millisecond, as a line of a log has them. @param {string} time */
export const stamp = (time) => (isThisYear(new Date(time)) ? stamped : stampedYear).format(new Date(time));
/** A day as `2026-01-31`, without its year. @param {string} day */
export const dayName = (day) => dayOnly.format(new Date(`${day}T00:00:00Z`));

// Joiners (U+200C, U+200D) stay: scripts and emoji are written with them.
const CONTROLS =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;

/** @param {string} text @param {number} max */
const cut = (text, max) => (text.length > max ? `${text.slice(0, max)}…` : text);
/** Characters that turn a text around or hide in it, as symbols. @param {string} text */
const visible = (text) =>
  text.replace(CONTROLS, (character) => `⟨U+${character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}⟩`);

/**
 * A text from data for one line: cut, and without characters that turn it around or hide.
 * @param {unknown} value
 * @param {number} [max]
 */
export const plain = (value, max = 200) => visible(cut(String(value), max).replace(/[\r\n\t]+/g, " "));
/** The same for a text that keeps its lines. @param {unknown} value @param {number} [max] */
export const prose = (value, max = 2000) => visible(cut(String(value), max).replaceAll("\r\n", "\n"));

const BROWSERS = [
  ["Edg/", "Edge"],
  ["OPR/", "Opera"],
  ["Firefox/", "Firefox"],
  ["Chrome/", "Chrome"],
  ["Safari/", "Safari"],
];
const SYSTEMS = [
  ["iPhone", "iPhone"],
  ["Android", "Android"],
  ["Windows", "Windows"],
  ["Mac OS", "macOS"],
  ["Linux", "Linux"],
];

/** What a user agent calls itself, in two words: the browser and the system. @param {string | null} agent */
export function browser(agent) {
  const text = agent || "";
  const named = [BROWSERS, SYSTEMS].map((known) => known.find(([mark]) => text.includes(mark))?.[1]);
  return named.filter(Boolean).join(" · ") || plain(text.split("/")[0] || t.profile.unknownBrowser, 40);
}

/** The letters that stand for a name. @param {string} name */
export const initials = (name) => [...name.trim()].slice(0, 1).join("").toUpperCase() || "?";

/** A duration with as many digits as say something. @param {number | null} ms */
export const duration = (ms) =>
  ms === null
    ? "–"
    : ms >= 1000
      ? `${(ms / 1000).toLocaleString(locale, { maximumFractionDigits: 1 })} s`
      : `${ms.toLocaleString(locale, { maximumFractionDigits: ms < 10 ? 1 : 0 })} ms`;

const isMac = /^(Mac|iP)/.test(navigator.platform);

/** Whether the key of commands is held: ⌘ on a Mac, Ctrl elsewhere. @param {KeyboardEvent} event */
export const isCommand = (event) => (isMac ? event.metaKey : event.ctrlKey);

/** How a key together with that of commands is written. @param {string} key */
export const shortcut = (key) => (isMac ? `⌘${key}` : `Ctrl ${key}`);
