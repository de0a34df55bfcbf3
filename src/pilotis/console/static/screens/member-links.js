/** What links a member to others: its teams, its accounts at vendors, and the programs it has connected. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, denied, onApp } from "../state/app.js";
import { href } from "../state/router.js";
import { ago, date, plain } from "../ui/format.js";
import { Bones, Button, Confirm, Failure, Pill, toast, useInView, useLoad } from "../ui/widgets.js";

const SHOWN = 50;
const why = () => denied("editor");

/**
 * @param {{title: string, none: string, loaded: {data?: any[], error: unknown, reload: () => void}, children: (one:
 *   any) =>
 *   any}} props
 */
const Part = ({ title, none, loaded, children }) => html`<section class="wellbox">
  <h3>${title}</h3>
  ${loaded.error
    ? html`<${Failure} error=${loaded.error} retry=${loaded.reload} />`
    : !loaded.data
      ? html`<${Bones} rows=${1} columns=${2} />`
      : !loaded.data.length
        ? html`<p class="s12 soft">${none}</p>`
        : html`<ul class="sessions">${loaded.data.map(children)}</ul>`}
</section>`;

/** @param {{id: string}} props */
export function MemberLinks({ id }) {
  const path = /** @type {const} */ (`/members/${encodeURIComponent(id)}`);
  const [holder, seen] = useInView();
  const [ends, setEnds] = useState(
    /** @type {{path: string, title: string, text: string, action: string, done: string} | null} */ (null),
  );
  const identities = useLoad(
    (signal) =>
      seen ? onApp(`${path}/identities`, { signal }).then((answer) => answer.identities) : new Promise(() => {}),
    [appId.value, path, seen],
  );
  const teams = useLoad(
    (signal) => (seen ? onApp(`${path}/teams`, { signal }).then((answer) => answer.teams) : new Promise(() => {})),
    [appId.value, path, seen],
  );
  const consents = useLoad(
    (signal) =>
      seen
        ? onApp(`${path}/consents`, { query: { limit: SHOWN }, signal }).then((answer) => answer.data)
        : new Promise(() => {}),
    [appId.value, path, seen],
  );
  return html`<div ref=${holder}>
    <${Part} title=${t.teams.sections.teams} none=${t.teams.noTeams} loaded=${teams}>
      ${(/** @type {any} */ one) => html`<li key=${one.team_id}>
        <span class="grow s13">
          <a class="link" href=${href(`/apps/${appId.value}/teams?team=${one.team_id}`)}>${plain(one.name, 60)}</a>
          <span class="line wrap">
            ${one.roles.map((/** @type {string} */ role) => html`<${Pill} key=${role}>${role}</${Pill}>`)}
          </span>
        </span>
      </li>`}
    </${Part}>
    <${Part} title=${t.members.identities} none=${t.members.noIdentities} loaded=${identities}>
      ${(/** @type {any} */ one) => html`<li key=${one.provider + one.subject}>
        <span class="grow s13">
          <b>${plain(one.provider, 40)}</b> ${plain(one.email || one.subject, 80)}
          ${" "}${one.email && !one.email_verified && html`<${Pill} kind="warn">${t.members.unverified}</${Pill}>`}
          <span class="soft s12 under">${t.profile.lastUsed(ago(one.last_used_at))}</span>
        </span>
        <${Button}
          kind="flat small" why=${why()}
          onClick=${() =>
            setEnds({
              path: `${path}/identities/${encodeURIComponent(one.provider)}`,
              title: t.members.unlinkTitle(plain(one.provider, 40)),
              text: t.members.unlinkText,
              action: t.members.unlink,
              done: t.members.unlinked,
            })}
        >
          ${t.members.unlink}
        </${Button}>
      </li>`}
    </${Part}>
    <${Part} title=${t.members.consents} none=${t.members.noConsents} loaded=${consents}>
      ${(/** @type {any} */ one) => html`<li key=${one.consent_id}>
        <span class="grow s13">
          <b>${plain(one.client.name, 60)}</b>
          ${" "}<span class="soft s12 under">
            ${one.scopes.map((/** @type {any} */ scope) => plain(scope.name, 40)).join(" ")} · ${date(one.granted_at)}
          </span>
        </span>
        <${Button}
          kind="flat small" why=${why()}
          onClick=${() =>
            setEnds({
              path: `${path}/consents/${one.consent_id}`,
              title: t.members.disconnectTitle(plain(one.client.name, 60)),
              text: t.members.disconnectText,
              action: t.members.disconnect,
              done: t.members.disconnected,
            })}
        >
          ${t.members.disconnect}
        </${Button}>
      </li>`}
    </${Part}>
    ${ends && html`<${Confirm}
      title=${ends.title} text=${ends.text} action=${ends.action} onClose=${() => setEnds(null)}
      run=${async () => (
        await onApp(ends.path, { method: "DELETE" }),
        toast(ends.done),
        identities.reload(),
        consents.reload()
      )}
    />`}
  </div>`;
}
