/**
 * What a screen waits for, asked for while the modules of the screen are on their way: this module and what it imports
 * are run as soon as they are there.
 */
import { PAGE as ROWS, readSort, readWhere, rowsRequest } from "../grid/query.js";
import { open, renew, request } from "./api.js";

/** How many apps are asked for at once. */
export const PAGE = 100;
// An answer that no screen has taken by then is forgotten: it would no longer be what the server says.
const FRESH_MS = 5000;

/** What the server offers. */
export const config = open("/v1/console/config");
/** Whether a user is signed in. */
export const session = renew();

/** @type {Map<string, Promise<any>>} */
const early = new Map();

/** @param {string} path @param {import("./api.js").Options} options */
const keyOf = (path, options) => JSON.stringify([path, options.app, options.query, options.body]);

/**
 * Ask for something once it is known that a user is signed in.
 * @param {string} path
 * @param {import("./api.js").Options} options
 */
function ask(path, options) {
  const key = keyOf(path, options);
  const answer = session.then((known) => (known ? request(path, options) : null));
  early.set(key, answer);
  answer.catch(() => {}).then(() => setTimeout(() => early.delete(key), FRESH_MS));
}

/**
 * Send a request, or take the answer to the same one that was asked for when the console was opened, if that succeeded;
 * it is taken once.
 * @param {string} path @param {import("./api.js").Options} options @returns {Promise<any>}
 */
export async function taken(path, options) {
  const key = keyOf(path, options);
  const first = early.get(key)?.catch(() => null);
  early.delete(key);
  return (await first) || request(path, options);
}

const [, entry, app, table, more] =
  /^\/console(?:\/(sign-in|setup|invitation)\b.*|\/apps\/([^/]+)(?:\/tables\/([^/]+))?(\/.*)?)?/.exec(
    location.pathname,
  ) || [];
const shown = new URLSearchParams(location.search);
if (!entry) ask("/v1/apps", { query: { limit: PAGE, offset: 0 } });
if (app) ask("/v1/public/tables", { app });
if (table && !more && !shown.get("q")) {
  const [path, options] = rowsRequest(
    table,
    { where: readWhere(shown.get("where")), sort: readSort(shown.get("sort")) },
    0,
    ROWS,
  );
  ask(path, { ...options, app });
}
// Who needs them learns what failed.
for (const one of [config, session]) one.catch(() => {});
