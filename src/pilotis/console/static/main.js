/** The entry: it loads the words of the chosen language, then the console. */
import { load } from "./strings/index.js";

load().then(() => import("./app.js"));
