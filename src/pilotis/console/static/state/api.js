/**
 * Requests to the JSON interface, and the session they are sent with. The access token lives in this module alone.
 */
/**
 * What is sent with a request by a method.
 * @template {string} [M=string]
 * @typedef {{method?: M, body?: unknown, query?: Record<string, unknown>, app?: string, signal?: AbortSignal,
 *   exact?: boolean, headers?: Record<string, string>, raw?: BodyInit}} Options
 */
import { signal } from "../vendor/view.js";
import { parseExact } from "./exact.js";
import { usePasskey } from "./passkeys.js";

// An answer that takes longer is taken for silence; statements of the server end well before.
const SILENCE_MS = 90000;

/** An answer that is no success, or none at all: then `status` is 0 and `code` UNREACHABLE, or SILENT after a time. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {{code?: string, message?: string, request_id?: string, details?: {field?: string, message?: string}[],
   *   ticket?: string, methods?: string[], factors?: string[], nearest?: string}} body
   */
  constructor(status, body, retryAfter = 0) {
    super(body.message || "");
    this.status = status;
    this.code = body.code || (status ? `HTTP_${status}` : "UNREACHABLE");
    this.requestId = body.request_id || "";
    this.details = body.details || [];
    this.retryAfter = retryAfter;
    this.ticket = body.ticket || "";
    this.methods = body.methods || [];
    this.factors = body.factors || [];
    this.nearest = body.nearest || "";
  }

  /** What the answer says of one field of the request. @param {string} name */
  about(name) {
    return this.details.find((detail) => detail.field === name)?.message;
  }
}

/** Who is signed in: undefined until it is known, null where no user is. */
export const user = signal(
  /** @type {{user_id: string, email: string, may_create_apps: boolean} | null | undefined} */ (undefined),
);
/** Whether a session ended while the user was at work: the sign-in dialog then stands over the screen. */
export const ended = signal(false);
/** What waits until the user has proved again who it is: a dialog then stands over the screen. */
export const doubted = signal(
  /** @type {{methods: string[], proved: Promise<boolean>, resume: (proved: boolean) => void} | null} */ (null),
);
/** Whether the last request was answered. Where not, `watch` asks until one is. */
export const reachable = signal(true);
/** Whether the server has other files than this page: an upgrade. */
export const upgraded = signal(false);

const PROBE_MS = 5000;
const VERSION_MS = 60000;

/**
 * Look from time to time, and whenever the tab is shown, whether the server is there and still the one that sent this
 * page.
 * @param {string} assets
 */
export function watch(assets) {
  let last = Date.now();
  const look = async () => {
    if (document.hidden || Date.now() - last < (reachable.peek() ? VERSION_MS : PROBE_MS) - 100) return;
    last = Date.now();
    const config = await open("/v1/console/config").catch(() => null);
    if (config && config.assets !== assets) upgraded.value = true;
  };
  setInterval(look, PROBE_MS);
  addEventListener("offline", () => (reachable.value = false));
  addEventListener("online", () => ((last = 0), look()));
  document.addEventListener("visibilitychange", () => document.hidden || ((last = 0), look()));
}

let token = "";
let renewAt = 0;
/** @type {Promise<boolean> | null} */
let renewing = null;
/** @type {(() => void)[]} */
let waiting = [];

/**
 * @param {{user_id: string, email: string, access_token: string, expires_in: number, may_create_apps: boolean}} session
 */
function begin(session) {
  token = session.access_token;
  // A minute before it ends, or at half of a short life.
  renewAt = Date.now() + Math.max(session.expires_in - 60, session.expires_in / 2) * 1000;
  user.value = { user_id: session.user_id, email: session.email, may_create_apps: session.may_create_apps };
  ended.value = false;
  const waited = waiting;
  waiting = [];
  waited.forEach((resume) => resume());
}

/** Sign in; raises `ApiError`. @param {string} email @param {string} password @param {boolean} remember */
export async function signIn(email, password, remember) {
  begin(await send("/v1/auth/session", { method: "POST", body: { email, password, remember } }));
}

/**
 * Finish a sign-in that asked for a second factor; raises `ApiError`.
 * @param {string} ticket @param {string} code @param {boolean} remember
 */
export async function finishSignIn(ticket, code, remember) {
  begin(await send("/v1/auth/session/second-factor", { method: "POST", body: { ticket, remember, ...factor(code) } }));
}

/** Let a passkey sign what the server asks for; raises `ApiError`, or what the browser does. */
async function signedByPasskey() {
  const { ticket, options } = await send("/v1/auth/passkey-sign-in/start", { method: "POST" });
  return { ticket, signed: await usePasskey(options) };
}

/** Sign in by a passkey. @param {boolean} remember */
export async function signInByPasskey(remember) {
  const { ticket, signed } = await signedByPasskey();
  begin(await send("/v1/auth/session/passkey", { method: "POST", body: { ticket, credential: signed, remember } }));
}

/** A code of the authenticator app has six digits, one of recovery is longer. @param {string} code */
const factor = (code) =>
  /^\d{6}$/.test(code.replace(/\s/g, "")) ? { totp: code.replace(/\s/g, "") } : { recovery_code: code.trim() };

/**
 * Prove again who the user is, so that the requests that wait for that are sent again; raises `ApiError`.
 * @param {string} proof the password, or a code where the user has a second factor
 */
export async function proveAgain(proof) {
  const waited = doubted.peek();
  const body = waited?.methods.includes("password") ? { password: proof } : factor(proof);
  await send("/v1/auth/reauthenticate", { method: "POST", body });
  doubted.value = null;
  waited?.resume(true);
}

/** Prove again by a passkey who the user is. */
export async function proveByPasskey() {
  const waited = doubted.peek();
  const { ticket, signed } = await signedByPasskey();
  await send("/v1/auth/reauthenticate", { method: "POST", body: { ticket, passkey: signed } });
  doubted.value = null;
  waited?.resume(true);
}

/** Let the requests that wait for a proof fail. */
export function proveNothing() {
  const waited = doubted.peek();
  doubted.value = null;
  waited?.resume(false);
}

/**
 * Send a request that needs no session.
 * @template {string} P @param {P} path @returns {Promise<Api.Answer<"GET", P>>}
 */
export const open = (path) => send(path, {});

/**
 * End the session; raises `ApiError`. Who is signed in is then no longer known, and nothing is shown until a page is
 * loaded.
 */
export async function signOut() {
  await send("/v1/auth/session", { method: "DELETE" }).catch((error) => {
    if (error.status !== 401) throw error;
  });
  token = "";
  user.value = undefined;
}

/**
 * Renew the session by its cookie; false where there is none, which is an empty answer. Tabs and callers share one
 * request.
 */
export function renew() {
  renewing ??= send("/v1/auth/session/refresh", { method: "POST" })
    .then((session) => {
      if (session) begin(session);
      else token = "";
      return Boolean(session);
    })
    .catch((error) => {
      if (error.status !== 401 && error.status !== 403) throw error;
      token = "";
      return false;
    })
    .finally(() => (renewing = null));
  return renewing;
}

/**
 * Send a request as the signed-in user and return its answer; raises `ApiError`. A session that has ended is renewed,
 * or asked for over the screen: the request then waits, so that nothing typed is lost. The path as it is written out
 * gives the type of the answer, with the method.
 * @template {string} P @template {string} [M="GET"] @param {P} path @param {Options<M>} [options]
 * @returns {Promise<Api.Answer<M, P>>}
 */
export async function request(path, options) {
  if (Date.now() > renewAt) await renew();
  for (let attempt = 0; ; attempt++) {
    try {
      return await send(path, options || {});
    } catch (error) {
      if (error instanceof ApiError && error.code === "REAUTHENTICATION_REQUIRED" && attempt <= 2) {
        if (await proved(error.methods)) continue;
        throw error;
      }
      const over =
        error instanceof ApiError && error.status === 401 && ["INVALID_TOKEN", "TOKEN_REQUIRED"].includes(error.code);
      if (!over || attempt > 2) throw error;
      if (attempt || !(await renew())) {
        ended.value = true;
        await new Promise((resume) => waiting.push(() => resume(undefined)));
      }
    }
  }
}

/** Wait until the user has proved again who it is, or does not want to. @param {string[]} methods */
function proved(methods) {
  let waiting = doubted.peek();
  if (!waiting) {
    let resume = (/** @type {boolean} */ _proved) => {};
    const promise = new Promise((/** @type {(proved: boolean) => void} */ resolve) => (resume = resolve));
    doubted.value = waiting = { methods, proved: promise, resume };
  }
  return waiting.proved;
}

/**
 * The headers that authorize a request which is not sent by this module.
 * @param {string} [app]
 * @returns {Promise<Record<string, string>>}
 */
export async function authorization(app) {
  if (Date.now() > renewAt) await renew();
  return { Authorization: `Bearer ${token}`, ...(app ? { "X-App-Id": app } : {}) };
}

/** @param {string} path @param {Options} options @returns {Promise<any>} */
async function send(path, { method = "GET", body, query, app, signal: abort, exact, headers = {}, raw }) {
  /** @type {Response} */
  let answer;
  let text = "";
  const silence = new AbortController();
  const stop = () => silence.abort();
  const timer = setTimeout(stop, SILENCE_MS);
  abort?.addEventListener("abort", stop);
  if (abort?.aborted) stop();
  try {
    answer = await fetch(withQuery(path, query), {
      method,
      signal: silence.signal,
      headers: {
        ...(token ? { Authorization: `Bearer ${token}` } : {}),
        ...(app ? { "X-App-Id": app } : {}),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      body: raw ?? (body === undefined ? undefined : JSON.stringify(body)),
    });
    text = await answer.text();
  } catch (error) {
    if (abort?.aborted) throw error;
    reachable.value = false;
    throw new ApiError(0, silence.signal.aborted ? { code: "SILENT" } : {});
  } finally {
    clearTimeout(timer);
    abort?.removeEventListener("abort", stop);
  }
  reachable.value = true;
  if (!answer.ok) throw new ApiError(answer.status, readError(text), Number(answer.headers.get("Retry-After")) || 0);
  return text && (exact ? parseExact(text) : JSON.parse(text));
}

/** @param {string} text */
function readError(text) {
  try {
    return JSON.parse(text);
  } catch {
    return { message: text.slice(0, 200) };
  }
}

/** @param {string} path @param {Record<string, unknown>} [query] */
function withQuery(path, query) {
  const pairs = Object.entries(query || {}).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  return pairs.length ? `${path}?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}` : path;
}
