/**
 * Where the boxes of a diagram stand: in columns from left to right, each box to the right of those that it points to,
 * and boxes that point nowhere and to which none points below all others. Sizes are in pixels.
 */

/**
 * `height` is the box's; `y` of an arrow is where it begins, below the top of its box.
 * @typedef {{id: string, height: number}} Box
 * @typedef {{from: string, to: string, y: number}} Arrow
 * @typedef {{x: number, y: number, column: number}} Place
 */

export const WIDTH = 220;
const GAP = 88;
const SPACE = 20;
const MARGIN = 24;
const TALL = 1600;
const SWEEPS = 6;

/** @template K, V @param {Map<K, V[]>} map @param {K} key @param {V} value */
const push = (map, key, value) => map.set(key, [...(map.get(key) || []), value]);

/**
 * The number of each box's column: one more than those it points to. Where arrows lead back, one of them is passed over.
 * @param {string[]} ids @param {Map<string, string[]>} targets @returns {Map<string, number>}
 */
function ranksOf(ids, targets) {
  /** @type {Map<string, number>} */
  const ranks = new Map();
  const open = new Set();
  const rank = (/** @type {string} */ id) => {
    const known = ranks.get(id);
    if (known !== undefined) return known;
    open.add(id);
    let found = 0;
    for (const target of targets.get(id) || [])
      if (!open.has(target)) found = Math.max(found, 1 + /** @type {number} */ (rank(target)));
    open.delete(id);
    ranks.set(id, found);
    return found;
  };
  ids.forEach(rank);
  return ranks;
}

/**
 * @param {Box[]} boxes in the order in which equals stand @param {Arrow[]} arrows
 * @returns {{places: Map<string, Place>, width: number, height: number}}
 */
export function layout(boxes, arrows) {
  const known = new Map(boxes.map((box) => [box.id, box]));
  /** @type {Map<string, string[]>} */
  const targets = new Map();
  /** @type {Map<string, string[]>} */
  const sources = new Map();
  for (const { from, to } of arrows)
    if (from !== to && known.has(from) && known.has(to)) {
      push(targets, from, to);
      push(sources, to, from);
    }
  const linked = boxes.filter((box) => targets.has(box.id) || sources.has(box.id));
  const alone = boxes.filter((box) => !targets.has(box.id) && !sources.has(box.id));
  const ranks = ranksOf(
    linked.map((box) => box.id),
    targets,
  );
  // What points nowhere stands right before the first that points to it.
  for (const { id } of linked)
    if (!targets.has(id))
      ranks.set(
        id,
        Math.max(0, Math.min(.../** @type {string[]} */ (sources.get(id)).map((one) => ranks.get(one) || 0)) - 1),
      );
  /** @type {Box[][]} */
  const layers = [];
  for (const box of linked) (layers[/** @type {number} */ (ranks.get(box.id))] ||= []).push(box);
  const columns = layers.filter(Boolean).flatMap(parts);
  const center = ordered(columns, targets, sources);
  /** @type {Map<string, Place>} */
  const places = new Map();
  let [width, height] = [0, 0];
  columns.forEach((column, number) => {
    const x = MARGIN + number * (WIDTH + GAP);
    for (const box of column) {
      const y = /** @type {number} */ (center.get(box.id)) - box.height / 2;
      places.set(box.id, { x, y, column: number });
      height = Math.max(height, y + box.height);
    }
    width = Math.max(width, x + WIDTH);
  });
  return { places, ...under(alone, places, Math.max(columns.length, 4), width, height) };
}

/** A column that is too tall, as several. @param {Box[]} layer @returns {Box[][]} */
function parts(layer) {
  /** @type {Box[][]} */
  const found = [[]];
  let height = 0;
  for (const box of layer) {
    if (height && height + box.height > TALL) {
      found.push([]);
      height = 0;
    }
    /** @type {Box[]} */ (found.at(-1)).push(box);
    height += box.height + SPACE;
  }
  return found;
}

/**
 * Sort the boxes of each column so that those which belong together are near, and return the middle of each.
 * @param {Box[][]} columns @param {Map<string, string[]>} targets @param {Map<string, string[]>} sources
 * @returns {Map<string, number>}
 */
function ordered(columns, targets, sources) {
  /** @type {Map<string, number>} */
  const center = new Map();
  const stack = (/** @type {Box[]} */ column) => {
    let y = MARGIN;
    for (const box of column) {
      center.set(box.id, y + box.height / 2);
      y += box.height + SPACE;
    }
  };
  columns.forEach(stack);
  const wanted = (/** @type {Box} */ box) => {
    const near = [...(targets.get(box.id) || []), ...(sources.get(box.id) || [])].map(
      (id) => /** @type {number} */ (center.get(id)),
    );
    return near.reduce((sum, one) => sum + one, 0) / near.length;
  };
  for (let sweep = 0; sweep < SWEEPS; sweep++)
    for (const column of sweep % 2 ? [...columns].reverse() : columns) {
      const goal = new Map(column.map((box) => [box.id, wanted(box)]));
      const of = (/** @type {Box} */ box) => /** @type {number} */ (goal.get(box.id));
      column.sort((a, b) => of(a) - of(b));
      // As near to where each belongs as the ones above it leave room.
      let y = MARGIN;
      for (const box of column) {
        const top = Math.max(y, of(box) - box.height / 2);
        center.set(box.id, top + box.height / 2);
        y = top + box.height + SPACE;
      }
    }
  const least = Math.min(
    ...columns.flat().map((box) => /** @type {number} */ (center.get(box.id)) - box.height / 2),
    Infinity,
  );
  if (Number.isFinite(least)) for (const [id, y] of center) center.set(id, y - least + MARGIN);
  return center;
}

/**
 * Put boxes below all others, each into the shortest of some columns.
 * @param {Box[]} boxes @param {Map<string, Place>} places @param {number} count @param {number} width
 * @param {number} height @returns {{width: number, height: number}}
 */
function under(boxes, places, count, width, height) {
  const tops = Array.from({ length: Math.min(count, boxes.length) }, () => height + (height ? SPACE * 2 : MARGIN));
  for (const box of boxes) {
    const column = tops.indexOf(Math.min(...tops));
    const x = MARGIN + column * (WIDTH + GAP);
    places.set(box.id, { x, y: tops[column], column });
    tops[column] += box.height + SPACE;
    width = Math.max(width, x + WIDTH);
  }
  return { width: width + MARGIN, height: Math.max(height, ...tops.map((top) => top - SPACE)) + MARGIN };
}

/**
 * The line from a box's row to the head of another, or of itself.
 * @param {Place} from @param {Place} to @param {number} y where it begins, below the top of its box
 * @param {number} head the middle of a head, below its top
 */
export function line(from, to, y, head) {
  const [startY, endY] = [from.y + y, to.y + head];
  if (to.x < from.x) return curve(from.x, startY, -1, to.x + WIDTH, endY, 1);
  if (to.x > from.x) return curve(from.x + WIDTH, startY, 1, to.x, endY, -1);
  return curve(from.x + WIDTH, startY, 1, to.x + WIDTH, endY, 1);
}

/** @param {number} x1 @param {number} y1 @param {number} out @param {number} x2 @param {number} y2 @param {number} into */
function curve(x1, y1, out, x2, y2, into) {
  const reach = out === into ? 40 : Math.max(32, Math.min(96, Math.abs(x1 - x2) / 2));
  return `M${x1} ${y1}C${x1 + out * reach} ${y1} ${x2 + into * reach} ${y2} ${x2 + into * 7} ${y2}`;
}
