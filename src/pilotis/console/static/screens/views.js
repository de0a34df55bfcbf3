/** The saved views of an app: pipelines that clients call by a name. */
import { html } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, denied, onApp } from "../state/app.js";
import { go, href } from "../state/router.js";
import { ago, duration, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { listing } from "../ui/listing.js";
import { TableViews } from "../ui/table-views.js";
import { Button, Empty, useLoad } from "../ui/widgets.js";

export const head = () => ({ title: t.sectionNames.tables });

/** Who may call a view, in words. @param {Api.View["read"]} read */
export const callers = (read) =>
  read === true
    ? t.rules.who.everybody
    : read === null
      ? t.rules.who.nobody
      : JSON.stringify(read) === '{"$member":{}}'
        ? t.rules.who.members
        : t.views.byRule;

export function Screen() {
  const { data, error, reload } = useLoad((signal) => onApp("/views", { signal }), [appId.value]);
  const base = `/apps/${appId.value}/views`;
  const create = html`<${Button} kind="go small" icon="plus" why=${denied("editor")} onClick=${() => go(`${base}/new`)}>
    ${t.views.create}
  </${Button}>`;
  return html`<div class="data">
    <div class="strip tabstrip">
      <${TableViews} on="views" />
      <span class="grow"></span>
      ${data?.views.length ? create : null}
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.views,
        bones: { rows: 4, columns: 5 },
        empty: html`<${Empty}
          title=${t.views.none} text=${t.views.noneText} command=${`pilotis views set views.yaml --app ${appId.value}`}
        >
          ${create}
        </${Empty}>`,
        columns: html`
          <th>${t.name}</th>
          <th>${t.views.table}</th>
          <th>${t.views.runAs}</th>
          <th>${t.views.read}</th>
          <th class="r">${t.views.cache}</th>
          <th>${t.tables.changed}</th>
        `,
        row: (one) => html`<tr key=${one.id}>
          <td class="main">
            <a class="cover line" href=${href(`${base}/${one.id}`)}>
              <${Icon} name="filter" />
              <span class="cut">${plain(one.name, 63)}</span>
            </a>
            ${one.description && html`<div class="s12 soft cut wide plain">${plain(one.description, 120)}</div>`}
          </td>
          <td><span class="cut">${plain(one.table, 60)}</span></td>
          <td class="wide">${t.views.ways[one.run_as]}</td>
          <td class="wide">${callers(one.read)}</td>
          <td class="r wide">${one.cache_seconds ? duration(one.cache_seconds * 1000) : t.none}</td>
          <td class="soft wide" title=${one.updated_at}>${ago(one.updated_at)}</td>
        </tr>`,
      })}
    </div>
  </div>`;
}
