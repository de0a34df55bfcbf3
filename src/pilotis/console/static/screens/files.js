/** The file storages of an app, and what is in one of them. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, ofApp, onApp, opened, store } from "../state/app.js";
import { change, go, href, place } from "../state/router.js";
import { arrived, upload } from "../state/uploads.js";
import { ago, count, moment, plain, size } from "../ui/format.js";
import { dropped } from "../ui/dropped.js";
import { Icon } from "../ui/icons.js";
import { MemberLink, MemberName } from "../ui/member.js";
import { SearchBox, searched } from "../ui/search.js";
import { Access } from "../ui/access.js";
import { Address, Calls, usePublicKey } from "../ui/calls.js";
import { ListPager, listing } from "../ui/listing.js";
import { foot } from "../ui/shell.js";
import { Tray } from "../ui/tray.js";
import {
  Bones,
  Button,
  Confirm,
  Copy,
  Dialog,
  Empty,
  Failure,
  Field,
  FormDialog,
  MenuButton,
  MenuItem,
  Segments,
  SelectField,
  TextField,
  complain,
  toast,
  useInView,
  useLoad,
  useTitle,
} from "../ui/widgets.js";
import { StorageRules } from "./rules.js";

// Uploads go on while another screen is shown.
foot.value = Tray;

/** @param {Record<string, string>} params */
export function head(params) {
  if (!params.storage) return { title: t.sectionNames.files };
  return {
    title: plain(opened.value, 80) || t.files.one,
    crumbs: [{ text: t.sectionNames.files, href: href(`/apps/${appId.value}/files`) }],
  };
}

const PAGE = 100;
const why = () => denied("editor");

/** @param {{storage?: string, config: Api.ConsoleConfig}} props */
export function Screen({ storage, config }) {
  return storage ? html`<${Storage} key=${storage} id=${storage} config=${config} />` : html`<${Storages} />`;
}

function Storages() {
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
function Used({ storage }) {
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
function StorageDialog({ known, onClose, done }) {
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
function HowTo({ storage, base, onClose }) {
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

/** @param {{id: string, config: Api.ConsoleConfig}} props */
function Storage({ id, config }) {
  const query = place.value.query;
  const path = query.get("path") || "";
  const offset = Number(query.get("offset")) || 0;
  const chosen = query.get("file") || "";
  const base = /** @type {const} */ (`/v1/public/storages/files/${id}`);
  const [tiles, setTiles] = useState(localStorage.getItem("pilotis.tiles") === "1");
  const [dialog, setDialog] = useState(/** @type {any} */ (query.has("settings") ? { settings: true } : null));
  const [over, setOver] = useState(false);
  const picker = useRef(/** @type {HTMLInputElement | null} */ (null));
  const storage = useLoad((signal) => onApp(`/storages/files/${id}`, { signal }), [id, arrived.value]);
  useTitle(storage.data?.name);
  const search = searched();
  const by = query.get("by") || "";
  const items = useLoad(
    async (signal) => {
      const folder = await folderAt(base, path, signal);
      // A search looks through the whole storage, and so does the list of a member's files.
      return {
        folder,
        ...(await ofApp(`${base}/items`, {
          query: {
            ...(by ? { created_by: by, search } : search ? { search } : { parent_id: folder || "root" }),
            limit: PAGE,
            offset,
          },
          signal,
        })),
      };
    },
    [base, path, search, by, offset],
  );
  // What is dropped before the list has arrived belongs into this folder all the same.
  const here = async () => (items.data ? items.data.folder : folderAt(base, path));
  useEffect(() => {
    if (arrived.value) items.reload();
  }, [arrived.value]);
  const opened = items.data;
  const known = opened?.files.find((one) => one.id === chosen);
  const add = async (/** @type {{file: File, folders: string[]}[]} */ files) => {
    try {
      /** @type {Map<string, string | null>} */
      const made = new Map([["", await here()]]);
      for (const { folders } of files)
        for (let depth = 1; depth <= folders.length; depth++) {
          const name = folders.slice(0, depth).join("/");
          if (!made.has(name))
            made.set(
              name,
              await folderOf(
                base,
                folders[depth - 1],
                made.get(folders.slice(0, depth - 1).join("/")) || null,
                [path, name].filter(Boolean).join("/"),
              ),
            );
        }
      upload(
        appId.value,
        id,
        files.map(({ file, folders }) => ({
          file,
          parent: made.get(folders.join("/")) || null,
          path: [...folders, file.name].join("/"),
        })),
      );
    } catch (error) {
      complain(error);
    }
  };
  const drop = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    setOver(false);
    if (!why() && event.dataTransfer)
      dropped(event.dataTransfer).then(add, () => toast(t.files.unreadable, { kind: "bad" }));
  };
  const enter = (/** @type {any} */ one) =>
    change(
      one.type === "folder"
        ? { path: one.path, search: null, by: null, offset: null, file: null }
        : { file: one.id === chosen ? null : one.id },
    );
  const relocate = async (/** @type {any} */ item, /** @type {{name?: string, parent_id?: string | null}} */ body) => {
    const moved = await onApp(`/storages/files/${id}/items/${item.id}`, { method: "PATCH", body });
    toast(t.files.movedTo(moved.path));
    setDialog(null);
    if (item.type === "folder") change({ path: moved.path }, { replace: true });
    else items.reload();
  };
  // Until it is known who may read the storage, no file of it is asked for; after an upload it is as it was.
  const access = useRef(/** @type {{id: string, isPublic?: boolean}} */ ({ id }));
  if (storage.data) access.current = { id, isPublic: storage.data.read_access === "Public" && !storage.data.has_rules };
  const isPublic = access.current.id === id ? access.current.isPublic : undefined;
  const parts = path ? path.split("/") : [];
  if (query.get("view") === "rules" && storage.data) {
    const back = html`<${Button} kind="flat small" icon="left" onClick=${() => change({ view: null })}>
      ${t.sectionNames.files}
    </${Button}>`;
    return html`<${StorageRules} storage=${storage.data} tabs=${back} after=${storage.reload} />`;
  }
  return html`<div
    class="data" onDragOver=${(/** @type {Event} */ event) => (event.preventDefault(), setOver(true))}
    onDragLeave=${(/** @type {DragEvent} */ event) => event.currentTarget === event.target && setOver(false)}
    onDrop=${drop}
  >
    <div class="strip tabstrip">
      <nav class="line crumbs" aria-label=${t.files.folder}>
        ${parts.length
          ? html`<button
              type="button" class="plainlink" onClick=${() => change({ path: null, offset: null, file: null })}
            >
              ${t.files.top}
            </button>`
          : html`<span>${t.files.top}</span>`}
        ${parts.map(
          (part, index) => html`
            <span class="sep">/</span>
            ${index === parts.length - 1
              ? html`<span class="cut">${plain(part, 60)}</span>`
              : html`<button
                  type="button" class="plainlink"
                  onClick=${() => change({ path: parts.slice(0, index + 1).join("/"), offset: null, file: null })}
                >
                  ${plain(part, 60)}
                </button>`}
          `,
        )}
      </nav>
      <${Button} kind="flat small" icon="code" class="wide" onClick=${() => setDialog({ api: true })}>
        ${t.files.howTo}
      </${Button}>
      <${Button} kind="flat small" icon="lock" class="wide" onClick=${() => change({ view: "rules" })}>
        ${t.files.rules.tab}
      </${Button}>
      <${Button} kind="flat small" icon="gear" class="wide" why=${why()} onClick=${() => setDialog({ settings: true })}>
        ${t.sectionNames.settings}
      </${Button}>
      <${Button} kind="flat small" icon="folder" why=${why()} onClick=${() => setDialog({ folder: true })}>
        ${t.files.newFolder}
      </${Button}>
      <${Button} kind="go small" icon="out" why=${why()} onClick=${() => picker.current?.click()}>
        ${t.files.uploadFiles}
      </${Button}>
      <input
        ref=${picker} type="file" multiple hidden
        onChange=${(/** @type {any} */ event) => (
          add([...event.target.files].map((file) => ({ file, folders: [] }))),
          (event.target.value = "")
        )}
      />
    </div>
    <div class="strip filters">
      <${Segments}
        label=${t.files.view} value=${tiles ? "tiles" : "list"}
        onChange=${(/** @type {string} */ value) => (
          setTiles(value === "tiles"),
          store("pilotis.tiles", value === "tiles" ? "1" : "")
        )}
        options=${[
          ["list", t.files.list],
          ["tiles", t.files.tiles],
        ]}
      />
      <${SearchBox} label=${t.files.find} room />
      ${by && html`<span class="chip">
        <b>${t.grid.creator}</b>
        <span class="cut"><${MemberName} id=${by} /></span>
        <button type="button" aria-label=${t.removeFilter} onClick=${() => change({ by: null, offset: null })}>
          <${Icon} name="cross" />
        </button>
      </span>`}
      <span class="grow"></span>
      ${storage.data && html`<${Used} storage=${storage.data} />`}
    </div>
    <div class=${`split ${chosen ? "opened" : ""}`}>
      <div class=${`listbox ${over ? "over" : ""}`}>
        <div class="scroll">
          ${items.error
            ? html`<${Failure} error=${items.error} retry=${items.reload} />`
            : !items.data
              ? html`<${Bones} rows=${8} />`
              : !items.data.files.length && (search || by)
                ? html`<${Empty} title=${t.files.noneFound} text=${t.files.noneFoundText}>
                    <${Button} onClick=${() => change({ search: null, by: null, offset: null })}>
                      ${t.clearFilters}
                    </${Button}>
                  </${Empty}>`
                : !items.data.files.length
                  ? html`<${Empty} title=${t.files.empty} text=${t.files.emptyText}>
                      <${Button} icon="out" why=${why()} onClick=${() => picker.current?.click()}>
                        ${t.files.uploadFiles}
                      </${Button}>
                    </${Empty}>`
                  : tiles
                    ? html`<ul class="tilesgrid">
                        ${items.data.files.map(
                          (one) => html`<li key=${one.id}>
                            <button
                              type="button" class=${one.id === chosen ? "on" : ""}
                              aria-pressed=${one.id === chosen ? "true" : "false"} onClick=${() => enter(one)}
                            >
                              <span class="thumb">
                                <${Thumb} item=${one} base=${base} isPublic=${isPublic} side=${192} />
                              </span>
                              <span class="cut">${plain(one.name, 60)}</span>
                            </button>
                          </li>`,
                        )}
                      </ul>`
                    : html`<table class="list">
                        <thead>
                          <tr>
                            <th>${t.name}</th>
                            <th>${t.tables.type}</th>
                            <th class="r">${t.tables.size}</th>
                            <th>${t.tables.changed}</th>
                          </tr>
                        </thead>
                        <tbody>
                          ${items.data.files.map(
                            (one) => html`<tr key=${one.id} class=${one.id === chosen ? "on" : ""}>
                              <td class=${`main ${one.id === chosen ? "upright" : ""}`}>
                                <button type="button" class="coverbutton line" onClick=${() => enter(one)}>
                                  <span class="thumb small">
                                    <${Thumb} item=${one} base=${base} isPublic=${isPublic} side=${96} />
                                  </span>
                                  <span class="cut">${search ? plain(one.path, 200) : plain(one.name, 100)}</span>
                                </button>
                              </td>
                              <td class="soft wide">
                                ${one.type === "folder" ? t.files.folder : plain(one.mime_type, 60)}
                              </td>
                              <td class="r">${one.type === "file" ? size(one.size) : ""}</td>
                              <td class="soft wide" title=${one.updated_at}>${ago(one.updated_at)}</td>
                            </tr>`,
                          )}
                        </tbody>
                      </table>`}
        </div>
        <${ListPager} offset=${offset} limit=${PAGE} total=${items.data?.total_count} />
        ${path && !search && !chosen && opened && html`<div class="strip pager">
          <${Button}
            kind="flat small" icon="edit" why=${why()}
            onClick=${() => setDialog({ rename: { id: opened.folder, name: parts[parts.length - 1], type: "folder" } })}
          >
            ${t.files.rename}
          </${Button}>
          <${Button}
            kind="flat small" icon="folder" why=${why()}
            onClick=${() =>
              setDialog({ move: { id: opened.folder, name: parts[parts.length - 1], type: "folder", path } })}
          >
            ${t.files.move}
          </${Button}>
          <span class="grow"></span>
          <${Button}
            kind="flat small bad" icon="trash" why=${why()}
            onClick=${() => setDialog({ remove: { id: opened.folder, name: parts[parts.length - 1], type: "folder" } })}
          >
            ${t.files.deleteFolder}
          </${Button}>
        </div>`}
      </div>
      ${known && isPublic !== undefined && html`<${FilePanel}
        key=${known.id} file=${known} base=${base} isPublic=${isPublic} onDelete=${() => setDialog({ remove: known })}
        onRename=${() => setDialog({ rename: known })} onMove=${() => setDialog({ move: known })}
        onReplaced=${items.reload}
      />`}
    </div>
    ${dialog?.api && storage.data && html`<${HowTo}
      storage=${storage.data} base=${config.base_url} onClose=${() => setDialog(null)}
    />`}
    ${dialog?.settings && storage.data && html`<${StorageDialog}
      known=${storage.data} onClose=${() => setDialog(null)} done=${storage.set}
    />`}
    ${dialog?.folder && html`<${FolderDialog}
      save=${async (/** @type {string} */ name) => {
        const parent = await here();
        return ofApp(`${base}/folders`, { method: "POST", body: { name, ...(parent ? { parent_id: parent } : {}) } });
      }}
      onClose=${() => (setDialog(null), items.reload())}
    />`}
    ${dialog?.rename && html`<${RenameDialog}
      item=${dialog.rename} onClose=${() => setDialog(null)}
      save=${(/** @type {string} */ name) => relocate(dialog.rename, { name })}
    />`}
    ${dialog?.move && html`<${MoveDialog}
      item=${dialog.move} base=${base} from=${items.data?.folder || null} onClose=${() => setDialog(null)}
      save=${(/** @type {string | null} */ parent_id) => relocate(dialog.move, { parent_id })}
    />`}
    ${dialog?.remove && html`<${Confirm}
      title=${t.files.deleteTitle(plain(dialog.remove.name, 60))}
      text=${dialog.remove.type === "folder" ? t.files.deleteFolderText : t.files.deleteText} action=${t.grid.delete}
      name=${dialog.remove.type === "folder" ? dialog.remove.name : undefined} onClose=${() => setDialog(null)}
      run=${async () => (
        await ofApp(`${base}/items/${dialog.remove.id}`, {
          method: "DELETE",
          query: { recursive: dialog.remove.type === "folder" || "" },
        }),
        toast(t.files.deleted(dialog.remove.name)),
        dialog.remove.type === "folder"
          ? change({ path: parts.slice(0, -1).join("/") || null }, { replace: true })
          : (change({ file: null }, { replace: true }), items.reload()),
        storage.reload()
      )}
    />`}
  </div>`;
}

/**
 * The id of the folder at a path; null at the top.
 * @param {FilesPath} base @param {string} path @param {AbortSignal} [signal] @returns {Promise<string | null>}
 */
const folderAt = async (base, path, signal) =>
  path ? (await ofApp(`${base}/path/${path.split("/").map(encodeURIComponent).join("/")}`, { signal })).id : null;

/**
 * The id of a folder, which is made if it is not there.
 * @param {FilesPath} base
 * @param {string} name
 * @param {string | null} parent
 * @param {string} path
 * @returns {Promise<string>}
 */
async function folderOf(base, name, parent, path) {
  try {
    return (
      await ofApp(`${base}/folders`, { method: "POST", body: { name, ...(parent ? { parent_id: parent } : {}) } })
    ).id;
  } catch (error) {
    if (/** @type {any} */ (error).code !== "PATH_TAKEN") throw error;
    return (await ofApp(`${base}/path/${path.split("/").map(encodeURIComponent).join("/")}`)).id;
  }
}

/** @param {{save: (name: string) => Promise<unknown>, onClose: () => void}} props */
function FolderDialog({ save, onClose }) {
  const [name, setName] = useState("");
  return html`<${FormDialog}
    title=${t.files.newFolder} action=${t.files.createFolder} onClose=${onClose}
    submit=${async () => (await save(name), onClose())} why=${!name.trim() && t.nameFirst}
  >
    <${TextField} label=${t.name} value=${name} onInput=${setName} maxlength="255" autocomplete="off" />
  </${FormDialog}>`;
}

/**
 * @param {{item: Api.FileItem | Api.FolderItem, save: (name: string) => Promise<unknown>, onClose: () => void}} props
 */
function RenameDialog({ item, save, onClose }) {
  const [name, setName] = useState(item.name);
  return html`<${FormDialog}
    title=${t.files.renameTitle(plain(item.name, 60))} action=${t.files.rename} onClose=${onClose}
    submit=${() => save(name)} why=${(!name.trim() && t.nameFirst) || (name === item.name && t.unchanged)}
  >
    <${TextField}
      label=${t.name} value=${name} onInput=${setName} maxlength="255" autocomplete="off" spellcheck="false"
      help=${item.type === "folder" ? t.files.renameFolderHelp : t.files.renameHelp}
    />
  </${FormDialog}>`;
}

/**
 * Walks through the folders to where an item shall be.
 * @param {{item: Api.FileItem | Api.FolderItem, base: FilesPath, from: string | null, save: (parent: string | null) =>
 *   Promise<unknown>, onClose: () =>
 *   void}} props
 */
function MoveDialog({ item, base, from, save, onClose }) {
  const [at, setAt] = useState(/** @type {{id: string | null, name: string}[]} */ ([{ id: null, name: t.files.top }]));
  const here = at[at.length - 1];
  const { data, error, reload } = useLoad(
    (signal) => ofApp(`${base}/items`, { query: { parent_id: here.id || "root", limit: PAGE }, signal }),
    [base, here.id],
  );
  const folders = (data?.files || []).filter((one) => one.type === "folder" && one.id !== item.id);
  const present =
    item.type === "folder"
      ? item.path.split("/").length === at.length && here.id === null && !item.path.includes("/")
      : here.id === from;
  return html`<${FormDialog}
    title=${t.files.moveTitle(plain(item.name, 60))} action=${t.files.moveHere} onClose=${onClose}
    submit=${() => save(here.id)} why=${present && t.files.alreadyHere}
  >
    <nav class="line crumbs" aria-label=${t.files.folder}>
      ${at.map(
        (one, index) => html`
          ${index > 0 && html`<span class="sep">/</span>`}
          <button type="button" class="plainlink" onClick=${() => setAt(at.slice(0, index + 1))}>
            ${plain(one.name, 40)}
          </button>
        `,
      )}
    </nav>
    ${error
      ? html`<${Failure} error=${error} retry=${reload} />`
      : !data
        ? html`<${Bones} rows=${3} columns=${1} />`
        : folders.length
          ? html`<ul class="folders">
              ${folders.map(
                (one) => html`<li key=${one.id}>
                  <button type="button" class="item" onClick=${() => setAt([...at, one])}>
                    <${Icon} name="folder" />
                    <span class="cut grow">${plain(one.name, 80)}</span>
                    <${Icon} name="right" />
                  </button>
                </li>`,
              )}
            </ul>`
          : html`<p class="soft s13">${t.files.noFolders}</p>`}
  </${FormDialog}>`;
}

const iconOf = (/** @type {any} */ item) =>
  item.type === "folder" ? "folder" : item.mime_type.startsWith("image/") ? "image" : "file";
const isImage = (/** @type {any} */ item) =>
  item.type === "file" && /^image\/(png|jpeg|webp|gif|avif)$/.test(item.mime_type);

/**
 * The URL under which this page may show a file: a signed one where the storage is not public.
 * @param {any} file
 * @param {FilesPath} base
 * @param {boolean} isPublic
 */
async function shownUrl(file, base, isPublic) {
  return isPublic
    ? file.url
    : (await ofApp(`${base}/items/${file.id}/signed-url`, { method: "POST", body: { expires_seconds: 3600 } })).url;
}

/** @param {string} url @param {Record<string, string | number>} query */
function variant(url, query) {
  const address = new URL(url);
  for (const [name, value] of Object.entries(query)) if (value) address.searchParams.set(name, String(value));
  return String(address);
}

/**
 * A small picture of an image once it is in view; else the icon of its kind.
 * @param {{item: any, base: FilesPath, isPublic: boolean | undefined, side: number}} props
 */
function Thumb({ item, base, isPublic, side }) {
  const [url, setUrl] = useState("");
  const [holder, seen] = useInView();
  useEffect(() => {
    if (seen && isImage(item) && isPublic !== undefined)
      shownUrl(item, base, isPublic).then(
        (shown) => setUrl(variant(shown, { width: side, height: side, format: "webp" })),
        () => {},
      );
  }, [seen, item.id, item.version, isPublic]);
  return html`<span ref=${holder}>
    ${url
      ? html`<img src=${url} alt="" loading="lazy" onError=${() => setUrl("")} />`
      : html`<${Icon} name=${iconOf(item)} />`}
  </span>`;
}

/**
 * Put another content in the place of a file: its id and its links stay.
 * @param {any} file
 * @param {FilesPath} base
 * @param {File} content
 */
async function replaceContent(file, base, content) {
  const path = file.path.split("/").map(encodeURIComponent).join("/");
  const body = {
    file_name: file.name,
    file_size: content.size,
    mime_type: content.type || file.mime_type,
    overwrite: true,
  };
  const ticket = await ofApp(`${base}/presigned-url/path/${path}`, { method: "POST", body });
  const sent = await fetch(ticket.upload_url, { method: ticket.method, headers: ticket.headers, body: content });
  if (!sent.ok) throw Object.assign(new Error((await sent.json().catch(() => ({}))).message || t.failed));
  return ofApp(`${base}/complete-upload`, { method: "POST", body: { file_id: ticket.file_id } });
}

/**
 * @param {{file: any, base: FilesPath, isPublic: boolean, onDelete: () => void, onRename: () => void, onMove: () =>
 *   void,
 *   onReplaced: () => void}} props
 */
function FilePanel({ file, base, isPublic, onDelete, onRename, onMove, onReplaced }) {
  const picker = useRef(/** @type {HTMLInputElement | null} */ (null));
  const replace = async (/** @type {File | undefined} */ content) => {
    if (!content) return;
    try {
      await replaceContent(file, base, content);
      toast(t.files.replaced(file.name));
      onReplaced();
    } catch (error) {
      complain(error);
    }
  };
  const [url, setUrl] = useState("");
  const [text, setText] = useState("");
  // The content of a file need not be what its type says.
  const [broken, setBroken] = useState(false);
  const [hours, setHours] = useState("1");
  const [signed, setSigned] = useState(/** @type {any} */ (null));
  const [shape, setShape] = useState({ width: "400", height: "", fit: "cover", format: "webp", quality: "" });
  const pictured = isImage(file) && !broken;
  useEffect(() => {
    setBroken(false);
    shownUrl(file, base, isPublic).then(setUrl, complain);
  }, [file.id, file.version]);
  const isText = /^(text\/|application\/(json|xml|javascript))/.test(file.mime_type) && file.size <= 200_000;
  useEffect(() => {
    setText("");
    if (url && isText)
      fetch(url, { cache: "no-cache" })
        .then((answer) => answer.text())
        .then(setText, () => {});
  }, [url, file.version, isText]);
  const sign = async () => {
    try {
      setSigned(
        await ofApp(`${base}/items/${file.id}/signed-url`, {
          method: "POST",
          body: { expires_seconds: Number(hours) * 3600 },
        }),
      );
    } catch (error) {
      complain(error);
    }
  };
  const shaped = url && variant(url, shape);
  const media = file.mime_type.split("/")[0];
  return html`<aside class="panel" aria-label=${file.name}>
    <header>
      <b class="cut grow">${plain(file.name, 60)}</b>
      <${Button} kind="flat small" icon="cross" label=${t.close} onClick=${() => change({ file: null })} />
    </header>
    <div class="preview">
      ${!url
        ? null
        : pictured
          ? html`<img
              src=${variant(url, { width: 640, height: 480, fit: "contain", format: "webp" })} alt=${file.name}
              onError=${() => setBroken(true)}
            />`
          : media === "audio"
            ? html`<audio controls src=${url}></audio>`
            : media === "video"
              ? html`<video controls src=${url}></video>`
              : text
                ? html`<pre class="code" tabindex="0">${text.slice(0, 20000)}</pre>`
                : html`<${Icon} name=${iconOf(file)} />${broken && html`<p class="s12 soft">${t.files.noPicture}</p>`}`}
    </div>
    <dl class="facts-list">
      <div><dt>${t.tables.type}</dt><dd class="cut">${plain(file.mime_type, 80)}</dd></div>
      <div><dt>${t.tables.size}</dt><dd>${size(file.size)}</dd></div>
      <div><dt>${t.files.version}</dt><dd>${file.version}</dd></div>
      ${file.created_by && html`<div><dt>${t.grid.creator}</dt><dd><${MemberLink} id=${file.created_by} /></dd></div>`}
      <div><dt>${t.tables.changed}</dt><dd>${moment(file.updated_at)}</dd></div>
      <div><dt>URL</dt><dd><code class="cut">${file.url}</code><${Copy} text=${file.url} /></dd></div>
      ${file.sha256 && html`<div>
        <dt>SHA-256</dt>
        <dd><code class="cut">${file.sha256}</code><${Copy} text=${file.sha256} /></dd>
      </div>`}
    </dl>
    ${!isPublic && html`<section class="wellbox">
      <h3>${t.files.signed}</h3>
      <div class="line">
        <select
          class="in small" aria-label=${t.files.lifetime} value=${hours}
          onChange=${(/** @type {Typed} */ event) => setHours(event.target.value)}
        >
          ${["1", "24", "168"].map(
            (one) => html`<option value=${one} selected=${one === hours}>${t.files.hours(Number(one))}</option>`,
          )}
        </select>
        <${Button} kind="small" icon="link" why=${why()} onClick=${sign}>${t.files.createLink}</${Button}>
      </div>
      ${signed && html`
        <div class="secret"><code class="cut">${signed.url}</code><${Copy} text=${signed.url} label=${t.copy} /></div>
        <p class="s12 soft">${t.files.until(moment(signed.expires_at))}</p>
      `}
    </section>`}
    ${pictured && html`<section class="wellbox">
      <h3>${t.files.variants}</h3>
      <div class="shape">
        ${["width", "height", "quality"].map(
          (name) => html`<${Field} label=${name}>
            ${(/** @type {Bind} */ bind) => html`<input
              class="in small" inputmode="numeric" value=${/** @type {any} */ (shape)[name]}
              onInput=${(/** @type {Typed} */ event) =>
                setShape({ ...shape, [name]: event.target.value.replace(/\D/g, "") })}
              ...${bind}
            />`}
          </${Field}>`,
        )}
        <${SelectField}
          label="fit" value=${shape.fit} onInput=${(/** @type {string} */ fit) => setShape({ ...shape, fit })}
          options=${["cover", "contain", "fill"].map((one) => [one, one])}
        />
        <${SelectField}
          label="format" value=${shape.format}
          onInput=${(/** @type {string} */ format) => setShape({ ...shape, format })}
          options=${["auto", "webp", "avif", "jpeg", "png"].map((one) => [one, one])}
        />
      </div>
      <div class="line">
        <code class="cut grow">${shaped && variant(file.url, shape)}</code>
        <${Copy} text=${variant(file.url, shape)} />
        <${Button} kind="flat small" href=${shaped} target="_blank" rel="noopener noreferrer">
          ${t.files.open}
        </${Button}>
      </div>
    </section>`}
    <footer>
      ${url && html`<${Button} kind="small" icon="in" href=${url} target="_blank" rel="noopener noreferrer">
        ${t.files.download}
      </${Button}>`}
      <${MenuButton}
        label=${t.files.actions}
        button=${(/** @type {Bind} */ bind) => html`<${Button}
          kind="small" icon="more" label=${t.files.actions} ...${bind}
        />`}
      >
        ${(/** @type {() => void} */ close) => html`
          <${MenuItem} icon="edit" why=${why()} onClick=${() => (close(), onRename())}>${t.files.rename}</${MenuItem}>
          <${MenuItem} icon="folder" why=${why()} onClick=${() => (close(), onMove())}>${t.files.move}</${MenuItem}>
          <${MenuItem} icon="out" why=${why()} onClick=${() => (close(), picker.current?.click())}>
            ${t.files.replace}
          </${MenuItem}>
        `}
      </${MenuButton}>
      <input
        ref=${picker} type="file" hidden
        onChange=${(/** @type {any} */ event) => (replace(event.target.files[0]), (event.target.value = ""))}
      />
      <span class="grow"></span>
      <${Button} kind="flat small bad" why=${why()} onClick=${onDelete}>${t.grid.delete}</${Button}>
    </footer>
  </aside>`;
}
