/** The tabs of the section of tables: the list, the diagram, and the saved views. */
import { html } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId } from "../state/app.js";
import { href } from "../state/router.js";
import { Tabs } from "./widgets.js";

const TABS = /** @type {const} */ (["tables", "diagram", "views"]);

/** @param {{on: "tables" | "diagram" | "views"}} props */
export const TableViews = ({ on }) => html`<${Tabs}
  label=${t.sectionNames.tables}
  items=${TABS.map((name) => ({
    href: href(`/apps/${appId.value}/${name}`),
    text: t.tables.sections[name],
    on: name === on,
  }))}
/>`;
