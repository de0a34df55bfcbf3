/** One function: how it is called, and a tab for each part of it. */
import { html } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, onApp, opened } from "../state/app.js";
import { href, place } from "../state/router.js";
import { plain } from "../ui/format.js";
import { Bones, Code, Failure, Tabs, useLoad, useTitle } from "../ui/widgets.js";
import { Address, Calls, RunAs, useMember, usePublicKey } from "../ui/calls.js";
import { Logs, Metrics } from "./function-use.js";
import { Editor, Versions, payloads } from "./function-code.js";
import { Runs } from "./function-calls.js";
import { Settings, Triggers, Variables } from "./function-settings.js";

export const head = () => ({
  title: plain(opened.value, 60) || t.functions.one,
  crumbs: [{ text: t.sectionNames.functions, href: href(`/apps/${appId.value}/functions`) }],
});

const TABS = ["", "call", "versions", "runs", "logs", "metrics", "variables", "triggers", "settings"];

/** @param {{fn: string, config: Api.ConsoleConfig}} props */
export function Screen({ fn: id, config }) {
  const wanted = place.value.path.split("/")[5] || "";
  const tab = TABS.includes(wanted) ? wanted : "";
  const base = /** @type {const} */ (`/functions/${encodeURIComponent(id)}`);
  const own = `/apps/${appId.value}/functions/${id}`;
  const loaded = useLoad((signal) => onApp(base, { signal }), [appId.value, base]);
  useTitle(loaded.data?.name);
  if (loaded.error)
    return html`<div class="page">
      <div class="slab"><${Failure} error=${loaded.error} retry=${loaded.reload} /></div>
    </div>`;
  const props = { base, fn: loaded.data, reload: loaded.reload, set: loaded.set, config };
  const Tab = /** @type {any} */ ({
    "": Editor,
    call: HowToCall,
    versions: Versions,
    runs: Runs,
    logs: Logs,
    metrics: Metrics,
    variables: Variables,
    triggers: Triggers,
    settings: Settings,
  })[tab];
  return html`<div class="data">
    <div class="strip tabstrip">
      <${Tabs}
        label=${t.functions.one}
        items=${TABS.map((name) => ({
          href: href(name ? `${own}/${name}` : own),
          text: worded(t.functions.tabs, name || "code"),
          on: name === tab,
        }))}
      />
    </div>
    ${loaded.data ? html`<${Tab} ...${props} />` : html`<${Bones} rows=${6} />`}
  </div>`;
}

/**
 * @typedef {{base: FunctionPath, fn: any, reload: () => void, set: (fn: Api.Function) => void, config:
 *   Api.ConsoleConfig}} Props
 */

/** Its address, and the call that the access level allows. @param {Props} props */
function HowToCall({ fn, config }) {
  const key = usePublicKey();
  const as = useMember();
  const level = fn.invoke_access;
  const path = `/v1/public/functions/${fn.name}/invoke`;
  const body = { payload: JSON.parse(payloads.get(fn.id) || '{"name": "Ada"}') };
  const request = {
    method: "POST",
    path,
    body,
    ...(level === "Secret"
      ? { bearer: "SECRET_KEY" }
      : { key: key || "pk_…", ...(level === "AppMember" ? { bearer: "ACCESS_TOKEN" } : {}) }),
  };
  const blocked =
    level === "Secret"
      ? ""
      : (key === null && t.noPublicKey) ||
        (fn.active_version === null && t.functions.deployFirst) ||
        (level === "AppMember" && !as.member && t.api.memberFirst);
  return html`<div class="scroll">
    <div class="page tabpage">
      <section class="slab pad form">
        <${Address}
          label=${t.functions.address} text=${config.base_url + path} note=${worded(t.functions.callTexts, level)}
        />
        <${Address} label=${t.functions.id} text=${fn.id} />
      </section>
      ${level === "AppMember" && html`<div class="line"><span class="grow"></span><${RunAs} ...${as} /></div>`}
      <${Calls}
        base=${config.base_url} token=${as.token} calls=${[{ title: t.functions.callTitle, request, why: blocked }]}
      />
      <p class="soft s13">${t.functions.inside}</p>
      <${Code} text=${`const { result } = await ctx.functions.invoke(${JSON.stringify(fn.name)}, ${JSON.stringify(body.payload)});`} />
    </div>
  </div>`;
}
