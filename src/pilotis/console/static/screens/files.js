/** What is in a file storage. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, denied, ofApp, onApp, opened, store } from "../state/app.js";
import { change, href, place } from "../state/router.js";
import { arrived, upload } from "../state/uploads.js";
import { ago, plain, size } from "../ui/format.js";
import { dropped } from "../ui/dropped.js";
import { Icon } from "../ui/icons.js";
import { MemberName } from "../ui/member.js";
import { SearchBox, searched } from "../ui/search.js";
import { ListPager } from "../ui/listing.js";
import { foot } from "../ui/shell.js";
import { Tray } from "../ui/tray.js";
import { Bones, Button, Confirm, Empty, Failure, Segments, complain, toast, useLoad, useTitle } from "../ui/widgets.js";
import { StorageRules } from "./rules.js";
import { HowTo, StorageDialog, Storages, Used } from "./storages.js";
import { FolderDialog, MoveDialog, RenameDialog, folderAt, folderOf } from "./file-dialogs.js";
import { FilePanel, Thumb } from "./file-panel.js";

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
