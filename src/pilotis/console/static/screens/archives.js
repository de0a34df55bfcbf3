/** Archives of an app: have one written, download it, and make an app of one. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { request, user } from "../state/api.js";
import { appId, loadApps, may, onApp } from "../state/app.js";
import { go } from "../state/router.js";
import { moment, plain, size } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { ArchiveSchedule } from "./archive-schedule.js";
import {
  Bones,
  Button,
  Confirm,
  Empty,
  Failure,
  FormDialog,
  TextField,
  complain,
  useLoad,
  useReload,
} from "../ui/widgets.js";

const AGAIN_MS = 2000;
const SHORTEST_PASSPHRASE = 8;

const ownersOnly = () => !may("owner") && t.needs.owner;

export function Archives() {
  const { data, error, reload } = useLoad(
    async (signal) => (may("owner") ? onApp("/archives", { signal }) : { data: [], kept: 0, total_count: 0 }),
    [appId.value],
  );
  const [dialog, setDialog] = useState(/** @type {"" | "write" | "import"} */ (""));
  const [gone, setGone] = useState(/** @type {Api.AppArchive | null} */ (null));
  const waits = data?.data.some((/** @type {Api.AppArchive} */ one) => one.status === "pending");
  useReload(reload, AGAIN_MS, Boolean(waits));
  const download = async (/** @type {Api.AppArchive} */ archive) => {
    try {
      const { url } = await onApp(`/archives/${archive.id}/link`, { method: "POST" });
      const link = document.createElement("a");
      link.href = new URL(url).pathname;
      link.download = "";
      link.click();
    } catch (error) {
      complain(error);
    }
  };
  if (error) return html`<section class="slab"><${Failure} error=${error} retry=${reload} /></section>`;
  return html`
    <section class="slab">
      <header class="line">
        <h2 class="grow">${t.archives.title}</h2>
        <${Button}
          icon="plus" why=${ownersOnly() || (waits && t.archives.oneAtATime)} onClick=${() => setDialog("write")}
        >
          ${t.archives.write}
        </${Button}>
      </header>
      <p class="soft s13 pad">${t.archives.lead}</p>
      ${!data
        ? html`<${Bones} rows=${2} />`
        : !data.data.length
          ? html`<${Empty} title=${t.archives.none} text=${t.archives.noneText} />`
          : html`<ul class="items">
              ${data.data.map(
                (/** @type {Api.AppArchive} */ one) => html`<${Archive}
                  key=${one.id} archive=${one} download=${() => download(one)} remove=${() => setGone(one)}
                />`,
              )}
            </ul>`}
      ${data && data.data.length > 0 && html`<p class="soft s12 pad">${t.archives.kept(data.kept)}</p>`}
    </section>
    ${data && html`<${ArchiveSchedule} most=${data.kept || 1} />`}
    <section class="slab pad">
      <h2>${t.archives.import}</h2>
      <p class="soft s13">${t.archives.importText}</p>
      <p>
        <${Button}
          icon="in" why=${!user.value?.may_create_apps && t.archives.mayNot} onClick=${() => setDialog("import")}
        >
          ${t.archives.choose}
        </${Button}>
      </p>
    </section>
    ${dialog === "write" && html`<${Write} onClose=${() => setDialog("")} done=${reload} />`}
    ${dialog === "import" && html`<${ImportArchive} onClose=${() => setDialog("")} />`}
    ${gone && html`<${Confirm}
      title=${t.archives.deleteTitle} text=${t.archives.deleteText} action=${t.archives.delete}
      onClose=${() => setGone(null)}
      run=${async () => {
        await onApp(`/archives/${gone.id}`, { method: "DELETE" });
        reload();
      }}
    />`}
  `;
}

/** @param {{archive: Api.AppArchive, download: () => void, remove: () => void}} props */
function Archive({ archive, download, remove }) {
  const notes = [
    archive.is_scheduled && t.archives.bySchedule,
    archive.bytes !== null && size(archive.bytes),
    archive.rows !== null && t.rows(archive.rows),
    archive.files !== null && t.archives.files(archive.files),
    archive.status === "completed" &&
      (archive.has_passphrase
        ? t.archives.withPassphrase
        : archive.with_secrets
          ? t.archives.open
          : t.archives.withoutSecrets),
    !!archive.missing_files && t.archives.missing(archive.missing_files),
  ];
  return html`<li class="line">
    <span class="grow">
      <b>${moment(archive.created_at)}</b>
      ${archive.status === "pending"
        ? html` <span class="state s12"><${Icon} name="clock" />${t.archives.pending}</span>`
        : archive.status === "failed"
          ? html`<span class="state bad failed s12"><${Icon} name="fail" />${plain(archive.error || "", 300)}</span>`
          : html`<br /><span class="soft s12">${notes.filter(Boolean).join(" · ")}</span>`}
    </span>
    ${archive.status === "completed" && html`<${Button} kind="small" icon="in" why=${ownersOnly()} onClick=${download}>
      ${t.archives.download}
    </${Button}>`}
    <${Button} kind="flat small" icon="trash" label=${t.archives.delete} why=${ownersOnly()} onClick=${remove} />
  </li>`;
}

/** @param {{onClose: () => void, done: () => void}} props */
function Write({ onClose, done }) {
  const [passphrase, setPassphrase] = useState("");
  const [secrets, setSecrets] = useState(true);
  const submit = async () => {
    await onApp("/archives", {
      method: "POST",
      body: { passphrase: (secrets && passphrase) || null, with_secrets: secrets },
    });
    onClose();
    done();
  };
  const short = secrets && !!passphrase && passphrase.length < SHORTEST_PASSPHRASE;
  return html`<${FormDialog}
    title=${t.archives.write} action=${t.archives.write} onClose=${onClose} submit=${submit}
    why=${short && t.archives.tooShort}
  >
    <p>${t.archives.writeText}</p>
    <div class="option">
      <div class="grow">
        <label class="label" for="with-secrets">${t.archives.secrets}</label>
        <p class="soft s12">${t.archives.secretsText}</p>
      </div>
      <input
        id="with-secrets" type="checkbox" class="switch" checked=${secrets}
        onChange=${(/** @type {Typed} */ event) => setSecrets(event.target.checked)}
      />
    </div>
    ${secrets && html`<${TextField}
      label=${t.archives.passphrase} value=${passphrase} onInput=${setPassphrase} type="password" maxlength="1000"
      autocomplete="new-password" help=${t.archives.passphraseHelp}
    />`}
  </${FormDialog}>`;
}

/**
 * Send an archive, wait until it is an app, and open that.
 * @param {{onClose: () => void}} props
 */
export function ImportArchive({ onClose }) {
  const picker = useRef(/** @type {HTMLInputElement | null} */ (null));
  const closed = useRef(false);
  const [file, setFile] = useState(/** @type {File | null} */ (null));
  const [name, setName] = useState("");
  const [passphrase, setPassphrase] = useState("");
  const [failed, setFailed] = useState("");
  useEffect(() => () => void (closed.current = true), []);
  const submit = async () => {
    setFailed("");
    const form = new FormData();
    if (name.trim()) form.append("name", name.trim());
    if (passphrase) form.append("passphrase", passphrase);
    form.append("file", /** @type {File} */ (file));
    let found = await request("/v1/apps/import", { method: "POST", raw: form });
    while (found.status === "running" && !closed.current) {
      await new Promise((resume) => setTimeout(resume, AGAIN_MS / 4));
      found = await request(`/v1/apps/import/${found.id}`);
    }
    if (closed.current) return;
    if (found.status !== "completed") return setFailed(found.error || "");
    await loadApps();
    onClose();
    go(`/apps/${found.app_id}`);
  };
  return html`<${FormDialog}
    title=${t.archives.import} action=${t.archives.importAction} onClose=${onClose} submit=${submit}
    why=${!file && t.archives.chooseFirst}
  >
    <p>${t.archives.importNote}</p>
    <div class="field">
      <span class="label">${t.archives.file}</span>
      <div class="drop low">
        <span class="grow cut">
          ${file
            ? html`<b>${plain(file.name, 80)}</b> <span class="soft num">${size(file.size)}</span>`
            : t.archives.noFile}
        </span>
        <${Button} kind="small" onClick=${() => picker.current?.click()}>${t.archives.choose}</${Button}>
        <input
          ref=${picker} type="file" hidden accept=".pilotis" aria-label=${t.archives.file}
          onChange=${(/** @type {any} */ event) => setFile(event.target.files[0] || null)}
        />
      </div>
    </div>
    <${TextField}
      label=${t.name} value=${name} onInput=${setName} maxlength="100" optional help=${t.archives.nameHelp}
    />
    <${TextField}
      label=${t.archives.passphrase} value=${passphrase} onInput=${setPassphrase} type="password" maxlength="1000"
      autocomplete="off" optional help=${t.archives.importPassphraseHelp}
    />
    ${failed && html`<p class="notice bad" role="alert">${plain(failed, 300)}</p>`}
  </${FormDialog}>`;
}
