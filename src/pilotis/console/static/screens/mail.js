/** An app's mail: what was sent or is stored here, the texts, addresses that get none, and by which server it is sent. */
import { html } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, may, onApp } from "../state/app.js";
import { change, href, place } from "../state/router.js";
import { ago, count, moment, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Letter } from "../ui/letter.js";
import { ListPager, listing } from "../ui/listing.js";
import { MemberLink } from "../ui/member.js";
import {
  Bones,
  Button,
  Copy,
  Empty,
  Failure,
  State,
  Tabs,
  complain,
  later,
  said,
  toast,
  useAction,
  useLoad,
  useReload,
} from "../ui/widgets.js";

export const head = () => ({ title: t.sectionNames.mail });

const PAGE = 50;
const AGAIN_MS = 3000;
const Templates = later(() => import("./mail-templates.js"), "Templates");
const Suppressions = later(() => import("./mail-settings.js"), "Suppressions");
const Settings = later(() => import("./mail-settings.js"), "Settings");
const TABS = /** @type {[string, () => unknown][]} */ ([
  ["", () => html`<${Mailbox} />`],
  ["templates", () => html`<${Templates} />`],
  ["suppressions", () => html`<${Suppressions} />`],
  ["settings", () => html`<${Settings} />`],
]);

/** @param {{tab?: string}} props */
export function Screen({ tab = "" }) {
  const base = `/apps/${appId.value}/mail`;
  const chosen = TABS.find(([name]) => name === tab) || TABS[0];
  return html`<div class="data">
    <div class="strip tabstrip">
      <${Tabs}
        label=${t.sectionNames.mail}
        items=${TABS.map(([name]) => ({
          href: href(name ? `${base}/${name}` : base),
          text: worded(t.mail.tabs, name || "mailbox"),
          on: chosen[0] === name,
        }))}
      />
    </div>
    ${chosen[1]()}
  </div>`;
}

const LOOKS = /** @type {Record<string, string[]>} */ ({
  queued: ["info", "clock"],
  sent: ["ok", "done"],
  deferred: ["warn", "clock"],
  bounced: ["bad", "fail"],
  failed: ["bad", "fail"],
  expired: ["idle", "clock"],
  suppressed: ["warn", "minus"],
  stored: ["idle", "in"],
});
const RETRYABLE = ["deferred", "bounced", "failed"];

/** @param {{mail: {state: string}}} props */
const MailState = ({ mail }) => html`<${State} look=${LOOKS[mail.state]}>
  ${worded(t.mail.states, mail.state)}
</${State}>`;

/** @param {string} purpose */
const purposeName = (purpose) => worded(t.mail.purposes, purpose) || purpose;

function Mailbox() {
  const query = place.value.query;
  const filters = { state: query.get("state") || "", purpose: query.get("purpose") || "" };
  const offset = Number(query.get("offset")) || 0;
  const chosen = query.get("mail") || "";
  const allowed = may("editor");
  const { data, error, reload } = useLoad(
    async (signal) =>
      allowed ? onApp("/mail", { query: { ...filters, limit: PAGE, offset }, signal }) : Promise.resolve(null),
    [appId.value, allowed, filters, offset],
  );
  // Who waits for a mail need not ask for it.
  useReload(reload, AGAIN_MS, allowed && !offset);
  if (!allowed)
    return html`<div class="page">
      <div class="slab"><${Empty} title=${t.mail.notAllowed} text=${t.needs.editor} /></div>
    </div>`;
  const filtered = filters.state || filters.purpose;
  const isStored = data?.data[0]?.state === "stored";
  return html`
    <div class="strip filters" role="toolbar" aria-label=${t.filters}>
      <${Filter}
        name="state" label=${t.mail.state} all=${t.mail.anyState} options=${t.mail.states} value=${filters.state}
      />
      <${Filter}
        name="purpose" label=${t.mail.purpose} all=${t.mail.anyPurpose} options=${t.mail.purposes}
        value=${filters.purpose}
      />
      <span class="grow"></span>
      <span class="s12 soft num">${data && t.mail.found(data.total_count)}</span>
      <${Button} kind="flat small" icon="retry" label=${t.reload} onClick=${reload} />
    </div>
    ${isStored && html`<${KeptHere} />`}
    <div class=${`split ${chosen ? "opened" : ""}`}>
      <div class="listbox">
        <div class="scroll">
          ${listing({
            loaded: { error, reload },
            items: data?.data,
            bones: { rows: 8, columns: 4 },
            empty: filtered
              ? html`<${Empty} title=${t.mail.noneFound} text=${t.mail.noneFoundText}>
                  <${Button} onClick=${() => change({ state: null, purpose: null, offset: null })}>
                    ${t.clearFilters}
                  </${Button}>
                </${Empty}>`
              : html`<${Empty} title=${t.mail.none} text=${t.mail.noneText} />`,
            columns: html`
              <th>${t.mail.recipient}</th>
              <th>${t.mail.purpose}</th>
              <th>${t.mail.state}</th>
              <th>${t.mail.created}</th>
            `,
            row: (mail) => html`<tr key=${mail.mail_id} class=${mail.mail_id === chosen ? "on" : ""}>
              <td class=${`main ${mail.mail_id === chosen ? "upright" : ""}`}>
                <button
                  type="button" class="coverbutton block" aria-pressed=${mail.mail_id === chosen ? "true" : "false"}
                  onClick=${() => change({ mail: mail.mail_id === chosen ? null : mail.mail_id })}
                >
                  <span class="cut block">${plain(mail.recipient, 120)}</span>
                  <small class="soft s12 cut block">${plain(mail.subject, 120)}</small>
                </button>
              </td>
              <td class="wide">${purposeName(mail.purpose)}</td>
              <td><${MailState} mail=${mail} /></td>
              <td class="soft wide">${ago(mail.created_at)}</td>
            </tr>`,
          })}
        </div>
        <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
      </div>
      ${chosen && html`<${Mail} key=${chosen} id=${chosen} changed=${reload} />`}
    </div>
  `;
}

/**
 * @param {{name: string, label: string, all: string, options: Record<string, string>, value: string}} props
 */
const Filter = ({ name, label, all, options, value }) => html`<select
  class="in small" aria-label=${label} value=${value}
  onChange=${(/** @type {Typed} */ event) => change({ [name]: event.target.value, offset: null })}
>
  <option value="">${all}</option>
  ${Object.entries(options).map(([one, text]) => html`<option value=${one} selected=${one === value}>${text}</option>`)}
</select>`;

/** Nothing is sent where there is no SMTP server. */
export const KeptHere = () => html`<p class="notice info keptline" role="note">
  <${Icon} name="info" />
  <span>
    ${t.mail.keptHere}
    ${" "}${may("owner") && html`<a class="link" href=${href(`/apps/${appId.value}/mail/settings`)}>
      ${t.mail.setUp}
    </a>`}
  </span>
</p>`;

/** @param {{id: string, changed: () => void}} props */
function Mail({ id, changed }) {
  const { data, error, reload } = useLoad(
    (signal) => onApp(`/mail/${encodeURIComponent(id)}`, { signal }),
    [appId.value, id],
  );
  const again = useAction(async () => {
    await onApp(`/mail/${encodeURIComponent(id)}/retry`, { method: "POST" });
    toast(t.mail.queuedAgain);
    reload();
    changed();
  });
  return html`<aside class="panel" aria-label=${t.mail.mail}>
    <header>
      <b class="cut grow">${data ? purposeName(data.purpose) : ""}</b>
      <${Button} kind="flat small" icon="cross" label=${t.close} onClick=${() => change({ mail: null })} />
    </header>
    ${error
      ? html`<${Failure} error=${error} retry=${reload} />`
      : !data
        ? html`<${Bones} rows=${6} columns=${2} />`
        : html`
            <dl class="facts-list">
              <div>
                <dt>${t.mail.recipient}</dt>
                <dd><span class="cut">${plain(data.recipient, 254)}</span><${Copy} text=${data.recipient} /></dd>
              </div>
              ${data.member_id && html`<div>
                <dt>${t.members.member}</dt>
                <dd><${MemberLink} id=${data.member_id} /></dd>
              </div>`}
              <div><dt>${t.mail.state}</dt><dd><${MailState} mail=${data} /></dd></div>
              ${data.reply && html`<div>
                <dt>${t.mail.reply}</dt>
                <dd class="replied">${plain(data.reply, 1000)}</dd>
              </div>`}
              ${data.attempts > 0 && html`<div>
                <dt>${t.mail.attempts}</dt>
                <dd class="num">${count(data.attempts)}</dd>
              </div>`}
              <div><dt>${t.mail.created}</dt><dd>${moment(data.created_at)}</dd></div>
              ${data.sent_at && html`<div><dt>${t.mail.sent}</dt><dd>${moment(data.sent_at)}</dd></div>`}
              ${data.expires_at && html`<div><dt>${t.mail.expires}</dt><dd>${ago(data.expires_at)}</dd></div>`}
            </dl>
            ${data.text !== null
              ? html`<div class="desk">
                  <${Letter} mail=${{ ...data, text: data.text }} to=${data.recipient} language=${data.language} />
                </div>`
              : html`<section class="wellbox">
                  <h3>${t.mail.subject}</h3>
                  <p class="s13" lang=${data.language}>${plain(data.subject, 300)}</p>
                  <p class="s12 soft">${data.state === "stored" ? t.mail.ownersRead : t.mail.noText}</p>
                </section>`}
            ${again.error && html`<p class="notice bad" role="alert">
              <${Icon} name="fail" />
              <span>${said(again.error)}</span>
            </p>`}
            ${RETRYABLE.includes(data.state) && html`<footer>
              <${Button}
                kind="small" icon="retry" busy=${again.busy} why=${denied("editor")}
                onClick=${() => again.run().catch(complain)}
              >
                ${t.mail.retry}
              </${Button}>
            </footer>`}
          `}
  </aside>`;
}
