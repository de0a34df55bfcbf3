/** Invite an address to become a member, with roles and a team. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, onApp } from "../state/app.js";
import { plain } from "../ui/format.js";
import { FormDialog, SelectField, TextField, toast, useLoad } from "../ui/widgets.js";
import { rolesOf } from "../ui/roles.js";

/** @param {{onClose: () => void, done: () => void}} props */
export function MemberInvite({ onClose, done }) {
  const [email, setEmail] = useState("");
  const [typed, setTyped] = useState("");
  const [team, setTeam] = useState("");
  const [typedInTeam, setTypedInTeam] = useState("");
  const teams = useLoad((signal) => onApp("/teams", { query: { limit: 1000 }, signal }), [appId.value]);
  const { roles, wrong } = rolesOf(typed);
  const inTeam = rolesOf(typedInTeam);
  const known = teams.data?.data || [];
  const invite = async () => {
    const body = { email: email.trim(), roles, ...(team ? { team_id: team, team_roles: inTeam.roles } : {}) };
    const made = await onApp("/members/invitations", { method: "POST", body });
    toast(t.invitations.sent(made.email));
    done();
    onClose();
  };
  return html`<${FormDialog}
    title=${t.invitations.title} action=${t.invitations.invite} onClose=${onClose} submit=${invite}
    why=${(!email.trim() && t.invitations.emailFirst) || wrong || (team && inTeam.wrong)}
  >
    <${TextField}
      label=${t.invitations.email} type="email" value=${email} onInput=${setEmail} maxlength="254" autocomplete="off"
      help=${t.invitations.emailHelp}
    />
    <${TextField}
      label=${t.members.roles} value=${typed} onInput=${setTyped} help=${t.members.rolesHelp} wrong=${wrong} optional
      autocomplete="off" spellcheck="false"
    />
    ${known.length > 0 && html`<${SelectField}
      label=${t.teams.team} value=${team} onInput=${setTeam}
      options=${[["", t.invitations.noTeam], ...known.map((one) => [one.team_id, plain(one.name, 100)])]}
    />`}
    ${team && html`<${TextField}
      label=${t.invitations.teamRoles} value=${typedInTeam} onInput=${setTypedInTeam} help=${t.teams.rolesHelp}
      wrong=${inTeam.wrong} optional autocomplete="off" spellcheck="false"
    />`}
  </${FormDialog}>`;
}
