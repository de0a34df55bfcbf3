/** The settings of an app: general, sign-in, plan, limits, people, archives, trash. */
import { html, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { user } from "../state/api.js";
import { CREATOR } from "../grid/values.js";
import { app, appId, loadApps, loadTables, may, onApp, tables } from "../state/app.js";
import { AccountSettings } from "./account-settings.js";
import { go, href, place } from "../state/router.js";
import { ago, date, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import {
  Bones,
  Button,
  Confirm,
  Copy,
  Empty,
  Failure,
  FormDialog,
  Secret,
  SelectField,
  Tabs,
  TextField,
  complain,
  later,
  said,
  toast,
  useAction,
  useLoad,
} from "../ui/widgets.js";

export const head = () => ({ title: t.sectionNames.settings });

const TABS = /** @type {[string, () => unknown][]} */ ([
  ["", () => html`<${General} />`],
  ["sign-in", () => html`<${SignInMethods} />`],
  ["plan", () => html`<${Plan} />`],
  ["limits", () => html`<${Limits} />`],
  ["people", () => html`<${People} />`],
  ["archives", () => html`<${Archives} />`],
  ["branches", () => html`<${Branches} />`],
  ["trash", () => html`<${Trash} />`],
]);
const Archives = later(() => import("./archives.js"), "Archives");
const Plan = later(() => import("./plan.js"), "Plan");
const Limits = later(() => import("./limits.js"), "Limits");
const Branches = later(() => import("./branches.js"), "Branches");
const needs = (/** @type {"owner" | "editor"} */ role) => !may(role) && t.needs[role];

export function Screen() {
  const current = place.value.path.split("/")[4] || "";
  const base = `/apps/${appId.value}/settings`;
  const tab = TABS.find(([name]) => name === current) || TABS[0];
  return html`<div class="stack">
    <div class="strip tabstrip">
      <${Tabs}
        label=${t.sectionNames.settings}
        items=${TABS.map(([name]) => ({
          href: href(name ? `${base}/${name}` : base),
          text: worded(t.settings.tabs, name || "general"),
          on: tab[0] === name,
        }))}
      />
    </div>
    <div class="scroll"><div class="page narrowpage" key=${current}>${tab[1]()}</div></div>
  </div>`;
}

function General() {
  const current = app.value;
  const [name, setName] = useState(current?.name || "");
  const [dialog, setDialog] = useState(false);
  const rename = useAction(async () => {
    await onApp("", { method: "PATCH", body: { name } });
    await loadApps();
    toast(t.saved);
  });
  const lock = useAction(async (locked) => {
    await onApp("", { method: "PATCH", body: { schema_locked: locked } });
    await loadApps();
  });
  return html`
    <section class="slab pad">
      <h2>${t.settings.tabs.general}</h2>
      <form class="form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), rename.run())}>
        <${TextField}
          label=${t.name} value=${name} onInput=${setName} maxlength="100" required disabled=${!may("editor")}
          title=${needs("editor") || undefined} wrong=${rename.error && said(rename.error)}
        />
        <div class="field">
          <span class="label">${t.settings.id}</span>
          <div class="secret">
            <code>${current?.app_id}</code>
            <${Copy} text=${current?.app_id || ""} label=${t.copy} />
          </div>
        </div>
        <div class="actions">
          <${Button}
            type="submit" busy=${rename.busy} why=${needs("editor") || (name === current?.name && t.unchanged)}
          >
            ${t.save}
          </${Button}>
        </div>
      </form>
    </section>
    <section class="slab pad">
      <div class="line">
        <h2 class="grow"><label for="locked">${t.settings.lock}</label></h2>
        <input
          id="locked" type="checkbox" class="switch" checked=${current?.schema_locked}
          disabled=${!may("owner") || lock.busy} title=${needs("owner") || undefined}
          onChange=${(/** @type {Typed} */ event) => lock.run(event.target.checked)}
        />
      </div>
      <p class="soft s13">${t.settings.lockText}</p>
      ${lock.error && html`<p class="notice bad">${said(lock.error)}</p>`}
    </section>
    <${Profiles} />
    <section class="slab pad">
      <h2>${t.settings.danger}</h2>
      <p class="soft s13">${t.settings.dangerText}</p>
      <p>
        <${Button} kind="bad" icon="trash" why=${needs("owner")} onClick=${() => setDialog(true)}>
          ${t.settings.delete}
        </${Button}>
      </p>
    </section>
    ${dialog && html`<${Confirm}
      title=${t.settings.deleteTitle(plain(current?.name, 60))} text=${t.settings.deleteText}
      note=${t.settings.deleteNote} action=${t.settings.delete} onClose=${() => setDialog(false)}
      run=${async () => (await onApp("", { method: "DELETE" }), go("/"), await loadApps())}
    />`}
  `;
}

/** Which table has the profiles of the members. */
function Profiles() {
  const { data, error, reload, set } = useLoad((signal) => onApp("/profiles", { signal }), [appId.value]);
  const change = useAction(async (/** @type {string} */ chosen) => {
    const [table, key] = chosen.split("/");
    set(await onApp("/profiles", { method: "PUT", body: table ? { table, key } : { table: null } }));
    await loadTables();
  });
  const keys = (tables.value || []).flatMap((table) =>
    (table.unique || [])
      .filter((key) => !key.state && !key.where && !key.ignore_case && key.columns.length === 1)
      .filter(
        ({ columns: [name] }) => name === CREATOR || (table.schema[name]?.type || table.schema[name]) === "string",
      )
      .map((key) => ({
        value: `${table.id}/${key.name}`,
        text: t.tables.refersByKey(plain(table.title, 60), key.name),
      })),
  );
  const now = data?.table_id ? `${data.table_id}/${data.key}` : "";
  return html`<section class="slab pad">
    <h2><label for="profiles">${t.settings.profiles}</label></h2>
    <p class="soft s13">${t.settings.profilesText}</p>
    ${error
      ? html`<${Failure} error=${error} retry=${reload} />`
      : html`<select
          id="profiles" class="in" disabled=${!data || !may("editor") || change.busy}
          title=${needs("editor") || undefined} value=${now}
          onChange=${(/** @type {Typed} */ event) => change.run(event.target.value)}
        >
          ${[{ value: "", text: t.settings.profilesNone }, ...keys].map(
            (one) => html`<option value=${one.value} selected=${one.value === now}>${one.text}</option>`,
          )}
        </select>`}
    ${change.error && html`<p class="notice bad">${said(change.error)}</p>`}
  </section>`;
}

function SignInMethods() {
  const { data, error, reload, set } = useLoad((signal) => onApp("/auth-settings", { signal }), [appId.value]);
  if (error) return html`<section class="slab"><${Failure} error=${error} retry=${reload} /></section>`;
  if (!data) return html`<section class="slab"><${Bones} rows=${2} columns=${2} /></section>`;
  const change = async (/** @type {any} */ part) => {
    try {
      set(await onApp("/auth-settings", { method: "PUT", body: { ...data, ...part } }));
    } catch (error) {
      complain(error);
    }
  };
  const row = (/** @type {string} */ name, /** @type {string} */ title, /** @type {string} */ text) => html`<div
    class="option"
  >
    <div class="grow"><label class="label" for=${name}>${title}</label><p class="soft s12">${text}</p></div>
    <input
      id=${name} type="checkbox" class="switch" checked=${/** @type {any} */ (data)[name]} disabled=${!may("editor")}
      title=${needs("editor") || undefined}
      onChange=${(/** @type {Typed} */ event) => change({ [name]: event.target.checked })}
    />
  </div>`;
  return html`
    <section class="slab pad">
      <h2>${t.settings.methods}</h2>
      ${row("allow_id_password_login", t.settings.password, t.settings.passwordText)}
      ${row("allow_guest_login", t.settings.guest, t.settings.guestText)}
    </section>
    <${AccountSettings} />
    <${SocialLogin} />
  `;
}

/** The other providers by which members sign in; they are entered beside what else is OAuth. */
function SocialLogin() {
  const { data, error, reload } = useLoad((signal) => onApp("/oauth/social", { signal }), [appId.value]);
  const on = data?.data.filter((one) => one.is_enabled).map((one) => plain(one.options?.name || one.provider, 60));
  return html`<section class="slab pad">
    <div class="line">
      <h2 class="grow">${t.oauth.tabs.social}</h2>
      <${Button} kind="small" icon="right" href=${href(`/apps/${appId.value}/oauth/social`)}>
        ${t.settings.socialLink}
      </${Button}>
    </div>
    <p class="soft s13">${t.oauth.vendorsText}</p>
    ${error
      ? html`<${Failure} error=${error} retry=${reload} />`
      : on &&
        html`<p class="s13">${on.length ? on.join(", ") : html`<span class="null">${t.oauth.noVendors}</span>`}</p>`}
  </section>`;
}

function People() {
  const people = useLoad((signal) => onApp("/users", { query: { limit: 100 }, signal }), [appId.value]);
  const owner = may("owner");
  const invitations = useLoad(
    async (signal) => (owner ? (await onApp("/invitations", { query: { limit: 100 }, signal })).data : []),
    [appId.value, owner],
  );
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const setRole = async (/** @type {string} */ id, /** @type {string} */ role) => {
    try {
      await onApp(`/users/${id}`, { method: "PATCH", body: { role } });
    } catch (error) {
      complain(error);
    }
    people.reload();
  };
  if (people.error)
    return html`<section class="slab">
      <${Failure} error=${people.error} retry=${() => (people.reload(), invitations.error && invitations.reload())} />
    </section>`;
  return html`
    <section class="slab">
      <header>
        <h2>${t.settings.tabs.people}</h2>
        <span class="grow"></span>
        <${Button} kind="small" icon="plus" why=${needs("owner")} onClick=${() => setDialog({ invite: true })}>
          ${t.settings.invite}
        </${Button}>
      </header>
      ${!people.data
        ? html`<${Bones} rows=${2} columns=${2} />`
        : html`<table class="list">
            <tbody>
              ${people.data.data.map(
                (one) => html`<tr key=${one.user_id}>
                  <td class="main">
                    ${plain(one.email, 100)}
                    ${" "}${one.user_id === user.value?.user_id && html`<span class="soft s12">${t.you}</span>`}
                  </td>
                  <td class="fit">
                    <select
                      class="in small" aria-label=${t.settings.roleOf(one.email)} disabled=${!owner}
                      title=${needs("owner") || undefined} value=${one.role}
                      onChange=${(/** @type {Typed} */ event) => setRole(one.user_id, event.target.value)}
                    >
                      ${Object.entries(t.roles).map(
                        ([role, text]) => html`<option value=${role} selected=${role === one.role}>${text}</option>`,
                      )}
                    </select>
                  </td>
                  <td class="fit">
                    <${Button}
                      kind="flat small bad" icon="trash" label=${t.settings.remove(one.email)}
                      why=${one.user_id !== user.value?.user_id && needs("owner")}
                      onClick=${() => setDialog({ user: one })}
                    />
                  </td>
                </tr>`,
              )}
            </tbody>
          </table>`}
    </section>
    ${invitations.error && html`<section class="slab">
      <${Failure} error=${invitations.error} retry=${invitations.reload} />
    </section>`}
    ${invitations.data && invitations.data.length > 0 && html`<section class="slab">
      <header><h2>${t.settings.invitations}</h2></header>
      <table class="list">
        <tbody>
          ${invitations.data.map(
            (one) => html`<tr key=${one.invitation_id}>
              <td class="main">${plain(one.email, 100)}</td>
              <td>${worded(t.roles, one.role)}</td>
              <td class="soft">${t.settings.expires(ago(one.expires_at))}</td>
              <td class="fit">
                <${Button}
                  kind="flat small bad" icon="trash" label=${t.settings.withdraw(one.email)}
                  onClick=${() =>
                    onApp(`/invitations/${one.invitation_id}`, { method: "DELETE" }).then(invitations.reload, complain)}
                />
              </td>
            </tr>`,
          )}
        </tbody>
      </table>
    </section>`}
    ${dialog?.invite && html`<${Invite} onClose=${() => (setDialog(null), invitations.reload())} />`}
    ${dialog?.user && html`<${Confirm}
      title=${t.settings.removeTitle(dialog.user.email)} text=${t.settings.removeText} action=${t.settings.removeAction}
      onClose=${() => setDialog(null)}
      run=${async () => (
        await onApp(`/users/${dialog.user.user_id}`, { method: "DELETE" }),
        dialog.user.user_id === user.value?.user_id ? (go("/"), await loadApps()) : people.reload()
      )}
    />`}
  `;
}

/** @param {{onClose: () => void}} props */
function Invite({ onClose }) {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState("editor");
  const [made, setMade] = useState(/** @type {any} */ (null));
  if (made)
    return html`<${FormDialog}
      key="made" title=${t.settings.invited(made.email)} action=${t.done} onClose=${onClose}
      submit=${async () => onClose()}
    >
      <p>${t.settings.linkOnce}</p>
      <${Secret} value=${made.link} />
    </${FormDialog}>`;
  return html`<${FormDialog}
    title=${t.settings.invite} action=${t.settings.createLink} onClose=${onClose}
    submit=${async () => setMade(await onApp("/invitations", { method: "POST", body: { email, role } }))}
    why=${!email && t.settings.emailFirst}
  >
    <${TextField}
      label=${t.email} type="email" value=${email} onInput=${setEmail} required maxlength="254" autocomplete="off"
    />
    <${SelectField}
      label=${t.settings.role} value=${role} onInput=${setRole} options=${Object.entries(t.roles)}
      help=${worded(t.roleTexts, role)}
    />
  </${FormDialog}>`;
}

function Trash() {
  const { data, error, reload } = useLoad((signal) => onApp("/trash", { signal }), [appId.value]);
  const [gone, setGone] = useState(/** @type {any} */ (null));
  if (error) return html`<section class="slab"><${Failure} error=${error} retry=${reload} /></section>`;
  if (!data) return html`<section class="slab"><${Bones} rows=${3} /></section>`;
  const items = [
    ...data.tables.map((one) => ({
      ...one,
      name: one.title,
      icon: "table",
      path: `/trash/tables/${one.table_id}`,
      note: t.rows(one.rows),
    })),
    ...data.columns.map((one) => ({
      ...one,
      icon: `t-${one.data_type === "bool" ? "boolean" : one.data_type}`,
      path: `/trash/tables/${one.table_id}/columns/${one.number}`,
      note: t.settings.columnOf(plain(one.table_title, 60)),
    })),
  ];
  const restore = async (/** @type {any} */ item) => {
    try {
      await onApp(`${item.path}/restore`, { method: "POST" });
      toast(t.settings.restored(item.name));
      loadTables();
    } catch (error) {
      complain(error);
    }
    reload();
  };
  return html`
    <section class="slab">
      <header><h2>${t.settings.tabs.trash}</h2></header>
      ${!items.length
        ? html`<${Empty} title=${t.settings.trashEmpty} text=${t.settings.trashText} />`
        : html`<table class="list">
            <thead><tr><th>${t.name}</th><th></th><th>${t.settings.until}</th><th></th></tr></thead>
            <tbody>
              ${items.map(
                (item) => html`<tr key=${item.path}>
                  <td class="main">
                    <span class="line">
                      <${Icon} name=${item.icon} />
                      <span class="cut">${plain(item.name, 80)}</span>
                    </span>
                  </td>
                  <td class="soft fit">${item.note}</td>
                  <td class="soft wide">${date(item.restorable_until)}</td>
                  <td class="fit">
                    <${Button} kind="small" icon="undo" why=${needs("editor")} onClick=${() => restore(item)}>
                      ${t.restore}
                    </${Button}>
                    ${" "}<${Button}
                      kind="flat small bad" icon="trash" label=${t.settings.deleteForever(item.name)}
                      why=${needs("editor")} onClick=${() => setGone(item)}
                    />
                  </td>
                </tr>`,
              )}
            </tbody>
          </table>`}
    </section>
    ${gone && html`<${Confirm}
      title=${t.settings.deleteForever(plain(gone.name, 60))} text=${t.settings.foreverText}
      action=${t.settings.forever} name=${gone.name} onClose=${() => setGone(null)}
      run=${async () => (await onApp(gone.path, { method: "DELETE" }), reload())}
    />`}
  `;
}
