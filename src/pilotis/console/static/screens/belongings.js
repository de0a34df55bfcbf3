/** What a member has made: its rows, table by table, and its files, storage by storage. */
import { html } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId, ofApp, onApp, tables } from "../state/app.js";
import { href } from "../state/router.js";
import { CREATOR, Value, columnsOf, valueOf } from "../grid/values.js";
import { moment, plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Bones, Failure, useInView, useLoad } from "../ui/widgets.js";

const SHOWN = 3;
const STORAGES = 100;
// How many tables and storages are asked at once.
const CONCURRENT_REQUESTS = 4;

/**
 * @typedef {{key: string, icon: string, title: string, total: number | null, all: string, entries: {key: string, path:
 *   string,
 *   text: Markup, note: string}[]}} Group
 */

/**
 * The answers for all of a list, a few at once and in its order.
 * @template T, R
 * @param {T[]} list
 * @param {(one: T) => Promise<R>} ask
 * @returns {Promise<R[]>}
 */
async function each(list, ask) {
  const answers = [];
  for (let start = 0; start < list.length; start += CONCURRENT_REQUESTS)
    answers.push(...(await Promise.all(list.slice(start, start + CONCURRENT_REQUESTS).map(ask))));
  return answers;
}

/**
 * The newest rows of a member in each table that has some.
 * @param {string} id
 * @param {import("../state/app.js").Table[]} all
 * @param {AbortSignal} signal
 * @returns {Promise<Group[]>}
 */
async function rowsOf(id, all, signal) {
  const where = { [CREATOR]: { $eq: id } };
  const groups = await each(all, async (table) => {
    const body = { where, limit: SHOWN, order_by: "created_at", order_direction: "desc" };
    const page = await ofApp(`/v1/public/tables/${table.id}/data/query`, { method: "POST", exact: true, body, signal });
    const place = `/apps/${appId.peek()}/tables/${table.id}`;
    const found = new URLSearchParams({ where: JSON.stringify(where) });
    const [column] = columnsOf(table.schema);
    const text = (/** @type {Api.Row} */ row) =>
      valueOf(row, column) === undefined
        ? html`<code>${row.id}</code>`
        : html`<${Value} value=${valueOf(row, column)} column=${column} />`;
    return {
      key: table.id,
      icon: "table",
      title: table.title,
      total: page.total_count,
      all: `${place}?${found}`,
      entries: page.data.map((/** @type {Api.Row} */ row) => ({
        key: row.id,
        path: `${place}?${found}&row=${row.id}`,
        text: text(row),
        note: moment(row.created_at),
      })),
    };
  });
  return groups.filter((one) => one.total);
}

/**
 * The files of a member in each storage that has some.
 * @param {string} id
 * @param {AbortSignal} signal
 * @returns {Promise<Group[]>}
 */
async function filesOf(id, signal) {
  const { storages } = await onApp("/storages/files", { query: { limit: STORAGES }, signal });
  const groups = await each(storages, async (storage) => {
    const page = await ofApp(`/v1/public/storages/files/${storage.id}/items`, {
      query: { created_by: id, limit: SHOWN },
      signal,
    });
    const place = `/apps/${appId.peek()}/files/${storage.id}`;
    return {
      key: storage.id,
      icon: "file",
      title: storage.name,
      total: page.total_count,
      all: `${place}?by=${encodeURIComponent(id)}`,
      entries: page.files.map((file) => ({
        key: file.id,
        path: `${place}?by=${encodeURIComponent(id)}&file=${file.id}`,
        text: plain(file.name, 80),
        note: moment(file.created_at),
      })),
    };
  });
  return groups.filter((one) => one.total);
}

/** @param {{id: string}} props */
export function Belongings({ id }) {
  const [holder, seen] = useInView();
  const all = tables.value;
  const rows = useLoad(
    (signal) => (seen && all ? rowsOf(id, all, signal) : new Promise(() => {})),
    [id, seen, all?.map((table) => table.id)],
  );
  const files = useLoad((signal) => (seen ? filesOf(id, signal) : new Promise(() => {})), [id, seen]);
  return html`<div ref=${holder}>
    <${Part} title=${t.members.rowsOf} none=${t.members.noRows} ...${rows} />
    <${Part} title=${t.members.filesOf} none=${t.members.noFiles} ...${files} />
  </div>`;
}

/** @param {{title: string, none: string, data?: Group[], error: unknown, reload: () => void}} props */
const Part = ({ title, none, data, error, reload }) => html`<section class="wellbox">
  <h3>${title}</h3>
  ${error
    ? html`<${Failure} error=${error} retry=${reload} />`
    : !data
      ? html`<${Bones} rows=${2} columns=${2} />`
      : !data.length
        ? html`<p class="s12 soft">${none}</p>`
        : data.map(
            (group) => html`<div class="belongings" key=${group.key}>
              <a class="line" href=${href(group.all)}>
                <${Icon} name=${group.icon} />
                <b class="cut grow">${plain(group.title, 60)}</b>
                <span class="soft s12 num">${t.members.allOf(group.total ?? 0)}</span>
              </a>
              <ul>
                ${group.entries.map(
                  (entry) => html`<li key=${entry.key}>
                    <a class="line" href=${href(entry.path)}>
                      <span class="cut grow">${entry.text}</span>
                      <span class="soft s12 wide">${entry.note}</span>
                    </a>
                  </li>`,
                )}
              </ul>
            </div>`,
          )}
</section>`;
