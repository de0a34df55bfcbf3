/** What a function is given and when it runs: variables, triggers, settings. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, denied, may, onApp, tables } from "../state/app.js";
import { go } from "../state/router.js";
import { useEventTypes, withPatterns } from "../ui/event-types.js";
import { ago, moment, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { listing } from "../ui/listing.js";
import {
  Button,
  Choice,
  Confirm,
  Empty,
  FormDialog,
  Pill,
  SelectField,
  TextAreaField,
  TextField,
  complain,
  said,
  toast,
  useAction,
  useLoad,
} from "../ui/widgets.js";
import { callers } from "./functions.js";

/** @typedef {import("./function.js").Props} Props */

const why = () => denied("editor");

/** @param {Props} props */
export function Variables({ base, fn }) {
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
export function Triggers({ base, fn }) {
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
  const names = types.length ? withPatterns(types) : ["row.created"];
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
export function Settings({ base, fn, set }) {
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
