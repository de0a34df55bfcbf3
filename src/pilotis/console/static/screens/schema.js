/** The schema of a table: changes are collected, reviewed, and then made one after the other. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, loadTables, ofApp, onApp } from "../state/app.js";
import { draftOf, keepDraft } from "../state/drafts.js";
import { href, place } from "../state/router.js";
import { plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Bones, Button, Empty, Failure, FormDialog, Pill, said, toast, useLoad } from "../ui/widgets.js";
import { CHECKS, ChecksButton, changedChecks, checksOf, checksText } from "./checks.js";
import { newColumn, referenceOf, Refers, refersOf, targetsOf, TYPES } from "./columns.js";

/**
 * @typedef {{key: number, name: string, type: string, required: boolean, encrypted: boolean, refers: string, onDelete:
 *   string, checks: Record<string, any>, description: string, fallback: string, was?: any, gone?: boolean}} Draft
 */
/**
 * @typedef {{kind: "added" | "dropped" | "changed" | "renamed", name: string, notes: string[], send: () =>
 *   Promise<any>}} Change
 */

/** Defaults that are made for each row, by the column's type. @type {Record<string, string[]>} */
const MADE = {
  date: ['{"$now": true}'],
  uuid: ['{"$uuid": true}'],
  string: ['{"$member": "id"}', '{"$member": "nickname"}'],
};

/** @param {any} column @returns {Draft} */
const draftFor = (column) =>
  /** @type {Draft} */ (
    newColumn(
      /** @type {any} */ ({
        name: column.name,
        type: column.data_type === "bool" ? "boolean" : column.data_type,
        required: column.is_required,
        encrypted: column.encrypted,
        refers: refersOf(column.references),
        onDelete: column.references?.on_delete || "restrict",
        checks: checksOf(column),
        description: column.description || "",
        fallback: column.default_value === null ? "" : JSON.stringify(column.default_value),
        was: column,
      }),
    )
  );

/** What a draft refers to, in words. @param {Draft} draft */
function referred(draft) {
  const reference = referenceOf(draft);
  const target = targetsOf(draft.type).find((one) => one.value === draft.refers);
  return reference && target ? `→ ${target.text}, ${worded(t.tables.onDelete, reference.on_delete)}` : "";
}

/**
 * What the drafts change, in the order in which it is made.
 * @param {Draft[]} drafts
 * @param {string} tableId
 * @returns {Change[]}
 */
function changesOf(drafts, tableId) {
  const path = /** @type {const} */ (`/v1/public/tables/${tableId}/columns`);
  const dataType = (/** @type {string} */ type) => (type === "boolean" ? "bool" : type);
  const fallback = (/** @type {string} */ text) => (text.trim() ? JSON.parse(text) : null);
  return drafts.flatMap((draft) => {
    const { was } = draft;
    const address = was && `${path}/${encodeURIComponent(was.name)}`;
    if (!was) {
      if (!draft.name.trim() || draft.gone) return [];
      const body = {
        name: draft.name.trim(),
        data_type: dataType(draft.type),
        is_required: draft.required,
        encrypted: draft.encrypted,
        description: draft.description || null,
        default_value: fallback(draft.fallback),
        references: referenceOf(draft),
        ...draft.checks,
      };
      return [
        /** @type {Change} */ ({
          kind: "added",
          name: body.name,
          notes: [
            draft.type,
            draft.required ? t.grid.required : "",
            draft.encrypted ? t.tables.encrypted : "",
            referred(draft),
          ].filter(Boolean),
          send: () => ofApp(path, { method: "POST", body }),
        }),
      ];
    }
    if (draft.gone)
      return [
        /** @type {Change} */ ({
          kind: "dropped",
          name: was.name,
          notes: [t.tables.toTrash],
          send: () => ofApp(address, { method: "DELETE" }),
        }),
      ];
    /** @type {Record<string, unknown>} */
    const body = {};
    const notes = [];
    if (dataType(draft.type) !== was.data_type)
      ((body.data_type = dataType(draft.type)), notes.push(`${was.data_type} → ${draft.type}`));
    if (draft.required !== was.is_required)
      ((body.is_required = draft.required), notes.push(draft.required ? t.tables.nowRequired : t.tables.nowOptional));
    if (draft.encrypted !== was.encrypted)
      ((body.encrypted = draft.encrypted), notes.push(draft.encrypted ? t.tables.nowEncrypted : t.tables.nowPlain));
    if (draft.description !== (was.description || ""))
      ((body.description = draft.description || null), notes.push(t.tables.description));
    if (draft.fallback.trim() !== (was.default_value === null ? "" : JSON.stringify(was.default_value)))
      ((body.default_value = fallback(draft.fallback)), notes.push(t.tables.fallback));
    const before = referenceOf({
      ...draft,
      refers: refersOf(was.references),
      onDelete: was.references?.on_delete || "restrict",
    });
    if (JSON.stringify(referenceOf(draft)) !== JSON.stringify(before))
      ((body.references = referenceOf(draft)), notes.push(referred(draft) || t.tables.refersNoMore));
    const changed = changedChecks(draft.checks, checksOf(was));
    if (Object.keys(changed).length)
      (Object.assign(body, changed), notes.push(checksText(draft.checks) || t.checks.removed));
    const name = draft.name.trim();
    return [
      ...(notes.length
        ? [
            /** @type {Change} */ ({
              kind: "changed",
              name: was.name,
              notes,
              send: () => ofApp(address, { method: "PATCH", body }),
            }),
          ]
        : []),
      ...(name && name !== was.name
        ? [
            /** @type {Change} */ ({
              kind: "renamed",
              name: was.name,
              notes: [`→ ${plain(name, 63)}`],
              send: () =>
                onApp(`/tables/${tableId}/columns/${encodeURIComponent(was.name)}/rename`, {
                  method: "POST",
                  body: { name },
                }),
            }),
          ]
        : []),
    ];
  });
}

/** The schema that the drafts make of a table, before columns are renamed. @param {Draft[]} drafts */
const schemaOf = (drafts) =>
  Object.fromEntries(
    drafts
      .filter((draft) => !draft.gone && (draft.was || draft.name.trim()))
      .map((draft) => [
        draft.was?.name || draft.name.trim(),
        {
          type: draft.type,
          required: draft.required,
          encrypted: draft.encrypted,
          description: draft.description || null,
          default: draft.fallback.trim() ? JSON.parse(draft.fallback) : null,
          references: referenceOf(draft),
          ...Object.fromEntries(CHECKS.map((name) => [name, draft.checks[name] ?? null])),
        },
      ]),
  );

/** @param {string} text */
function isJson(text) {
  try {
    if (text.trim()) JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** @param {{table: import("../state/app.js").Table, tabs: Markup}} props */
export function Schema({ table, tabs }) {
  const path = /** @type {const} */ (`/v1/public/tables/${table.id}/columns`);
  const { data, error, reload } = useLoad((signal) => ofApp(path, { signal }), [path]);
  const kept = `schema ${table.id}`;
  const [drafts, setDrafts] = useState(/** @type {Draft[] | null} */ (draftOf(kept) || null));
  const [review, setReview] = useState(false);
  const saved = useRef(!drafts);
  useEffect(() => {
    // While a column is being rewritten, its progress is read again and again: what was typed meanwhile stays.
    if (!data || (!saved.current && changes.length)) return;
    saved.current = false;
    setDrafts(data.columns.map(draftFor));
  }, [data]);
  // What led here by the name of a column shows that one.
  const wanted = place.value.query.get("column");
  useEffect(() => {
    const field =
      wanted &&
      [...document.querySelectorAll("[data-column]")].find(
        (one) => /** @type {HTMLElement} */ (one).dataset.column === wanted,
      );
    if (field) /** @type {HTMLElement} */ (field).focus();
  }, [wanted, !drafts]);
  const rewriting = data?.columns.some((column) => column.migrating);
  useEffect(() => {
    if (!rewriting) return;
    const timer = setTimeout(reload, 2000);
    return () => clearTimeout(timer);
  }, [rewriting, data]);
  const why = denied("editor");
  const bad = drafts?.find((draft) => !isJson(draft.fallback));
  const changes = drafts && !bad ? changesOf(drafts, table.id) : [];
  useEffect(() => keepDraft(kept, drafts && (changes.length || bad) ? drafts : undefined), [drafts]);
  const set = (/** @type {number} */ key, /** @type {Partial<Draft>} */ part) =>
    setDrafts((drafts || []).map((draft) => (draft.key === key ? { ...draft, ...part } : draft)));
  // Kept edits are here before the columns are.
  const discard = () => {
    saved.current = !data;
    setDrafts(data ? data.columns.map(draftFor) : null);
  };
  const add = () =>
    setDrafts([
      ...(drafts || []),
      /** @type {Draft} */ (newColumn(/** @type {any} */ ({ description: "", fallback: "" }))),
    ]);
  return html`<div class="data">
    <div class="strip tabstrip">
      ${tabs}
      <span class="grow"></span>
      ${changes.length > 0 && html`<${Button} kind="flat small" onClick=${discard}>${t.tables.discard}</${Button}>`}
      <${Button}
        kind="go small" why=${why || (bad && t.tables.badDefault(bad.name)) || (!changes.length && t.unchanged)}
        onClick=${() => setReview(true)}
      >
        ${t.tables.review(changes.length)}
      </${Button}>
    </div>
    <div class="scroll">
      ${!drafts
        ? error
          ? html`<${Failure} error=${error} retry=${reload} />`
          : html`<${Bones} rows=${8} columns=${5} />`
        : !drafts.length
          ? html`<${Empty} title=${t.tables.freeForm} text=${t.tables.freeFormText}>
              <${Button} icon="plus" why=${why} onClick=${add}>${t.tables.addColumn}</${Button}>
            </${Empty}>`
          : html`
              <table class="list schema">
                <thead>
                  <tr>
                    <th>${t.name}</th>
                    <th>${t.tables.type}</th>
                    <th>${t.grid.required}</th>
                    <th>${t.tables.encrypted}</th>
                    <th>${t.tables.fallback}</th>
                    <th>${t.tables.description}</th>
                    <th></th>
                  </tr>
                </thead>
                <tbody>
                  ${(drafts || []).map(
                    (draft) => html`<tr key=${draft.key} title=${why || undefined} class=${draft.gone ? "gone" : ""}>
                      <td class="main">
                        ${draft.was
                          ? html`<span class="line">
                              <${Icon} name=${draft.encrypted ? "lock" : `t-${draft.type}`} />
                              <input
                                class="in bare" aria-label=${t.tables.renameColumn(draft.was.name)} maxlength="63"
                                value=${draft.name} disabled=${!!why || draft.gone} spellcheck="false"
                                onInput=${(/** @type {Typed} */ event) => set(draft.key, { name: event.target.value })}
                              />
                              ${draft.was.migrating && html`<${Pill} kind="info" icon="run">
                                ${t.tables.rewriting}
                              </${Pill}>`}
                            </span>`
                          : html`<input
                              class="in" aria-label=${t.tables.columnName(0)} placeholder=${t.tables.columnPlaceholder}
                              maxlength="63" value=${draft.name} spellcheck="false"
                              onInput=${(/** @type {Typed} */ event) => set(draft.key, { name: event.target.value })}
                            />`}
                      </td>
                      <td>
                        <select
                          class="in" data-column=${draft.was?.name} aria-label=${t.tables.columnType(draft.name)}
                          disabled=${!!why || draft.gone} value=${draft.type}
                          onChange=${(/** @type {Typed} */ event) =>
                            set(draft.key, {
                              type: event.target.value,
                              checks: event.target.value === draft.was?.data_type ? checksOf(draft.was) : {},
                            })}
                        >
                          ${TYPES.map(
                            (type) => html`<option value=${type} selected=${type === draft.type}>${type}</option>`,
                          )}
                        </select>
                        <${Refers}
                          draft=${draft} why=${why || draft.gone}
                          onChange=${(/** @type {Partial<Draft>} */ part) => set(draft.key, part)}
                        />
                        <${ChecksButton}
                          name=${draft.name} type=${draft.type} checks=${draft.checks}
                          why=${why || (draft.gone && t.tables.toTrash)}
                          onChange=${(/** @type {Record<string, any>} */ checks) => set(draft.key, { checks })}
                        />
                      </td>
                      <td data-label=${t.grid.required}>
                        <input
                          type="checkbox" class="tickbox" aria-label=${`${t.grid.required}: ${draft.name}`}
                          disabled=${!!why || draft.gone} checked=${draft.required}
                          onChange=${(/** @type {Typed} */ event) => set(draft.key, { required: event.target.checked })}
                        />
                      </td>
                      <td class="wide">
                        <input
                          type="checkbox" class="tickbox" aria-label=${`${t.tables.encrypted}: ${draft.name}`}
                          disabled=${!!why || draft.gone} checked=${draft.encrypted}
                          onChange=${(/** @type {Typed} */ event) =>
                            set(draft.key, { encrypted: event.target.checked })}
                        />
                      </td>
                      <td class="wide">
                        <input
                          class="in mono" aria-label=${`${t.tables.fallback}: ${draft.name}`}
                          aria-invalid=${isJson(draft.fallback) ? undefined : "true"}
                          placeholder=${draft.type === "string" ? '"…"' : "…"} disabled=${!!why || draft.gone}
                          list=${`made-${draft.type}`} value=${draft.fallback} spellcheck="false"
                          onInput=${(/** @type {Typed} */ event) => set(draft.key, { fallback: event.target.value })}
                        />
                      </td>
                      <td class="wide">
                        <input
                          class="in" aria-label=${`${t.tables.description}: ${draft.name}`}
                          disabled=${!!why || draft.gone} maxlength="2000" value=${draft.description}
                          onInput=${(/** @type {Typed} */ event) => set(draft.key, { description: event.target.value })}
                        />
                      </td>
                      <td class="fit">
                        <${Button}
                          kind="flat small" icon=${draft.gone ? "undo" : "trash"}
                          label=${draft.gone ? t.tables.keepColumn(draft.name) : t.tables.removeColumn(draft.name)}
                          why=${why}
                          onClick=${() =>
                            draft.was
                              ? set(draft.key, { gone: !draft.gone })
                              : setDrafts((drafts || []).filter((one) => one.key !== draft.key))}
                        />
                      </td>
                    </tr>`,
                  )}
                </tbody>
              </table>
              ${Object.entries(MADE).map(
                ([type, values]) => html`<datalist id=${`made-${type}`}>
                  ${values.map((value) => html`<option value=${value}></option>`)}
                </datalist>`,
              )}
              <p class="addcolumn">
                <${Button} kind="flat small" icon="plus" why=${why} onClick=${add}>${t.tables.addColumn}</${Button}>
              </p>
            `}
    </div>
    ${review && html`<${Review}
      changes=${changes} schema=${schemaOf(drafts || [])} table=${table} onClose=${() => setReview(false)}
      done=${() => ((saved.current = true), reload(), loadTables())}
    />`}
  </div>`;
}

const ICONS = { added: "plus", dropped: "trash", changed: "edit", renamed: "edit" };

/** What a change would do to the rows. @param {{found: any}} props */
function Effect({ found }) {
  const bad = found.rows_that_do_not_fit;
  return html`<div class="effect">
    <p class="s12 soft">${t.tables.rowsWithValue(found.rows)}${bad === null && ` ${t.tables.fitUnknown}`}</p>
    ${bad > 0 && html`<p class="state bad s12"><${Icon} name="fail" />${t.tables.doNotFit(bad)}</p>`}
    ${found.samples.length > 0 && html`<table class="casts">
      <tbody>
        ${found.samples.map(
          (/** @type {any} */ one) => html`<tr>
            <td><code class="cut">${plain(one.before, 80)}</code></td>
            <td class="soft">→</td>
            <td>
              ${one.message
                ? html`<span class="state bad s12">${plain(one.message, 120)}</span>`
                : html`<code class="cut">${plain(one.after, 80)}</code>`}
            </td>
          </tr>`,
        )}
      </tbody>
    </table>`}
  </div>`;
}

/**
 * @param {{changes: Change[], schema: Record<string, any>, table: import("../state/app.js").Table, onClose: () => void,
 *   done: () => void}} props
 */
function Review({ changes, schema, table, onClose, done }) {
  const [made, setMade] = useState(0);
  const [steps] = useState(changes);
  const [body] = useState({ title: table.title, access_level: table.access_level, schema });
  const preview = useLoad(
    (signal) => onApp(`/tables/${table.id}/schema-preview`, { method: "POST", body, signal }),
    [table.id, body],
  );
  /** @param {Change} step */
  const effect = (step) => step.kind !== "renamed" && preview.data?.changes.find((one) => one.name === step.name);
  const apply = async () => {
    let index = made;
    try {
      for (; index < steps.length; index++) {
        await steps[index].send();
        setMade(index + 1);
      }
    } finally {
      // As long as nothing was changed, the edits stay as they are.
      if (index) done();
    }
    toast(t.tables.schemaChanged);
    onClose();
  };
  /** @param {any} error */
  const about = (error) => {
    const ids = error.code === "ROWS_DO_NOT_FIT" ? error.details.map((/** @type {any} */ one) => one.field) : [];
    const where = encodeURIComponent(JSON.stringify({ id: { $in: ids } }));
    return html`
      ${said(error)}
      ${" "}${ids.length > 0 && html`<a
        class="link" href=${href(`/apps/${appId.value}/tables/${table.id}?where=${where}`)}
      >
        ${t.tables.showRows}
      </a>`}
    `;
  };
  return html`<${FormDialog}
    title=${t.tables.reviewTitle} onClose=${onClose} submit=${apply} action=${t.tables.apply}
    kind=${steps.some((step) => step.kind === "dropped") ? "danger" : "go"} about=${about}
  >
    <ul class="planned">
      ${steps.map(
        (step, index) => html`<li>
          <span class=${`state ${step.kind === "dropped" ? "bad" : "ok"}`}>
            <${Icon} name=${index < made ? "done" : ICONS[step.kind]} />
          </span>
          <span>
            <b>${plain(step.name, 63)}</b> ${worded(t.tables.kinds, step.kind)}
            ${" "}<span class="soft">${step.notes.join(", ")}</span>
            ${effect(step) && html`<${Effect} found=${effect(step)} />`}
          </span>
        </li>`,
      )}
    </ul>
    ${preview.loading && html`<p class="s12 soft line" role="status">
      <${Icon} name="run" class="spin" />
      ${t.tables.previewing}
    </p>`}
    ${preview.error && html`<p class="s12 soft">
      ${/** @type {any} */ (preview.error).code === "QUERY_TIMEOUT" ? t.tables.tooLarge : said(preview.error)}
    </p>`}
    ${preview.data?.locks === "background" && html`<p class="s12 soft">${t.tables.inBackground}</p>`}
    ${steps.some((step) => step.kind === "renamed") && html`<p class="notice warn">
      <${Icon} name="warn" />
      <span>${t.tables.renameNote}</span>
    </p>`}
    ${steps.some((step) => step.kind === "dropped") && html`<p class="soft line">
      <${Icon} name="retry" />
      ${t.tables.dropNote}
    </p>`}
  </${FormDialog}>`;
}
