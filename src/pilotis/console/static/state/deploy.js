/** Deploying a site from the browser: a zip archive as it is, a folder by the files that changed. */
import { t } from "../strings/index.js";
import { onApp } from "./app.js";

/** @typedef {{file: File, path: string}} SiteFile */
/** @typedef {{stage: "reading" | "sending" | "finishing", done: number, total: number}} Progress */

const CONCURRENT_UPLOADS = 4;
const WAIT_MILLISECONDS = 300;

/**
 * The files of a dropped folder by their path in the site: the folder that holds all of them is left out.
 * @param {{file: File, folders: string[]}[]} found
 * @returns {SiteFile[]}
 */
export function siteFiles(found) {
  const files = found.filter(
    ({ file, folders }) => ![...folders, file.name].some((part) => part.startsWith(".") && part !== ".well-known"),
  );
  const [first] = files[0]?.folders || [];
  const inOne = first !== undefined && files.every(({ folders }) => folders[0] === first);
  return files.map(({ file, folders }) => ({
    file,
    path: [...(inOne ? folders.slice(1) : folders), file.name].join("/"),
  }));
}

/** Whether what was chosen is one zip archive. @param {{file: File, folders: string[]}[]} found */
export const isZip = (found) => found.length === 1 && !found[0].folders.length && /\.zip$/i.test(found[0].file.name);

/**
 * Deploy a zip archive, and return the deployment once it is ready.
 * @param {string} base
 * @param {File} file
 * @param {string} target
 * @param {string} message
 * @param {(progress: Progress) => void} tell
 */
export async function deployZip(base, file, target, message, tell) {
  const form = new FormData();
  form.append("file", file);
  if (message) form.append("message", message);
  tell({ stage: "sending", done: 0, total: file.size });
  const answer = await onApp(`${base}/deploy`, { method: "POST", query: { target }, raw: form });
  return finished(base, answer.deployment, tell);
}

/**
 * Deploy a folder: files that the newest deployment has already are not sent again. Raises an error where the browser
 * cannot tell them apart.
 * @param {string} base
 * @param {SiteFile[]} files
 * @param {string} target
 * @param {string} message
 * @param {(progress: Progress) => void} tell
 */
export async function deployFolder(base, files, target, message, tell) {
  if (!crypto.subtle) throw new Error(t.sites.noHashes);
  const known = await onApp(`${base}/deploy/manifest`);
  const hashes = new Map(known.files.map((/** @type {any} */ one) => [one.path, one.hash]));
  /** @type {Map<string, File>} */
  const contents = new Map();
  const upserts = [];
  for (const [index, { file, path }] of files.entries()) {
    tell({ stage: "reading", done: index, total: files.length });
    const hash = hex(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
    contents.set(hash, file);
    if (hashes.get(path) !== hash)
      upserts.push({ path, hash, size: file.size, ...(file.type ? { content_type: file.type } : {}) });
    hashes.delete(path);
  }
  const body = {
    base_deployment_id: known.deployment_id,
    upserts,
    deletes: [...hashes.keys()],
    ...(target ? { target } : {}),
    ...(message ? { message } : {}),
  };
  for (;;) {
    const answer = await onApp(`${base}/deploy/incremental`, { method: "POST", body });
    if (answer.deployment) return finished(base, answer.deployment, tell);
    await sendAll(answer.missing, contents, tell);
  }
}

/** @param {any[]} missing @param {Map<string, File>} contents @param {(progress: Progress) => void} tell */
async function sendAll(missing, contents, tell) {
  const waiting = [...missing];
  let done = 0;
  const work = async () => {
    for (let one = waiting.pop(); one; one = waiting.pop()) {
      tell({ stage: "sending", done, total: missing.length });
      const answer = await fetch(one.upload_url, {
        method: one.method,
        headers: one.headers,
        body: contents.get(one.hash),
      });
      if (!answer.ok) throw new Error(t.sites.notSent(one.path));
      done++;
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_UPLOADS }, work));
}

/** @param {string} base @param {any} deployment @param {(progress: Progress) => void} tell @returns {Promise<any>} */
async function finished(base, deployment, tell) {
  let current = deployment;
  while (current.status === "processing") {
    tell({ stage: "finishing", done: 0, total: 0 });
    await new Promise((resolve) => setTimeout(resolve, WAIT_MILLISECONDS));
    current = await onApp(`${base}/deployments/${current.id}`);
  }
  if (current.status === "failed")
    throw Object.assign(new Error(current.error?.message || t.failed), {
      code: current.error?.code,
      details: current.error?.details,
    });
  return current;
}

/** @param {ArrayBuffer} bytes */
const hex = (bytes) => [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
