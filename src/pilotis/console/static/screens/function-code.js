/** The source of a function: written, run as a draft, compared, deployed; and its versions. */
import { html, useEffect, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { denied, may, onApp } from "../state/app.js";
import { place } from "../state/router.js";
import { lines, shortened } from "../ui/diff.js";
import { Editor as CodeEditor } from "../ui/editor.js";
import { ago, count, plain, shortMoment, shortcut, size } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { ListPager, listing } from "../ui/listing.js";
import {
  Bones,
  Button,
  Code,
  Confirm,
  Empty,
  Failure,
  FormDialog,
  Pill,
  State,
  TextAreaField,
  TextField,
  said,
  toast,
  useAction,
  useLoad,
} from "../ui/widgets.js";
import { LOOKS, Log } from "./function-use.js";
import { starter } from "./functions.js";

/** @typedef {import("./function.js").Props} Props */

const PAGE = 50;
const why = () => denied("editor");

/**
 * What was typed and is not deployed, by function: it stays while one looks at other screens.
 * @type {Map<string, Record<string, string>>}
 */
const edits = new Map();
/** The payload of the last test run, by function. @type {Map<string, string>} */
export const payloads = new Map();
/** @param {Props} props */
export function Editor(props) {
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
export function Versions({ base, fn, reload }) {
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
