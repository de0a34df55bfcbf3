/** One saved view: its pipeline, its parameters, who may call it, and a call to try. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, denied, loadTables, onApp, opened, tables, tablesError } from "../state/app.js";
import { draftOf, keepDraft } from "../state/drafts.js";
import { Exact, parseExact } from "../state/exact.js";
import { go, href } from "../state/router.js";
import { Address, RunAs, useMember, usePublicKey } from "../ui/calls.js";
import { Editor } from "../ui/editor.js";
import { plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Snippet } from "../ui/snippets.js";
import {
  Bones,
  Button,
  Confirm,
  Empty,
  Failure,
  SelectField,
  TextAreaField,
  TextField,
  said,
  toast,
  useAction,
  useLoad,
  useTitle,
} from "../ui/widgets.js";

/** @param {Record<string, string>} params */
export const head = (params) => ({
  title: params.view === "new" ? t.views.create : plain(opened.value, 63) || t.views.one,
  crumbs: [
    { text: t.sectionNames.tables, href: href(`/apps/${appId.value}/tables`) },
    { text: t.tables.sections.views, href: href(`/apps/${appId.value}/views`) },
  ],
});

/** @typedef {{name: string, type: string, fallback: string}} Parameter `fallback` is JSON, or a text as it is */
/**
 * @typedef {{name: string, table: string, runAs: string, read: string, rule: string, cache: string, description: string,
 *   pipeline: string, params: Parameter[]}} Form
 */

const TYPES = ["string", "number", "int", "boolean", "date", "uuid", "array"];
const TEXTS = ["string", "date", "uuid"];
const MEMBER = '{"$member":{}}';
const READS = /** @type {const} */ (["nobody", "members", "everybody", "custom"]);
const SAMPLES = /** @type {Record<string, any>} */ ({
  string: "text",
  number: 1.5,
  int: 1,
  boolean: true,
  date: "2026-01-31",
  uuid: "0190a6c2-1111-7000-8000-000000000001",
  array: ["text"],
});
const EMPTY = [{ $group: { _id: null, count: { $count: {} } } }];

/** @param {any} value */
const pretty = (value) => JSON.stringify(value, null, 2);

/** @param {string} text @returns {any} undefined for what is no JSON */
function read(text) {
  try {
    return parseExact(text);
  } catch {
    return undefined;
  }
}

/** @param {any} value */
const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** A value of a type from what was typed; undefined for what is none. @param {string} type @param {string} text */
const typed = (type, text) => (TEXTS.includes(type) ? text : read(text));

/**
 * @param {Omit<Api.View, "id" | "table" | "description" | "created_at" | "updated_at"> & {description?: string | null}}
 *   view
 * @returns {Form}
 */
const formOf = (view) => ({
  name: view.name,
  table: view.table_id,
  runAs: view.run_as,
  read:
    view.read === null
      ? "nobody"
      : view.read === true
        ? "everybody"
        : JSON.stringify(view.read) === MEMBER
          ? "members"
          : "custom",
  rule: typeof view.read === "object" && view.read ? pretty(view.read) : '{\n  "$member": {}\n}',
  cache: String(view.cache_seconds),
  description: view.description || "",
  pipeline: pretty(view.pipeline),
  params: Object.entries(view.params).map(([name, one]) => ({
    name,
    type: one.type,
    fallback: "default" in one ? written(one.default) : "",
  })),
});

/** @param {Form} form */
function bodyOf(form) {
  const rule =
    form.read === "custom" ? read(form.rule) : form.read === "members" ? read(MEMBER) : form.read === "everybody";
  return {
    name: form.name,
    table_id: form.table,
    run_as: form.runAs,
    read: form.read === "nobody" ? null : rule,
    cache_seconds: form.runAs === "app" ? Number(form.cache) || 0 : 0,
    description: form.description || null,
    pipeline: read(form.pipeline),
    params: Object.fromEntries(
      form.params.map(({ name, type, fallback }) => [
        name,
        { type, ...(fallback === "" ? {} : { default: typed(type, fallback) }) },
      ]),
    ),
  };
}

/** Why a form cannot be saved; "" where it can. @param {Form} form */
function faultOf(form) {
  const { pipeline, read: rule, params } = bodyOf(form);
  if (!Array.isArray(pipeline) || rule === undefined) return t.views.notJson;
  if (!form.name || !form.table) return t.views.nameFirst;
  if (form.params.some((one) => !one.name || (one.fallback !== "" && params[one.name]?.default === undefined)))
    return t.views.badParameter;
  return "";
}

/** @param {{view: string, config: Api.ConsoleConfig}} props */
export function Screen({ view: id, config }) {
  const isNew = id === "new";
  const { data, error, reload, set } = useLoad(
    (signal) => (isNew ? Promise.resolve(null) : onApp(`/views/${encodeURIComponent(id)}`, { signal, exact: true })),
    [appId.value, id, isNew],
  );
  useTitle(data?.name);
  const fails = (/** @type {unknown} */ why, /** @type {() => void} */ retry) => html`<div class="page">
    <div class="slab"><${Failure} error=${why} retry=${retry} /></div>
  </div>`;
  if (error) return fails(error, reload);
  if (!tables.value && tablesError.value) return fails(tablesError.value, () => void loadTables().catch(() => {}));
  if (data === undefined || !tables.value) return html`<${Bones} rows=${8} />`;
  if (!tables.value.length)
    return html`<${Empty} title=${t.tables.none} text=${t.tables.noneText}>
      <a class="b" href=${href(`/apps/${appId.value}/tables`)}>${t.sectionNames.tables}</a>
    </${Empty}>`;
  return html`<${View} key=${id} view=${data} set=${set} config=${config} />`;
}

/** @param {{view: Api.View | null, set: (view: Api.View) => void, config: Api.ConsoleConfig}} props `view` is null for a new one */
function View({ view, set, config }) {
  const draftKey = `view.${appId.value}.${view?.id || "new"}`;
  const saved = view
    ? formOf(view)
    : formOf({
        name: "",
        table_id: tables.value?.[0]?.id || "",
        run_as: "caller",
        read: true,
        cache_seconds: 0,
        pipeline: EMPTY,
        params: {},
      });
  const [form, setForm] = useState(/** @type {Form} */ (draftOf(draftKey) || saved));
  const [gone, setGone] = useState(false);
  const isChanged = JSON.stringify(form) !== JSON.stringify(saved);
  const put = (/** @type {Partial<Form>} */ next) => {
    const changed = { ...form, ...next };
    keepDraft(draftKey, JSON.stringify(changed) === JSON.stringify(saved) ? undefined : changed);
    setForm(changed);
  };
  const why = denied("editor");
  const fault = faultOf(form);
  const action = useAction(async () => {
    const body = bodyOf(form);
    const now = view
      ? await onApp(`/views/${view.id}`, { method: "PATCH", body, exact: true })
      : await onApp("/views", { method: "POST", body });
    keepDraft(draftKey, undefined);
    toast(t.views.saved);
    if (!view) return go(`/apps/${appId.value}/views/${now.id}`, { replace: true });
    set(now);
    setForm(formOf(now));
    return undefined;
  });
  const place = action.error?.details?.[0]?.field;
  return html`<div class="data">
    <div class="strip">
      <span class="soft s13 cut">${view ? plain(view.table, 60) : ""}</span>
      <span class="grow"></span>
      ${isChanged && html`<${Button} kind="small" onClick=${() => put(saved)}>${t.tables.discard}</${Button}>`}
      ${view && html`<${Button}
        kind="flat small bad" icon="trash" label=${t.views.delete} why=${why} onClick=${() => setGone(true)}
      />`}
      <${Button}
        kind="go small" busy=${action.busy} why=${why || (!isChanged && t.views.unchanged) || fault}
        onClick=${() => void action.run()}
      >
        ${view ? t.save : t.views.create}
      </${Button}>
    </div>
    <div class="pipeline">
      <div class="stages">
        ${action.error && html`<p class="notice bad" role="alert">
          <${Icon} name="fail" />
          <span>${said(action.error)}${place && html` <code>${plain(place, 120)}</code>`}</span>
        </p>`}
        <section class="slab pad form viewform" title=${why || undefined}>
          <${TextField}
            label=${t.name} value=${form.name} maxlength="63" autocomplete="off" required readonly=${!!why}
            help=${t.views.nameHelp} onInput=${(/** @type {string} */ name) => put({ name })}
          />
          <${SelectField}
            label=${t.views.table} value=${form.table} disabled=${!!why}
            options=${(tables.value || []).map((table) => [table.id, plain(table.title, 60)])}
            onInput=${(/** @type {string} */ table) => put({ table })}
          />
          <${SelectField}
            label=${t.views.runAs} value=${form.runAs} disabled=${!!why}
            help=${t.views.wayTexts[/** @type {"caller" | "app"} */ (form.runAs)]}
            options=${[
              ["caller", t.views.ways.caller],
              ["app", t.views.ways.app],
            ]}
            onInput=${(/** @type {string} */ runAs) => put({ runAs })}
          />
          <${SelectField}
            label=${t.views.read} value=${form.read} disabled=${!!why}
            options=${READS.map((name) => [name, name === "custom" ? t.views.byRule : t.rules.who[name]])}
            onInput=${(/** @type {string} */ name) => put({ read: name })}
          />
          ${form.read === "custom" && html`<${TextAreaField}
            label=${t.views.rule} help=${t.views.ruleHelp} rows=${4} value=${form.rule} readonly=${!!why}
            wrong=${read(form.rule) === undefined && t.rules.notJson}
            onInput=${(/** @type {string} */ rule) => put({ rule })}
          />`}
          ${form.runAs === "app" && html`<${TextField}
            label=${t.views.cacheSeconds} type="number" min="0" max="3600" value=${form.cache} readonly=${!!why}
            help=${t.views.cacheHelp} onInput=${(/** @type {string} */ cache) => put({ cache })}
          />`}
          <${TextField}
            label=${t.tables.description} value=${form.description} maxlength="2000" optional readonly=${!!why}
            onInput=${(/** @type {string} */ description) => put({ description })}
          />
        </section>
        <section class="slab pad" title=${why || undefined}>
          <h2>${t.views.params}</h2>
          <p class="soft s13">${t.views.paramsText}</p>
          <${Parameters}
            params=${form.params} why=${why} put=${(/** @type {Parameter[]} */ params) => put({ params })}
          />
        </section>
        <section class="slab pad" title=${why || undefined}>
          <h2>${t.views.pipeline}</h2>
          <p class="soft s13">
            ${t.views.pipelineText} <a class="link" href="/docs/guides/views" target="_blank">${t.rules.guide}</a>
          </p>
          <${Editor}
            language="json" label=${t.views.pipeline} rows=${20} value=${form.pipeline} readOnly=${!!why}
            wrong=${!Array.isArray(read(form.pipeline))}
            onInput=${(/** @type {string} */ pipeline) => put({ pipeline })}
            onSave=${() => void (!why && isChanged && !fault && action.run())}
          />
        </section>
      </div>
      <aside class="panel" aria-label=${t.views.call}>
        <header><b class="grow">${t.views.call}</b></header>
        <${Try} view=${view} config=${config} why=${(!view && t.views.saveFirst) || (isChanged && t.views.saveFirst)} />
      </aside>
    </div>
    ${gone && view && html`<${Confirm}
      title=${t.views.deleteTitle(plain(view.name, 63))} text=${t.views.deleteText} action=${t.views.delete}
      onClose=${() => setGone(false)}
      run=${async () => {
        await onApp(`/views/${view.id}`, { method: "DELETE" });
        keepDraft(draftKey, undefined);
        go(`/apps/${appId.value}/views`);
      }}
    />`}
  </div>`;
}

/** @param {{params: Parameter[], why: string | false, put: (params: Parameter[]) => void}} props */
function Parameters({ params, why, put }) {
  const change = (/** @type {number} */ at, /** @type {Partial<Parameter>} */ next) =>
    put(params.map((one, index) => (index === at ? { ...one, ...next } : one)));
  return html`
    <ol class="params">
      ${params.map(
        (one, at) => html`<li key=${at}>
          <input
            class="in mono" aria-label=${t.views.paramName(at + 1)} placeholder="since" value=${one.name} maxlength="63"
            autocapitalize="off" spellcheck="false" readonly=${!!why}
            onInput=${(/** @type {Typed} */ event) => change(at, { name: event.target.value })}
          />
          <select
            class="in" aria-label=${t.views.paramType(at + 1)} value=${one.type} disabled=${!!why}
            onChange=${(/** @type {Typed} */ event) => change(at, { type: event.target.value })}
          >
            ${TYPES.map((type) => html`<option value=${type} selected=${type === one.type}>${type}</option>`)}
          </select>
          <input
            class="in mono" aria-label=${t.views.paramDefault(at + 1)} placeholder=${t.views.required}
            value=${one.fallback} readonly=${!!why} autocapitalize="off" spellcheck="false"
            aria-invalid=${one.fallback !== "" && typed(one.type, one.fallback) === undefined ? "true" : undefined}
            onInput=${(/** @type {Typed} */ event) => change(at, { fallback: event.target.value })}
          />
          <${Button}
            kind="flat small bad" icon="trash" label=${t.views.removeParam(at + 1)} why=${why}
            onClick=${() => put(params.filter((_, index) => index !== at))}
          />
        </li>`,
      )}
    </ol>
    <p>
      <${Button}
        kind="small" icon="plus" why=${why}
        onClick=${() => put([...params, { name: "", type: "string", fallback: "" }])}
      >
        ${t.views.addParam}
      </${Button}>
    </p>
  `;
}

/**
 * The values of a call: what was typed, else defaults, else samples.
 * @param {Api.View} view @param {Record<string, string>} given
 */
export function valuesOf(view, given = {}) {
  return Object.fromEntries(
    Object.entries(view.params).map(([name, one]) => {
      const text = given[name];
      const value = text ? typed(one.type, text) : undefined;
      return [name, value ?? ("default" in one ? one.default : SAMPLES[one.type])];
    }),
  );
}

/** A call of the saved view as a page of the app would send it. @param {{view: Api.View | null, config: Api.ConsoleConfig, why: string | false}} props */
function Try({ view, config, why }) {
  const key = usePublicKey();
  const as = useMember();
  const [given, setGiven] = useState(/** @type {Record<string, string>} */ ({}));
  const params = view ? Object.entries(view.params) : [];
  const path = `/v1/public/views/${view?.name || "…"}`;
  const request = {
    method: "POST",
    path,
    body: { params: view ? valuesOf(view, given) : {} },
    key: key || "pk_…",
    ...(as.member ? { bearer: "ACCESS_TOKEN" } : {}),
  };
  const query = view
    ? new URLSearchParams(
        Object.entries(request.body.params).map(([name, value]) => [
          name,
          value instanceof Exact ? value.text : written(value),
        ]),
      ).toString()
    : "";
  return html`<div class="valuebox tryview">
    ${params.map(
      ([name, one]) => html`<${TextField}
        key=${name} label=${html`<code>${plain(name, 63)}</code> <span class="soft">${one.type}</span>`}
        value=${given[name] || ""} placeholder=${written("default" in one ? one.default : SAMPLES[one.type])}
        autocapitalize="off" spellcheck="false"
        wrong=${given[name] && typed(one.type, given[name]) === undefined && t.views.notOfType(one.type)}
        onInput=${(/** @type {string} */ text) => setGiven({ ...given, [name]: text })}
      />`,
    )}
    <${RunAs} ...${as} />
    <${Snippet}
      request=${request} base=${config.base_url} why=${why || (key === null && t.noPublicKey)} token=${as.token}
    />
    ${view && html`<${Address}
      label=${t.views.address} text=${`${config.base_url}${path}${query && `?${query}`}`} note=${t.views.addressNote}
    />`}
  </div>`;
}
