/** The aggregation playground of a table: stages as cards, the documents after each, and the request to copy. */
import { html, useEffect, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { Exact, parseExact } from "../state/exact.js";
import { ofApp } from "../state/app.js";
import { plain } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Bones, Button, Code, Copy, MenuButton, MenuItem, TextAreaField, said, useLoad } from "../ui/widgets.js";

/** @typedef {{key: number, name: string, text: string, on: boolean}} Stage */

/** What each stage begins with. @type {Record<string, (column: string) => any>} */
const STAGES = {
  $match: (column) => ({ [column]: { $ne: null } }),
  $group: (column) => ({ _id: `$${column}`, count: { $count: {} } }),
  $sort: (column) => ({ [column]: 1 }),
  $project: (column) => ({ [column]: 1 }),
  $addFields: (column) => ({ copy: `$${column}` }),
  $unwind: (column) => `$${column}`,
  $limit: () => 10,
  $skip: () => 10,
  $lookup: (column) => ({ localField: column, as: "related" }),
  $count: () => "documents",
};
const SHOWN = 20;
const COLUMNS = 8;
const TYPING_MILLISECONDS = 400;

/** The stages by table: they stay while one looks at other screens. @type {Map<string, Stage[]>} */
const kept = new Map();
let made = 0;

/** @param {string} text @returns {{value?: unknown, fault?: string}} */
function read(text) {
  try {
    return { value: parseExact(text) };
  } catch (error) {
    return { fault: t.grid.notJson(/** @type {Error} */ (error).message) };
  }
}

/** A value that follows another once that rests. @template T @param {T} value @returns {T} */
function useRested(value) {
  const [rested, setRested] = useState(value);
  const key = JSON.stringify(value);
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), TYPING_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [key]);
  return rested;
}

/** @param {{table: import("../state/app.js").Table, tabs: Markup}} props */
export function Aggregate({ table, tabs }) {
  const [stages, setStages] = useState(/** @type {Stage[]} */ (kept.get(table.id) || []));
  const keep = (/** @type {Stage[]} */ next) => (kept.set(table.id, next), setStages(next));
  const column = Object.keys(table.schema)[0] || "created_at";
  const add = (/** @type {string} */ name) =>
    keep([...stages, { key: ++made, name, text: JSON.stringify(STAGES[name](column), null, 2), on: true }]);
  const change = (/** @type {number} */ at, /** @type {Partial<Stage>} */ next) =>
    keep(stages.map((one, index) => (index === at ? { ...one, ...next } : one)));
  const move = (/** @type {number} */ at, /** @type {number} */ by) =>
    keep(stages.map((one, index) => (index === at ? stages[at + by] : index === at + by ? stages[at] : one)));
  const parsed = stages.map((one) => read(one.text));
  /** The pipeline up to a stage; null if one before it cannot be read. @param {number} end */
  const upTo = (end) => {
    const used = stages
      .map((one, at) => ({ ...one, ...parsed[at] }))
      .slice(0, end)
      .filter((one) => one.on);
    return used.some((one) => one.fault) ? null : used.map((one) => ({ [one.name]: one.value }));
  };
  const whole = upTo(stages.length);
  const text = JSON.stringify({ table_id: table.id, pipeline: whole || [] }, null, 2);
  return html`<div class="data">
    <div class="strip tabstrip">${tabs}<span class="grow"></span></div>
    <div class="pipeline">
      <ol class="stages">
        <li class="slab">
          <header><${Icon} name="table" /><h2 class="grow">${t.aggregate.rowsOf} ${plain(table.title, 60)}</h2></header>
          <${Result} table=${table} pipeline=${[]} />
        </li>
        ${stages.map(
          (one, at) => html`<li
            class=${`slab ${one.on ? "" : "off"}`} key=${one.key} aria-label=${t.aggregate.stage(at + 1)}
          >
            <header>
              <h2 class="num">${at + 1}</h2>
              <select
                class="in small mono" aria-label=${t.aggregate.stage(at + 1)} value=${one.name}
                onChange=${(/** @type {Typed} */ event) =>
                  change(at, {
                    name: event.target.value,
                    text: JSON.stringify(STAGES[event.target.value](column), null, 2),
                  })}
              >
                ${Object.keys(STAGES).map(
                  (name) => html`<option value=${name} selected=${name === one.name}>${name}</option>`,
                )}
              </select>
              <span class="soft s12 cut grow wide">${worded(t.aggregate.texts, one.name.slice(1))}</span>
              <span class="grow narrow"></span>
              <input
                type="checkbox" class="switch" aria-label=${t.aggregate.use(at + 1)} checked=${one.on}
                onChange=${(/** @type {Typed} */ event) => change(at, { on: event.target.checked })}
              />
              <${Button}
                kind="flat small" icon="up" label=${t.workflows.earlier} why=${at === 0 && t.noMore}
                onClick=${() => move(at, -1)}
              />
              <${Button}
                kind="flat small" icon="down" label=${t.workflows.later} why=${at === stages.length - 1 && t.noMore}
                onClick=${() => move(at, 1)}
              />
              <${Button}
                kind="flat small bad" icon="trash" label=${t.aggregate.remove(at + 1)}
                onClick=${() => keep(stages.filter((_, index) => index !== at))}
              />
            </header>
            <div class="stagebody">
              <${TextAreaField}
                label=${one.name} value=${one.text}
                onInput=${(/** @type {string} */ next) => change(at, { text: next })}
                rows=${Math.max(2, Math.min(10, one.text.split("\n").length))} wrong=${parsed[at].fault}
              />
            </div>
            ${one.on && html`<${Result} table=${table} pipeline=${upTo(at + 1)} />`}
          </li>`,
        )}
        <li>
          <${MenuButton}
            label=${t.aggregate.add}
            button=${(/** @type {Bind} */ bind) => html`<${Button} icon="plus" kind="go" ...${bind}>
              ${t.aggregate.add}
            </${Button}>`}
          >
            ${(/** @type {() => void} */ close) =>
              Object.keys(STAGES).map(
                (name) => html`<${MenuItem} icon="filter" onClick=${() => (close(), add(name))}>
                  <code>${name}</code> <small class="soft block">${worded(t.aggregate.texts, name.slice(1))}</small>
                </${MenuItem}>`,
              )}
          </${MenuButton}>
        </li>
      </ol>
      <aside class="panel" aria-label=${t.aggregate.request}>
        <header><b class="grow">${t.aggregate.request}</b><${Copy} text=${text} /></header>
        <p class="stepline soft s12"><code>POST /v1/public/aggregate</code></p>
        <div class="valuebox"><${Code} text=${text} label=${t.aggregate.request} /></div>
      </aside>
    </div>
  </div>`;
}

/**
 * The first documents after some stages.
 * @param {{table: import("../state/app.js").Table, pipeline: any[] | null}} props
 */
function Result({ table, pipeline }) {
  const rested = useRested(pipeline);
  const { data, error } = useLoad(
    (signal) =>
      rested
        ? ofApp("/v1/public/aggregate", {
            method: "POST",
            body: { table_id: table.id, pipeline: [...rested, { $limit: SHOWN }] },
            signal,
            exact: true,
          })
        : Promise.resolve(null),
    [table.id, rested],
  );
  if (!pipeline) return null;
  if (error)
    return html`<p class="notice bad inside" role="alert"><${Icon} name="fail" /><span>${said(error)}</span></p>`;
  if (!data) return html`<${Bones} rows=${2} columns=${3} />`;
  const names = [...new Set(data.data.flatMap((one) => Object.keys(one)))].slice(0, COLUMNS);
  if (!data.data.length) return html`<p class="soft s13 pad">${t.aggregate.nothing}</p>`;
  return html`
    <div class="documents" tabindex="0" role="region" aria-label=${t.aggregate.documents}>
      <table class="list">
        <thead>
          <tr>
            ${names.map(
              (name) => html`<th class=${isNumber(data.data[0][/** @type {string} */ (name)]) ? "r" : ""}>
                ${plain(name, 40)}
              </th>`,
            )}
          </tr>
        </thead>
        <tbody>
          ${data.data.map(
            (one, /** @type {number} */ row) => html`<tr key=${row}>
              ${names.map(
                (name) => html`<td class=${isNumber(one[/** @type {string} */ (name)]) ? "r" : ""}>
                  <${Cell} value=${one[/** @type {string} */ (name)]} />
                </td>`,
              )}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    <p class="s12 soft under">
      ${data.data.length === SHOWN ? t.aggregate.first(SHOWN) : t.aggregate.all(data.data.length)}
    </p>
  `;
}

const isNumber = (/** @type {unknown} */ value) => typeof value === "number" || value instanceof Exact;

/** @param {{value: unknown}} props */
function Cell({ value }) {
  if (value === undefined) return null;
  if (value === null) return html`<span class="null">null</span>`;
  return html`<span class="cut">
    ${plain(typeof value === "object" && !(value instanceof Exact) ? JSON.stringify(value) : value, 120)}
  </span>`;
}
