/** What differs between two texts, line by line. */

/** @typedef {{kind: "same" | "added" | "removed", text: string}} Line */

const CONTEXT = 3;
/** Beyond so many comparisons the texts are shown one after the other. */
const MAX_COMPARISONS = 4_000_000;

/**
 * The lines of both texts in order, by their longest common subsequence.
 * @param {string} before
 * @param {string} after
 * @returns {Line[]}
 */
export function lines(before, after) {
  const a = before === "" ? [] : before.split("\n");
  const b = after === "" ? [] : after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const same = (/** @type {string} */ text) => /** @type {Line} */ ({ kind: "same", text });
  return [
    ...a.slice(0, start).map(same),
    ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...a.slice(a.length - end).map(same),
  ];
}

/** @param {string[]} a @param {string[]} b @returns {Line[]} */
function middle(a, b) {
  const gone = (/** @type {string} */ text) => /** @type {Line} */ ({ kind: "removed", text });
  const come = (/** @type {string} */ text) => /** @type {Line} */ ({ kind: "added", text });
  if (a.length * b.length > MAX_COMPARISONS) return [...a.map(gone), ...b.map(come)];
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i * width + j] =
        a[i] === b[j]
          ? lengths[(i + 1) * width + j + 1] + 1
          : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
  /** @type {Line[]} */
  const found = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) (found.push({ kind: "same", text: a[i++] }), j++);
    else if (j >= b.length || (i < a.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]))
      found.push(gone(a[i++]));
    else found.push(come(b[j++]));
  }
  return found;
}

/**
 * Only what changed, with some lines around it; null stands for lines left out.
 * @param {Line[]} all
 * @returns {(Line | null)[]}
 */
export function shortened(all) {
  const near = all.map((_, at) =>
    all.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some((line) => line.kind !== "same"),
  );
  return all.flatMap((line, at) => (near[at] ? [line] : at === 0 || near[at - 1] ? [null] : []));
}
