/** The live streams of an app that are open now, on all processes: who listens to what, and how far behind it is. */
import { html } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, onApp, tables } from "../state/app.js";
import { change, href, place } from "../state/router.js";
import { ago, count, duration, plain, size, stamp } from "../ui/format.js";
import { listing } from "../ui/listing.js";
import { MemberLink, MemberName } from "../ui/member.js";
import { Button, Empty, State, useLoad, useReload } from "../ui/widgets.js";
import { Listen } from "./listen.js";

const AGAIN_MS = 3000;

export function Live() {
  const query = place.value.query;
  const chosen = query.get("stream") || "";
  const listens = query.has("listen");
  const { data, error, reload } = useLoad((signal) => onApp("/live-streams", { signal }), [appId.value]);
  useReload(reload, AGAIN_MS);
  const open = data?.streams.find((one) => one.id === chosen);
  return html`<div class="data">
    <div class="strip numbersline">
      <${Figures} live=${data} />
      <span class="grow"></span>
      <${Button}
        kind="small" icon="activity" aria-pressed=${listens ? "true" : "false"}
        onClick=${() => change({ listen: listens ? null : "1", stream: null }, { replace: true })}
      >
        ${t.live.listen}
      </${Button}>
    </div>
    ${data && data.silent.length > 0 && html`<p class="notice warn" role="status">
      ${t.live.silent(data.silent.map((name) => plain(name, 60)).join(", "))}
    </p>`}
    <div class=${`split ${open || listens ? "opened" : ""}`}>
      <div class="listbox">
        <div class="scroll">
          ${listing({
            loaded: { error, reload },
            items: data?.streams,
            bones: { rows: 8, columns: 5 },
            empty: html`<${Empty} title=${t.live.none} text=${t.live.noneText} />`,
            look: "list dense",
            columns: html`
              <th>${t.activity.who}</th>
              <th>${t.live.listensTo}</th>
              <th class="r">${t.live.events}</th>
              <th>${t.live.state}</th>
              <th>${t.live.opened}</th>
            `,
            row: (one) => html`<tr key=${one.id} class=${one.id === chosen ? "on" : ""}>
              <td class="nowrap">
                <button
                  type="button" class="coverbutton" aria-pressed=${one.id === chosen ? "true" : "false"}
                  onClick=${() =>
                    change({ stream: one.id === chosen ? null : one.id, listen: null }, { replace: true })}
                >
                  <${Caller} stream=${one} />
                </button>
              </td>
              <td class="main cut">${subjects(one)}</td>
              <td class="r num">${count(one.told)}</td>
              <td><${Keeping} stream=${one} /></td>
              <td class="wide soft nowrap" title=${one.opened_at}>${ago(one.opened_at)}</td>
            </tr>`,
          })}
          ${data && data.total_count > data.streams.length && html`<p class="pad soft s13">
            ${t.live.shown(data.streams.length, data.total_count)}
          </p>`}
        </div>
      </div>
      ${listens
        ? html`<${Listen} />`
        : open && html`<${StreamPanel} key=${open.id} stream=${open} nodes=${data?.nodes || []} />`}
    </div>
  </div>`;
}

/** What all streams have in common. @param {{live: Api.LiveStreams | undefined}} props */
function Figures({ live }) {
  const sum = (/** @type {(node: Api.LiveNode) => number} */ of) =>
    live ? count(live.nodes.reduce((all, node) => all + of(node), 0)) : "–";
  const delays = (live?.nodes || []).filter((node) => node.delay_ms !== null);
  const worst = (/** @type {"delay_ms" | "slowest_ms"} */ name) =>
    delays.length ? duration(Math.max(...delays.map((node) => Number(node[name])))) : "–";
  return html`<dl>
    <div><dt>${t.live.streams}</dt><dd>${live ? count(live.total_count) : "–"}</dd></div>
    <div><dt>${t.live.subscriptions}</dt><dd>${sum((node) => node.subscriptions)}</dd></div>
    <div class="wide"><dt>${t.live.events}</dt><dd>${sum((node) => node.told)}</dd></div>
    <div title=${t.live.delayHelp}><dt>${t.live.delay}</dt><dd>${worst("delay_ms")}</dd></div>
    <div class="wide"><dt>${t.live.slowest}</dt><dd>${worst("slowest_ms")}</dd></div>
    <div class="wide">
      <dt>${t.live.processes}</dt>
      <dd>${live ? count(live.nodes.filter((node) => node.streams).length) : "–"}</dd>
    </div>
  </dl>`;
}

/** @param {{stream: Api.InspectedStream}} props */
const Caller = ({ stream }) =>
  stream.member_id ? html`<${MemberName} id=${stream.member_id} />` : worded(t.actors, stream.caller) || stream.caller;

/** Whether a client keeps up with what it is told. @param {{stream: Api.InspectedStream}} props */
const Keeping = ({ stream }) =>
  stream.is_slow
    ? html`<${State} look=${["bad", "fail"]} title=${t.live.slowHelp}>${t.live.slow}</${State}>`
    : stream.unsent_bytes
      ? html`<${State} look=${["warn", "clock"]}>${t.live.waiting(size(stream.unsent_bytes))}</${State}>`
      : html`<${State} look=${["ok", "done"]}>${t.live.current}</${State}>`;

/** @param {string} id */
const tableName = (id) => plain(tables.value?.find((one) => one.id === id)?.title || id.slice(-8), 60);

/** What a stream listens to, in a line: each table and each channel once. @param {Api.InspectedStream} stream */
function subjects(stream) {
  const names = new Set(stream.subscriptions.map((one) => tableName(one.table_id)));
  return [...names, ...stream.channels.map((one) => plain(one.name, 60))].join(", ");
}

/** @param {{stream: Api.InspectedStream, nodes: Api.LiveNode[]}} props */
function StreamPanel({ stream, nodes }) {
  const node = nodes.find((one) => one.node_id === stream.node_id);
  const field = (/** @type {any} */ label, /** @type {any} */ value) => html`<div>
    <dt>${label}</dt>
    <dd>${value}</dd>
  </div>`;
  return html`<aside class="panel" aria-label=${t.live.stream}>
    <header>
      <b class="cut grow">${t.live.stream} <code class="soft">${stream.id}</code></b>
      <${Button}
        kind="flat small" icon="cross" label=${t.close} onClick=${() => change({ stream: null }, { replace: true })}
      />
    </header>
    <div class="scroll">
      <dl class="facts-list">
        ${field(
          t.activity.who,
          stream.member_id
            ? html`<${MemberLink} id=${stream.member_id} />`
            : worded(t.actors, stream.caller) || stream.caller,
        )}
        ${field(t.profile.address, html`<code class="cut">${plain(stream.address, 45)}</code>`)}
        ${field(t.live.opened, html`<span class="num">${stamp(stream.opened_at)}</span>`)}
        ${field(t.live.events, count(stream.told))}
        ${stream.told_at && field(t.live.last, html`<span class="num">${stamp(stream.told_at)}</span>`)}
        ${field(t.live.state, html`<${Keeping} stream=${stream} />`)}
        ${node && field(t.live.process, html`<span class="cut">${plain(node.name, 60)}</span>`)}
      </dl>
      ${stream.subscriptions.length > 0 && html`<h3 class="panelhead">${t.live.subscriptions}</h3>`}
      ${stream.subscriptions.map(
        (one) => html`<section class="listened" key=${one.id}>
          <p class="line">
            <code class="cut">${plain(one.id, 64)}</code>
            <a class="link cut" href=${href(`/apps/${appId.value}/tables/${one.table_id}`)}>
              ${tableName(one.table_id)}
            </a>
          </p>
          <p class="s12 soft">
            ${one.row_id
              ? html`<code>${one.row_id}</code>`
              : one.where
                ? html`<code class="wraps">${plain(JSON.stringify(one.where), 500)}</code>`
                : t.live.allRows}
          </p>
          <p class="s12 soft">
            ${t.live.changes(one.told)}
            ${one.resets > 0 && ` · ${t.live.resets(one.resets, worded(t.live.reasons, one.reset_reason || "") || "")}`}
          </p>
        </section>`,
      )}
      ${stream.channels.length > 0 && html`<h3 class="panelhead">${t.live.channels}</h3>`}
      ${stream.channels.map(
        (one) => html`<section class="listened" key=${one.name}>
          <p class="line">
            <code class="cut">${plain(one.name, 200)}</code>
            ${one.is_present && html`<span class="s12 soft">${t.live.present}</span>`}
          </p>
        </section>`,
      )}
    </div>
  </aside>`;
}
