// Runs one function inside a sandbox. Frames: see frames.py; standard input and output are one socket to the server.
// It imports no Node modules: they would cost 6 MB in each prestarted sandbox and at least 20 ms at each start.
// deno-lint-ignore-file no-explicit-any

const MAX_RESULT = 6 * 1024 * 1024, MAX_LOG = 64 * 1024, MAX_LINES = 1000, MAX_LINE = 10000;
// In Base64 it fits into a frame.
const MAX_BODY = 5 * 1024 * 1024;
let APP = "/tmp/app/";
const encoder = new TextEncoder(), decoder = new TextDecoder();
// Saved before user code runs, so that a patched prototype corrupts only the frames of its own function.
const { stringify, parse } = JSON, fromBase64 = (Uint8Array as any).fromBase64;
const input = Deno.stdin, output = Deno.stdout, inspect = Deno.inspect;

function send(message: unknown) {
  sendText(stringify(message));
}

function sendText(text: string) {
  const frame = encoder.encode("\0\0\0\0" + text);
  new DataView(frame.buffer).setUint32(0, frame.length - 4);
  for (let n = 0; n < frame.length;) n += output.writeSync(frame.subarray(n));
}

let current = 0, logged = 0, lines = 0, dropped = 0;

function log(level: string, parts: unknown[]) {
  const text = parts.map((part) => typeof part === "string" ? part : inspect(part)).join(" ").slice(0, MAX_LINE);
  if (lines >= MAX_LINES || logged + text.length > MAX_LOG) {
    dropped++;
    return;
  }
  lines++;
  logged += text.length;
  send({ t: "log", id: current, level, message: text });
}

const levels = { debug: "debug", log: "info", info: "info", warn: "warn", error: "error", trace: "debug" } as const;
for (const [name, level] of Object.entries(levels)) (console as any)[name] = (...parts: unknown[]) => log(level, parts);
const logger = Object.freeze(Object.fromEntries(
  ["debug", "info", "warn", "error"].map((level) => [level, (...parts: unknown[]) => log(level, parts)]),
));
// Standard output goes to the log, not between the frames.
for (const [name, level] of [["stdout", "info"], ["stderr", "error"]]) {
  const write = (bytes: Uint8Array) => (log(level, [decoder.decode(bytes).trimEnd()]), bytes.length);
  const stream = { write: (bytes: Uint8Array) => Promise.resolve(write(bytes)), writeSync: write, isTerminal: () => false };
  Object.defineProperty(Deno, name, { value: stream });
}
Object.defineProperty(Deno, "stdin", { value: { read: () => Promise.resolve(null), readSync: () => null } });

class ApiError extends Error {
  status: number;
  code: string;
  constructor(status: number, code: string, message: string) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
  }
}
(globalThis as any).ApiError = ApiError;

const waiting = new Map<number, (reply: any) => void>();
let calls = 0;

function base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return btoa(text);
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return fromBase64(text);
}

function ask(frame: any): Promise<any> {
  const number = ++calls;
  return new Promise((resolve) => {
    waiting.set(number, resolve);
    send({ ...frame, call: number });
  });
}

function required(reply: any): Uint8Array<ArrayBuffer> {
  const answer = bytesOf(reply.body ?? "");
  if (reply.status < 400) return answer;
  const error = answer.length ? parse(decoder.decode(answer)) : null;
  throw new ApiError(reply.status, error?.code ?? "ERROR", error?.message ?? "");
}

function apiOf(id: number, caller: boolean, member?: string) {
  function call(method: string, path: string, headers: any, body: Uint8Array | null, table?: string): Promise<any> {
    if (body && body.length > MAX_BODY) {
      return Promise.reject(new ApiError(413, "PAYLOAD_TOO_LARGE", `A function sends at most ${MAX_BODY} bytes in one request.`));
    }
    return ask({ t: "call", id, caller, member, method, path, headers, table, body: body && base64(body) });
  }
  async function fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const request = new Request("http://pilotis" + path, init);
    const body = init.body == null ? null : new Uint8Array(await request.arrayBuffer());
    const reply = await call(request.method, path, Object.fromEntries(request.headers), body);
    const hasBody = reply.status !== 204 && reply.status !== 304;
    return new Response(hasBody ? bytesOf(reply.body) : null, { status: reply.status, headers: reply.headers });
  }
  async function bytes(method: string, path: string, headers: any, body: Uint8Array | null, table?: string) {
    return required(await call(method, path, headers, body, table));
  }
  async function json(method: string, path: string, body?: unknown, table?: string): Promise<any> {
    const sent = body === undefined ? null : encoder.encode(stringify(body));
    const answer = await bytes(method, path, sent ? { "content-type": "application/json" } : {}, sent, table);
    return answer.length ? parse(decoder.decode(answer)) : null;
  }
  const query = (values: Record<string, any> = {}) => {
    const text = new URLSearchParams(values).toString();
    return text && "?" + text;
  };
  const part = encodeURIComponent, parts = (path: string) => path.split("/").map(part).join("/");
  return Object.freeze({
    fetch,
    rows: (table: string) => {
      const data = "/v1/public/tables/{table}/data";
      return Object.freeze({
        list: (values?: any) => json("GET", data + query(values), undefined, table),
        get: (row: string) => json("GET", `${data}/${part(row)}`, undefined, table),
        create: (row: any) => json("POST", data, { data: row }, table),
        update: (row: string, changes: any) => json("PATCH", `${data}/${part(row)}`, { data: changes }, table),
        delete: (row: string) => json("DELETE", `${data}/${part(row)}`, undefined, table),
        query: (request: any = {}) => json("POST", `${data}/query`, request, table),
      });
    },
    table: (table: string) => json("GET", "/v1/public/tables/{table}", undefined, table),
    view: (name: string, params: any = {}) => json("POST", `/v1/public/views/${part(name)}`, { params }),
    members: Object.freeze({
      list: (values?: any) => json("GET", "/v1/apps/{app}/members" + query(values)),
      get: (member: string) => json("GET", `/v1/apps/{app}/members/${part(member)}`),
      update: (member: string, changes: any) => json("PATCH", `/v1/apps/{app}/members/${part(member)}`, changes),
    }),
    files: (storage: string) => {
      const files = `/v1/public/storages/files/${part(storage)}`;
      return Object.freeze({
        list: (values?: any) => json("GET", `${files}/items${query(values)}`),
        get: (path: string) => json("GET", `${files}/path/${parts(path)}`),
        delete: (file: string) => json("DELETE", `${files}/items/${part(file)}`),
        read: (path: string) => bytes("GET", `/files/${part(storage)}/p/${parts(path)}`, {}, null),
        // A resumable upload whose first request has all the bytes: they pass the server, wherever it stores them.
        write: async (path: string, data: string | Uint8Array | ArrayBuffer, type = "application/octet-stream") => {
          const body = typeof data === "string" ? encoder.encode(data) : new Uint8Array(data);
          const given = Object.entries({ path, filetype: type, overwrite: "true" });
          const upload = await bytes("POST", `${files}/tus`, {
            "tus-resumable": "1.0.0",
            "content-type": "application/offset+octet-stream",
            "upload-length": String(body.length),
            "upload-metadata": given.map(([name, text]) => `${name} ${base64(encoder.encode(text))}`).join(","),
          }, body);
          return json("POST", `${files}/complete-upload`, { file_id: parse(decoder.decode(upload)).file_id });
        },
      });
    },
    functions: Object.freeze({
      invoke: (name: string, payload: any = {}) => json("POST", `/v1/public/functions/${part(name)}/invoke`, { payload }),
    }),
    channel: (name: string) => Object.freeze({
      send: (event: string, payload: any = null) =>
        json("POST", `/v1/public/realtime/channels/${part(name)}/messages`, { event, payload }),
    }),
    workflows: Object.freeze({
      execute: (workflow: string, input: any = {}) =>
        json("POST", `/v1/apps/{app}/workflows/${part(workflow)}/execute`, { input }),
    }),
  });
}

let handler: any, env: Record<string, string> = {};

async function load(message: any) {
  env = Object.freeze({ ...message.env });
  for (const [name, value] of Object.entries(env)) Deno.env.set(name, value);
  if (message.folder) APP = message.folder;
  for (const [name, text] of Object.entries(message.files)) {
    const folder = name.slice(0, name.lastIndexOf("/") + 1);
    Deno.mkdirSync(APP + folder, { recursive: true });
    Deno.writeFileSync(APP + name, bytesOf(text as string));
  }
  const entry = "file://" + APP + message.entry.split("/").map(encodeURIComponent).join("/");
  const module = message.commonjs ? await commonjs(APP + message.entry) : await import(entry);
  handler = module.default ?? module.handler ?? module.main;
  if (typeof handler !== "function" && typeof module === "function") handler = module;
  if (typeof handler !== "function") throw new TypeError("The entry file exports no function named default, handler or main.");
}

async function commonjs(path: string) {
  const { createRequire } = await import("node:module");
  const module: { exports: any } = { exports: {} };
  const source = await Deno.readTextFile(path);
  const run = new Function("module", "exports", "require", "__filename", source + "\n//# sourceURL=file://" + path);
  run(module, module.exports, createRequire("file://" + path), path);
  return module.exports;
}

// The text of what was thrown, whose getters and conversions are the function's own code, and may throw as well.
function textOf(read: () => unknown): string {
  try {
    return String(read());
  } catch {
    return "The thrown value cannot be converted to text.";
  }
}

function failure(error: any) {
  // Deno's advice is to run it with another flag.
  const message = textOf(() => error?.message ?? error).replaceAll("file://" + APP, "")
    .replace(/^Requires net access to (.*), run again .*$/, "The function has no egress, and cannot connect to $1.")
    .replace(/, run again with the --allow-\S+ flag$/, ".")
    .replace(/try running `deno add ([^`\s]+)`/gi, "import it as $1, or list it in package.json")
    .replace(/^Import "([^"]+)" not a dependency$/, 'Import "$1" not a dependency: import it as npm:$1, or list it in package.json');
  const isMemory = isRangeError(error) && /allocation failed|out of memory|could not allocate/i.test(message);
  const stack = textOf(() => error?.stack ?? "").replaceAll("file://" + APP, "").slice(0, 8000);
  return { error: message.slice(0, 2000), code: isMemory ? "MEMORY_EXCEEDED" : "FUNCTION_ERROR", stack };
}

// A proxy's trap runs for `instanceof`.
function isRangeError(error: unknown): boolean {
  try {
    return error instanceof RangeError;
  } catch {
    return false;
  }
}

async function invoke(message: any) {
  const id = message.id;
  current = id;
  logged = lines = dropped = 0;
  let answer: any;
  try {
    const api = apiOf(id, false), asCaller = message.context.hasCaller ? apiOf(id, true) : null;
    const token = async () => parse(decoder.decode(required(await ask({ t: "token", id }))));
    const asMember = (member: unknown) => apiOf(id, false, String(member));
    const context = { ...message.context, env, api, asCaller, asMember, token, log: logger };
    delete context.hasCaller;
    if (context.headers) context.headers = Object.freeze(context.headers);
    answer = ended(await handler(message.payload, context));
  } catch (error) {
    answer = failure(error);
  }
  if (dropped) send({ t: "dropped", id, call: dropped });
  if (typeof answer === "string") sendText(`{"t":"result","id":${id},"ok":true,"result":${answer}}`);
  else send({ t: "result", id, ok: false, ...answer });
}

// The result as JSON text, or the fields of a frame that describe why it is none.
function ended(result: unknown) {
  let text: string | undefined;
  try {
    text = stringify(result);
  } catch (error: any) {
    return { error: "The result cannot be converted to JSON: " + textOf(() => error?.message ?? error).split("\n")[0], code: "RESULT_NOT_JSON" };
  }
  if (text === undefined) return "null";
  // A character has up to three bytes.
  if (text.length * 3 > MAX_RESULT && encoder.encode(text).length > MAX_RESULT) {
    return { error: "The result is larger than 6 MB.", code: "RESULT_TOO_LARGE" };
  }
  return text;
}

let buffer: Uint8Array = new Uint8Array(65536), start = 0, end = 0;

async function receive(): Promise<any> {
  const size = await need(4) && new DataView(buffer.buffer, start).getUint32(0);
  start += 4;
  await need(size);
  const text = decoder.decode(buffer.subarray(start, start + size));
  start += size;
  return parse(text);
}

async function need(size: number): Promise<true> {
  if (buffer.length - start < size) {
    const larger = end - start + size > buffer.length ? new Uint8Array(Math.max(65536, size + 4)) : buffer;
    larger.set(buffer.subarray(start, end));
    buffer = larger, end -= start, start = 0;
  }
  while (end - start < size) {
    const n = await input.read(buffer.subarray(end));
    if (n === null) Deno.exit(0);
    end += n;
  }
  if (start === end) start = end = 0;
  return true;
}

// The first import loads Deno's own parts: now, rather than when a call waits for it.
const first = "/tmp/first.ts";
try {
  Deno.writeTextFileSync(first, "export const n: number = 1;");
  await import("file://" + first);
  Deno.removeSync(first);
} catch { /* Without namespaces there is no /tmp. */ }
send({ t: "ready" });
for (;;) {
  const message = await receive();
  if (message.t === "reply") {
    waiting.get(message.call)?.(message);
    waiting.delete(message.call);
  } else if (message.t === "load") {
    await load(message).then(() => send({ t: "loaded" }), (error) => send({ t: "loaded", ...failure(error) }));
  } else if (message.t === "invoke") {
    invoke(message);
  }
}
