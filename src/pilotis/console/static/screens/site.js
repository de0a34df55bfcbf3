/** One site: its deployments in order of time, the metadata of its pages, its domains and its settings. */
import { html, useRef, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { deployFolder, deployZip, isZip, siteFiles } from "../state/deploy.js";
import { appId, denied, ofApp, onApp, opened } from "../state/app.js";
import { go, href, place } from "../state/router.js";
import { ago, count, date, moment, plain, size } from "../ui/format.js";
import { dropped } from "../ui/dropped.js";
import { Icon } from "../ui/icons.js";
import { Address, Calls, usePublicKey } from "../ui/calls.js";
import { ListPager, listing } from "../ui/listing.js";
import {
  Bones,
  Button,
  Code,
  Confirm,
  Copy,
  Empty,
  Failure,
  FormDialog,
  Pill,
  SelectField,
  State,
  Tabs,
  TextField,
  complain,
  said,
  toast,
  useAction,
  useLoad,
  useTitle,
} from "../ui/widgets.js";

export const head = () => ({
  title: plain(opened.value, 60) || t.sites.one,
  crumbs: [{ text: t.sectionNames.sites, href: href(`/apps/${appId.value}/sites`) }],
});

const PAGE = 50;
const why = () => denied("editor");
const LOOKS = /** @type {Record<string, string[]>} */ ({
  processing: ["info", "run"],
  ready: ["ok", "done"],
  failed: ["bad", "fail"],
  expired: ["idle", "clock"],
});
const TABS = ["", "ci", "pages", "domains", "settings"];

/** @param {{site: string, config: Api.ConsoleConfig}} props */
export function Screen({ site: id, config }) {
  const tab = TABS.includes(place.value.path.split("/")[5] || "") ? place.value.path.split("/")[5] || "" : "";
  const base = /** @type {const} */ (`/storages/webs/${encodeURIComponent(id)}`);
  const site = useLoad((signal) => onApp(base, { signal }), [appId.value, base]);
  const own = `/apps/${appId.value}/sites/${id}`;
  useTitle(site.data?.name);
  if (site.error)
    return html`<div class="page">
      <div class="slab"><${Failure} error=${site.error} retry=${site.reload} /></div>
    </div>`;
  return html`<div class="data">
    <div class="strip tabstrip">
      <${Tabs}
        label=${t.sites.one}
        items=${TABS.map((name) => ({
          href: href(name ? `${own}/${name}` : own),
          text: worded(t.sites.tabs, name || "deployments"),
          on: name === tab,
        }))}
      />
      <span class="grow"></span>
      ${site.data && html`<${Button}
        kind="small" icon="link" href=${site.data.url} target="_blank" rel="noopener noreferrer"
      >
        ${t.sites.open}
      </${Button}>`}
    </div>
    ${!site.data
      ? html`<${Bones} rows=${6} />`
      : tab === "pages"
        ? html`<${Pages} id=${id} site=${site.data} />`
        : tab === "ci"
          ? html`<${FromBuild} site=${site.data} config=${config} />`
          : tab === "domains"
            ? html`<${Domains} base=${base} />`
            : tab === "settings"
              ? html`<${Settings} base=${base} site=${site.data} set=${site.set} />`
              : html`<${Deployments} base=${base} site=${site.data} changed=${site.reload} />`}
  </div>`;
}

/** How a build deploys the site. @param {{site: Api.WebStorage, config: Api.ConsoleConfig}} props */
function FromBuild({ site, config }) {
  const key = usePublicKey() || "pk_…";
  const base = config.base_url;
  const path = /** @type {const} */ (`/v1/public/storages/webs/${site.id}/deploy`);
  const request = {
    method: "POST",
    path,
    key,
    bearer: "SECRET_KEY",
    written: {
      curl: `curl -X POST '${base}${path}' \\\n  -H 'X-Public-Key: ${key}' \\\n  -H "Authorization: Bearer $SECRET_KEY" \\\n  -F 'file=@dist.zip'`,
      javascript: `import { openAsBlob } from "node:fs";\n\nconst form = new FormData();\nform.append("file", await openAsBlob("dist.zip"), "dist.zip");\nconst answer = await fetch(${JSON.stringify(base + path)}, {\n  method: "POST",\n  headers: { "X-Public-Key": ${JSON.stringify(key)}, Authorization: \`Bearer \${process.env.SECRET_KEY}\` },\n  body: form,\n});\nconst result = await answer.json();`,
      python: `import os\n\nimport requests\n\nwith open("dist.zip", "rb") as archive:\n    answer = requests.post(\n        ${JSON.stringify(base + path)},\n        headers={\n            "X-Public-Key": ${JSON.stringify(key)},\n            "Authorization": f"Bearer {os.environ['SECRET_KEY']}",\n        },\n        files={"file": archive},\n    )\nresult = answer.json()`,
    },
  };
  return html`<div class="scroll">
    <div class="page tabpage">
      <section class="slab pad form">
        <${Address} label=${t.sites.address} text=${site.url} />
        <${Address} label=${t.sites.siteId} text=${site.id} note=${t.sites.promoteNote} />
      </section>
      <${Calls} base=${base} calls=${[{ title: t.sites.deployCall, request, why: "" }]} />
      <section class="slab pad">
        <h2 class="s13">${t.sites.commandCall}</h2>
        <${Code} text=${`export PILOTIS_SECRET_KEY=sk_…\npilotis deploy dist --url ${base} --storage ${site.id} --public-key ${key}`} />
      </section>
    </div>
  </div>`;
}

/**
 * How many files came, differ and went; what did not happen is left out.
 * @param {{added: number, changed: number, removed: number}} changes
 */
const fileCounts = ({ added, changed: differ, removed }) =>
  [added && `+${count(added)}`, differ && `~${count(differ)}`, removed && `−${count(removed)}`]
    .filter(Boolean)
    .join(" ") || t.none;

/** @param {{base: SitePath, site: Api.WebStorage, changed: () => void}} props */
function Deployments({ base, site, changed }) {
  const offset = Number(place.value.query.get("offset")) || 0;
  const [found, setFound] = useState(/** @type {any} */ (null));
  const [over, setOver] = useState(false);
  const [promoted, setPromoted] = useState(/** @type {any} */ (null));
  const [compared, setCompared] = useState(/** @type {any} */ (null));
  const folder = useRef(/** @type {HTMLInputElement | null} */ (null));
  const zip = useRef(/** @type {HTMLInputElement | null} */ (null));
  const { data, error, reload } = useLoad(
    (signal) => onApp(`${base}/deployments`, { query: { limit: PAGE, offset }, signal }),
    [appId.value, base, offset],
  );
  const again = () => (reload(), changed());
  const drop = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    setOver(false);
    if (!why() && event.dataTransfer)
      dropped(event.dataTransfer).then(setFound, () => toast(t.files.unreadable, { kind: "bad" }));
  };
  const chosen = (/** @type {any} */ event) => {
    setFound(
      [...event.target.files].map((file) => ({
        file,
        folders: file.webkitRelativePath ? file.webkitRelativePath.split("/").slice(0, -1) : [],
      })),
    );
    event.target.value = "";
  };
  const buttons = html`
    <${Button} kind="go" icon="folder" why=${why()} onClick=${() => folder.current?.click()}>
      ${t.sites.deployFolder}
    </${Button}>
    ${" "}<${Button} icon="out" why=${why()} onClick=${() => zip.current?.click()}>${t.sites.deployZip}</${Button}>
  `;
  const known = (/** @type {string | null} */ id) => data?.deployments.find((one) => one.id === id);
  return html`<div
    class=${`listbox grow ${over ? "over" : ""}`}
    onDragOver=${(/** @type {Event} */ event) => (event.preventDefault(), setOver(true))}
    onDragLeave=${() => setOver(false)} onDrop=${drop}
  >
    <input ref=${folder} type="file" webkitdirectory multiple hidden onChange=${chosen} />
    <input ref=${zip} type="file" accept=".zip,application/zip" hidden onChange=${chosen} />
    <div class="strip roomy">
      <span class="soft s13">${data && t.sites.deployments(data.total_count)}</span>
      <span class="grow"></span>
      ${data?.deployments.length ? buttons : null}
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.deployments,
        bones: { rows: 6 },
        empty: html`<${Empty}
          title=${t.sites.noDeployments} text=${t.sites.noDeploymentsText}
          command=${`pilotis deploy ./dist --storage ${site.id}`}
        >
          ${buttons}
        </${Empty}>`,
        look: "list releases",
        columns: html`
          <th><span class="sr">${t.sites.place}</span></th>
          <th>${t.sites.version}</th>
          <th>${t.webhooks.state}</th>
          <th>${t.sites.message}</th>
          <th>${t.sites.changes}</th>
          <th>${t.activity.when}</th>
          <th></th>
        `,
        row: (one, at, all) => html`
          ${(at === 0 || date(one.created_at) !== date(all[at - 1].created_at)) && html`<tr
            key=${one.created_at} class="day"
          >
            <td class="thread"></td>
            <td colspan="6">${date(one.created_at)}</td>
          </tr>`}
          <tr key=${one.id} class=${one.is_production ? "production" : ""}>
            <td class="thread">
              <span class=${`knot ${one.is_production ? "production" : one.is_qa ? "qa" : one.status}`}></span>
            </td>
            <td class="main">
              <span class="line">
                <b>${one.version === null ? "–" : `v${one.version}`}</b>
                ${one.is_production && html`<${Pill} kind="live" icon="globe">${t.sites.production}</${Pill}>`}
                ${one.is_qa && html`<${Pill} kind="info" icon="search">QA</${Pill}>`}
                ${one.branch && html`<${Pill}>${plain(one.branch, 60)}</${Pill}>`}
              </span>
            </td>
            <td>
              <${State} look=${LOOKS[one.status]} title=${one.error?.message || undefined}>
                ${worded(t.sites.statuses, one.status)}
              </${State}>
            </td>
            <td class="cut message">
              ${one.message
                ? plain(one.message, 100)
                : html`<span class="soft">${worded(t.sites.sources, one.source) || plain(one.source, 40)}</span>`}
              ${one.error && html`<p class="state bad failed s12">${plain(one.error.message, 300)}</p>`}
            </td>
            <td class="wide num">
              <button
                type="button" class="plainlink" disabled=${one.status !== "ready"}
                title=${one.status === "ready" ? t.sites.changesOf(one.version ?? 0) : t.sites.notReady}
                onClick=${() => setCompared(one)}
              >
                ${fileCounts(one.changes)}
              </button>
            </td>
            <td class="soft wide" title=${moment(one.created_at)}>${ago(one.created_at)}</td>
            <td class="fit">
              ${one.url && html`<${Button}
                kind="flat small" icon="link" label=${t.sites.openVersion(one.version ?? 0)} href=${one.url}
                target="_blank" rel="noopener noreferrer"
              />`}
              ${one.status === "ready" && !one.is_production && !one.branch && html`<${Button}
                kind="small" why=${why()} onClick=${() => setPromoted(one)}
              >
                ${(known(data?.production_deployment_id ?? null)?.version || 0) > (one.version ?? 0)
                  ? t.sites.rollBack
                  : t.sites.promote}
              </${Button}>`}
            </td>
          </tr>
        `,
      })}
    </div>
    <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
    ${found && html`<${DeployDialog}
      base=${base} site=${site} found=${found} onClose=${() => (setFound(null), again())}
    />`}
    ${compared && html`<${Difference} base=${base} deployment=${compared} onClose=${() => setCompared(null)} />`}
    ${promoted && html`<${Confirm}
      title=${t.sites.promoteTitle(promoted.version)} text=${t.sites.promoteText} action=${t.sites.promote}
      onClose=${() => setPromoted(null)}
      run=${async () => (
        await onApp(`${base}/promote`, { method: "POST", body: { deployment_id: promoted.id } }),
        toast(t.sites.promoted(promoted.version)),
        again()
      )}
    />`}
  </div>`;
}

/** @param {{base: SitePath, site: Api.WebStorage, found: any[], onClose: () => void}} props */
function DeployDialog({ base, site, found, onClose }) {
  const [message, setMessage] = useState("");
  const [target, setTarget] = useState(site.promote_mode === "manual" ? "qa" : "");
  const [progress, setProgress] = useState(/** @type {import("../state/deploy.js").Progress | null} */ (null));
  const files = isZip(found) ? null : siteFiles(found);
  const bytes = found.reduce((/** @type {number} */ sum, one) => sum + one.file.size, 0);
  const deploy = async () => {
    const made = files
      ? await deployFolder(base, files, target, message, setProgress)
      : await deployZip(base, found[0].file, target, message, setProgress);
    toast(t.sites.deployed(made.version));
    onClose();
  };
  const part = progress && progress.total ? progress.done / progress.total : 0;
  return html`<${FormDialog}
    title=${t.sites.deploy} onClose=${onClose} submit=${deploy} action=${t.sites.deploy}
    why=${files && !files.length && t.sites.noFiles}
  >
    <p>
      ${files ? t.sites.willSend(files.length, size(bytes)) : `${plain(found[0].file.name, 60)}, ${size(bytes)}`}
      ${files && files.length > 0 && !files.some((one) => one.path === "index.html") && html`
        ${" "}<span class="state warn s12">${t.sites.noIndex}</span>
      `}
    </p>
    <${SelectField}
      label=${t.sites.channel} value=${target} onInput=${setTarget}
      options=${[
        ["", t.sites.byDefault(site.promote_mode)],
        ["qa", t.sites.toQa],
      ]}
    />
    <${TextField} label=${t.sites.message} value=${message} onInput=${setMessage} maxlength="500" optional />
    ${progress && html`
      <p class="soft s13" role="status">
        ${worded(t.sites.stages, progress.stage)}
        ${" "}${progress.total
          ? `${count(progress.done)} / ${progress.stage === "sending" && !files ? size(progress.total) : count(progress.total)}`
          : ""}
      </p>
      <div class="meter">
        <span ref=${(/** @type {HTMLElement | null} */ bar) => bar && (bar.style.width = `${part * 100}%`)}></span>
      </div>
    `}
  </${FormDialog}>`;
}

/**
 * What differs between a deployment and the one that it is based on, or production.
 * @param {{base: SitePath, deployment: any, onClose: () => void}} props
 */
function Difference({ base, deployment, onClose }) {
  const { data, error } = useLoad(
    async (signal) => {
      const read = async (/** @type {string | null} */ id) => {
        if (!id) return [];
        const manifest = onApp(`${base}/deploy/manifest`, { query: { deployment_id: id }, signal });
        return manifest.then(
          (found) => found.files,
          (error) => (error.status === 404 ? [] : Promise.reject(error)),
        );
      };
      const [before, after] = await Promise.all([read(deployment.base_deployment_id), read(deployment.id)]);
      const old = new Map(before.map((one) => [one.path, one]));
      /** @type {{path: string, kind: "added" | "changed" | "removed", from?: number, to?: number}[]} */
      const rows = after.flatMap((one) => {
        const was = old.get(one.path);
        old.delete(one.path);
        return was?.hash === one.hash
          ? []
          : [{ path: one.path, kind: was ? "changed" : "added", from: was?.size, to: one.size }];
      });
      for (const one of old.values()) rows.push({ path: one.path, kind: "removed", from: one.size });
      return rows.sort((a, b) => a.path.localeCompare(b.path));
    },
    [base, deployment.id, deployment.base_deployment_id],
  );
  return html`<${FormDialog}
    class="broad" title=${t.sites.changesOf(deployment.version)} onClose=${onClose} submit=${async () => onClose()}
    action=${t.done}
  >
    ${error
      ? html`<p class="notice bad">${said(error)}</p>`
      : !data
        ? html`<${Bones} rows=${4} columns=${2} />`
        : !data.length
          ? html`<p class="soft">${t.unchanged}</p>`
          : html`
              <table class="list">
                <tbody>
                  ${data
                    .slice(0, 500)
                    .map(
                      (one) => html`<tr key=${one.path}>
                        <td class="cut"><code>${plain(one.path, 120)}</code></td>
                        <td class=${one.kind === "removed" ? "state bad" : ""}>${t.sites.kinds[one.kind]}</td>
                        <td class="r num wide">
                          ${one.from === undefined ? "" : size(one.from)}
                          ${one.kind === "changed" ? " → " : ""}
                          ${one.to === undefined ? "" : size(one.to)}
                        </td>
                      </tr>`,
                    )}
                </tbody>
              </table>
              ${data.length > 500 && html`<p class="soft s13">${t.overview.moreOpen(data.length - 500)}</p>`}
            `}
  </${FormDialog}>`;
}

/** @param {{id: string, site: Api.WebStorage}} props */
function Pages({ id, site }) {
  const path = /** @type {const} */ (`/v1/public/storages/webs/${encodeURIComponent(id)}/page-metas`);
  const offset = Number(place.value.query.get("offset")) || 0;
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const { data, error, reload } = useLoad(
    (signal) => ofApp(path, { query: { limit: PAGE, offset }, signal }),
    [appId.value, path, offset],
  );
  const create = html`<${Button} kind="go" icon="plus" why=${why()} onClick=${() => setDialog({})}>
    ${t.sites.addPage}
  </${Button}>`;
  return html`
    <div class="strip roomy">
      <span class="soft s13">${t.sites.pagesText}</span>
      <span class="grow"></span>
      ${data?.pages.length ? create : null}
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.pages,
        bones: { rows: 4, columns: 3 },
        empty: html`<${Empty} title=${t.sites.noPages} text=${t.sites.noPagesText}>${create}</${Empty}>`,
        columns: html`<th>${t.sites.path}</th><th>${t.sites.title}</th><th>${t.tables.description}</th><th></th>`,
        row: (one) => html`<tr key=${one.path}>
          <td class="main"><code>${plain(one.path, 80)}</code></td>
          <td class="cut">${plain(one.title || "", 100)}</td>
          <td class="wide soft cut">${plain(one.description || "", 100)}</td>
          <td class="fit">
            <${Button}
              kind="flat small" icon="edit" label=${t.sites.editPage(plain(one.path, 80))} why=${why()}
              onClick=${() => setDialog({ page: one })}
            />
            <${Button}
              kind="flat small bad" icon="trash" label=${t.sites.deletePage(plain(one.path, 80))} why=${why()}
              onClick=${() => setDialog({ gone: one })}
            />
          </td>
        </tr>`,
      })}
    </div>
    <${ListPager} offset=${offset} limit=${PAGE} total=${data?.total_count} />
    ${
      dialog &&
      (dialog.gone
        ? html`<${Confirm}
            title=${t.sites.deletePage(plain(dialog.gone.path, 80))} text=${t.sites.deletePageText}
            action=${t.grid.delete} onClose=${() => setDialog(null)}
            run=${async () => (await ofApp(path, { method: "DELETE", query: { path: dialog.gone.path } }), reload())}
          />`
        : html`<${PageDialog}
            path=${path} known=${dialog.page} site=${site} onClose=${() => (setDialog(null), reload())}
          />`)
    }
  `;
}

/**
 * @param {{path: `/v1/public/storages/webs/${string}/page-metas`, known?: any, site: Api.WebStorage, onClose: () =>
 *   void}} props
 */
function PageDialog({ path, known, site, onClose }) {
  const [page, setPage] = useState(known || { path: "/", title: "", description: "", image: "" });
  const set = (/** @type {string} */ name) => (/** @type {string} */ value) => setPage({ ...page, [name]: value });
  const save = async () => {
    const { created_at: _made, updated_at: _changed, ...body } = page;
    await ofApp(path, { method: "PUT", body });
    onClose();
  };
  const image = /^https?:\/\//.test(page.image || "") ? page.image : "";
  return html`<${FormDialog}
    class="broad" title=${known ? t.sites.editPage(plain(known.path, 80)) : t.sites.addPage} onClose=${onClose}
    submit=${save} action=${t.save} why=${!page.path.startsWith("/") && t.sites.pathFirst}
  >
    <${TextField}
      label=${t.sites.path} value=${page.path} onInput=${set("path")} disabled=${!!known} spellcheck="false" data-first
    />
    <${TextField} label=${t.sites.title} value=${page.title || ""} onInput=${set("title")} maxlength="300" />
    <${TextField}
      label=${t.tables.description} value=${page.description || ""} onInput=${set("description")} maxlength="1000"
    />
    <${TextField}
      label=${t.sites.image} value=${page.image || ""} onInput=${set("image")} maxlength="2048" placeholder="https://"
      spellcheck="false"
    />
    <div class="field">
      <span class="label">${t.sites.preview}</span>
      <div class="sharecard">
        <div class="shareimage">
          <${Icon} name="image" />
          ${image && html`<span class="s12 cut">${plain(image, 80)}</span>`}
        </div>
        <small class="soft cut">${plain(new URL(site.url).host, 60)}</small>
        <b class="cut">${plain(page.title || t.sites.untitled, 90)}</b>
        <p class="soft s13">${plain(page.description || "", 160)}</p>
      </div>
    </div>
  </${FormDialog}>`;
}

/** @param {{base: SitePath}} props */
function Domains({ base }) {
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const { data, error, reload } = useLoad(
    (signal) => onApp(`${base}/domains`, { query: { limit: 100 }, signal }),
    [appId.value, base],
  );
  const verify = useAction(async (/** @type {Api.Domain} */ domain) => {
    const checked = await onApp(`${base}/domains/${encodeURIComponent(domain.hostname)}/verify`, { method: "POST" });
    toast(checked.is_verified ? t.sites.verified(domain.hostname) : t.sites.notFoundYet);
    reload();
  });
  const create = html`<${Button} kind="go" icon="plus" why=${why()} onClick=${() => setDialog({ add: true })}>
    ${t.sites.addDomain}
  </${Button}>`;
  return html`
    <div class="strip roomy">
      <span class="soft s13">${t.sites.domainsText}</span>
      <span class="grow"></span>
      ${data?.domains.length ? create : null}
    </div>
    ${verify.error && html`<p class="notice bad" role="alert">
      <${Icon} name="fail" />
      <span>${said(verify.error)}</span>
    </p>`}
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.domains,
        bones: { rows: 2, columns: 3 },
        empty: html`<${Empty} title=${t.sites.noDomains} text=${t.sites.noDomainsText}>${create}</${Empty}>`,
        columns: html`<th>${t.sites.host}</th><th>${t.sites.record}</th><th>${t.webhooks.state}</th><th></th>`,
        row: (one) => html`<tr key=${one.hostname}>
          <td class="main">${plain(one.hostname, 100)}</td>
          <td class="records">
            <div class="line"><code class="cut">TXT ${one.txt_name}</code><${Copy} text=${one.txt_name} /></div>
            <div class="line"><code class="cut">${one.txt_value}</code><${Copy} text=${one.txt_value} /></div>
          </td>
          <td>
            ${one.is_verified
              ? html`<span class="state ok"><${Icon} name="done" />${t.sites.isVerified}</span>`
              : html`<span class="state warn"><${Icon} name="clock" />${t.sites.waits}</span>`}
          </td>
          <td class="fit">
            ${!one.is_verified && html`<${Button}
              kind="small" busy=${verify.busy} why=${why()} onClick=${() => verify.run(one)}
            >
              ${t.sites.verify}
            </${Button}>`}
            ${" "}<${Button}
              kind="flat small bad" icon="trash" label=${t.sites.removeDomain(one.hostname)} why=${why()}
              onClick=${() => setDialog({ gone: one })}
            />
          </td>
        </tr>`,
      })}
    </div>
    ${dialog?.add && html`<${NewDomain} base=${base} onClose=${() => (setDialog(null), reload())} />`}
    ${dialog?.gone && html`<${Confirm}
      title=${t.sites.removeDomain(dialog.gone.hostname)} text=${t.sites.removeDomainText}
      action=${t.settings.removeAction} onClose=${() => setDialog(null)}
      run=${async () => (
        await onApp(`${base}/domains/${encodeURIComponent(dialog.gone.hostname)}`, { method: "DELETE" }),
        reload()
      )}
    />`}
  `;
}

/** @param {{base: SitePath, onClose: () => void}} props */
function NewDomain({ base, onClose }) {
  const [hostname, setHostname] = useState("");
  return html`<${FormDialog}
    title=${t.sites.addDomain} onClose=${onClose}
    submit=${async () => (await onApp(`${base}/domains`, { method: "POST", body: { hostname } }), onClose())}
    action=${t.sites.addDomain} why=${!hostname.trim() && t.sites.hostFirst}
  >
    <${TextField}
      label=${t.sites.host} value=${hostname} onInput=${setHostname} placeholder="www.example.com" spellcheck="false"
      autocomplete="off" maxlength="253"
    />
  </${FormDialog}>`;
}

/** @param {{base: SitePath, site: Api.WebStorage, set: (site: Api.WebStorage) => void}} props */
function Settings({ base, site, set }) {
  const [form, setForm] = useState({
    name: site.name,
    slug: site.slug,
    promote_mode: site.promote_mode,
    not_found_mode: site.not_found_mode,
    retain: String(site.retain),
    clean_urls: site.clean_urls,
  });
  const [password, setPassword] = useState("");
  const [gone, setGone] = useState(false);
  const put = (/** @type {string} */ name) => (/** @type {any} */ value) => setForm({ ...form, [name]: value });
  const save = useAction(async () => {
    set(
      await onApp(base, {
        method: "PATCH",
        body: { ...form, retain: Number(form.retain), ...(password ? { qa_password: password } : {}) },
      }),
    );
    setPassword("");
    toast(t.saved);
  });
  const open = async () => set(await onApp(base, { method: "PATCH", body: { qa_password: null } }));
  return html`
    <div class="scroll">
      <div class="page narrowpage">
        <section class="slab pad">
          <h2>${t.sites.tabs.settings}</h2>
          <form class="form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), save.run())}>
            <${TextField} label=${t.name} value=${form.name} onInput=${put("name")} maxlength="100" required />
            <${TextField}
              label=${t.sites.slug} value=${form.slug} onInput=${put("slug")} help=${t.sites.slugChange} maxlength="40"
              required spellcheck="false"
            />
            <${SelectField}
              label=${t.sites.promoteMode} value=${form.promote_mode} onInput=${put("promote_mode")}
              options=${[
                ["auto", t.sites.auto],
                ["manual", t.sites.manual],
              ]}
            />
            <${SelectField}
              label=${t.sites.notFound} value=${form.not_found_mode} onInput=${put("not_found_mode")}
              options=${[
                ["auto", t.sites.notFoundAuto],
                ["spa", t.sites.notFoundSpa],
                ["404", t.sites.notFoundPage],
              ]}
            />
            <label class="check">
              <input
                type="checkbox" checked=${form.clean_urls}
                onChange=${(/** @type {Typed} */ event) => put("clean_urls")(event.target.checked)}
              />
              ${t.sites.cleanUrls}
            </label>
            <${TextField} label=${t.sites.retain} value=${form.retain} onInput=${put("retain")} inputmode="numeric" />
            <${TextField}
              label=${t.sites.qaPassword} type="password" autocomplete="new-password" value=${password}
              onInput=${setPassword} optional help=${site.has_qa_password ? t.sites.qaHas : t.sites.qaHasNot}
            />
            ${save.error && html`<p class="notice bad" role="alert">
              <${Icon} name="fail" />
              <span>${said(save.error)}</span>
            </p>`}
            <div class="actions">
              <${Button}
                kind="go" type="submit" busy=${save.busy} why=${why() || (!/^\d+$/.test(form.retain) && t.wholeNumber)}
              >
                ${t.save}
              </${Button}>
              ${site.has_qa_password && html`<${Button}
                kind="flat" why=${why()} onClick=${() => open().catch(complain)}
              >
                ${t.sites.qaOpen}
              </${Button}>`}
            </div>
          </form>
        </section>
        <section class="slab pad">
          <h2>${t.sites.delete}</h2>
          <p class="soft s13">${t.sites.deleteText}</p>
          <p>
            <${Button} kind="bad" icon="trash" why=${why()} onClick=${() => setGone(true)}>${t.sites.delete}</${Button}>
          </p>
        </section>
      </div>
    </div>
    ${gone && html`<${Confirm}
      title=${t.files.deleteTitle(plain(site.name, 60))} text=${t.sites.deleteText} action=${t.sites.delete}
      name=${site.slug} onClose=${() => setGone(false)}
      run=${async () => (await onApp(base, { method: "DELETE" }), go(`/apps/${appId.value}/sites`))}
    />`}
  `;
}
