/** The apps that the user has a role on, and those deleted of late. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { request, user } from "../state/api.js";
import { apps, loadApps } from "../state/app.js";
import { change, go, href, place } from "../state/router.js";
import { ago, compact, initials, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { SearchBox, searched } from "../ui/search.js";
import {
  Button,
  Empty,
  FormDialog,
  Pager,
  Secret,
  SecretDialog,
  TextField,
  complain,
  later,
  said,
  toast,
  useInView,
  useLoad,
} from "../ui/widgets.js";

export const head = () => ({ title: t.apps.title });

const ImportArchive = later(() => import("./archives.js"), "ImportArchive");
const PAGE = 100;
// So many cards are seen at a glance.
const FEW = 12;
const RESTORABLE_DAYS = 7;

export function Screen() {
  const [creating, setCreating] = useState(false);
  const [importing, setImporting] = useState(false);
  const all = apps.value || [];
  const live = all.filter((one) => !one.deleted_at);
  const offset = Math.max(0, Number(place.value.query.get("offset")) || 0);
  const deleted = all.filter((one) => one.deleted_at);
  const words = searched().trim().toLowerCase();
  const found = words ? live.filter((one) => one.name.toLowerCase().includes(words)) : live;
  return html`<div class="page widepage">
    <div class="line">
      <p class="soft grow">${live.length > 0 && t.apps.lead}</p>
      ${(live.length > FEW || words) && html`<${SearchBox} label=${t.apps.find} />`}
      ${user.value?.may_create_apps && html`<${Button} icon="in" onClick=${() => setImporting(true)}>
        ${t.apps.import}
      </${Button}>`}
      ${user.value?.may_create_apps && html`<${Button}
        kind=${live.length ? "go" : ""} icon="plus" onClick=${() => setCreating(true)}
      >
        ${t.apps.create}
      </${Button}>`}
    </div>
    ${live.length && !found.length
      ? html`<div class="slab">
          <${Empty} title=${t.apps.noneFound}>
            <${Button} onClick=${() => change({ search: null })}>${t.clearFilters}</${Button}>
          </${Empty}>
        </div>`
      : live.length
        ? html`<ul class="cards">
            ${found.slice(offset, offset + PAGE).map((one) => html`<${Card} key=${one.app_id} app=${one} />`)}
          </ul>`
        : html`<div class="slab">
            <${Empty}
              title=${t.apps.none} text=${user.value?.may_create_apps ? t.apps.noneText : t.apps.noneForViewer}
              command=${user.value?.may_create_apps ? 'pilotis app create "My app"' : undefined}
            />
          </div>`}
    ${found.length > PAGE && html`<${Pager}
      offset=${offset} limit=${PAGE} total=${found.length}
      onChange=${(/** @type {number} */ next) => change({ offset: next ? String(next) : null })}
    />`}
    ${deleted.length > 0 && html`<section class="slab">
      <header><h2>${t.apps.deleted}</h2></header>
      <ul class="items">${deleted.map((one) => html`<${DeletedApp} key=${one.app_id} app=${one} />`)}</ul>
    </section>`}
    ${importing && html`<${ImportArchive} onClose=${() => setImporting(false)} />`}
    ${creating && html`<${NewApp} onClose=${() => setCreating(false)} />`}
  </div>`;
}

/** @param {{app: import("../state/app.js").App}} props */
function Card({ app }) {
  const [holder, seen] = useInView();
  const { data, error, reload } = useLoad(
    async (signal) => (seen ? request("/v1/public/stats", { app: app.app_id, signal }) : null),
    [app.app_id, seen],
  );
  return html`<li ref=${holder} class="slab card">
    <a class="cover" href=${href(`/apps/${app.app_id}`)}>
      <span class="monogram" aria-hidden="true">${initials(app.name)}</span>
      <span class="grow cut">
        <b class="cut">${plain(app.name, 100)}</b>
        <small class="soft">${t.roles[app.role]}</small>
      </span>
    </a>
    ${error
      ? html`<p class="line s12">
          <span class="state bad s12 grow" title=${said(error)}><${Icon} name="fail" />${t.notRead}</span>
          <${Button} kind="flat small" icon="retry" label=${t.again} onClick=${reload} />
        </p>`
      : html`<dl class="trio">
          <div><dt>${t.stats.rows}</dt><dd class="num">${data ? compact(data.rows) : "–"}</dd></div>
          <div><dt>${t.stats.members}</dt><dd class="num">${data ? compact(data.members.total) : "–"}</dd></div>
          <div>
            <dt>${t.stats.requestsDay}</dt>
            <dd class="num">${data ? compact(data.traffic.last_24h.requests) : "–"}</dd>
          </div>
        </dl>`}
    <p class="s12 soft line">
      ${app.schema_locked
        ? html`<${Icon} name="lock" />${t.apps.locked}`
        : html`<span class="state warn s12"><${Icon} name="open" />${t.apps.open}</span>`}
    </p>
  </li>`;
}

/** @param {{app: import("../state/app.js").App}} props */
function DeletedApp({ app }) {
  const restore = async () => {
    try {
      await request(`/v1/apps/${app.app_id}/restore`, { method: "POST" });
      await loadApps();
      toast(t.apps.restored(app.name));
    } catch (error) {
      complain(error);
    }
  };
  const until = new Date(Date.parse(app.deleted_at || "") + RESTORABLE_DAYS * 86400000).toISOString();
  return html`<li class="line">
    <span class="grow cut">
      <b>${plain(app.name, 100)}</b> <span class="soft s12">${t.apps.goneIn(ago(until))}</span>
    </span>
    <${Button} kind="small" icon="undo" onClick=${restore}>${t.restore}</${Button}>
  </li>`;
}

/** @param {{onClose: () => void}} props */
function NewApp({ onClose }) {
  const [name, setName] = useState("");
  const [made, setMade] = useState(/** @type {any} */ (null));
  const create = async () => {
    setMade(await request("/v1/apps", { method: "POST", body: { name } }));
    await loadApps();
  };
  if (made) {
    const open = async () => {
      onClose();
      go(`/apps/${made.app_id}`);
    };
    return html`<${SecretDialog}
      key="made" title=${t.apps.made(made.name)} onClose=${open} text=${t.apps.secretOnce} label=${t.keys.secret}
      value=${made.secret_key}
    >
      <div class="field"><span class="label">${t.keys.public}</span><${Secret} value=${made.public_key} /></div>
    </${SecretDialog}>`;
  }
  return html`<${FormDialog}
    title=${t.apps.create} onClose=${onClose} submit=${create} action=${t.apps.create}
    why=${!name.trim() && t.nameFirst}
  >
    <${TextField}
      label=${t.name} value=${name} onInput=${setName} maxlength="100" placeholder=${t.apps.example} autocomplete="off"
    />
  </${FormDialog}>`;
}
