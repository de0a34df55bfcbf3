/** Folders of a storage, and the dialogs that make, rename and move. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { ofApp } from "../state/app.js";
import { plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Bones, Failure, FormDialog, TextField, useLoad } from "../ui/widgets.js";

const PAGE = 100;

/**
 * The id of the folder at a path; null at the top.
 * @param {FilesPath} base @param {string} path @param {AbortSignal} [signal] @returns {Promise<string | null>}
 */
export const folderAt = async (base, path, signal) =>
  path ? (await ofApp(`${base}/path/${path.split("/").map(encodeURIComponent).join("/")}`, { signal })).id : null;

/**
 * The id of a folder, which is made if it is not there.
 * @param {FilesPath} base
 * @param {string} name
 * @param {string | null} parent
 * @param {string} path
 * @returns {Promise<string>}
 */
export async function folderOf(base, name, parent, path) {
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
export function FolderDialog({ save, onClose }) {
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
export function RenameDialog({ item, save, onClose }) {
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
export function MoveDialog({ item, base, from, save, onClose }) {
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
