/** The app as a place where other programs sign in its members: clients, scopes, vendors of social login, settings. */
import { html, useRef, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, may, onApp } from "../state/app.js";
import { href, place } from "../state/router.js";
import { ago, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { listing } from "../ui/listing.js";
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
  RotateDialog,
  Secret,
  SecretDialog,
  SelectField,
  Tabs,
  TextAreaField,
  TextField,
  complain,
  said,
  toast,
  useAction,
  useLoad,
} from "../ui/widgets.js";
import { Builder, Grants, Keys } from "./oauth-use.js";

export const head = () => ({ title: t.sectionNames.oauth });

const PAGE = 100;
const TABS = /** @type {[string, (settings: any, config: Api.ConsoleConfig) => any][]} */ ([
  ["", () => html`<${Clients} />`],
  ["scopes", () => html`<${Scopes} />`],
  ["social", (_, config) => html`<${Vendors} config=${config} />`],
  ["grants", () => html`<${Grants} />`],
  ["try", () => html`<${Builder} />`],
  ["keys", () => html`<${Keys} />`],
  ["settings", (settings) => html`<${Settings} settings=${settings} />`],
]);
const BUILT_IN = ["openid", "profile", "email", "offline_access"];
const VENDORS = /** @type {Record<string, string>} */ ({
  GOOGLE: "Google",
  APPLE: "Apple",
  FACEBOOK: "Facebook",
  GITHUB: "GitHub",
  KAKAO: "Kakao",
  NAVER: "Naver",
});
/** The vendors that tell by a signed token who it is, as each issuer of OpenID Connect does. */
const SIGNED = ["GOOGLE", "APPLE"];
const why = () => denied("editor");
/** The path of a logo, so that it comes from the address of this page. @param {string} url */
const logoPath = (url) => new URL(url).pathname + new URL(url).search;
const logoOf = (/** @type {string | null} */ url) => url && html`<img class="logo" src=${logoPath(url)} alt="" />`;
const words = (/** @type {string} */ text) => text.split(/\s+/).filter(Boolean);

/** @param {{config: Api.ConsoleConfig}} props */
export function Screen({ config }) {
  const current = place.value.path.split("/")[4] || "";
  const base = `/apps/${appId.value}/oauth`;
  const tab = TABS.find(([name]) => name === current) || TABS[0];
  const settings = useLoad((signal) => onApp("/oauth/settings", { signal }), [appId.value]);
  const begin = () =>
    onApp("/oauth/settings", { method: "PUT", body: { is_provider: true } }).then(settings.set, complain);
  const off = settings.data && !settings.data.is_provider && !["social", "settings"].includes(tab[0]);
  return html`<div class="data">
    <div class="strip tabstrip">
      <${Tabs}
        label=${t.sectionNames.oauth}
        items=${TABS.map(([name]) => ({
          href: href(name ? `${base}/${name}` : base),
          text: worded(t.oauth.tabs, name || "clients"),
          on: tab[0] === name,
        }))}
      />
    </div>
    ${off
      ? html`<${Empty} title=${t.oauth.off} text=${t.oauth.offText}>
          <${Button} kind="go" why=${why()} onClick=${begin}>${t.oauth.begin}</${Button}>
        </${Empty}>`
      : tab[1](settings, config)}
  </div>`;
}

function Clients() {
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const { data, error, reload } = useLoad(
    (signal) => onApp("/oauth/clients", { query: { limit: PAGE }, signal }),
    [appId.value],
  );
  const create = html`<${Button} kind="go" icon="plus" why=${why()} onClick=${() => setDialog({})}>
    ${t.oauth.newClient}
  </${Button}>`;
  const close = () => (setDialog(null), reload());
  return html`
    <div class="strip">
      <span class="soft s13">${data && t.oauth.clients(data.total_count)}</span>
      <span class="grow"></span>
      ${data?.data.length ? create : null}
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.data,
        bones: { rows: 3 },
        empty: html`<${Empty} title=${t.oauth.none} text=${t.oauth.noneText}>${create}</${Empty}>`,
        columns: html`
          <th>${t.name}</th>
          <th>${t.oauth.clientId}</th>
          <th>${t.oauth.scopes}</th>
          <th>${t.keys.used}</th>
          <th></th>
        `,
        row: (one) => html`<tr key=${one.client_id}>
          <td class="main">
            <span class="line">
              ${logoOf(one.logo_url)}
              <span class="cut">${plain(one.name, 60)}</span>
              ${one.first_party && html`<${Pill}>${t.oauth.own}</${Pill}>`}
              ${one.is_dynamic && html`<${Pill}>${t.oauth.dynamic}</${Pill}>`}
              ${!one.is_active && html`<${Pill} kind="warn" icon="warn">${t.functions.off}</${Pill}>`}
            </span>
          </td>
          <td class="wide">
            <span class="line">
              <code class="cut keytext">${plain(one.client_id, 80)}</code>
              <${Copy} text=${one.client_id} />
            </span>
          </td>
          <td class="wide">
            ${one.scopes.slice(0, 4).map((/** @type {string} */ name) => html`<code>${plain(name, 40)}</code> `)}
          </td>
          <td class="soft">${one.last_used_at ? ago(one.last_used_at) : t.keys.never}</td>
          <td class="fit">
            <${Button}
              kind="flat small" icon="edit" label=${t.keys.edit(plain(one.name, 80))} why=${why()}
              onClick=${() => setDialog({ known: one })}
            />
            ${one.has_secret && !one.is_dynamic && html`<${Button}
              kind="flat small" icon="key" label=${t.oauth.rotateOf(plain(one.name, 80))} why=${why()}
              onClick=${() => setDialog({ rotate: one })}
            />`}
            <${Button}
              kind="flat small bad" icon="trash" label=${t.oauth.deleteOf(plain(one.name, 80))} why=${why()}
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
            title=${t.oauth.deleteTitle(plain(dialog.gone.name, 60))} text=${t.oauth.deleteText}
            action=${t.oauth.delete} onClose=${() => setDialog(null)}
            run=${async () => (
              await onApp(`/oauth/clients/${encodeURIComponent(dialog.gone.client_id)}`, { method: "DELETE" }),
              reload()
            )}
          />`
        : dialog.rotate
          ? html`<${RotateDialog}
              title=${t.oauth.rotateOf(plain(dialog.rotate.name, 60))} overlap=${t.oauth.overlap} once=${t.keys.once}
              onClose=${close}
              rotate=${async (/** @type {number} */ seconds) =>
                (
                  await onApp(`/oauth/clients/${encodeURIComponent(dialog.rotate.client_id)}/regenerate-secret`, {
                    method: "POST",
                    body: { overlap_seconds: seconds },
                  })
                ).client_secret}
            />`
          : html`<${ClientDialog} known=${dialog.known} onClose=${close} />`)
    }
  `;
}

/** @param {{known?: any, onClose: () => void}} props */
function ClientDialog({ known, onClose }) {
  const [form, setForm] = useState({
    name: known?.name || "",
    kind: known?.token_endpoint_auth_method || "client_secret_basic",
    is_active: known?.is_active ?? true,
    claims_in_id_token: known?.claims_in_id_token ?? false,
    jwks: known?.jwks ? JSON.stringify(known.jwks, null, 2) : "",
    redirects: (known?.redirect_uris || []).join("\n"),
    scopes: /** @type {string[]} */ (known?.scopes || ["openid"]),
  });
  const [made, setMade] = useState(/** @type {any} */ (null));
  const { data: offered } = useLoad(
    (signal) => onApp("/oauth/scopes", { query: { limit: PAGE }, signal }),
    [appId.value],
  );
  const put = (/** @type {string} */ name) => (/** @type {any} */ value) => setForm({ ...form, [name]: value });
  const isKeyed = form.kind === "private_key_jwt";
  const active =
    known &&
    html`<label class="check">
      <input
        type="checkbox" checked=${form.is_active}
        onChange=${(/** @type {Typed} */ event) => put("is_active")(event.target.checked)}
      />
      ${t.oauth.active}
    </label>`;
  const save = async () => {
    const body = known?.is_dynamic
      ? { is_active: form.is_active }
      : {
          name: form.name,
          redirect_uris: words(form.redirects),
          scopes: form.scopes,
          claims_in_id_token: form.claims_in_id_token,
          ...(isKeyed ? { jwks: keySet(form.jwks) } : {}),
          ...(known ? { is_active: form.is_active } : {}),
        };
    if (known)
      return (await onApp(`/oauth/clients/${encodeURIComponent(known.client_id)}`, { method: "PUT", body }), onClose());
    setMade(
      await onApp("/oauth/clients", { method: "POST", body: { ...body, token_endpoint_auth_method: form.kind } }),
    );
  };
  const clientId =
    made &&
    html`<div class="field"><span class="label">${t.oauth.clientId}</span><${Secret} value=${made.client_id} /></div>`;
  if (made?.client_secret)
    return html`<${SecretDialog}
      key="made" title=${t.keys.made(made.name)} onClose=${onClose} text=${t.oauth.secretOnce} before=${clientId}
      label=${t.oauth.secret} value=${made.client_secret}
    />`;
  if (made)
    return html`<${FormDialog}
      key="made" title=${t.keys.made(made.name)} onClose=${onClose} submit=${async () => onClose()} action=${t.kept}
    >
      ${clientId}
    </${FormDialog}>`;
  if (known?.is_dynamic)
    return html`<${FormDialog}
      title=${t.keys.edit(plain(known.name, 60))} onClose=${onClose} submit=${save} action=${t.save}
    >
      <p class="soft">${t.oauth.dynamicText}</p>
      ${known.jwks && html`<${Code} text=${form.jwks} label="jwks" />`}
      ${active}
    </${FormDialog}>`;
  const names = [...new Set([...BUILT_IN, ...(offered?.data.map((one) => one.name) || []), ...form.scopes])];
  return html`<${FormDialog}
    class="broad" title=${known ? t.keys.edit(plain(known.name, 80)) : t.oauth.newClient} onClose=${onClose}
    submit=${save} action=${known ? t.save : t.oauth.newClient}
    why=${(!form.name.trim() && t.nameFirst) || (isKeyed && !keySet(form.jwks) && t.oauth.jwksFirst)}
  >
    <${TextField}
      label=${t.name} value=${form.name} onInput=${put("name")} maxlength="100" autocomplete="off" data-first
      help=${t.oauth.nameHelp}
    />
    ${!known && html`<${SelectField}
      label=${t.oauth.kind} value=${form.kind} onInput=${put("kind")}
      options=${[
        ["client_secret_basic", t.oauth.confidential],
        ["private_key_jwt", t.oauth.keyed],
        ["none", t.oauth.public],
      ]}
    />`}
    ${isKeyed && html`<${TextAreaField}
      label=${t.oauth.jwks} help=${t.oauth.jwksHelp} rows="4" spellcheck="false"
      placeholder=${'{"keys": [{"kty": "EC", …}]}'} value=${form.jwks} onInput=${put("jwks")}
    />`}
    ${known && html`<${LogoField} client=${known} />`}
    <${TextAreaField}
      label=${t.oauth.redirects} help=${t.oauth.redirectsHelp} rows="3" placeholder="https://shop.example/callback"
      value=${form.redirects} onInput=${put("redirects")}
    />
    <fieldset class="field plain">
      <legend class="label">${t.oauth.mayAsk}</legend>
      <${ScopeTicks} names=${names} chosen=${form.scopes} onInput=${put("scopes")} />
    </fieldset>
    <div class="field">
      <label class="check">
        <input
          type="checkbox" checked=${form.claims_in_id_token}
          onChange=${(/** @type {Typed} */ event) => put("claims_in_id_token")(event.target.checked)}
        />
        ${t.oauth.idClaims}
      </label>
      <p class="help">${t.oauth.idClaimsHelp}</p>
    </div>
    ${active}
  </${FormDialog}>`;
}

/** @param {{names: string[], chosen: string[], onInput: (chosen: string[]) => void}} props */
const ScopeTicks = ({ names, chosen, onInput }) => html`<div class="ticks">
  ${names.map(
    (name) => html`<label class="check" key=${name}>
      <input
        type="checkbox" checked=${chosen.includes(name)}
        onChange=${(/** @type {Typed} */ event) =>
          onInput(event.target.checked ? [...chosen, name] : chosen.filter((one) => one !== name))}
      />
      <code class="cut">${plain(name, 60)}</code>
    </label>`,
  )}
</div>`;

/** The key set in a text, or null. @param {string} text */
function keySet(text) {
  try {
    const found = JSON.parse(text);
    return Array.isArray(found?.keys) && found.keys.length ? found : null;
  } catch {
    return null;
  }
}

/** Uploads at once: a logo is not part of what the form saves. @param {{client: Api.RegisteredClient}} props */
function LogoField({ client }) {
  const [url, setUrl] = useState(client.logo_url);
  const picker = useRef(/** @type {any} */ (null));
  const path = /** @type {const} */ (`/oauth/clients/${encodeURIComponent(client.client_id)}/logo`);
  const send = (/** @type {File} */ file) =>
    file &&
    onApp(path, { method: "PUT", raw: file, headers: { "Content-Type": "application/octet-stream" } }).then(
      (changed) => setUrl(changed.logo_url),
      complain,
    );
  const remove = () => onApp(path, { method: "DELETE" }).then(() => setUrl(null), complain);
  return html`<div class="field">
    <span class="label">${t.oauth.logo}</span>
    <span class="line">
      ${logoOf(url)}
      <${Button} kind="small" onClick=${() => picker.current?.click()}>${t.oauth.chooseLogo}</${Button}>
      ${url && html`<${Button} kind="flat small bad" icon="trash" label=${t.oauth.deleteLogo} onClick=${remove} />`}
    </span>
    <input
      ref=${picker} type="file" hidden aria-label=${t.oauth.logo} accept="image/png,image/jpeg,image/gif,image/webp"
      onChange=${(/** @type {any} */ event) => (send(event.target.files[0]), (event.target.value = ""))}
    />
    <p class="help">${t.oauth.logoHelp}</p>
  </div>`;
}

function Scopes() {
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const { data, error, reload } = useLoad(
    (signal) => onApp("/oauth/scopes", { query: { limit: PAGE }, signal }),
    [appId.value],
  );
  const create = html`<${Button} kind="go" icon="plus" why=${why()} onClick=${() => setDialog({})}>
    ${t.oauth.newScope}
  </${Button}>`;
  return html`
    <div class="strip roomy">
      <span class="soft s13">${t.oauth.scopesText}</span>
      <span class="grow"></span>
      ${data?.data.length ? create : null}
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.data,
        bones: { rows: 3, columns: 3 },
        empty: html`<${Empty} title=${t.oauth.noScopes} text=${t.oauth.noScopesText}>${create}</${Empty}>`,
        columns: html`<th>${t.oauth.scope}</th><th>${t.oauth.shown}</th><th></th>`,
        row: (one) => html`<tr key=${one.name}>
          <td class="main">
            <span class="line">
              <code>${plain(one.name, 64)}</code>
              ${one.is_required && html`<${Pill} icon="lock">${t.oauth.required}</${Pill}>`}
              ${one.is_default && html`<${Pill}>${t.oauth.byDefault}</${Pill}>`}
            </span>
          </td>
          <td class="wide"><b>${plain(one.title, 100)}</b> <span class="soft">${plain(one.description, 200)}</span></td>
          <td class="fit">
            <${Button}
              kind="flat small" icon="edit" label=${t.keys.edit(plain(one.name, 80))} why=${why()}
              onClick=${() => setDialog({ known: one })}
            />
            <${Button}
              kind="flat small bad" icon="trash" label=${t.oauth.deleteOf(plain(one.name, 80))} why=${why()}
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
            title=${t.oauth.deleteTitle(plain(dialog.gone.name, 80))} text=${t.oauth.deleteScopeText}
            action=${t.grid.delete} onClose=${() => setDialog(null)}
            run=${async () => (
              await onApp(`/oauth/scopes/${encodeURIComponent(dialog.gone.name)}`, { method: "DELETE" }),
              reload()
            )}
          />`
        : html`<${ScopeDialog} known=${dialog.known} onClose=${() => (setDialog(null), reload())} />`)
    }
  `;
}

/** @param {{known?: any, onClose: () => void}} props */
function ScopeDialog({ known, onClose }) {
  const [form, setForm] = useState({
    name: known?.name || "",
    title: known?.title || "",
    description: known?.description || "",
    is_default: known?.is_default || false,
    is_required: known?.is_required || false,
  });
  const put = (/** @type {string} */ name) => (/** @type {any} */ value) => setForm({ ...form, [name]: value });
  const tick = (/** @type {string} */ name) => (/** @type {Typed} */ event) => put(name)(event.target.checked);
  const save = async () => {
    const { name, ...body } = form;
    await onApp(`/oauth/scopes/${encodeURIComponent(name)}`, { method: "PUT", body });
    onClose();
  };
  return html`<${FormDialog}
    class="broad" title=${known ? t.keys.edit(plain(known.name, 80)) : t.oauth.newScope} onClose=${onClose}
    submit=${save} action=${t.save} why=${(!form.name.trim() || !form.title.trim()) && t.nameFirst}
  >
    <${TextField}
      label=${t.oauth.scope} value=${form.name} onInput=${put("name")} disabled=${!!known} maxlength="64"
      placeholder="orders:read" spellcheck="false" autocomplete="off" data-first
    />
    <${TextField}
      label=${t.oauth.scopeTitle} value=${form.title} onInput=${put("title")} maxlength="100"
      help=${t.oauth.scopeTitleHelp}
    />
    <${TextField}
      label=${t.tables.description} value=${form.description} onInput=${put("description")} maxlength="500" optional
    />
    <label class="check">
      <input type="checkbox" checked=${form.is_default} onChange=${tick("is_default")} />
      ${t.oauth.defaultText}
    </label>
    <label class="check">
      <input type="checkbox" checked=${form.is_required} onChange=${tick("is_required")} />
      ${t.oauth.requiredText}
    </label>
    <div class="field">
      <span class="label">${t.oauth.preview}</span>
      <div class="consentline">
        <${Icon} name=${form.is_required ? "lock" : "check"} />
        <div><b>${plain(form.title || "…", 100)}</b><p class="soft s13">${plain(form.description, 500)}</p></div>
      </div>
    </div>
  </${FormDialog}>`;
}

/** @param {{config: Api.ConsoleConfig}} props */
function Vendors({ config }) {
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const { data, error, reload } = useLoad((signal) => onApp("/oauth/social", { signal }), [appId.value]);
  const list = data?.data;
  const create = html`<${Button} kind="go" icon="plus" why=${why()} onClick=${() => setDialog({})}>
    ${t.oauth.newVendor}
  </${Button}>`;
  const turn = (/** @type {any} */ one) =>
    onApp(`/oauth/social/${one.provider}`, { method: "PUT", body: { is_enabled: !one.is_enabled } }).then(
      reload,
      complain,
    );
  return html`
    <div class="strip roomy">
      <span class="soft s13">${t.oauth.vendorsText}</span>
      <span class="grow"></span>
      ${list?.length ? create : null}
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: list,
        bones: { rows: 2, columns: 3 },
        empty: html`<${Empty} title=${t.oauth.noVendors} text=${t.oauth.noVendorsText}>${create}</${Empty}>`,
        columns: html`<th>${t.oauth.vendor}</th><th>${t.oauth.toldVendor}</th><th></th>`,
        row: (one) => html`<tr key=${one.provider}>
          <td class="main">${plain(one.options?.name || VENDORS[one.provider] || one.provider, 60)}</td>
          <td class="wide">
            <span class="line"><code class="cut">${one.redirect_uri}</code><${Copy} text=${one.redirect_uri} /></span>
          </td>
          <td class="fit">
            <input
              type="checkbox" class="switch" aria-label=${t.webhooks.on} checked=${one.is_enabled}
              disabled=${!may("editor")} title=${why() || undefined} onChange=${() => turn(one)}
            />
            ${" "}<${Button}
              kind="flat small" icon="edit" label=${t.keys.edit(one.provider)} why=${why()}
              onClick=${() => setDialog({ known: one })}
            />
            <${Button}
              kind="flat small bad" icon="trash" label=${t.oauth.deleteOf(one.provider)} why=${why()}
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
            title=${t.oauth.deleteTitle(dialog.gone.provider)} text=${t.oauth.deleteVendorText} action=${t.grid.delete}
            onClose=${() => setDialog(null)}
            run=${async () => (await onApp(`/oauth/social/${dialog.gone.provider}`, { method: "DELETE" }), reload())}
          />`
        : html`<${VendorDialog}
            known=${dialog.known} base=${config.base_url} onClose=${() => (setDialog(null), reload())}
          />`)
    }
  `;
}

/** @param {{known?: any, base: string, onClose: () => void}} props */
function VendorDialog({ known, base, onClose }) {
  const [form, setForm] = useState({
    provider: known?.provider || "GOOGLE",
    name: known?.options?.name || "",
    issuer: known?.options?.issuer || "",
    client_id: known?.client_id || "",
    client_secret: "",
    client_ids: (known?.client_ids || []).join("\n"),
  });
  const put = (/** @type {string} */ name) => (/** @type {string} */ value) => setForm({ ...form, [name]: value });
  const isOwn = !(form.provider in VENDORS);
  const named =
    known?.provider ||
    (isOwn
      ? form.name
          .toUpperCase()
          .replace(/[^A-Z0-9]+/g, "_")
          .slice(0, 32) || "OIDC"
      : form.provider);
  // The provider asks for it before it gives the client id that is entered here.
  const redirect = known?.redirect_uri || `${base}/v1/public/oauth/${named.toLowerCase()}/callback`;
  const signs = isOwn || SIGNED.includes(form.provider);
  const save = async () => {
    const options = {
      ...known?.options,
      ...(form.name ? { name: form.name } : {}),
      ...(form.issuer ? { issuer: form.issuer } : {}),
    };
    await onApp(`/oauth/social/${encodeURIComponent(named)}`, {
      method: "PUT",
      body: {
        client_id: form.client_id,
        ...(form.client_secret ? { client_secret: form.client_secret } : {}),
        ...(signs ? { client_ids: words(form.client_ids) } : {}),
        options,
        ...(known ? {} : { is_enabled: true }),
      },
    });
    onClose();
  };
  return html`<${FormDialog}
    title=${known ? t.keys.edit(known.provider) : t.oauth.newVendor} onClose=${onClose} submit=${save} action=${t.save}
    why=${!form.client_id.trim() && t.oauth.idFirst}
  >
    ${!known && html`<${SelectField}
      label=${t.oauth.vendor} value=${isOwn ? "OIDC" : form.provider} onInput=${put("provider")}
      options=${[...Object.entries(VENDORS), ["OIDC", t.oauth.anyIssuer]]}
    />`}
    ${isOwn && html`
      <${TextField}
        label=${t.oauth.issuer} value=${form.issuer} onInput=${put("issuer")} placeholder="https://login.example.com"
        spellcheck="false"
      />
      <${TextField}
        label=${t.name} value=${form.name} onInput=${put("name")} maxlength="50" help=${t.oauth.buttonHelp}
      />
    `}
    <div class="field">
      <span class="label">${t.oauth.toldVendor}</span>
      <div class="secret"><code>${redirect}</code><${Copy} text=${redirect} label=${t.copy} /></div>
    </div>
    <${TextField}
      label=${t.oauth.clientId} value=${form.client_id} onInput=${put("client_id")} spellcheck="false"
      autocomplete="off"
    />
    <${TextField}
      label=${t.oauth.secret} type="password" value=${form.client_secret} onInput=${put("client_secret")}
      autocomplete="new-password" optional=${!!known} help=${t.oauth.secretHelp}
    />
    ${signs && html`<${TextAreaField}
      label=${t.oauth.clientIds} help=${t.oauth.clientIdsHelp} optional rows="2" value=${form.client_ids}
      onInput=${put("client_ids")}
    />`}
  </${FormDialog}>`;
}

/** @param {{settings: any}} props */
function Settings({ settings: { data, error, reload, set } }) {
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  return data ? html`<${SettingsForm} known=${data} set=${set} />` : html`<${Bones} rows=${4} columns=${2} />`;
}

/** @param {{known: any, set: (settings: Api.OAuthSettings) => void}} props */
function SettingsForm({ known, set }) {
  const [form, setForm] = useState({
    access_token_seconds: String(known.access_token_seconds),
    refresh_idle_days: String(known.refresh_idle_days),
    refresh_absolute_days: String(known.refresh_absolute_days),
    consent_url: known.consent_url || "",
    login: known.login_redirect_uris.join("\n"),
    dynamic_clients: known.dynamic_clients,
    dynamic_scopes: /** @type {string[]} */ (known.dynamic_scopes),
  });
  const { data: offered } = useLoad(
    (signal) => onApp("/oauth/scopes", { query: { limit: PAGE }, signal }),
    [appId.value],
  );
  const names = [
    ...new Set([...BUILT_IN.slice(1), ...(offered?.data.map((one) => one.name) || []), ...form.dynamic_scopes]),
  ];
  const put = (/** @type {string} */ name) => (/** @type {any} */ value) => setForm({ ...form, [name]: value });
  const owner = may("owner");
  const save = useAction(async () => {
    const body = {
      access_token_seconds: Number(form.access_token_seconds),
      refresh_idle_days: Number(form.refresh_idle_days),
      refresh_absolute_days: Number(form.refresh_absolute_days),
      dynamic_clients: form.dynamic_clients,
      dynamic_scopes: form.dynamic_scopes,
      ...(owner ? { consent_url: form.consent_url || null, login_redirect_uris: words(form.login) } : {}),
    };
    set(await onApp("/oauth/settings", { method: "PUT", body }));
    toast(t.saved);
  });
  const turn = () =>
    onApp("/oauth/settings", { method: "PUT", body: { is_provider: !known.is_provider } }).then(set, complain);
  const wrong = [form.access_token_seconds, form.refresh_idle_days, form.refresh_absolute_days].some(
    (text) => !/^\d+$/.test(text),
  );
  return html`<div class="scroll">
    <div class="page narrowpage">
      <section class="slab pad">
        <div class="line">
          <h2 class="grow"><label for="provider">${t.oauth.isProvider}</label></h2>
          <input
            id="provider" type="checkbox" class="switch" checked=${known.is_provider} disabled=${!may("editor")}
            title=${why() || undefined} onChange=${turn}
          />
        </div>
        <p class="soft s13">${t.oauth.offText}</p>
        <div class="field">
          <span class="label">${t.oauth.discovery}</span>
          <div class="secret">
            <code>${location.origin}/.well-known/openid-configuration</code>
            <${Copy} text=${`${location.origin}/.well-known/openid-configuration`} label=${t.copy} />
          </div>
        </div>
      </section>
      <section class="slab pad">
        <h2>${t.oauth.tabs.settings}</h2>
        <form class="form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), save.run())}>
          <${TextField}
            label=${t.oauth.accessSeconds} value=${form.access_token_seconds} onInput=${put("access_token_seconds")}
            inputmode="numeric"
          />
          <${TextField}
            label=${t.oauth.idleDays} value=${form.refresh_idle_days} onInput=${put("refresh_idle_days")}
            inputmode="numeric"
          />
          <${TextField}
            label=${t.oauth.absoluteDays} value=${form.refresh_absolute_days} onInput=${put("refresh_absolute_days")}
            inputmode="numeric"
          />
          <${TextField}
            label=${t.oauth.consentUrl} value=${form.consent_url} onInput=${put("consent_url")} disabled=${!owner}
            title=${owner ? undefined : t.needs.owner} optional help=${t.oauth.consentUrlHelp} spellcheck="false"
          />
          <${TextAreaField}
            label=${t.oauth.loginRedirects} help=${t.oauth.loginRedirectsHelp} optional rows="2" disabled=${!owner}
            value=${form.login} onInput=${put("login")}
          />
          <div class="field">
            <label class="check">
              <input
                type="checkbox" checked=${form.dynamic_clients}
                onChange=${(/** @type {Typed} */ event) => put("dynamic_clients")(event.target.checked)}
              />
              ${t.oauth.dynamicClients}
            </label>
            <p class="help">${t.oauth.dynamicClientsHelp}</p>
          </div>
          ${form.dynamic_clients && html`<fieldset class="field plain">
            <legend class="label">${t.oauth.dynamicScopes}</legend>
            <${ScopeTicks} names=${names} chosen=${form.dynamic_scopes} onInput=${put("dynamic_scopes")} />
          </fieldset>`}
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
    </div>
  </div>`;
}
