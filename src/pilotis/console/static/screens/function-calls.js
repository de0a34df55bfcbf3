/** The calls of a function, and one of them with its log. */
import { html } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { onApp } from "../state/app.js";
import { change, place } from "../state/router.js";
import { count, moment, plain } from "../ui/format.js";
import { ListPager, listing } from "../ui/listing.js";
import { Bones, Button, Copy, Empty, Failure, State, useLoad } from "../ui/widgets.js";
import { TraceLink } from "./context.js";
import { LOOKS, Log } from "./function-use.js";

/** @typedef {import("./function.js").Props} Props */

const PAGE = 50;

/** @param {Props} props */
export function Runs({ base, fn }) {
  const query = place.value.query;
  const offset = Number(query.get("offset")) || 0;
  const status = query.get("status") || "";
  const chosen = query.get("run") || "";
  const { data, error, reload } = useLoad(
    (signal) => onApp(`${base}/executions`, { query: { limit: PAGE, offset, status }, signal }),
    [base, offset, status],
  );
  return html`
    <div class="strip filters" role="toolbar" aria-label=${t.filters}>
      <select
        class="in small" aria-label=${t.webhooks.state} value=${status}
        onChange=${(/** @type {Typed} */ event) => change({ status: event.target.value, offset: null })}
      >
        <option value="">${t.webhooks.anyState}</option>
        ${Object.entries(t.functions.outcomes).map(
          ([name, text]) => html`<option value=${name} selected=${name === status}>${text}</option>`,
        )}
      </select>
      <span class="grow"></span>
      <span class="s12 soft num">${data && t.functions.calls(data.total_count)}</span>
      <${Button} kind="flat small" icon="retry" label=${t.reload} onClick=${reload} />
    </div>
    <div class=${`split ${chosen ? "opened" : ""}`}>
      <div class="listbox">
        <div class="scroll">
          ${listing({
            loaded: { error, reload },
            items: data?.data,
            bones: { rows: 8 },
            empty: html`<${Empty} title=${t.functions.noRuns} text=${t.functions.noRunsText} />`,
            columns: html`
              <th>${t.activity.when}</th>
              <th>${t.webhooks.state}</th>
              <th>${t.functions.by}</th>
              <th>${t.sites.version}</th>
              <th class="r">${t.functions.duration}</th>
            `,
            row: (one) => html`<tr key=${one.id} class=${one.id === chosen ? "on" : ""}>
              <td class=${`soft num fit ${one.id === chosen ? "upright" : ""}`} title=${one.started_at}>
                <button
                  type="button" class="coverbutton" aria-pressed=${one.id === chosen ? "true" : "false"}
                  onClick=${() => change({ run: one.id === chosen ? null : one.id })}
                >
                  ${moment(one.started_at)}
                </button>
              </td>
              <td>
                <${State} look=${LOOKS[one.status]}>${worded(t.functions.outcomes, one.status) || one.status}</${State}>
              </td>
              <td class="wide words soft">${calledBy(one)}</td>
              <td class="wide">${typeof one.version === "number" ? `v${one.version}` : plain(one.version, 20)}</td>
              <td class="r">${count(Math.round(one.duration))} ms</td>
            </tr>`,
          })}
        </div>
        <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
      </div>
      ${chosen && html`<${Run} key=${chosen} base=${base} id=${chosen} />`}
    </div>
  `;
}

/** What called a function, and for whom where these differ. @param {{trigger: string, caller: {type: string}}} call */
function calledBy({ trigger, caller }) {
  const by = worded(t.functions.callers, trigger) || plain(trigger, 40);
  return caller.type === trigger ? by : `${by} · ${worded(t.actors, caller.type) || plain(caller.type, 30)}`;
}

/** @param {{base: FunctionPath, id: string}} props */
function Run({ base, id }) {
  const { data, error, reload } = useLoad(
    (signal) => onApp(`${base}/executions/${encodeURIComponent(id)}`, { signal }),
    [base, id],
  );
  return html`<aside class="panel" aria-label=${t.functions.run}>
    <header>
      <b class="cut grow">${t.functions.run}</b>
      <${Button} kind="flat small" icon="cross" label=${t.close} onClick=${() => change({ run: null })} />
    </header>
    ${error
      ? html`<${Failure} error=${error} retry=${reload} />`
      : !data
        ? html`<${Bones} rows=${5} columns=${2} />`
        : html`
            <dl class="facts-list">
              <div><dt>${t.members.id}</dt><dd><code class="cut">${data.id}</code><${Copy} text=${data.id} /></dd></div>
              <div><dt>${t.functions.start}</dt><dd>${worded(t.functions.starts, data.start ?? "") || t.none}</dd></div>
              <div><dt>${t.functions.waited}</dt><dd class="num">${count(Math.round(data.queue_ms))} ms</dd></div>
              <div><dt>CPU</dt><dd class="num">${count(Math.round(data.cpu_ms))} ms</dd></div>
              ${data.peak_memory_mb !== null && html`<div>
                <dt>${t.functions.memory}</dt>
                <dd class="num">${data.peak_memory_mb} MB</dd>
              </div>`}
            </dl>
            ${data.request_id && html`<p class="panelactions"><${TraceLink} id=${data.request_id} /></p>`}
            ${data.error && html`<p class="notice bad">
              <span>${plain(data.error, 2000)} <code class="soft s12">${plain(data.error_code, 40)}</code></span>
            </p>`}
            <section class="wellbox">
              <h3>${t.functions.log}</h3>
              ${data.logs === null
                ? html`<p class="soft s13">${t.needs.editor}</p>`
                : html`<${Log} lines=${data.logs} />`}
            </section>
          `}
  </aside>`;
}
