/** The words of the chosen language. `en.js` is the source; `ko.js` has the same keys. */
const language = document.documentElement.lang === "ko" ? "ko" : "en";

/** The words, once `load` has ended. @type {typeof import("./en.js").default} */
export const t = /** @type {any} */ ({});
export const locale = language;

/**
 * Load the words. The entry waits for it before it imports the console: with a top-level `await` here, on which all
 * modules depend, WebKit gives out modules that have not run yet (WebKit bug 242740).
 */
export async function load() {
  Object.assign(t, (await import(`./${language}.js`)).default);
}
