/** One function: its code with a test run, versions, calls, log, metrics, variables, triggers and settings. */
import { html, useEffect, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, may, onApp, opened, tables } from "../state/app.js";
import { change, go, href, place } from "../state/router.js";
import { lines, shortened } from "../ui/diff.js";
import { Editor as CodeEditor } from "../ui/editor.js";
import { useEventTypes } from "../ui/event-types.js";
import { ago, clock, count, moment, plain, prose, shortMoment, shortcut, size } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { ListPager, listing } from "../ui/listing.js";
import {
  Bones,
  Button,
  Choice,
  Code,
  Confirm,
  Copy,
  Empty,
  Failure,
  FormDialog,
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
import { Address, Calls, RunAs, useMember, usePublicKey } from "../ui/calls.js";
import { TraceLink } from "./context.js";
import { LOOKS, Logs, Metrics } from "./function-use.js";
import { callers, starter } from "./functions.js";

export const head = () => ({
  title: plain(opened.value, 60) || t.functions.one,
  crumbs: [{ text: t.sectionNames.functions, href: href(`/apps/${appId.value}/functions`) }],
});

const PAGE = 50;
const TABS = ["", "call", "versions", "runs", "logs", "metrics", "variables", "triggers", "settings"];
const why = () => denied("editor");
/**
 * What was typed and is not deployed, by function: it stays while one looks at other screens.
 * @type {Map<string, Record<string, string>>}
 */
const edits = new Map();
/** The payload of the last test run, by function. @type {Map<string, string>} */
const payloads = new Map();

/** @param {{fn: string, config: Api.ConsoleConfig}} props */
export function Screen({ fn: id, config }) {
  const wanted = place.value.path.split("/")[5] || "";
  const tab = TABS.includes(wanted) ? wanted : "";
  const base = /** @type {const} */ (`/functions/${encodeURIComponent(id)}`);
  const own = `/apps/${appId.value}/functions/${id}`;
  const loaded = useLoad((signal) => onApp(base, { signal }), [appId.value, base]);
  useTitle(loaded.data?.name);
  if (loaded.error)
    return html`<div class="page">
      <div class="slab"><${Failure} error=${loaded.error} retry=${loaded.reload} /></div>
    </div>`;
  const props = { base, fn: loaded.data, reload: loaded.reload, set: loaded.set, config };
  const Tab = /** @type {any} */ ({
    "": Editor,
    call: HowToCall,
    versions: Versions,
    runs: Runs,
    logs: Logs,
    metrics: Metrics,
    variables: Variables,
    triggers: Triggers,
    settings: Settings,
  })[tab];
  return html`<div class="data">
    <div class="strip tabstrip">
      <${Tabs}
        label=${t.functions.one}
        items=${TABS.map((name) => ({
          href: href(name ? `${own}/${name}` : own),
          text: worded(t.functions.tabs, name || "code"),
          on: name === tab,
        }))}
      />
    </div>
    ${loaded.data ? html`<${Tab} ...${props} />` : html`<${Bones} rows=${6} />`}
  </div>`;
}

/**
 * @typedef {{base: FunctionPath, fn: any, reload: () => void, set: (fn: Api.Function) => void, config:
 *   Api.ConsoleConfig}} Props
 */

/** Its address, and the call that the access level allows. @param {Props} props */
function HowToCall({ fn, config }) {
  const key = usePublicKey();
  const as = useMember();
  const level = fn.invoke_access;
  const path = `/v1/public/functions/${fn.name}/invoke`;
  const body = { payload: JSON.parse(payloads.get(fn.id) || '{"name": "Ada"}') };
  const request = {
    method: "POST",
    path,
    body,
    ...(level === "Secret"
      ? { bearer: "SECRET_KEY" }
      : { key: key || "pk_…", ...(level === "AppMember" ? { bearer: "ACCESS_TOKEN" } : {}) }),
  };
  const blocked =
    level === "Secret"
      ? ""
      : (key === null && t.noPublicKey) ||
        (fn.active_version === null && t.functions.deployFirst) ||
        (level === "AppMember" && !as.member && t.api.memberFirst);
  return html`<div class="scroll">
    <div class="page tabpage">
      <section class="slab pad form">
        <${Address}
          label=${t.functions.address} text=${config.base_url + path} note=${worded(t.functions.callTexts, level)}
        />
        <${Address} label=${t.functions.id} text=${fn.id} />
      </section>
      ${level === "AppMember" && html`<div class="line"><span class="grow"></span><${RunAs} ...${as} /></div>`}
      <${Calls}
        base=${config.base_url} token=${as.token} calls=${[{ title: t.functions.callTitle, request, why: blocked }]}
      />
      <p class="soft s13">${t.functions.inside}</p>
      <${Code} text=${`const { result } = await ctx.functions.invoke(${JSON.stringify(fn.name)}, ${JSON.stringify(body.payload)});`} />
    </div>
  </div>`;
}

/** @param {Props} props */
function Editor(props) {
  return may("editor")
    ? html`<${Source} ...${props} />`
    : html`<${Empty} title=${t.functions.hidden} text=${t.needs.editor} />`;
}

/** @param {Props} props */
function Source({ base, fn, reload }) {
  const {
    data,
    error,
    reload: again,
  } = useLoad(
    async (signal) => {
      const active =
        fn.active_version === null ? null : onApp(`${base}/versions/${fn.active_version}/source`, { signal });
      const [source, draft] = await Promise.all([active, onApp(`${base}/draft`, { signal })]);
      return { files: source?.files || {}, draft };
    },
    [base, fn.active_version],
  );
  if (error) return html`<${Failure} error=${error} retry=${again} />`;
  if (data === undefined) return html`<${Bones} rows=${10} columns=${1} />`;
  return html`<${Workbench}
    key=${fn.active_version} base=${base} fn=${fn} deployed=${data.files} stored=${data.draft} reload=${reload}
  />`;
}

/**
 * `stored` is what a test run left on the server, maybe from another browser.
 * @param {{base: FunctionPath, fn: Api.Function, deployed: Record<string, string>, stored: {files: Record<string,
 *   string> | null,
 *   stored_at: string | null}, reload: () => void}} props
 */
function Workbench({ base, fn, deployed, stored, reload }) {
  const [files, setFiles] = useState(
    edits.get(fn.id) || (Object.keys(deployed).length ? deployed : starter(fn.runtime)),
  );
  const names = Object.keys(files).sort();
  const [open, setOpen] = useState(names[0]);
  const [payload, setPayload] = useState(payloads.get(fn.id) || '{\n  "name": "Ada"\n}');
  const [result, setResult] = useState(/** @type {any} */ (null));
  const [dialog, setDialog] = useState("");
  const [older, setOlder] = useState(
    alike(stored.files || deployed, edits.get(fn.id) || deployed) ? null : stored.files,
  );
  const changed = JSON.stringify(sorted(files)) !== JSON.stringify(sorted(deployed));
  useEffect(() => {
    if (changed) edits.set(fn.id, files);
    else edits.delete(fn.id);
    const guard = (/** @type {BeforeUnloadEvent} */ event) => event.preventDefault();
    if (changed) addEventListener("beforeunload", guard);
    return () => removeEventListener("beforeunload", guard);
  }, [files, changed]);
  const edit = (/** @type {string} */ text) =>
    setFiles((/** @type {Record<string, string>} */ before) => ({ ...before, [open]: text }));
  const run = useAction(async () => {
    // What was answered before is no answer to this run.
    setResult(null);
    setOlder(null);
    const given = JSON.parse(payload || "{}");
    if (changed) await onApp(`${base}/draft`, { method: "PUT", body: { files } });
    setResult(
      await onApp(`${base}/invoke`, { method: "POST", body: { payload: given, version: changed ? "draft" : null } }),
    );
  });
  const continued = () => {
    setFiles(/** @type {Record<string, string>} */ (older));
    setOpen(Object.keys(older || {}).sort()[0]);
    setOlder(null);
  };
  const mark = run.error ? placeIn(said(run.error), names) : null;
  return html`
    ${older && html`<p class="notice info olddraft" role="status">
      <${Icon} name="clock" />
      <span class="grow">${t.functions.oldDraft(shortMoment(stored.stored_at || ""))}</span>
      <${Button} kind="small" onClick=${continued}>${t.functions.continueDraft}</${Button}>
      <${Button} kind="flat small" icon="cross" label=${t.dismiss} onClick=${() => setOlder(null)} />
    </p>`}
    <div class="workbench">
      <div class="files">
        <div class="strip">
          <b class="s13 grow">${t.sites.files}</b>
          <${Button}
            kind="flat small" icon="plus" label=${t.functions.newFile} why=${why()} onClick=${() => setDialog("file")}
          />
        </div>
        <ul>
          ${names.map(
            (name) => html`<li key=${name}>
              <button
                type="button" class=${name === open ? "on" : ""} aria-pressed=${name === open ? "true" : "false"}
                onClick=${() => setOpen(name)}
              >
                <${Icon} name="file" />
                <span class="cut grow">${plain(name, 60)}</span>
                ${files[name] !== deployed[name] && html`<span class="dot" title=${t.functions.edited}></span>`}
              </button>
              ${name === open && names.length > 1 && html`<${Button}
                kind="flat small bad" icon="trash" label=${t.functions.removeFile(name)} why=${why()}
                onClick=${() => (
                  setFiles(Object.fromEntries(Object.entries(files).filter(([one]) => one !== name))),
                  setOpen(names.find((one) => one !== name) || "")
                )}
              />`}
            </li>`,
          )}
        </ul>
      </div>
      <div class="codebox">
        <${CodeEditor}
          key=${open} language=${languageOf(open)} label=${open} numbers readOnly=${!!why()} value=${files[open] ?? ""}
          onInput=${edit} onSave=${run.run} mark=${mark?.file === open ? mark : null}
        />
      </div>
      <aside class="trial" aria-label=${t.functions.test}>
        <div class="strip">
          <b class="s13 grow">${t.functions.test}</b>
          <${Button} kind="small" icon="bolt" busy=${run.busy} why=${why()} onClick=${run.run}>
            ${changed ? t.functions.runDraft : t.run}
          </${Button}>
          <${Button}
            kind="go small" icon="out" why=${why() || (!changed && t.unchanged)} onClick=${() => setDialog("deploy")}
          >
            ${t.functions.deploy}
          </${Button}>
        </div>
        <div class="scroll pad">
          <${TextAreaField}
            label=${t.functions.payload} rows="5" value=${payload}
            onInput=${(/** @type {string} */ text) => (payloads.set(fn.id, text), setPayload(text))}
          />
          ${run.error && html`<p class="notice bad" role="alert">
            <${Icon} name="fail" />
            <span>
              ${run.error instanceof SyntaxError ? t.grid.notJson(run.error.message) : said(run.error)}
              ${mark && html`
                ${" "}<button type="button" class="link" onClick=${() => setOpen(mark.file)}>
                  ${t.functions.atLine(mark.file, mark.line)}
                </button>
              `}
            </span>
          </p>`}
          ${result && html`<section role="status">
            <p class="line">
              <${State} look=${LOOKS[result.status]}>
                ${worded(t.functions.outcomes, result.status) || result.status}
              </${State}>
              <span class="soft s12 num">
                ${count(Math.round(result.duration))}
                ${" "}ms${result.start ? ` · ${worded(t.functions.starts, result.start)}` : ""}
              </span>
            </p>
            ${result.success
              ? html`<${Code}
                  text=${(JSON.stringify(result.result, null, 2) ?? "null").slice(0, 20000)} label=${t.functions.result}
                />`
              : html`<p class="notice bad">
                  <span>
                    ${plain(result.error || "", 2000)}
                    ${result.error_code && html` <code class="soft s12">${plain(result.error_code, 40)}</code>`}
                  </span>
                </p>`}
            <${Log} lines=${result.logs} />
          </section>`}
          ${!result && !run.error && html`<p class="soft s13">${t.functions.testHelp(shortcut("Enter"))}</p>`}
        </div>
      </aside>
      ${dialog === "file" && html`<${NewFile}
        taken=${names}
        add=${(/** @type {string} */ name) => (setFiles({ ...files, [name]: "" }), setOpen(name), setDialog(""))}
        onClose=${() => setDialog("")}
      />`}
      ${dialog === "deploy" && html`<${Deploy}
        base=${base} files=${files} deployed=${deployed} onClose=${() => setDialog("")}
        done=${(/** @type {any} */ version) => (
          edits.delete(fn.id),
          setDialog(""),
          toast(t.sites.deployed(version.version)),
          reload()
        )}
      />`}
    </div>
  `;
}

/**
 * How a file is coloured, by the end of its name.
 * @param {string} name
 * @returns {import("../ui/editor.js").Language}
 */
const languageOf = (name) =>
  /\.py$/.test(name) ? "python" : /\.json$/.test(name) ? "json" : /\.[cm]?[jt]sx?$/.test(name) ? "typescript" : "text";

/** @param {Record<string, string>} a @param {Record<string, string>} b */
const alike = (a, b) => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));

/**
 * Where in a file an error lies, by its words: `index.ts:1:38`, or Python's `File "main.py", line 3`.
 * @param {string} text
 * @param {string[]} names
 * @returns {{file: string, line: number, column: number, text: string} | null}
 */
function placeIn(text, names) {
  for (const pattern of [/([\w@./-]+):(\d+)(?::(\d+))?/g, /([\w@./-]+\.py)[")]*,? line (\d+)()/g])
    for (const [, path, line, column] of text.matchAll(pattern)) {
      const file = names.find((name) => path === name || path.endsWith(`/${name}`));
      if (file) return { file, line: Number(line), column: Number(column) || 1, text };
    }
  return null;
}

/** @param {Record<string, string>} files */
const sorted = (files) => Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1));

/** The log of a call. @param {{lines: Api.LogLine[] | null}} props */
const Log = ({ lines: all }) =>
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

/** @param {{taken: string[], add: (name: string) => void, onClose: () => void}} props */
function NewFile({ taken, add, onClose }) {
  const [name, setName] = useState("");
  return html`<${FormDialog}
    title=${t.functions.newFile} onClose=${onClose} submit=${async () => add(name.trim())} action=${t.functions.newFile}
    why=${(!name.trim() && t.nameFirst) || (taken.includes(name.trim()) && t.functions.taken)}
  >
    <${TextField}
      label=${t.sites.path} value=${name} onInput=${setName} placeholder="lib/tax.ts" spellcheck="false"
      autocomplete="off"
    />
  </${FormDialog}>`;
}

/**
 * What changes, before it does.
 * @param {{base: FunctionPath, files: Record<string, string>, deployed: Record<string, string>, onClose: () => void,
 *   done:
 *   (version: Api.FunctionVersion) => void}} props
 */
function Deploy({ base, files, deployed, onClose, done }) {
  const [message, setMessage] = useState("");
  const differing = [...new Set([...Object.keys(deployed), ...Object.keys(files)])]
    .sort()
    .filter((name) => deployed[name] !== files[name]);
  return html`<${FormDialog}
    class="broad" title=${t.functions.deploy} onClose=${onClose}
    submit=${async () =>
      done(await onApp(`${base}/versions`, { method: "POST", body: { files, message, activate: true } }))}
    action=${t.functions.deploy}
  >
    <${TextField} label=${t.sites.message} value=${message} onInput=${setMessage} maxlength="500" optional />
    ${differing.map(
      (name) => html`<div class="field" key=${name}>
        <span class="label"><code>${plain(name, 80)}</code></span>
        <pre class="code diff" tabindex="0" role="region" aria-label=${name}>${shortened(
          lines(deployed[name] ?? "", files[name] ?? ""),
        ).map((line) =>
          line
            ? html`<span class=${line.kind}>
                ${line.kind === "added" ? "+ " : line.kind === "removed" ? "− " : "  "}
                ${line.text}
                ${"\n"}
              </span>`
            : html`<span class="soft">…${"\n"}</span>`,
        )}</pre>
      </div>`,
    )}
  </${FormDialog}>`;
}

/** @param {Props} props */
function Versions({ base, fn, reload }) {
  const offset = Number(place.value.query.get("offset")) || 0;
  const [chosen, setChosen] = useState(/** @type {any} */ (null));
  const {
    data,
    error,
    reload: again,
  } = useLoad(
    (signal) => onApp(`${base}/versions`, { query: { limit: PAGE, offset }, signal }),
    [base, fn.active_version, offset],
  );
  return html`
    <div class="scroll">
      ${listing({
        loaded: { error, reload: again },
        items: data?.data,
        bones: { rows: 5 },
        empty: html`<${Empty} title=${t.functions.noVersions} text=${t.functions.noVersionsText} />`,
        columns: html`
          <th>${t.sites.version}</th>
          <th>${t.sites.message}</th>
          <th>${t.functions.runtimeVersion}</th>
          <th class="r">${t.tables.size}</th>
          <th>${t.activity.when}</th>
          <th></th>
        `,
        row: (one) => html`<tr key=${one.id}>
          <td class="main">
            <span class="line">
              <b>v${one.version}</b>
              ${one.is_active && html`<${Pill} icon="bolt">${t.functions.called}</${Pill}>`}
            </span>
          </td>
          <td class="wide cut">
            ${plain(one.message, 100)}
            ${one.error && html`<p class="state bad failed s12">${plain(one.error, 300)}</p>`}
            ${one.warnings.map(
              (/** @type {string} */ warning) => html`<p class="state warn failed s12">${plain(warning, 300)}</p>`,
            )}
          </td>
          <td class="wide soft">${plain(one.runtime_version, 40)}</td>
          <td class="r wide">${size(one.source_bytes)}</td>
          <td class="soft">${ago(one.created_at)}</td>
          <td class="fit">
            ${!one.is_active && one.status === "ready" && html`<${Button}
              kind="small" why=${why()} onClick=${() => setChosen(one)}
            >
              ${one.version < (fn.active_version || 0) ? t.sites.rollBack : t.functions.activate}
            </${Button}>`}
          </td>
        </tr>`,
      })}
    </div>
    <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
    ${chosen && html`<${Confirm}
      title=${t.functions.activateTitle(chosen.version)} text=${t.functions.activateText} action=${t.functions.activate}
      onClose=${() => setChosen(null)}
      run=${async () => (
        await onApp(`${base}/versions/${chosen.version}/activate`, { method: "POST" }),
        toast(t.functions.activated(chosen.version)),
        reload(),
        again()
      )}
    />`}
  `;
}

/** @param {Props} props */
function Runs({ base, fn }) {
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

/** @param {Props} props */
function Variables({ base, fn }) {
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const { data, error, reload } = useLoad((signal) => onApp(`${base}/env`, { signal }), [base]);
  const create = html`<${Button} kind="go" icon="plus" why=${why()} onClick=${() => setDialog({ name: "" })}>
    ${t.functions.addVariable}
  </${Button}>`;
  return html`
    <div class="strip roomy">
      <span class="soft s13">${t.functions.variablesText}</span>
      <span class="grow"></span>
      ${data?.variables.length ? create : null}
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.variables,
        bones: { rows: 3, columns: 2 },
        empty: html`<${Empty} title=${t.functions.noVariables} text=${t.functions.noVariablesText}>
          ${create}
        </${Empty}>`,
        columns: html`<th>${t.name}</th><th>${t.tables.changed}</th><th></th>`,
        row: (one) => html`<tr key=${one.scope + one.name}>
          <td class="main">
            <code>${plain(one.name, 80)}</code> ${one.scope === "app" && html`<${Pill}>${t.functions.ofApp}</${Pill}>`}
          </td>
          <td class="soft">${ago(one.updated_at)}</td>
          <td class="fit">
            ${one.scope === "function" && html`
              <${Button}
                kind="flat small" icon="edit" label=${t.functions.setVariable(one.name)} why=${why()}
                onClick=${() => setDialog({ name: one.name, known: true })}
              />
              <${Button}
                kind="flat small bad" icon="trash" label=${t.functions.deleteVariable(one.name)} why=${why()}
                onClick=${() => setDialog({ gone: one.name })}
              />
            `}
          </td>
        </tr>`,
      })}
    </div>
    ${
      dialog &&
      (dialog.gone
        ? html`<${Confirm}
            title=${t.functions.deleteVariable(dialog.gone)} text=${t.functions.deleteVariableText}
            action=${t.grid.delete} onClose=${() => setDialog(null)}
            run=${async () => (
              await onApp(`${base}/env/${encodeURIComponent(dialog.gone)}`, { method: "DELETE" }),
              reload()
            )}
          />`
        : html`<${VariableDialog} base=${base} known=${dialog} onClose=${() => (setDialog(null), reload())} />`)
    }
  `;
}

/** @param {{base: FunctionPath, known: {name: string, known?: boolean}, onClose: () => void}} props */
function VariableDialog({ base, known, onClose }) {
  const [name, setName] = useState(known.name);
  const [value, setValue] = useState("");
  return html`<${FormDialog}
    title=${known.known ? t.functions.setVariable(name) : t.functions.addVariable} onClose=${onClose}
    submit=${async () => (
      await onApp(`${base}/env/${encodeURIComponent(name.trim())}`, { method: "PUT", body: { value } }),
      onClose()
    )}
    action=${t.save} why=${!name.trim() && t.nameFirst}
  >
    <${TextField}
      label=${t.name} value=${name} onInput=${setName} disabled=${known.known} placeholder="API_KEY" spellcheck="false"
      autocomplete="off"
    />
    <${TextAreaField}
      label=${t.grid.value} help=${t.functions.valueHelp} rows="3" autocomplete="off" value=${value} onInput=${setValue}
    />
  </${FormDialog}>`;
}

/** @param {Props} props */
function Triggers({ base, fn }) {
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const { data, error, reload } = useLoad(
    (signal) => onApp(`${base}/triggers`, { query: { limit: 100 }, signal }),
    [base],
  );
  const list = data?.data;
  const create = html`<${Button} kind="go" icon="plus" why=${why()} onClick=${() => setDialog({})}>
    ${t.functions.addTrigger}
  </${Button}>`;
  const turn = (/** @type {any} */ one) =>
    onApp(`${base}/triggers/${one.id}`, { method: "PATCH", body: { is_active: !one.is_active } }).then(
      reload,
      complain,
    );
  return html`
    <div class="strip roomy">
      <span class="soft s13">${t.functions.triggersText}</span>
      <span class="grow"></span>
      ${list?.length ? create : null}
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: list,
        bones: { rows: 3, columns: 3 },
        empty: html`<${Empty} title=${t.functions.noTriggers} text=${t.functions.noTriggersText}>${create}</${Empty}>`,
        columns: html`<th>${t.functions.trigger}</th><th>${t.functions.next}</th><th></th>`,
        row: (/** @type {any} */ one) => html`<tr key=${one.id}>
          <td class="main">
            <span class="line">
              <${Icon} name=${one.type === "schedule" ? "clock" : "bolt"} />
              <code class="cut">
                ${one.type === "schedule" ? plain(one.cron, 60) : plain(one.events.join(", "), 100)}
              </code>
              ${one.timezone && html`<span class="soft s12 wide">${plain(one.timezone, 40)}</span>`}
            </span>
          </td>
          <td class="soft wide">${one.next_run_at ? moment(one.next_run_at) : ""}</td>
          <td class="fit">
            <input
              type="checkbox" class="switch" aria-label=${t.webhooks.on} checked=${one.is_active}
              disabled=${!may("editor")} title=${why() || undefined} onChange=${() => turn(one)}
            />
            ${" "}<${Button}
              kind="flat small bad" icon="trash" label=${t.functions.deleteTrigger} why=${why()}
              onClick=${() => setDialog({ gone: one })}
            />
          </td>
        </tr>`,
      })}
    </div>
    ${
      dialog &&
      (dialog.gone
        ? html`<${Confirm}
            title=${t.functions.deleteTrigger} text=${t.functions.deleteTriggerText} action=${t.functions.deleteTrigger}
            onClose=${() => setDialog(null)}
            run=${async () => (await onApp(`${base}/triggers/${dialog.gone.id}`, { method: "DELETE" }), reload())}
          />`
        : html`<${NewTrigger} base=${base} onClose=${() => (setDialog(null), reload())} />`)
    }
  `;
}

/** @param {{base: FunctionPath, onClose: () => void}} props */
function NewTrigger({ base, onClose }) {
  const [type, setType] = useState("schedule");
  const [cron, setCron] = useState("0 7 * * *");
  const [zone, setZone] = useState(Intl.DateTimeFormat().resolvedOptions().timeZone);
  const [event, setEvent] = useState("row.created");
  const [table, setTable] = useState("");
  const types = useEventTypes();
  const names = types.length ? types : ["row.created"];
  const body =
    type === "schedule"
      ? { type, cron, timezone: zone }
      : { type, events: [event], ...(table ? { table_id: table } : {}) };
  return html`<${FormDialog}
    title=${t.functions.addTrigger} onClose=${onClose}
    submit=${async () => (await onApp(`${base}/triggers`, { method: "POST", body }), onClose())}
    action=${t.functions.addTrigger}
  >
    <${SelectField}
      label=${t.functions.trigger} value=${type} onInput=${setType}
      options=${[
        ["schedule", t.functions.bySchedule],
        ["event", t.functions.byEvent],
      ]}
    />
    ${type === "schedule"
      ? html`
          <${TextField}
            label=${t.functions.cron} value=${cron} onInput=${setCron} help=${t.functions.cronHelp} spellcheck="false"
            class="mono"
          />
          <${TextField} label=${t.functions.zone} value=${zone} onInput=${setZone} spellcheck="false" />
        `
      : html`
          <${SelectField}
            label=${t.webhooks.type} value=${event} onInput=${setEvent}
            options=${names.map((/** @type {string} */ name) => [name, name])}
          />
          ${event.startsWith("row") && html`<${SelectField}
            label=${t.functions.ofTable} value=${table} onInput=${setTable}
            options=${[
              ["", t.functions.anyTable],
              ...(tables.value || []).map((one) => /** @type {[string, string]} */ ([one.id, plain(one.title, 60)])),
            ]}
          />`}
        `}
  </${FormDialog}>`;
}

/** @param {Props} props */
function Settings({ base, fn, set }) {
  const [form, setForm] = useState({
    name: fn.name,
    description: fn.description,
    invoke_access: fn.invoke_access,
    timeout_seconds: String(fn.timeout_seconds),
    memory_mb: String(fn.memory_mb),
    mode: fn.egress.mode,
    hosts: fn.egress.hosts.join("\n"),
  });
  const [gone, setGone] = useState(false);
  const put = (/** @type {string} */ name) => (/** @type {string} */ value) => setForm({ ...form, [name]: value });
  const save = useAction(async () => {
    const { mode, hosts, timeout_seconds, memory_mb, ...rest } = form;
    set(
      await onApp(base, {
        method: "PATCH",
        body: {
          ...rest,
          timeout_seconds: Number(timeout_seconds),
          memory_mb: Number(memory_mb),
          egress: { mode, hosts: mode === "allowlist" ? hosts.split(/\s+/).filter(Boolean) : [] },
        },
      }),
    );
    toast(t.saved);
  });
  const turn = () => onApp(base, { method: "PATCH", body: { is_active: !fn.is_active } }).then(set, complain);
  const wrong = !/^\d+(\.\d+)?$/.test(form.timeout_seconds) || !/^\d+$/.test(form.memory_mb);
  return html`
    <div class="scroll">
      <div class="page narrowpage">
        <section class="slab pad">
          <h2>${t.sites.tabs.settings}</h2>
          <form class="form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), save.run())}>
            <${TextField}
              label=${t.name} value=${form.name} onInput=${put("name")} required maxlength="63" spellcheck="false"
            />
            <${TextField}
              label=${t.tables.description} value=${form.description} onInput=${put("description")} maxlength="1000"
              optional
            />
            <${Choice}
              label=${t.functions.mayCall} value=${form.invoke_access} onInput=${put("invoke_access")}
              options=${callers()}
            />
            <${TextField}
              label=${t.functions.seconds} value=${form.timeout_seconds} onInput=${put("timeout_seconds")}
              inputmode="decimal"
            />
            <${TextField}
              label=${t.functions.megabytes} value=${form.memory_mb} onInput=${put("memory_mb")} inputmode="numeric"
            />
            <${SelectField}
              label=${t.functions.network} value=${form.mode} onInput=${put("mode")}
              options=${[
                ["none", t.functions.networkNone],
                ["allowlist", t.functions.networkSome],
                ["public", t.functions.networkPublic],
              ]}
            />
            ${form.mode === "allowlist" && html`<${TextAreaField}
              label=${t.functions.hosts} help=${t.functions.hostsHelp} rows="3" placeholder="api.example.com"
              value=${form.hosts} onInput=${put("hosts")}
            />`}
            ${save.error && html`<p class="notice bad" role="alert">
              <${Icon} name="fail" />
              <span>${said(save.error)}</span>
            </p>`}
            <div class="actions">
              <${Button} kind="go" type="submit" busy=${save.busy} why=${why() || (wrong && t.wholeNumber)}>
                ${t.save}
              </${Button}>
            </div>
          </form>
        </section>
        <section class="slab pad">
          <div class="line">
            <h2 class="grow"><label for="fn-on">${t.functions.isOn}</label></h2>
            <input
              id="fn-on" type="checkbox" class="switch" checked=${fn.is_active} disabled=${!may("editor")}
              title=${why() || undefined} onChange=${turn}
            />
          </div>
          <p class="soft s13">${t.functions.isOnText}</p>
        </section>
        <section class="slab pad">
          <h2>${t.functions.delete}</h2>
          <p class="soft s13">${t.functions.deleteText}</p>
          <p>
            <${Button} kind="bad" icon="trash" why=${why()} onClick=${() => setGone(true)}>
              ${t.functions.delete}
            </${Button}>
          </p>
        </section>
      </div>
    </div>
    ${gone && html`<${Confirm}
      title=${t.files.deleteTitle(plain(fn.name, 60))} text=${t.functions.deleteText} action=${t.functions.delete}
      name=${fn.name} onClose=${() => setGone(false)}
      run=${async () => (await onApp(base, { method: "DELETE" }), go(`/apps/${appId.value}/functions`))}
    />`}
  `;
}
