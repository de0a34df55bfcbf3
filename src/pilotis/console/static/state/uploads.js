/**
 * Uploads: small files by the three steps, large ones by tus in pieces, so that a reload or a lost connection resumes
 * them. They go on while other screens are open.
 */
import { signal } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { ApiError, request } from "./api.js";
import { store } from "./app.js";

/**
 * @typedef {{key: number, app: string, storage: string, file: File, path: string, parent: string | null, sent: number,
 *   speed: number, state: "waiting" | "sending" | "paused" | "done" | "failed", message: string, again: boolean}}
 *   Upload
 */

const LARGE = 8 * 1024 * 1024;
const TOGETHER = 2;
const SHOWN = 8000;
const TUS = { "Tus-Resumable": "1.0.0" };

export const uploads = signal(/** @type {Upload[]} */ ([]));
/** Grows with each file that has arrived. */
export const arrived = signal(0);

/** @type {Map<number, AbortController>} */
const running = new Map();
let keys = 0;

/** @param {number} key @param {Partial<Upload>} part */
const change = (key, part) =>
  (uploads.value = uploads.value.map((one) => (one.key === key ? { ...one, ...part } : one)));

/** @param {string} app @param {string} storage @param {{file: File, parent: string | null, path: string}[]} files */
export function upload(app, storage, files) {
  uploads.value = [
    ...uploads.value,
    ...files.map(({ file, parent, path }) => ({
      key: ++keys,
      app,
      storage,
      file,
      parent,
      path,
      sent: 0,
      speed: 0,
      state: /** @type {"waiting"} */ ("waiting"),
      message: "",
      again: false,
    })),
  ];
  next();
}

/** @param {number} key */
export function pause(key) {
  change(key, { state: "paused", speed: 0 });
  running.get(key)?.abort();
}

/** @param {number} key */
export function resume(key) {
  change(key, { state: "waiting", message: "" });
  next();
}

/** @param {number} key */
export function cancel(key) {
  const one = uploads.value.find((upload) => upload.key === key);
  running.get(key)?.abort();
  uploads.value = uploads.value.filter((upload) => upload.key !== key);
  const known = one && remembered(one);
  if (one && known && one.state !== "done") {
    forget(one);
    fetch(known.url, { method: "DELETE", headers: TUS }).catch(() => {});
  }
}

/** Take what is over out of the list. */
export const clear = () => (uploads.value = uploads.value.filter((one) => one.state !== "done"));

addEventListener("beforeunload", (event) => {
  if (uploads.value.some((one) => one.state === "sending" || one.state === "waiting")) event.preventDefault();
});

function next() {
  for (const one of uploads.value) {
    if (running.size >= TOGETHER) return;
    if (one.state === "waiting" && !running.has(one.key)) run(one);
  }
}

/** @param {Upload} one */
async function run(one) {
  const abort = new AbortController();
  running.set(one.key, abort);
  change(one.key, { state: "sending" });
  try {
    await (one.file.size > LARGE ? inPieces(one, abort.signal) : atOnce(one, abort.signal));
    change(one.key, { state: "done", sent: one.file.size, speed: 0 });
    arrived.value++;
  } catch (error) {
    if (!abort.signal.aborted)
      change(one.key, { state: "failed", speed: 0, message: /** @type {Error} */ (error).message || t.unreachable });
  } finally {
    running.delete(one.key);
    next();
    if (uploads.value.every((upload) => upload.state === "done"))
      setTimeout(() => uploads.value.every((upload) => upload.state === "done") && clear(), SHOWN);
  }
}

/** @param {Upload} one @param {string} path @param {import("./api.js").Options} options */
const ofStorage = (one, path, options) =>
  request(`/v1/public/storages/files/${one.storage}${path}`, { ...options, app: one.app });

/** @param {Upload} one @param {AbortSignal} abort */
async function atOnce(one, abort) {
  const body = {
    file_name: one.file.name,
    file_size: one.file.size,
    mime_type: one.file.type || "application/octet-stream",
    ...(one.parent ? { parent_id: one.parent } : {}),
  };
  const permit = await ofStorage(one, "/presigned-url", { method: "POST", body, signal: abort });
  await send(one, permit.method, permit.upload_url, permit.headers, one.file, 0, abort);
  await ofStorage(one, "/complete-upload", { method: "POST", body: { file_id: permit.file_id }, signal: abort });
}

/** @param {Upload} one */
const nameOf = (one) =>
  `pilotis.upload.${one.storage}.${one.parent || ""}.${one.file.name}.${one.file.size}.${one.file.lastModified}`;

/** What an earlier visit noted of the same file. @param {Upload} one @returns {{url: string, id: string} | null} */
function remembered(one) {
  try {
    return JSON.parse(localStorage.getItem(nameOf(one)) || "null");
  } catch {
    return null;
  }
}

/** @param {Upload} one */
const forget = (one) => localStorage.removeItem(nameOf(one));

/** @param {string} text */
const base64 = (text) => btoa(String.fromCodePoint(...new TextEncoder().encode(text)));

/** Upload by tus 1.0.0, from where it was interrupted. @param {Upload} one @param {AbortSignal} abort */
async function inPieces(one, abort) {
  let known = remembered(one);
  let offset = 0;
  if (known) {
    const head = await fetch(known.url, { method: "HEAD", headers: TUS, signal: abort });
    if (head.ok) offset = Number(head.headers.get("Upload-Offset")) || 0;
    else known = null;
  }
  if (!known) {
    const metadata = [
      `filename ${base64(one.file.name)}`,
      `filetype ${base64(one.file.type || "application/octet-stream")}`,
      ...(one.parent ? [`parent_id ${base64(one.parent)}`] : []),
    ].join(",");
    const permit = await ofStorage(one, "/tus", {
      method: "POST",
      headers: { ...TUS, "Upload-Length": String(one.file.size), "Upload-Metadata": metadata },
      signal: abort,
    });
    known = { url: permit.upload_url, id: permit.file_id };
    store(nameOf(one), JSON.stringify(known));
  }
  while (offset < one.file.size) {
    const piece = one.file.slice(offset, offset + LARGE);
    await send(
      one,
      "PATCH",
      known.url,
      { ...TUS, "Content-Type": "application/offset+octet-stream", "Upload-Offset": String(offset) },
      piece,
      offset,
      abort,
    );
    offset += piece.size;
  }
  await ofStorage(one, "/complete-upload", { method: "POST", body: { file_id: known.id }, signal: abort });
  forget(one);
}

/**
 * Send bytes and tell how far they are: `fetch` cannot say.
 * @param {Upload} one
 * @param {string} method
 * @param {string} url
 * @param {Record<string, string>} headers
 * @param {Blob} body
 * @param {number} before
 * @param {AbortSignal} abort
 * @returns {Promise<void>}
 */
function send(one, method, url, headers, body, before, abort) {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    const begun = performance.now();
    sending.open(method, url);
    for (const [name, value] of Object.entries(headers)) sending.setRequestHeader(name, value);
    sending.upload.onprogress = (event) =>
      change(one.key, {
        sent: before + event.loaded,
        speed: event.loaded / Math.max(0.001, (performance.now() - begun) / 1000),
      });
    sending.onload = () => (sending.status < 400 ? resolve() : reject(refusal(sending)));
    sending.onerror = () => reject(new ApiError(0, { message: t.unreachable }));
    sending.onabort = () => reject(new DOMException("", "AbortError"));
    abort.addEventListener("abort", () => sending.abort());
    sending.send(body);
  });
}

/** @param {XMLHttpRequest} sending */
function refusal(sending) {
  try {
    return new ApiError(sending.status, JSON.parse(sending.responseText));
  } catch {
    return new ApiError(sending.status, { message: t.failed });
  }
}
