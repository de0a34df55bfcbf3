/** The words of the chosen language. `en.js` is the source; `ko.js` has the same keys. */
const language = document.documentElement.lang === "ko" ? "ko" : "en";

/** The words, once `load` has ended. @type {typeof import("./en.js").default} */
export const t = /** @type {any} */ ({});
export const locale = language;

/**
 * The one of some texts that a name from elsewhere has; undefined where none has it.
 * @template T @param {{[name: string]: T}} texts @param {string | null | undefined} name @returns {T | undefined}
 */
export const worded = (texts, name) => (Object.hasOwn(texts, name ?? "") ? texts[name ?? ""] : undefined);

/**
 * Load the words. The entry waits for it before it imports the console: with a top-level `await` here, on which all
 * modules depend, WebKit gives out modules that have not run yet (WebKit bug 242740).
 */
export async function load() {
  Object.assign(t, (await import(`./${language}.js`)).default);
}
