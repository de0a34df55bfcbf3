/** By which SMTP server an app's mails are sent, and the addresses that get none. */
import { html, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, may, onApp } from "../state/app.js";
import { place } from "../state/router.js";
import { ago, count, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { ListPager, listing } from "../ui/listing.js";
import {
  Bones,
  Button,
  Confirm,
  Empty,
  Failure,
  FormDialog,
  Pill,
  SelectField,
  TextField,
  complain,
  said,
  toast,
  useAction,
  useLoad,
} from "../ui/widgets.js";
import { KeptHere } from "./mail.js";

const PAGE = 50;
const PORTS = /** @type {Record<string, string>} */ ({ smtp: "587", smtps: "465" });

export function Settings() {
  const owner = may("owner");
  const { data, error, reload, set } = useLoad(
    async (signal) => (owner ? onApp("/mail-settings", { signal }) : null),
    [appId.value, owner],
  );
  const [dialog, setDialog] = useState("");
  const test = useAction(async () => setTested(await onApp("/mail-settings/test", { method: "POST" })));
  const [tested, setTested] = useState(/** @type {Api.MailTest | null} */ (null));
  if (!owner)
    return html`<div class="page">
      <div class="slab"><${Empty} title=${t.mail.notAllowed} text=${t.needs.owner} /></div>
    </div>`;
  if (error)
    return html`<div class="page"><section class="slab"><${Failure} error=${error} retry=${reload} /></section></div>`;
  if (!data) return html`<div class="page"><section class="slab"><${Bones} rows=${3} columns=${2} /></section></div>`;
  return html`<div class="scroll">
    <div class="page narrowpage">
      ${data.source === "mailbox" && html`<${KeptHere} />`}
      <section class="slab pad">
        <div class="line">
          <h2 class="grow">${t.mail.sending}</h2>
          <${Pill} kind=${data.source === "mailbox" ? "" : "live"}>${t.mail.sources[data.source]}</${Pill}>
        </div>
        <p class="soft s13">${t.mail.sourceTexts[data.source]}</p>
        ${data.source !== "mailbox" && html`<dl class="facts-list flush">
          ${data.smtp_url && html`<div>
            <dt>${t.mail.server}</dt>
            <dd><code class="cut">${plain(data.smtp_url, 300)}</code></dd>
          </div>`}
          <div><dt>${t.mail.from}</dt><dd>${plain(data.mail_from || data.server_from || "", 300)}</dd></div>
          ${data.mail_reply_to && html`<div><dt>${t.mail.replyTo}</dt><dd>${plain(data.mail_reply_to, 300)}</dd></div>`}
          ${data.mail_per_day > 0 && html`<div>
            <dt>${t.mail.perDay}</dt>
            <dd class="num">${count(data.mail_per_day)}</dd>
          </div>`}
        </dl>`}
        <div class="line wrap">
          <${Button} icon="edit" onClick=${() => setDialog("edit")}>
            ${data.source === "app" ? t.mail.editServer : t.mail.ownServer}
          </${Button}>
          <${Button} icon="mail" busy=${test.busy} onClick=${() => (setTested(null), test.run())}>
            ${t.mail.test}
          </${Button}>
          ${data.source === "app" && html`
            <span class="grow"></span>
            <${Button} kind="flat bad" icon="trash" onClick=${() => setDialog("delete")}>
              ${t.mail.removeServer}
            </${Button}>
          `}
        </div>
        <div role="status">
          ${test.error && html`<p class="notice bad"><${Icon} name="fail" /><span>${said(test.error)}</span></p>`}
          ${tested && html`<p class=${`notice ${tested.state === "failed" ? "bad" : ""}`}>
            <${Icon} name=${tested.state === "failed" ? "fail" : "done"} />
            <span>
              ${t.mail.tested[tested.state](plain(tested.recipient, 254))}
              ${tested.reply && html`<br /><code>${plain(tested.reply, 1000)}</code>`}
            </span>
          </p>`}
        </div>
      </section>
      ${data.source === "app" && html`<section class="slab pad">
        <h2>${t.mail.serversOwn}</h2>
        <p class="soft s13">
          ${data.server_from ? t.mail.serverHas(plain(data.server_from, 254)) : t.mail.serverHasNone}
        </p>
      </section>`}
      ${dialog === "edit" && html`<${ServerDialog} known=${data} saved=${set} onClose=${() => setDialog("")} />`}
      ${dialog === "delete" && html`<${Confirm}
        title=${t.mail.removeServerTitle} text=${data.server_from ? t.mail.thenServer : t.mail.thenMailbox}
        action=${t.mail.removeServer} onClose=${() => setDialog("")}
        run=${async () => (await onApp("/mail-settings", { method: "DELETE" }), setTested(null), reload())}
      />`}
    </div>
  </div>`;
}

/** The parts of the URL of an SMTP server. @param {string | null} url */
function partsOf(url) {
  const parts = url ? new URL(url) : null;
  return {
    scheme: parts?.protocol.replace(":", "") || "smtp",
    host: parts?.hostname || "",
    port: parts?.port || PORTS[parts?.protocol.replace(":", "") || "smtp"],
    user: parts ? decodeURIComponent(parts.username) : "",
  };
}

/** @param {{known: Api.MailSettings, saved: (settings: Api.MailSettings) => void, onClose: () => void}} props */
function ServerDialog({ known, saved, onClose }) {
  const before = partsOf(known.smtp_url);
  const [scheme, setScheme] = useState(before.scheme);
  const [host, setHost] = useState(before.host);
  const [port, setPort] = useState(before.port);
  const [user, setUser] = useState(before.user);
  const [password, setPassword] = useState("");
  const [from, setFrom] = useState(known.mail_from || "");
  const [replyTo, setReplyTo] = useState(known.mail_reply_to || "");
  const login = user ? `${encodeURIComponent(user)}${password ? `:${encodeURIComponent(password)}` : ""}@` : "";
  const isSame = host === before.host && port === before.port && user === before.user && scheme === before.scheme;
  const save = async () => {
    const body = {
      smtp_url: `${scheme}://${login}${host.trim()}:${port}`,
      mail_from: from.trim(),
      mail_reply_to: replyTo.trim() || null,
    };
    saved(await onApp("/mail-settings", { method: "PUT", body }));
    toast(t.saved);
    onClose();
  };
  const secure = (/** @type {string} */ chosen) => {
    if (port === PORTS[scheme]) setPort(PORTS[chosen]);
    setScheme(chosen);
  };
  return html`<${FormDialog}
    title=${t.mail.ownServer} action=${t.save} onClose=${onClose} submit=${save}
    why=${(!host.trim() && t.mail.hostFirst) || (!from.trim() && t.mail.fromFirst)}
  >
    <${TextField}
      label=${t.mail.host} value=${host} onInput=${setHost} maxlength="255" placeholder="smtp.example.com"
      autocomplete="off" autocapitalize="off" spellcheck="false"
    />
    <div class="pair">
      <${SelectField}
        label=${t.mail.security} value=${scheme} onInput=${secure}
        options=${[
          ["smtp", "STARTTLS"],
          ["smtps", "TLS"],
        ]}
      />
      <${TextField}
        label=${t.mail.port} value=${port} onInput=${setPort} inputmode="numeric" pattern="[0-9]{1,5}" required
      />
    </div>
    <${TextField}
      label=${t.mail.user} value=${user} onInput=${setUser} maxlength="255" optional autocomplete="off"
      autocapitalize="off" spellcheck="false"
    />
    <${TextField}
      label=${t.password} type="password" value=${password} onInput=${setPassword} optional autocomplete="off"
      disabled=${!user} help=${known.has_password && isSame ? t.mail.passwordStays : t.mail.passwordSealed}
    />
    <${TextField}
      label=${t.mail.from} value=${from} onInput=${setFrom} maxlength="300" placeholder="Club <club@example.com>"
      autocomplete="off" spellcheck="false"
    />
    <${TextField}
      label=${t.mail.replyTo} type="email" value=${replyTo} onInput=${setReplyTo} maxlength="254" optional
      autocomplete="off"
    />
  </${FormDialog}>`;
}

export function Suppressions() {
  const offset = Number(place.value.query.get("offset")) || 0;
  const allowed = may("editor");
  const { data, error, reload } = useLoad(
    async (signal) => (allowed ? onApp("/mail/suppressions", { query: { limit: PAGE, offset }, signal }) : null),
    [appId.value, allowed, offset],
  );
  const [adding, setAdding] = useState(false);
  const remove = (/** @type {string} */ hash) =>
    onApp(`/mail/suppressions/${hash}`, { method: "DELETE" }).then(
      () => (toast(t.mail.unsuppressed), reload()),
      complain,
    );
  if (!allowed)
    return html`<div class="page">
      <div class="slab"><${Empty} title=${t.mail.notAllowed} text=${t.needs.editor} /></div>
    </div>`;
  return html`
    <div class="strip">
      <span class="soft s13">${data && t.mail.suppressedCount(data.total_count)}</span>
      <span class="grow"></span>
      <${Button} kind="go" icon="plus" why=${denied("editor")} onClick=${() => setAdding(true)}>
        ${t.mail.suppress}
      </${Button}>
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.data,
        bones: { rows: 4, columns: 4 },
        empty: html`<${Empty} title=${t.mail.noSuppressions} text=${t.mail.suppressionsText} />`,
        columns: html`<th>${t.mail.hash}</th><th>${t.mail.reason}</th><th>${t.mail.since}</th><th></th>`,
        row: (one) => html`<tr key=${one.address_hash}>
          <td class="main" title=${one.address_hash}><code>${one.address_hash.slice(0, 16)}…</code></td>
          <td>${worded(t.mail.reasons, one.reason)}</td>
          <td class="soft wide">${ago(one.created_at)}</td>
          <td class="fit">
            <${Button} kind="small" icon="undo" onClick=${() => remove(one.address_hash)}>
              ${t.mail.unsuppress}
            </${Button}>
          </td>
        </tr>`,
      })}
    </div>
    <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
    ${adding && html`<${Suppress} onClose=${() => setAdding(false)} done=${reload} />`}
  `;
}

/** @param {{onClose: () => void, done: () => void}} props */
function Suppress({ onClose, done }) {
  const [address, setAddress] = useState("");
  const save = async () => {
    await onApp("/mail/suppressions", { method: "POST", body: { address } });
    done();
    onClose();
  };
  return html`<${FormDialog}
    title=${t.mail.suppress} action=${t.mail.suppress} onClose=${onClose} submit=${save}
    why=${!address.trim() && t.settings.emailFirst}
  >
    <p class="soft s13">${t.mail.suppressText}</p>
    <${TextField}
      label=${t.email} type="email" value=${address} onInput=${setAddress} maxlength="254" required autocomplete="off"
    />
  </${FormDialog}>`;
}
