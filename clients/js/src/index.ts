import { channels } from "./channels.ts";
import { ApiError, isApiError } from "./errors.ts";
import { files } from "./files.ts";
import { Http, path } from "./http.ts";
import { live } from "./lists.ts";
import { Stream } from "./live.ts";
import { members } from "./members.ts";
import { rows } from "./rows.ts";
import { memoryStorage, Sessions } from "./session.ts";
import type { Client, ClientOptions, Increment } from "./types.ts";
import { write } from "./writes.ts";

export { ApiError, isApiError, memoryStorage };
declare const VERSION: string;
export const version = VERSION;

export function inc(by: number): Increment {
  return { $inc: by };
}

export function createClient(options: ClientOptions): Client {
  const http = new Http(options);
  const sessions = new Sessions(http, options.storage);
  if (!options.secretKey) http.tokens = sessions;
  const stream = new Stream(http, sessions);
  return Object.freeze({
    members: members(http, sessions),
    rows: (table: string) => rows(http, (listed, listener) => live(stream, listed, listener), table),
    channel: channels(stream),
    table: (table: string) => http.json("GET", path`/v1/public/tables/${table}`),
    tables: async () => (await http.json("GET", "/v1/public/tables")).tables,
    transaction: (collect, given) => write(http, "transactions", collect, given),
    batch: (collect, given) => write(http, "batch", collect, given),
    view: async (name, params = {}, given = {}) =>
      (await http.json("POST", path`/v1/public/views/${name}`, { ...given, body: { params }, reads: true })).data,
    files: (storage: string) => files(http, sessions.storage, storage),
    functions: {
      async invoke(name, payload = {}, given = {}) {
        const body = { payload };
        const done = await http.json("POST", path`/v1/public/functions/${name}/invoke`, { ...given, body });
        if (done.success) return done.result;
        throw new ApiError(200, "FUNCTION_ERROR", done.error ?? `The function is ${done.status}.`, done);
      },
    },
    authSettings: () => http.json("GET", "/v1/public/auth-settings"),
    stats: () => http.json("GET", "/v1/public/stats"),
    request: (method, address, given) => http.json(method, address, { ...given, isCallers: true }),
    get serverVersion() {
      return http.serverVersion;
    },
  } satisfies Client);
}
