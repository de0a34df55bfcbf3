/** An app's teams: found by a search, one of them beside the list with its members, and who creates teams. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, denied, may, onApp } from "../state/app.js";
import { change, place } from "../state/router.js";
import { ago, count, moment, plain } from "../ui/format.js";
import { Editor } from "../ui/editor.js";
import { ListPager, listing } from "../ui/listing.js";
import { MemberField, MemberLink } from "../ui/member.js";
import { MemberViews } from "../ui/member-views.js";
import { SearchBox, searched } from "../ui/search.js";
import { parse } from "../grid/values.js";
import {
  Bones,
  Button,
  Code,
  Confirm,
  Copy,
  Empty,
  Failure,
  FormDialog,
  Pager,
  Pill,
  TextField,
  complain,
  toast,
  useLoad,
} from "../ui/widgets.js";

export const head = () => ({ title: t.sectionNames.members });

const PAGE = 50;
const MEMBERS = 20;
const ROLE = /^[a-z0-9_-]{1,64}$/;
const SLUG = /^[a-z0-9-]{3,40}$/;
const why = () => denied("editor");

export function Screen() {
  const search = searched();
  const offset = Number(place.value.query.get("offset")) || 0;
  const chosen = place.value.query.get("team") || "";
  const [creating, setCreating] = useState(false);
  const { data, error, reload } = useLoad(
    (signal) => onApp("/teams", { query: { search, limit: PAGE, offset }, signal }),
    [appId.value, search, offset],
  );
  const create = html`<${Button} kind="go small" icon="plus" why=${why()} onClick=${() => setCreating(true)}>
    ${t.teams.create}
  </${Button}>`;
  return html`<div class="data">
    <div class="strip tabstrip"><${MemberViews} on="teams" /></div>
    <div class="strip filters" role="toolbar" aria-label=${t.filters}>
      <${SearchBox} label=${t.teams.search} />
      <${MembersCreate} />
      <span class="grow"></span>
      <span class="s12 soft num">${data && t.teams.found(data.total_count)}</span>
      ${create}
    </div>
    <div class=${`split ${chosen ? "opened" : ""}`}>
      <div class="listbox">
        <div class="scroll">
          ${listing({
            loaded: { error, reload },
            items: data?.data,
            bones: { rows: 8, columns: 4 },
            empty: search
              ? html`<${Empty} title=${t.teams.noneFound} text=${t.teams.noneFoundText}>
                  <${Button} onClick=${() => change({ search: null, offset: null })}>${t.clearFilters}</${Button}>
                </${Empty}>`
              : html`<${Empty} title=${t.teams.none} text=${t.teams.noneText} />`,
            columns: html`
              <th>${t.name}</th>
              <th>${t.teams.slug}</th>
              <th class="r">${t.sectionNames.members}</th>
              <th>${t.teams.created}</th>
            `,
            row: (team) => html`<tr key=${team.team_id} class=${team.team_id === chosen ? "on" : ""}>
              <td class=${`main ${team.team_id === chosen ? "upright" : ""}`}>
                <button
                  type="button" class="coverbutton" aria-pressed=${team.team_id === chosen ? "true" : "false"}
                  onClick=${() => change({ team: team.team_id === chosen ? null : team.team_id })}
                >
                  <span class="cut">${plain(team.name, 100)}</span>
                </button>
              </td>
              <td class="wide">${team.slug && html`<code>${plain(team.slug, 40)}</code>`}</td>
              <td class="r">${count(team.member_count)}</td>
              <td class="soft wide">${ago(team.created_at)}</td>
            </tr>`,
          })}
        </div>
        <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
      </div>
      ${chosen && html`<${Team} key=${chosen} id=${chosen} changed=${reload} />`}
    </div>
    ${creating && html`<${TeamDialog}
      onClose=${() => setCreating(false)}
      save=${async (/** @type {any} */ body) => {
        const made = await onApp("/teams", { method: "POST", body });
        reload();
        change({ team: made.team_id });
      }}
    />`}
  </div>`;
}

/** Whether members create teams themselves. */
function MembersCreate() {
  const { data, set } = useLoad((signal) => onApp("/team-settings", { signal }), [appId.value]);
  const save = (/** @type {boolean} */ members_create) =>
    onApp("/team-settings", { method: "PUT", body: { members_create } }).then(set, complain);
  return html`<label class="check" title=${why() || undefined}>
    <input
      type="checkbox" checked=${data?.members_create} disabled=${!data || !may("editor")}
      onChange=${(/** @type {Typed} */ event) => save(event.target.checked)}
    />
    <span>${t.teams.membersCreate}</span>
  </label>`;
}

/** @param {{id: string, changed: () => void}} props */
function Team({ id, changed }) {
  const path = /** @type {const} */ (`/teams/${encodeURIComponent(id)}`);
  const { data, error, reload, set } = useLoad((signal) => onApp(path, { signal }), [appId.value, path]);
  const [dialog, setDialog] = useState("");
  return html`<aside class="panel" aria-label=${t.teams.team}>
    <header>
      <b class="cut grow">${data ? plain(data.name, 100) : ""}</b>
      <${Button} kind="flat small" icon="cross" label=${t.close} onClick=${() => change({ team: null })} />
    </header>
    ${error
      ? html`<${Failure} error=${error} retry=${reload} />`
      : !data
        ? html`<${Bones} rows=${5} columns=${2} />`
        : html`
            <dl class="facts-list">
              <div>
                <dt>${t.members.id}</dt>
                <dd><code class="cut">${data.team_id}</code><${Copy} text=${data.team_id} /></dd>
              </div>
              <div>
                <dt>${t.teams.slug}</dt>
                <dd>
                  ${data.slug ? html`<code>${plain(data.slug, 40)}</code>` : html`<span class="null">${t.none}</span>`}
                </dd>
              </div>
              ${data.created_by && html`<div>
                <dt>${t.teams.creator}</dt>
                <dd><${MemberLink} id=${data.created_by} /></dd>
              </div>`}
              <div><dt>${t.teams.created}</dt><dd>${moment(data.created_at)}</dd></div>
            </dl>
            ${Object.keys(data.data).length > 0 && html`<section class="wellbox">
              <h3 class="mono">data</h3>
              <${Code} text=${JSON.stringify(data.data, null, 2)} label="data" />
            </section>`}
            <${TeamMembers} path=${path} changed=${() => (reload(), changed())} />
            <footer>
              <${Button} kind="small" icon="edit" why=${why()} onClick=${() => setDialog("edit")}>
                ${t.teams.edit}
              </${Button}>
              <span class="grow"></span>
              <${Button} kind="flat small bad" why=${why()} onClick=${() => setDialog("delete")}>
                ${t.teams.delete}
              </${Button}>
            </footer>
          `}
    ${data && dialog === "edit" && html`<${TeamDialog}
      known=${data} onClose=${() => setDialog("")}
      save=${async (/** @type {any} */ body) => (set(await onApp(path, { method: "PATCH", body })), changed())}
    />`}
    ${data && dialog === "delete" && html`<${Confirm}
      title=${t.teams.deleteTitle(plain(data.name, 60))} text=${t.teams.deleteText} action=${t.teams.delete}
      name=${data.name} onClose=${() => setDialog("")}
      run=${async () => (
        await onApp(path, { method: "DELETE" }),
        toast(t.teams.deleted),
        changed(),
        change({ team: null })
      )}
    />`}
  </aside>`;
}

/** Who is in a team, with which roles. @param {{path: `/teams/${string}`, changed: () => void}} props */
function TeamMembers({ path, changed }) {
  const [offset, setOffset] = useState(0);
  const { data, error, reload } = useLoad(
    (signal) =>
      onApp(/** @type {`/teams/${string}/members`} */ (`${path}/members`), {
        query: { limit: MEMBERS, offset },
        signal,
      }),
    [appId.value, path, offset],
  );
  const [dialog, setDialog] = useState(/** @type {{id: string, roles: string[]} | null} */ (null));
  const done = () => (reload(), changed());
  const [gone, setGone] = useState("");
  return html`<section class="wellbox">
    <div class="line">
      <h3 class="grow">${t.sectionNames.members}</h3>
      <${Button} kind="flat small" icon="plus" why=${why()} onClick=${() => setDialog({ id: "", roles: [] })}>
        ${t.teams.add}
      </${Button}>
    </div>
    ${error
      ? html`<${Failure} error=${error} retry=${reload} />`
      : !data
        ? html`<${Bones} rows=${2} columns=${2} />`
        : !data.data.length
          ? html`<p class="s12 soft">${t.teams.noMembers}</p>`
          : html`<ul class="sessions">
              ${data.data.map(
                (one) => html`<li key=${one.member_id}>
                  <span class="grow s13">
                    <${MemberLink} id=${one.member_id} />
                    <span class="line wrap">
                      ${one.roles.map((role) => html`<${Pill} key=${role}>${role}</${Pill}>`)}
                    </span>
                  </span>
                  <${Button}
                    kind="flat small" icon="edit" label=${t.teams.changeRoles} why=${why()}
                    onClick=${() => setDialog({ id: one.member_id, roles: one.roles })}
                  />
                  <${Button}
                    kind="flat small bad" icon="trash" label=${t.teams.remove} why=${why()}
                    onClick=${() => setGone(one.member_id)}
                  />
                </li>`,
              )}
            </ul>`}
    ${data && html`<${Pager} offset=${offset} limit=${MEMBERS} total=${data.total_count} onChange=${setOffset} />`}
    ${gone && html`<${Confirm}
      title=${t.teams.remove} text=${t.teams.removeText} action=${t.teams.removeAction} onClose=${() => setGone("")}
      run=${async () => (await onApp(`${path}/members/${encodeURIComponent(gone)}`, { method: "DELETE" }), done())}
    />`}
    ${dialog && html`<${RolesDialog}
      known=${dialog} onClose=${() => setDialog(null)}
      save=${async (/** @type {string} */ id, /** @type {string[]} */ roles) => (
        await onApp(`${path}/members/${encodeURIComponent(id)}`, { method: "PUT", body: { roles } }),
        done()
      )}
    />`}
  </section>`;
}

/**
 * @param {{known: {id: string, roles: string[]}, save: (id: string, roles: string[]) => Promise<unknown>,
 *   onClose: () => void}} props
 */
function RolesDialog({ known, save, onClose }) {
  const [id, setId] = useState(known.id);
  const [typed, setTyped] = useState(known.roles.join(" "));
  const roles = [...new Set(typed.split(/[\s,]+/).filter(Boolean))];
  const bad = roles.find((role) => !ROLE.test(role));
  const wrong = bad === undefined ? "" : t.members.noSuchRole(bad);
  return html`<${FormDialog}
    title=${known.id ? t.teams.changeRoles : t.teams.add} action=${t.save} onClose=${onClose}
    why=${(!id && t.teams.memberFirst) || wrong} submit=${async () => (await save(id, roles), onClose())}
  >
    ${!known.id && html`<${MemberField} label=${t.members.member} id=${id} onChoose=${setId} />`}
    <${TextField}
      label=${t.members.roles} value=${typed} onInput=${setTyped} help=${t.teams.rolesHelp} wrong=${wrong}
      autocomplete="off" autocapitalize="off" spellcheck="false"
    />
  </${FormDialog}>`;
}

/** @param {{known?: Api.Team, save: (body: any) => Promise<unknown>, onClose: () => void}} props */
function TeamDialog({ known, save, onClose }) {
  const [name, setName] = useState(known?.name || "");
  const [slug, setSlug] = useState(known?.slug || "");
  const [text, setText] = useState(JSON.stringify(known?.data || {}, null, 2));
  const { value, wrong } = parse(text, { name: "data", type: "object", required: true, encrypted: false });
  const wrongSlug = slug && !SLUG.test(slug) ? t.teams.slugWrong : "";
  return html`<${FormDialog}
    title=${known ? t.teams.edit : t.teams.create} action=${known ? t.save : t.teams.create} onClose=${onClose}
    why=${(!name.trim() && t.nameFirst) || wrongSlug || wrong || (value === null && t.grid.notObject)}
    submit=${async () => (await save({ name: name.trim(), slug: slug || null, data: value }), onClose())}
  >
    <${TextField} label=${t.name} value=${name} onInput=${setName} maxlength="100" autocomplete="off" />
    <${TextField}
      label=${t.teams.slug} value=${slug} onInput=${setSlug} maxlength="40" optional help=${t.teams.slugHelp}
      wrong=${wrongSlug} autocomplete="off" autocapitalize="off" spellcheck="false"
    />
    <span class="mono s13">data</span>
    <${Editor} language="json" label="data" rows=${6} numbers value=${text} onInput=${setText} wrong=${!!wrong} />
    ${wrong && html`<p class="wrong">${wrong}</p>`}
  </${FormDialog}>`;
}
