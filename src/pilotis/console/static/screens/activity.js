/** What happens in an app: who changed what, the requests that failed or were slow, and how long all of them took. */
import { html, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, may, onApp } from "../state/app.js";
import { change, href, place } from "../state/router.js";
import { plain, stamp } from "../ui/format.js";
import { RangePicker, rangeOf, timesOf } from "../ui/range.js";
import { SearchBox } from "../ui/search.js";
import { TraceLink, named, placeOf } from "./context.js";
import { Metrics, Requests } from "./requests.js";
import { Icon } from "../ui/icons.js";
import { ListPager, listing } from "../ui/listing.js";
import { Button, Code, Copy, Empty, Tabs, later, useLoad } from "../ui/widgets.js";

export const head = () => ({ title: t.sectionNames.activity });

const PAGE = 50;
const KINDS = ["table", "row", "column", "member", "key", "app", "storage", "file", "user", "invitation"];

const Live = later(() => import("./live.js"), "Live");
const TABS = /** @type {Record<string, () => unknown>} */ ({
  "": () => html`<${AuditLog} />`,
  requests: () => html`<${Requests} />`,
  metrics: () => html`<${Metrics} />`,
  live: () => html`<${Live} />`,
});

/** @param {{tab?: string}} props */
export function Screen({ tab = "" }) {
  const base = `/apps/${appId.value}/activity`;
  const tabs = html`<${Tabs}
    label=${t.sectionNames.activity}
    items=${["", "requests", "metrics", "live"].map((name) => ({
      href: href(name ? `${base}/${name}` : base),
      text: worded(t.activity.tabs, name || "log"),
      on: name === tab,
    }))}
  />`;
  return html`<div class="stack"><div class="strip tabstrip">${tabs}</div>${(TABS[tab] || TABS[""])()}</div>`;
}

function AuditLog() {
  const query = place.value.query;
  const action = query.get("action") || "";
  const actor = query.get("actor") || "";
  const offset = Number(query.get("offset")) || 0;
  const [open, setOpen] = useState("");
  const allowed = may("editor");
  const search = query.get("search") || "";
  const range = rangeOf();
  const { data, error, reload } = useLoad(
    (signal) =>
      allowed
        ? onApp("/audit-log", {
            query: { limit: PAGE, offset, action, actor, search, ...timesOf(range) },
            signal,
          }).then(async (page) => ({ ...page, data: await named(page.data, signal) }))
        : Promise.resolve(null),
    [appId.value, allowed, action, actor, search, range, offset],
  );
  if (!allowed)
    return html`<div class="page">
      <div class="slab"><${Empty} title=${t.activity.notAllowed} text=${t.needs.editor} /></div>
    </div>`;
  return html`<div class="data">
    <div class="strip filters" role="toolbar" aria-label=${t.filters}>
      <${SearchBox} label=${t.activity.find} room />
      <${RangePicker} />
      <select
        class="in small" aria-label=${t.activity.kind} value=${action}
        onChange=${(/** @type {Typed} */ event) => change({ action: event.target.value, offset: null })}
      >
        <option value="">${t.activity.everything}</option>
        ${KINDS.map(
          (kind) => html`<option value=${kind} selected=${kind === action}>${worded(t.activity.kinds, kind)}</option>`,
        )}
      </select>
      ${actor && html`<span class="chip">
        <b>${t.activity.who}</b>
        <span class="cut">${plain(data?.data[0]?.actor_email || actor, 40)}</span>
        <button type="button" aria-label=${t.removeFilter} onClick=${() => change({ actor: null })}>
          <${Icon} name="cross" />
        </button>
      </span>`}
      <span class="grow"></span>
      <span class="s12 soft num">${data && t.entries(data.total_count)}</span>
      <${Button} kind="flat small" icon="retry" label=${t.reload} onClick=${reload} />
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.data,
        bones: { rows: 12, columns: 4 },
        empty: html`<${Empty}
          title=${search || action || actor || range.span || range.from || range.to
            ? t.activity.noneFound
            : t.activity.none}
          text=${t.activity.noneText}
        />`,
        look: "list dense",
        columns: html`
          <th>${t.activity.when}</th>
          <th>${t.activity.who}</th>
          <th>${t.activity.what}</th>
          <th>${t.activity.target}</th>
          <th></th>
        `,
        row: (entry) => html`<${Entry}
          key=${entry.entry_id} entry=${entry} open=${open === entry.entry_id}
          toggle=${() => setOpen(open === entry.entry_id ? "" : entry.entry_id)}
        />`,
      })}
    </div>
    <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
  </div>`;
}

/** @param {{entry: any, open: boolean, toggle: () => void}} props */
function Entry({ entry, open, toggle }) {
  const path = placeOf(entry);
  const target = plain(entry.target_name || entry.target || "", 60);
  const details = JSON.stringify(entry.details, null, 2);
  const who = entry.actor_email || worded(t.actors, entry.actor_kind) || entry.actor_kind;
  return html`
    <tr class=${open ? "on" : ""}>
      <td class="soft num fit" title=${entry.created_at}>${stamp(entry.created_at)}</td>
      <td class="cut">
        ${entry.actor_id
          ? html`<button
              type="button" class="plainlink" title=${t.activity.onlyBy}
              onClick=${() => change({ actor: entry.actor_id, offset: null })}
            >
              ${plain(who, 60)}
            </button>`
          : plain(who, 60)}
      </td>
      <td><code>${entry.action}</code></td>
      <td class="wide cut" title=${entry.target}>
        ${entry.target_name
          ? path
            ? html`<a class="link" href=${href(path)}>${target}</a>`
            : target
          : html`<code class="soft">${target}</code>`}
      </td>
      <td class="fit">
        <${Button}
          kind="flat small" icon=${open ? "up" : "down"} label=${open ? t.less : t.details}
          aria-expanded=${open ? "true" : "false"} onClick=${toggle}
        />
      </td>
    </tr>
    ${open && html`<tr class="on">
      <td colspan="5" class="opened">
        <${Code} text=${details.length > 20000 ? `${details.slice(0, 20000)}…` : details} label=${t.details} />
        ${entry.request_id && html`<p class="s12 soft line">
          ${t.requestId} <code>${entry.request_id}</code>
          <${Copy} text=${entry.request_id} />
          <${TraceLink} id=${entry.request_id} />
        </p>`}
      </td>
    </tr>`}
  `;
}
