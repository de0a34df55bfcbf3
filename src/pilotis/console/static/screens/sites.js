/** An app's sites: static files under a host name of their own. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, denied, onApp } from "../state/app.js";
import { change, go, href, place } from "../state/router.js";
import { ago, count, plain, size } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { listing } from "../ui/listing.js";
import { Button, Empty, FormDialog, TextField, useLoad } from "../ui/widgets.js";

export const head = () => ({ title: t.sectionNames.sites });

export function Screen() {
  const creating = place.value.query.has("new");
  const { data, error, reload } = useLoad(
    (signal) => onApp("/storages/webs", { query: { limit: 100 }, signal }),
    [appId.value],
  );
  const create = html`<${Button} kind="go" icon="plus" why=${denied("editor")} onClick=${() => change({ new: "1" })}>
    ${t.sites.create}
  </${Button}>`;
  return html`<div class="data">
    <div class="strip tabstrip">
      <span class="soft s13">${data && t.sites.count(data.total_count)}</span>
      <span class="grow"></span>
      ${data?.storages.length ? create : null}
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.storages,
        bones: { rows: 4 },
        empty: html`<${Empty} title=${t.sites.none} text=${t.sites.noneText}>${create}</${Empty}>`,
        columns: html`
          <th>${t.name}</th>
          <th>${t.sites.address}</th>
          <th>${t.sites.live}</th>
          <th class="r">${t.sites.files}</th>
          <th>${t.tables.changed}</th>
        `,
        row: (one) => html`<tr key=${one.id}>
          <td class="main">
            <a class="cover line" href=${href(`/apps/${appId.value}/sites/${one.id}`)}>
              <${Icon} name="globe" />
              <span class="cut">${plain(one.name, 80)}</span>
            </a>
          </td>
          <td class="wide cut"><code>${plain(one.url.replace(/^https?:\/\//, ""), 80)}</code></td>
          <td>
            ${one.production_deployment_id
              ? html`<span class="state ok"><${Icon} name="done" />${t.sites.isLive}</span>`
              : html`<span class="soft">${t.sites.notYet}</span>`}
          </td>
          <td class="r wide">${count(one.file_count)} <span class="soft">· ${size(one.total_size)}</span></td>
          <td class="soft wide">${ago(one.updated_at)}</td>
        </tr>`,
      })}
    </div>
    ${creating && html`<${NewSite} onClose=${() => change({ new: null }, { replace: true })} />`}
  </div>`;
}

/** @param {{onClose: () => void}} props */
function NewSite({ onClose }) {
  const [name, setName] = useState("");
  const [slug, setSlug] = useState("");
  const create = async () => {
    const made = await onApp("/storages/webs", { method: "POST", body: { name, ...(slug ? { slug } : {}) } });
    go(`/apps/${appId.value}/sites/${made.id}`);
  };
  return html`<${FormDialog}
    title=${t.sites.create} onClose=${onClose} submit=${create} action=${t.sites.create}
    why=${denied("editor") || (!name.trim() && t.nameFirst)}
    about=${(/** @type {any} */ error) => error.about?.("slug")}
  >
    <${TextField} label=${t.name} value=${name} onInput=${setName} maxlength="100" autocomplete="off" data-first />
    <${TextField}
      label=${t.sites.slug} value=${slug} onInput=${setSlug} maxlength="40" optional help=${t.sites.slugHelp}
      spellcheck="false" autocomplete="off"
    />
  </${FormDialog}>`;
}
