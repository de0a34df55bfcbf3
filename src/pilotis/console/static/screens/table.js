/** One table: its rows, and in further tabs its schema, indexes, API and settings. */
import { html, useEffect } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, loadTables, noteTable, tables, tablesError } from "../state/app.js";
import { href } from "../state/router.js";
import { plain } from "../ui/format.js";
import { Access } from "../ui/access.js";
import { Bones, Empty, Failure, Tabs, later } from "../ui/widgets.js";
import { Rows } from "./rows.js";

/** @param {{tabs: Markup}} props */
const Waiting = ({ tabs }) => html`<div class="stack"><div class="strip tabstrip">${tabs}</div><${Bones} /></div>`;
const quiet = () => import("./table-tabs.js");
const TABS = /** @type {[string, any][]} */ ([
  ["", Rows],
  ["schema", later(() => import("./schema.js"), "Schema", Waiting)],
  ["rules", later(() => import("./rules.js"), "Rules", Waiting)],
  ["indexes", later(quiet, "Indexes", Waiting)],
  ["aggregate", later(() => import("./aggregate.js"), "Aggregate", Waiting)],
  ["api", later(quiet, "Api", Waiting)],
  ["settings", later(quiet, "TableSettings", Waiting)],
]);

/** @param {Record<string, string>} params */
export function head(params) {
  const table = tables.value?.find((one) => one.id === params.table);
  const title = table ? plain(table.title, 80) : "";
  return {
    title,
    crumbs: [{ text: t.sectionNames.tables, href: href(`/apps/${appId.value}/tables`) }],
    aside:
      table && html`<span class="keep line"><${Access} level=${table.access_level} rules=${table.has_rules} /></span>`,
  };
}

/** @param {{config: Api.ConsoleConfig, table: string, tab?: string}} props */
export function Screen({ config, table: id, tab = "" }) {
  const table = tables.value?.find((one) => one.id === id);
  useEffect(() => {
    if (table) noteTable(id);
  }, [id, !!table]);
  const [current, View] = TABS.find(([name]) => name === tab) || TABS[0];
  useEffect(() => View.fetch?.(), [View]);
  if (!tables.value && tablesError.value)
    return html`<${Failure} error=${tablesError.value} retry=${() => void loadTables().catch(() => {})} />`;
  if (!tables.value) return html`<${Bones} rows=${12} columns=${6} />`;
  if (!table)
    return html`<${Empty} title=${t.tables.gone} text=${t.tables.goneText}>
      <a class="b" href=${href(`/apps/${appId.value}/tables`)}>${t.sectionNames.tables}</a>
    </${Empty}>`;
  const base = `/apps/${appId.value}/tables/${id}`;
  const tabs = html`<${Tabs}
    label=${plain(table.title, 80)}
    items=${TABS.map(([name]) => ({
      href: href(name ? `${base}/${name}` : base),
      text: worded(t.tables.tabs, name || "rows"),
      on: current === name,
    }))}
  />`;
  return html`<${View} key=${id + current} table=${table} tabs=${tabs} config=${config} />`;
}
