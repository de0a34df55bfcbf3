/** Where a text of JSON ends, and so what may be written there. Pure. */

/**
 * `path` has the keys and the numbers of items that lead to the end. A key follows if `isKey`, else a value. `keys` are those
 * that the object has so far, and `texts` what has been said in texts of each object on the way. What is being written
 * begins at `from`, with its quote.
 * @typedef {{path: (string | number)[], isKey: boolean, keys: string[], texts: Record<string, string>[], from: number}} Place
 */
/** @typedef {{keys: string[] | null, name: any, awaits: "key" | "colon" | "value" | "end", texts: Record<string, string>}} Frame */

/** Return the place at the end of a text; null where nothing but a mark may follow. @param {string} text @returns {Place | null} */
export function placeAt(text) {
  /** @type {Frame[]} */
  const frames = [{ keys: null, name: null, awaits: "value", texts: {} }];
  const string = /"(?:[^"\\\n]|\\.)*"/y;
  const word = /[^\s"{}[\],:]+/y;
  let at = 0;
  const place = () => {
    const frame = /** @type {Frame} */ (frames.at(-1));
    if (frame.awaits !== "key" && frame.awaits !== "value") return null;
    const isKey = frame.awaits === "key";
    const path = frames.slice(1, isKey ? -1 : undefined).map((one) => one.name);
    return { path, isKey, keys: frame.keys || [], texts: frames.slice(1).map((one) => one.texts), from: at };
  };
  while (at < text.length) {
    const frame = frames.at(-1);
    if (!frame) return null;
    const mark = text[at];
    if (mark === '"') {
      string.lastIndex = at;
      const found = string.exec(text)?.[0];
      if (found === undefined) return text.includes("\n", at) ? null : place();
      at += found.length;
      const value = unquoted(found);
      if (frame.awaits === "key") {
        frame.name = value;
        frame.keys?.push(value);
        frame.awaits = "colon";
      } else if (frame.awaits === "value") {
        if (frame.keys) frame.texts[frame.name] = value;
        frame.awaits = "end";
      } else return null;
    } else if (mark === "{" || mark === "[") {
      if (frame.awaits !== "value") return null;
      frame.awaits = "end";
      frames.push(
        mark === "{"
          ? { keys: [], name: null, awaits: "key", texts: {} }
          : { keys: null, name: 0, awaits: "value", texts: {} },
      );
      at++;
    } else if (mark === "}" || mark === "]") {
      frames.pop();
      at++;
    } else if (mark === ":") {
      if (frame.awaits !== "colon") return null;
      frame.awaits = "value";
      at++;
    } else if (mark === ",") {
      if (frame.awaits !== "end") return null;
      if (frame.keys) frame.awaits = "key";
      else ((frame.name += 1), (frame.awaits = "value"));
      at++;
    } else if (/\s/.test(/** @type {string} */ (mark))) at++;
    else {
      word.lastIndex = at;
      const found = /** @type {string} */ (word.exec(text)?.[0]);
      if (at + found.length === text.length) return place();
      if (frame.awaits !== "value") return null;
      frame.awaits = "end";
      at += found.length;
    }
  }
  return frames.length ? place() : null;
}

/** @param {string} source @returns {string} */
function unquoted(source) {
  try {
    return JSON.parse(source);
  } catch {
    return source.slice(1, -1);
  }
}
