/** The requests of an app: those that failed or were slow, and how many of all there were and how long they took. */
import { html, useState } from "../vendor/view.js";
import { locale, t, worded } from "../strings/index.js";
import { appId, onApp } from "../state/app.js";
import { change, href, place } from "../state/router.js";
import { Bars, Numbers } from "../ui/chart.js";
import { compact, count, duration, plain, stamp } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { RangePicker, rangeOf, timesOf } from "../ui/range.js";
import { SearchBox } from "../ui/search.js";
import { Context } from "./context.js";
import { ListPager, listing } from "../ui/listing.js";
import { Bones, Button, Copy, Empty, Failure, Pill, Segments, useLoad } from "../ui/widgets.js";

const PAGE = 50;
const FUNCTIONS = 100;

export function Requests() {
  const query = place.value.query;
  const range = rangeOf();
  const filters = {
    status: query.get("status") || "",
    route: query.get("route") || "",
    min_ms: query.get("slow") || "",
    search: query.get("search") || "",
    actor_id: query.get("actor") || "",
    function_id: query.get("function") || "",
  };
  const offset = Number(query.get("offset")) || 0;
  const chosen = query.get("entry") || "";
  const traced = query.get("request") || "";
  const functions =
    useLoad((signal) => onApp("/functions", { query: { limit: FUNCTIONS }, signal }), [appId.value]).data?.data || [];
  const { data, error, reload } = useLoad(
    (signal) => onApp("/requests", { query: { ...filters, ...timesOf(range), limit: PAGE, offset }, signal }),
    [appId.value, filters, range, offset],
  );
  const filtered = Object.values({ ...filters, ...range }).some(Boolean);
  const open = data?.data.find((one) => keyOf(one) === chosen);
  const chip = (/** @type {string} */ name, /** @type {any} */ label, /** @type {string} */ text) => html`<span
    class="chip"
  >
    <b>${label}</b>
    ${text}
    <button type="button" aria-label=${t.removeFilter} onClick=${() => change({ [name]: null, offset: null })}>
      <${Icon} name="cross" />
    </button>
  </span>`;
  return html`
    <div class="strip filters" role="toolbar" aria-label=${t.filters}>
      <${SearchBox} label=${t.requests.find} room />
      <${RangePicker} />
      <select
        class="in small" aria-label=${t.requests.status} value=${filters.status}
        onChange=${(/** @type {Typed} */ event) => change({ status: event.target.value, offset: null })}
      >
        <option value="">${t.requests.anyStatus}</option>
        ${["4xx", "5xx", "2xx"].map(
          (one) => html`<option value=${one} selected=${one === filters.status}>${one}</option>`,
        )}
      </select>
      <select
        class="in small" aria-label=${t.requests.duration} value=${filters.min_ms}
        onChange=${(/** @type {Typed} */ event) => change({ slow: event.target.value, offset: null })}
      >
        <option value="">${t.requests.anyDuration}</option>
        ${["100", "500", "2000"].map(
          (one) => html`<option value=${one} selected=${one === filters.min_ms}>
            ${t.requests.slower(duration(Number(one)))}
          </option>`,
        )}
      </select>
      ${(functions.length > 0 || filters.function_id) && html`<select
        class="in small" aria-label=${t.functions.one} value=${filters.function_id}
        onChange=${(/** @type {Typed} */ event) => change({ function: event.target.value, offset: null })}
      >
        <option value="">${t.requests.anyFunction}</option>
        ${functions.map(
          (one) => html`<option value=${one.id} selected=${one.id === filters.function_id}>
            ${plain(one.name, 60)}
          </option>`,
        )}
      </select>`}
      ${filters.route && chip("route", t.requests.route, html`<code class="cut">${plain(filters.route, 60)}</code>`)}
      ${filters.actor_id && chip(
        "actor",
        t.activity.who,
        html`<code class="cut">${plain(filters.actor_id, 40)}</code>`,
      )}
      <span class="grow"></span>
      <span class="s12 soft num wide">${data && t.requests.count(data.total_count)}</span>
      <${Button} kind="flat small" icon="retry" label=${t.reload} onClick=${reload} />
    </div>
    <div class=${`split ${open || traced ? "opened" : ""}`}>
      <div class="listbox">
        <div class="scroll">
          ${listing({
            loaded: { error, reload },
            items: data?.data,
            bones: { rows: 12, columns: 5 },
            empty: html`<${Empty}
              title=${filtered ? t.requests.noneFound : t.requests.none} text=${t.requests.noneText}
            />`,
            look: "list dense",
            columns: html`
              <th>${t.activity.when}</th>
              <th>${t.requests.status}</th>
              <th>${t.requests.route}</th>
              <th class="r">${t.requests.duration}</th>
              <th>${t.activity.who}</th>
              <th>${t.profile.address}</th>
            `,
            row: (one) => html`<tr key=${keyOf(one)} class=${one === open ? "on" : ""}>
              <td class=${`soft num fit ${one === open ? "upright" : ""}`} title=${one.time}>
                <button
                  type="button" class="coverbutton" aria-pressed=${one === open ? "true" : "false"}
                  onClick=${() => change({ entry: one === open ? null : keyOf(one), request: null })}
                >
                  ${stamp(one.time)}
                </button>
              </td>
              <td><${StatusPill} status=${one.status} /></td>
              <td class="main cut">
                <code>${one.method} ${one.route}</code>
                ${one.code && html` <code class="soft s12">${one.code}</code>`}
              </td>
              <td class="r">${duration(one.duration_ms)}</td>
              <td class="wide nowrap">${worded(t.actors, one.actor_kind) || one.actor_kind}</td>
              <td class="wide nowrap"><code class="soft">${plain(one.address, 45)}</code></td>
            </tr>`,
          })}
        </div>
        <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
      </div>
      ${open
        ? html`<${RequestPanel} key=${keyOf(open)} entry=${open} functions=${functions} />`
        : traced && html`<${TracePanel} key=${traced} id=${traced} />`}
    </div>
  `;
}

/** A client may send the id of one request twice. @param {any} entry */
const keyOf = (entry) => `${entry.request_id} ${entry.time}`;

/** @param {{status: number}} props */
const StatusPill = ({ status }) => html`<${Pill}
  kind=${status >= 500 ? "bad" : status >= 400 ? "warn" : ""}
  icon=${status >= 500 ? "fail" : status >= 400 ? "warn" : "done"}
>
  ${status}
</${Pill}>`;

/** Everything by one request, whether the list has it or not. @param {{id: string}} props */
const TracePanel = ({ id }) => html`<aside class="panel" aria-label=${t.requests.one}>
  <header>
    <b class="cut grow">${t.requests.context}</b>
    <${Button} kind="flat small" icon="cross" label=${t.close} onClick=${() => change({ request: null })} />
  </header>
  <div class="scroll">
    <dl class="facts-list">
      <div>
        <dt>${t.requestId}</dt>
        <dd><span class="line"><code class="cut">${plain(id, 80)}</code><${Copy} text=${id} /></span></dd>
      </div>
    </dl>
    <${Context} id=${id} />
  </div>
</aside>`;

/** One request, and what it led to. @param {{entry: Api.RequestEntry, functions: Api.Function[]}} props */
function RequestPanel({ entry, functions }) {
  const called = functions.find((one) => one.id === entry.function_id);
  const isMember = entry.actor_kind === "member";
  const who = worded(t.actors, entry.actor_kind) || entry.actor_kind;
  const field = (/** @type {any} */ label, /** @type {string} */ value) => html`<div>
    <dt>${label}</dt>
    <dd>${value}</dd>
  </div>`;
  return html`<aside class="panel" aria-label=${t.requests.one}>
    <header>
      <${StatusPill} status=${entry.status} />
      <code class="cut grow">${entry.method} ${entry.route}</code>
      <${Button} kind="flat small" icon="cross" label=${t.close} onClick=${() => change({ entry: null })} />
    </header>
    <div class="scroll">
      <dl class="facts-list">
        ${field(t.activity.when, html`<span class="num" title=${entry.time}>${stamp(entry.time)}</span>`)}
        ${field(t.requests.duration, duration(entry.duration_ms))}
        ${entry.code && field(t.code, html`<code>${plain(entry.code, 60)}</code>`)}
        ${field(
          t.activity.who,
          isMember
            ? html`<a class="link" href=${href(`/apps/${appId.value}/members?member=${entry.actor_id}`)}>${who}</a>`
            : who,
        )}
        ${entry.address && field(t.profile.address, html`<code>${plain(entry.address, 45)}</code>`)}
        ${entry.function_id && field(
          t.functions.one,
          html`<a class="link" href=${href(`/apps/${appId.value}/functions/${entry.function_id}`)}>
            ${called ? plain(called.name, 60) : html`<code>${entry.function_id}</code>`}
          </a>`,
        )}
        ${field(
          t.requestId,
          html`<span class="line">
            <code class="cut">${plain(entry.request_id, 80)}</code>
            <${Copy} text=${entry.request_id} />
          </span>`,
        )}
      </dl>
      <p class="line wrap panelactions">
        <${Button}
          kind="small" onClick=${() => change({ route: `${entry.method} ${entry.route}`, entry: null, offset: null })}
        >
          ${t.requests.onlyRoute}
        </${Button}>
        ${entry.actor_id && html`<${Button}
          kind="small" onClick=${() => change({ actor: entry.actor_id, entry: null, offset: null })}
        >
          ${t.requests.onlyActor}
        </${Button}>`}
      </p>
      <h3 class="panelhead">${t.requests.context}</h3>
      <${Context} id=${entry.request_id} />
    </div>
  </aside>`;
}

/** The steps of each period: which, how many, and how long one is. */
const PERIODS = /** @type {Record<string, [string, number, number]>} */ ({
  hour: ["minute", 60, 60_000],
  day: ["hour", 24, 3_600_000],
  month: ["day", 30, 86_400_000],
});

/** Load metrics of a period; the steps without requests are filled in. @param {string} period */
function useMetrics(period) {
  return useLoad(
    async (signal) => {
      const [step, number, length] = PERIODS[period];
      const now = Date.now();
      const from = new Date(now - (number - 1) * length).toISOString();
      const [whole, routes] = await Promise.all([
        onApp("/metrics", { query: { step, from }, signal }),
        onApp("/metrics", { query: { step, from, by: "route" }, signal }),
      ]);
      const known = new Map((whole.series[0]?.points || []).map((point) => [Date.parse(point.time), point]));
      const last = Math.floor(now / length) * length;
      const times = Array.from({ length: number }, (_, index) => last - (number - 1 - index) * length);
      return {
        total: whole.series[0]?.total,
        routes: routes.series,
        times: times.map((time) => new Date(time).toISOString()),
        points: times.map(
          (time) => known.get(time) || { requests: 0, client_errors: 0, errors: 0, p50_ms: null, p95_ms: null },
        ),
      };
    },
    [appId.value, period],
  );
}

export function Metrics() {
  const period = place.value.query.get("period") || "day";
  const [asTable, setAsTable] = useState(false);
  const { data, error, reload } = useMetrics(period in PERIODS ? period : "day");
  const format = new Intl.DateTimeFormat(
    locale,
    period === "month"
      ? { day: "numeric", month: "short", timeZone: "UTC" }
      : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  );
  const named = (/** @type {string} */ time) => format.format(new Date(time));
  const read = (/** @type {(point: any) => number} */ value) => (data?.points || []).map(value);
  const traffic = [
    {
      name: t.overview.answered,
      kind: "ok",
      values: read((point) => point.requests - point.client_errors - point.errors),
    },
    { name: t.overview.clientErrors, kind: "warn", values: read((point) => point.client_errors) },
    { name: t.overview.serverErrors, kind: "bad", values: read((point) => point.errors) },
  ];
  const lines = ["p95", "p50"].map((kind) => ({
    name: worded(t.requests, kind),
    kind,
    values: read((point) => point[`${kind}_ms`]),
  }));
  const share = (/** @type {any} */ total) =>
    total.requests
      ? `${(((total.client_errors + total.errors) / total.requests) * 100).toLocaleString(locale, { maximumFractionDigits: 1 })} %`
      : "–";
  const chart = !data
    ? html`<div class="chart empty-chart" aria-busy="true"></div>`
    : asTable
      ? html`<${Numbers} days=${data.times} series=${traffic} lines=${lines} named=${named} />`
      : html`<${Bars}
          days=${data.times} series=${traffic} lines=${lines} label=${t.overview.chartLabel} named=${named}
        />`;
  return html`<div class="scroll">
    <div class="page metrics">
      <div class="line">
        <dl class="facts grow">
          <div>
            <dt>${t.overview.requests}</dt>
            <dd class="big">${data ? compact(data.total?.requests || 0) : "–"}</dd>
          </div>
          <div><dt>${t.requests.failed}</dt><dd class="big">${data?.total ? share(data.total) : "–"}</dd></div>
          <div><dt>${t.requests.p50}</dt><dd class="big">${duration(data?.total?.p50_ms ?? null)}</dd></div>
          <div><dt>${t.requests.p95}</dt><dd class="big">${duration(data?.total?.p95_ms ?? null)}</dd></div>
        </dl>
      </div>
      <div class="line">
        <${Segments}
          label=${t.overview.period} value=${period}
          onChange=${(/** @type {string} */ value) => change({ period: value })}
          options=${[
            ["hour", t.requests.lastHour],
            ["day", t.requests.lastDay],
            ["month", t.overview.days(30)],
          ]}
        />
        <span class="grow"></span>
        <${Button}
          kind=${`flat small ${asTable ? "on" : ""}`} aria-pressed=${asTable ? "true" : "false"}
          onClick=${() => setAsTable(!asTable)}
        >
          ${t.overview.table}
        </${Button}>
        <${Button} kind="flat small" icon="retry" label=${t.reload} onClick=${reload} />
      </div>
      ${error
        ? html`<section class="slab"><${Failure} error=${error} retry=${reload} /></section>`
        : html`
            <section class="slab charts"><header><h2>${t.overview.traffic}</h2></header>${chart}</section>
            <section class="slab">
              <header><h2>${t.requests.routes}</h2></header>
              ${!data
                ? html`<${Bones} rows=${4} />`
                : !data.routes.length
                  ? html`<${Empty} title=${t.requests.noTraffic} text=${t.requests.noTrafficText} />`
                  : html`<table class="list">
                      <thead>
                        <tr>
                          <th>${t.requests.route}</th>
                          <th class="r">${t.overview.requests}</th>
                          <th class="r">${t.requests.failed}</th>
                          <th class="r">${t.requests.p50}</th>
                          <th class="r">${t.requests.p95}</th>
                        </tr>
                      </thead>
                      <tbody>
                        ${data.routes.map(
                          (one) => html`<tr key=${one.key}>
                            <td class="main">
                              <a
                                class="cover cut"
                                href=${href(
                                  `/apps/${appId.value}/activity/requests?route=${encodeURIComponent(one.key)}`,
                                )}
                              >
                                <code>${one.key}</code>
                              </a>
                            </td>
                            <td class="r">${count(one.total.requests)}</td>
                            <td class="r wide">${share(one.total)}</td>
                            <td class="r wide">${duration(one.total.p50_ms)}</td>
                            <td class="r">${duration(one.total.p95_ms)}</td>
                          </tr>`,
                        )}
                      </tbody>
                    </table>`}
            </section>
          `}
    </div>
  </div>`;
}
