/** The access levels of tables. */
import { html } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { Pill } from "./widgets.js";

/** The ways in which a table can be open, each explained. */
export const levels = () =>
  Object.entries(t.access).map(([value, [title, text, icon]]) => ({ value, title, text, icon }));

/** Who a table is open to. @param {{level: string, rules?: boolean}} props */
export function Access({ level, rules }) {
  if (rules) return html`<${Pill} kind="info" icon="lock">${t.rules.pill}</${Pill}>`;
  const [title, , icon] = /** @type {Record<string, string[]>} */ (t.access)[level];
  return html`<${Pill} kind=${level === "Public" ? "warn" : ""} icon=${icon}>${title}</${Pill}>`;
}
