/** Server-sent events (HTML standard, section 9.2), read by `fetch`: `EventSource` could not send the access token. */
import { ApiError, authorization, request } from "./api.js";

/** Without a byte for so long a connection is dead: the server says something every 20 seconds. */
const SILENCE_MS = 50_000;

/** @typedef {{type: string, id: string, data: any}} StreamEvent */
/** @typedef {"open" | "lost" | "ended"} StreamState */

/**
 * How a stream is opened: by a GET, or by a POST with a body, as the signed-in user unless there are other headers.
 * @typedef {{body?: unknown, headers?: () => Promise<Record<string, string>>, decode?: (text: string) => any}} Opening
 */

/**
 * The events in a part of a stream. Returns what is left of it: an event that is not complete.
 * @param {string} text
 * @param {(event: StreamEvent) => void} take
 * @param {(text: string) => any} [decode]
 */
export function parse(text, take, decode = JSON.parse) {
  const blocks = text.split("\n\n");
  const rest = /** @type {string} */ (blocks.pop());
  for (const block of blocks) {
    const event = { type: "message", id: "", data: "" };
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      const said = line.slice(colon + 1).replace(/^ /, "");
      const name = line.slice(0, Math.max(colon, 0));
      if (name === "event" || name === "id") event[name === "id" ? "id" : "type"] = said;
      else if (name === "data") event.data += event.data ? `\n${said}` : said;
    }
    if (event.data) take({ ...event, data: decode(event.data) });
  }
  return rest;
}

/**
 * Follow a stream until `end`, or until `signal` is aborted; a lost connection is opened again where it ended.
 * Events are handed over together, once a frame: a burst of them is one change of the screen.
 * @param {string} path
 * @param {AbortSignal} signal
 * @param {(events: StreamEvent[]) => void} take
 * @param {(state: StreamState, error?: unknown) => void} tell
 * @param {string} [last] the event after which it begins; without one it begins now
 * @param {Opening} [opening]
 */
export async function follow(path, signal, take, tell, last = "", { body, headers = authorization, decode } = {}) {
  /** @type {StreamEvent[]} */
  let waiting = [];
  let isOver = false;
  const hand = () => {
    const events = waiting;
    waiting = [];
    if (!signal.aborted && events.length) take(events);
  };
  // A hidden tab draws no frames.
  const soon = () => (document.hidden ? setTimeout(hand, 250) : requestAnimationFrame(hand));
  /** @param {ReadableStreamDefaultReader<any>} reader */
  const read = (reader) => {
    const silent = setTimeout(() => void reader.cancel().catch(() => {}), SILENCE_MS);
    return reader.read().finally(() => clearTimeout(silent));
  };
  while (!signal.aborted && !isOver) {
    try {
      const answer = await fetch(path, {
        signal,
        method: body ? "POST" : "GET",
        body: body ? JSON.stringify(body) : undefined,
        headers: {
          ...(await headers()),
          Accept: "text/event-stream",
          ...(body ? { "Content-Type": "application/json" } : {}),
          ...(last ? { "Last-Event-ID": last } : {}),
        },
      });
      if (answer.status === 401) await request("/v1/auth/me");
      else if (!answer.ok) throw new ApiError(answer.status, await answer.json().catch(() => ({})));
      if (answer.ok && answer.body) {
        tell("open");
        let rest = "";
        const reader = answer.body.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
        for (let part = await read(reader); !part.done; part = await read(reader))
          rest = parse(
            rest + part.value,
            (event) => {
              if (event.id) last = event.id;
              if (event.type === "end") isOver = true;
              if (waiting.push(event) === 1) soon();
            },
            decode,
          );
      }
    } catch (error) {
      if (signal.aborted) return;
      // Of the stream, or of a request that it needs, such as for another token: what may pass is tried again.
      if (error instanceof ApiError && error.status && error.status < 500 && error.status !== 429)
        return tell("lost", error);
    }
    if (isOver) {
      // Before what is read at the end, which an older event must not replace.
      hand();
      return tell("ended");
    }
    tell("lost");
    await new Promise((resume) => setTimeout(resume, 1000));
  }
}
