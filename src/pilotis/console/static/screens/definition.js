/** The definition of a workflow: its steps as a graph, and beside it the form of the chosen step or of the whole. */
import { html, useEffect, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, onApp } from "../state/app.js";
import { change, guard, place } from "../state/router.js";
import { moment, plain } from "../ui/format.js";
import { Graph, iconOf } from "../ui/graph.js";
import { Icon } from "../ui/icons.js";
import {
  Button,
  Empty,
  FormDialog,
  MenuButton,
  MenuItem,
  SelectField,
  TextAreaField,
  TextField,
  complain,
  said,
  toast,
  useAction,
  useLoad,
} from "../ui/widgets.js";

const FIELDS = [
  "name",
  "description",
  "execution_type",
  "steps",
  "schedule_cron",
  "schedule_timezone",
  "timeout_seconds",
  "max_retries",
  "initial_input",
  "max_concurrency",
  "on_overlap",
];
const KINDS = ["function", "condition", "parallel", "merge", "agent"];
const CHECK_MILLISECONDS = 300;

/** The fields of a workflow that a request to replace it has. @param {any} workflow @returns {any} */
export const definitionOf = (workflow) => Object.fromEntries(FIELDS.map((name) => [name, workflow[name]]));

/**
 * What was changed and is not saved, by workflow: it stays while one looks at other screens.
 * @type {Map<string, any>}
 */
const drafts = new Map();

/** Keep a definition as the draft of a workflow. @param {any} workflow @param {any} definition */
export function keepDraft(workflow, definition) {
  if (JSON.stringify(definition) === JSON.stringify(definitionOf(workflow))) drafts.delete(workflow.id);
  else drafts.set(workflow.id, definition);
}

const why = () => denied("editor");

/** @param {{base: WorkflowPath, workflow: Api.Workflow, set: (workflow: Api.Workflow) => void}} props */
export function Editor({ base, workflow, set }) {
  const [draft, setDraft] = useState(drafts.get(workflow.id) || definitionOf(workflow));
  const [asJson, setAsJson] = useState(false);
  /** Counts what replaces the draft as a whole: the fields then begin again. */
  const [turn, setTurn] = useState(0);
  const begin = (/** @type {any} */ next) => (setDraft(next), setTurn(turn + 1));
  const chosen = place.value.query.get("step") || "";
  const choose = (/** @type {string} */ key) => change({ step: key === chosen ? null : key }, { replace: true });
  const step = chosen && stepAt(draft, chosen);
  const changed = JSON.stringify(draft) !== JSON.stringify(definitionOf(workflow));
  useEffect(() => {
    keepDraft(workflow, draft);
    return changed ? guard(() => t.functions.edited) : undefined;
  }, [draft, workflow]);
  const [check, setCheck] = useState(/** @type {any} */ (null));
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(
      () =>
        onApp("/workflows/validate", { method: "POST", body: draft, signal: abort.signal }).then(
          setCheck,
          (error) => abort.signal.aborted || complain(error),
        ),
      CHECK_MILLISECONDS,
    );
    return () => (clearTimeout(timer), abort.abort());
  }, [draft]);
  const save = useAction(async () => {
    set(await onApp(base, { method: "PUT", body: draft }));
    toast(t.saved);
  });
  /** What is wrong with a field. @param {string} field */
  const wrong = (field) =>
    check?.errors.find(
      (/** @type {any} */ one) =>
        one.field === field || one.field?.startsWith(`${field}.`) || one.field?.startsWith(`${field}[`),
    )?.message;
  const look = (/** @type {any} */ one, /** @type {string} */ key) => {
    const own = check?.errors.some(
      (/** @type {any} */ error) => error.field?.startsWith(`${key}.`) && !error.field.startsWith(`${key}.branches[`),
    );
    return {
      kind: own ? "bad" : "idle",
      icon: own ? "fail" : iconOf(one),
      word: worded(t.workflows.types, one.step_type),
      taken: /** @type {"done"} */ ("done"),
    };
  };
  const add = (/** @type {string} */ kind, /** @type {() => void} */ close) => {
    close();
    const [list, at] = step ? listOf(chosen) : ["steps", draft.steps.length - 1];
    const next = put(draft, list, (steps) => [
      ...steps.slice(0, at + 1),
      { step_type: kind, id: freeId(draft, kind) },
      ...steps.slice(at + 1),
    ]);
    setDraft(next);
    change({ step: `${list}[${at + 1}]` }, { replace: true });
  };
  const adding = html`<${MenuButton}
    label=${t.workflows.addStep}
    button=${(/** @type {Bind} */ bind) => html`<${Button}
      kind="small" icon="plus" why=${why()} ...${why() ? {} : bind}
    >
      ${t.workflows.addStep}
    </${Button}>`}
  >
    ${(/** @type {() => void} */ close) =>
      KINDS.map(
        (kind) => html`<${MenuItem} icon=${iconOf({ step_type: kind })} onClick=${() => add(kind, close)}>
          ${worded(t.workflows.types, kind)} <small class="soft block">${worded(t.workflows.typeTexts, kind)}</small>
        </${MenuItem}>`,
      )}
  </${MenuButton}>`;
  const faults = check?.errors || [];
  return html`
    <div class="strip filters">
      ${adding}
      <${Button} kind="flat small" icon="t-object" onClick=${() => setAsJson(true)}>JSON</${Button}>
      <span class="grow"></span>
      ${faults.length > 0
        ? html`<button
            type="button" class="link state bad" title=${faults[0].message}
            onClick=${() => change({ step: stepOf(faults[0].field) })}
          >
            <${Icon} name="fail" />
            ${t.workflows.faults(faults.length)}
          </button>`
        : check?.warnings.length > 0 &&
          html`<span class="state warn cut" title=${check.warnings.join("\n")}>
            <${Icon} name="warn" />
            <span class="cut">${plain(check.warnings[0], 120)}</span>
          </span>`}
      ${changed && html`<${Button} kind="flat small" icon="undo" onClick=${() => begin(definitionOf(workflow))}>
        ${t.workflows.discard}
      </${Button}>`}
      <${Button}
        kind="go small" icon="check" busy=${save.busy}
        why=${why() || (!changed && t.unchanged) || (faults.length > 0 && faults[0].message)} onClick=${save.run}
      >
        ${t.workflows.save(workflow.version + 1)}
      </${Button}>
    </div>
    ${save.error && html`<p class="notice bad" role="alert">
      <${Icon} name="fail" />
      <span>${said(save.error)}</span>
    </p>`}
    <div class="runsplit editing">
      <div class="runleft">
        ${draft.steps.length
          ? html`<${Graph}
              label=${t.workflows.graph} steps=${draft.steps} type=${draft.execution_type} chosen=${chosen}
              onChoose=${choose} look=${look}
            />`
          : html`<${Empty} title=${t.workflows.noSteps} text=${t.workflows.noStepsText}>${adding}</${Empty}>`}
      </div>
      <aside class="panel" aria-label=${step ? t.workflows.step : t.workflows.one}>
        ${step
          ? html`<${StepForm}
              key=${chosen + turn} place=${chosen} step=${step} draft=${draft} wrong=${wrong}
              edit=${(/** @type {any} */ next) => setDraft(replaced(draft, chosen, next))}
              arrange=${(/** @type {any} */ next, /** @type {string | null} */ key) => (
                setDraft(next),
                change({ step: key }, { replace: true })
              )}
            />`
          : html`<${WholeForm} key=${turn} draft=${draft} edit=${setDraft} wrong=${wrong} check=${check} />`}
      </aside>
    </div>
    ${asJson && html`<${JsonDialog}
      draft=${draft} onClose=${() => setAsJson(false)}
      done=${(/** @type {any} */ next) => (begin(next), setAsJson(false), change({ step: null }))}
    />`}
  `;
}

/** The list that holds a step, and its place there. @param {string} key @returns {[string, number]} */
function listOf(key) {
  const at = key.lastIndexOf("[");
  return [key.slice(0, at), Number(key.slice(at + 1, -1))];
}

/** The step that a field of a definition belongs to. @param {string | null} field */
const stepOf = (field) => /^steps\[\d+\](\.branches\[\d+\]\.steps\[\d+\])*/.exec(field || "")?.[0] || null;

/**
 * The names and numbers of a place such as `steps[2].branches[0].steps[1]`.
 * @param {string} key
 * @returns {(string | number)[]}
 */
const path = (key) =>
  key
    .split(/[.[\]]+/)
    .filter(Boolean)
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));

/** @param {any} draft @param {string} key */
const stepAt = (draft, key) => path(key).reduce((found, part) => found?.[part], draft);

/**
 * A copy in which what stands at a place is another.
 * @param {any} value
 * @param {(string | number)[]} parts
 * @param {(old: any) => any} change
 * @returns {any}
 */
function within(value, [first, ...rest], change) {
  if (first === undefined) return change(value);
  if (Array.isArray(value)) return value.map((one, at) => (at === first ? within(one, rest, change) : one));
  return { ...value, [first]: within(value[first], rest, change) };
}

/** @param {any} draft @param {string} list @param {(steps: Api.Step[]) => any[]} make */
const put = (draft, list, make) => within(draft, path(list), make);
/** @param {any} draft @param {string} key @param {any} step */
const replaced = (draft, key, step) => within(draft, path(key), () => step);

/** All steps in the order of the document. @param {any[]} steps @returns {any[]} */
const all = (steps) =>
  steps.flatMap((step) => [step, ...(step.branches || []).flatMap((/** @type {any} */ branch) => all(branch.steps))]);

/** @param {any} draft @param {string} kind */
function freeId(draft, kind) {
  const taken = new Set(all(draft.steps).map((step) => step.id));
  for (let number = 1; ; number++) if (!taken.has(`${kind}-${number}`)) return `${kind}-${number}`;
}

/** A number, nothing, or what is typed instead, of which the server says what is wrong. @param {string} text */
const numberOf = (text) => (text.trim() === "" ? undefined : Number.isNaN(Number(text)) ? text : Number(text));

/**
 * @param {{place: string, step: any, draft: any, wrong: (field: string) => string | undefined, edit: (step: Api.Step)
 *   =>
 *   void, arrange: (draft: Api.FunctionDraft, key: string | null) => void}} props
 */
function StepForm({ place: key, step, draft, wrong, edit, arrange }) {
  const { data } = useLoad((signal) => onApp("/functions", { query: { limit: 100 }, signal }), [appId.value]);
  const functions = data?.data || [];
  const [list, at] = listOf(key);
  const siblings = stepAt(draft, list);
  const field = (/** @type {string} */ name, /** @type {any} */ value) => {
    const next = { ...step, [name]: value };
    if (value === undefined || value === null || value === "") delete next[name];
    edit(next);
  };
  const move = (/** @type {number} */ by) =>
    arrange(
      put(draft, list, (steps) =>
        steps.map((one, index) => (index === at ? steps[at + by] : index === at + by ? steps[at] : one)),
      ),
      `${list}[${at + by}]`,
    );
  const remove = () =>
    arrange(
      put(draft, list, (steps) => steps.filter((_, index) => index !== at)),
      null,
    );
  const mode = step.branches ? "branches" : step.items !== undefined ? "items" : "rest";
  const setMode = (/** @type {string} */ next) => {
    const { branches: _branches, items: _items, function_id: _function, ...rest } = step;
    edit(
      next === "branches"
        ? {
            ...rest,
            branches: [
              { id: "a", steps: [] },
              { id: "b", steps: [] },
            ],
          }
        : next === "items"
          ? { ...rest, items: "$.input.items" }
          : rest,
    );
  };
  const later = siblings
    .slice(at + 1)
    .map((/** @type {any} */ one) => one.id)
    .filter(Boolean);
  const calls =
    step.step_type === "function" ||
    step.step_type === "condition" ||
    (step.step_type === "parallel" && mode === "items");
  return html`
    <header>
      <${Icon} name=${iconOf(step)} />
      <b class="cut grow">${plain(step.name || step.id || t.workflows.unnamed, 60)}</b>
      <${Button}
        kind="flat small" icon="up" label=${t.workflows.earlier} why=${why() || (at === 0 && t.noMore)}
        onClick=${() => move(-1)}
      />
      <${Button}
        kind="flat small" icon="down" label=${t.workflows.later}
        why=${why() || (at === siblings.length - 1 && t.noMore)} onClick=${() => move(1)}
      />
      <${Button} kind="flat small bad" icon="trash" label=${t.workflows.removeStep} why=${why()} onClick=${remove} />
      <${Button}
        kind="flat small" icon="cross" label=${t.close} onClick=${() => change({ step: null }, { replace: true })}
      />
    </header>
    <fieldset class="form panelform plain" disabled=${!!why()} title=${why() || undefined}>
      <${TextField}
        label=${t.workflows.stepId} value=${step.id || ""} onInput=${(/** @type {string} */ text) => field("id", text)}
        class="mono" maxlength="64" spellcheck="false" autocomplete="off" help=${t.workflows.stepIdHelp}
        wrong=${wrong(`${key}.id`)}
      />
      <${TextField}
        label=${t.name} value=${step.name || ""} onInput=${(/** @type {string} */ text) => field("name", text)}
        maxlength="100" autocomplete="off" optional
      />
      ${step.step_type === "parallel" && html`<${SelectField}
        label=${t.workflows.sideBySide} value=${mode} onInput=${setMode}
        options=${[
          ["branches", t.workflows.byBranches],
          ["items", t.workflows.byItems],
          ["rest", t.workflows.byRest],
        ]}
      />`}
      ${step.step_type === "parallel" && mode === "items" && html`<${TextField}
        label=${t.workflows.items} value=${step.items}
        onInput=${(/** @type {string} */ text) => field("items", text || "$")} class="mono" spellcheck="false"
        wrong=${wrong(`${key}.items`)} help=${t.workflows.itemsHelp}
      />`}
      ${calls && html`
        <${SelectField}
          label=${t.functions.one}
          value=${functions.find((one) => one.name === step.function_id)?.id || step.function_id || ""}
          onInput=${(/** @type {string} */ text) => field("function_id", text)}
          options=${[
            ["", step.step_type === "condition" ? t.none : t.workflows.chooseFunction],
            ...functions.map((one) => [one.id, one.name]),
            ...(step.function_id && !functions.some((one) => [one.id, one.name].includes(step.function_id))
              ? [[step.function_id, step.function_id]]
              : []),
          ]}
        />
        ${wrong(`${key}.function_id`) && html`<p class="state bad failed s12">${wrong(`${key}.function_id`)}</p>`}
      `}
      ${step.step_type === "condition" && html`
        <${JsonField}
          label=${t.workflows.condition} value=${step.condition}
          onChange=${(/** @type {string} */ value) => field("condition", value)} wrong=${wrong(`${key}.condition`)}
          help=${t.workflows.conditionHelp}
        />
        <${Ids}
          label=${t.workflows.onTrue} offered=${later} value=${step.on_true}
          onChange=${(/** @type {string} */ value) => field("on_true", value)} wrong=${wrong(`${key}.on_true`)}
        />
        <${Ids}
          label=${t.workflows.onFalse} offered=${later} value=${step.on_false}
          onChange=${(/** @type {string} */ value) => field("on_false", value)} wrong=${wrong(`${key}.on_false`)}
        />
      `}
      ${step.step_type === "parallel" && mode === "branches" && html`<${Branches}
        place=${key} step=${step} draft=${draft} edit=${edit}
        open=${(/** @type {any} */ next, /** @type {string} */ to) => arrange(replaced(draft, key, next), to)}
      />`}
      ${step.step_type === "merge" && html`
        <${Ids}
          label=${t.workflows.sources} help=${t.workflows.sourcesHelp}
          offered=${all(draft.steps)
            .map((one) => one.id)
            .filter((id) => id && id !== step.id)}
          value=${step.sources} onChange=${(/** @type {string} */ value) => field("sources", value)}
          wrong=${wrong(`${key}.sources`)}
        />
        <${SelectField}
          label=${t.workflows.mode} value=${step.mode || "object"}
          onInput=${(/** @type {string} */ text) => field("mode", text === "object" ? undefined : text)}
          options=${Object.entries(t.workflows.modes)}
        />
      `}
      ${step.step_type === "agent" && html`<${JsonField}
        label=${t.workflows.config} value=${step.config}
        onChange=${(/** @type {string} */ value) => field("config", value)} wrong=${wrong(`${key}.config`)}
      />`}
      ${step.step_type !== "parallel" || mode === "items"
        ? html`<${JsonField}
            label=${t.workflows.mapping} value=${step.input_mapping}
            onChange=${(/** @type {string} */ value) => field("input_mapping", value)}
            wrong=${wrong(`${key}.input_mapping`)} help=${t.workflows.mappingHelp}
          />`
        : null}
      ${step.step_type !== "condition" && html`<${JsonField}
        label=${t.workflows.onlyIf} value=${step.condition}
        onChange=${(/** @type {string} */ value) => field("condition", value)} wrong=${wrong(`${key}.condition`)}
      />`}
      <${SelectField}
        label=${t.workflows.onError} value=${step.on_error || "stop"}
        onInput=${(/** @type {string} */ text) => field("on_error", text === "stop" ? undefined : text)}
        options=${Object.entries(t.workflows.errors)}
      />
      ${calls && html`
        <div class="pair">
          <${TextField}
            label=${t.workflows.retries} value=${String(step.retry_count ?? "")}
            onInput=${(/** @type {string} */ text) => field("retry_count", numberOf(text))} inputmode="numeric"
            placeholder=${step.on_error === "retry" ? "3" : "0"} wrong=${wrong(`${key}.retry_count`)}
          />
          <${TextField}
            label=${t.workflows.delay} value=${String(step.retry_delay ?? "")}
            onInput=${(/** @type {string} */ text) => field("retry_delay", numberOf(text))} inputmode="numeric"
            placeholder="1000" wrong=${wrong(`${key}.retry_delay`)}
          />
        </div>
        <${TextField}
          label=${t.workflows.seconds} value=${String(step.timeout_seconds || "")}
          onInput=${(/** @type {string} */ text) => field("timeout_seconds", numberOf(text))} inputmode="decimal"
          optional wrong=${wrong(`${key}.timeout_seconds`)}
        />
      `}
    </fieldset>
  `;
}

/**
 * JSON that is taken once it can be read.
 * @param {{label: string, value: unknown, onChange: (value: unknown) => void, wrong?: string, help?: string}} props
 */
function JsonField({ label, value, onChange, wrong, help }) {
  const [text, setText] = useState(value === undefined || value === null ? "" : JSON.stringify(value, null, 2));
  const [fault, setFault] = useState("");
  const type = (/** @type {string} */ next) => {
    setText(next);
    try {
      const read = next.trim() ? JSON.parse(next) : undefined;
      if (read !== undefined && (typeof read !== "object" || !read || Array.isArray(read)))
        return setFault(t.workflows.objectOnly);
      setFault("");
      onChange(read);
    } catch (error) {
      setFault(t.grid.notJson(/** @type {Error} */ (error).message));
    }
  };
  return html`<${TextAreaField}
    label=${label} value=${text} onInput=${type} wrong=${fault || wrong} help=${help}
    rows=${Math.max(2, Math.min(12, text.split("\n").length))} placeholder="{}" optional
  />`;
}

/**
 * Some of the ids of other steps.
 * @param {{label: string, help?: string, offered: string[], value: string[] | undefined, onChange: (value: string[] |
 *   undefined) => void, wrong?: string}} props
 */
function Ids({ label, help, offered, value = [], onChange, wrong }) {
  const ids = [...new Set([...offered, ...value])];
  const toggle = (/** @type {string} */ id, /** @type {boolean} */ on) => {
    const next = ids.filter((one) => (one === id ? on : value.includes(one)));
    onChange(next.length ? next : undefined);
  };
  return html`<fieldset class="field plain">
    <legend class="label">${label}</legend>
    ${ids.length
      ? html`<div class="ticks">
          ${ids.map(
            (id) => html`<label class="check" key=${id}>
              <input
                type="checkbox" checked=${value.includes(id)}
                onChange=${(/** @type {Typed} */ event) => toggle(id, event.target.checked)}
              />
              <code class="cut">${plain(id, 64)}</code>
            </label>`,
          )}
        </div>`
      : html`<p class="soft s12">${t.workflows.noneLater}</p>`}
    ${help && html`<p class="help s12 soft">${help}</p>`}
    ${wrong && html`<p class="state bad failed s12">${wrong}</p>`}
  </fieldset>`;
}

/**
 * @param {{place: string, step: any, draft: Api.FunctionDraft, edit: (step: Api.Step) => void, open: (step: Api.Step,
 *   key: string) => void}}
 *   props
 */
function Branches({ place: key, step, draft, edit, open }) {
  const branch = (/** @type {number} */ at, /** @type {any} */ next) => ({
    ...step,
    branches: step.branches.map((/** @type {any} */ one, /** @type {number} */ index) => (index === at ? next : one)),
  });
  const grow = (/** @type {any} */ one, /** @type {number} */ at) =>
    open(
      branch(at, { ...one, steps: [...one.steps, { step_type: "function", id: freeId(draft, "function") }] }),
      `${key}.branches[${at}].steps[${one.steps.length}]`,
    );
  return html`<fieldset class="field plain">
    <legend class="label">${t.workflows.branches}</legend>
    <ul class="branches">
      ${step.branches.map(
        (/** @type {any} */ one, /** @type {number} */ at) => html`<li class="line" key=${at}>
          <input
            class="in small mono" aria-label=${t.workflows.branchId(at + 1)} value=${one.id}
            onInput=${(/** @type {Typed} */ event) => edit(branch(at, { ...one, id: event.target.value }))}
            spellcheck="false"
          />
          <span class="soft s12 num grow">${t.workflows.stepsOf(one.steps.length)}</span>
          <${Button}
            kind="flat small" icon="plus" label=${t.workflows.addStepTo(one.id)} onClick=${() => grow(one, at)}
          />
          <${Button}
            kind="flat small bad" icon="trash" label=${t.workflows.removeBranch(one.id)}
            why=${step.branches.length === 1 && t.workflows.oneBranch}
            onClick=${() =>
              edit({
                ...step,
                branches: step.branches.filter((/** @type {any} */ _, /** @type {number} */ index) => index !== at),
              })}
          />
        </li>`,
      )}
    </ul>
    <p>
      <${Button}
        kind="small" icon="plus"
        onClick=${() =>
          edit({ ...step, branches: [...step.branches, { id: `branch-${step.branches.length + 1}`, steps: [] }] })}
      >
        ${t.workflows.addBranch}
      </${Button}>
    </p>
  </fieldset>`;
}

/**
 * @param {{draft: any, edit: (draft: Api.FunctionDraft) => void, wrong: (field: string) => string | undefined, check:
 *   any}} props
 */
function WholeForm({ draft, edit, wrong, check }) {
  const field = (/** @type {string} */ name, /** @type {any} */ value) => edit({ ...draft, [name]: value });
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return html`
    <header><${Icon} name="flow" /><b class="grow">${t.workflows.one}</b></header>
    <fieldset class="form panelform plain" disabled=${!!why()} title=${why() || undefined}>
      <${TextField}
        label=${t.name} value=${draft.name} onInput=${(/** @type {string} */ text) => field("name", text)}
        maxlength="100" autocomplete="off" wrong=${wrong("name")}
      />
      <${TextField}
        label=${t.tables.description} value=${draft.description}
        onInput=${(/** @type {string} */ text) => field("description", text)} maxlength="500" optional
        wrong=${wrong("description")}
      />
      <${SelectField}
        label=${t.workflows.executionType} value=${draft.execution_type}
        onInput=${(/** @type {string} */ text) => field("execution_type", text)}
        options=${Object.entries(t.workflows.executionTypes)}
      />
      <label class="check">
        <input
          type="checkbox" checked=${draft.schedule_cron !== null}
          onChange=${(/** @type {Typed} */ event) =>
            edit({
              ...draft,
              schedule_cron: event.target.checked ? "30 2 * * *" : null,
              schedule_timezone: event.target.checked ? draft.schedule_timezone || zone : draft.schedule_timezone,
            })}
        />
        ${t.workflows.bySchedule}
      </label>
      ${draft.schedule_cron !== null && html`
        <${TextField}
          label=${t.functions.cron} value=${draft.schedule_cron}
          onInput=${(/** @type {string} */ text) => field("schedule_cron", text)} class="mono" spellcheck="false"
          help=${t.functions.cronHelp} wrong=${wrong("schedule_cron")}
        />
        <${TextField}
          label=${t.functions.zone} value=${draft.schedule_timezone || ""}
          onInput=${(/** @type {string} */ text) => field("schedule_timezone", text || null)} spellcheck="false"
          placeholder="UTC" wrong=${wrong("schedule_timezone")}
        />
        <div class="field">
          <span class="label">${t.workflows.nextRuns}</span>
          <div role="status">
            <ol class="nextruns num s13">
              ${(check?.next_runs || []).map(
                (/** @type {string} */ time) => html`<li title=${time}>${moment(time)}</li>`,
              )}
            </ol>
          </div>
        </div>
        <${SelectField}
          label=${t.workflows.overlap} value=${draft.on_overlap}
          onInput=${(/** @type {string} */ text) => field("on_overlap", text)}
          options=${Object.entries(t.workflows.overlaps)}
        />
      `}
      <${JsonField}
        label=${t.workflows.initialInput} value=${draft.initial_input}
        onChange=${(/** @type {string} */ value) => field("initial_input", value || {})} wrong=${wrong("initial_input")}
        help=${t.workflows.initialHelp}
      />
      <div class="pair">
        <${TextField}
          label=${t.workflows.maxRetries} value=${String(draft.max_retries)}
          onInput=${(/** @type {string} */ text) => field("max_retries", numberOf(text) ?? 0)} inputmode="numeric"
          wrong=${wrong("max_retries")}
        />
        <${TextField}
          label=${t.workflows.concurrency} value=${String(draft.max_concurrency || "")}
          placeholder=${t.settings.unlimited}
          onInput=${(/** @type {string} */ text) => field("max_concurrency", numberOf(text) ?? 0)} inputmode="numeric"
          wrong=${wrong("max_concurrency")}
        />
      </div>
      <${TextField}
        label=${t.workflows.seconds} value=${String(draft.timeout_seconds || "")}
        onInput=${(/** @type {string} */ text) => field("timeout_seconds", numberOf(text) ?? 0)} inputmode="decimal"
        optional wrong=${wrong("timeout_seconds")}
      />
    </fieldset>
  `;
}

/** @param {{draft: Api.FunctionDraft, onClose: () => void, done: (draft: Api.FunctionDraft) => void}} props */
function JsonDialog({ draft, onClose, done }) {
  const [text, setText] = useState(JSON.stringify(draft, null, 2));
  const take = async () => {
    const read = JSON.parse(text);
    done({ ...draft, ...Object.fromEntries(FIELDS.filter((name) => name in read).map((name) => [name, read[name]])) });
  };
  return html`<${FormDialog}
    class="broad" title=${t.workflows.definition} onClose=${onClose} submit=${take} action=${t.workflows.take}
    why=${why()}
    about=${(/** @type {unknown} */ error) => (error instanceof SyntaxError ? t.grid.notJson(error.message) : null)}
  >
    <${TextAreaField} label="JSON" value=${text} onInput=${setText} rows="22" readonly=${!!why()} data-first />
  </${FormDialog}>`;
}
