/** The user's second factors: an authenticator app with recovery codes, and passkeys. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { request } from "../state/api.js";
import { havePasskeys, makePasskey } from "../state/passkeys.js";
import { moment } from "../ui/format.js";
import {
  Bones,
  Button,
  Confirm,
  Copy,
  Dialog,
  Failure,
  FormDialog,
  TextField,
  complain,
  toast,
  useLoad,
} from "../ui/widgets.js";

/** The address of a picture that is an SVG element. @param {string} svg */
const picture = (svg) =>
  `data:image/svg+xml,${encodeURIComponent(svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"'))}`;

const FACTORS = "/v1/auth/factors";

export function Factors() {
  const { data, error, reload } = useLoad((signal) => request(FACTORS, { signal }), []);
  const [begun, setBegun] = useState(/** @type {Api.Answer<"POST", "/v1/auth/factors/totp"> | null} */ (null));
  const [codes, setCodes] = useState(/** @type {string[]} */ ([]));
  const [removing, setRemoving] = useState(false);
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  if (!data) return html`<${Bones} rows=${2} columns=${1} />`;
  const begin = () => request(`${FACTORS}/totp`, { method: "POST" }).then(setBegun, complain);
  const renew = () =>
    request(`${FACTORS}/recovery-codes`, { method: "POST" }).then(
      (made) => (setCodes(made.recovery_codes), reload()),
      complain,
    );
  return html`
    ${data.totp
      ? html`
          <p>${t.profile.totpSince(moment(data.totp.created_at))}</p>
          <p class="soft">${t.profile.codesLeft(data.recovery_codes.left)}</p>
          <div class="actions">
            <${Button} onClick=${renew}>${t.profile.newCodes}</${Button}>
            <${Button} kind="flat bad" onClick=${() => setRemoving(true)}>${t.profile.removeTotp}</${Button}>
          </div>
        `
      : html`
          <p class="soft">${t.profile.noTotp}</p>
          <div class="actions"><${Button} onClick=${begin}>${t.profile.addTotp}</${Button}></div>
        `}
    ${(havePasskeys() || data.passkeys.length > 0) && html`<${Passkeys} passkeys=${data.passkeys} reload=${reload} />`}
    ${begun && html`<${NewTotp}
      begun=${begun} onClose=${() => setBegun(null)}
      done=${(/** @type {string[]} */ made) => (setBegun(null), setCodes(made), reload())}
    />`}
    ${codes.length > 0 && html`<${Codes} codes=${codes} onClose=${() => setCodes([])} />`}
    ${removing && html`<${Confirm}
      title=${t.profile.removeTotpTitle} text=${t.profile.removeTotpText} action=${t.profile.removeTotp}
      onClose=${() => setRemoving(false)}
      run=${async () => {
        await request(`${FACTORS}/totp`, { method: "DELETE" });
        toast(t.profile.totpRemoved);
        reload();
      }}
    />`}
  `;
}

/** @param {{passkeys: Api.Passkey[], reload: () => void}} props */
function Passkeys({ passkeys, reload }) {
  const [removed, setRemoved] = useState(/** @type {Api.Passkey | null} */ (null));
  const add = async () => {
    const { ticket, options } = await request(`${FACTORS}/passkeys/start`, { method: "POST" });
    const credential = await makePasskey(options).catch(() => null);
    if (!credential) return toast(t.passkeyUnused);
    const body = { ticket, credential, name: t.profile.passkeyOf(moment(new Date().toISOString())) };
    await request(`${FACTORS}/passkeys`, { method: "POST", body });
    toast(t.profile.passkeyAdded);
    reload();
  };
  return html`
    <h3>${t.profile.passkeys}</h3>
    <p class="soft">${t.profile.passkeysText}</p>
    <ul class="plain-list">
      ${passkeys.map(
        (one) => html`<li key=${one.id} class="option">
          <div class="grow">
            <span class="label">${one.name}</span>
            <p class="soft s12">
              ${one.last_used_at ? t.profile.passkeyUsed(moment(one.last_used_at)) : t.profile.passkeyUnused}
            </p>
          </div>
          <${Button} kind="small" label=${t.profile.removePasskey(one.name)} onClick=${() => setRemoved(one)}>
            ${t.profile.remove}
          </${Button}>
        </li>`,
      )}
    </ul>
    ${havePasskeys() && html`<div class="actions">
      <${Button} onClick=${() => add().catch(complain)}>${t.profile.addPasskey}</${Button}>
    </div>`}
    ${removed && html`<${Confirm}
      title=${t.profile.removePasskeyTitle} text=${t.profile.removePasskeyText(removed.name)} action=${t.profile.remove}
      onClose=${() => setRemoved(null)}
      run=${async () => {
        await request(`${FACTORS}/passkeys/${removed.id}`, { method: "DELETE" });
        toast(t.profile.passkeyRemoved);
        reload();
      }}
    />`}
  `;
}

/** @param {{begun: Api.Answer<"POST", "/v1/auth/factors/totp">, done: (codes: string[]) => void, onClose: () => void}} props */
function NewTotp({ begun, done, onClose }) {
  const [code, setCode] = useState("");
  const confirm = async () => {
    const made = await request(`${FACTORS}/totp/confirm`, { method: "POST", body: { code: code.replace(/\s/g, "") } });
    done(made.recovery_codes);
  };
  return html`<${FormDialog}
    title=${t.profile.addTotp} action=${t.profile.confirmTotp} onClose=${onClose} submit=${confirm}
    why=${!/^\d{6}$/.test(code.replace(/\s/g, "")) && t.profile.codeFirst}
  >
    <p>${t.profile.scan}</p>
    <div class="qr"><img alt=${t.profile.qr} src=${picture(begun.qr)} /></div>
    <p class="soft s13">${t.profile.typeSecret}</p>
    <p class="line">
      <code class="secret">${begun.secret.replace(/(.{4})/g, "$1 ").trim()}</code>
      <${Copy} text=${begun.secret} />
    </p>
    <${TextField}
      label=${t.profile.code} inputmode="numeric" autocomplete="one-time-code" maxlength="7" value=${code}
      onInput=${setCode}
    />
  </${FormDialog}>`;
}

/** Recovery codes, which are shown once. @param {{codes: string[], onClose: () => void}} props */
function Codes({ codes, onClose }) {
  const [copied, setCopied] = useState(false);
  const text = codes.join("\n");
  const footer = html`<span class="grow"></span><${Button} kind="go" onClick=${onClose}>${t.kept}</${Button}>`;
  return html`<${Dialog}
    title=${t.profile.codes} onClose=${onClose} fixed=${!copied} held=${t.keepFirst} footer=${footer}
  >
    <p>${t.profile.codesText}</p>
    <pre class="code recovery" tabindex="0" role="region" aria-label=${t.profile.codes}>${text}</pre>
    <p><${Copy} text=${text} label=${t.profile.copyCodes} kind="small" onDone=${() => setCopied(true)} /></p>
  </${Dialog}>`;
}
