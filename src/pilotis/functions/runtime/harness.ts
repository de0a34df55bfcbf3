// Runs one function inside a sandbox. Frames: see frames.py; standard input and output are one socket to the server.
// It imports no Node modules: they would cost 6 MB in each prestarted sandbox and at least 20 ms at each start.
// deno-lint-ignore-file no-explicit-any

const MAX_RESULT = 6 * 1024 * 1024, MAX_LOG = 64 * 1024, MAX_LINES = 1000, MAX_LINE = 10000;
// In Base64 it fits into a frame.
const MAX_BODY = 5 * 1024 * 1024;
const TABLE = "{table}";
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

function noLive(): never {
  throw new ApiError(0, "NOT_SUPPORTED", "Functions have no live lists: a call ends.");
}

// <client> The builder of queries is that of `clients/js`, whose `npm run serve` writes it here.
"use strict";var client=(()=>{var __defProp=Object.defineProperty;var __getOwnPropDesc=Object.getOwnPropertyDescriptor;var __getOwnPropNames=Object.getOwnPropertyNames;var __hasOwnProp=Object.prototype.hasOwnProperty;var __export=(target,all)=>{for(var name in all)__defProp(target,name,{get:all[name],enumerable:!0})},__copyProps=(to,from,except,desc)=>{if(from&&typeof from=="object"||typeof from=="function")for(let key of __getOwnPropNames(from))!__hasOwnProp.call(to,key)&&key!==except&&__defProp(to,key,{get:()=>from[key],enumerable:!(desc=__getOwnPropDesc(from,key))||desc.enumerable});return to};var __toCommonJS=mod=>__copyProps(__defProp({},"__esModule",{value:!0}),mod);var inside_exports={};__export(inside_exports,{rows:()=>rows,write:()=>write});function path(strings,...values){let text=strings[0];for(let index=0;index<values.length;index++)text+=encodeURIComponent(values[index])+strings[index+1];return text}var DATA="/v1/public/tables/",MAX_PAGE=1e3,Question=class _Question{#http;#live;#table;#data;#asked;constructor(http,live,table,asked){this.#http=http,this.#live=live,this.#table=table,this.#data=DATA+path`${table}/data`,this.#asked=asked}#with(more){return new _Question(this.#http,this.#live,this.#table,{...this.#asked,...more})}where(condition){let before=this.#asked.where;return this.#with({where:before?{$and:[before,condition]}:condition})}orderBy(column,direction="asc",options={}){let key={column,direction,...options.ignoreCase?{ignore_case:!0}:{}};return this.#with({order_by:[...this.#asked.order_by??[],key]})}limit(limit){return this.#with({limit})}offset(offset){return this.#with({offset})}fields(...fields){return this.#with({fields})}expand(...related){let named=related.filter(one=>typeof one=="string");if(named.length===related.length)return this.#with({expand:named});let all=related.map(one=>typeof one=="string"?{[one]:{}}:one);return this.#with({expand:Object.assign({},...all)})}counts(counts){return this.#with({counts})}toJSON(){return{table:this.#table,...this.#asked}}async#page(more,options){let body={...this.#asked,...more},found=await this.#http.json("POST",`${this.#data}/query`,{...call(options),body,reads:!0});return{rows:found.data,total:found.total_count,cursor:found.next_cursor??null}}run(options){return this.#page({},options)}page(options={}){return this.#page({cursor:options.cursor??"first"},options)}async first(options){return(await this.#page({limit:1,count:!1},options)).rows[0]??null}async count(options){let{where}=this.#asked,body={where,limit:0};return(await this.#http.json("POST",`${this.#data}/query`,{...call(options),body,reads:!0})).total_count}async update(data,options={}){let{where}=this.#asked,body={data,...where?{where}:{all:!0},max_rows:options.maxRows};return(await this.#http.json("POST",`${this.#data}/update-where`,{...call(options),body})).updated_count}async delete(options){let body={where:this.#asked.where??{}};return(await this.#http.json("POST",`${this.#data}/delete-where`,{...call(options),body})).deleted_count}live(listener){let{where,order_by,limit,offset,fields,expand,counts}=this.#asked,isNear=!expand||Array.isArray(expand)&&expand.length<=3&&!expand.some(name=>name.includes(".")),isPlain=!offset&&!counts&&isNear&&!order_by?.some(({column})=>column.includes(".")),shown=isPlain?{fields,order_by,expand}:{fields},listed={subscription:{table_id:this.#table,where,...shown},limit,isPlain,read:(most,signal)=>this.#page({limit:most,with_sort:isPlain&&!!order_by},{signal})};return this.#live(listed,listener)}then(done,failed){return this.run().then(done,failed)}async*[Symbol.asyncIterator](){let left=this.#asked.limit??1/0,cursor="first";for(;cursor&&left>0;){let page=await this.#page({cursor,limit:Math.min(left,MAX_PAGE/5)});yield*page.rows,left-=page.rows.length,cursor=page.cursor}}};function call(options){return options&&{signal:options.signal,timeout:options.timeout}}function reading(options){return options&&{...call(options),query:{fields:options.fields?.join(","),expand:options.expand?.join(",")}}}function ofRow(given){let listener=typeof given=="function"?{row:given}:given;return{...listener,rows:([row])=>listener.row?.(row??null)}}function rows(http,live,table){let data=DATA+path`${table}/data`,byId=row=>`${data}/${encodeURIComponent(typeof row=="string"?row:row.id)}`,query=asked=>new Question(http,live,table,asked),change=(path2,changes,options,expected_updated_at)=>http.json("PATCH",path2,{...call(options),body:{data:changes,expected_updated_at}}),ask=(route,body,options)=>http.json("POST",`/v1/public/${route}`,{...call(options),body:{table_id:table,...body},reads:!0}),paged=found=>({rows:found.data,total:found.total_count,cursor:found.next_cursor??null});return{all:()=>query({}),where:condition=>query({where:condition}),live:(first,listener)=>typeof first=="string"?query({where:{id:first},limit:1}).live(ofRow(listener)):query({}).live(first),get:(id,options)=>http.json("GET",byId(id),reading(options)),create:(row,options)=>http.json("POST",data,{...call(options),body:{data:row}}),async createMany(many,options){let{created,failed=[]}=await http.json("POST",`${data}/bulk`,{...call(options),body:{data:many}});return{created,failed}},update:(row,changes,options)=>change(byId(row),changes,options,typeof row=="string"?void 0:row.updated_at),upsert:(key,row,options)=>http.json("POST",`${data}/upsert`,{...call(options),body:{key,data:row,mode:options?.mode}}),async delete(row,options){await http.json("DELETE",byId(row),call(options))},by(key,...values){let place=`${data}/by/`+[key,...values].map(part=>encodeURIComponent(part)).join("/");return{get:options=>http.json("GET",place,reading(options)),update:(changes,options)=>change(place,changes,options),async delete(options){await http.json("DELETE",place,call(options))}}},aggregate:async(pipeline,options)=>(await ask("aggregate",{pipeline},options)).data,search:async(query2,{signal,timeout,...rest}={})=>paged(await ask("search",{query:query2,...rest},{signal,timeout})),autocomplete:async(query2,field,{signal,timeout,...rest}={})=>(await ask("autocomplete",{query:query2,field,...rest},{signal,timeout})).suggestions,geo:async(field,place,{signal,timeout,...rest}={})=>paged(await ask("geo",{field,...place,...rest},{signal,timeout}))}}async function write(http,route,collect,options={}){let operations=[],add=(table_id,operation)=>({$ref:operations.push({table_id,...operation})-1}),rowOf=row=>typeof row=="string"?{doc_id:row}:"$ref"in row?{doc_id:{$ref:row.$ref}}:{doc_id:row.id,expected_updated_at:row.updated_at};collect({create:(table,data)=>add(table,{type:"create",data}),update:(table,row,data)=>add(table,{type:"update",...rowOf(row),data}),upsert:(table,key,data,mode)=>add(table,{type:"upsert",key,data,mode}),delete:(table,row)=>void add(table,{type:"delete",doc_id:rowOf(row).doc_id})});let{signal,timeout}=options;return(await http.json("POST",`/v1/public/${route}`,{signal,timeout,body:{operations}})).results}return __toCommonJS(inside_exports);})();
// </client>
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
  // What the client asks of a table, whose title the server looks up.
  const sender = (table?: string) => ({
    json: (method: string, path: string, sent: any = {}) => {
      const { body } = sent, values = Object.entries(sent.query ?? {}).filter(([, value]) => value !== undefined);
      if (body?.table_id === TABLE) body.table_id = table;
      return json(method, path.replace("%7Btable%7D", TABLE) + query(Object.fromEntries(values)), body, table);
    },
  });
  const part = encodeURIComponent, parts = (path: string) => path.split("/").map(part).join("/");
  return Object.freeze({
    fetch,
    rows: (table: string) => {
      const data = "/v1/public/tables/{table}/data";
      return Object.freeze({
        ...client.rows(sender(table), noLive, TABLE),
        list: (values?: any) => json("GET", data + query(values), undefined, table),
        delete: (row: any) => json("DELETE", `${data}/${part(row.id ?? row)}`, undefined, table),
        query: (request: any = {}) => json("POST", `${data}/query`, request, table),
      });
    },
    transaction: (collect: any) => client.write(sender(), "transactions", collect),
    batch: (collect: any) => client.write(sender(), "batch", collect),
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
