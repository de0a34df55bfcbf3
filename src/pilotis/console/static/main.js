/** The entry: it loads the words of the chosen language, then the console. */
import { load } from "./strings/index.js";

// In a browser that is too old the page says so.
if (document.documentElement.dataset.outdated === undefined) load().then(() => import("./app.js"));
