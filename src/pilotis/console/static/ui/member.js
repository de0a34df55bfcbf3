/** A member where another object names it: who created a row or a file. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, onApp } from "../state/app.js";
import { memberName, nameOf } from "../state/members.js";
import { href } from "../state/router.js";
import { useLoad } from "./widgets.js";

const OFFERED = 6;

/** @param {{id: string}} props */
export function MemberName({ id }) {
  const name = nameOf(id).value;
  return html`<span title=${id}>
    ${name === null
      ? html`<span class="null">${t.members.gone(id.slice(-4))}</span>`
      : name === undefined
        ? `…${id.slice(-4)}`
        : name}
  </span>`;
}

/** Where a member is shown. @param {string} id */
export const memberPlace = (id) => `/apps/${appId.value}/members?member=${encodeURIComponent(id)}`;

/** @param {{id: string}} props */
export const MemberLink = ({ id }) => html`<a class="link" href=${href(memberPlace(id))}>
  <${MemberName} id=${id} />
</a>`;

/**
 * A member that is searched for and chosen.
 * @param {{label: string, id: string, onChoose: (id: string) => void}} props
 */
export function MemberField({ label, id, onChoose }) {
  const [typed, setTyped] = useState("");
  const { data } = useLoad(
    (signal) => onApp("/members", { query: { search: typed.trim(), limit: OFFERED }, signal }),
    [appId.value, typed.trim()],
  );
  const offered = data?.data || [];
  return html`<div class="memberfield">
    <input
      class="in" type="search" aria-label=${label} placeholder=${t.members.search} maxlength="255" autocomplete="off"
      spellcheck="false" value=${typed} onInput=${(/** @type {Typed} */ event) => setTyped(event.target.value)}
    />
    ${id && !offered.some((one) => one.member_id === id) && html`<button type="button" class="item" aria-pressed="true">
      <span class="cut"><${MemberName} id=${id} /></span>
    </button>`}
    ${offered.map(
      (one) => html`<button
        type="button" key=${one.member_id} class="item" aria-pressed=${one.member_id === id ? "true" : "false"}
        onClick=${() => onChoose(one.member_id)}
      >
        <span class="cut">${memberName(one)}</span>
      </button>`,
    )}
    ${data && !offered.length && html`<span class="s12 soft">${t.members.noneFound}</span>`}
  </div>`;
}
