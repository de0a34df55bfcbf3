/** What an app has used of its plan: a bar for each quota, and the limits that the plan sets. */
import { html } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { app, appId, onApp } from "../state/app.js";
import { href } from "../state/router.js";
import { count, date, plain, size } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Bones, Empty, Failure, useLoad } from "../ui/widgets.js";
import { shownLimit, wordsOf } from "./limits.js";

/** The share of a quota in percent from which on its owners are told. */
const NEAR = 80;
/** Quotas of what is stored now; the others are of a month. */
const STORED = new Set(["row_bytes", "file_bytes"]);

/** @param {Api.QuotaUse} use @param {number} value */
const amount = (use, value) =>
  use.quota.endsWith("_bytes")
    ? size(value)
    : use.quota === "function_seconds"
      ? t.plan.seconds(count(value))
      : count(value);

/** How a quota looks: nothing special, near its end, or used up. @param {Api.QuotaUse} use */
const look = (use) => (use.used >= use.limit ? (use.hard ? "bad" : "warn") : use.percent >= NEAR ? "warn" : "");

/** What happens past a quota, and when it begins again. @param {Api.QuotaUse} use */
function consequence(use) {
  const stored = STORED.has(use.quota);
  if (use.used < use.limit) return use.hard ? t.plan.hard : t.plan.soft;
  if (!use.hard) return t.plan.softPast;
  return stored ? t.plan.storedPast : t.plan.hardPast(date(use.resets_at));
}

/** A quota of a plan as a bar. @param {{use: Api.QuotaUse, brief?: boolean}} props */
export function Quota({ use, brief }) {
  const kind = look(use);
  const share = Math.min(100, use.limit ? (use.used / use.limit) * 100 : 100);
  const sentences = [
    use.limit ? t.plan.used(count(Math.round(use.percent))) : "",
    !brief || use.used >= use.limit ? consequence(use) : "",
    !brief && use.used < use.limit && !STORED.has(use.quota) ? t.plan.resets(date(use.resets_at)) : "",
  ].filter(Boolean);
  const name = worded(t.plan.quotas, use.quota) || use.quota;
  return html`<li class="quota">
    <div class="line wrap">
      <b class="grow">${name}</b>
      <span class="num s13">
        ${amount(use, use.used)} <span class="soft">${t.plan.of(amount(use, use.limit))}</span>
      </span>
    </div>
    <div
      class=${`meter ${kind}`} role="meter" aria-label=${name} aria-valuemin="0" aria-valuemax="100"
      aria-valuenow=${Math.round(share)} aria-valuetext=${sentences[0]}
    >
      <span ref=${(/** @type {HTMLElement | null} */ bar) => bar && (bar.style.width = `${share}%`)}></span>
    </div>
    <p class=${`s12 ${kind ? `state ${kind}` : "soft"}`}>
      ${kind && html`<${Icon} name=${kind === "bad" ? "fail" : "warn"} />`}
      <span>${sentences.join(" ")}</span>
    </p>
  </li>`;
}

/** The quotas of an app's plan on its overview; nothing without any. @param {{usage: Api.Usage | undefined}} props */
export function Quotas({ usage }) {
  if (!usage?.quotas.length) return null;
  return html`<section class="slab across" aria-labelledby="quotas">
    <header>
      <h2 id="quotas">${t.plan.title}</h2>
      <span class="pill">${plain(usage.plan, 40)}</span>
      <span class="grow"></span>
      <a class="link s13" href=${href(`/apps/${appId.value}/settings/plan`)}>${t.plan.more}</a>
    </header>
    <ul class="quotas many">
      ${usage.quotas.map((/** @type {Api.QuotaUse} */ use) => html`<${Quota} key=${use.quota} use=${use} brief />`)}
    </ul>
  </section>`;
}

export function Plan() {
  const { data, error, reload } = useLoad(
    async (signal) => {
      const [usage, limits] = await Promise.all([
        onApp("/usage", { query: { days: 1 }, signal }),
        onApp("/limits", { signal }),
      ]);
      return { usage, limits: limits.limits };
    },
    [appId.value],
  );
  if (error) return html`<section class="slab"><${Failure} error=${error} retry=${reload} /></section>`;
  if (!data) return html`<section class="slab"><${Bones} rows=${6} columns=${2} /></section>`;
  const { usage, limits } = data;
  if (!usage.plan)
    return html`<section class="slab">
      <${Empty}
        title=${t.plan.none} text=${t.plan.noneText} command=${`pilotis app plan ${appId.value} ${t.plan.example}`}
      />
    </section>`;
  const planned = Object.entries(limits).filter(([, limit]) => limit.plan_value !== null);
  return html`
    <section class="slab">
      <header><h2>${t.plan.quotasTitle}</h2><span class="pill">${plain(usage.plan, 40)}</span></header>
      <p class="lead">
        ${usage.quotas.length ? t.plan.lead : t.plan.noQuotas}
        ${app.value?.parent_app_id && ` ${t.plan.branch}`}
      </p>
      ${usage.quotas.length > 0 && html`<ul class="quotas">
        ${usage.quotas.map((/** @type {Api.QuotaUse} */ use) => html`<${Quota} key=${use.quota} use=${use} />`)}
      </ul>`}
    </section>
    ${planned.length > 0 && html`<section class="slab">
      <header>
        <h2 class="grow">${t.plan.limits}</h2>
        <a class="link s13" href=${href(`/apps/${appId.value}/settings/limits`)}>${t.plan.allLimits}</a>
      </header>
      <table class="list limits ofplan">
        <thead>
          <tr><th>${t.settings.limit}</th><th class="r">${t.plan.plan}</th><th class="r">${t.settings.value}</th></tr>
        </thead>
        <tbody>
          ${planned.map(
            ([name, limit]) => html`<tr key=${name}>
              <td><span class="whole">${wordsOf(name)}</span> <code class="soft s12">${name}</code></td>
              <td class="r soft wide">${shownLimit(limit, limit.plan_value ?? 0)}</td>
              <td class="r main">${shownLimit(limit, limit.value)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </section>`}
  `;
}
