/** An app at a glance: what to do first, what happens, and what stands open. */
import { html, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { denied, loadTables, may, onApp, app, appId, store, tables } from "../state/app.js";
import { go, href } from "../state/router.js";
import { Bars, Numbers, Spark } from "../ui/chart.js";
import { compact, count, duration, plain, size } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Button, Code, Empty, Failure, Pill, Segments, said, useLoad } from "../ui/widgets.js";
import { Quotas } from "./plan.js";
import { Snippet, sampleRow } from "../ui/snippets.js";

const DAYS = 30;

export const head = () => ({ title: t.sectionNames.overview });

/** @param {{config: Api.ConsoleConfig}} props */
export function Screen({ config }) {
  const stats = useLoad((signal) => onApp("/stats", { query: { days: DAYS }, signal }), [appId.value]);
  const keys = useLoad((signal) => onApp("/keys/public", { query: { limit: 1 }, signal }), [appId.value]);
  const usage = useLoad((signal) => onApp("/usage", { query: { days: DAYS }, signal }), [appId.value]);
  const [days, setDays] = useState(String(DAYS));
  const [asTable, setAsTable] = useState(false);
  const key = keys.data?.data[0]?.key;
  const looks = { days, setDays, asTable, setAsTable };
  // One failure stands for both, so reading again is for both.
  const readAgain = () => (stats.reload(), keys.error && keys.reload());
  return html`<div class="overview">
    ${stats.data && keys.data && usage.data && html`<${Steps}
      stats=${stats.data} usage=${usage.data} publicKey=${key} config=${config}
      reload=${() => (stats.reload(), loadTables())}
    />`}
    ${keys.error && !stats.error && html`<section class="slab across">
      <${Failure} error=${keys.error} retry=${keys.reload} />
    </section>`}
    <${Traffic}
      stats=${{ ...stats, reload: readAgain }} usage=${usage.data} publicKey=${key} base=${config.base_url} ...${looks}
    />
    <${Exposure} />
    <${Quotas} usage=${usage.data} />
    <${Work} usage=${usage} days=${Number(days)} />
    ${!stats.error && html`<${Totals} data=${stats.data} />`}
  </div>`;
}

/** @param {{stats: any, usage: Api.Usage, publicKey?: string, config: Api.ConsoleConfig, reload: () => void}} props */
function Steps({ stats, usage, publicKey, config, reload }) {
  const name = `pilotis.steps.${appId.value}`;
  const [dismissed, setDismissed] = useState(!!localStorage.getItem(name));
  const table = tables.value?.[0];
  const key = publicKey || "pk_…";
  const steps = [
    {
      key: "table",
      done: stats.tables > 0,
      request: {
        method: "POST",
        path: "/v1/public/tables",
        body: { title: "notes", schema: { text: "string" }, access_level: "Public" },
        key,
      },
    },
    {
      key: "row",
      done: stats.rows > 0,
      request: {
        method: "POST",
        path: `/v1/public/tables/${table?.id || "…"}/data`,
        body: { data: sampleRow(table?.schema || {}) },
        key,
      },
    },
    {
      key: "members",
      done: stats.members.total > 0,
      request: {
        method: "POST",
        path: "/v1/public/app-members/signup",
        body: { login_id: "otter_42", password: "correct horse battery", nickname: "Otter" },
        key,
      },
    },
    {
      key: "site",
      done: usage.sites > 0,
      text: t.steps.siteText,
      command: "pilotis deploy ./dist --storage …",
      action: html`<${Begin} icon="globe" to="/sites?new=1" text=${t.sites.create} />`,
    },
    {
      key: "fn",
      done: usage.functions > 0,
      text: t.steps.fnText,
      command: "pilotis functions init hello && pilotis functions deploy hello",
      action: html`<${Begin} icon="code" to="/functions?new=1" text=${t.functions.create} />`,
    },
    {
      key: "webhook",
      done: usage.webhooks > 0,
      text: t.steps.webhookText,
      command: `pilotis webhook listen --app ${appId.value} --port 3000 --path /hooks`,
      action: html`<${Begin} icon="bolt" to="/webhooks?new=1" text=${t.webhooks.create} />`,
    },
    {
      key: "lock",
      done: !!app.value?.schema_locked,
      text: t.steps.lockText,
      action: html`<${Button} icon="lock" href=${href(`/apps/${appId.value}/settings`)}>
        ${t.sectionNames.settings}
      </${Button}>`,
    },
  ];
  const first = steps.findIndex((step) => !step.done);
  const [chosen, setChosen] = useState(-1);
  if (dismissed || first < 0) return null;
  const open = chosen >= 0 ? chosen : first;
  const dismiss = () => {
    store(name, "1");
    setDismissed(true);
  };
  const close = html`<${Button} kind="flat small" icon="cross" label=${t.dismiss} onClick=${dismiss} />`;
  const { key: named, request, text, action, command } = steps[open];
  const words = (/** @type {string} */ step) => /** @type {any} */ (t.steps)[step];
  return html`<section class="slab steps" aria-label=${t.overview.steps}>
    <ol>
      ${steps.map(
        (step, index) => html`<li>
          <button
            type="button" class=${`${step.done ? "done" : ""} ${index === open ? "on upright" : ""}`}
            aria-pressed=${index === open ? "true" : "false"} onClick=${() => setChosen(index)}
          >
            ${step.done ? html`<${Icon} name="done" />` : html`<span class="step">${index + 1}</span>`}
            <span>
              <b>${words(step.key)[0]}</b>
              <small class=${step.done ? "sr" : ""}>${step.done ? t.done : words(step.key)[1]}</small>
            </span>
          </button>
        </li>`,
      )}
    </ol>
    ${request
      ? html`<${Snippet}
          key=${open} request=${request} base=${config.base_url} onRun=${reload} aside=${close}
          why=${(!publicKey && t.noPublicKey) || (request.path.includes("…") && t.tableFirst)}
        />`
      : html`<div class="how">
          <div class="bar"><span class="grow s13">${words(named)[0]}</span>${close}</div>
          <p class="s13 soft">${text}</p>
          <p>${action}</p>
          ${command && html`<p class="s13 soft">${t.steps.orCommand}</p><${Code} text=${command} />`}
        </div>`}
  </section>`;
}

/** The way to a form that makes the first of something. @param {{icon: string, to: string, text: string}} props */
const Begin = ({ icon, to, text }) => html`<${Button}
  icon=${icon} why=${denied("editor")} onClick=${() => go(`/apps/${appId.value}${to}`)}
>
  ${text}
</${Button}>`;

/** What an app does besides answering requests: the name of its counts, where it is shown, and its icon. */
const WORK = /** @type {[string, string, string][]} */ ([
  ["calls", "functions", "code"],
  ["executions", "workflows", "flow"],
  ["deliveries", "webhooks", "bolt"],
  ["deployments", "sites", "globe"],
]);

/** @param {{usage: any, days: number}} props */
function Work({ usage: { data, error, reload }, days }) {
  if (error) return html`<section class="slab work"><${Failure} error=${error} retry=${reload} /></section>`;
  const shown = (data?.by_day || []).slice(-days);
  return html`<section class="slab work" aria-label=${t.overview.work}>
    ${WORK.map(([name, section, icon]) => {
      const values = shown.map((/** @type {any} */ day) => day[name]);
      const failed = shown.map((/** @type {any} */ day) => day[`failed_${name}`]);
      const sum = (/** @type {number[]} */ all) => all.reduce((total, one) => total + one, 0);
      const text = /** @type {any} */ (t.overview)[name];
      return html`<div key=${name}>
        <h2>
          <a class="cover line" href=${href(`/apps/${appId.value}/${section}`)}>
            <${Icon} name=${icon} />
            <span class="cut">${text}</span>
          </a>
        </h2>
        <p class="big">
          ${data ? compact(sum(values)) : html`<span class="bone tall w2" />`}
          ${sum(failed) > 0 && html`
            ${" "}<small class="state bad"><${Icon} name="fail" />${t.overview.ofWhich(sum(failed))}</small>
          `}
        </p>
        ${!data
          ? html`<span class="spark"></span>`
          : sum(values)
            ? html`<${Spark} values=${values} failed=${failed} label=${t.overview.byDay(text)} />`
            : html`<p class="soft s12">${worded(t.overview.noWork, name)}</p>`}
      </div>`;
    })}
  </section>`;
}

/**
 * @param {{stats: any, usage: Api.Usage, publicKey?: string, base: string, days: string, setDays: (days: string) =>
 *   void,
 *   asTable: boolean, setAsTable: (on: boolean) => void}} props
 */
function Traffic({ stats, usage, publicKey, base, days, setDays, asTable, setAsTable }) {
  const metrics = useLoad(
    (signal) =>
      onApp("/metrics", {
        query: { step: "day", from: new Date(Date.now() - (Number(days) - 1) * 86_400_000).toISOString() },
        signal,
      }),
    [appId.value, days],
  );
  if (stats.error)
    return html`<section class="slab traffic"><${Failure} error=${stats.error} retry=${stats.reload} /></section>`;
  const all = stats.data?.traffic.by_day || [];
  if (stats.data && !all.some((/** @type {any} */ day) => day.requests))
    return html`<section class="slab traffic">
      <header><h2>${t.overview.traffic}</h2></header>
      <${Empty}
        title=${t.overview.noRequests} text=${t.overview.noRequestsText}
        command=${`curl ${base}/v1/public/tables \\\n  -H "X-Public-Key: ${publicKey || "pk_…"}"`}
      >
        <${Button} icon="retry" onClick=${stats.reload}>${t.overview.check}</${Button}>
      </${Empty}>
    </section>`;
  const shown = all.slice(-Number(days));
  const sum = (/** @type {string} */ name) =>
    shown.reduce((/** @type {number} */ total, /** @type {any} */ day) => total + day[name], 0);
  const requests = sum("requests");
  const percent = (/** @type {number} */ part) =>
    requests
      ? `${((part / requests) * 100).toLocaleString(undefined, { maximumFractionDigits: part / requests < 0.01 ? 2 : 1 })} %`
      : "–";
  const values = (/** @type {(day: any) => number} */ read) => shown.map(read);
  const series = [
    { name: t.overview.answered, kind: "ok", values: values((day) => day.requests - day.client_errors - day.errors) },
    { name: t.overview.clientErrors, kind: "warn", values: values((day) => day.client_errors) },
    { name: t.overview.serverErrors, kind: "bad", values: values((day) => day.errors) },
  ];
  const dates = shown.map((/** @type {any} */ day) => day.date);
  const timed = new Map(
    (metrics.data?.series[0]?.points || []).map((/** @type {any} */ point) => [point.time.slice(0, 10), point]),
  );
  const lines = ["p95", "p50"].map((kind) => ({
    name: worded(t.requests, kind),
    kind,
    values: dates.map((/** @type {string} */ date) => timed.get(date)?.[`${kind}_ms`] ?? null),
  }));
  const work = new Map((usage?.by_day || []).map((/** @type {any} */ day) => [day.date, day]));
  const numbers = [
    ...series,
    ...WORK.map(([name]) => ({
      name: worded(t.overview, name),
      kind: "ok",
      values: dates.map((/** @type {string} */ date) => work.get(date)?.[name] || 0),
    })),
  ];
  return html`<section class="slab traffic">
    <header>
      <h2>${t.overview.traffic}</h2>
      <span class="grow"></span>
      <${Button}
        kind=${`flat small ${asTable ? "on" : ""}`} aria-pressed=${asTable ? "true" : "false"}
        onClick=${() => setAsTable(!asTable)}
      >
        ${t.overview.table}
      </${Button}>
      <${Segments}
        label=${t.overview.period} value=${days} onChange=${setDays}
        options=${[
          ["7", t.overview.days(7)],
          ["30", t.overview.days(30)],
        ]}
      />
    </header>
    <dl class="facts">
      <div>
        <dt>${t.overview.requests}</dt>
        <dd class="big">${stats.data ? compact(requests) : html`<span class="bone tall w2" />`}</dd>
      </div>
      <div>
        <dt><span class="dot warn"></span>${t.overview.clientErrors}</dt>
        <dd class="big">
          ${stats.data ? percent(sum("client_errors")) : "–"}
          ${" "}<small>${stats.data && count(sum("client_errors"))}</small>
        </dd>
      </div>
      <div>
        <dt><span class="dot bad"></span>${t.overview.serverErrors}</dt>
        <dd class="big">
          ${stats.data ? percent(sum("errors")) : "–"} <small>${stats.data && count(sum("errors"))}</small>
        </dd>
      </div>
      <div>
        <dt>${t.requests.p95}</dt>
        <dd class="big">
          ${metrics.error
            ? html`
                <span class="state bad" title=${said(metrics.error)}><${Icon} name="fail" />${t.notRead}</span>
                ${" "}<${Button} kind="flat small" icon="retry" label=${t.again} onClick=${metrics.reload} />
              `
            : html`<a class="plainlink" href=${href(`/apps/${appId.value}/activity/metrics`)}>
                ${duration(metrics.data?.series[0]?.total.p95_ms ?? null)}
              </a>`}
        </dd>
      </div>
    </dl>
    ${!stats.data
      ? html`<div class="chart empty-chart" aria-busy="true"></div>`
      : asTable
        ? html`<${Numbers} days=${dates} series=${numbers} lines=${lines} />`
        : html`<${Bars} days=${dates} series=${series} lines=${lines} label=${t.overview.chartLabel} />`}
  </section>`;
}

const LOOKS = /** @type {Record<string, [string, string]>} */ ({
  high: ["bad", "open"],
  medium: ["warn", "warn"],
  low: ["idle", "info"],
});

/** Where the switch is that closes a door. @param {any} finding */
function remedy(finding) {
  const base = `/apps/${appId.value}`;
  return /** @type {Record<string, string>} */ ({
    SCHEMA: `${base}/settings`,
    KEY: `${base}/keys`,
    SIGN_UP: `${base}/settings/sign-in`,
    TABLE: `${base}/tables/${finding.subject}/settings`,
    STORAGE: `${base}/files/${finding.subject}?settings=1`,
    PAGES: `${base}/sites`,
  })[finding.code];
}

/** What a finding says, in the language of the page where it has the words. @param {any} finding */
function sentence(finding) {
  // The report says of a storage in one sentence who can do what.
  const [, storage, who, listed] =
    (finding.code === "STORAGE" && /^Storage (.*): (.+?) can (.+)\.$/s.exec(finding.message)) || [];
  const actions = Object.entries(t.exposure.storageActions)
    .filter(([action]) => listed?.includes(action))
    .map(([, text]) => text);
  if (actions.length) return t.exposure.storage(plain(storage, 60), actions, who.includes("member"));
  const table = tables.value?.find((one) => one.id === finding.subject);
  const say = /** @type {any} */ (t.exposure)[`${finding.code}_${finding.severity}`];
  if (!say || (finding.code === "TABLE" && !table)) return finding.message;
  return table ? say(plain(table.title, 60)) : say;
}

function Exposure() {
  const { data, error, reload } = useLoad((signal) => onApp("/exposure", { signal }), [appId.value]);
  const open = (data?.findings || []).filter((one) => one.severity !== "none");
  const closed = (data?.findings || []).length - open.length;
  const grave = open.filter((one) => one.severity === "high").length;
  return html`<section class="slab exposure">
    <header>
      <h2>${t.overview.exposure}</h2>
      ${grave > 0 && html`<${Pill} kind="bad" icon="warn">${t.overview.open(grave)}</${Pill}>`}
      <span class="grow"></span>
      <${Button} kind="flat small" icon="retry" onClick=${reload}>${t.overview.check}</${Button}>
    </header>
    <p class="lead">${t.overview.exposureLead}</p>
    ${error
      ? html`<${Failure} error=${error} retry=${reload} />`
      : html`<ul>
          ${open
            .slice(0, 6)
            .map(
              (one) => html`<li>
                <span class=${`state ${LOOKS[one.severity][0]}`}><${Icon} name=${LOOKS[one.severity][1]} /></span>
                <div>
                  <p>${sentence(one)}</p>
                  ${may("editor") && html`<a class="link" href=${href(remedy(one))}>
                    ${worded(t.remedies, one.code)}
                  </a>`}
                </div>
              </li>`,
            )}
        </ul>`}
    ${data && (closed > 0 || open.length > 6) && html`<p class="fine">
      <${Icon} name="done" />
      <span>${open.length > 6 ? t.overview.moreOpen(open.length - 6) : ""} ${t.overview.closed(closed)}</span>
    </p>`}
  </section>`;
}

/** @param {{data: any}} props */
function Totals({ data }) {
  const bone = html`<span class="bone tall w2" />`;
  return html`<section class="slab tiles">
    <dl>
      <dt>${t.stats.rows}</dt>
      <dd class="big">${data ? count(data.rows) : bone} <small>${data && t.stats.inTables(data.tables)}</small></dd>
    </dl>
    <dl>
      <dt>${t.stats.members}</dt>
      <dd class="big">
        ${data ? count(data.members.total) : bone}
        ${" "}<small>${data && t.stats.activeWeek(data.members.active_7d, data.members.guests)}</small>
      </dd>
    </dl>
    <dl>
      <dt>${t.stats.storage}</dt>
      <dd class="big">${data ? size(data.storage_bytes) : bone} <small>${t.stats.tablesAndFiles}</small></dd>
    </dl>
  </section>`;
}
