/** A stream that is opened as somebody else, to see what it is told. */
import { html, useEffect, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { authorization } from "../state/api.js";
import { appId, may, onApp, tables } from "../state/app.js";
import { change } from "../state/router.js";
import { parseExact } from "../state/exact.js";
import { follow } from "../state/stream.js";
import { usePublicKey } from "../ui/calls.js";
import { clock, plain } from "../ui/format.js";
import { Button, SelectField, TextAreaField, said, useLoad } from "../ui/widgets.js";

const MEMBERS = 50;
const KEPT = 200;
const NAME = "rows";
const [CONSOLE, PUBLIC] = ["console", "public"];

/** @typedef {{time: string, type: string, kind: string, text: string}} Line */

/** A condition as it is typed: undefined without one, null where it is none. @param {string} text @returns {any} */
function condition(text) {
  try {
    const found = text.trim() ? parseExact(text) : undefined;
    return found === undefined || (found && typeof found === "object" && !Array.isArray(found)) ? found : null;
  } catch {
    return null;
  }
}

/** @param {import("../state/stream.js").StreamEvent} event @returns {Line} */
function lineOf({ type, data }) {
  const row = data.row && (data.row.data ? { id: data.row.id, ...data.row.data } : { id: data.row.id });
  const text = row ? JSON.stringify(row) : data.reason ? [data.reason, data.code].filter(Boolean).join(" ") : "";
  return { time: new Date().toISOString(), type, kind: data.type || type, text };
}

export function Listen() {
  const all = tables.value || [];
  const [table, setTable] = useState("");
  const [where, setWhere] = useState("");
  const [caller, setCaller] = useState(CONSOLE);
  const [listened, setListened] = useState(/** @type {{table: string, where: any, caller: string} | null} */ (null));
  const [lines, setLines] = useState(/** @type {Line[]} */ ([]));
  const [state, setState] = useState(/** @type {{name: string, error?: any}} */ ({ name: "" }));
  const key = usePublicKey();
  const members = useLoad(
    (signal) => onApp("/members", { query: { limit: MEMBERS, is_active: true }, signal }),
    [appId.value],
  );
  const chosen = table || all[0]?.id || "";
  const meant = condition(where);
  useEffect(() => {
    if (!listened) return undefined;
    const abort = new AbortController();
    setLines([]);
    setState({ name: "" });
    /** @returns {Promise<Record<string, string>>} */
    const headers = async () => {
      if (listened.caller === PUBLIC) return { "X-Public-Key": key || "" };
      const own = await authorization(appId.peek());
      return listened.caller === CONSOLE ? own : { ...own, "X-Act-As": listened.caller };
    };
    const body = {
      subscriptions: [{ id: NAME, table_id: listened.table, ...(listened.where ? { where: listened.where } : {}) }],
    };
    follow(
      "/v1/public/realtime",
      abort.signal,
      (events) => setLines((before) => [...events.map(lineOf).reverse(), ...before].slice(0, KEPT)),
      (name, error) => {
        setState({ name, error });
        if (error) setListened(null);
      },
      "",
      { body, headers, decode: parseExact },
    );
    return () => abort.abort();
  }, [listened]);
  const start = () => (setListened({ table: chosen, where: meant, caller }), undefined);
  const why =
    (!chosen && t.live.noTable) || (meant === null && t.rules.notJson) || (caller === PUBLIC && !key && t.live.noKey);
  return html`<aside class="panel" aria-label=${t.live.listen}>
    <header>
      <b class="cut grow">${t.live.listen}</b>
      <${Button}
        kind="flat small" icon="cross" label=${t.close} onClick=${() => change({ listen: null }, { replace: true })}
      />
    </header>
    <form class="form panelform" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), start())}>
      <p class="soft s13">${t.live.listenText}</p>
      <${SelectField}
        label=${t.live.as} value=${caller} onInput=${setCaller}
        options=${[
          [CONSOLE, t.live.console],
          [PUBLIC, t.live.publicKey],
          ...(may("editor") ? members.data?.data || [] : []).map((one) => [
            one.member_id,
            plain(one.nickname || one.login_id || one.member_id, 60),
          ]),
        ]}
        help=${may("editor") ? "" : t.live.asHelp}
      />
      <${SelectField}
        label=${t.live.table} value=${chosen} onInput=${setTable}
        options=${all.map((one) => [one.id, plain(one.title, 60)])}
      />
      <${TextAreaField}
        label=${t.live.where} optional rows=${2} value=${where} onInput=${setWhere} class="in code"
        placeholder='{"state": "open"}' wrong=${meant === null && t.rules.notJson}
      />
      <div class="actions">
        ${listened
          ? html`<${Button} key="stop" icon="stop" onClick=${() => setListened(null)}>${t.live.stop}</${Button}>`
          : html`<${Button} key="start" type="submit" kind="go" icon="activity" why=${why}>${t.live.start}</${Button}>`}
        <span class="line s12 soft" role="status">
          ${listened && state.name === "open" && html`<span class="livedot"></span>${t.live.hearing}`}
          ${listened && state.name === "lost" && t.disconnected}
        </span>
      </div>
      ${state.error && html`<p class="notice bad">${said(state.error)}</p>`}
    </form>
    <ol class="runlog heard" tabindex="0" aria-label=${t.live.heard}>
      ${lines.map(
        (line, index) => html`<li
          key=${lines.length - index} class=${line.type === "reset" || line.type === "bye" ? "warn" : ""}
        >
          <time title=${line.time}>${clock(line.time)}</time>
          <span><b>${line.kind}</b> ${plain(line.text, 2000)}</span>
        </li>`,
      )}
    </ol>
  </aside>`;
}
