/** A function at work: its log as it is written, and how its calls end and how long they take. */
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/view.js";
import { locale, t, worded } from "../strings/index.js";
import { appId, may, onApp } from "../state/app.js";
import { change, href, place } from "../state/router.js";
import { follow } from "../state/stream.js";
import { Bars, Numbers } from "../ui/chart.js";
import { clock, compact, duration, prose } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Bones, Button, Empty, Failure, Segments, State, useLoad } from "../ui/widgets.js";

/** How a call ended. */
export const LOOKS = /** @type {Record<string, string[]>} */ ({
  success: ["ok", "done"],
  error: ["bad", "fail"],
  timeout: ["warn", "clock"],
});

/** The log of a call. @param {{lines: Api.LogLine[] | null}} props */
export const Log = ({ lines: all }) =>
  all?.length
    ? html`<ol class="log" aria-label=${t.functions.log}>
        ${all
          .slice(0, 500)
          .map(
            (line) => html`<li class=${line.level} key=${line.index}>
              <time>${clock(line.time)}</time>
              <span>${prose(line.message)}</span>
            </li>`,
          )}
      </ol>`
    : html`<p class="soft s13">${t.functions.noLog}</p>`;

/** @typedef {{key: string, call: string, time: string, level: string, message: string, ended?: any}} Line */

const LEVELS = ["debug", "info", "warn", "error"];
/** How many lines are read first, how many are kept, and how many of those are drawn. */
const FIRST = 200;
const KEPT = 2000;
const DRAWN = 500;

/** @param {any} line @returns {Line} */
const lineOf = (line) => ({
  key: `${line.execution_id} ${line.index}`,
  call: line.execution_id,
  time: line.time,
  level: line.level,
  message: line.message,
});
/** @param {any} call @returns {Line} */
const endOf = (call) => ({
  key: call.id,
  call: call.id,
  time: call.finished_at || call.started_at,
  level: call.status === "success" ? "debug" : "error",
  message: call.error || "",
  ended: call,
});

/** @param {{base: FunctionPath, fn: Api.Function}} props */
export function Logs({ base, fn }) {
  return may("editor")
    ? html`<${Tail} key=${fn.id} base=${base} fn=${fn} />`
    : html`<${Empty} title=${t.functions.tail} text=${t.needs.editor} />`;
}

/** @param {{base: FunctionPath, fn: Api.Function}} props */
function Tail({ base, fn }) {
  const level = place.value.query.get("level") || "debug";
  const search = place.value.query.get("search") || "";
  const first = useLoad((signal) => onApp(`${base}/logs`, { query: { limit: FIRST }, signal }), [base]);
  const [fresh, setFresh] = useState(/** @type {Line[]} */ ([]));
  const [line, setLine] = useState("");
  const [missed, setMissed] = useState(false);
  const [seen, setSeen] = useState(/** @type {number | null} */ (null));
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const came = useRef(0);
  useEffect(() => {
    const abort = new AbortController();
    /** @type {Set<string>} */
    let known = new Set();
    const take = (/** @type {import("../state/stream.js").StreamEvent[]} */ events) => {
      if (events.some((event) => event.type === "reset")) setMissed(true);
      const lines = events
        .flatMap(({ type, data }) => (type === "log" ? [lineOf(data)] : type === "execution" ? [endOf(data)] : []))
        .filter((one) => !known.has(one.key) && known.add(one.key));
      if (!lines.length) return;
      came.current += lines.length;
      setFresh((before) => [...before, ...lines].slice(-KEPT));
      // A reconnection repeats the last seconds, not more.
      if (known.size > 4 * KEPT) known = new Set([...known].slice(-KEPT));
    };
    follow(`/v1/apps/${appId.peek()}${base}/logs/stream`, abort.signal, take, setLine);
    return () => abort.abort();
  }, [base]);
  const all = useMemo(() => {
    const keys = new Set(fresh.map((one) => one.key));
    return [
      ...(first.data?.lines || [])
        .map(lineOf)
        .filter((/** @type {Line} */ one) => !keys.has(one.key))
        .reverse(),
      ...fresh,
    ];
  }, [first.data, fresh]);
  const least = LEVELS.indexOf(level);
  const wanted = search.toLowerCase();
  const shown = all
    .filter((one) => LEVELS.indexOf(one.level) >= least && (!wanted || one.message.toLowerCase().includes(wanted)))
    .slice(-DRAWN);
  const follows = seen === null;
  useLayoutEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown.at(-1)?.key, shown.length, follows]);
  const scrolled = (/** @type {Typed} */ event) => {
    const atEnd = event.target.scrollHeight - event.target.scrollTop - event.target.clientHeight < 24;
    if (atEnd !== follows) setSeen(atEnd ? null : came.current);
  };
  return html`
    <div class="strip filters" role="toolbar" aria-label=${t.filters}>
      <select
        class="in small" aria-label=${t.functions.level} value=${level}
        onChange=${(/** @type {Typed} */ event) =>
          change({ level: event.target.value === "debug" ? null : event.target.value })}
      >
        ${LEVELS.map(
          (name) => html`<option value=${name} selected=${name === level}>${worded(t.functions.levels, name)}</option>`,
        )}
      </select>
      <span class="searchbox room">
        <${Icon} name="search" />
        <input
          class="in small" type="search" aria-label=${t.functions.findLines} placeholder=${t.functions.findLines}
          value=${search}
          onInput=${(/** @type {Typed} */ event) => change({ search: event.target.value || null }, { replace: true })}
        />
      </span>
      <span class="grow"></span>
      <span class="line s12 soft" role="status">
        ${line === "open"
          ? html`<span class="livedot"></span>${t.webhooks.live}`
          : line === "lost"
            ? html`<${Icon} name="warn" />${t.disconnected}`
            : ""}
      </span>
    </div>
    ${missed && html`<p class="notice"><${Icon} name="info" /><span>${t.functions.missed}</span></p>`}
    <div class="tail">
      ${first.error
        ? html`<${Failure} error=${first.error} retry=${first.reload} />`
        : !first.data
          ? html`<${Bones} rows=${10} columns=${2} />`
          : !all.length
            ? html`<${Empty} title=${t.functions.noLines} text=${t.functions.noLinesText} />`
            : html`
                <ol class="runlog tall" ref=${box} onScroll=${scrolled} tabindex="0" aria-label=${t.functions.tail}>
                  ${shown.map((one) => drawn(one, fn.id))}
                </ol>
                ${!follows && html`<p class="followbox">
                  <${Button} kind="small" icon="in" onClick=${() => setSeen(null)}>
                    ${came.current > (seen || 0)
                      ? t.functions.newLines(came.current - (seen || 0))
                      : t.workflows.follow}
                  </${Button}>
                </p>`}
              `}
    </div>
  `;
}

/** A line never changes: what was drawn of it once is drawn again without a look at it. @type {WeakMap<Line, any>} */
const lines = new WeakMap();

/** @param {Line} one @param {string} fn */
function drawn(one, fn) {
  let node = lines.get(one);
  if (!node) {
    node = html`<li key=${one.key} class=${one.level}>
      <time><a href=${href(`/apps/${appId.value}/functions/${fn}/runs?run=${one.call}`)}>${clock(one.time)}</a></time>
      ${one.ended
        ? html`<span>
            <${State} look=${LOOKS[one.ended.status]}>
              ${t.functions.endedAs(
                worded(t.functions.outcomes, one.ended.status) || one.ended.status,
                duration(Math.round(one.ended.duration)),
              )}
            </${State}>
            ${one.message && ` ${prose(one.message)}`}
          </span>`
        : html`<span>${prose(one.message)}</span>`}
    </li>`;
    lines.set(one, node);
  }
  return node;
}

/** The steps of each period: how many, and how many milliseconds one lasts. */
const PERIODS = /** @type {Record<string, [number, number]>} */ ({
  hour: [60, 60_000],
  day: [24, 3_600_000],
  month: [30, 86_400_000],
});
const NONE = { success: 0, error: 0, timeout: 0, p50: null, p99: null };

/**
 * Load what calls came to in a period; the steps without calls are filled in.
 * @param {FunctionPath} base
 * @param {string} period
 */
function useCalls(base, period) {
  return useLoad(
    async (signal) => {
      const [number, length] = PERIODS[period];
      const first = Math.floor(Date.now() / length) * length - (number - 1) * length;
      const { buckets } = await onApp(`${base}/stats`, {
        query: { from: new Date(first).toISOString(), step: length / 1000 },
        signal,
      });
      const known = new Map(buckets.map((/** @type {any} */ one) => [Date.parse(one.time), one]));
      const times = Array.from({ length: number }, (_, index) => first + index * length);
      return {
        times: times.map((time) => new Date(time).toISOString()),
        points: times.map((time) => known.get(time) || NONE),
      };
    },
    [base, period],
  );
}

/** @param {{base: FunctionPath}} props */
export function Metrics({ base }) {
  const asked = place.value.query.get("period") || "day";
  const period = asked in PERIODS ? asked : "day";
  const [asTable, setAsTable] = useState(false);
  const { data, error, reload } = useCalls(base, period);
  const format = new Intl.DateTimeFormat(
    locale,
    period === "month"
      ? { day: "numeric", month: "short", timeZone: "UTC" }
      : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  );
  const named = (/** @type {string} */ time) => format.format(new Date(time));
  const points = data?.points || [];
  const values = (/** @type {(point: any) => number} */ read) => points.map(read);
  const sum = (/** @type {string} */ name) =>
    points.reduce((/** @type {number} */ total, point) => total + point[name], 0);
  const calls = sum("success") + sum("error") + sum("timeout");
  const failed = calls - sum("success");
  const slowest = (/** @type {string} */ name) => Math.max(0, ...points.map((point) => point[name] || 0));
  const ended = [
    { name: t.functions.outcomes.success, kind: "ok", values: values((point) => point.success) },
    { name: t.functions.outcomes.timeout, kind: "warn", values: values((point) => point.timeout) },
    { name: t.functions.outcomes.error, kind: "bad", values: values((point) => point.error) },
  ];
  const slow = [
    { name: t.functions.p99, kind: "ok", values: values((point) => Math.round((point.p99 || 0) * 10) / 10) },
  ];
  const took = (/** @type {string} */ name) => (calls ? duration(Math.round(slowest(name) * 10) / 10) : t.none);
  const chart = (/** @type {any[]} */ series, /** @type {string} */ label) =>
    !data
      ? html`<div class="chart empty-chart" aria-busy="true"></div>`
      : asTable
        ? html`<${Numbers} days=${data.times} series=${series} named=${named} />`
        : html`<${Bars} days=${data.times} series=${series} label=${label} named=${named} />`;
  return html`<div class="scroll">
    <div class="page metrics">
      <div class="line">
        <dl class="facts grow">
          <div><dt>${t.functions.tabs.runs}</dt><dd class="big">${data ? compact(calls) : "–"}</dd></div>
          <div>
            <dt>${t.functions.shareFailed}</dt>
            <dd class="big">
              ${data && calls
                ? `${((failed / calls) * 100).toLocaleString(locale, { maximumFractionDigits: 1 })} %`
                : "–"}
            </dd>
          </div>
          <div><dt>${t.functions.p50}</dt><dd class="big">${data ? took("p50") : "–"}</dd></div>
          <div><dt>${t.functions.p99}</dt><dd class="big">${data ? took("p99") : "–"}</dd></div>
        </dl>
      </div>
      <div class="line wrap">
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
            <section class="slab charts">
              <header>
                <h2>${t.functions.tabs.runs}</h2>
                <span class="grow"></span>
                ${data && !calls ? html`<span class="soft s12">${t.functions.noCallsYet}</span>` : null}
              </header>
              ${chart(ended, t.functions.chart)}
            </section>
            <section class="slab charts">
              <header><h2>${t.functions.p99Long}</h2></header>
              ${chart(slow, t.functions.p99Long)}
            </section>
          `}
    </div>
  </div>`;
}
