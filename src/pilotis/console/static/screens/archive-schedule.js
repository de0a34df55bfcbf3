/** Archives of an app that are made at set times. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, may, onApp } from "../state/app.js";
import { moment, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Bones, Button, Confirm, Failure, FormDialog, TextField, useLoad } from "../ui/widgets.js";

const PATH = "/archive-schedule";
const SHORTEST_PASSPHRASE = 8;
const NIGHTLY = "30 2 * * *";

/** @typedef {Api.ArchiveSchedule} Schedule */

const ownersOnly = () => !may("owner") && t.needs.owner;

/** @param {{most: number}} props */
export function ArchiveSchedule({ most }) {
  const { data, error, reload } = useLoad(
    async (signal) =>
      may("owner")
        ? onApp(PATH, { signal }).catch((failed) => (failed.status === 404 ? null : Promise.reject(failed)))
        : null,
    [appId.value],
  );
  const [dialog, setDialog] = useState(/** @type {"" | "set" | "delete"} */ (""));
  if (error) return html`<section class="slab"><${Failure} error=${error} retry=${reload} /></section>`;
  return html`
    <section class="slab">
      <header class="line">
        <h2 class="grow">${t.archives.scheduleTitle}</h2>
        <${Button} icon=${data ? "edit" : "clock"} why=${ownersOnly()} onClick=${() => setDialog("set")}>
          ${data ? t.archives.changeSchedule : t.archives.setSchedule}
        </${Button}>
        ${data && html`<${Button}
          kind="flat small" icon="trash" label=${t.archives.deleteSchedule} onClick=${() => setDialog("delete")}
        />`}
      </header>
      ${data === undefined
        ? html`<${Bones} rows=${1} />`
        : data
          ? html`<${Facts} schedule=${data} />`
          : html`<p class="soft s13 pad">${t.archives.scheduleLead}</p>`}
    </section>
    ${dialog === "set" && html`<${SetSchedule}
      schedule=${data} most=${most} onClose=${() => setDialog("")} done=${reload}
    />`}
    ${dialog === "delete" && html`<${Confirm}
      title=${t.archives.deleteScheduleTitle} text=${t.archives.deleteScheduleText} action=${t.archives.deleteSchedule}
      onClose=${() => setDialog("")}
      run=${async () => {
        await onApp(PATH, { method: "DELETE" });
        reload();
      }}
    />`}
  `;
}

/** @param {{schedule: Schedule}} props */
function Facts({ schedule }) {
  const notes = [
    t.archives.kept(schedule.keep),
    schedule.next_run_at && t.archives.next(moment(schedule.next_run_at)),
    schedule.has_passphrase
      ? t.archives.withPassphrase
      : schedule.with_secrets
        ? t.archives.open
        : t.archives.withoutSecrets,
  ];
  return html`<ul class="items">
    <li class="line">
      <${Icon} name="clock" />
      <span class="grow">
        <code>${plain(schedule.cron, 60)}</code> <span class="soft">${plain(schedule.timezone || "UTC", 60)}</span>
        <br />
        <span class="soft s12">${notes.filter(Boolean).join(" · ")}</span>
      </span>
    </li>
  </ul>`;
}

/** @param {{schedule: Schedule | null, most: number, onClose: () => void, done: () => void}} props */
function SetSchedule({ schedule, most, onClose, done }) {
  const [cron, setCron] = useState(schedule?.cron || NIGHTLY);
  const [zone, setZone] = useState(
    schedule ? schedule.timezone || "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone,
  );
  const [keep, setKeep] = useState(String(schedule?.keep || most));
  const [secrets, setSecrets] = useState(schedule ? schedule.with_secrets : false);
  const [passphrase, setPassphrase] = useState("");
  const submit = async () => {
    const given = passphrase || !schedule?.has_passphrase ? { passphrase: (secrets && passphrase) || null } : {};
    await onApp(PATH, {
      method: "PUT",
      body: { cron: cron.trim(), timezone: zone.trim() || null, keep: Number(keep), with_secrets: secrets, ...given },
    });
    onClose();
    done();
  };
  const short = secrets && !!passphrase && passphrase.length < SHORTEST_PASSPHRASE;
  const none = secrets && !passphrase && !schedule?.has_passphrase;
  const count = Number(keep);
  const wrong = !(Number.isInteger(count) && count >= 1 && count <= most) && t.archives.keepRange(most);
  return html`<${FormDialog}
    title=${t.archives.scheduleTitle} action=${t.archives.saveSchedule} onClose=${onClose} submit=${submit}
    why=${wrong || (short && t.archives.tooShort) || (none && t.archives.passphraseFirst)}
  >
    <${TextField}
      label=${t.functions.cron} value=${cron} onInput=${setCron} class="mono" spellcheck="false" maxlength="200"
      help=${t.archives.cronHelp}
    />
    <${TextField} label=${t.functions.zone} value=${zone} onInput=${setZone} spellcheck="false" maxlength="100" />
    <${TextField}
      label=${t.archives.keep} value=${keep} onInput=${setKeep} type="number" min="1" max=${most} inputmode="numeric"
      help=${t.archives.keepHelp} wrong=${wrong}
    />
    <div class="option">
      <div class="grow">
        <label class="label" for="schedule-with-secrets">${t.archives.secrets}</label>
        <p class="soft s12">${t.archives.secretsText}</p>
      </div>
      <input
        id="schedule-with-secrets" type="checkbox" class="switch" checked=${secrets}
        onChange=${(/** @type {Typed} */ event) => setSecrets(event.target.checked)}
      />
    </div>
    ${secrets && html`<${TextField}
      label=${t.archives.passphrase} value=${passphrase} onInput=${setPassphrase} type="password" maxlength="1000"
      autocomplete="new-password" optional=${!!schedule?.has_passphrase}
      help=${schedule?.has_passphrase ? t.archives.schedulePassphraseStays : t.archives.schedulePassphraseHelp}
    />`}
  </${FormDialog}>`;
}
