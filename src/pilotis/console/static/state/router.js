/** The address is the state: which screen is open, and what it shows. */
import { signal } from "../vendor/view.js";

const BASE = "/console";

/** @typedef {{path: string, query: URLSearchParams}} Place */

function read() {
  return { path: location.pathname.slice(BASE.length) || "/", query: new URLSearchParams(location.search) };
}

/** Where the user is; `path` has no `/console` before it. */
export const place = signal(/** @type {Place} */ (read()));

addEventListener("popstate", () => (place.value = read()));

/** @type {Set<() => string | null>} */
const guards = new Set();

/**
 * Ask before the screen is left while `reason` returns one. Returns how to stop asking.
 * @param {() => string | null} reason
 */
export function guard(reason) {
  guards.add(reason);
  return () => guards.delete(reason);
}

/** Whether leaving the page would lose something. */
export const isGuarded = () => [...guards].some((reason) => reason());

addEventListener("beforeunload", (event) => {
  if (isGuarded()) event.preventDefault();
});

/**
 * Load a path below `/console` as a new page, which knows nothing of this one, and ask nothing.
 * @param {string} path
 */
export function leave(path) {
  guards.clear();
  location.assign(href(path));
}

/** Go to a path below `/console`. @param {string} path @param {{replace?: boolean}} [options] */
export function go(path, { replace = false } = {}) {
  if (href(path) === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", href(path));
  place.value = read();
}

/**
 * Change parts of the query; null takes one away.
 * @param {Record<string, string | null>} changes
 * @param {{replace?: boolean}} [options]
 */
export function change(changes, { replace = false } = {}) {
  const query = new URLSearchParams(place.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  go(place.value.path + (text ? `?${text}` : ""), { replace });
}

/** The address of a path below `/console`. @param {string} path */
export const href = (path) => BASE + (path === "/" ? "" : path);

/** Follow links within the console without loading the page again. @param {MouseEvent} event */
export function follow(event) {
  const link = /** @type {HTMLElement} */ (event.target).closest?.("a");
  if (
    !link ||
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    link.target
  )
    return;
  const url = new URL(link.href, location.href);
  if (url.origin !== location.origin || !`${url.pathname}/`.startsWith(`${BASE}/`) || url.hash) return;
  event.preventDefault();
  go(url.pathname.slice(BASE.length) + url.search || "/");
}

/**
 * Match a path with patterns such as `/apps/:app/tables/:table`; returns the first one's value with the parameters.
 * @template T
 * @param {[string, T][]} patterns
 * @param {string} path
 * @returns {{value: T, params: Record<string, string>} | null}
 */
export function match(patterns, path) {
  const given = path.replace(/\/+$/, "").split("/");
  for (const [pattern, value] of patterns) {
    const wanted = pattern.replace(/\/+$/, "").split("/");
    if (wanted.length !== given.length) continue;
    /** @type {Record<string, string>} */
    const params = {};
    const fits = wanted.every((part, index) => {
      if (!part.startsWith(":")) return part === given[index];
      try {
        params[part.slice(1)] = decodeURIComponent(given[index]);
      } catch {
        return false;
      }
      return given[index] !== "";
    });
    if (fits) return { value, params };
  }
  return null;
}
