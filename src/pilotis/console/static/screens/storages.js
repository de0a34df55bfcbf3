/** The file storages of an app, and how programs use one. */
import { html, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, onApp } from "../state/app.js";
import { go, href } from "../state/router.js";
import { count, plain, size } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Access } from "../ui/access.js";
import { Address, Calls, usePublicKey } from "../ui/calls.js";
import { listing } from "../ui/listing.js";
import { Button, Dialog, Empty, FormDialog, SelectField, TextField, useLoad } from "../ui/widgets.js";

const why = () => denied("editor");

export function Storages() {
  const { data, error, reload } = useLoad(
    (signal) => onApp("/storages/files", { query: { limit: 100 }, signal }),
    [appId.value],
  );
  const [creating, setCreating] = useState(false);
  const create = html`<${Button} kind="go small" icon="plus" why=${why()} onClick=${() => setCreating(true)}>
    ${t.files.newStorage}
  </${Button}>`;
  return html`<div class="data">
    <div class="strip tabstrip">
      <span class="soft s13">${data && t.files.storages(data.total_count)}</span>
      <span class="grow"></span>
      ${data?.storages.length ? create : null}
    </div>
    <div class="scroll">
      ${listing({
        loaded: { error, reload },
        items: data?.storages,
        bones: { rows: 4 },
        empty: html`<${Empty} title=${t.files.none} text=${t.files.noneText}>${create}</${Empty}>`,
        columns: html`
          <th>${t.name}</th>
          <th>${t.files.read}</th>
          <th class="r">${t.sectionNames.files}</th>
          <th>${t.files.used}</th>
        `,
        row: (one) => html`<tr key=${one.id}>
          <td class="main">
            <a class="cover line" href=${href(`/apps/${appId.value}/files/${one.id}`)}>
              <${Icon} name="folder" />
              <span class="cut">${plain(one.name, 80)}</span>
            </a>
          </td>
          <td class="soft">
            ${one.has_rules ? html`<${Access} level="" rules />` : worded(t.files.levels, one.read_access)}
          </td>
          <td class="r wide">${count(one.file_count)}</td>
          <td class="wide"><${Used} storage=${one} /></td>
        </tr>`,
      })}
    </div>
    ${creating && html`<${StorageDialog}
      onClose=${() => setCreating(false)}
      done=${(/** @type {any} */ made) => go(`/apps/${appId.value}/files/${made.id}`)}
    />`}
  </div>`;
}

/** @param {{storage: Api.Storage}} props */
export function Used({ storage }) {
  const share = storage.quota_bytes ? storage.used_bytes / storage.quota_bytes : 0;
  return html`<div class="used">
    <span class="num s12">
      ${size(storage.used_bytes)}
      ${" "}${storage.quota_bytes && html`<span class="soft">${t.files.of(size(storage.quota_bytes))}</span>`}
    </span>
    ${storage.quota_bytes && html`<div class=${`meter ${share > 0.9 ? "warn" : ""}`}>
      <span ref=${(/** @type {HTMLElement | null} */ bar) =>
        bar && (bar.style.width = `${Math.min(100, share * 100)}%`)}></span>
    </div>`}
  </div>`;
}

/** @param {{known?: any, onClose: () => void, done: (storage: Api.Storage) => void}} props */
export function StorageDialog({ known, onClose, done }) {
  const [name, setName] = useState(known?.name || "");
  const [access, setAccess] = useState({
    read_access: known?.read_access || "Public",
    upload_access: known?.upload_access || "Secret",
    delete_access: known?.delete_access || "Secret",
    list_access: known?.list_access || "",
  });
  const [types, setTypes] = useState((known?.allowed_mime_types || []).join(", "));
  const [largest, setLargest] = useState(known?.max_file_size ? String(known.max_file_size) : "");
  const levels = Object.entries(t.files.levels);
  const save = async () => {
    const body = {
      name,
      ...access,
      list_access: access.list_access || null,
      allowed_mime_types: types.split(/[\s,]+/).filter(Boolean),
      max_file_size: largest ? Number(largest) : null,
    };
    done(
      await (known
        ? onApp(`/storages/files/${known.id}`, { method: "PATCH", body })
        : onApp("/storages/files", { method: "POST", body })),
    );
    onClose();
  };
  const wrong = (!name.trim() && t.nameFirst) || (largest && !/^\d+$/.test(largest) && t.wholeNumber);
  return html`<${FormDialog}
    title=${known ? t.files.settings : t.files.newStorage} onClose=${onClose} submit=${save}
    action=${known ? t.save : t.files.createStorage} why=${wrong}
  >
    <${TextField} label=${t.name} value=${name} onInput=${setName} maxlength="255" autocomplete="off" />
    ${known?.has_rules && html`<p class="notice"><${Icon} name="info" /><span>${t.files.rulesDecide}</span></p>`}
    <${SelectField}
      label=${t.files.read} value=${access.read_access}
      onInput=${(/** @type {string} */ read_access) => setAccess({ ...access, read_access })} options=${levels}
    />
    <${SelectField}
      label=${t.files.lists} value=${access.list_access} help=${t.files.listsHelp}
      onInput=${(/** @type {string} */ list_access) => setAccess({ ...access, list_access })}
      options=${[["", t.rules.asRead], ...levels]}
    />
    <${SelectField}
      label=${t.files.upload} value=${access.upload_access}
      onInput=${(/** @type {string} */ upload_access) => setAccess({ ...access, upload_access })} options=${levels}
    />
    <${SelectField}
      label=${t.files.delete} value=${access.delete_access}
      onInput=${(/** @type {string} */ delete_access) => setAccess({ ...access, delete_access })} options=${levels}
    />
    <${TextField}
      label=${t.files.types} value=${types} onInput=${setTypes} optional help=${t.files.typesHelp}
      placeholder="image/*, application/pdf" spellcheck="false"
    />
    <${TextField}
      label=${t.files.largest} value=${largest} onInput=${setLargest} optional inputmode="numeric"
      help=${t.files.largestHelp}
    />
  </${FormDialog}>`;
}

/** The token that an access level needs beside the public key. @param {string} level */
const bearerOf = (level) => (level === "Public" ? {} : { bearer: level === "Secret" ? "SECRET_KEY" : "ACCESS_TOKEN" });

/**
 * Its id, and how files of it are listed, read and uploaded.
 * @param {{storage: Api.Storage, base: FilesPath, onClose: () => void}} props
 */
export function HowTo({ storage, base, onClose }) {
  const key = usePublicKey() || "pk_…";
  const own = `/v1/public/storages/files/${storage.id}`;
  // Most rules ask for a member.
  const needed = (/** @type {string} */ level) => bearerOf(storage.has_rules ? "AppMember" : level);
  const read = { key, ...needed(storage.read_access) };
  const calls = [
    { title: t.files.listCall, request: { method: "GET", path: `${own}/items?limit=20`, ...read }, why: "" },
    { title: t.files.readCall, request: { method: "GET", path: `${own}/path/photos/boat.png`, ...read }, why: "" },
    {
      title: t.files.uploadCall,
      request: {
        method: "POST",
        path: `${own}/presigned-url`,
        key,
        ...needed(storage.upload_access),
        written: uploadPrograms(base + own, key, needed(storage.upload_access).bearer),
      },
      why: "",
    },
  ];
  return html`<${Dialog} class="broad" title=${t.files.howToTitle} onClose=${onClose}>
    <div class="stacked">
      <${Address} label=${t.files.storageId} text=${storage.id} note=${t.files.uploadNote} />
      <${Calls} base=${base} calls=${calls} />
    </div>
  </${Dialog}>`;
}

/**
 * The three requests of an upload in each language.
 * @param {string} url
 * @param {string} key
 * @param {string | undefined} bearer
 * @returns {Record<string, string>}
 */
function uploadPrograms(url, key, bearer) {
  const shell = bearer ? ` \\\n  -H "Authorization: Bearer $${bearer}"` : "";
  const js = bearer ? `, Authorization: \`Bearer \${${bearer === "SECRET_KEY" ? "secretKey" : "accessToken"}}\`` : "";
  const py = bearer ? `, "Authorization": f"Bearer {${bearer.toLowerCase()}}"` : "";
  return {
    curl: `FILE=boat.png TYPE=image/png
field() { sed 's/.*"'"$1"'":"\\([^"]*\\)".*/\\1/'; }
TICKET=$(curl -sX POST '${url}/presigned-url' \\\n  -H 'X-Public-Key: ${key}'${shell} \\\n  -H 'Content-Type: application/json' \\\n  -d "{\\"file_name\\": \\"$FILE\\", \\"file_size\\": $(wc -c < "$FILE"), \\"mime_type\\": \\"$TYPE\\"}")
curl -so /dev/null -T "$FILE" "$(echo "$TICKET" | field upload_url)" -H "Content-Type: $TYPE"
curl -X POST '${url}/complete-upload' \\\n  -H 'X-Public-Key: ${key}'${shell} \\\n  -H 'Content-Type: application/json' \\\n  -d "{\\"file_id\\": \\"$(echo "$TICKET" | field file_id)\\"}"`,
    javascript: `const headers = { "X-Public-Key": ${JSON.stringify(key)}${js}, "Content-Type": "application/json" };\nconst post = async (path, body) => (await fetch(${JSON.stringify(url)} + path, { method: "POST", headers, body: JSON.stringify(body) })).json();\nconst ticket = await post("/presigned-url", { file_name: file.name, file_size: file.size, mime_type: file.type });\nawait fetch(ticket.upload_url, { method: ticket.method, headers: ticket.headers, body: file });\nconst done = await post("/complete-upload", { file_id: ticket.file_id });`,
    python: `from pathlib import Path\n\nimport requests\n\nurl = ${JSON.stringify(url)}\nheaders = {"X-Public-Key": ${JSON.stringify(key)}${py}}\ndata = Path("boat.png").read_bytes()\nwanted = {"file_name": "boat.png", "file_size": len(data), "mime_type": "image/png"}\nticket = requests.post(f"{url}/presigned-url", headers=headers, json=wanted).json()\nrequests.request(ticket["method"], ticket["upload_url"], headers=ticket["headers"], data=data)\ndone = requests.post(f"{url}/complete-upload", headers=headers, json={"file_id": ticket["file_id"]}).json()`,
  };
}
