/** The events that an app stored, newest first; new ones arrive by a stream while the list stands at its top. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, onApp } from "../state/app.js";
import { change, place } from "../state/router.js";
import { follow } from "../state/stream.js";
import { useEventTypes } from "../ui/event-types.js";
import { clock, moment, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Bones, Button, Code, Copy, Empty, Failure, complain } from "../ui/widgets.js";

/**
 * @typedef {{id: string, event_type: string, timestamp: string, subject: string | null, member_id: string | null,
 *   actor: {kind: string}, data: unknown}} AppEvent
 */
/** @typedef {{key: string, data: AppEvent[], next: string | null, error?: unknown}} Listed */

const PAGE = 50;
/** How many events stay in the list while new ones arrive. */
const KEPT = 100;
/** How often the list changes at most: nobody reads faster. */
const DRAW_MILLISECONDS = 250;

/** The newest of both lists, each event once. @param {AppEvent[]} fresh @param {AppEvent[]} old @param {number} max */
function merged(fresh, old, max) {
  const known = new Set(old.map((one) => one.id));
  const added = fresh.filter((one) => !known.has(one.id) && known.add(one.id));
  if (!added.length) return old;
  return [...added, ...old].sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, max);
}

/**
 * The events of a type as they happen. They wait while `holds` says so: what somebody reads does not move.
 * @param {string} type @param {boolean} live @param {{current: boolean}} holds
 */
function useEvents(type, live, holds) {
  const key = `${appId.value} ${type}`;
  const [listed, setListed] = useState(/** @type {Listed | null} */ (null));
  const [waiting, setWaiting] = useState(0);
  const [line, setLine] = useState("");
  const came = useRef(/** @type {AppEvent[]} */ ([]));
  const current = listed?.key === key ? listed : null;
  const release = () => {
    const fresh = came.current;
    came.current = [];
    setWaiting(0);
    if (fresh.length)
      setListed(
        (before) => before && { ...before, data: merged(fresh, before.data, Math.max(KEPT, before.data.length)) },
      );
  };
  /**
   * Read the list again. Resolves to the id of the newest event, empty without one.
   * @param {AbortSignal} signal
   * @returns {Promise<string>}
   */
  const read = (signal) =>
    onApp("/events", { query: { type, limit: PAGE }, signal }).then(
      (page) => (
        setListed((before) =>
          before?.key === key && !before.error
            ? { ...before, data: merged(page.data, before.data, Math.max(KEPT, before.data.length)) }
            : { key, data: page.data, next: page.next_before },
        ),
        page.data[0]?.id || ""
      ),
      (error) => (
        signal.aborted ||
          setListed((before) =>
            before?.key === key && before.data.length ? before : { key, data: [], next: null, error },
          ),
        ""
      ),
    );
  useEffect(() => {
    const abort = new AbortController();
    came.current = [];
    setWaiting(0);
    setLine("");
    const newest = read(abort.signal);
    if (!live) return () => abort.abort();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const draw = () => {
      timer = undefined;
      if (holds.current) setWaiting(came.current.length);
      else release();
    };
    const take = (/** @type {import("../state/stream.js").StreamEvent[]} */ events) => {
      if (events.some((event) => event.type === "reset")) read(abort.signal);
      came.current = merged(
        events.filter((event) => event.type === "event").map((event) => event.data),
        came.current,
        KEPT,
      );
      if (came.current.length) timer ??= setTimeout(draw, DRAW_MILLISECONDS);
    };
    newest.then((last) =>
      follow(
        `/v1/apps/${appId.peek()}/events/stream${type ? `?type=${encodeURIComponent(type)}` : ""}`,
        abort.signal,
        take,
        (state) => {
          setLine(state);
          // Of an empty list the stream continues nothing: what happened between the two is read.
          if (state === "open" && !last) read(abort.signal);
        },
        last,
      ),
    );
    return () => (abort.abort(), clearTimeout(timer));
  }, [key, live]);
  const more = () =>
    onApp("/events", { query: { type, limit: PAGE, before: current?.data.at(-1)?.id } }).then(
      (page) =>
        setListed(
          (before) => before && { ...before, data: merged(page.data, before.data, Infinity), next: page.next_before },
        ),
      complain,
    );
  return { current, waiting, line, release, more, retry: () => (setListed(null), read(new AbortController().signal)) };
}

export function Events() {
  const query = place.value.query;
  const type = query.get("type") || "";
  const open = query.get("event") || "";
  const [live, setLive] = useState(true);
  const [isAway, setAway] = useState(false);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const holds = useRef(false);
  holds.current = isAway || !!open;
  const { current, waiting, line, release, more, retry } = useEvents(type, live, holds);
  const declared = useEventTypes();
  const scrolled = (/** @type {Typed} */ event) => {
    const away = event.target.scrollTop > 24;
    if (away !== isAway) setAway(away);
  };
  useEffect(() => {
    if (!holds.current) release();
  }, [isAway, open]);
  const show = () => {
    if (open) change({ event: null }, { replace: true });
    if (box.current) box.current.scrollTop = 0;
    setAway(false);
    release();
  };
  return html`
    <div class="strip filters" role="toolbar" aria-label=${t.filters}>
      <select
        class="in small" aria-label=${t.webhooks.type} value=${type}
        onChange=${(/** @type {Typed} */ event) => change({ type: event.target.value, event: null })}
      >
        <option value="">${t.webhooks.allTypes}</option>
        ${declared.map((name) => html`<option value=${name} selected=${name === type}>${name}</option>`)}
      </select>
      <span class="grow"></span>
      <span class="line s12 soft" role="status">
        ${!live
          ? ""
          : line === "open"
            ? html`<span class="livedot"></span><span class="wide">${t.webhooks.arriving}</span>`
            : line === "lost"
              ? html`<${Icon} name="warn" />${t.disconnected}`
              : ""}
      </span>
      <label class="check">
        <input
          type="checkbox" checked=${live} onChange=${(/** @type {Typed} */ event) => setLive(event.target.checked)}
        />
        ${t.webhooks.live}
      </label>
    </div>
    <div class="tail">
      <div class="scroll" ref=${box} onScroll=${scrolled}>
        ${current?.error
          ? html`<${Failure} error=${current.error} retry=${retry} />`
          : !current
            ? html`<${Bones} rows=${10} columns=${4} />`
            : !current.data.length
              ? html`<${Empty} title=${t.webhooks.noEvents} text=${t.webhooks.noEventsText} />`
              : html`
                  <table class="list events">
                    <thead>
                      <tr>
                        <th>${t.activity.when}</th>
                        <th>${t.webhooks.type}</th>
                        <th>${t.webhooks.subject}</th>
                        <th>${t.activity.who}</th>
                        <th><span class="sr">${t.details}</span></th>
                      </tr>
                    </thead>
                    <tbody>
                      ${current.data.map((event) =>
                        event.id === open
                          ? html`
                              ${row(event, true)}
                              <tr key=${`${event.id} data`} class="on">
                                <td colspan="5" class="opened">
                                  <${Code}
                                    text=${JSON.stringify(event.data, null, 2).slice(0, 20000)} label=${t.details}
                                  />
                                  <p class="s12 soft line">
                                    ${t.members.id} <code>${event.id}</code>
                                    <${Copy} text=${event.id} />
                                  </p>
                                </td>
                              </tr>
                            `
                          : drawn(event),
                      )}
                    </tbody>
                  </table>
                  ${current.next && html`<p class="pad">
                    <${Button} kind="small" onClick=${more}>${t.more}</${Button}>
                  </p>`}
                `}
      </div>
      ${waiting > 0 && html`<p class="followbox top">
        <${Button} kind="small" icon="up" onClick=${show}>
          ${t.webhooks.newEvents(waiting >= KEPT ? `${KEPT}+` : String(waiting))}
        </${Button}>
      </p>`}
    </div>
  `;
}

/** The time of day for an event of today. @param {string} time */
const when = (time) => (new Date(time).toDateString() === new Date().toDateString() ? clock(time) : moment(time));

/** @param {AppEvent} event @param {boolean} isOpen */
const row = (event, isOpen) => html`<tr key=${event.id} class=${isOpen ? "on" : ""}>
  <td class="soft num fit" title=${event.timestamp}>${when(event.timestamp)}</td>
  <td><code>${plain(event.event_type, 60)}</code></td>
  <td class="wide cut">${event.subject && html`<code class="soft">${plain(event.subject, 60)}</code>`}</td>
  <td class="wide soft">${worded(t.actors, event.actor.kind) || plain(event.actor.kind, 40)}</td>
  <td class="fit">
    <${Button}
      kind="flat small" icon=${isOpen ? "up" : "down"} label=${isOpen ? t.less : t.details}
      aria-expanded=${isOpen ? "true" : "false"}
      onClick=${() => change({ event: isOpen ? null : event.id }, { replace: true })}
    />
  </td>
</tr>`;

/**
 * An event never changes: what was drawn of it once is drawn again without a look at it.
 * @type {WeakMap<AppEvent, any>}
 */
const rows = new WeakMap();

/** @param {AppEvent} event */
function drawn(event) {
  let node = rows.get(event);
  if (!node) rows.set(event, (node = row(event, false)));
  return node;
}
