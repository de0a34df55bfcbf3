/** An app's webhooks with their health, and the background jobs that failed permanently. */
import { html, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, onApp, tables } from "../state/app.js";
import { change, go, href, place } from "../state/router.js";
import { Events } from "./events.js";
import { useEventTypes, withPatterns } from "../ui/event-types.js";
import { Spark } from "../ui/chart.js";
import { ago, count, plain } from "../ui/format.js";
import { ListPager, listing } from "../ui/listing.js";
import {
  Button,
  Confirm,
  Empty,
  FormDialog,
  Pill,
  SecretDialog,
  State,
  Tabs,
  TextField,
  complain,
  toast,
  useLoad,
} from "../ui/widgets.js";

export const head = () => ({ title: t.sectionNames.webhooks });

const PAGE = 50;
const HOURS = 24;
const HOUR_MILLISECONDS = 3_600_000;
const why = () => denied("editor");
const TABS = /** @type {[string, () => unknown][]} */ ([
  ["", () => html`<${Webhooks} />`],
  ["events", () => html`<${Events} />`],
  ["jobs", () => html`<${Jobs} />`],
]);

export function Screen() {
  const current = place.value.path.split("/")[4] || "";
  const base = `/apps/${appId.value}/webhooks`;
  const tab = TABS.find(([name]) => name === current) || TABS[0];
  return html`<div class="data">
    <div class="strip tabstrip">
      <${Tabs}
        label=${t.sectionNames.webhooks}
        items=${TABS.map(([name]) => ({
          href: href(name ? `${base}/${name}` : base),
          text: worded(t.webhooks.tabs, name || "webhooks"),
          on: tab[0] === name,
        }))}
      />
    </div>
    ${tab[1]()}
  </div>`;
}

const LOOKS = /** @type {Record<string, string[]>} */ ({
  active: ["ok", "done"],
  arming: ["idle", "clock"],
  failing: ["warn", "warn"],
  disabled: ["bad", "fail"],
});

/** The state of a webhook as an icon and a word. @param {{webhook: any}} props */
export const WebhookState = ({ webhook }) => html`<${State}
  look=${LOOKS[webhook.status]} title=${worded(t.webhooks.reasons, webhook.disabled_reason) || undefined}
>
  ${worded(t.webhooks.states, webhook.status)}
</${State}>`;

function Webhooks() {
  const creating = place.value.query.has("new");
  const { data, error, reload } = useLoad(
    (signal) => onApp("/webhooks", { query: { limit: 100 }, signal }),
    [appId.value],
  );
  const { data: stats } = useLoad(
    (signal) => onApp("/webhook-stats", { query: { hours: HOURS }, signal }),
    [appId.value],
  );
  const ended = (/** @type {string} */ id) => stats?.data.find((one) => one.webhook_id === id)?.hours || [];
  const create = html`<${Button} kind="go" icon="plus" why=${why()} onClick=${() => change({ new: "1" })}>
    ${t.webhooks.create}
  </${Button}>`;
  return html`
    <div class="strip">
      <span class="soft s13">${data && t.webhooks.count(data.total_count)}</span>
      <span class="grow"></span>
      ${data?.data.length ? create : null}
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.data,
        bones: { rows: 4, columns: 5 },
        empty: html`<${Empty}
          title=${t.webhooks.none} text=${t.webhooks.noneText}
          command=${`pilotis webhook listen --app ${appId.value} --port 3000 --path /hooks`}
        >
          ${create}
        </${Empty}>`,
        columns: html`
          <th>${t.webhooks.target}</th>
          <th>${t.webhooks.state}</th>
          <th>${t.webhooks.events}</th>
          <th>${t.webhooks.day}</th>
          <th class="r">${t.webhooks.pending}</th>
        `,
        row: (one) => html`<tr key=${one.id}>
          <td class="main">
            <a class="cover" href=${href(`/apps/${appId.value}/webhooks/${one.id}`)}>
              <span class="cut">${plain(one.name || one.url, 80)}</span>
              ${one.name && html`<small class="soft s12 cut wide">${plain(one.url, 80)}</small>`}
            </a>
          </td>
          <td><${WebhookState} webhook=${one} /></td>
          <td class="wide"><${Types} names=${one.event_types} /></td>
          <td class="health" data-label=${t.webhooks.day}><${Health} hours=${stats && ended(one.id)} /></td>
          <td class="r wide" data-label=${t.webhooks.pending}>${count(one.pending_count)}</td>
        </tr>`,
      })}
    </div>
    ${creating && html`<${WebhookDialog} onClose=${() => (change({ new: null }, { replace: true }), reload())} />`}
  `;
}

/** @param {{names: string[]}} props */
export const Types = ({ names }) => html`<span class="line wrap">
  ${names.slice(0, 3).map((name) => html`<code>${plain(name, 40)}</code>`)}
  ${names.length > 3 && html`<span class="soft s12">${t.more} (${names.length - 3})</span>`}
</span>`;

/** How the deliveries of a day ended, hour by hour. @param {{hours: Api.HourStats[] | undefined}} props */
function Health({ hours }) {
  if (!hours) return html`<span class="bone w3"></span>`;
  const now = Math.floor(Date.now() / HOUR_MILLISECONDS);
  const ended = Array.from({ length: HOURS }, () => ({ succeeded: 0, failed: 0 }));
  for (const hour of hours) {
    const place = HOURS - 1 - (now - Date.parse(hour.hour) / HOUR_MILLISECONDS);
    if (ended[place]) ended[place] = hour;
  }
  const sum = (/** @type {"succeeded" | "failed"} */ name) => ended.reduce((total, hour) => total + hour[name], 0);
  const [succeeded, failed] = [sum("succeeded"), sum("failed")];
  return html`<div class="line">
    <span class="wide">
      <${Spark}
        values=${ended.map((hour) => hour.succeeded + hour.failed)} failed=${ended.map((hour) => hour.failed)}
        label=${t.webhooks.byHour(succeeded, failed)}
      />
    </span>
    ${succeeded || failed
      ? html`
          <span class="num">${count(succeeded)}</span>
          ${failed > 0 && html`<${Pill} kind="bad" icon="fail">${count(failed)}</${Pill}>`}
        `
      : html`<span class="soft">${t.none}</span>`}
  </div>`;
}

/** Create or change a webhook. @param {{known?: any, onClose: () => void}} props */
export function WebhookDialog({ known, onClose }) {
  const [url, setUrl] = useState(known?.url || "https://");
  const [name, setName] = useState(known?.name || "");
  const [types, setTypes] = useState(/** @type {string[]} */ (known?.event_types || ["row.*"]));
  const [only, setOnly] = useState(/** @type {string[]} */ (known?.table_ids || []));
  const [made, setMade] = useState(/** @type {any} */ (null));
  const declared = useEventTypes();
  const save = async () => {
    const body = { url, name, event_types: types, table_ids: only.length ? only : null };
    if (!known) return setMade(await onApp("/webhooks", { method: "POST", body }));
    await onApp(`/webhooks/${known.id}`, { method: "PUT", body });
    onClose();
  };
  if (made)
    return html`<${SecretDialog}
      key="made" title=${t.webhooks.made} text=${t.webhooks.secretOnce} value=${made.secret}
      onClose=${() => (onClose(), go(`/apps/${appId.value}/webhooks/${made.id}`))}
    />`;
  const single = types.filter((type) => !type.endsWith("*"));
  const offered = [...new Set(["*", ...withPatterns([...declared, ...single]), ...types])];
  const toggle = (/** @type {string[]} */ list, /** @type {string} */ one, /** @type {boolean} */ on) =>
    on ? [...list, one] : list.filter((other) => other !== one);
  return html`<${FormDialog}
    class="broad" title=${known ? t.webhooks.edit : t.webhooks.create} onClose=${onClose} submit=${save}
    action=${known ? t.save : t.webhooks.create} why=${why() || (!types.length && t.webhooks.typeFirst)}
    about=${(/** @type {any} */ error) => error.about?.("url")}
  >
    <${TextField}
      label=${t.webhooks.url} type="url" value=${url} onInput=${setUrl} required maxlength="2048" data-first
      help=${t.webhooks.urlHelp}
    />
    <${TextField} label=${t.name} value=${name} onInput=${setName} maxlength="100" autocomplete="off" optional />
    <${Ticks}
      label=${t.webhooks.events} options=${offered.map((type) => [type, html`<code>${plain(type, 60)}</code>`])}
      on=${(/** @type {string} */ type) => types.includes(type)}
      onChange=${(/** @type {string} */ type, /** @type {boolean} */ on) => setTypes(toggle(types, type, on))}
    />
    ${(tables.value?.length || 0) > 0 && html`<${Ticks}
      label=${t.webhooks.onlyTables} help=${t.webhooks.onlyTablesHelp}
      options=${(tables.value || []).map((table) => [table.id, plain(table.title, 60)])}
      on=${(/** @type {string} */ id) => only.includes(id)}
      onChange=${(/** @type {string} */ id, /** @type {boolean} */ on) => setOnly(toggle(only, id, on))}
    />`}
  </${FormDialog}>`;
}

/**
 * Several of many.
 * @param {{label: string, help?: string, options: any[], on: (value: string) => boolean, onChange: (value: string, on:
 *   boolean) => void}} props
 */
const Ticks = ({ label, help, options, on, onChange }) => html`<fieldset class="field plain">
  <legend class="label">${label}</legend>
  <div class="ticks">
    ${options.map(
      ([value, text]) => html`<label class="check" key=${value}>
        <input
          type="checkbox" checked=${on(value)}
          onChange=${(/** @type {Typed} */ event) => onChange(value, event.target.checked)}
        />
        <span class="cut">${text}</span>
      </label>`,
    )}
  </div>
  ${help && html`<p class="help">${help}</p>`}
</fieldset>`;

function Jobs() {
  const offset = Number(place.value.query.get("offset")) || 0;
  const [gone, setGone] = useState(/** @type {any} */ (null));
  const { data, error, reload } = useLoad(
    (signal) => onApp("/dead-jobs", { query: { limit: PAGE, offset }, signal }),
    [appId.value, offset],
  );
  const retry = (/** @type {string} */ path, /** @type {any} */ body) =>
    onApp(`/dead-jobs${path}`, { method: "POST", body }).then(() => (toast(t.jobs.retried), reload()), complain);
  return html`
    <div class="strip">
      <span class="soft s13">${data && t.jobs.count(data.total_count)}</span>
      <span class="grow"></span>
      ${data && data.data.length > 0 && html`<${Button}
        kind="small" icon="retry" why=${why()} onClick=${() => retry("/retry", {})}
      >
        ${t.jobs.retryAll}
      </${Button}>`}
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.data,
        bones: { rows: 6, columns: 4 },
        empty: html`<${Empty} title=${t.jobs.none} text=${t.jobs.noneText} />`,
        look: "list jobs",
        columns: html`
          <th>${t.jobs.kind}</th>
          <th>${t.jobs.reason}</th>
          <th class="r">${t.jobs.attempts}</th>
          <th>${t.jobs.ended}</th>
          <th></th>
        `,
        row: (job) => html`<tr key=${job.job_id}>
          <td class="main">
            <code>${plain(job.kind, 60)}</code>
            ${job.subject && html`<div class="s12 soft cut wide">${plain(job.subject, 60)}</div>`}
          </td>
          <td>
            ${job.error
              ? html`
                  <span class="failed">${plain(job.error.message, 200)}</span>
                  ${" "}<code class="soft s12">${plain(job.error.code, 40)}</code>
                `
              : ""}
          </td>
          <td class="r wide">${count(job.attempts)}</td>
          <td class="soft wide">${ago(job.ended_at)}</td>
          <td class="fit">
            <${Button} kind="small" icon="retry" why=${why()} onClick=${() => retry(`/${job.job_id}/retry`, {})}>
              ${t.again}
            </${Button}>
            ${" "}<${Button}
              kind="flat small bad" icon="trash" label=${t.jobs.delete} why=${why()} onClick=${() => setGone(job)}
            />
          </td>
        </tr>`,
      })}
    </div>
    <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
    ${gone && html`<${Confirm}
      title=${t.jobs.delete} text=${t.jobs.deleteText} action=${t.jobs.delete} onClose=${() => setGone(null)}
      run=${async () => (await onApp(`/dead-jobs/${gone.job_id}`, { method: "DELETE" }), reload())}
    />`}
  `;
}
