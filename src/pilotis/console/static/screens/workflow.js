/** One workflow: its executions as they happen, its definition as a form beside a graph, and its versions. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, may, onApp, opened } from "../state/app.js";
import { LOOKS, isFinal } from "../state/executions.js";
import { change, go, href, place } from "../state/router.js";
import { follow } from "../state/stream.js";
import { lines, shortened } from "../ui/diff.js";
import { count, duration, moment, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { ListPager, listing } from "../ui/listing.js";
import {
  Bones,
  Button,
  Code,
  Confirm,
  Copy,
  Empty,
  Failure,
  FormDialog,
  Pager,
  Pill,
  SelectField,
  State,
  Tabs,
  TextAreaField,
  TextField,
  complain,
  said,
  toast,
  useAction,
  useLoad,
  useTitle,
} from "../ui/widgets.js";
import { Address, Calls } from "../ui/calls.js";
import { Editor, definitionOf, keepDraft } from "./definition.js";
import { Trigger } from "./run.js";

export const head = () => ({
  title: plain(opened.value, 60) || t.workflows.one,
  crumbs: [{ text: t.sectionNames.workflows, href: href(`/apps/${appId.value}/workflows`) }],
});

const PAGE = 50;
const TABS = ["", "steps", "trigger", "call", "versions"];
const RELOAD_MILLISECONDS = 1000;
const why = () => denied("editor");

/** @param {{workflow: string, config: Api.ConsoleConfig}} props */
export function Screen({ workflow: id, config }) {
  const base = /** @type {const} */ (`/workflows/${encodeURIComponent(id)}`);
  const own = `/apps/${appId.value}/workflows/${id}`;
  const wanted = place.value.path.split("/")[5] || "";
  const tab = TABS.includes(wanted) ? wanted : "";
  const [dialog, setDialog] = useState("");
  const { data, error, reload, set } = useLoad((signal) => onApp(base, { signal }), [appId.value, base]);
  useTitle(data?.name);
  if (error) return html`<div class="page"><div class="slab"><${Failure} error=${error} retry=${reload} /></div></div>`;
  const activate = (/** @type {boolean} */ active) =>
    onApp(base, { method: "PATCH", body: { is_active: active } }).then(set, complain);
  const Tab = /** @type {any} */ ({
    "": Runs,
    steps: Editor,
    trigger: TriggerTab,
    call: HowToStart,
    versions: Versions,
  })[tab];
  return html`<div class="data">
    <div class="strip tabstrip">
      <${Tabs}
        label=${t.workflows.one}
        items=${TABS.map((name) => ({
          href: href(name ? `${own}/${name}` : own),
          text: worded(t.workflows.sections, name || "runs"),
          on: name === tab,
        }))}
      />
      <span class="grow"></span>
      ${data && html`
        <input
          type="checkbox" class="switch" aria-label=${t.webhooks.on} title=${why() || t.webhooks.on}
          checked=${data.is_active} disabled=${!may("editor")}
          onChange=${(/** @type {Typed} */ event) => activate(event.target.checked)}
        />
        <${Button}
          kind="flat small bad" icon="trash" label=${t.workflows.delete} why=${why()}
          onClick=${() => setDialog("delete")}
        />
        <${Button}
          kind="go small" icon="bolt" why=${why() || (!data.is_active && t.workflows.offText)}
          onClick=${() => setDialog("run")}
        >
          ${t.run}
        </${Button}>
      `}
    </div>
    ${data
      ? html`<${Tab} key=${tab} base=${base} workflow=${data} set=${set} config=${config} />`
      : html`<${Bones} rows=${6} />`}
    ${dialog === "run" && html`<${Start}
      base=${base} workflow=${data} onClose=${() => setDialog("")}
      done=${(/** @type {string} */ run) => go(`${own}/runs/${run}`)}
    />`}
    ${data && dialog === "delete" && html`<${Confirm}
      title=${t.files.deleteTitle(plain(data.name, 60))} text=${t.workflows.deleteText} action=${t.workflows.delete}
      name=${data.name} onClose=${() => setDialog("")}
      run=${async () => (await onApp(base, { method: "DELETE" }), go(`/apps/${appId.value}/workflows`))}
    />`}
  </div>`;
}

/** @typedef {{base: WorkflowPath, workflow: Api.Workflow, set: (workflow: Api.Workflow) => void}} Props */

/** Its address, and the request that starts an execution. @param {Props & {config: Api.ConsoleConfig}} props */
function HowToStart({ workflow, config }) {
  const path = `/v1/apps/${appId.value}/workflows/${workflow.id}/execute`;
  const request = { method: "POST", path, body: { input: workflow.initial_input || {} }, bearer: "CONSOLE_TOKEN" };
  return html`<div class="scroll">
    <div class="page tabpage">
      <section class="slab pad form">
        <${Address} label=${t.functions.address} text=${config.base_url + path} note=${t.workflows.startNote} />
        <${Address} label=${t.workflows.id} text=${workflow.id} />
      </section>
      <${Calls} base=${config.base_url} calls=${[{ title: t.workflows.startCall, request, why: "" }]} />
    </div>
  </div>`;
}

/** @param {{base: WorkflowPath, workflow: Api.Workflow, onClose: () => void, done: (run: string) => void}} props */
function Start({ base, workflow, onClose, done }) {
  const [input, setInput] = useState(JSON.stringify(workflow.initial_input || {}, null, 2));
  const wrong = notObject(input);
  return html`<${FormDialog}
    title=${t.workflows.start} onClose=${onClose} action=${t.run} why=${wrong}
    submit=${async () =>
      done((await onApp(`${base}/execute`, { method: "POST", body: { input: JSON.parse(input) } })).execution_id)}
  >
    <${TextAreaField}
      label=${t.workflows.input} value=${input} onInput=${setInput} rows="8" wrong=${wrong}
      help=${t.workflows.inputHelp}
    />
  </${FormDialog}>`;
}

/** What is wrong with a text that should be a JSON object. @param {string} text */
export function notObject(text) {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? "" : t.workflows.objectOnly;
  } catch (error) {
    return t.grid.notJson(/** @type {Error} */ (error).message);
  }
}

/** @param {Props} props */
function Runs({ base, workflow }) {
  const query = place.value.query;
  const offset = Number(query.get("offset")) || 0;
  const status = query.get("status") || "";
  const [line, setLine] = useState("");
  const { data, error, reload, set } = useLoad(
    (signal) => onApp(`${base}/executions`, { query: { limit: PAGE, offset, status }, signal }),
    [base, offset, status],
  );
  const shown = useRef(/** @type {any} */ (null));
  shown.current = { data, set, reload };
  useEffect(() => {
    const abort = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    /** What is shown changes at once; the list is read again at most once a second. @param {any[]} events */
    const take = (events) => {
      const { data: page, set: put } = shown.current;
      if (!page) return;
      const latest = new Map(
        events.filter(({ data: told }) => told.type).map(({ data: told }) => [told.execution_id, told]),
      );
      if (page.data.some((/** @type {any} */ one) => latest.has(one.id)))
        put({
          ...page,
          data: page.data.map((/** @type {any} */ one) =>
            latest.has(one.id) && !isFinal(one.status)
              ? { ...one, status: latest.get(one.id).status, progress: latest.get(one.id).progress || one.progress }
              : one,
          ),
        });
      if (
        events.some(
          (event) =>
            event.type === "execution.created" ||
            isFinal(event.type.replace("execution.", "")) ||
            event.type === "reset",
        )
      )
        timer ??= setTimeout(() => ((timer = undefined), shown.current.reload()), RELOAD_MILLISECONDS);
    };
    follow(`/v1/apps/${appId.peek()}${base}/executions/stream`, abort.signal, take, setLine);
    return () => (abort.abort(), clearTimeout(timer));
  }, [base]);
  return html`
    <div class="strip filters" role="toolbar" aria-label=${t.filters}>
      <select
        class="in small" aria-label=${t.webhooks.state} value=${status}
        onChange=${(/** @type {Typed} */ event) => change({ status: event.target.value, offset: null })}
      >
        <option value="">${t.webhooks.anyState}</option>
        ${["pending", "running", "completed", "failed", "timeout", "cancelled"].map(
          (name) => html`<option value=${name} selected=${name === status}>
            ${worded(t.workflows.statuses, name)}
          </option>`,
        )}
      </select>
      <span class="grow"></span>
      <span class="s12 soft num">${data && t.workflows.runCount(data.total_count)}</span>
      <span class="line s12 soft">
        ${line === "open"
          ? html`<span class="livedot"></span>${t.webhooks.live}`
          : line === "lost"
            ? html`<${Icon} name="warn" />${t.disconnected}`
            : ""}
      </span>
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.data,
        bones: { rows: 8, columns: 5 },
        empty: html`<${Empty}
          title=${t.workflows.noRuns} text=${workflow.steps.length ? t.workflows.noRunsText : t.workflows.noStepsText}
        >
          ${!workflow.steps.length && html`<a
            class="b" href=${href(`/apps/${appId.value}/workflows/${workflow.id}/steps`)}
          >
            ${t.workflows.addSteps}
          </a>`}
        </${Empty}>`,
        columns: html`
          <th>${t.activity.when}</th>
          <th>${t.webhooks.state}</th>
          <th>${t.workflows.startedBy}</th>
          <th>${t.workflows.steps}</th>
          <th class="r">${t.functions.duration}</th>
        `,
        row: (one) => html`<tr key=${one.id}>
          <td class="main num">
            <a
              class="cover" href=${href(`/apps/${appId.value}/workflows/${workflow.id}/runs/${one.id}`)}
              title=${one.created_at}
            >
              ${moment(one.started_at || one.created_at)}
            </a>
          </td>
          <td>
            <${State} look=${LOOKS[one.status]}>
              ${worded(t.workflows.statuses, one.status)}
              ${
                one.error &&
                (one.error.message
                  ? html`
                      ${" "}<span class="soft s12 cut wide why" title=${plain(one.error.code, 40)}>
                        ${plain(one.error.message, 120)}
                      </span>
                    `
                  : html` <code class="soft s12 wide">${plain(one.error.code, 40)}</code>`)
              }
            </${State}>
            ${one.status === "completed" && one.failed_steps > 0 && html`
              ${" "}<${Pill} kind="warn" icon="warn">${t.workflows.failedSteps(one.failed_steps)}</${Pill}>
            `}
          </td>
          <td class="wide soft"><${Trigger} trigger=${one.trigger} /></td>
          <td class="wide num soft">${t.workflows.progress(one.progress.completed, one.progress.total)}</td>
          <td class="r wide">${one.duration === null ? "" : duration(one.duration)}</td>
        </tr>`,
      })}
    </div>
    <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
  `;
}

/** @param {Props} props */
function TriggerTab(props) {
  return may("editor")
    ? html`<${TriggerUrl} ...${props} />`
    : html`<${Empty} title=${t.workflows.hiddenTrigger} text=${t.needs.editor} />`;
}

/** @param {Props} props */
function TriggerUrl({ base, workflow, set }) {
  const path = /** @type {const} */ (`${base}/trigger`);
  const [dialog, setDialog] = useState("");
  // A workflow without a trigger is no error.
  const { data, error, reload } = useLoad(
    (signal) => onApp(path, { signal }).catch((failed) => (failed.status === 404 ? null : Promise.reject(failed))),
    [path],
  );
  const told = () => onApp(base).then(set, complain);
  const create = useAction(async () => (await onApp(path, { method: "POST", body: {} }), reload(), told()));
  const put = (/** @type {any} */ body) => onApp(path, { method: "PATCH", body }).then(reload, complain);
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  if (data === undefined) return html`<${Bones} rows=${4} columns=${2} />`;
  if (data === null)
    return html`<${Empty} title=${t.workflows.noTrigger} text=${t.workflows.noTriggerText}>
      <${Button} kind="go" icon="plus" busy=${create.busy} why=${why()} onClick=${create.run}>
        ${t.workflows.createTrigger}
      </${Button}>
      ${create.error && html`<p class="state bad">${said(create.error)}</p>`}
    </${Empty}>`;
  const dedupe = data.dedupe?.header ? `header ${data.dedupe.header}` : data.dedupe?.path || "";
  return html`
    <div class="scroll">
      <div class="page narrowpage">
        <section class="slab pad">
          <div class="line">
            <h2 class="grow"><label for="trigger-on">${t.workflows.triggerUrl}</label></h2>
            <input
              id="trigger-on" type="checkbox" class="switch" checked=${data.is_active} disabled=${!may("editor")}
              title=${why() || undefined} onChange=${() => put({ is_active: !data.is_active })}
            />
          </div>
          <p class="soft s13">${t.workflows.triggerText}</p>
          <div class="secret"><code>${data.trigger_url}</code><${Copy} text=${data.trigger_url} label=${t.copy} /></div>
          <p class="s12 soft">
            ${data.last_called_at ? t.workflows.lastCalled(moment(data.last_called_at)) : t.workflows.neverCalled}
            ${data.previous_until && ` ${t.workflows.previousUntil(moment(data.previous_until))}`}
          </p>
          <fieldset class="field plain">
            <legend class="label">${t.workflows.methods}</legend>
            <div class="line">
              ${/** @type {const} */ (["POST", "PUT", "GET"]).map(
                (name) => html`<label
                  class="check"
                  title=${data.methods.length === 1 && data.methods[0] === name ? t.workflows.oneMethod : undefined}
                >
                  <input
                    type="checkbox" checked=${data.methods.includes(name)}
                    disabled=${!may("editor") || (data.methods.length === 1 && data.methods[0] === name)}
                    onChange=${(/** @type {Typed} */ event) =>
                      put({
                        methods: event.target.checked
                          ? [...data.methods, name]
                          : data.methods.filter((/** @type {string} */ one) => one !== name),
                      })}
                  />
                  ${name}
                </label>`,
              )}
            </div>
          </fieldset>
          <div class="line wrap">
            <p class="s13 grow">
              ${t.workflows.dedupe}
              ${" "}${data.dedupe === null
                ? t.workflows.dedupeOff
                : dedupe
                  ? html`<code>${plain(dedupe, 200)}</code>`
                  : t.workflows.dedupeUsual}
            </p>
            <${Button} kind="small" icon="edit" why=${why()} onClick=${() => setDialog("dedupe")}>
              ${t.workflows.dedupeEdit}
            </${Button}>
          </div>
          <div class="line">
            <${Button} icon="key" why=${why()} onClick=${() => setDialog("rotate")}>${t.workflows.rotate}</${Button}>
            <${Button} kind="bad" icon="trash" why=${why()} onClick=${() => setDialog("delete")}>
              ${t.workflows.deleteTrigger}
            </${Button}>
          </div>
        </section>
        <${Call} url=${data.trigger_url} methods=${data.methods} workflow=${workflow} called=${reload} />
      </div>
    </div>
    ${dialog === "dedupe" && html`<${DedupeDialog}
      known=${data.dedupe} onClose=${() => setDialog("")}
      save=${async (/** @type {any} */ dedupe) => (
        await onApp(path, { method: "PATCH", body: { dedupe } }),
        setDialog(""),
        reload()
      )}
    />`}
    ${dialog === "rotate" && html`<${Confirm}
      title=${t.workflows.rotateTitle} text=${t.workflows.rotateText} action=${t.workflows.rotate}
      onClose=${() => setDialog("")}
      run=${async () => (
        await onApp(`${path}/rotate`, { method: "POST", body: {} }),
        toast(t.workflows.rotated),
        reload()
      )}
    />`}
    ${dialog === "delete" && html`<${Confirm}
      title=${t.workflows.deleteTriggerTitle} text=${t.workflows.deleteTriggerText} action=${t.workflows.deleteTrigger}
      onClose=${() => setDialog("")} run=${async () => (await onApp(path, { method: "DELETE" }), reload(), told())}
    />`}
  `;
}

/**
 * By what a repeated delivery is known.
 * @param {{known: {header?: string, path?: string} | null, onClose: () => void, save: (dedupe: any) =>
 *   Promise<unknown>}}
 *   props
 */
function DedupeDialog({ known, onClose, save }) {
  const [by, setBy] = useState(known === null ? "nothing" : known.header ? "header" : known.path ? "path" : "usual");
  const [header, setHeader] = useState(known?.header || "");
  const [path, setPath] = useState(known?.path || "$.id");
  const value =
    by === "nothing" ? null : by === "header" ? { header: header.trim() } : by === "path" ? { path: path.trim() } : {};
  return html`<${FormDialog}
    title=${t.workflows.dedupeTitle} onClose=${onClose} submit=${() => save(value)} action=${t.save}
    why=${by === "header" && !header.trim() && t.workflows.headerFirst}
  >
    <${SelectField}
      label=${t.workflows.dedupeBy} value=${by} onInput=${setBy} options=${Object.entries(t.workflows.dedupeWays)}
      help=${t.workflows.dedupeHelp} data-first
    />
    ${by === "header" && html`<${TextField}
      label=${t.workflows.header} value=${header} onInput=${setHeader} class="mono" maxlength="100" spellcheck="false"
      autocomplete="off" placeholder="X-GitHub-Delivery"
    />`}
    ${by === "path" && html`<${TextField}
      label=${t.workflows.pathOf} value=${path} onInput=${setPath} class="mono" maxlength="200" spellcheck="false"
      autocomplete="off" placeholder="$.id"
    />`}
  </${FormDialog}>`;
}

/**
 * A test call, as another service would send it.
 * @param {{url: string, methods: string[], workflow: Api.Workflow, called: () => void}} props
 */
function Call({ url, methods, workflow, called }) {
  const [method, setMethod] = useState(methods[0]);
  const [body, setBody] = useState(JSON.stringify(workflow.initial_input || {}, null, 2));
  const [answer, setAnswer] = useState(/** @type {{status: number, text: string, run: string} | null} */ (null));
  const used = methods.includes(method) ? method : methods[0];
  const call = useAction(async () => {
    const got = await fetch(url, {
      method: used,
      credentials: "omit",
      headers: used === "GET" ? {} : { "Content-Type": "application/json" },
      body: used === "GET" ? undefined : body,
    });
    const text = await got.text();
    let run = "";
    try {
      run = JSON.parse(text).execution_id || "";
    } catch {
      // The first function of a workflow may answer with any text.
    }
    setAnswer({ status: got.status, text: text.slice(0, 4000), run });
    called();
  });
  return html`<section class="slab pad" aria-label=${t.workflows.testCall}>
    <h2>${t.workflows.testCall}</h2>
    <div class="form">
      ${methods.length > 1 && html`<${SelectField}
        label=${t.workflows.method} value=${used} onInput=${setMethod} options=${methods.map((one) => [one, one])}
      />`}
      ${used !== "GET" && html`<${TextAreaField}
        label=${t.workflows.bodyOf} value=${body} onInput=${setBody} rows="6"
      />`}
      <div class="actions">
        <${Button} icon="bolt" busy=${call.busy} why=${why()} onClick=${call.run}>${t.webhooks.send}</${Button}>
      </div>
    </div>
    ${call.error && html`<p class="notice bad" role="alert"><span>${t.unreachable}</span></p>`}
    ${answer && html`
      <div role="status">
        <${State} look=${answer.status < 400 ? ["ok", "done"] : ["bad", "fail"]}>${answer.status}</${State}>
        ${answer.run && html`
          ${" "}<a class="link" href=${href(`/apps/${appId.value}/workflows/${workflow.id}/runs/${answer.run}`)}>
            ${t.workflows.showRun}
          </a>
        `}
      </div>
      <${Code} text=${answer.text} label=${t.webhooks.answer} />
    `}
  </section>`;
}

/** @param {Props} props */
function Versions({ base, workflow }) {
  const offset = Number(place.value.query.get("offset")) || 0;
  const chosen = Number(place.value.query.get("version")) || 0;
  const numbers = Array.from(
    { length: Math.min(PAGE, workflow.version - offset) },
    (_, at) => workflow.version - offset - at,
  );
  const known = useLoad(
    (signal) => (chosen ? onApp(`${base}/versions/${chosen}`, { signal }) : Promise.resolve(null)),
    [base, chosen],
  );
  const before = useLoad(
    (signal) => (chosen > 1 ? onApp(`${base}/versions/${chosen - 1}`, { signal }) : Promise.resolve(null)),
    [base, chosen],
  );
  const adopt = () => {
    keepDraft(workflow, definitionOf(known.data));
    go(`/apps/${appId.value}/workflows/${workflow.id}/steps`);
  };
  const text = (/** @type {any} */ one) => (one ? JSON.stringify(definitionOf(one), null, 2) : "");
  return html`<div class=${`split ${chosen ? "opened broadpanel" : ""}`}>
    <div class="listbox">
      <div class="scroll">
        <table class="list">
          <thead><tr><th>${t.sites.version}</th></tr></thead>
          <tbody>
            ${numbers.map(
              (number) => html`<tr key=${number} class=${number === chosen ? "on" : ""}>
                <td class=${`main ${number === chosen ? "upright" : ""}`}>
                  <button
                    type="button" class="coverbutton" aria-pressed=${number === chosen ? "true" : "false"}
                    onClick=${() => change({ version: number === chosen ? null : String(number) })}
                  >
                    v${number}
                  </button>
                  ${" "}${number === workflow.version && html`<${Pill} icon="check">${t.workflows.inForce}</${Pill}>`}
                </td>
              </tr>`,
            )}
          </tbody>
        </table>
      </div>
      <${Pager}
        offset=${offset} limit=${PAGE} total=${workflow.version}
        onChange=${(/** @type {number} */ next) => change({ offset: next ? String(next) : null })}
      />
    </div>
    ${chosen > 0 && html`<aside class="panel" aria-label=${t.workflows.changesOf(chosen)}>
      <header>
        <b class="grow cut">${t.workflows.changesOf(chosen)}</b>
        <${Button} kind="flat small" icon="cross" label=${t.close} onClick=${() => change({ version: null })} />
      </header>
      ${known.error
        ? html`<${Failure} error=${known.error} retry=${known.reload} />`
        : known.data === undefined || before.data === undefined
          ? html`<${Bones} rows=${8} columns=${1} />`
          : html`
              <pre
                class="code diff tall" tabindex="0" role="region" aria-label=${t.workflows.changesOf(chosen)}
              >${shortened(lines(text(before.data), text(known.data))).map((line) =>
                line
                  ? html`<span class=${line.kind}>
                      ${line.kind === "added" ? "+ " : line.kind === "removed" ? "− " : "  "}
                      ${line.text}
                      ${"\n"}
                    </span>`
                  : html`<span class="soft">…${"\n"}</span>`,
              )}</pre>
              <footer>
                <span class="s12 soft">${count(known.data.steps.length)} ${t.workflows.steps}</span>
                <span class="grow"></span>
                <${Button} kind="small" icon="edit" why=${why()} onClick=${adopt}>${t.workflows.adopt}</${Button}>
              </footer>
            `}
    </aside>`}
  </div>`;
}
