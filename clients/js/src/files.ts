import { ApiError } from "./errors.ts";
import { path, segments, sleep, type Http } from "./http.ts";
import type { FileItem, Files, SessionStorage, UploadOptions } from "./types.ts";

const PART = 8 << 20;
const TRIES = 5;
const TUS = { "Tus-Resumable": "1.0.0" };

/** Where the bytes of an upload go. */
interface Begun {
  file_id: string;
  upload_url: string;
  method: string;
  headers: Record<string, string>;
}

export function files(http: Http, storage: SessionStorage, id: string): Files {
  const base = path`/v1/public/storages/files/${id}`;
  const at = (place: string) => `${base}/path/${segments(place)}`;
  return {
    upload: (content, options = {}) => upload(http, storage, base, blobOf(content, options), options),
    async list({ parent, search, createdBy, limit, offset, ...options } = {}) {
      const query = { parent_id: parent, search, created_by: createdBy, limit, offset };
      const found = await http.json("GET", `${base}/items`, { ...options, query });
      return { files: found.files, total: found.total_count };
    },
    get: (place, options) => http.json("GET", at(place), options),
    async read(place, options) {
      const item = await http.json("GET", at(place), options);
      // A storage that is not public has addresses for a while.
      const { url } = await http.json("POST", base + path`/items/${item.id}/signed-url`, { ...options, body: {} });
      return http.send("GET", url, { ...options, auth: "none", slow: !options?.timeout }, (response) => response.blob());
    },
    createFolder: (name, parent) => http.json("POST", `${base}/folders`, { body: { name, parent_id: parent } }),
    async delete(file, { recursive, ...options } = {}) {
      await http.json("DELETE", base + path`/items/${file}`, { ...options, query: { recursive } });
    },
    signedUrl: (file, seconds) =>
      http.json("POST", base + path`/items/${file}/signed-url`, { body: { expires_seconds: seconds } }),
  };
}

function blobOf(content: Blob | ArrayBuffer | Uint8Array | string, options: UploadOptions): Blob {
  if (content instanceof Blob && (!options.type || content.type === options.type)) return content;
  return new Blob([content as BlobPart], { type: options.type ?? "application/octet-stream" });
}

async function upload(http: Http, storage: SessionStorage, base: string, blob: Blob, options: UploadOptions): Promise<FileItem> {
  const name = options.name ?? (blob as File).name ?? options.path?.split("/").pop() ?? "file";
  const type = blob.type || "application/octet-stream";
  const fileId = await (blob.size > PART ? inParts : whole)(http, base, blob, { ...options, name, type }, storage);
  const { signal, timeout } = options;
  return http.json("POST", `${base}/complete-upload`, { signal, timeout: timeout ?? 120_000, body: { file_id: fileId } });
}

async function whole(http: Http, base: string, blob: Blob, options: UploadOptions): Promise<string> {
  const { path: place, overwrite, parent, signal } = options;
  const told = { file_name: options.name, file_size: blob.size, mime_type: options.type };
  const begun: Begun = place
    ? await http.json("POST", `${base}/presigned-url/path/${segments(place)}`, { signal, body: { ...told, overwrite } })
    : await http.json("POST", `${base}/presigned-url`, { signal, body: { ...told, parent_id: parent } });
  await repeated(options, () => put(http, begun, blob, begun.headers, options, 0, blob.size));
  return begun.file_id;
}

/** A resumable upload (tus 1.0.0), which goes on where an earlier call for the same file ended. */
async function inParts(http: Http, base: string, blob: Blob, options: UploadOptions, storage: SessionStorage): Promise<string> {
  const { path: place, parent, overwrite, signal } = options;
  const same = [base, place ?? parent ?? "", options.name, blob.size, options.type, (blob as File).lastModified ?? ""];
  const key = `pilotis:upload:${same.join(":")}`;
  let begun: Begun | null = JSON.parse((await storage.get(key)) ?? "null");
  let offset = begun && (await offsetOf(http, begun, signal));
  if (!begun || offset === null) {
    const given = Object.entries({ filename: options.name!, filetype: options.type!, path: place, parent_id: parent, overwrite: place && String(!!overwrite) });
    const metadata = given.filter(([, text]) => text).map(([name, text]) => `${name} ${base64(text!)}`);
    const headers = { ...TUS, "Upload-Length": String(blob.size), "Upload-Metadata": metadata.join(",") };
    begun = (await http.json("POST", `${base}/tus`, { signal, headers, reads: true })) as Begun;
    offset = 0;
    await storage.set(key, JSON.stringify(begun));
  }
  const upload = begun;
  let sent = offset!;
  while (sent < blob.size) {
    await repeated(options, async (number) => {
      // Some of a part that failed may have arrived.
      if (number) sent = (await offsetOf(http, upload, signal)) ?? failed("The upload has expired.");
      const end = Math.min(sent + PART, blob.size);
      if (sent < end) await put(http, upload, blob.slice(sent, end), { ...upload.headers, "Upload-Offset": String(sent) }, options, sent, blob.size);
      sent = end;
    });
  }
  await storage.remove(key);
  return upload.file_id;
}

async function offsetOf(http: Http, begun: Begun, signal?: AbortSignal): Promise<number | null> {
  try {
    return (await http.json("GET", begun.upload_url, { signal, headers: TUS, auth: "none" })).offset;
  } catch (error) {
    if (error instanceof ApiError && error.status >= 400 && error.status < 500) return null;
    throw error;
  }
}

/** Repeats a transfer that got no answer. */
async function repeated(options: UploadOptions, transfer: (number: number) => Promise<void>): Promise<void> {
  for (let number = 0; ; number++) {
    try {
      return await transfer(number);
    } catch (error) {
      const passes = error instanceof ApiError && (error.status === 0 || error.status === 409 || error.status === 429 || error.status >= 500);
      if (!passes || number >= TRIES) throw error;
      await sleep(Math.random() * Math.min(5000, 300 * 2 ** number), options.signal ?? new AbortController().signal);
    }
  }
}

/** Sends bytes, and reports the progress where there is an `XMLHttpRequest`, else at the end. */
async function put(
  http: Http,
  { upload_url, method }: Begun,
  blob: Blob,
  headers: Record<string, string>,
  { onProgress, signal }: UploadOptions,
  before: number,
  total: number,
): Promise<void> {
  if (signal?.aborted) throw signal.reason;
  const report = (sent: number) => onProgress?.({ sent: before + sent, total });
  if (onProgress && typeof XMLHttpRequest === "function" && !http.options.fetch) {
    await new Promise<void>((resolve, reject) => {
      const request = new XMLHttpRequest();
      const abort = () => request.abort();
      request.open(method, upload_url);
      for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
      request.upload.onprogress = (event) => report(event.loaded);
      request.onload = () => (request.status < 400 ? resolve() : reject(new ApiError(request.status, "UPLOAD_FAILED", request.responseText)));
      request.onerror = () => reject(new ApiError(0, "NETWORK", `No answer from ${new URL(upload_url).origin}.`));
      request.onabort = () => reject(signal!.reason);
      request.onloadend = () => signal?.removeEventListener("abort", abort);
      signal?.addEventListener("abort", abort);
      request.send(blob);
    });
  } else {
    // As long as it takes: what stalls is ended by the server.
    await http.send(method, upload_url, { raw: blob, headers, auth: "none", signal, timeout: 1e9 });
  }
  report(blob.size);
}

function failed(message: string): never {
  throw new ApiError(0, "UPLOAD_EXPIRED", message);
}

function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
