/** What the app says of a member: its roles and claims, which rules of tables ask for. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { may } from "../state/app.js";
import { Editor } from "../ui/editor.js";
import { parse } from "../grid/values.js";
import { rolesOf } from "../ui/roles.js";
import { Button, Code, FormDialog, Pill, TextField } from "../ui/widgets.js";

/** @typedef {{roles: string[], claims: Record<string, unknown>}} Facts */

/** @param {{member: Facts, save: (facts: Facts) => Promise<unknown>}} props */
export function MemberFacts({ member, save }) {
  const [editing, setEditing] = useState(false);
  const claims = Object.keys(member.claims).length > 0;
  return html`<section class="wellbox">
    <div class="line">
      <h3 class="grow">${t.members.facts}</h3>
      <${Button}
        kind="flat small" icon="edit" label=${t.members.editFacts} why=${may("editor") ? "" : t.needs.editor}
        onClick=${() => setEditing(true)}
      />
    </div>
    ${member.roles.length
      ? html`<div class="line wrap">${member.roles.map((role) => html`<${Pill} key=${role}>${role}</${Pill}>`)}</div>`
      : html`<p class="s13 soft">${t.members.noRoles}</p>`}
    ${claims && html`<${Code} text=${JSON.stringify(member.claims, null, 2)} label="claims" />`}
    ${editing && html`<${EditFacts} known=${member} save=${save} onClose=${() => setEditing(false)} />`}
  </section>`;
}

/** @param {{known: Facts, save: (facts: Facts) => Promise<unknown>, onClose: () => void}} props */
function EditFacts({ known, save, onClose }) {
  const [typed, setTyped] = useState(known.roles.join(" "));
  const [text, setText] = useState(JSON.stringify(known.claims, null, 2));
  const { roles, wrong: wrongRoles } = rolesOf(typed);
  const { value, wrong } = parse(text, { name: "claims", type: "object", required: true, encrypted: false });
  const wrongClaims = wrong || (value === null ? t.grid.notObject : "");
  return html`<${FormDialog}
    title=${t.members.editFacts} action=${t.save} onClose=${onClose} why=${wrongRoles || wrongClaims}
    submit=${async () => (await save({ roles, claims: /** @type {Record<string, unknown>} */ (value) }), onClose())}
  >
    <p class="soft s13">${t.members.factsHelp}</p>
    <${TextField}
      label=${t.members.roles} value=${typed} onInput=${setTyped} help=${t.members.rolesHelp} wrong=${wrongRoles}
      autocomplete="off" spellcheck="false"
    />
    <span class="mono s13">claims</span>
    <${Editor}
      language="json" label="claims" rows=${8} numbers value=${text} onInput=${setText} wrong=${!!wrongClaims}
    />
    ${wrongClaims && html`<p class="wrong">${wrongClaims}</p>`}
  </${FormDialog}>`;
}
