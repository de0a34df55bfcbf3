/** The words of the chosen language. `en.js` is the source; `ko.js` has the same keys. */
const language = document.documentElement.lang === "ko" ? "ko" : "en";

/** @type {typeof import("./en.js").default} */
export const t = (await import(`./${language}.js`)).default;
export const locale = language;
