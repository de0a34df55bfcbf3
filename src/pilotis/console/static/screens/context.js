/**
 * What a request led to in an app: other requests, changes, calls of functions, executions of workflows, deliveries.
 */
import { html } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, may, onApp } from "../state/app.js";
import { href } from "../state/router.js";
import { clock, duration, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Bones, said, useLoad } from "../ui/widgets.js";

/**
 * @typedef {{key: string, time: string, icon: string, text: string, note?: string, path?: string, state?: string,
 *   code?: string | null, isFailed?: boolean, isCode?: boolean}} Happening
 */

const PLACES = /** @type {Record<string, string>} */ ({
  table: "tables/",
  member: "members?member=",
  storage: "files/",
  site: "sites/",
  function: "functions/",
  workflow: "workflows/",
  webhook: "webhooks/",
  public_key: "keys",
  secret_key: "keys",
  oauth_client: "oauth",
});

/** Where in the console the target of a change is. @param {any} entry */
export function placeOf(entry) {
  const place = PLACES[entry.target_kind];
  return place && `/apps/${appId.value}/${place}${/[/=]$/.test(place) ? encodeURIComponent(entry.target) : ""}`;
}

/**
 * Entries of the audit log with the kind and the name of their targets.
 * @param {any[]} entries
 * @param {AbortSignal} signal
 * @returns {Promise<any[]>}
 */
export async function named(entries, signal) {
  const ids = [...new Set(entries.map((one) => one.target).filter(Boolean))];
  if (!ids.length) return entries;
  const { targets } = await onApp("/audit-log/targets", { query: { ids: ids.join(",") }, signal });
  return entries.map((one) => ({
    ...one,
    target_kind: targets[one.target]?.kind,
    target_name: targets[one.target]?.name,
  }));
}

const CHAIN =
  /** @type {Record<string, {icon: string, place: (one: any) => string | undefined, word: (status: string) => string}>} */ ({
    request: { icon: "activity", place: () => undefined, word: (status) => status },
    function: {
      icon: "code",
      place: (one) => `functions/${one.target_id}/runs?run=${one.id}`,
      word: (status) => worded(t.functions.outcomes, status),
    },
    workflow: {
      icon: "flow",
      place: (one) => `workflows/${one.target_id}/runs/${one.id}`,
      word: (status) => worded(t.workflows.statuses, status),
    },
    delivery: {
      icon: "bolt",
      place: (one) => `webhooks/${one.target_id}?delivery=${one.id}`,
      word: (status) => worded(t.webhooks.outcomes, status),
    },
  });

/**
 * What a request led to in all parts of the app, and what it changed, in order of time.
 * @param {string} id of the request
 * @param {AbortSignal} signal
 * @returns {Promise<{entries: Happening[], hasMore: boolean}>}
 */
export async function contextOf(id, signal) {
  const [found, changes] = await Promise.all([
    onApp(`/requests/${encodeURIComponent(id)}`, { signal }),
    may("editor") ? onApp("/audit-log", { query: { request_id: id, limit: 50 }, signal }) : { data: [] },
  ]);
  const entries = [
    ...found.entries.map((one) => {
      const { icon, place, word } = CHAIN[one.kind];
      const path = place(one);
      const words = /** @type {Record<string, string>} */ ({ ...t.functions.callers, ...t.actors });
      const note = [
        one.detail && (words[one.detail] || plain(one.detail, 60)),
        one.duration_ms !== null && duration(one.duration_ms),
      ]
        .filter(Boolean)
        .join(" · ");
      return {
        key: `${one.kind} ${one.id} ${one.time}`,
        time: one.time,
        icon,
        text: plain(one.name, 80),
        isCode: one.kind === "request",
        note,
        state: word(one.status) || one.status,
        isFailed: one.is_failed,
        code: one.code,
        path: path && `/apps/${appId.value}/${path}`,
      };
    }),
    ...(await named(changes.data, signal)).map((one) => ({
      key: one.entry_id,
      time: one.created_at,
      icon: "edit",
      text: one.target_name ? plain(one.target_name, 60) : one.action,
      note: one.target_name ? one.action : t.activity.tabs.log,
      path: placeOf(one),
    })),
  ];
  return { entries: entries.sort((a, b) => (a.time < b.time ? -1 : 1)), hasMore: found.has_more };
}

/** Where everything that a request led to is shown. @param {string} id of the request */
export const tracePlace = (id) => `/apps/${appId.value}/activity/requests?request=${encodeURIComponent(id)}`;

/** The way to it. @param {{id: string | null | undefined}} props */
export const TraceLink = ({ id }) =>
  id ? html`<a class="link s12" href=${href(tracePlace(id))}>${t.requests.trace}</a>` : null;

/** @param {{id: string}} props */
export function Context({ id }) {
  const around = useLoad((signal) => contextOf(id, signal), [appId.value, id]);
  if (around.error) return html`<p class="soft s13 pad">${said(around.error)}</p>`;
  if (!around.data) return html`<${Bones} rows=${3} columns=${1} />`;
  if (!around.data.entries.length) return html`<p class="soft s13 pad">${t.requests.noContext}</p>`;
  return html`
    <ol class="context">
      ${around.data.entries.map(
        (one) => html`<li key=${one.key}>
          <time class="num soft" title=${one.time}>${clock(one.time)}</time>
          <span class=${`state ${one.isFailed ? "bad" : ""}`}><${Icon} name=${one.icon} /></span>
          <span class="grow">
            ${one.path
              ? html`<a class="link" href=${href(one.path)}>${one.text}</a>`
              : one.isCode
                ? html`<code>${one.text}</code>`
                : one.text}
            <span class="soft s12 under">
              ${one.state && html`<span class=${one.isFailed ? "state bad s12" : ""}>${one.state}</span> `}
              ${one.code && html`<code>${plain(one.code, 60)}</code> `}
              ${one.note}
            </span>
          </span>
        </li>`,
      )}
    </ol>
    ${around.data.hasMore && html`<p class="soft s12 pad">${t.requests.moreContext}</p>`}
  `;
}
