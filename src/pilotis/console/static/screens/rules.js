/**
 * The rules of a table or of a file storage: who may do what with which rows or files, as a choice for each action and
 * as the whole document.
 */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, loadTables, onApp, tables } from "../state/app.js";
import { draftOf, keepDraft } from "../state/drafts.js";
import { Editor } from "../ui/editor.js";
import { plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { proposals } from "../ui/rule-words.js";
import {
  Bones,
  Button,
  Confirm,
  Failure,
  MenuButton,
  MenuItem,
  SelectField,
  State,
  TextAreaField,
  TextField,
  said,
  toast,
  useAction,
  useLoad,
} from "../ui/widgets.js";

const ACTIONS = /** @type {const} */ (["list", "read", "create", "update", "delete"]);
const MEMBER = { $member: {} };
const OWN = { $creator: { $member: "id" } };
/** The rules that have a name, in the order in which they open a table. @type {[string, any][]} */
const NAMED = [
  ["nobody", null],
  ["own", OWN],
  ["members", MEMBER],
  ["everybody", true],
];

/** @param {any} rule */
const nameOf = (rule) =>
  rule === undefined
    ? "absent"
    : NAMED.find(([, one]) => JSON.stringify(one) === JSON.stringify(rule))?.[0] || "custom";

/** @param {any} rules */
const text = (rules) => JSON.stringify(rules, null, 2);

/** @param {string} source @returns {any} */
function parsed(source) {
  try {
    const found = JSON.parse(source);
    return found && typeof found === "object" && !Array.isArray(found) ? found : undefined;
  } catch {
    return undefined;
  }
}

/**
 * @param {{action: "list" | "read" | "create" | "update" | "delete", rules: any, words: Words, why: string | false,
 *   choose: (rule: any) => void}} props
 */
function Action({ action, rules, words, why, choose }) {
  const chosen = nameOf(rules[action]);
  const names = [
    ...(action === "list" || chosen === "absent" ? ["absent"] : []),
    ...NAMED.map(([name]) => name),
    ...(chosen === "custom" ? ["custom"] : []),
  ];
  const say = (/** @type {string} */ name) =>
    name === "absent"
      ? action === "list"
        ? t.rules.asRead
        : t.rules.who.nobody
      : name === "own"
        ? words.own
        : worded(t.rules.who, name);
  const pick = (/** @type {string} */ name) =>
    name !== "custom" && choose(name === "absent" ? undefined : NAMED.find(([one]) => one === name)?.[1]);
  return html`<tr>
    <td class="main">${t.rules.actions[action]}<div class="soft s12 plain">${words.actionHelp[action]}</div></td>
    <td class="who">
      <select
        class="in" aria-label=${t.rules.actions[action]} disabled=${!!why} title=${why || undefined} value=${chosen}
        onChange=${(/** @type {Typed} */ event) => pick(event.target.value)}
      >
        ${names.map((name) => html`<option value=${name} selected=${name === chosen}>${say(name)}</option>`)}
      </select>
    </td>
  </tr>`;
}

const SAMPLE_FILE = '{"path": "photos/a.png", "size": 1000, "mime_type": "image/png"}';

/** Whether a condition holds. @type {Map<boolean | null, string[]>} */
const HOLDS = new Map([
  [true, ["ok", "done"]],
  [false, ["bad", "fail"]],
  [null, ["idle", "clock"]],
]);

/**
 * What a caller would be answered, by the rules as they are written now. `place` is the field that names a row or a file,
 * `content` the one with what is written.
 * @typedef {{place: string, content: string, first: string, created: string, changed: string, visible: (count: number)
 *   => string}} Tried
 * @param {{address: `${RulesPath}/test`, rules: any, why: string | false, fields: {place: string, content: string, sample:
 *   string}, words: Tried}} props
 */
function Try({ address, rules, why, fields: names, words }) {
  const members = useLoad((signal) => onApp("/members", { query: { limit: 50 }, signal }), [appId.value]);
  const [action, setAction] = useState("read");
  const [caller, setCaller] = useState("public");
  const [facts, setFacts] = useState('{"roles": [], "claims": {}}');
  const [row, setRow] = useState("");
  const [data, setData] = useState(names.sample);
  const [result, setResult] = useState(/** @type {any} */ (null));
  const needsRow = action === "update" || action === "delete";
  const takesData = action === "create" || action === "update";
  const drafted = caller === "drafted" ? parsed(facts) : caller === "public" ? caller : { member_id: caller };
  const fields = takesData ? parsed(data) : {};
  const tried = useAction(async () => {
    setResult(null);
    const given = {
      action,
      as: drafted,
      ...(rules && { rules }),
      ...(row.trim() && action !== "create" && action !== "list" && { [names.place]: row.trim() }),
      ...(takesData && { [names.content]: fields }),
    };
    setResult(await onApp(address, { method: "POST", body: given }));
  });
  const missing = ((!drafted || !fields) && t.rules.notJson) || (needsRow && !row.trim() && words.first);
  return html`<section class="slab pad">
    <h2>${t.rules.try}</h2>
    <p class="soft s13">${t.rules.tryText}</p>
    <div class="pair">
      <${SelectField}
        label=${t.rules.action} value=${action}
        onInput=${(/** @type {string} */ next) => (setAction(next), setResult(null))}
        options=${ACTIONS.map((one) => [one, t.rules.actions[one]])}
      />
      <${SelectField}
        label=${t.rules.tryAs} value=${caller}
        onInput=${(/** @type {string} */ next) => (setCaller(next), setResult(null))}
        options=${[
          ["public", t.rules.who.everybody],
          ["drafted", t.rules.drafted],
          ...(members.data?.data || []).map((one) => [
            one.member_id,
            plain(one.nickname || one.login_id || one.member_id, 60),
          ]),
        ]}
      />
    </div>
    ${caller === "drafted" && html`<${TextAreaField}
      label=${t.rules.facts} help=${t.rules.factsHelp} rows=${2} value=${facts} wrong=${!drafted && t.rules.notJson}
      onInput=${setFacts}
    />`}
    ${action !== "create" && action !== "list" && html`<${TextField}
      label=${words.place} optional=${!needsRow} class="code" value=${row} onInput=${setRow}
    />`}
    ${takesData && html`<${TextAreaField}
      label=${action === "create" ? words.created : words.changed} rows=${3} value=${data}
      wrong=${!fields && t.rules.notJson} onInput=${setData}
    />`}
    <p><${Button} busy=${tried.busy} why=${why || missing} onClick=${tried.run}>${t.rules.try}</${Button}></p>
    <div aria-live="polite">
      ${tried.error && html`<p class="notice bad" role="alert">
        <${Icon} name="fail" />
        <span>${said(tried.error)}</span>
      </p>`}
      ${result && html`
        <p class=${`notice ${result.allowed ? "info" : "bad"}`}>
          <${Icon} name=${result.allowed ? "done" : "fail"} />
          <span>
            <b>${result.allowed ? t.rules.allowed : t.rules.refused}</b>
            ${" "}<code>${result.status}${result.code && ` ${result.code}`}</code>
            ${result.message && html`<br />${plain(result.message, 300)}`}
            ${result.visible_count !== null && html`<br />${words.visible(result.visible_count)}`}
            ${result.allowed && result.visible_columns?.length > 0 && html`
              <br />
              ${t.rules.columns(plain(result.visible_columns.join(", "), 300))}
            `}
          </span>
        </p>
        ${result.parts.length > 0 && html`<table class="list">
          <thead><tr><th>${t.rules.condition}</th><th>${t.rules.holds}</th></tr></thead>
          <tbody>
            ${result.parts.map(
              (/** @type {any} */ one) => html`<tr>
                <td class="main">
                  ${plain(one.words, 300)}
                  <div class="soft s12 plain"><code>${plain(one.place, 120)}</code></div>
                </td>
                <td>
                  <${State} look=${HOLDS.get(one.holds)}>
                    ${t.rules.held[one.holds === null ? "unknown" : one.holds ? "yes" : "no"]}
                  </${State}>
                </td>
              </tr>`,
            )}
          </tbody>
        </table>`}
      `}
    </div>
  </section>`;
}

/** @param {{table: import("../state/app.js").Table, tabs: Markup, config: Api.ConsoleConfig}} props */
export function Rules({ table, tabs }) {
  const words = {
    own: t.rules.who.own,
    lead: t.rules.lead,
    documentText: t.rules.documentText,
    actionHelp: t.rules.actionHelp,
    decides: t.rules.levelDecides(table.access_level),
    removeTitle: t.rules.removeTitle,
    removeText: t.rules.removeText(table.access_level),
  };
  return html`<${RuleEditor}
    address=${`/tables/${table.id}/rules`} tabs=${tabs} words=${words} after=${loadTables} columns=${columnsOf(table)}
    trial=${(/** @type {any} */ draft, /** @type {string | false} */ why) => html`<${Try}
      key=${table.id} address=${`/tables/${table.id}/rules/test`} rules=${draft} why=${why}
      fields=${{ place: "row_id", content: "data", sample: "{}" }} words=${t.rules.tried}
    />`}
  />`;
}

/** What rules of files ask for. @type {import("../ui/rule-words.js").Column[]} */
const FACTS_OF_FILES = [
  ...["path", "name", "folder", "mime_type"].map((name) => ({ name, type: "string" })),
  { name: "size", type: "int" },
  ...Array.from({ length: 8 }, (_, at) => ({ name: `segment.${at}`, type: "string" })),
];

/** @param {import("../state/app.js").Table} table @returns {import("../ui/rule-words.js").Column[]} */
const columnsOf = (table) =>
  Object.entries(table.schema).map(([name, column]) => ({
    name,
    type: typeof column === "string" ? column : column.type,
    values: column.enum,
  }));

/** The rules of a file storage. @param {{storage: Api.Storage, tabs: Markup, after: () => unknown}} props */
export function StorageRules({ storage, tabs, after }) {
  return html`<${RuleEditor}
    address=${`/storages/files/${storage.id}/rules`} tabs=${tabs} words=${t.files.rules} after=${after}
    columns=${FACTS_OF_FILES}
    trial=${(/** @type {any} */ draft, /** @type {string | false} */ why) => html`<${Try}
      key=${storage.id} address=${`/storages/files/${storage.id}/rules/test`} rules=${draft} why=${why}
      fields=${{ place: "path", content: "file", sample: SAMPLE_FILE }} words=${t.files.rules.tried}
    />`}
  />`;
}

/**
 * What differs between rows and files.
 * @typedef {{own: string, lead: string, documentText: string, actionHelp: Record<string, string>, decides: string,
 *   removeTitle: string, removeText: string}} Words
 */

/**
 * @param {{address: RulesPath, tabs: Markup, words: Words, after: () => unknown, columns:
 *   import("../ui/rule-words.js").Column[], trial?: (draft: any, why: string |
 *   false) => Markup}} props
 */
function RuleEditor({ address, tabs, words, after, columns, trial }) {
  const key = `rules ${address}`;
  const { data, error, reload, set } = useLoad((signal) => onApp(address, { signal }), [address]);
  const [source, setSource] = useState(/** @type {string | null} */ (draftOf(key) ?? null));
  const [remove, setRemove] = useState(false);
  const why = denied("editor");
  const saved = data && text(data.rules || data.level_rules);
  const shown = source ?? saved ?? "";
  const isChanged = source !== null && source !== saved;
  const put = (/** @type {string | null} */ next) => setSource(next === saved ? null : next);
  useEffect(() => keepDraft(key, isChanged ? source : undefined), [source, saved]);
  const rules = parsed(shown);
  // While something is being written, the document is none.
  const defined = useRef(/** @type {string[]} */ ([]));
  if (rules) defined.current = Object.keys(rules.define || {});
  const propose = (/** @type {string} */ before) =>
    proposals(
      before,
      {
        columns,
        tables: Object.fromEntries((tables.value || []).map((one) => [one.title, columnsOf(one)])),
        presets: data?.presets || [],
        defined: defined.current,
      },
      t.rules.proposals,
    );
  /** @param {any} document */
  const send = async (document) => {
    const answer = await onApp(address, {
      method: "PUT",
      body: { rules: document, expected_updated_at: data?.updated_at },
    });
    set(answer);
    setSource(null);
    await after();
    toast(t.saved);
  };
  const action = useAction(() => send(rules));
  const place = action.error?.details?.[0]?.field;
  const frame = (/** @type {any} */ children) => html`<div class="stack">
    <div class="strip tabstrip">
      ${tabs}
      <span class="grow"></span>
      ${isChanged && html`<${Button} kind="flat small" onClick=${() => put(null)}>${t.tables.discard}</${Button}>`}
      ${data && html`<${Button}
        kind="go small" busy=${action.busy}
        why=${why || (!rules && t.rules.notJson) || (!isChanged && !!data.rules && t.unchanged)} onClick=${action.run}
      >
        ${t.rules.save}
      </${Button}>`}
    </div>
    <div class="scroll"><div class="page tabpage">${children}</div></div>
  </div>`;
  if (error) return frame(html`<section class="slab"><${Failure} error=${error} retry=${reload} /></section>`);
  if (!data) return frame(html`<section class="slab"><${Bones} rows=${5} columns=${3} /></section>`);
  const choose = (/** @type {string} */ name, /** @type {any} */ rule) => {
    const { [name]: _, ...rest } = rules;
    const next = /** @type {any} */ ({ ...rest, ...(rule === undefined ? {} : { [name]: rule }) });
    // Actions first, in the order in which they are listed.
    put(
      text(
        Object.fromEntries(
          [...ACTIONS, ...Object.keys(next)].filter((one) => one in next).map((one) => [one, next[one]]),
        ),
      ),
    );
  };
  return frame(html`
    ${action.error && html`<p class="notice bad" role="alert">
      <${Icon} name="fail" />
      <span>${said(action.error)}${place && html` <code>${plain(place, 120)}</code>`}</span>
    </p>`}
    ${!data.rules && html`<p class="notice"><${Icon} name="info" /><span>${words.decides}</span></p>`}
    ${data.warnings.map(
      (one) => html`<p class="notice warn">
        <${Icon} name="warn" />
        <span>${plain(one.message, 300)} <code>${plain(one.place, 120)}</code></span>
      </p>`,
    )}
    <section class="slab">
      <header>
        <h2>${t.rules.title}</h2>
        <span class="grow"></span>
        <${MenuButton}
          label=${t.rules.presets} align="right"
          button=${(/** @type {Bind} */ bind) => html`<${Button} kind="small" icon="down" why=${why} ...${bind}>
            ${t.rules.presets}
          </${Button}>`}
        >
          ${(/** @type {() => void} */ close) =>
            data.presets.map(
              (one) => html`<${MenuItem} hint=${one.description} onClick=${() => (close(), put(text(one.rules)))}>
                ${one.name}
              </${MenuItem}>`,
            )}
        </${MenuButton}>
      </header>
      <p class="lead">${words.lead} <a class="link" href="/docs/guides/rules" target="_blank">${t.rules.guide}</a></p>
      ${rules
        ? html`<table class="list">
            <thead><tr><th>${t.rules.action}</th><th>${t.rules.whoMay}</th></tr></thead>
            <tbody>
              ${ACTIONS.map(
                (name) => html`<${Action}
                  action=${name} rules=${rules} words=${words} why=${why}
                  choose=${(/** @type {any} */ rule) => choose(name, rule)}
                />`,
              )}
            </tbody>
          </table>`
        : html`<p class="lead">${t.rules.notJson}</p>`}
    </section>
    <section class="slab pad">
      <h2>${t.rules.document}</h2>
      <p class="soft s13">${words.documentText}</p>
      <${Editor}
        language="json" label=${t.rules.document} rows=${18} value=${shown} readOnly=${!!why} wrong=${!rules}
        onInput=${put} onSave=${() => void (rules && isChanged && action.run())} propose=${propose}
        proposed=${t.rules.proposed}
      />
      <p class="soft s13">${t.rules.proposedHelp}</p>
    </section>
    ${trial?.(isChanged ? rules : undefined, why || (!rules && t.rules.notJson))}
    ${data.rules && html`<section class="slab pad">
      <h2>${t.rules.remove}</h2>
      <p class="soft s13">${words.removeText}</p>
      <p><${Button} kind="bad" why=${why} onClick=${() => setRemove(true)}>${t.rules.remove}</${Button}></p>
    </section>`}
    ${remove && html`<${Confirm}
      title=${words.removeTitle} text=${words.removeText} action=${t.rules.remove} onClose=${() => setRemove(false)}
      run=${() => send(null)}
    />`}
  `);
}
