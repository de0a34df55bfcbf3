/** Lists that screens load: one way to show what failed, what is on its way, what is empty, and the rows. */
import { html } from "../vendor/view.js";
import { change } from "../state/router.js";
import { Bones, Failure, Pager } from "./widgets.js";

/**
 * The table of a list, or what stands in its place. `items` is undefined until they are loaded.
 * @template T
 * @param {{loaded: {error: unknown, reload: () => void}, items: T[] | undefined, bones: {rows: number, columns?:
 *   number},
 *   empty: Markup, look?: string, columns: Markup, row: (item: T, index: number, all: T[]) => Markup}} list
 */
export function listing({ loaded, items, bones, empty, look = "list", columns, row }) {
  if (loaded.error) return html`<${Failure} error=${loaded.error} retry=${loaded.reload} />`;
  if (!items) return html`<${Bones} ...${bones} />`;
  if (!items.length) return empty;
  return html`<table class=${look}><thead><tr>${columns}</tr></thead><tbody>${items.map(row)}</tbody></table>`;
}

/**
 * The way to the other pages of a list, by the address. `total` is undefined until it is known.
 * @param {{offset: number, limit: number, total: number | null | undefined}} props
 */
export const ListPager = ({ offset, limit, total }) =>
  typeof total === "number" &&
  html`<${Pager}
    offset=${offset} limit=${limit} total=${total}
    onChange=${(/** @type {number} */ next) => change({ offset: next ? String(next) : null })}
  />`;
