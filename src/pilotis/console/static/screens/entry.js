/** The ways in: signing in, setting up, accepting an invitation. Each ends signed in. */
import { html, useEffect, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import {
  doubted,
  finishSignIn,
  proveAgain,
  proveByPasskey,
  proveNothing,
  request,
  signIn,
  signInByPasskey,
  user,
} from "../state/api.js";
import { apps } from "../state/app.js";
import { havePasskeys } from "../state/passkeys.js";
import { go, place } from "../state/router.js";
import { Icon } from "../ui/icons.js";
import { Button, Dialog, TextField, said, useAction } from "../ui/widgets.js";

/** The token in the fragment, which no server ever sees; it is taken out of the address at once. */
function takeToken() {
  const token = location.hash.slice(1);
  if (token) history.replaceState(null, "", location.pathname + location.search);
  return token;
}

/** @param {{title: string, lead: Markup, children?: Markup}} props */
const Entry = ({ title, lead, children }) => html`<main class="entry">
  <section class="slab">
    <p class="brand"><${Icon} name="mark" class="mark" />Pilotis</p>
    <h1>${title}</h1>
    <p class="soft">${lead}</p>
    ${children}
  </section>
</main>`;

/** Counts down to when another try is allowed. @param {any} error */
function useWait(error) {
  const [left, setLeft] = useState(0);
  useEffect(() => {
    if (!error?.retryAfter || error.status !== 429) return setLeft(0);
    setLeft(error.retryAfter);
    const timer = setInterval(() => setLeft((seconds) => Math.max(0, seconds - 1)), 1000);
    return () => clearInterval(timer);
  }, [error]);
  return left;
}

/** @param {{email?: string, done: () => void}} props */
function Credentials({ email: known = "", done }) {
  const [email, setEmail] = useState(known);
  const [password, setPassword] = useState("");
  const [remember, setRemember] = useState(true);
  const [waiting, setWaiting] = useState(/** @type {{ticket: string, factors: string[]} | null} */ (null));
  const byPasskey = async () => (await signInByPasskey(remember), done());
  const { busy, error, run } = useAction(async () => {
    try {
      await signIn(email, password, remember);
    } catch (failure) {
      if (/** @type {any} */ (failure).code !== "SECOND_FACTOR_REQUIRED") throw failure;
      return setWaiting(/** @type {any} */ (failure));
    }
    done();
  });
  const wait = useWait(error);
  if (waiting)
    return html`<${SecondFactor}
      factors=${waiting.factors} byPasskey=${byPasskey} back=${() => setWaiting(null)}
      finish=${async (/** @type {string} */ code) => (await finishSignIn(waiting.ticket, code, remember), done())}
    />`;
  return html`<form
    class="form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), wait || busy || run())}
  >
    <${TextField}
      label=${t.email} type="email" name="email" autocomplete="username" required maxlength="254" value=${email}
      onInput=${setEmail} readonly=${!!known} data-first=${known ? undefined : true}
    />
    <${TextField}
      label=${t.password} type="password" name="password" autocomplete="current-password" required value=${password}
      onInput=${setPassword} data-first=${known ? true : undefined}
    />
    <label class="check">
      <input
        type="checkbox" checked=${remember}
        onChange=${(/** @type {Typed} */ event) => setRemember(event.target.checked)}
      />
      ${t.staySignedIn}
    </label>
    ${error && html`<p class="notice bad" role="alert">
      <${Icon} name="fail" />
      <span>${wait ? t.waitSeconds(wait) : said(error)}</span>
    </p>`}
    <${Button} kind="go" type="submit" busy=${busy} why=${wait ? t.waitSeconds(wait) : false}>${t.signIn}</${Button}>
    ${havePasskeys() && html`<${PasskeyButton} run=${byPasskey} />`}
  </form>`;
}

/** A button that lets a passkey sign. @param {{run: () => Promise<unknown>}} props */
function PasskeyButton({ run: action }) {
  const { busy, error, run } = useAction(action);
  const text = error && /** @type {any} */ (error.status ? said(error) : t.passkeyUnused);
  return html`
    ${text && html`<p class="notice bad" role="alert"><${Icon} name="fail" /><span>${text}</span></p>`}
    <${Button} busy=${busy} onClick=${run}>${t.usePasskey}</${Button}>
  `;
}

/**
 * The code of an authenticator app, or one of recovery, or a passkey.
 * @param {{factors: string[], finish: (code: string) => Promise<unknown>, byPasskey: () => Promise<unknown>,
 *   back: () => void}} props
 */
function SecondFactor({ factors, finish, byPasskey, back }) {
  const [code, setCode] = useState("");
  const { busy, error, run } = useAction(() => finish(code));
  const wait = useWait(error);
  useEffect(() => /** @type {HTMLElement | null} */ (document.querySelector("[name=code]"))?.focus(), []);
  const passkey = factors.includes("passkey") && havePasskeys() && html`<${PasskeyButton} run=${byPasskey} />`;
  const other = html`<${Button} kind="flat" onClick=${back}>${t.back}</${Button}>`;
  if (!factors.includes("totp"))
    return html`<div class="form">
      <p class="soft">${passkey ? t.passkeyOnly : t.passkeyElsewhere}</p>
      ${passkey}
      ${other}
    </div>`;
  return html`<form class="form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), busy || run())}>
    <${TextField}
      label=${t.factorCode} name="code" autocomplete="one-time-code" required maxlength="20" value=${code}
      onInput=${setCode} help=${t.factorHelp} spellcheck="false"
    />
    ${error && html`<p class="notice bad" role="alert">
      <${Icon} name="fail" />
      <span>${wait ? t.waitSeconds(wait) : said(error)}</span>
    </p>`}
    <${Button} kind="go" type="submit" busy=${busy}>${t.signIn}</${Button}>
    ${passkey} ${other}
  </form>`;
}

/** The dialog that asks again who the user is, before what is dangerous. */
export function ProofDialog() {
  const [proof, setProof] = useState("");
  const { busy, error, run } = useAction(() => proveAgain(proof));
  const methods = doubted.value?.methods || [];
  const byPassword = methods.includes("password");
  const passkey = methods.includes("passkey") && havePasskeys() && html`<${PasskeyButton} run=${proveByPasskey} />`;
  const hasField = byPassword || methods.includes("totp");
  const close = html`
    <span class="grow"></span>
    <${Button} onClick=${proveNothing}>${t.cancel}</${Button}>
    ${hasField && html`<${Button} kind="go" busy=${busy} onClick=${() => proof && run()}>${t.proceed}</${Button}>`}
  `;
  return html`<${Dialog} title=${t.proveTitle} onClose=${proveNothing} footer=${close}>
    <form class="form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), busy || run())}>
      <p class="soft">${t.proveText}</p>
      ${passkey}
      ${!hasField
        ? !passkey && html`<p class="soft">${t.passkeyElsewhere}</p>`
        : byPassword
          ? html`<${TextField}
              label=${t.password} type="password" autocomplete="current-password" required value=${proof}
              onInput=${setProof} wrong=${error && said(error)}
            />`
          : html`<${TextField}
              label=${t.factorCode} autocomplete="one-time-code" required maxlength="20" value=${proof}
              onInput=${setProof} help=${t.factorHelp} wrong=${error && said(error)}
            />`}
    </form>
  </${Dialog}>`;
}

/** A mail with a link for a new password. */
function Forgotten() {
  const [email, setEmail] = useState("");
  const [isAsked, setAsked] = useState(false);
  const { busy, error, run } = useAction(async () => {
    await request("/v1/auth/password-reset/request", { method: "POST", body: { email } });
    setAsked(true);
  });
  if (isAsked)
    return html`<p class="notice info" role="status"><${Icon} name="info" /><span>${t.resetAsked}</span></p>`;
  return html`<details class="forgotten">
    <summary class="s12 soft">${t.forgottenQuestion}</summary>
    <form class="form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), busy || run())}>
      <${TextField}
        label=${t.email} type="email" autocomplete="username" required maxlength="254" value=${email}
        onInput=${setEmail} help=${t.resetHelp} wrong=${error && said(error)}
      />
      <${Button} type="submit" busy=${busy}>${t.resetAction}</${Button}>
    </form>
  </details>`;
}

/** Go to where the user wanted to, within the console. */
function proceed() {
  const wanted = place.value.query.get("to") || "/";
  go(wanted.startsWith("/") && !wanted.startsWith("//") ? wanted : "/", { replace: true });
}

/** @param {{config: Api.ConsoleConfig}} props */
export function SignIn({ config }) {
  useEffect(() => {
    document.title = `${t.signIn} · Pilotis`;
    if (user.value) proceed();
    else /** @type {HTMLElement | null} */ (document.querySelector("[data-first]"))?.focus();
  }, []);
  return html`<${Entry} title=${t.signIn} lead=${new URL(config.base_url).host}>
    ${config.setup_required && html`<p class="notice info"><${Icon} name="info" /><span>${t.setupFirst}</span></p>`}
    <${Credentials} done=${proceed} />
    ${config.sends_mail
      ? html`<${Forgotten} />`
      : html`<p class="s12 soft">${t.forgotten} <code>pilotis user reset</code></p>`}
  </${Entry}>`;
}

/** The dialog that stands over a screen whose session has ended: what was typed stays. */
export function SignInDialog() {
  return html`<${Dialog} title=${t.sessionEnded} onClose=${() => {}} fixed>
    <p class="soft">${t.sessionEndedText}</p>
    <${Credentials} email=${user.value?.email} done=${() => {}} />
  </${Dialog}>`;
}

/** @param {{config: Api.ConsoleConfig, token: string, action: string}} props */
function NewUser({ config, token, action }) {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const { busy, error, run } = useAction(async () => {
    const made = await request("/v1/auth/signup", { method: "POST", body: { email, password, token } });
    // The session of the sign-up has its tokens in the page; the browser's own takes its place.
    await signIn(email, password, true);
    request("/v1/auth/logout", { method: "POST", headers: { Authorization: `Bearer ${made.refresh_token}` } }).catch(
      () => {},
    );
    config.setup_required = false;
    apps.value = null;
    go("/", { replace: true });
  });
  useEffect(() => /** @type {HTMLElement | null} */ (document.querySelector("[data-first]"))?.focus(), []);
  const advice = { INVALID_INVITATION: t.invalidInvitation, EMAIL_TAKEN: t.emailTaken }[
    /** @type {string} */ (error?.code)
  ];
  return html`<form class="form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), busy || run())}>
    <${TextField}
      label=${t.email} type="email" name="email" autocomplete="username" required maxlength="254" value=${email}
      onInput=${setEmail} wrong=${error?.about?.("email")} data-first
    />
    <${TextField}
      label=${t.password} type="password" name="password" autocomplete="new-password" required
      minlength=${config.password_min_length} maxlength=${config.password_max_length} value=${password}
      onInput=${setPassword} help=${t.passwordHelp(config.password_min_length)} wrong=${error?.about?.("password")}
    />
    ${error && html`<p class="notice bad" role="alert">
      <${Icon} name="fail" />
      <span>${said(error)} ${advice}</span>
    </p>`}
    <${Button} kind="go" type="submit" busy=${busy}>${action}</${Button}>
  </form>`;
}

/** @param {{config: Api.ConsoleConfig}} props */
export function SetUp({ config }) {
  const [token] = useState(takeToken);
  useEffect(() => void (document.title = `${t.setUp} · Pilotis`), []);
  return html`<${Entry}
    title=${config.setup_required ? t.setUp : t.join} lead=${config.setup_required ? t.setUpText : t.joinText}
  >
    ${token
      ? html`<${NewUser} config=${config} token=${token} action=${t.createUser} />`
      : html`<p class="notice warn"><${Icon} name="warn" /><span>${t.noToken}</span></p>`}
    ${!config.setup_required && html`<p class="s12 soft">
      ${t.haveUser} <a class="link" href=${token ? `/console/invitation#${token}` : "/console/sign-in"}>${t.signIn}</a>
    </p>`}
  </${Entry}>`;
}

/** An invitation for a user who has an account: sign in, then accept. @param {{config: Api.ConsoleConfig}} props */
export function Invitation({ config }) {
  const [token] = useState(takeToken);
  const { busy, error, run } = useAction(async () => {
    const joined = await request("/v1/invitations/accept", { method: "POST", body: { token } });
    apps.value = null;
    go(`/apps/${joined.app_id}`, { replace: true });
  });
  return html`<${Entry} title=${t.invited} lead=${user.value ? t.invitedAs(user.value.email) : t.invitedText}>
    ${!token
      ? html`<p class="notice warn"><${Icon} name="warn" /><span>${t.noToken}</span></p>`
      : user.value
        ? html`<${Button} kind="go" busy=${busy} onClick=${run}>${t.accept}</${Button}>`
        : html`<${Credentials} done=${() => {}} config=${config} />`}
    ${error && html`<p class="notice bad" role="alert"><${Icon} name="fail" /><span>${said(error)}</span></p>`}
  </${Entry}>`;
}
