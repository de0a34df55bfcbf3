/** An app's workflows: how the last execution of each ended, and when the next begins. */
import { html, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, onApp } from "../state/app.js";
import { LOOKS } from "../state/executions.js";
import { change, go, href, place } from "../state/router.js";
import { ago, moment, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { ListPager, listing } from "../ui/listing.js";
import { Button, Empty, FormDialog, State, TextField, useLoad } from "../ui/widgets.js";

export const head = () => ({ title: t.sectionNames.workflows });

const PAGE = 50;

export function Screen() {
  const creating = place.value.query.has("new");
  const offset = Number(place.value.query.get("offset")) || 0;
  const { data, error, reload } = useLoad(
    (signal) => onApp("/workflows", { query: { limit: PAGE, offset }, signal }),
    [appId.value, offset],
  );
  const create = html`<${Button} kind="go" icon="plus" why=${denied("editor")} onClick=${() => change({ new: "1" })}>
    ${t.workflows.create}
  </${Button}>`;
  return html`<div class="data">
    <div class="strip tabstrip">
      <span class="soft s13">${data && t.workflows.count(data.total_count)}</span>
      <span class="grow"></span>
      ${data?.data.length ? create : null}
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.data,
        bones: { rows: 4, columns: 5 },
        empty: html`<${Empty}
          title=${t.workflows.none} text=${t.workflows.noneText}
          command=${`curl -X POST ${location.origin}/v1/apps/${appId.value}/workflows -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" -d '{"name": "nightly-report", "schedule_cron": "30 2 * * *"}'`}
        >
          ${create}
        </${Empty}>`,
        columns: html`
          <th>${t.name}</th>
          <th>${t.workflows.lastRun}</th>
          <th>${t.workflows.nextRun}</th>
          <th class="r">${t.workflows.stepCount}</th>
          <th class="r">${t.sites.version}</th>
        `,
        row: (one) => html`<tr key=${one.id}>
          <td class="main">
            <a class="cover line" href=${href(`/apps/${appId.value}/workflows/${one.id}`)}>
              <${Icon} name="flow" />
              <span class="cut">${plain(one.name, 80)}</span>
            </a>
            ${one.description && html`<small class="soft s12 cut wide indent">${plain(one.description, 100)}</small>`}
          </td>
          <td><${Last} workflow=${one} /></td>
          <td class="wide">
            ${one.next_run_at
              ? html`<span class="line">
                  <${Icon} name="clock" />
                  <span class="num" title=${one.next_run_at}>${moment(one.next_run_at)}</span>
                  <code class="soft">${plain(one.schedule_cron, 40)}</code>
                </span>`
              : html`<span class="soft">${t.none}</span>`}
          </td>
          <td class="r wide">${one.steps.length}</td>
          <td class="r wide">v${one.version}</td>
        </tr>`,
      })}
    </div>
    <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
    ${creating && html`<${NewWorkflow} onClose=${() => change({ new: null }, { replace: true })} />`}
  </div>`;
}

/** @param {{workflow: Api.Workflow}} props */
function Last({ workflow: { is_active, last_execution: last } }) {
  const state =
    last &&
    html`<${State} look=${LOOKS[last.status]}>
      ${worded(t.workflows.statuses, last.status)}
      ${last.started_at && html` <span class="soft">${ago(last.started_at)}</span>`}
    </${State}>`;
  if (is_active) return state || html`<span class="soft">${t.workflows.neverRan}</span>`;
  return html`<${State} look=${["warn", "warn"]}>${t.functions.off}</${State}>`;
}

/** @param {{onClose: () => void}} props */
function NewWorkflow({ onClose }) {
  const [name, setName] = useState("");
  const create = async () => {
    const made = await onApp("/workflows", { method: "POST", body: { name: name.trim() } });
    go(`/apps/${appId.value}/workflows/${made.id}/steps`);
  };
  return html`<${FormDialog}
    title=${t.workflows.create} onClose=${onClose} submit=${create} action=${t.workflows.create}
    why=${denied("editor") || (!name.trim() && t.nameFirst)}
    about=${(/** @type {any} */ error) => error.about?.("name")}
  >
    <${TextField}
      label=${t.name} value=${name} onInput=${setName} maxlength="100" autocomplete="off" data-first
      help=${t.workflows.nameHelp}
    />
  </${FormDialog}>`;
}
