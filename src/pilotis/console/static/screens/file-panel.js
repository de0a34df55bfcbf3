/** One file: its picture, its addresses and what can be done with it. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { denied, ofApp } from "../state/app.js";
import { change } from "../state/router.js";
import { moment, plain, size } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { MemberLink } from "../ui/member.js";
import { Button, Copy, Field, MenuButton, MenuItem, SelectField, complain, toast, useInView } from "../ui/widgets.js";

const why = () => denied("editor");

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
export function Thumb({ item, base, isPublic, side }) {
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
export function FilePanel({ file, base, isPublic, onDelete, onRename, onMove, onReplaced }) {
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
