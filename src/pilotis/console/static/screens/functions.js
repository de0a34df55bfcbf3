/** An app's functions: which version is called, by whom, and how a new one begins. */
import { html, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, onApp } from "../state/app.js";
import { change, go, href, place } from "../state/router.js";
import { ago, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { listing } from "../ui/listing.js";
import { Button, Choice, Empty, FormDialog, Pill, SelectField, TextField, useLoad } from "../ui/widgets.js";

export const head = () => ({ title: t.sectionNames.functions });

/** Who may call a function, each way explained. */
export const callers = () =>
  Object.entries(t.functions.access).map(([value, [title, text, icon]]) => ({ value, title, text, icon }));

const START = /** @type {Record<string, Record<string, string>>} */ ({
  javascript: {
    "index.ts":
      'export default async (payload: { name?: string }, ctx: any) => {\n  ctx.log.info("called by", ctx.caller.type);\n  return `Hello, ${payload.name ?? "world"}!`;\n};\n',
  },
  python: {
    "main.py":
      "def handler(payload, ctx):\n    ctx.log.info(\"called by\", ctx.caller.type)\n    return f\"Hello, {payload.get('name', 'world')}!\"\n",
  },
});

/** The files that a new function begins with. @param {string} runtime */
export const starter = (runtime) => START[runtime];

export function Screen() {
  const creating = place.value.query.has("new");
  const { data, error, reload } = useLoad(
    (signal) => onApp("/functions", { query: { limit: 100 }, signal }),
    [appId.value],
  );
  const { data: server } = useLoad((signal) => onApp("/runtime", { signal }), [appId.value]);
  const create = html`<${Button} kind="go" icon="plus" why=${denied("editor")} onClick=${() => change({ new: "1" })}>
    ${t.functions.create}
  </${Button}>`;
  return html`<div class="data">
    <div class="strip tabstrip">
      <span class="soft s13">
        ${data && t.functions.count(data.total_count)}
        ${data && server && ` · ${t.functions.isolation(server.isolation)}`}
      </span>
      <span class="grow"></span>
      ${data?.data.length ? create : null}
    </div>
    ${server?.runtimes
      .filter((one) => one.reason)
      .map(
        (one) => html`<p key=${one.name} class="notice warn">
          <${Icon} name="warn" />
          <span>
            ${t.functions.lesser(/** @type {any} */ (t.functions.runtimes)[one.name], one.isolation)}
            ${" "}${plain(one.reason, 400)}
          </span>
        </p>`,
      )}
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.data,
        bones: { rows: 4 },
        empty: html`<${Empty}
          title=${t.functions.none} text=${t.functions.noneText}
          command="pilotis functions init hello && pilotis functions deploy hello"
        >
          ${create}
        </${Empty}>`,
        columns: html`
          <th>${t.name}</th>
          <th>${t.functions.runtime}</th>
          <th>${t.functions.mayCall}</th>
          <th>${t.sites.version}</th>
          <th>${t.tables.changed}</th>
        `,
        row: (one) => html`<tr key=${one.id}>
          <td class="main">
            <a class="cover line" href=${href(`/apps/${appId.value}/functions/${one.id}`)}>
              <${Icon} name="code" />
              <span class="cut">${plain(one.name, 80)}</span>
            </a>
          </td>
          <td class="wide">${worded(t.functions.runtimes, one.runtime)}</td>
          <td class="wide">
            <${Pill} icon=${/** @type {any} */ (t.functions.access)[one.invoke_access][2]}>
              ${/** @type {any} */ (t.functions.access)[one.invoke_access][0]}
            </${Pill}>
          </td>
          <td>
            ${!one.is_active
              ? html`<span class="state warn"><${Icon} name="warn" />${t.functions.off}</span>`
              : one.active_version === null
                ? html`<span class="soft">${t.sites.notYet}</span>`
                : html`<span class="state ok"><${Icon} name="done" />v${one.active_version}</span>`}
          </td>
          <td class="soft wide">${ago(one.updated_at)}</td>
        </tr>`,
      })}
    </div>
    ${creating && html`<${NewFunction} onClose=${() => change({ new: null }, { replace: true })} />`}
  </div>`;
}

/** @param {{onClose: () => void}} props */
function NewFunction({ onClose }) {
  const [name, setName] = useState("");
  const [runtime, setRuntime] = useState("javascript");
  const [access, setAccess] = useState("AppMember");
  const create = async () => {
    const made = await onApp("/functions", { method: "POST", body: { name, runtime, invoke_access: access } });
    go(`/apps/${appId.value}/functions/${made.id}`);
  };
  return html`<${FormDialog}
    title=${t.functions.create} onClose=${onClose} submit=${create} action=${t.functions.create}
    why=${denied("editor") || (!name.trim() && t.nameFirst)}
    about=${(/** @type {any} */ error) => error.about?.("name")}
  >
    <${TextField}
      label=${t.name} value=${name} onInput=${setName} maxlength="63" autocomplete="off" spellcheck="false" data-first
      help=${t.functions.nameHelp}
    />
    <${SelectField}
      label=${t.functions.runtime} value=${runtime} onInput=${setRuntime}
      options=${Object.entries(t.functions.runtimes)}
    />
    <${Choice} label=${t.functions.mayCall} value=${access} onInput=${setAccess} options=${callers()} />
  </${FormDialog}>`;
}
