/** What the modules find in their page when they begin: its language, and the words that its entry has loaded. */
import "./document.js";
import english from "../../../src/pilotis/console/static/strings/en.js";
import { t } from "../../../src/pilotis/console/static/strings/index.js";

Object.assign(t, english);
