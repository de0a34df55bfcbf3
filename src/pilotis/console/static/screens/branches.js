/** The branches of an app: created, compared with it, merged into it, deleted. */
import { html, useEffect, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { app, appId, loadApps, loadTables, may, onApp } from "../state/app.js";
import { href } from "../state/router.js";
import { count, date, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import {
  Bones,
  Button,
  Confirm,
  Empty,
  Failure,
  FormDialog,
  Pill,
  SelectField,
  State,
  TextField,
  toast,
  useLoad,
  useReload,
} from "../ui/widgets.js";

const LOOK_MS = 1500;
const MOVES = ["create", "change", "drop", "conflict"];
const LOOKS = /** @type {Record<string, [string, string]>} */ ({
  create: ["ok", "plus"],
  change: ["info", "edit"],
  drop: ["bad", "trash"],
  conflict: ["warn", "warn"],
});
const needs = (/** @type {"owner" | "editor"} */ role) => !may(role) && t.needs[role];

/** @typedef {any} Branch */

export function Branches() {
  const { data, error, reload } = useLoad(
    (signal) => onApp("/branches", { signal, query: { limit: 100 } }),
    [appId.value],
  );
  const [dialog, setDialog] = useState(/** @type {{make?: boolean, merge?: Branch, gone?: Branch} | null} */ (null));
  /** @type {Branch[]} */
  const branches = data?.data || [];
  const isWaiting = branches.some((one) => one.state === "creating");
  useReload(reload, LOOK_MS, isWaiting);
  useEffect(() => (isWaiting ? () => void loadApps().catch(() => {}) : undefined), [isWaiting]);
  const close = () => setDialog(null);
  if (app.value?.parent_app_id)
    return html`<section class="slab"><${Empty} title=${t.branches.isOne} text=${t.branches.isOneText} /></section>`;
  if (error) return html`<section class="slab"><${Failure} error=${error} retry=${reload} /></section>`;
  if (!data) return html`<section class="slab"><${Bones} rows=${3} /></section>`;
  return html`
    <section class="slab">
      <header>
        <h2 class="grow">${t.settings.tabs.branches}</h2>
        <${Button} kind="small" icon="plus" why=${needs("editor")} onClick=${() => setDialog({ make: true })}>
          ${t.branches.make}
        </${Button}>
      </header>
      ${!branches.length
        ? html`<${Empty} title=${t.branches.none} text=${t.branches.noneText} />`
        : html`<table class="list">
            <thead>
              <tr><th>${t.name}</th><th class="wide">${t.branches.has}</th><th>${t.branches.until}</th><th></th></tr>
            </thead>
            <tbody>
              ${branches.map(
                (one) => html`<tr key=${one.branch_id}>
                  <td class="main">
                    ${one.state === "ready"
                      ? html`<a href=${href(`/apps/${one.branch_id}`)}>${plain(one.name, 60)}</a>`
                      : html`<span class="cut">${plain(one.name, 60)}</span>`}
                    ${one.state === "creating" && html`
                      ${" "}<${State} look=${["info", "run"]}>${t.branches.creating}</${State}>
                    `}
                    ${one.state === "failed" && html` <${State} title=${one.error}>${t.branches.failed}</${State}>`}
                  </td>
                  <td class="soft wide">${contents(one)}</td>
                  <td class="soft">${date(one.expires_at)}</td>
                  <td class="fit">
                    <${Button}
                      kind="small" icon="merge" why=${needs("editor") || (one.state !== "ready" && t.branches.notReady)}
                      onClick=${() => setDialog({ merge: one })}
                    >
                      ${t.branches.compare}
                    </${Button}>
                    ${" "}<${Button}
                      kind="flat small bad" icon="trash" label=${t.branches.drop(plain(one.name, 60))}
                      why=${needs("editor")} onClick=${() => setDialog({ gone: one })}
                    />
                  </td>
                </tr>`,
              )}
            </tbody>
          </table>`}
    </section>
    ${dialog?.make && html`<${Make} onClose=${() => (close(), reload())} />`}
    ${dialog?.merge && html`<${Merge} branch=${dialog.merge} onClose=${close} />`}
    ${dialog?.gone && html`<${Confirm}
      title=${t.branches.drop(plain(dialog.gone.name, 60))} text=${t.branches.dropText} action=${t.branches.dropAction}
      onClose=${close}
      run=${async () => (
        await onApp(`/branches/${dialog.gone?.branch_id}`, { method: "DELETE" }),
        reload(),
        await loadApps()
      )}
    />`}
  `;
}

/** @param {Branch} one */
const contents = (one) =>
  /** @type {const} */ (["rows", "members", "files"])
    .filter((name) => one[name] === "all")
    .map((name) => t.branches.parts[name])
    .join(", ") || t.branches.definitions;

/** @param {{onClose: () => void}} props */
function Make({ onClose }) {
  const [name, setName] = useState("");
  const [days, setDays] = useState("14");
  const [wanted, setWanted] = useState(/** @type {Record<string, boolean>} */ ({}));
  const amounts = Object.fromEntries(["rows", "members", "files"].map((part) => [part, wanted[part] ? "all" : "none"]));
  return html`<${FormDialog}
    title=${t.branches.make} action=${t.branches.makeAction} onClose=${onClose} why=${!name && t.branches.nameFirst}
    submit=${async () => {
      await onApp("/branches", { method: "POST", body: { name, ...amounts, days: Number(days) } });
      onClose();
    }}
  >
    <${TextField}
      label=${t.name} value=${name} onInput=${setName} required maxlength="60" pattern="[a-z0-9][a-z0-9._\\/\\-]*"
      help=${t.branches.nameHelp} autocomplete="off"
    />
    <fieldset class="field plain">
      <legend>${t.branches.copies}</legend>
      ${["rows", "members", "files"].map(
        (part) => html`<div>
          <label class="check">
            <input
              type="checkbox" checked=${!!wanted[part]} disabled=${part === "members" && !may("owner")}
              onChange=${() => setWanted({ ...wanted, [part]: !wanted[part] })}
            />
            <span>${worded(t.branches.parts, part)}</span>
          </label>
        </div>`,
      )}
      <small class="soft">${t.branches.quiet}</small>
    </fieldset>
    <${SelectField}
      label=${t.branches.days} value=${days} onInput=${setDays}
      options=${["1", "7", "14", "30", "90"].map((one) => [one, t.branches.nDays(Number(one))])}
    />
  </${FormDialog}>`;
}

/** What a merge would do, part by part. @param {{branch: Branch, onClose: () => void}} props */
function Merge({ branch, onClose }) {
  const { data, error, reload } = useLoad(
    (signal) => onApp(`/branches/${branch.branch_id}/diff`, { signal }),
    [branch.branch_id],
  );
  const [drops, setDrops] = useState(false);
  const [theirs, setTheirs] = useState(false);
  /** @type {any[]} */
  const all = data?.differences || [];
  const has = (/** @type {string} */ step) => all.some((one) => one.step === step);
  const moves = all.filter((one) => MOVES.includes(one.step));
  const merge = async () => {
    const body = { digest: data.digest, drops, theirs };
    try {
      const done = await onApp(`/branches/${branch.branch_id}/merge`, { method: "POST", body });
      toast(t.branches.merged(done.applied.length));
    } catch (error) {
      reload();
      throw error;
    } finally {
      loadTables().catch(() => {});
    }
    onClose();
  };
  const why = !data ? t.loading : !moves.length ? t.branches.same : has("conflict") && !theirs && t.branches.conflicts;
  return html`<${FormDialog}
    title=${t.branches.compareTitle(plain(branch.name, 60))} action=${t.branches.merge} onClose=${onClose} why=${why}
    submit=${merge}
  >
    ${error && html`<${Failure} error=${error} retry=${reload} />`}
    ${!data && !error && html`<${Bones} rows=${4} columns=${2} />`}
    ${data && !all.length && html`<p class="soft">${t.branches.same}</p>`}
    ${all.length > 0 && html`<ul class="changes">
      ${all.map(
        (one) => html`<li key=${`${one.part} ${one.title}`}>
          <span class="line">
            <${Icon} name=${(LOOKS[one.step] || ["", "right"])[1]} class=${`state ${(LOOKS[one.step] || [""])[0]}`} />
            <span class="soft">${worded(t.branches.kinds, one.part)}</span>
            <b class="cut">${plain(one.title, 80)}</b>
            <${Pill} kind=${(LOOKS[one.step] || [""])[0]}>${worded(t.branches.steps, one.step)}</${Pill}>
          </span>
          ${one.columns.map(
            (/** @type {any} */ column) => html`<small class="soft block">
              ${worded(t.branches.columns, column.kind)} ${plain(column.name, 60)}
              ${column.kind === "dropped" && column.rows > 0 && html` · ${t.branches.values(count(column.rows))}`}
              ${column.rows_that_do_not_fit > 0 && html`
                · <span class="state bad">${t.branches.doNotFit(count(column.rows_that_do_not_fit))}</span>
              `}
            </small>`,
          )}
        </li>`,
      )}
    </ul>`}
    ${has("drop") && html`<label class="check">
      <input type="checkbox" checked=${drops} onChange=${() => setDrops(!drops)} />
      <span>${t.branches.drops}</span>
    </label>`}
    ${has("conflict") && html`<label class="check">
      <input type="checkbox" checked=${theirs} onChange=${() => setTheirs(!theirs)} />
      <span>${t.branches.theirs}</span>
    </label>`}
    ${moves.length > 0 && html`<p class="soft s13">${t.branches.rowsStay}</p>`}
  </${FormDialog}>`;
}
