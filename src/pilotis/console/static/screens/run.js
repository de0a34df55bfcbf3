/** One execution of a workflow: graph, timeline and details share one chosen step, and follow the execution live. */
import { html, signal, useEffect, useLayoutEffect, useRef, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, onApp, opened } from "../state/app.js";
import { LOOKS, advance, byStep, isFinal } from "../state/executions.js";
import { change, go, href, place } from "../state/router.js";
import { follow } from "../state/stream.js";
import { clock, count, duration, moment, plain, prose } from "../ui/format.js";
import { Graph } from "../ui/graph.js";
import { Icon } from "../ui/icons.js";
import {
  Bones,
  Button,
  Code,
  Copy,
  Empty,
  Failure,
  FormDialog,
  Pill,
  SelectField,
  State,
  complain,
  toast,
  useLoad,
  useTitle,
} from "../ui/widgets.js";
import { TraceLink } from "./context.js";

const status = signal("");

export const head = (/** @type {any} */ params) => {
  const base = `/apps/${appId.value}/workflows`;
  const look = LOOKS[status.value];
  return {
    title: html`${t.workflows.run} <span class="wide">${short(params?.run || "")}</span>`,
    text: t.workflows.run,
    crumbs: [
      { text: t.sectionNames.workflows, href: href(base) },
      { text: plain(opened.value, 60) || t.workflows.one, href: href(`${base}/${params?.workflow}`) },
    ],
    aside:
      look &&
      html`<span class="keep">
        <${Pill} kind=${look[0]} icon=${look[1]}>${worded(t.workflows.statuses, status.value)}</${Pill}>
      </span>`,
  };
};

/** @param {string} id */
const short = (id) => `${id.slice(0, 4)}…${id.slice(-4)}`;
const why = () => denied("editor");
/** The most characters of a value that are drawn. */
const MAX_CHARACTERS = 8000;

/** @param {{workflow: string, run: string}} props */
export function Screen({ workflow: id, run: runId }) {
  const base = /** @type {const} */ (`/workflows/${encodeURIComponent(id)}`);
  const path = /** @type {const} */ (`${base}/executions/${encodeURIComponent(runId)}`);
  const [run, setRun] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [line, setLine] = useState("");
  const [turn, setTurn] = useState(0);
  const [dialog, setDialog] = useState(false);
  const definition = useLoad(
    (signal) => (run ? onApp(`${base}/versions/${run.workflow_version}`, { signal }) : Promise.resolve(null)),
    [base, run?.workflow_version],
  );
  useEffect(() => {
    const abort = new AbortController();
    follow(
      `/v1/apps/${appId.peek()}${path}/stream`,
      abort.signal,
      (events) => setRun((/** @type {any} */ before) => advance(before, events)),
      (state, failed) => {
        setLine(state);
        if (failed) setError(failed);
        // The stream brings no inputs: those are read once all are there.
        if (state === "ended")
          onApp(path, { signal: abort.signal }).then(
            (read) => setRun((/** @type {any} */ before) => ({ ...before, ...read })),
            () => {},
          );
      },
    );
    return () => abort.abort();
  }, [path, turn]);
  useEffect(() => {
    status.value = run?.status || "";
  }, [run?.status]);
  useEffect(() => () => (status.value = ""), []);
  useTitle(definition.data?.name);
  const again = () => (setError(null), setTurn(turn + 1));
  if (error || definition.error)
    return html`<div class="page">
      <div class="slab">
        <${Failure} error=${error || definition.error} retry=${() => (again(), definition.reload())} />
      </div>
    </div>`;
  if (!run || !definition.data) return html`<div class="data"><${Bones} rows=${6} /></div>`;
  const known = byStep(run.steps);
  const chosen = place.value.query.get("step") || "";
  const choose = (/** @type {string} */ step) => change({ step: step === chosen ? null : step });
  const cancel = () => onApp(`${path}/cancel`, { method: "POST" }).then(() => toast(t.workflows.cancelling), complain);
  const over = isFinal(run.status);
  return html`<div class=${`data runview ${chosen ? "chosen" : ""}`}>
    <div class="strip numbersline">
      <dl>
        <div><dt>${t.workflows.startedBy}</dt><dd><${Trigger} trigger=${run.trigger} /></dd></div>
        <div class="wide"><dt>${t.sites.version}</dt><dd>v${run.workflow_version}</dd></div>
        <div class="wide">
          <dt>${t.workflows.started}</dt>
          <dd title=${run.started_at || run.created_at}>${moment(run.started_at || run.created_at)}</dd>
        </div>
        <div><dt>${t.workflows.took}</dt><dd><${Elapsed} run=${run} /></dd></div>
        <div>
          <dt>${t.workflows.steps}</dt>
          <dd>${t.workflows.progress(run.progress.completed, run.progress.total)}</dd>
        </div>
        ${run.attempt > 1 && html`<div class="wide"><dt>${t.webhooks.attempts}</dt><dd>${run.attempt}</dd></div>`}
      </dl>
      <span class="grow"></span>
      <span class="wide"><${TraceLink} id=${run.request_id} /></span>
      <${Button}
        kind="small" icon="retry" why=${why() || (!over && t.workflows.replayLater)} onClick=${() => setDialog(true)}
      >
        ${t.workflows.replay}
      </${Button}>
      ${!over && html`<${Button}
        kind="small bad" icon="stop" why=${why() || (run.cancel_requested && t.workflows.cancelling)} onClick=${cancel}
      >
        ${t.workflows.cancel}
      </${Button}>`}
    </div>
    <div class="runsplit">
      <div class="runleft">
        ${definition.data.steps.length
          ? html`<${Graph}
              label=${t.workflows.graph} steps=${definition.data.steps} type=${definition.data.execution_type}
              chosen=${keyOf(definition.data.steps, chosen)}
              onChoose=${(/** @type {string} */ _key, /** @type {any} */ step) => choose(step.id)}
              look=${(/** @type {any} */ step) => lookOf(step, known.get(step.id), run)}
            />`
          : html`<${Empty} title=${t.workflows.noSteps} text=${t.workflows.noStepsText} />`}
        <${Timeline} run=${run} steps=${definition.data.steps} known=${known} chosen=${chosen} choose=${choose} />
      </div>
      <${Details}
        key=${chosen} run=${run} path=${path} step=${flat(definition.data.steps).find((one) => one.id === chosen)}
        known=${known.get(chosen)} line=${line}
        read=${(/** @type {any} */ fresh) => setRun((/** @type {any} */ before) => ({ ...before, ...fresh }))}
      />
    </div>
    ${dialog && html`<${Replay}
      path=${path} run=${run} current=${definition.data.version} onClose=${() => setDialog(false)}
      done=${(/** @type {string} */ next) => go(`/apps/${appId.value}/workflows/${id}/runs/${next}`)}
    />`}
  </div>`;
}

/** All steps, those of branches after the one that holds them. @param {any[]} steps @returns {any[]} */
const flat = (steps) =>
  steps.flatMap((step) => [step, ...(step.branches || []).flatMap((/** @type {any} */ branch) => flat(branch.steps))]);

/**
 * The place of a step in its definition.
 * @param {any[]} steps
 * @param {string} id
 * @param {string} place
 * @returns {string}
 */
function keyOf(steps, id, place = "steps") {
  for (const [at, step] of steps.entries()) {
    const here = `${place}[${at}]`;
    if (id && step.id === id) return here;
    for (const [number, branch] of (step.branches || []).entries()) {
      const inside = keyOf(branch.steps, id, `${here}.branches[${number}].steps`);
      if (inside) return inside;
    }
  }
  return "";
}

/** How a step is drawn. @param {any} step @param {any} state @param {any} run @returns {any} */
function lookOf(step, state, run) {
  const last = state?.tries.at(-1);
  const name = state?.status || "waiting";
  const [kind, icon] = LOOKS[name];
  const words = /** @type {any} */ (t.workflows.statuses);
  const tried = last && last.try > 1 ? `${t.workflows.tryNumber(last.try)}, ` : "";
  const total = Array.isArray(last?.input) ? last.input.length : state?.items;
  const result =
    step.step_type === "condition" && last?.status === "completed" && typeof last.output?.result === "boolean"
      ? last.output.result
        ? t.workflows.yes
        : t.workflows.no
      : "";
  const word = state?.items
    ? t.workflows.progress(state.done, total)
    : result ||
      (last?.status === "completed" && last.duration != null
        ? tried + duration(last.duration)
        : tried + (words[name] || name));
  if (name === "waiting" && isFinal(run.status))
    return { kind: "idle", icon: "skip", word: t.workflows.notReached, taken: "not" };
  // What failed and was left behind is a warning; red is what ended the execution.
  if ((name === "failed" || name === "timeout") && step.on_error === "continue")
    return { kind: "warn", icon: "warn", word: t.workflows.wentOn, taken: "done" };
  return {
    kind,
    icon,
    word,
    taken: name === "skipped" ? "not" : name === "waiting" ? "waits" : name === "running" ? "moves" : "done",
  };
}

/** @param {{trigger: any}} props */
export function Trigger({ trigger }) {
  const [icon, text] = /** @type {any} */ ({
    manual: ["member", t.workflows.triggers.manual],
    schedule: ["clock", t.workflows.triggers.schedule],
    webhook: ["in", t.workflows.triggers.webhook],
    function: ["code", t.workflows.triggers.function],
    retry: ["retry", t.workflows.triggers.retry],
  })[trigger.type] || ["info", plain(trigger.type, 30)];
  return html`<span class="line">
    <${Icon} name=${icon} />
    <span class="cut">${text}${trigger.scheduled_for ? `, ${moment(trigger.scheduled_for)}` : ""}</span>
  </span>`;
}

/** How long an execution took, or runs by now. @param {{run: Api.WorkflowExecutionDetails}} props */
function Elapsed({ run }) {
  const now = useNow(run.status === "running");
  if (run.duration !== null && run.duration !== undefined) return html`${duration(run.duration)}`;
  return html`<span class="num">
    ${run.started_at ? duration(Math.max(0, now - Date.parse(run.started_at))) : t.none}
  </span>`;
}

/** The time, ten times a second while it counts. @param {boolean} counts */
function useNow(counts) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!counts) return;
    const timer = setInterval(() => setNow(Date.now()), 100);
    return () => clearInterval(timer);
  }, [counts]);
  return now;
}

/**
 * @param {{run: Api.WorkflowExecutionDetails, steps: Api.Step[], known: Map<string, any>, chosen: string, choose: (id:
 *   string) => void}} props
 */
function Timeline({ run, steps, known, chosen, choose }) {
  const now = useNow(!isFinal(run.status));
  const begin = Date.parse(run.created_at);
  const ends = run.steps.map((one) =>
    one.finished_at ? Date.parse(one.finished_at) : one.status === "running" ? now : 0,
  );
  const end = Math.max(begin + 1, run.finished_at ? Date.parse(run.finished_at) : now, ...ends);
  // Some room after the end, for the words behind the last bar.
  const span = (end - begin) * 1.2;
  const at = (/** @type {number} */ time) => Math.max(0, Math.min(100, ((time - begin) / span) * 100));
  const tick = round(span / 5);
  return html`<section class="timeline" aria-label=${t.workflows.timeline}>
    <header class="strip">
      <h2 class="grow">${t.workflows.timeline}</h2>
      <span class="legend wide s12 soft">
        ${[
          ["wait", t.workflows.statuses.waiting],
          ["running", t.workflows.statuses.running],
          ["failed", t.workflows.failedTry],
        ].map(([kind, text]) => html`<span class="line">${text}<i class=${`bar ${kind}`}></i></span>`)}
      </span>
    </header>
    <div class="lanes">
      <div class="lane axis" aria-hidden="true">
        <span></span>
        <span class="track">
          ${Array.from(
            { length: Math.floor((end - begin) / tick) + 1 },
            (_, number) => html`<i style=${{ left: `${at(begin + number * tick)}%` }}>${duration(number * tick)}</i>`,
          )}
        </span>
      </div>
      <ol>
        ${flat(steps).map((step) => {
          const state = known.get(step.id);
          const look = lookOf(step, state, run);
          const tries = state?.tries || [];
          const last = tries.at(-1);
          return html`<li key=${step.id} class=${step.id === chosen ? "on" : ""}>
            <button
              type="button" class=${`lane ${step.id === chosen ? "upright" : ""}`}
              aria-pressed=${step.id === chosen ? "true" : "false"} onClick=${() => choose(step.id)}
            >
              <span class="line">
                <${State} look=${[look.kind, look.icon]} />
                <span class="cut">${plain(step.name || step.id, 60)}</span>
              </span>
              <span class="track">
                ${tries.map((/** @type {any} */ one, /** @type {number} */ number) => {
                  const from = Date.parse(one.started_at || run.created_at);
                  const to = one.finished_at ? Date.parse(one.finished_at) : one.status === "running" ? now : from;
                  const waited = number
                    ? Date.parse(tries[number - 1].finished_at || one.started_at)
                    : from - (one.queue_ms || 0);
                  const kind =
                    one.status === "running"
                      ? "running"
                      : one.status === "completed"
                        ? "done"
                        : one.status === "skipped" || one.status === "cancelled"
                          ? "idle"
                          : "failed";
                  return html`
                    ${from > waited && html`<i
                      class="bar wait" style=${{ left: `${at(waited)}%`, width: `${at(from) - at(waited)}%` }}
                    ></i>`}
                    <i
                      class=${`bar ${kind} ${number < tries.length - 1 ? "" : "last"}`}
                      style=${{ left: `${at(from)}%`, width: `max(3px, ${at(to) - at(from)}%)` }}
                    ></i>
                  `;
                })}
                ${last && html`<em
                  class="num"
                  style=${{ left: `max(3px, ${at(last.finished_at ? Date.parse(last.finished_at) : now)}%)` }}
                >
                  ${look.word}
                </em>`}
              </span>
            </button>
          </li>`;
        })}
      </ol>
      ${!isFinal(run.status) && run.started_at && html`<div class="nowline" aria-hidden="true">
        <span style=${{ left: `${at(now)}%` }}></span>
      </div>`}
    </div>
  </section>`;
}

/** The next length of 1, 2 or 5 times a power of ten, in milliseconds. @param {number} least */
function round(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= least) || least;
}

/**
 * The chosen step, or the whole execution.
 * @param {{run: any, path: RunPath, step: any, known: any, line: string, read: (run: Api.WorkflowExecutionDetails) =>
 *   void}} props
 */
function Details({ run, path, step, known, line, read }) {
  const [tab, setTab] = useState(/** @type {string | null} */ (null));
  const [number, setNumber] = useState(-1);
  const tries = known?.tries || [];
  const one = tries.at(number) || tries.at(-1);
  const shown = step ? one : run;
  const look = step ? lookOf(step, known, run) : null;
  const tabs = [
    ...(step?.function_id || run.logs[step?.id] ? ["log"] : []),
    ...(!step || step.step_type !== "condition" || one?.input != null ? ["input"] : []),
    "output",
  ];
  const current =
    tab && tabs.includes(tab)
      ? tab
      : shown?.error && tabs.includes("log")
        ? "log"
        : tabs.includes("log")
          ? "log"
          : "output";
  // What the stream left out is read when it is looked at.
  const lacks = current === "input" && shown && shown.input === undefined;
  useEffect(() => {
    if (lacks) onApp(path).then(read, complain);
  }, [lacks, shown?.status]);
  return html`<aside class="panel" aria-label=${step ? t.workflows.step : t.workflows.run}>
    <header>
      ${step
        ? html`
            <${State} look=${[look.kind, look.icon]} />
            <b class="cut grow">${plain(step.name || step.id, 60)}</b>
            <${Button} kind="flat small" icon="cross" label=${t.close} onClick=${() => change({ step: null })} />
          `
        : html`<b class="grow">${t.workflows.whole}</b>`}
    </header>
    ${step && html`<p class="stepline soft s12">
      <span class="num">
        ${[
          worded(t.workflows.types, step.step_type),
          one && tries.length > 1 ? t.workflows.tryNumber(one.try) : "",
          one?.duration != null ? duration(one.duration) : "",
        ]
          .filter(Boolean)
          .join(", ")}
      </span>
      ${step.function_id && html`
        ${" "}<a class="link" href=${href(`/apps/${appId.value}/functions/${step.function_id}`)}>
          ${t.workflows.openFunction}
        </a>
      `}
    </p>`}
    <div class="strip substrip">
      <div class="tabs" role="group" aria-label=${t.workflows.shown}>
        ${tabs.map(
          (name) => html`<button
            type="button" class=${name === current ? "on" : ""} aria-pressed=${name === current ? "true" : "false"}
            onClick=${() => setTab(name)}
          >
            ${worded(t.workflows.tabs, name)}
          </button>`,
        )}
      </div>
      <span class="grow"></span>
      ${tries.length > 1 && html`<select
        class="in small" aria-label=${t.workflows.tries}
        onChange=${(/** @type {Typed} */ event) => setNumber(Number(event.target.value))}
      >
        ${tries.map(
          (/** @type {any} */ each, /** @type {number} */ index) => html`<option
            value=${index} selected=${each === one}
          >
            ${t.workflows.tryNumber(index + 1)}
          </option>`,
        )}
      </select>`}
    </div>
    ${shown?.error && html`<p class="notice bad">
      <${Icon} name="fail" />
      <span>
        ${plain(shown.error.message ?? t.workflows.hidden, 2000)}
        ${" "}<code class="soft s12">${plain(shown.error.code, 40)}</code>
        ${!step && shown.error.step_id && html`
          ${" "}<button type="button" class="link" onClick=${() => change({ step: shown.error.step_id })}>
            ${t.workflows.showStep}
          </button>
        `}
      </span>
    </p>`}
    ${!shown
      ? html`<p class="soft s13 pad">${isFinal(run.status) ? t.workflows.notReached : t.workflows.notYet}</p>`
      : current === "log"
        ? html`<${Lines} key=${`${one?.attempt} ${one?.try}`} step=${step} one=${one} live=${run.logs[step.id]} />`
        : current === "output" && shown.error
          ? null
          : run.is_hidden
            ? html`<p class="soft s13 pad">${t.needs.editor}</p>`
            : html`<${Value}
                value=${current === "input" ? shown.input : shown.output} label=${worded(t.workflows.tabs, current)}
              />`}
    <footer class="s12 soft">
      ${isFinal(run.status)
        ? html`<${Icon} name="done" />${t.workflows.ended}`
        : line === "open"
          ? html`<span class="livedot"></span>${t.webhooks.live}`
          : html`<${Icon} name="warn" />${t.disconnected}`}
      <span class="grow"></span>
      ${t.members.id} <code>${short(run.id)}</code>
      <${Copy} text=${run.id} />
    </footer>
  </aside>`;
}

/** @param {{value: any, label: string}} props */
function Value({ value, label }) {
  if (value === undefined) return html`<${Bones} rows=${3} columns=${1} />`;
  if (value?.truncated && typeof value.size === "number")
    return html`<p class="soft s13 pad">${t.workflows.truncated}</p>`;
  const text = JSON.stringify(value, null, 2);
  return html`<div class="valuebox">
    <${Code} text=${text.slice(0, MAX_CHARACTERS)} label=${label} />
    ${text.length > MAX_CHARACTERS && html`<p class="soft s12">${t.workflows.cut(count(text.length))}</p>`}
    <${Copy} text=${text} label=${t.copy} kind="small" />
  </div>`;
}

/**
 * The log of a step's call: what the stream brought, else what the function's record keeps.
 * @param {{step: Api.Step, one: any, live?: any[]}} props
 */
function Lines({ step, one, live }) {
  const wanted = !live && one?.function_execution_id && one.function_id && one.status !== "running";
  const { data, error } = useLoad(
    (signal) =>
      wanted
        ? onApp(`/functions/${one.function_id}/executions/${one.function_execution_id}`, { signal })
        : Promise.resolve(null),
    [one?.function_execution_id, !!wanted],
  );
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [follows, setFollows] = useState(true);
  const lines = live ? live.map(([time, level, message]) => ({ time, level, message })) : data?.logs;
  useLayoutEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines?.length, follows]);
  const scrolled = (/** @type {Typed} */ event) =>
    setFollows(event.target.scrollHeight - event.target.scrollTop - event.target.clientHeight < 24);
  if (error)
    return html`<p class="soft s13 pad">${error.status === 404 ? t.workflows.logGone : plain(error.message, 200)}</p>`;
  if (wanted && !data) return html`<${Bones} rows=${4} columns=${1} />`;
  if (!lines?.length)
    return html`<p class="soft s13 pad">${one?.status === "running" ? t.workflows.logLater : t.functions.noLog}</p>`;
  return html`
    <ol class="runlog" ref=${box} onScroll=${scrolled} tabindex="0" aria-label=${t.workflows.tabs.log}>
      ${lines
        .slice(-1000)
        .map(
          (/** @type {any} */ line, /** @type {number} */ at) => html`<li key=${at} class=${line.level}>
            <time>${clock(line.time)}</time>
            <span>${prose(line.message)}</span>
          </li>`,
        )}
    </ol>
    ${!follows && html`<p class="followbox">
      <${Button} kind="small" icon="in" onClick=${() => setFollows(true)}>${t.workflows.follow}</${Button}>
    </p>`}
  `;
}

/**
 * @param {{path: RunPath, run: Api.WorkflowExecutionDetails, current: number, onClose: () => void, done: (id: string)
 *   => void}} props
 */
function Replay({ path, run, onClose, done }) {
  const [from, setFrom] = useState(run.status === "failed" || run.status === "timeout" ? "failed_step" : "start");
  const [version, setVersion] = useState("same");
  const submit = async () => {
    const made = await onApp(`${path}/replay`, { method: "POST", body: { from, version } });
    toast(t.workflows.replayed);
    onClose();
    done(made.execution_id);
  };
  return html`<${FormDialog}
    title=${t.workflows.replayTitle} onClose=${onClose} submit=${submit} action=${t.workflows.replay}
  >
    <${SelectField}
      label=${t.workflows.from} value=${from} onInput=${setFrom}
      options=${[
        ["start", t.workflows.fromStart],
        ["failed_step", t.workflows.fromFailed],
      ]}
      help=${t.workflows.fromHelp} data-first
    />
    <${SelectField}
      label=${t.workflows.definition} value=${version} onInput=${setVersion}
      options=${[
        ["same", t.workflows.same(run.workflow_version)],
        ["current", t.workflows.current],
      ]}
    />
  </${FormDialog}>`;
}
