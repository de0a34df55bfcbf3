/** Filters that a user has named: kept on the server with the user's preferences, so that each browser has them. */
import { html, signal, useEffect, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { request } from "../state/api.js";
import { plain } from "../ui/format.js";
import { Button, FormDialog, MenuButton, MenuItem, TextField, complain } from "../ui/widgets.js";
import { same } from "./values.js";

/** @typedef {{name: string, where: Record<string, unknown>}} Saved */

const PATH = "/v1/auth/me/preferences";
/** All preferences of the user; null until they are known. */
const preferences = signal(/** @type {Record<string, any> | null} */ (null));

/**
 * Change a table's filters: read first, because another tab may have changed them.
 * @param {string} tableId
 * @param {(filters: Saved[]) => Saved[]} change
 */
async function save(tableId, change) {
  const now = (await request(PATH)).preferences;
  const filters = { ...now.filters, [tableId]: change(now.filters?.[tableId] || []) };
  if (!filters[tableId].length) delete filters[tableId];
  preferences.value = (await request(PATH, { method: "PUT", body: { preferences: { ...now, filters } } })).preferences;
}

/**
 * @param {{tableId: string, where: Record<string, unknown>, onChange: (where: Record<string, unknown>) => void}} props
 */
export function SavedFilters({ tableId, where, onChange }) {
  const [naming, setNaming] = useState(false);
  const [name, setName] = useState("");
  useEffect(() => {
    if (!preferences.value)
      request(PATH).then(
        (answer) => (preferences.value = answer.preferences),
        () => {},
      );
  }, []);
  const saved = /** @type {Saved[]} */ (preferences.value?.filters?.[tableId] || []);
  const current = where && saved.find((one) => same(one.where, where));
  if (!where && !saved.length) return null;
  const submit = async () => {
    await save(tableId, (filters) => [
      ...filters.filter((one) => one.name !== name.trim()),
      { name: name.trim(), where },
    ]);
    setNaming(false);
    setName("");
  };
  return html`
    <${MenuButton}
      label=${t.grid.savedFilters}
      button=${(/** @type {Bind} */ bind) => html`<${Button} kind="flat small" icon="filter" ...${bind}>
        ${current ? plain(current.name, 30) : t.grid.savedFilters}
      </${Button}>`}
    >
      ${(/** @type {() => void} */ close) => html`
        ${saved.map(
          (one) => html`<${MenuItem}
            icon=${one === current ? "check" : "filter"} onClick=${() => (close(), onChange(one.where))}
          >
            ${plain(one.name, 60)}
          </${MenuItem}>`,
        )}
        ${saved.length > 0 && html`<hr />`}
        <${MenuItem}
          icon="plus" why=${!where ? t.grid.filterFirst : current && t.unchanged}
          onClick=${() => (close(), setNaming(true))}
        >
          ${t.grid.saveFilter}
        </${MenuItem}>
        ${current && html`<${MenuItem}
          icon="trash" kind="bad"
          onClick=${() => (
            close(),
            save(tableId, (filters) => filters.filter((one) => one.name !== current.name)).catch(complain)
          )}
        >
          ${t.grid.forgetFilter(plain(current.name, 40))}
        </${MenuItem}>`}
      `}
    </${MenuButton}>
    ${naming && html`<${FormDialog}
      title=${t.grid.saveFilter} onClose=${() => setNaming(false)} submit=${submit} action=${t.save}
      why=${!name.trim() && t.nameFirst}
    >
      <${TextField} label=${t.name} value=${name} onInput=${setName} maxlength="60" autocomplete="off" />
    </${FormDialog}>`}
  `;
}
