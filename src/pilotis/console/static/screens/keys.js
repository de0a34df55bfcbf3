/** An app's public keys with their origins, and its secret keys. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, denied, may, onApp } from "../state/app.js";
import { ago, plain } from "../ui/format.js";
import { listing } from "../ui/listing.js";
import {
  Button,
  Choice,
  Confirm,
  Copy,
  Empty,
  Field,
  FormDialog,
  SecretDialog,
  TextField,
  toast,
  useLoad,
} from "../ui/widgets.js";

export const head = () => ({ title: t.sectionNames.keys });

const why = () => denied("editor");

export function Screen() {
  return html`<div class="page"><${PublicKeys} /><${SecretKeys} /></div>`;
}

/** Both kinds: a list, a button that adds, a dialog that revokes. @param {"public" | "secret"} kind */
function useKeys(kind) {
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const loaded = useLoad((signal) => onApp(`/keys/${kind}`, { query: { limit: 100 }, signal }), [appId.value, kind]);
  const revoke = (/** @type {any} */ key) => async () => {
    await onApp(`/keys/${kind}/${key.key_id}`, { method: "DELETE" });
    loaded.reload();
    toast(t.keys.revoked(key.name));
  };
  return { ...loaded, dialog, setDialog, revoke };
}

function PublicKeys() {
  const { data, error, reload, dialog, setDialog, revoke } = useKeys("public");
  return html`<section class="slab">
    <header>
      <h2>${t.keys.publics}</h2>
      <span class="grow"></span>
      <${Button} kind="small" icon="plus" why=${why()} onClick=${() => setDialog({})}>${t.keys.addPublic}</${Button}>
    </header>
    <p class="lead">${t.keys.publicLead}</p>
    ${listing({
      loaded: { error, reload },
      items: data?.data,
      bones: { rows: 2 },
      empty: html`<${Empty} title=${t.keys.nonePublic} text=${t.keys.nonePublicText} />`,
      columns: html`<th>${t.name}</th><th>${t.keys.key}</th><th>${t.keys.origins}</th><th>${t.keys.used}</th><th></th>`,
      row: (/** @type {any} */ key) => html`<tr key=${key.key_id}>
        <td class="main">${plain(key.name, 60)}</td>
        <td class="wide">
          <span class="line"><code class="cut keytext">${key.key}</code><${Copy} text=${key.key} /></span>
        </td>
        <td class="wide">
          ${key.allowed_origins.length
            ? key.allowed_origins.map(
                (/** @type {string} */ origin) => html`<div><code>${plain(origin, 60)}</code></div>`,
              )
            : html`<span class="soft">${t.keys.anySite}</span>`}
        </td>
        <td class="soft">${key.last_used_at ? ago(key.last_used_at) : t.keys.never}</td>
        <td class="fit">
          <${Button}
            kind="flat small" icon="edit" label=${t.keys.edit(key.name)} why=${why()}
            onClick=${() => setDialog({ key })}
          />
          <${Button}
            kind="flat small bad" icon="trash" label=${t.keys.revokeNamed(key.name)} why=${why()}
            onClick=${() => setDialog({ key, gone: true })}
          />
        </td>
      </tr>`,
    })}
    ${
      dialog &&
      (dialog.gone
        ? html`<${Confirm}
            title=${t.keys.revokeTitle(dialog.key.name)} text=${t.keys.revokeText} action=${t.keys.revoke}
            onClose=${() => setDialog(null)} run=${revoke(dialog.key)}
          />`
        : html`<${PublicKeyDialog} known=${dialog.key} onClose=${() => (setDialog(null), reload())} />`)
    }
  </section>`;
}

/** @param {{known?: any, onClose: () => void}} props */
function PublicKeyDialog({ known, onClose }) {
  const [name, setName] = useState(known?.name || "");
  const [origins, setOrigins] = useState((known?.allowed_origins || []).join("\n"));
  const save = async () => {
    const body = { name, allowed_origins: origins.split(/\s+/).filter(Boolean) };
    await (known
      ? onApp(`/keys/public/${known.key_id}`, { method: "PATCH", body })
      : onApp("/keys/public", { method: "POST", body }));
    onClose();
  };
  return html`<${FormDialog}
    title=${known ? t.keys.edit(known.name) : t.keys.addPublic} onClose=${onClose} submit=${save}
    action=${known ? t.save : t.keys.addPublic} why=${!name.trim() && t.nameFirst}
  >
    <${TextField} label=${t.name} value=${name} onInput=${setName} maxlength="100" autocomplete="off" />
    <${Field} label=${t.keys.origins} help=${t.keys.originsHelp} optional>
      ${(/** @type {Bind} */ bind) => html`<textarea
        class="in code" rows="3" spellcheck="false" placeholder="https://example.com" value=${origins}
        onInput=${(/** @type {Typed} */ event) => setOrigins(event.target.value)} ...${bind}
      />`}
    </${Field}>
  </${FormDialog}>`;
}

function SecretKeys() {
  const { data, error, reload, dialog, setDialog, revoke } = useKeys("secret");
  return html`<section class="slab">
    <header>
      <h2>${t.keys.secrets}</h2>
      <span class="grow"></span>
      <${Button} kind="small" icon="plus" why=${why()} onClick=${() => setDialog({})}>${t.keys.addSecret}</${Button}>
    </header>
    <p class="lead">${t.keys.secretLead}</p>
    ${listing({
      loaded: { error, reload },
      items: data?.data,
      bones: { rows: 2 },
      empty: html`<${Empty} title=${t.keys.noneSecret} text=${t.keys.noneSecretText} />`,
      columns: html`
        <th>${t.name}</th>
        <th>${t.keys.key}</th>
        <th>${t.settings.role}</th>
        <th>${t.keys.actsFor}</th>
        <th>${t.keys.used}</th>
        <th></th>
      `,
      row: (/** @type {any} */ key) => html`<tr key=${key.key_id}>
        <td class="main">${plain(key.name, 60)}</td>
        <td class="wide"><code>${key.prefix}…</code></td>
        <td class="wide">
          ${t.roles[/** @type {"viewer" | "editor"} */ (key.role)]}
          ${key.may_sign_in_members && html`<span class="soft s12"> · ${t.keys.signsIn}</span>`}
        </td>
        <td class="wide">${key.email ? plain(key.email, 80) : html`<span class="soft">${t.keys.operator}</span>`}</td>
        <td class="soft">${key.last_used_at ? ago(key.last_used_at) : t.keys.never}</td>
        <td class="fit">
          <${Button}
            kind="flat small bad" icon="trash" label=${t.keys.revokeNamed(key.name)} why=${why()}
            onClick=${() => setDialog({ key })}
          />
        </td>
      </tr>`,
    })}
    ${
      dialog &&
      (dialog.key
        ? html`<${Confirm}
            title=${t.keys.revokeTitle(dialog.key.name)} text=${t.keys.revokeText} action=${t.keys.revoke}
            onClose=${() => setDialog(null)} run=${revoke(dialog.key)}
          />`
        : html`<${NewSecretKey} onClose=${() => (setDialog(null), reload())} />`)
    }
  </section>`;
}

/** @param {{onClose: () => void}} props */
function NewSecretKey({ onClose }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState("editor");
  const [signs, setSigns] = useState(false);
  const [made, setMade] = useState(/** @type {any} */ (null));
  const create = async () => {
    const body = { name, role, may_sign_in_members: signs && role === "editor" };
    setMade(await onApp("/keys/secret", { method: "POST", body }));
  };
  if (made)
    return html`<${SecretDialog}
      key="made" title=${t.keys.made(made.name)} onClose=${onClose} value=${made.key}
      text=${`${role === "viewer" ? t.keys.viewerText : t.keys.editorText} ${t.keys.once}`}
    />`;
  return html`<${FormDialog}
    title=${t.keys.addSecret} onClose=${onClose} submit=${create} action=${t.keys.addSecret}
    why=${!name.trim() && t.nameFirst}
  >
    <${TextField}
      label=${t.name} value=${name} onInput=${setName} maxlength="100" autocomplete="off" help=${t.keys.secretName}
    />
    <${Choice}
      label=${t.settings.role} value=${role} onInput=${setRole}
      options=${[
        { value: "editor", icon: "edit", title: t.roles.editor, text: t.keys.editorText },
        { value: "viewer", icon: "table", title: t.roles.viewer, text: t.keys.viewerText },
      ]}
    />
    ${role === "editor" && may("owner") && html`<div class="field">
      <label class="check">
        <input
          type="checkbox" checked=${signs} onChange=${(/** @type {any} */ event) => setSigns(event.target.checked)}
        />
        ${" "}${t.keys.signsIn}
      </label>
      <p class="soft s12">${t.keys.signsInText}</p>
    </div>`}
  </${FormDialog}>`;
}
