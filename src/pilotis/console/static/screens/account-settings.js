/** How the app's members make accounts and prove who they are: the account settings, each saved when it is changed. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, may, onApp } from "../state/app.js";
import {
  Bones,
  Button,
  Failure,
  FormDialog,
  SelectField,
  TextAreaField,
  TextField,
  complain,
  useLoad,
} from "../ui/widgets.js";
import { AccountTheme } from "./account-theme.js";

/** @typedef {Api.AppAccountSettings} Settings */

/** What is offered; another number was set over the API. */
const GRACE_DAYS = [0, 7, 14, 30, 90];
const WAYS = /** @type {const} */ (["password", "email", "social", "guest"]);
const HOOKS = /** @type {const} */ (["before_sign_up", "before_sign_in", "send_mail", "verify_challenge"]);
const URLS = /** @type {const} */ (["verify", "reset", "sign_in", "invite"]);
const ACTIONS = /** @type {const} */ (["signup", "signin", "guest", "mail", "reset"]);
/** What an app begins with that makes no rows. */
const EXAMPLE = [
  { table: "profiles", data: { member: { $member: "id" }, username: { $input: "username", label: "User name" } } },
];
const why = () => (may("owner") ? "" : t.needs.owner);

export function AccountSettings() {
  const { data, error, reload, set } = useLoad((signal) => onApp("/account-settings", { signal }), [appId.value]);
  const functions = useLoad((signal) => onApp("/functions", { query: { limit: 200 }, signal }), [appId.value]);
  const [editing, setEditing] = useState(/** @type {"" | "domain" | "rows" | "challenge" | "urls"} */ (""));
  if (error) return html`<section class="slab"><${Failure} error=${error} retry=${reload} /></section>`;
  if (!data) return html`<section class="slab"><${Bones} rows=${6} columns=${2} /></section>`;
  const change = async (/** @type {any} */ body) => {
    try {
      set(await onApp("/account-settings", { method: "PATCH", body }));
    } catch (error) {
      complain(error);
      reload();
    }
  };
  const words = t.settings.accounts;
  const method = (/** @type {"email_code" | "email_link" | "passkey"} */ name) =>
    toggle(`method-${name}`, words[name], words[`${name}_text`], data.methods[name], (on) =>
      change({ methods: { [name]: on } }),
    );
  const choice = (/** @type {keyof typeof words.choices} */ name) => html`<${SelectField}
    label=${words[name]} help=${words[`${name}_text`]} value=${data[name]} disabled=${!may("owner")}
    title=${why() || undefined} onInput=${(/** @type {string} */ value) => change({ [name]: value })}
    options=${Object.entries(words.choices[name])}
  />`;
  return html`
    <section class="slab pad">
      <h2>${words.more}</h2>
      ${method("email_code")} ${method("email_link")} ${method("passkey")}
      ${data.methods.passkey && html`<div class="option">
        <div class="grow">
          <span class="label">${words.domain}</span>
          <p class="soft s12">${data.passkey_domain ? html`<code>${data.passkey_domain}</code>` : words.ownDomain}</p>
        </div>
        <${Button} kind="small" why=${why()} onClick=${() => setEditing("domain")}>${t.edit}</${Button}>
      </div>`}
    </section>
    <section class="slab pad">
      <h2>${words.title}</h2>
      <div class="form">
        ${choice("sign_up")} ${choice("login_id_form")} ${choice("email_verification")} ${choice("second_factor")}
        <${SelectField}
          label=${words.default_language} help=${words.default_language_text} value=${data.default_language}
          disabled=${!may("owner")} title=${why() || undefined} options=${Object.entries(words.languages)}
          onInput=${(/** @type {any} */ value) => change({ default_language: value })}
        />
        ${choice("on_member_delete")}
        <${SelectField}
          label=${words.deletion_grace_days} help=${words.deletion_grace_days_text}
          value=${String(data.deletion_grace_days)} disabled=${!may("owner")} title=${why() || undefined}
          options=${[...new Set([...GRACE_DAYS, data.deletion_grace_days])]
            .sort((one, other) => one - other)
            .map((days) => [String(days), words.graceDays(days)])}
          onInput=${(/** @type {string} */ value) => change({ deletion_grace_days: Number(value) })}
        />
        ${choice("impersonation")}
      </div>
      ${data.sign_up !== "closed" && html`<fieldset class="field">
        <legend class="label">${words.ways}</legend>
        ${WAYS.map(
          (way) => html`<label key=${way} class="check" title=${why() || undefined}>
            <input
              type="checkbox" checked=${data.sign_up_methods.includes(way)}
              disabled=${!may("owner") || (data.sign_up_methods.length === 1 && data.sign_up_methods.includes(way))}
              onChange=${(/** @type {Typed} */ event) =>
                change({
                  sign_up_methods: WAYS.filter((one) =>
                    one === way ? event.target.checked : data.sign_up_methods.includes(one),
                  ),
                })}
            />
            ${" "}${words.way[way]}
          </label>`,
        )}
        <p class="soft s12">${words.waysText}</p>
      </fieldset>`}
      ${toggle("team-factor", words.teamFactor, words.teamFactorText, data.team_second_factor, (on) =>
        change({ team_second_factor: on }),
      )}
      ${data.second_factor === "required" && toggle(
        "mail-factor",
        words.mailFactor,
        words.mailFactorText,
        data.second_factors.includes("email_code"),
        (on) =>
          change({
            second_factors: [
              ...data.second_factors.filter((name) => name !== "email_code"),
              ...(on ? ["email_code"] : []),
            ],
          }),
      )}
      ${toggle("password_check", words.password_check, words.password_check_text, data.password_check, (on) =>
        change({ password_check: on }),
      )}
    </section>
    <section class="slab pad">
      <h2>${words.rows}</h2>
      <div class="option">
        <div class="grow">
          <p class="soft s13">${words.rowsText}</p>
          ${data.on_sign_up.map(
            (row) => html`<p key=${JSON.stringify(row)} class="s13">
              <b>${row.table}</b>
              ${row.guests && ` · ${words.alsoGuests}`}
              ${" "}<code class="wrap">
                ${Object.entries(row.data || {})
                  .map(shownValue)
                  .join(", ")}
              </code>
            </p>`,
          )}
        </div>
        <${Button} kind="small" label=${words.editRows} why=${why()} onClick=${() => setEditing("rows")}>
          ${t.edit}
        </${Button}>
      </div>
    </section>
    <section class="slab pad">
      <h2>${words.urls}</h2>
      <div class="option">
        <div class="grow">
          <p class="soft s13">${words.urlsText}</p>
          ${URLS.filter((name) => data.urls[name]).map(
            (name) => html`<p key=${name} class="s13">
              ${words.url[name]}: <code class="wrap">${data.urls[name]}</code>
            </p>`,
          )}
        </div>
        <${Button} kind="small" label=${words.editUrls} why=${why()} onClick=${() => setEditing("urls")}>
          ${t.edit}
        </${Button}>
      </div>
    </section>
    <section class="slab pad">
      <h2>${words.challenge}</h2>
      <div class="option">
        <div class="grow">
          <span class="label">${words.challenges[data.challenge.provider]}</span>
          <p class="soft s12">
            ${data.challenge.provider === "proof_of_work"
              ? words.puzzleText
              : html`<code>${data.challenge.site_key}</code>`}
          </p>
        </div>
        <${Button} kind="small" label=${words.editChallenge} why=${why()} onClick=${() => setEditing("challenge")}>
          ${t.edit}
        </${Button}>
      </div>
      <fieldset class="field">
        <legend class="label">${words.challenge_on}</legend>
        ${ACTIONS.map(
          (name) => html`<label key=${name} class="check" title=${why() || undefined}>
            <input
              type="checkbox" checked=${data.challenge_on.includes(name)} disabled=${!may("owner")}
              onChange=${(/** @type {Typed} */ event) =>
                change({
                  challenge_on: ACTIONS.filter((one) =>
                    one === name ? event.target.checked : data.challenge_on.includes(one),
                  ),
                })}
            />
            ${" "}${words.challenged[name]}
          </label>`,
        )}
      </fieldset>
    </section>
    <section class="slab pad">
      <h2>${words.hooks}</h2>
      <p class="soft s13">${words.hooksText}</p>
      <div class="form">
        ${HOOKS.map(
          (name) => html`<${SelectField}
            key=${name} label=${words[name]} help=${words[`${name}_text`]} value=${data.hooks[name] || ""}
            disabled=${!may("owner")} title=${why() || undefined}
            onInput=${(/** @type {string} */ value) => change({ hooks: { [name]: value || null } })}
            options=${[
              ["", t.none],
              ...(functions.data?.data || []).map((/** @type {any} */ one) => [one.id, one.name]),
            ]}
          />`,
        )}
      </div>
    </section>
    <${AccountTheme} settings=${data} set=${set} />
    ${editing && html`<${{ domain: Domain, rows: Rows, challenge: Challenge, urls: Urls }[editing]}
      known=${data} onClose=${() => setEditing("")}
      save=${async (/** @type {any} */ body) => set(await onApp("/account-settings", { method: "PATCH", body }))}
    />`}
  `;
}

/**
 * @param {string} id @param {string} title @param {string} text @param {boolean} on
 * @param {(on: boolean) => unknown} change
 */
const toggle = (id, title, text, on, change) => html`<div class="option">
  <div class="grow"><label class="label" for=${id}>${title}</label><p class="soft s12">${text}</p></div>
  <input
    id=${id} type="checkbox" class="switch" checked=${on} disabled=${!may("owner")} title=${why() || undefined}
    onChange=${(/** @type {Typed} */ event) => change(event.target.checked)}
  />
</div>`;

/** What a column of a row gets that is made with a member. @param {[string, any]} entry */
function shownValue([column, value]) {
  const operator = value && typeof value === "object" && ["$member", "$input", "$ref"].find((name) => name in value);
  return `${column}: ${operator ? `${operator} ${value[operator]}` : JSON.stringify(value)}`;
}

/** The rows that are made with a member. @param {{known: Settings, save: (body: any) => Promise<unknown>, onClose: () => void}} props */
function Rows({ known, save, onClose }) {
  const [text, setText] = useState(JSON.stringify(known.on_sign_up.length ? known.on_sign_up : EXAMPLE, null, 2));
  const submit = async () => {
    await save({ on_sign_up: JSON.parse(text) });
    onClose();
  };
  const words = t.settings.accounts;
  return html`<${FormDialog}
    class="broad" title=${words.rows} action=${t.save} onClose=${onClose} submit=${submit}
    about=${(/** @type {unknown} */ error) => (error instanceof SyntaxError ? t.grid.notJson(error.message) : null)}
  >
    <${TextAreaField} label="JSON" value=${text} onInput=${setText} rows="16" help=${words.rowsHelp} data-first />
  </${FormDialog}>`;
}

/** Where the links of mails lead. @param {{known: Settings, save: (body: any) => Promise<unknown>, onClose: () => void}} props */
function Urls({ known, save, onClose }) {
  const [urls, setUrls] = useState(known.urls);
  const submit = async () => {
    await save({ urls: Object.fromEntries(URLS.map((name) => [name, urls[name]?.trim() || null])) });
    onClose();
  };
  const words = t.settings.accounts;
  return html`<${FormDialog} title=${words.urls} action=${t.save} onClose=${onClose} submit=${submit}>
    ${URLS.map(
      (name, index) => html`<${TextField}
        key=${name} label=${words.url[name]} value=${urls[name] || ""} optional spellcheck="false" maxlength="2000"
        placeholder="https://app.example.com" data-first=${index === 0 || undefined}
        onInput=${(/** @type {string} */ value) => setUrls({ ...urls, [name]: value })}
      />`,
    )}
    <p class="soft s13">${words.urlsHelp}</p>
  </${FormDialog}>`;
}

/** What tells people from robots. @param {{known: Settings, save: (body: any) => Promise<unknown>, onClose: () => void}} props */
function Challenge({ known, save, onClose }) {
  const [provider, setProvider] = useState(known.challenge.provider);
  const [key, setKey] = useState(known.challenge.site_key || "");
  const [secret, setSecret] = useState("");
  const [isOpen, setOpen] = useState(known.challenge.open_when_unreachable);
  const isVendor = provider !== "proof_of_work";
  const isSame = provider === known.challenge.provider;
  const submit = async () => {
    const vendor = { site_key: key.trim(), open_when_unreachable: isOpen, ...(secret ? { secret } : {}) };
    await save({ challenge: { provider, ...(isVendor ? vendor : {}) } });
    onClose();
  };
  const words = t.settings.accounts;
  return html`<${FormDialog} title=${words.challenge} action=${t.save} onClose=${onClose} submit=${submit}>
    <${SelectField}
      label=${words.challengeBy} value=${provider} options=${Object.entries(words.challenges)}
      onInput=${(/** @type {any} */ value) => setProvider(value)} data-first
    />
    ${isVendor && html`
      <${TextField} label=${words.siteKey} value=${key} onInput=${setKey} spellcheck="false" maxlength="200" required />
      <${TextField}
        label=${words.secret} type="password" autocomplete="off" value=${secret} onInput=${setSecret} maxlength="500"
        required=${!(isSame && known.challenge.has_secret)} optional=${isSame && known.challenge.has_secret}
        help=${isSame && known.challenge.has_secret ? words.secretStays : undefined}
      />
      <label class="check">
        <input
          type="checkbox" checked=${isOpen} onChange=${(/** @type {Typed} */ event) => setOpen(event.target.checked)}
        />
        ${" "}${words.openWhenUnreachable}
      </label>
    `}
  </${FormDialog}>`;
}

/** Where passkeys work. @param {{known: Settings, save: (body: any) => Promise<unknown>, onClose: () => void}} props */
function Domain({ known, save, onClose }) {
  const [domain, setDomain] = useState(known.passkey_domain || "");
  const [origins, setOrigins] = useState(known.allowed_origins.join("\n"));
  const submit = async () => {
    const allowed_origins = domain ? origins.split(/\s+/).filter(Boolean) : [];
    await save({ passkey_domain: domain.trim() || null, allowed_origins });
    onClose();
  };
  const words = t.settings.accounts;
  return html`<${FormDialog} title=${words.domain} action=${t.save} onClose=${onClose} submit=${submit}>
    <${TextField}
      label=${words.domain} value=${domain} onInput=${setDomain} optional spellcheck="false" maxlength="253"
      help=${words.domainHelp} placeholder="example.com"
    />
    ${domain && html`<${TextAreaField}
      label=${words.origins} value=${origins} onInput=${setOrigins} rows="3" help=${words.originsHelp}
      placeholder="https://app.example.com"
    />`}
  </${FormDialog}>`;
}
