/** An app's members: found by a search, filtered, and one of them beside the list. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, denied, may, onApp } from "../state/app.js";
import { forgetName, memberName as name } from "../state/members.js";
import { change, place } from "../state/router.js";
import { ago, browser, initials, moment, plain } from "../ui/format.js";
import { Editor } from "../ui/editor.js";
import { SearchBox, searched } from "../ui/search.js";
import { parse } from "../grid/values.js";
import { Belongings } from "./belongings.js";
import { MemberFacts } from "./member-facts.js";
import { MemberImport } from "./member-import.js";
import { MemberInvite } from "./member-invite.js";
import { MemberLinks } from "./member-links.js";
import { MemberSecurity } from "./member-security.js";
import { ListPager, listing } from "../ui/listing.js";
import { MemberViews } from "../ui/member-views.js";
import {
  Bones,
  Button,
  Code,
  Confirm,
  Copy,
  Empty,
  Failure,
  FormDialog,
  Pill,
  TextField,
  complain,
  toast,
  useLoad,
} from "../ui/widgets.js";

export const head = () => ({ title: t.sectionNames.members });

const PAGE = 50;
const why = () => denied("editor");

export function Screen() {
  const query = place.value.query;
  const filters = { search: searched(), is_guest: query.get("guest") || "", is_active: query.get("active") || "" };
  const offset = Number(query.get("offset")) || 0;
  const chosen = query.get("member") || "";
  const [creating, setCreating] = useState(false);
  const [importing, setImporting] = useState(false);
  const [inviting, setInviting] = useState(false);
  const { data, error, reload } = useLoad(
    (signal) => onApp("/members", { query: { ...filters, limit: PAGE, offset }, signal }),
    [appId.value, filters, offset],
  );
  const filtered = filters.search || filters.is_guest || filters.is_active;
  return html`<div class="data">
    <div class="strip tabstrip"><${MemberViews} on="members" /></div>
    <div class="strip filters" role="toolbar" aria-label=${t.filters}>
      <${SearchBox} label=${t.members.search} />
      <select
        class="in small" aria-label=${t.members.kind} value=${filters.is_guest}
        onChange=${(/** @type {Typed} */ event) => change({ guest: event.target.value, offset: null })}
      >
        <option value="">${t.members.all}</option>
        <option value="false" selected=${filters.is_guest === "false"}>${t.members.registered}</option>
        <option value="true" selected=${filters.is_guest === "true"}>${t.members.guests}</option>
      </select>
      <select
        class="in small wide" aria-label=${t.members.state} value=${filters.is_active}
        onChange=${(/** @type {Typed} */ event) => change({ active: event.target.value, offset: null })}
      >
        <option value="">${t.members.anyState}</option>
        <option value="true" selected=${filters.is_active === "true"}>${t.members.active}</option>
        <option value="false" selected=${filters.is_active === "false"}>${t.members.inactive}</option>
      </select>
      <span class="grow"></span>
      <span class="s12 soft num">${data && t.members.found(data.total_count)}</span>
      <${Button} kind="small" why=${why()} onClick=${() => setImporting(true)}>${t.members.import}</${Button}>
      <${Button} kind="small" icon="mail" why=${why()} onClick=${() => setInviting(true)}>
        ${t.invitations.invite}
      </${Button}>
      <${Button} kind="go small" icon="plus" why=${why()} onClick=${() => setCreating(true)}>
        ${t.members.create}
      </${Button}>
    </div>
    <div class=${`split ${chosen ? "opened" : ""}`}>
      <div class="listbox">
        <div class="scroll">
          ${listing({
            loaded: { error, reload },
            items: data?.data,
            bones: { rows: 10, columns: 4 },
            empty: filtered
              ? html`<${Empty} title=${t.members.noneFound} text=${t.members.noneFoundText}>
                  <${Button} onClick=${() => change({ search: null, guest: null, active: null, offset: null })}>
                    ${t.clearFilters}
                  </${Button}>
                </${Empty}>`
              : html`<${Empty} title=${t.members.none} text=${t.members.noneText} />`,
            columns: html`
              <th>${t.members.member}</th>
              <th>${t.members.login}</th>
              <th>${t.members.state}</th>
              <th>${t.members.lastActive}</th>
            `,
            row: (member) => html`<tr key=${member.member_id} class=${member.member_id === chosen ? "on" : ""}>
              <td class=${`main ${member.member_id === chosen ? "upright" : ""}`}>
                <button
                  type="button" class="coverbutton line"
                  onClick=${() => change({ member: member.member_id === chosen ? null : member.member_id })}
                  aria-pressed=${member.member_id === chosen ? "true" : "false"}
                >
                  <span class="face" aria-hidden="true">${initials(member.nickname || member.login_id || "G")}</span>
                  <span class="cut">${name(member)}</span>
                </button>
              </td>
              <td class="wide">
                ${member.login_id === null
                  ? html`<span class="null">${t.members.guest}</span>`
                  : html`<code>${plain(member.login_id, 60)}</code>`}
              </td>
              <td>
                ${member.is_active
                  ? html`<span class="soft">${t.members.active}</span>`
                  : html`<${Pill} kind="warn" icon="warn">${t.members.inactive}</${Pill}>`}
              </td>
              <td class="soft wide">${ago(member.last_active_at)}</td>
            </tr>`,
          })}
        </div>
        <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
      </div>
      ${chosen && html`<${Member} key=${chosen} id=${chosen} changed=${reload} />`}
    </div>
    ${importing && html`<${MemberImport} onClose=${() => setImporting(false)} done=${reload} />`}
    ${inviting && html`<${MemberInvite} onClose=${() => setInviting(false)} done=${() => undefined} />`}
    ${creating && html`<${NewMember}
      onClose=${() => setCreating(false)}
      done=${(/** @type {any} */ made) => (reload(), change({ member: made.member_id }))}
    />`}
  </div>`;
}

/** @param {{id: string, changed: () => void}} props */
function Member({ id, changed }) {
  const { data, error, reload, set } = useLoad(
    (signal) => onApp(`/members/${encodeURIComponent(id)}`, { signal }),
    [id],
  );
  const [dialog, setDialog] = useState("");
  const path = /** @type {const} */ (`/members/${encodeURIComponent(id)}`);
  const update = async (/** @type {any} */ body) => {
    try {
      set(await onApp(path, { method: "PATCH", body }));
      changed();
    } catch (error) {
      complain(error);
    }
  };
  const close = () => change({ member: null });
  const act = (/** @type {() => Promise<unknown>} */ action, /** @type {string} */ text) => async () => {
    await action();
    toast(text);
    reload();
    changed();
  };
  return html`<aside class="panel" aria-label=${t.members.member}>
    <header>
      <b class="cut grow">${data ? name(data) : ""}</b>
      <${Button} kind="flat small" icon="cross" label=${t.close} onClick=${close} />
    </header>
    ${error
      ? html`<${Failure} error=${error} retry=${reload} />`
      : !data
        ? html`<${Bones} rows=${5} columns=${2} />`
        : html`
            <dl class="facts-list">
              <div>
                <dt>${t.members.id}</dt>
                <dd><code class="cut">${data.member_id}</code><${Copy} text=${data.member_id} /></dd>
              </div>
              <div>
                <dt>${t.members.login}</dt>
                <dd>
                  ${data.login_id === null ? html`<span class="null">${t.members.guest}</span>` : plain(data.login_id)}
                </dd>
              </div>
              <div>
                <dt>${t.members.nickname}</dt>
                <dd>
                  ${data.nickname === null ? html`<span class="null">${t.none}</span>` : plain(data.nickname)}
                  <${Button}
                    kind="flat small" icon="edit" label=${t.members.rename} why=${why()}
                    onClick=${() => setDialog("rename")}
                  />
                </dd>
              </div>
              <div><dt>${t.members.joined}</dt><dd>${moment(data.created_at)}</dd></div>
              <div><dt>${t.members.lastActive}</dt><dd>${ago(data.last_active_at)}</dd></div>
              <div>
                <dt>${t.members.sessions}</dt>
                <dd>
                  ${data.sessions}
                  <${Button}
                    kind="flat small" why=${why() || (!data.sessions && t.members.noSessions)}
                    onClick=${() => setDialog("signout")}
                  >
                    ${t.members.signOut}
                  </${Button}>
                </dd>
              </div>
              <div>
                <dt><label for="active">${t.members.active}</label></dt>
                <dd>
                  <input
                    id="active" type="checkbox" class="switch" checked=${data.is_active} disabled=${!may("editor")}
                    title=${why() || undefined}
                    onChange=${(/** @type {Typed} */ event) => update({ is_active: event.target.checked })}
                  />
                </dd>
              </div>
              ${data.deletes_at && html`<div>
                <dt>${t.members.deletesAt}</dt>
                <dd><${Pill} kind="warn" icon="warn">${moment(data.deletes_at)}</${Pill}></dd>
              </div>`}
            </dl>
            ${data.sessions > 0 && html`<${Sessions}
              path=${`${path}/sessions`} number=${data.sessions} ended=${reload}
            />`}
            <${MemberFacts}
              member=${data}
              save=${(/** @type {any} */ facts) => onApp(path, { method: "PATCH", body: facts }).then(set)}
            />
            <section class="wellbox">
              <div class="line">
                <h3 class="mono grow">custom_data</h3>
                <${Button}
                  kind="flat small" icon="edit" label=${t.members.editData} why=${why()}
                  onClick=${() => setDialog("data")}
                />
              </div>
              <${Code} text=${JSON.stringify(data.custom_data, null, 2).slice(0, 20000)} label="custom_data" />
            </section>
            <${MemberLinks} id=${id} />
            <${Belongings} id=${id} />
            <${MemberSecurity} member=${data} path=${path} changed=${() => (reload(), changed())} />
            <footer>
              <${Button}
                kind="small" why=${why() || (data.login_id === null && t.members.noPassword)}
                onClick=${() => setDialog("password")}
              >
                ${t.members.setPassword}
              </${Button}>
              <span class="grow"></span>
              <${Button} kind="flat small bad" why=${why()} onClick=${() => setDialog("delete")}>
                ${t.members.delete}
              </${Button}>
            </footer>
          `}
    ${data && dialog === "rename" && html`<${Rename}
      known=${data.nickname}
      save=${(/** @type {string} */ nickname) =>
        onApp(path, { method: "PATCH", body: { nickname: nickname || null } })
          .then(set)
          .then(() => (forgetName(id), changed()))}
      onClose=${() => setDialog("")}
    />`}
    ${data && dialog === "data" && html`<${EditData}
      known=${data.custom_data}
      save=${(/** @type {any} */ custom_data) => onApp(path, { method: "PATCH", body: { custom_data } }).then(set)}
      onClose=${() => setDialog("")}
    />`}
    ${dialog === "password" && html`<${SetPassword}
      save=${(/** @type {string} */ password) =>
        act(() => onApp(`${path}/password`, { method: "PUT", body: { password } }), t.members.passwordSet)()}
      onClose=${() => setDialog("")}
    />`}
    ${data && dialog === "signout" && html`<${Confirm}
      title=${t.members.signOutTitle(name(data))} text=${t.members.signOutText} action=${t.members.signOut}
      onClose=${() => setDialog("")}
      run=${act(() => onApp(`${path}/sign-out-everywhere`, { method: "POST" }), t.members.signedOut)}
    />`}
    ${data && dialog === "delete" && html`<${Confirm}
      title=${t.members.deleteTitle(name(data))} text=${t.members.deleteText} action=${t.members.delete}
      name=${data.login_id || data.member_id.slice(-4)} onClose=${() => setDialog("")}
      run=${async () => (await onApp(path, { method: "DELETE" }), toast(t.members.deleted), changed(), close())}
    />`}
  </aside>`;
}

/** Where a member is signed in. @param {{path: `${MemberPath}/sessions`, number: number, ended: () => void}} props */
function Sessions({ path, number, ended }) {
  const { data, reload } = useLoad((signal) => onApp(path, { signal }), [path, number]);
  const end = async (/** @type {string} */ id) => {
    try {
      await onApp(`${path}/${id}`, { method: "DELETE" });
      toast(t.profile.sessionEnded);
    } catch (error) {
      complain(error);
    }
    reload();
    ended();
  };
  return html`<section class="wellbox">
    <h3>${t.members.sessions}</h3>
    <ul class="sessions">
      ${(data?.sessions || []).map(
        (one) => html`<li key=${one.session_id}>
          <span class="grow s13" title=${one.user_agent || undefined}>
            ${browser(one.user_agent)}
            <span class="soft s12 under">
              ${t.profile.since(moment(one.created_at))} · ${t.profile.lastUsed(ago(one.refreshed_at))}
            </span>
          </span>
          <${Button} kind="flat small" why=${why()} onClick=${() => end(one.session_id)}>
            ${t.profile.endSession}
          </${Button}>
        </li>`,
      )}
    </ul>
  </section>`;
}

/** @param {{onClose: () => void, done: (member: Api.MemberRecord) => void}} props */
function NewMember({ onClose, done }) {
  const [login, setLogin] = useState("");
  const [nickname, setNickname] = useState("");
  const [password, setPassword] = useState("");
  const settings = useLoad((signal) => onApp("/account-settings", { signal }), [appId.value]);
  const [profile, setProfile] = useState(/** @type {Record<string, string>} */ ({}));
  const asked = (settings.data?.sign_up_fields || []).map((field) => ({
    ...field,
    ...parse(profile[field.name] || "", { ...field, type: field.type, required: field.is_required, encrypted: false }),
  }));
  const create = async () => {
    const given = asked.filter((field) => profile[field.name]).map((field) => [field.name, field.value]);
    const body = { login_id: login, password, nickname: nickname || null, profile: Object.fromEntries(given) };
    done(await onApp("/members", { method: "POST", body }));
    toast(t.members.created);
    onClose();
  };
  return html`<${FormDialog}
    title=${t.members.create} action=${t.members.createAction} onClose=${onClose} submit=${create}
    why=${(!login.trim() && t.members.loginFirst) || (!password && t.members.passwordFirst)}
  >
    <${TextField}
      label=${t.members.login} value=${login} onInput=${setLogin} maxlength="255" autocomplete="off" spellcheck="false"
    />
    <${TextField}
      label=${t.members.nickname} value=${nickname} onInput=${setNickname} maxlength="100" optional autocomplete="off"
    />
    <${TextField}
      label=${t.password} type="password" autocomplete="new-password" value=${password} onInput=${setPassword}
      help=${t.members.createHelp}
    />
    ${asked.map(
      ({ name, label, is_required, wrong }) => html`<${TextField}
        key=${name} label=${label} value=${profile[name] || ""} autocomplete="off" optional=${!is_required}
        wrong=${profile[name] && wrong}
        onInput=${(/** @type {string} */ text) => setProfile({ ...profile, [name]: text })}
      />`,
    )}
  </${FormDialog}>`;
}

/** @param {{known: string | null, save: (nickname: string) => Promise<unknown>, onClose: () => void}} props */
function Rename({ known, save, onClose }) {
  const [nickname, setNickname] = useState(known || "");
  return html`<${FormDialog}
    title=${t.members.rename} action=${t.save} onClose=${onClose}
    submit=${async () => (await save(nickname), onClose())}
  >
    <${TextField} label=${t.members.nickname} value=${nickname} onInput=${setNickname} maxlength="100" optional />
  </${FormDialog}>`;
}

/** @param {{known: any, save: (data: any) => Promise<unknown>, onClose: () => void}} props */
function EditData({ known, save, onClose }) {
  const [text, setText] = useState(JSON.stringify(known, null, 2));
  const { value, wrong } = parse(text, { name: "custom_data", type: "object", required: true, encrypted: false });
  return html`<${FormDialog}
    title=${t.members.editData} action=${t.save} onClose=${onClose} submit=${async () => (await save(value), onClose())}
    why=${wrong || (value === null && t.grid.notObject)}
  >
    <p class="soft s13">${t.members.dataHelp}</p>
    <${Editor}
      language="json" label="custom_data" rows=${12} numbers focused value=${text} onInput=${setText} wrong=${!!wrong}
    />
    ${wrong && html`<p class="wrong">${wrong}</p>`}
  </${FormDialog}>`;
}

/** @param {{save: (password: string) => Promise<unknown>, onClose: () => void}} props */
function SetPassword({ save, onClose }) {
  const [password, setPassword] = useState("");
  return html`<${FormDialog}
    title=${t.members.setPassword} action=${t.members.setPassword} onClose=${onClose}
    submit=${async () => (await save(password), onClose())} why=${!password && t.members.passwordFirst}
  >
    <${TextField}
      label=${t.profile.newPassword} type="password" autocomplete="new-password" value=${password}
      onInput=${setPassword} help=${t.members.passwordEnds}
    />
  </${FormDialog}>`;
}
