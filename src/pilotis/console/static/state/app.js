/** The app that is open: its record, its tables, and what the user's role allows. */
import { computed, signal } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { request } from "./api.js";
import * as begun from "./begin.js";

/**
 * @typedef {{app_id: string, name: string, schema_locked: boolean, created_at: string, deleted_at: string | null, role:
 *   "owner" | "editor" | "viewer", parent_app_id: string | null, branch: string | null, expires_at: string | null}} App
 */
/**
 * @typedef {{id: string, title: string, schema: Record<string, any>, access_level: string, has_rules?: boolean, unique?: Api.ShownUniqueKey[],
 *   referenced_by?: {table_id: string, table: string, column: string, on_delete: string, key?: string}[], create_time: string,
 *   update_time: string}} Table
 */

export const apps = signal(/** @type {App[] | null} */ (null));
export const appId = signal("");
/** What needs attention in the open app; null until it is known. */
export const attention = signal(/** @type {Api.Attention | null} */ (null));
/** The name of what is open below a section, for the title of the screen. */
export const opened = signal("");
export const tables = signal(/** @type {Table[] | null} */ (null));
/** Why the tables of the open app could not be read; null where they could. */
export const tablesError = signal(/** @type {any} */ (null));
export const app = computed(() => apps.value?.find((one) => one.app_id === appId.value) || null);

const RANKS = { viewer: 1, editor: 2, owner: 3 };

/** Whether the user's role on the open app includes another. @param {"viewer" | "editor" | "owner"} role */
export const may = (role) => !!app.value && RANKS[app.value.role] >= RANKS[role];

/** Load the list of apps again. */
export async function loadApps() {
  /** @type {App[]} */
  const all = [];
  for (let total = 1; all.length < total;) {
    const page = await begun.taken("/v1/apps", { query: { limit: begun.PAGE, offset: all.length } });
    all.push(...page.data);
    total = page.data.length ? page.total_count : 0;
  }
  apps.value = all;
}

/** Load the tables of the open app again. */
export async function loadTables() {
  const id = appId.value;
  try {
    const answer = await begun.taken("/v1/public/tables", { app: id });
    if (id !== appId.value) return;
    tables.value = answer.tables;
    tablesError.value = null;
  } catch (error) {
    if (id === appId.value) tablesError.value = error;
    throw error;
  }
}

/** Open an app: what belonged to another is forgotten. @param {string} id */
export async function openApp(id) {
  if (appId.peek() !== id) {
    appId.value = id;
    tables.value = null;
    tablesError.value = null;
    attention.value = null;
    // The reference at /docs fills in the values of the app that was open last.
    if (id) store("pilotis.app", id);
  }
  if (id && !tables.peek()) await loadTables().catch(() => {});
}

/** Count again what needs attention; without an answer, the last count stays. */
export async function loadAttention() {
  const id = appId.peek();
  if (!id) return;
  const counted = await request(`/v1/apps/${id}/attention`).catch(() => null);
  if (counted && id === appId.peek()) attention.value = counted;
}

/**
 * Why the user's role does not allow something that another one does; false where it does.
 * @param {"editor" | "owner"} role
 */
export const denied = (role) => !may(role) && t.needs[role];

/**
 * Send a request about the open app, on its public routes.
 * @template {string} P @template {string} [M="GET"] @param {P} path
 * @param {import("./api.js").Options<M>} [options]
 * @returns {Promise<Api.Answer<M, P>>}
 */
export const ofApp = (path, options) => request(path, { ...options, app: appId.peek() });

/**
 * Send a request to a console route of the open app.
 * @template {string} P @template {string} [M="GET"] @param {P} path
 * @param {import("./api.js").Options<M>} [options]
 * @returns {Promise<Api.Answer<M, `/v1/apps/{}${P}`>>}
 */
export const onApp = (path, options) => request(`/v1/apps/${appId.peek()}${path}`, options);

/** The tables that were opened last, latest first. @returns {string[]} */
export function recentTables() {
  try {
    return JSON.parse(localStorage.getItem(`pilotis.recent.${appId.value}`) || "[]");
  } catch {
    return [];
  }
}

/** Record that a table was opened. @param {string} id */
export function noteTable(id) {
  const rest = recentTables().filter((one) => one !== id);
  store(`pilotis.recent.${appId.peek()}`, JSON.stringify([id, ...rest].slice(0, 8)));
}

/** Keep a preference in this browser, if it allows that. @param {string} name @param {string} value */
export function store(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Private windows may forbid it; then it lasts as long as the page.
  }
}
