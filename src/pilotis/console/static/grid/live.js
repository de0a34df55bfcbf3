/** Rows that stay true while others change them: a stream tells of each change, and what is in view is read again. */
import { useEffect, useState } from "../vendor/view.js";
import { authorization } from "../state/api.js";
import { appId } from "../state/app.js";
import { follow } from "../state/stream.js";

/** What happens meanwhile is shown together. */
const PAUSE_MS = 300;
/** Of a slow table, rows are read less often: the pause is so many times the reading. */
const SHARE = 2;
const NAME = "rows";

/**
 * Follow the changes of a table's rows. `added` rows are new, `elsewhere` so many have changed that are not in view;
 * `isLost` while nothing is told.
 * @param {import("./source.js").Source} source
 * @param {boolean} isOn
 */
export function useLive(source, isOn) {
  const [added, setAdded] = useState(0);
  const [elsewhere, setElsewhere] = useState(0);
  const [isLost, setLost] = useState(false);
  useEffect(() => {
    setAdded(0);
    setElsewhere(0);
    setLost(false);
    if (!isOn) return undefined;
    const abort = new AbortController();
    /** The rows that have changed out of view. @type {Set<string>} */
    const others = new Set();
    /** What was told since the rows were read. @type {Map<string, string>} */
    let told = new Map();
    let isDue = false;
    let isWhole = !source.query.search;
    let pause = PAUSE_MS;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const inView = () => new Set(source.inView().flatMap(([, rows]) => rows.map((row) => row.id)));
    const soon = () => {
      isDue = true;
      // A hidden tab reads once it is shown.
      if (!document.hidden) timer ??= setTimeout(read, pause);
    };
    const read = async () => {
      const [began, before, since] = [performance.now(), inView(), told];
      isDue = false;
      told = new Map();
      // Without an answer, the rows stay as they are until the next one.
      const more = await source.refresh().catch(() => null);
      timer = undefined;
      if (abort.signal.aborted) return;
      pause = Math.max(PAUSE_MS, SHARE * (performance.now() - began));
      if (more === null) {
        told = new Map([...since, ...told]);
        return soon();
      }
      const after = inView();
      for (const [id, type] of since)
        if (isWhole && type !== "create" && !before.has(id) && !after.has(id)) others.add(id);
      setElsewhere(others.size);
      setAdded((old) => old + more);
      if (isDue) soon();
    };
    const take = (/** @type {import("../state/stream.js").StreamEvent[]} */ events) => {
      for (const { type, data } of events) {
        if (type === "change") told.set(data.row.id, told.get(data.row.id) === "create" ? "create" : data.type);
        if (type === "change" || type === "reset" || (type === "ready" && !data.resumed)) soon();
      }
    };
    const listen = (/** @type {unknown} */ where) =>
      follow(
        "/v1/public/realtime",
        abort.signal,
        take,
        (state, error) => {
          setLost(state !== "open");
          // Not every filter can be listened to: then every change of the table is a reason to read.
          if (error && where) {
            isWhole = false;
            listen(undefined);
          }
        },
        "",
        {
          body: {
            subscriptions: [{ id: NAME, table_id: source.tableId, fields: [], ...(where ? { where } : {}) }],
          },
          headers: () => authorization(appId.peek()),
        },
      );
    const shown = () => isDue && soon();
    document.addEventListener("visibilitychange", shown);
    listen(source.query.search ? undefined : source.query.where);
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [source, isOn]);
  return { added, elsewhere, isLost, seen: () => setAdded(0) };
}
