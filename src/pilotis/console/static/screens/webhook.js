/** One webhook: its deliveries, and one of them with its attempts and what was sent and answered. */
import { html, useEffect, useMemo, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, may, onApp, opened } from "../state/app.js";
import { change, go, href, place } from "../state/router.js";
import { ago, count, moment, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { useEventTypes } from "../ui/event-types.js";
import {
  Bones,
  Button,
  Code,
  Confirm,
  Empty,
  Failure,
  FormDialog,
  Pill,
  RotateDialog,
  SelectField,
  State,
  complain,
  toast,
  useLoad,
  useTitle,
} from "../ui/widgets.js";
import { TraceLink } from "./context.js";
import { Types, WebhookDialog, WebhookState } from "./webhooks.js";

export const head = () => ({
  title: plain(opened.value, 60) || t.webhooks.one,
  crumbs: [{ text: t.sectionNames.webhooks, href: href(`/apps/${appId.value}/webhooks`) }],
});

const PAGE = 50;
const DAYS = 30;
/** Milliseconds from an attempt that is due to a look at what became of it, and between two looks at most. */
const LOOK_LEAST = 1500;
const LOOK_MOST = 60_000;
const STATUSES = ["pending", "succeeded", "failed", "cancelled"];
const LOOKS = /** @type {Record<string, string[]>} */ ({
  pending: ["info", "clock"],
  succeeded: ["ok", "done"],
  failed: ["bad", "fail"],
  cancelled: ["idle", "cross"],
});
const why = () => denied("editor");

/** @param {{webhook: string}} props */
export function Screen({ webhook: id }) {
  const path = /** @type {const} */ (`/webhooks/${encodeURIComponent(id)}`);
  const query = place.value.query;
  const filters = { status: query.get("status") || "", event_type: query.get("type") || "" };
  const chosen = query.get("delivery") || "";
  const [dialog, setDialog] = useState("");
  const [before, setBefore] = useState("");
  const { data, error, reload, set } = useLoad((signal) => onApp(path, { signal }), [appId.value, path]);
  const log = useLoad(
    (signal) => onApp(`${path}/logs`, { query: { ...filters, limit: PAGE, before }, signal }),
    [appId.value, path, filters, before],
  );
  const older = log.data?.next_before;
  const again = () => (reload(), log.reload());
  useTitle(data && (data.name || data.url));
  usePending(log.data?.data, again);
  if (error) return html`<div class="page"><div class="slab"><${Failure} error=${error} retry=${reload} /></div></div>`;
  const close = () => (setDialog(""), again());
  // The answer has no statistics: those shown stay until they are read again.
  const activate = (/** @type {boolean} */ active) =>
    onApp(path, { method: "PUT", body: { is_active: active } }).then(
      (changed) => (data && set({ ...data, ...changed }), again()),
      complain,
    );
  return html`<div class="data">
    <div class="strip about">
      ${data && html`<code class="soft cut">${plain(data.url, 120)}</code>`}
      ${data && html`<${WebhookState} webhook=${data} />`}
      <span class="grow"></span>
      ${data && html`<input
        type="checkbox" class="switch" aria-label=${t.webhooks.on} title=${why() || t.webhooks.on}
        checked=${data.is_active} disabled=${!may("editor")}
        onChange=${(/** @type {Typed} */ event) => activate(event.target.checked)}
      />`}
      <${Button} kind="small" icon="bolt" why=${why()} onClick=${() => setDialog("test")}>${t.webhooks.test}</${Button}>
      <${Button}
        kind="flat small" icon="edit" label=${t.webhooks.edit} why=${why() || !data} onClick=${() => setDialog("edit")}
      />
      <${Button}
        kind="flat small" icon="key" label=${t.webhooks.rotate} why=${why()} onClick=${() => setDialog("rotate")}
      />
      <${Button}
        kind="flat small bad" icon="trash" label=${t.webhooks.delete} why=${why()} onClick=${() => setDialog("delete")}
      />
    </div>
    ${data?.disabled_reason && html`<p class="notice bad">
      <${Icon} name="fail" />
      <span>${reason(data.disabled_reason)}</span>
    </p>`}
    ${data && html`<div class="strip numbersline">
      <dl>
        <div><dt>${t.webhooks.succeededDay}</dt><dd>${count(data.stats.succeeded_24h)}</dd></div>
        <div><dt>${t.webhooks.failedDay}</dt><dd>${count(data.stats.failed_24h)}</dd></div>
        <div><dt>${t.webhooks.pending}</dt><dd>${count(data.stats.pending)}</dd></div>
        <div class="wide">
          <dt>${t.webhooks.typical}</dt>
          <dd>${data.stats.p50_ms === null ? t.none : `${count(data.stats.p50_ms)} ms`}</dd>
        </div>
        <div class="wide"><dt>${t.webhooks.events}</dt><dd><${Types} names=${data.event_types} /></dd></div>
      </dl>
      <span class="grow"></span>
      ${data.stats.failed_count > 0 && html`<${Button}
        kind="small" icon="retry" why=${why()} onClick=${() => setDialog("recover")}
      >
        ${t.webhooks.recover(data.stats.failed_count)}
      </${Button}>`}
    </div>`}
    <div class="strip filters" role="toolbar" aria-label=${t.filters}>
      <select
        class="in small" aria-label=${t.webhooks.state} value=${filters.status}
        onChange=${(/** @type {Typed} */ event) => (setBefore(""), change({ status: event.target.value }))}
      >
        <option value="">${t.webhooks.anyState}</option>
        ${STATUSES.map(
          (status) => html`<option value=${status} selected=${status === filters.status}>
            ${worded(t.webhooks.outcomes, status)}
          </option>`,
        )}
      </select>
      <span class="grow"></span>
      <${Button} kind="flat small" icon="retry" label=${t.reload} onClick=${again} />
    </div>
    <div class=${`split deliveries ${chosen ? "opened" : ""}`}>
      <div class="listbox">
        <div class="scroll">
          ${log.error
            ? html`<${Failure} error=${log.error} retry=${log.reload} />`
            : !log.data
              ? html`<${Bones} rows=${8} columns=${4} />`
              : !log.data.data.length
                ? html`<${Empty} title=${t.webhooks.noDeliveries} text=${t.webhooks.noDeliveriesText} />`
                : html`
                    <table class="list">
                      <thead>
                        <tr>
                          <th>${t.activity.when}</th>
                          <th>${t.webhooks.type}</th>
                          <th>${t.webhooks.state}</th>
                          <th class="r">${t.webhooks.attempts}</th>
                        </tr>
                      </thead>
                      <tbody>
                        ${log.data.data.map(
                          (one) => html`<tr key=${one.id} class=${one.id === chosen ? "on" : ""}>
                            <td class=${`soft num fit ${one.id === chosen ? "upright" : ""}`} title=${one.created_at}>
                              <button
                                type="button" class="coverbutton" aria-pressed=${one.id === chosen ? "true" : "false"}
                                onClick=${() => change({ delivery: one.id === chosen ? null : one.id })}
                              >
                                ${moment(one.created_at)}
                              </button>
                            </td>
                            <td class="main">
                              <code>${plain(one.event_type, 60)}</code>
                              ${" "}${one.is_test && html`<${Pill}>${t.webhooks.testPill}</${Pill}>`}
                            </td>
                            <td><${Outcome} delivery=${one} /></td>
                            <td class="r wide">${count(one.attempt_count)}</td>
                          </tr>`,
                        )}
                      </tbody>
                    </table>
                    <p class="pad line">
                      ${before && html`<${Button} kind="small" icon="up" onClick=${() => setBefore("")}>
                        ${t.webhooks.newest}
                      </${Button}>`}
                      ${older && html`<${Button} kind="small" icon="down" onClick=${() => setBefore(older)}>
                        ${t.webhooks.older}
                      </${Button}>`}
                    </p>
                  `}
        </div>
      </div>
      ${chosen && html`<${Delivery}
        key=${chosen} path=${`${path}/logs/${encodeURIComponent(chosen)}`} changed=${again}
      />`}
    </div>
    ${dialog === "edit" && html`<${WebhookDialog} known=${data} onClose=${close} />`}
    ${dialog === "test" && html`<${Test} path=${path} onClose=${close} />`}
    ${dialog === "rotate" && html`<${RotateDialog}
      title=${t.webhooks.rotate} overlap=${t.webhooks.overlap} help=${t.webhooks.overlapHelp}
      once=${t.webhooks.secretOnce} onClose=${close}
      rotate=${async (/** @type {number} */ seconds) =>
        (await onApp(`${path}/regenerate-secret`, { method: "POST", body: { overlap_seconds: seconds } })).secret}
    />`}
    ${data && dialog === "recover" && html`<${Confirm}
      title=${t.webhooks.recover(data.stats.failed_count)} text=${t.webhooks.recoverText}
      action=${t.webhooks.recoverAction} onClose=${() => setDialog("")}
      run=${async () => {
        const made = await onApp(`${path}/recover`, {
          method: "POST",
          body: { since: new Date(Date.now() - DAYS * 86400000).toISOString() },
        });
        toast(t.webhooks.recovered(made.queued));
        again();
      }}
    />`}
    ${dialog === "delete" && html`<${Confirm}
      title=${t.webhooks.deleteTitle(plain(data?.name || data?.url || "", 60))} text=${t.webhooks.deleteText}
      action=${t.webhooks.delete} onClose=${() => setDialog("")}
      run=${async () => (await onApp(path, { method: "DELETE" }), go(`/apps/${appId.value}/webhooks`))}
    />`}
  </div>`;
}

/**
 * Look again soon after the next attempt is due, while a delivery is pending.
 * @param {any[] | undefined} deliveries
 * @param {() => void} again
 */
function usePending(deliveries, again) {
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const due = (deliveries || [])
      .filter((one) => one.status === "pending")
      .map((one) => Date.parse(one.next_attempt_at) || 0);
    if (!due.length) return;
    const wait = Math.min(LOOK_MOST, Math.max(LOOK_LEAST, Math.min(...due) - Date.now() + LOOK_LEAST));
    const timer = setTimeout(() => (document.visibilityState === "visible" ? again() : setTurn(turn + 1)), wait);
    return () => clearTimeout(timer);
  }, [deliveries, turn]);
}

/** Why a delivery failed, or the webhook was disabled, in words. @param {string | null} code */
const reason = (code) => worded(t.webhooks.reasons, code || "") || plain(code || "", 300);

/** How a delivery ended, or stands. @param {{delivery: any}} props */
function Outcome({ delivery }) {
  const more =
    delivery.status_code ||
    (delivery.status === "pending" && delivery.next_attempt_at ? ago(delivery.next_attempt_at) : "");
  return html`<${State} look=${LOOKS[delivery.status]}>
    ${worded(t.webhooks.outcomes, delivery.status)}
    ${more && html` <span class="soft num">${more}</span>`}
  </${State}>`;
}

/** @param {{path: `${WebhookPath}/logs/${string}`, changed: () => void}} props */
function Delivery({ path, changed }) {
  const { data, error, reload } = useLoad((signal) => onApp(path, { signal }), [path]);
  usePending(
    useMemo(() => data && [data], [data]),
    reload,
  );
  const redeliver = () =>
    onApp(`${path}/redeliver`, { method: "POST" }).then(
      () => (toast(t.webhooks.redelivered), reload(), changed()),
      complain,
    );
  return html`<aside class="panel" aria-label=${t.webhooks.delivery}>
    <header>
      <b class="cut grow">${data ? html`<code>${plain(data.event_type, 60)}</code>` : ""}</b>
      <${Button} kind="flat small" icon="cross" label=${t.close} onClick=${() => change({ delivery: null })} />
    </header>
    ${error
      ? html`<${Failure} error=${error} retry=${reload} />`
      : !data
        ? html`<${Bones} rows=${6} columns=${2} />`
        : html`
            ${data.error && html`<p class="notice bad"><${Icon} name="fail" /><span>${reason(data.error)}</span></p>`}
            <div class="sides">
              <div>
                ${[...data.attempts]
                  .reverse()
                  .map(
                    (one) => html`<section class="wellbox" key=${one.number}>
                      <h3>${t.webhooks.attempt(one.number)} · ${moment(one.at)}</h3>
                      <p class="line s13">
                        <${State} look=${LOOKS[
                          one.status_code !== null && one.status_code >= 200 && one.status_code < 300
                            ? "succeeded"
                            : "failed"
                        ]}>
                          ${one.status_code || reason(one.error)}
                        </${State}>
                        <span class="soft num">${count(one.duration_ms)} ms</span>
                      </p>
                      ${one.response_headers && html`<details>
                        <summary class="s12 soft">${t.webhooks.answerHeaders}</summary>
                        <${Code} text=${lines(one.response_headers)} label=${t.webhooks.answerHeaders} />
                      </details>`}
                      ${one.response_excerpt && html`<${Code}
                        text=${one.response_excerpt.slice(0, 4000)} label=${t.webhooks.answer}
                      />`}
                    </section>`,
                  )}
              </div>
              <section class="wellbox">
                <h3>${t.webhooks.sent}</h3>
                <${Code} text=${lines(data.request.headers)} label=${t.webhooks.headers} />
                ${data.request.body === null
                  ? html`<p class="soft s13">${t.webhooks.expired}</p>`
                  : html`<${Code} text=${pretty(data.request.body)} label=${t.webhooks.body} />`}
              </section>
            </div>
            <footer>
              <${TraceLink} id=${data.request_id} />
              <span class="grow"></span>
              <${Button}
                kind="small" icon="retry"
                why=${
                  why() || (data.is_test && t.webhooks.testOnce) || (data.request.body === null && t.webhooks.expired)
                }
                onClick=${redeliver}
              >
                ${t.webhooks.redeliver}
              </${Button}>
            </footer>
          `}
  </aside>`;
}

/** @param {Record<string, unknown>} headers */
const lines = (headers) =>
  Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}`)
    .join("\n");

/** @param {string} body */
function pretty(body) {
  try {
    return JSON.stringify(JSON.parse(body), null, 2).slice(0, 20000);
  } catch {
    return body.slice(0, 20000);
  }
}

/** @param {{path: WebhookPath, onClose: () => void}} props */
function Test({ path, onClose }) {
  const [type, setType] = useState("webhook.test");
  const [result, setResult] = useState(/** @type {any} */ (null));
  const types = useEventTypes();
  const names = ["webhook.test", ...types.filter((name) => name !== "webhook.test")];
  const send = async () => setResult(await onApp(`${path}/test`, { method: "POST", body: { event_type: type } }));
  return html`<${FormDialog} title=${t.webhooks.test} onClose=${onClose} submit=${send} action=${t.webhooks.send}>
    <${SelectField}
      label=${t.webhooks.type} value=${type} onInput=${setType} options=${names.map((name) => [name, name])}
      help=${t.webhooks.testHelp}
    />
    ${result && html`<p class=${`notice ${result.success ? "" : "bad"}`} role="status">
      <${Icon} name=${result.success ? "done" : "fail"} />
      <span>
        ${result.status_code ? t.webhooks.answered(result.status_code, result.duration_ms) : reason(result.error)}
      </span>
    </p>`}
    ${result?.response_excerpt && html`<${Code}
      text=${result.response_excerpt.slice(0, 4000)} label=${t.webhooks.answer}
    />`}
  </${FormDialog}>`;
}
