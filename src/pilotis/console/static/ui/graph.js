/** The steps of a workflow as a graph: layers from left to right, side by side what runs at once or instead. */
import { html, useLayoutEffect, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { plain } from "./format.js";
import { Icon } from "./icons.js";

/** @typedef {{key: string, step: Api.Step, column: number, row: number, depth: number}} Node */
/**
 * `via` is the row that the edge of an empty branch passes through.
 * @typedef {{from: string, to: string, label: string, via?: number}} Edge
 */
/**
 * What runs one after another; a fork's branches run at once, or one of them.
 * @typedef {({key: string, step: Api.Step} | {branches: {label: string, parts: Part[]}[]})} Part
 */

const WIDTH = [140, 196];
const HEIGHT = 56;
const GAP = 48;
const PITCH = 80;
const MARGIN = 24;

/** The icon of a step. @param {any} step */
export const iconOf = (step) =>
  /** @type {Record<string, string>} */ ({
    function: "code",
    condition: "fork",
    parallel: "columns",
    merge: "merge",
    agent: "spark",
  })[step.step_type] || "code";

/**
 * The steps of a list as they run, each with its key, the place in the request.
 * @param {any[]} steps
 * @param {string} place
 */
const inOrder = (steps, place) =>
  steps
    .map((step, at) => ({ key: `${place}[${at}]`, step, order: step.order ?? at + 1, at }))
    .sort((a, b) => a.order - b.order || a.at - b.at);

/** @param {{key: string, step: any}[]} steps @returns {Part[]} */
function sequence(steps) {
  /** @type {Part[]} */
  const parts = [];
  for (let at = 0; at < steps.length; at++) {
    const { key, step } = steps[at];
    parts.push({ key, step });
    const rest = steps.slice(at + 1);
    if (step.step_type === "condition" && (step.on_true || step.on_false)) {
      // Only what follows at once stands side by side; a step further on stays where it runs.
      const end = rest.findIndex((one) => ![...(step.on_true || []), ...(step.on_false || [])].includes(one.step.id));
      const chosen = end < 0 ? rest : rest.slice(0, end);
      const branch = (/** @type {string[] | undefined} */ ids, /** @type {string} */ label) => ({
        label,
        parts: sequence(chosen.filter((one) => ids?.includes(one.step.id))),
      });
      if (chosen.length)
        parts.push({ branches: [branch(step.on_true, t.workflows.yes), branch(step.on_false, t.workflows.no)] });
      at += chosen.length;
    } else if (step.step_type === "parallel" && step.branches) {
      parts.push({
        branches: step.branches.map((/** @type {any} */ branch, /** @type {number} */ number) => ({
          label: branch.id,
          parts: sequence(inOrder(branch.steps, `${key}.branches[${number}].steps`)),
        })),
      });
    } else if (step.step_type === "parallel" && !step.items) {
      const end = rest.findIndex((one) => one.step.step_type === "merge");
      const group = end < 0 ? rest : rest.slice(0, end);
      if (group.length) parts.push({ branches: group.map((one) => ({ label: "", parts: sequence([one]) })) });
      at += group.length;
    }
  }
  return parts;
}

/** What runs, of a whole definition. @param {any[]} steps @param {string} type @returns {Part[]} */
function plan(steps, type) {
  const all = inOrder(steps, "steps");
  if (type !== "parallel") return sequence(all);
  /** @type {Part[]} */
  const parts = [];
  /** @type {{label: string, parts: Part[]}[]} */
  let together = [];
  for (const one of all) {
    if (one.step.step_type !== "merge") together.push({ label: "", parts: sequence([one]) });
    else {
      if (together.length) parts.push({ branches: together });
      together = [];
      parts.push(one);
    }
  }
  return together.length ? [...parts, { branches: together }] : parts;
}

/** How many columns a part takes. @param {Part} part @returns {number} */
const widthOf = (part) =>
  "step" in part
    ? 1
    : Math.max(1, ...part.branches.map((branch) => branch.parts.reduce((sum, one) => sum + widthOf(one), 0)));

/** How many rows parts take that run one after another. @param {Part[]} parts @returns {number} */
const heightOf = (parts) =>
  Math.max(
    1,
    ...parts.map((part) =>
      "step" in part ? 1 : part.branches.reduce((sum, branch) => sum + heightOf(branch.parts), 0),
    ),
  );

/**
 * Where each step stands, in columns and rows, and which steps follow which. A branch without steps takes a row of its
 * own, through which its edge passes.
 * @param {any[]} steps @param {string} type @returns {{nodes: Node[], edges: Edge[], columns: number, rows: number}}
 */
export function layout(steps, type) {
  /** @type {Node[]} */
  const nodes = [];
  /** @type {Edge[]} */
  const edges = [];
  /** @typedef {{key: string, label: string, via?: number}[]} Ends */
  /**
   * @param {Part[]} parts
   * @param {number} column
   * @param {number} row
   * @param {Ends} from
   * @param {number} depth
   * @returns {Ends}
   */
  const put = (parts, column, row, from, depth) => {
    const tall = heightOf(parts);
    let ends = from;
    for (const part of parts) {
      if ("step" in part) {
        nodes.push({ key: part.key, step: part.step, column, row: row + (tall - 1) / 2, depth });
        edges.push(...ends.map(({ key, label, via }) => ({ from: key, to: part.key, label, via })));
        ends = [{ key: part.key, label: "" }];
      } else {
        let top = row + (tall - heightOf([part])) / 2;
        /** @type {Ends} */
        const after = [];
        for (const branch of part.branches) {
          const began = ends.map((end) => ({ key: end.key, label: branch.label }));
          after.push(
            ...(branch.parts.length
              ? put(branch.parts, column, top, began, depth + 1)
              : began.map((end) => ({ ...end, via: top }))),
          );
          top += heightOf(branch.parts);
        }
        ends = after;
      }
      column += widthOf(part);
    }
    return ends;
  };
  const parts = plan(steps, type);
  put(parts, 0, 0, [], 0);
  return { nodes, edges, columns: parts.reduce((sum, part) => sum + widthOf(part), 0), rows: heightOf(parts) };
}

/**
 * @param {{steps: Api.Step[], type: string, chosen: string, onChoose: (key: string, step: Api.Step) => void, look:
 *   (step: Api.Step,
 *   key: string) => {kind: string, icon: string, word: Markup, taken: "done" | "waits" | "not"},
 *   label: string}} props `chosen` is the key of a step; `taken` says how the edges to it are drawn
 */
export function Graph({ steps, type, chosen, onChoose, look, label }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [room, setRoom] = useState([0, 0]);
  // Before the first frame: the nodes would be drawn too narrow, and moved.
  useLayoutEffect(() => {
    const { current } = /** @type {{current: HTMLElement}} */ (box);
    setRoom([current.clientWidth, current.clientHeight]);
    const observer = new ResizeObserver(([entry]) => setRoom([entry.contentRect.width, entry.contentRect.height]));
    observer.observe(current);
    return () => observer.disconnect();
  }, []);
  const { nodes, edges, columns, rows } = layout(steps, type);
  const width = Math.max(WIDTH[0], Math.min(WIDTH[1], (room[0] - 2 * MARGIN - (columns - 1) * 28) / columns));
  const gap = columns > 1 ? Math.max(28, Math.min(GAP, (room[0] - 2 * MARGIN - columns * width) / (columns - 1))) : GAP;
  const wide = columns * width + (columns - 1) * gap;
  const tall = (rows - 1) * PITCH + HEIGHT;
  const left = Math.max(MARGIN, (room[0] - wide) / 2);
  const top = Math.max(MARGIN, (room[1] - tall) / 2);
  const at = new Map(
    nodes.map((node) => [
      node.key,
      { x: left + node.column * (width + gap), y: top + node.row * PITCH, step: node.step },
    ]),
  );
  useLayoutEffect(() => {
    const node = /** @type {HTMLElement | null} */ (box.current?.querySelector("[aria-pressed='true']"));
    node?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [chosen]);
  return html`<div class="graph" ref=${box} role="group" aria-label=${label} tabindex="-1">
    <div class="canvas" style=${{ width: `${wide + 2 * MARGIN}px`, height: `${tall + 2 * MARGIN}px` }}>
      <svg
        width=${Math.max(room[0], wide + 2 * MARGIN)} height=${Math.max(room[1], tall + 2 * MARGIN)} aria-hidden="true"
      >
        ${edges.map((edge) => {
          const [from, to] = [/** @type {any} */ (at.get(edge.from)), /** @type {any} */ (at.get(edge.to))];
          const [x1, y1, x2, y2] = [from.x + width, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
          const through =
            edge.via === undefined
              ? []
              : [
                  [x1 + gap / 2, y1],
                  [x1 + gap / 2, top + edge.via * PITCH + HEIGHT / 2],
                ];
          const before = edge.via === undefined ? y1 : through[1][1];
          // A branch is named above its first step, or on its line if it has none.
          const [x, y] = edge.via === undefined ? [x2, y2 - HEIGHT / 2 - 6] : [x1 + gap, before - 6];
          const ended = look(from.step, edge.from).taken;
          return html`<g key=${edge.from + edge.to + edge.label}>
            <path
              class=${`edge ${ended === "not" ? ended : look(to.step, edge.to).taken}`}
              d=${line([[x1, y1], ...through, [x2 - gap / 2, before], [x2 - gap / 2, y2], [x2, y2]])}
            />
            ${edge.label && html`<text x=${x} y=${y}>${plain(edge.label, 20)}</text>`}
          </g>`;
        })}
      </svg>
      ${nodes.map(({ key, step, depth }) => {
        const { kind, icon, word, taken } = look(step, key);
        const place = /** @type {any} */ (at.get(key));
        return html`<button
          type="button" key=${key} class=${`node ${kind} ${taken} ${key === chosen ? "on upright" : ""}`}
          style=${{
            left: `${place.x}px`,
            top: `${place.y}px`,
            width: `${width}px`,
            height: `${HEIGHT}px`,
            "--depth": depth,
          }}
          aria-pressed=${key === chosen ? "true" : "false"} onClick=${() => onChoose(key, step)}
        >
          <span class=${`state ${kind}`}><${Icon} name=${icon} class=${icon === "run" ? "spin" : ""} /></span>
          <span class="grow">
            <b class="cut">${plain(step.name || step.id || t.workflows.unnamed, 60)}</b>
            <small class="cut num">${icon !== iconOf(step) && html`<${Icon} name=${iconOf(step)} />`}${word}</small>
          </span>
        </button>`;
      })}
    </div>
  </div>`;
}

/** A line through points, with round corners. @param {number[][]} points */
function line(points) {
  const corners = points.filter(([x, y], at) => !at || x !== points[at - 1][0] || y !== points[at - 1][1]);
  let path = `M${corners[0].join(" ")}`;
  for (let at = 1; at < corners.length - 1; at++) {
    const [[x0, y0], [x1, y1], [x2, y2]] = corners.slice(at - 1, at + 2);
    const [before, after] = [Math.hypot(x1 - x0, y1 - y0), Math.hypot(x2 - x1, y2 - y1)];
    const round = Math.min(8, before / 2, after / 2);
    path += `L${x1 + ((x0 - x1) * round) / before} ${y1 + ((y0 - y1) * round) / before}Q${x1} ${y1} ${x1 + ((x2 - x1) * round) / after} ${y1 + ((y2 - y1) * round) / after}`;
  }
  return `${path}L${/** @type {number[]} */ (corners.at(-1)).join(" ")}`;
}
