/** What happened in an app by one request: other requests with its id, changes, calls of functions. */
import { t } from "../strings/index.js";
import { appId, may, onApp } from "../state/app.js";
import { plain } from "../ui/format.js";

/** @typedef {{key: string, time: string, icon: string, text: string, note?: string, path?: string}} Happening */

const PLACES = /** @type {Record<string, string>} */ ({ table: "tables/", member: "members?member=", storage: "files/", site: "sites/", function: "functions/", workflow: "workflows/", webhook: "webhooks/", public_key: "keys", secret_key: "keys", oauth_client: "oauth" });

/** Where in the console the target of a change is. @param {any} entry */
export function placeOf(entry) {
  const place = PLACES[entry.target_kind];
  return place && `/apps/${appId.value}/${place}${/[/=]$/.test(place) ? encodeURIComponent(entry.target) : ""}`;
}

/** Entries of the audit log with the kind and the name of their targets. @param {any[]} entries @param {AbortSignal} signal @returns {Promise<any[]>} */
export async function named(entries, signal) {
  const ids = [...new Set(entries.map((one) => one.target).filter(Boolean))];
  if (!ids.length) return entries;
  const { targets } = await onApp("/audit-log/targets", { query: { ids: ids.join(",") }, signal });
  return entries.map((one) => ({ ...one, target_kind: targets[one.target]?.kind, target_name: targets[one.target]?.name }));
}

/** In order of time. @param {any} entry a request @param {AbortSignal} signal @returns {Promise<Happening[]>} */
export async function contextOf(entry, signal) {
  const query = { request_id: entry.request_id, limit: 50 };
  const [requests, changes] = await Promise.all([
    onApp("/requests", { query, signal }),
    may("editor") ? onApp("/audit-log", { query, signal }) : { data: [] },
  ]);
  const others = requests.data.filter((/** @type {any} */ one) => one.time !== entry.time);
  return [
    ...others.map((/** @type {any} */ one) => ({ key: one.time, time: one.time, icon: "activity", text: `${one.method} ${one.route}`, note: String(one.status) })),
    ...(await named(changes.data, signal)).map((/** @type {any} */ one) => ({ key: one.entry_id, time: one.created_at, icon: "edit", text: one.target_name ? plain(one.target_name, 60) : one.action, note: one.target_name ? one.action : t.activity.tabs.log, path: placeOf(one) })),
  ].sort((a, b) => (a.time < b.time ? -1 : 1));
}
