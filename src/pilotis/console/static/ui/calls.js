/** How an object of an app is called: its address, and each request with the app's real key, ready to copy. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, may, onApp } from "../state/app.js";
import { plain } from "./format.js";
import { Snippet } from "./snippets.js";
import { Copy, complain, useLoad } from "./widgets.js";

// A token that is about to expire is replaced before it is used.
const SPARE_MS = 20_000;
const MEMBERS = 50;

/** The newest public key of the app; "" until it is known, null where there is none. @returns {string | null} */
export function usePublicKey() {
  const { data } = useLoad((signal) => onApp("/keys/public", { query: { limit: 1 }, signal }), [appId.value]);
  return data ? data.data[0]?.key || null : "";
}

/**
 * As whom requests are tried: without a member, or as one by a token of five minutes.
 * @returns {{member: string, choose: (id: string) => void, token: (() => Promise<string>) | undefined}}
 */
export function useMember() {
  const [member, setMember] = useState("");
  const known = useRef({ member: "", token: "", until: 0 });
  const token = async () => {
    if (known.current.member !== member || Date.now() > known.current.until - SPARE_MS) {
      const made = await onApp(`/members/${member}/token`, { method: "POST" });
      known.current = { member, token: made.access_token, until: Date.now() + made.expires_in * 1000 };
    }
    return known.current.token;
  };
  useEffect(() => setMember(""), [appId.value]);
  return { member, choose: setMember, token: member ? token : undefined };
}

/** @param {{member: string, choose: (id: string) => void}} props */
export function RunAs({ member, choose }) {
  const { data, error } = useLoad(
    (signal) => onApp("/members", { query: { limit: MEMBERS, is_active: true }, signal }),
    [appId.value],
  );
  useEffect(() => {
    if (error) complain(error);
  }, [error]);
  const why = may("editor") ? "" : t.needs.editor;
  return html`<label class="runas s12">
    <span class="soft">${t.api.runAs}</span>
    <select
      class="in small" title=${why || t.api.runAsHelp} disabled=${!!why} value=${member}
      onChange=${(/** @type {Typed} */ event) => choose(event.target.value)}
    >
      <option value="">${t.api.nobody}</option>
      ${data?.data.map(
        (one) => html`<option value=${one.member_id} selected=${one.member_id === member}>
          ${plain(one.nickname || one.login_id || one.member_id, 60)}
        </option>`,
      )}
    </select>
  </label>`;
}

/** An address to copy. @param {{label: string, text: string, note?: Markup}} props */
export const Address = ({ label, text, note }) => html`<div class="field">
  <span class="label">${label}</span>
  <div class="secret"><code>${text}</code><${Copy} text=${text} label=${t.copy} /></div>
  ${note && html`<p class="help">${note}</p>`}
</div>`;

/**
 * Requests one below the other; one that has a `why` cannot be tried here.
 * @param {{calls: {title: string, request: import("./snippets.js").Request, why?: string | false}[], base: string,
 *   token?: () => Promise<string>}} props
 */
export const Calls = ({ calls, base, token }) => html`
  ${calls.map(
    ({ title, request, why }) => html`<section class="slab call" key=${title}>
      <header><h2>${title}</h2><code class="soft cut">${request.method}</code></header>
      <${Snippet}
        request=${request} base=${base} why=${why} token=${request.bearer === "ACCESS_TOKEN" ? token : undefined}
        still=${why === ""}
      />
    </section>`,
  )}
`;
