/** What clients of the app hold and use: their grants, the keys that sign tokens, and a sign-in to try. */
import { html, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, onApp } from "../state/app.js";
import { change, place } from "../state/router.js";
import { ago, moment, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { ListPager, listing } from "../ui/listing.js";
import {
  Bones,
  Button,
  Code,
  Confirm,
  Copy,
  Empty,
  Failure,
  Pill,
  SelectField,
  State,
  TextAreaField,
  TextField,
  said,
  toast,
  useAction,
  useLoad,
} from "../ui/widgets.js";

const PAGE = 50;
const CLIENTS = 100;
const why = () => denied("editor");

export function Grants() {
  const query = place.value.query;
  const offset = Number(query.get("offset")) || 0;
  const client = query.get("client") || "";
  const [gone, setGone] = useState(/** @type {any} */ (null));
  const { data: clients } = useLoad(
    (signal) => onApp("/oauth/clients", { query: { limit: CLIENTS }, signal }),
    [appId.value],
  );
  const { data, error, reload } = useLoad(
    (signal) => onApp("/oauth/grants", { query: { limit: PAGE, offset, client_id: client }, signal }),
    [appId.value, offset, client],
  );
  return html`
    <div class="strip filters" role="toolbar" aria-label=${t.filters}>
      <select
        class="in small" aria-label=${t.oauth.client} value=${client}
        onChange=${(/** @type {Typed} */ event) => change({ client: event.target.value, offset: null })}
      >
        <option value="">${t.oauth.anyClient}</option>
        ${(clients?.data || []).map(
          (one) => html`<option value=${one.client_id} selected=${one.client_id === client}>
            ${plain(one.name, 60)}
          </option>`,
        )}
      </select>
      <span class="grow"></span>
      <span class="s12 soft num">${data && t.oauth.grantCount(data.total_count)}</span>
      <${Button} kind="flat small" icon="retry" label=${t.reload} onClick=${reload} />
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.data,
        bones: { rows: 5 },
        empty: html`<${Empty} title=${t.oauth.noGrants} text=${t.oauth.noGrantsText} />`,
        columns: html`
          <th>${t.members.member}</th>
          <th>${t.oauth.client}</th>
          <th>${t.webhooks.state}</th>
          <th>${t.oauth.scopes}</th>
          <th>${t.keys.used}</th>
          <th></th>
        `,
        row: (/** @type {any} */ one) => html`<tr key=${one.grant_id}>
          <td class="main">
            <span class="cut">${plain(one.member.nickname || one.member.login_id || one.member.member_id, 60)}</span>
          </td>
          <td>${plain(one.client.name, 60)}</td>
          <td>
            <${State} look=${one.is_active ? ["ok", "done"] : ["idle", "stop"]}>
              ${one.is_active ? t.oauth.grantActive : one.revoked_at ? t.oauth.grantRevoked : t.oauth.grantEnded}
            </${State}>
            ${one.is_offline && html` <${Pill}>${t.oauth.offline}</${Pill}>`}
            ${one.is_bound && html` <${Pill} icon="lock">${t.oauth.bound}</${Pill}>`}
          </td>
          <td class="wide">
            ${one.scopes.slice(0, 4).map((/** @type {string} */ name) => html`<code>${plain(name, 40)}</code> `)}
          </td>
          <td class="wide soft" title=${one.created_at}>${ago(one.last_used_at || one.created_at)}</td>
          <td class="fit">
            <${Button}
              kind="flat small bad" icon="trash" label=${t.oauth.revokeOf(plain(one.client.name, 60))}
              why=${why() || (!one.is_active && t.oauth.grantEnded)} onClick=${() => setGone(one)}
            />
          </td>
        </tr>`,
      })}
    </div>
    <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
    ${gone && html`<${Confirm}
      title=${t.oauth.revokeTitle} text=${t.oauth.revokeText} action=${t.oauth.revoke} onClose=${() => setGone(null)}
      run=${async () => (
        await onApp(`/oauth/grants/${gone.grant_id}`, { method: "DELETE" }),
        toast(t.oauth.revoked),
        reload()
      )}
    />`}
  `;
}

const KEY_LOOKS = /** @type {Record<string, [string, string]>} */ ({
  signing: ["ok", "done"],
  next: ["info", "clock"],
  published: ["idle", "check"],
  known: ["idle", "clock"],
});

export function Keys() {
  const { data, error, reload } = useLoad(
    (signal) => onApp("/oauth/keys", { query: { limit: PAGE }, signal }),
    [appId.value],
  );
  const {
    busy,
    error: failed,
    run,
  } = useAction(async () => {
    await onApp("/oauth/keys", { method: "POST" });
    toast(t.oauth.keyCreated);
    reload();
  });
  return html`
    <div class="strip roomy"><span class="soft s13">${t.oauth.keysText}</span></div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.data,
        bones: { rows: 2 },
        empty: html`<${Empty} title=${t.oauth.noKeys} text=${t.oauth.noKeysText} command="pilotis oauth keys create">
          <${Button} icon="key" busy=${busy} why=${denied("owner")} onClick=${run}>${t.oauth.createKey}</${Button}>
          ${failed && html`<p class="state bad s13" role="alert">${said(failed)}</p>`}
        </${Empty}>`,
        columns: html`
          <th>${t.keys.key}</th>
          <th>${t.webhooks.state}</th>
          <th>${t.oauth.keyFrom}</th>
          <th>${t.oauth.keyUntil}</th>
        `,
        row: (one) => html`<tr key=${one.kid}>
          <td class="main">
            <span class="line"><code class="cut keytext">${plain(one.kid, 80)}</code><${Copy} text=${one.kid} /></span>
          </td>
          <td><${State} look=${KEY_LOOKS[one.state]}>${worded(t.oauth.keyStates, one.state)}</${State}></td>
          <td class="wide soft">${one.signs_from ? moment(one.signs_from) : t.none}</td>
          <td class="wide soft">${one.published_until ? moment(one.published_until) : t.none}</td>
        </tr>`,
      })}
    </div>
  `;
}

/** Bytes in the alphabet that URLs carry (RFC 4648, section 5). @param {Uint8Array} bytes */
const base64url = (bytes) =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

/** The claims of an ID token; its signature is for the client to verify. @param {string} token */
const claimsOf = (token) =>
  JSON.parse(
    new TextDecoder().decode(
      Uint8Array.from(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0)),
    ),
  );

export function Builder() {
  const { data, error, reload } = useLoad(
    (signal) => onApp("/oauth/clients", { query: { limit: CLIENTS }, signal }),
    [appId.value],
  );
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  if (!data) return html`<${Bones} rows=${5} columns=${2} />`;
  const usable = data.data.filter((one) => one.redirect_uris.length);
  return usable.length
    ? html`<${Trial} clients=${usable} />`
    : html`<${Empty} title=${t.oauth.none} text=${t.oauth.builderNone} />`;
}

/** @param {{clients: any[]}} props */
function Trial({ clients }) {
  const [id, setId] = useState(clients[0].client_id);
  const client = clients.find((one) => one.client_id === id) || clients[0];
  const [redirect, setRedirect] = useState("");
  const chosen = client.redirect_uris.includes(redirect) ? redirect : client.redirect_uris[0];
  const [asked, setAsked] = useState(/** @type {string[]} */ (["openid"]));
  const scopes = asked.filter((name) => client.scopes.includes(name));
  const [made, setMade] = useState(
    /** @type {{url: string, verifier: string, state: string, nonce: string, redirect: string} | null} */ (null),
  );
  const make = useAction(async () => {
    const [verifier, state, nonce] = [random(), random(), random()];
    const challenge = base64url(
      new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))),
    );
    const query = new URLSearchParams({
      response_type: "code",
      client_id: client.client_id,
      redirect_uri: chosen,
      scope: scopes.join(" "),
      state,
      nonce,
      code_challenge: challenge,
      code_challenge_method: "S256",
    });
    setMade({ url: `${location.origin}/oauth/authorize?${query}`, verifier, state, nonce, redirect: chosen });
  });
  const put = (/** @type {any} */ setter) => (/** @type {string} */ value) => (setter(value), setMade(null));
  return html`<div class="scroll">
    <div class="page narrowpage">
      <section class="slab pad">
        <h2>${t.oauth.buildTitle}</h2>
        <p class="soft s13">${t.oauth.buildText}</p>
        <div class="form">
          <${SelectField}
            label=${t.oauth.client} value=${client.client_id} onInput=${put(setId)}
            options=${clients.map((one) => [one.client_id, plain(one.name, 60)])}
          />
          <${SelectField}
            label=${t.oauth.redirect} value=${chosen} onInput=${put(setRedirect)}
            options=${client.redirect_uris.map((/** @type {string} */ one) => [one, plain(one, 120)])}
          />
          <fieldset class="field plain">
            <legend class="label">${t.oauth.scopes}</legend>
            <div class="ticks">
              ${client.scopes.map(
                (/** @type {string} */ name) => html`<label class="check" key=${name}>
                  <input
                    type="checkbox" checked=${scopes.includes(name)}
                    onChange=${(/** @type {Typed} */ event) =>
                      put(setAsked)(
                        client.scopes.filter((/** @type {string} */ one) =>
                          one === name ? event.target.checked : scopes.includes(one),
                        ),
                      )}
                  />
                  <code class="cut">${plain(name, 60)}</code>
                </label>`,
              )}
            </div>
          </fieldset>
          <div class="actions">
            <${Button}
              kind=${made ? "" : "go"} icon="link" busy=${make.busy}
              why=${(!isSecureContext && t.oauth.noHashes) || (!scopes.length && t.oauth.scopeFirst)}
              onClick=${make.run}
            >
              ${t.oauth.build}
            </${Button}>
          </div>
          ${make.error && html`<p class="notice bad" role="alert"><span>${said(make.error)}</span></p>`}
        </div>
        ${made && html`
          <div class="field">
            <span class="label">${t.oauth.authorizeUrl}</span>
            <${Code} text=${made.url.replaceAll("&", "\n  &")} label=${t.oauth.authorizeUrl} />
          </div>
          <div class="line">
            <a class="b go" href=${made.url} target="_blank" rel="noopener noreferrer">
              <${Icon} name="out" />
              ${t.oauth.openFlow}
            </a>
            <${Copy} text=${made.url} label=${t.copy} kind="" />
          </div>
        `}
      </section>
      ${made && html`<${Exchange} key=${made.state} client=${client} made=${made} />`}
    </div>
  </div>`;
}

/**
 * The second half of the flow: the address that the browser came back to, for tokens.
 * @param {{client: Api.RegisteredClient, made: {verifier: string, state: string, nonce: string, redirect: string}}}
 *   props
 */
function Exchange({ client, made }) {
  const [back, setBack] = useState("");
  const [secret, setSecret] = useState("");
  const [tokens, setTokens] = useState(/** @type {any} */ (null));
  const confidential = client.has_secret;
  const redeem = useAction(async () => {
    const query = new URL(back.trim(), location.origin).searchParams;
    if (query.get("error")) throw new Error(`${query.get("error")}: ${query.get("error_description") || ""}`);
    if (query.get("state") !== made.state) throw new Error(t.oauth.otherState);
    const body = new URLSearchParams({
      grant_type: "authorization_code",
      code: query.get("code") || "",
      redirect_uri: made.redirect,
      code_verifier: made.verifier,
      client_id: client.client_id,
      ...(confidential && client.token_endpoint_auth_method === "client_secret_post" ? { client_secret: secret } : {}),
    });
    const basic = /** @type {Record<string, string>} */ (
      confidential && client.token_endpoint_auth_method !== "client_secret_post"
        ? { Authorization: `Basic ${btoa(`${encodeURIComponent(client.client_id)}:${encodeURIComponent(secret)}`)}` }
        : { Authorization: "" }
    );
    if (!basic.Authorization) delete basic.Authorization;
    const answer = await fetch("/oauth/token", { method: "POST", body, headers: basic, credentials: "omit" });
    const read = await answer.json();
    if (!answer.ok) throw new Error(`${read.error}: ${read.error_description || ""}`);
    setTokens(read);
  });
  const claims = tokens?.id_token && claimsOf(tokens.id_token);
  return html`<section class="slab pad">
    <h2>${t.oauth.exchangeTitle}</h2>
    <p class="soft s13">${t.oauth.exchangeText}</p>
    <form class="form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), redeem.run())}>
      <${TextAreaField}
        label=${t.oauth.cameBack} value=${back} onInput=${setBack} rows="3"
        placeholder=${`${made.redirect}?code=…&state=…`}
      />
      ${confidential && html`<${TextField}
        label=${t.oauth.secret} type="password" value=${secret} onInput=${setSecret} autocomplete="off"
      />`}
      <div class="actions">
        <${Button} type="submit" busy=${redeem.busy} why=${!back.trim() && t.oauth.backFirst}>
          ${t.oauth.exchange}
        </${Button}>
      </div>
    </form>
    ${redeem.error && html`<p class="notice bad" role="alert">
      <${Icon} name="fail" />
      <span>${plain(said(redeem.error), 500)}</span>
    </p>`}
    ${tokens && html`
      <div role="status"><${State} look=${["ok", "done"]}>${t.oauth.tokensCame}</${State}></div>
      <div class="field">
        <span class="label">${t.oauth.tokens}</span>
        <${Code}
          text=${JSON.stringify(
            {
              ...tokens,
              access_token: short(tokens.access_token),
              ...(tokens.refresh_token ? { refresh_token: short(tokens.refresh_token) } : {}),
              ...(tokens.id_token ? { id_token: short(tokens.id_token) } : {}),
            },
            null,
            2,
          )}
          label=${t.oauth.tokens}
        />
        <${Copy} text=${JSON.stringify(tokens, null, 2)} label=${t.copy} kind="small" />
      </div>
      ${claims && html`<div class="field">
        <span class="label">${t.oauth.claims}</span>
        <${Code} text=${JSON.stringify(claims, null, 2)} label=${t.oauth.claims} />
        ${claims.nonce !== made.nonce && html`<p class="state bad">${t.oauth.otherNonce}</p>`}
      </div>`}
    `}
  </section>`;
}

/** @param {string} token */
const short = (token) => (token.length > 24 ? `${token.slice(0, 12)}…${token.slice(-6)}` : token);
