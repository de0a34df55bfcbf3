/** Who was invited to become a member of an app, and what has become of it. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, denied, onApp } from "../state/app.js";
import { change, place } from "../state/router.js";
import { ago, plain } from "../ui/format.js";
import { ListPager, listing } from "../ui/listing.js";
import { MemberViews } from "../ui/member-views.js";
import { Button, Empty, Pill, complain, toast, useLoad } from "../ui/widgets.js";
import { MemberInvite } from "./member-invite.js";

export const head = () => ({ title: t.sectionNames.members });

const PAGE = 50;
const STATES = /** @type {const} */ (["open", "accepted", "expired", "revoked"]);
const why = () => denied("editor");

/** @typedef {Api.MemberInvitation} Invitation */

export function Screen() {
  const state = place.value.query.get("state") || "";
  const offset = Number(place.value.query.get("offset")) || 0;
  const [inviting, setInviting] = useState(false);
  const { data, error, reload } = useLoad(
    (signal) => onApp("/members/invitations", { query: { state, limit: PAGE, offset }, signal }),
    [appId.value, state, offset],
  );
  const act = async (/** @type {() => Promise<unknown>} */ action, /** @type {string} */ text) => {
    try {
      await action();
      toast(text);
    } catch (error) {
      complain(error);
    }
    reload();
  };
  const revoke = (/** @type {Invitation} */ { invitation_id }) =>
    onApp(`/members/invitations/${invitation_id}`, { method: "DELETE" });
  const again = (/** @type {Invitation} */ { email, roles, team_id, team_roles, language }) => {
    const body = { email, roles, team_id, team_roles, language };
    return onApp("/members/invitations", { method: "POST", body });
  };
  return html`<div class="data">
    <div class="strip tabstrip"><${MemberViews} on="invitations" /></div>
    <div class="strip filters" role="toolbar" aria-label=${t.filters}>
      <select
        class="in small" aria-label=${t.members.state} value=${state}
        onChange=${(/** @type {Typed} */ event) => change({ state: event.target.value, offset: null })}
      >
        <option value="">${t.members.anyState}</option>
        ${STATES.map(
          (name) => html`<option key=${name} value=${name} selected=${name === state}>
            ${t.invitations.states[name]}
          </option>`,
        )}
      </select>
      <span class="grow"></span>
      <span class="s12 soft num">${data && t.invitations.found(data.total_count)}</span>
      <${Button} kind="go small" icon="mail" why=${why()} onClick=${() => setInviting(true)}>
        ${t.invitations.invite}
      </${Button}>
    </div>
    <div class="listbox">
      <div class="scroll">
        ${listing({
          loaded: { error, reload },
          items: data?.data,
          bones: { rows: 8, columns: 4 },
          empty: html`<${Empty} title=${t.invitations.none} text=${t.invitations.noneText} />`,
          columns: html`
            <th>${t.invitations.email}</th>
            <th>${t.members.roles}</th>
            <th>${t.invitations.created}</th>
            <th><span class="sr">${t.invitations.actions}</span></th>
          `,
          row: (one) => html`<tr key=${one.invitation_id}>
            <td class="main">
              <span class="cut">${plain(one.email, 100)}</span>
              <small class="cut soft">
                ${t.invitations.states[one.state]}
                ${one.state === "open" && ` · ${t.settings.expires(ago(one.expires_at))}`}
              </small>
            </td>
            <td class="wide">
              <div class="line wrap">${one.roles.map((role) => html`<${Pill} key=${role}>${role}</${Pill}>`)}</div>
            </td>
            <td class="soft wide">${ago(one.created_at)}</td>
            <td class="fit">
              ${one.state !== "accepted" && html`<${Button}
                kind="flat small" why=${why()} label=${t.invitations.againTo(one.email)}
                onClick=${() => act(() => again(one), t.invitations.sent(one.email))}
              >
                ${t.invitations.again}
              </${Button}>`}
              ${one.state === "open" && html`<${Button}
                kind="flat small bad" icon="trash" why=${why()} label=${t.settings.withdraw(one.email)}
                onClick=${() => act(() => revoke(one), t.invitations.revoked)}
              />`}
            </td>
          </tr>`,
        })}
      </div>
      <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
    </div>
    ${inviting && html`<${MemberInvite} onClose=${() => setInviting(false)} done=${reload} />`}
  </div>`;
}
