/** How a member signs in: its address and second factors, and a ban. */
import { html, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { may, onApp } from "../state/app.js";
import { moment, plain } from "../ui/format.js";
import { Button, Confirm, FormDialog, Pill, TextField, toast } from "../ui/widgets.js";

const why = () => (may("editor") ? "" : t.needs.editor);
const DAY = 24 * 3600 * 1000;

/** @param {{member: Api.MemberRecord, path: string, changed: () => void}} props */
export function MemberSecurity({ member, path, changed }) {
  const [dialog, setDialog] = useState("");
  const until = member.banned_until && new Date(member.banned_until) > new Date() ? member.banned_until : null;
  const place = /** @type {`/members/${string}`} */ (path);
  const close = () => setDialog("");
  const update = async (/** @type {any} */ body) => {
    await onApp(place, { method: "PATCH", body });
    changed();
  };
  const words = t.members.security;
  return html`<section class="wellbox">
    <h3>${words.title}</h3>
    <dl class="facts-list flush">
      <div>
        <dt>${t.email}</dt>
        <dd>${member.email ? plain(member.email, 254) : html`<span class="null">${words.noEmail}</span>`}</dd>
      </div>
      <div>
        <dt>${words.factors}</dt>
        <dd>
          ${member.factors.length
            ? member.factors.map((one) => html`<${Pill} key=${one}>${worded(words.kinds, one) || one}</${Pill}> `)
            : html`<span class="null">${t.none}</span>`}
          ${member.factors.length > 0 && html`<${Button}
            kind="flat small" why=${why()} onClick=${() => setDialog("factors")}
          >
            ${words.remove}
          </${Button}>`}
        </dd>
      </div>
      <div>
        <dt>${words.ban}</dt>
        <dd>
          ${until
            ? html`
                <${Pill} kind="warn" icon="warn">${words.until(moment(until))}</${Pill}>
                <${Button} kind="flat small" why=${why()} onClick=${() => update({ banned_until: null })}>
                  ${words.lift}
                </${Button}>
              `
            : html`
                <span class="null">${words.notBanned}</span>
                <${Button} kind="flat small" why=${why()} onClick=${() => setDialog("ban")}>
                  ${words.banAction}
                </${Button}>
              `}
        </dd>
      </div>
    </dl>
    ${until && member.ban_reason && html`<p class="soft s12">${plain(member.ban_reason, 500)}</p>`}
    ${dialog === "factors" && html`<${Confirm}
      title=${words.removeTitle} text=${words.removeText} action=${words.remove} onClose=${close}
      run=${async () => {
        await onApp(`${place}/factors`, { method: "DELETE" });
        toast(words.removed);
        changed();
      }}
    />`}
    ${dialog === "ban" && html`<${Ban} save=${update} onClose=${close} />`}
  </section>`;
}

/** @param {{save: (body: any) => Promise<unknown>, onClose: () => void}} props */
function Ban({ save, onClose }) {
  const [days, setDays] = useState("7");
  const [reason, setReason] = useState("");
  const number = Number(days);
  const words = t.members.security;
  const submit = async () => {
    await save({ banned_until: new Date(Date.now() + number * DAY).toISOString(), ban_reason: reason || null });
    onClose();
  };
  return html`<${FormDialog}
    title=${words.banTitle} action=${words.banAction} onClose=${onClose} submit=${submit} kind="bad"
    why=${!(number > 0 && number <= 36500) && words.daysFirst}
  >
    <p class="soft s13">${words.banText}</p>
    <${TextField} label=${words.days} type="number" min="1" max="36500" value=${days} onInput=${setDays} />
    <${TextField}
      label=${words.reason} value=${reason} onInput=${setReason} maxlength="500" optional help=${words.reasonHelp}
    />
  </${FormDialog}>`;
}
