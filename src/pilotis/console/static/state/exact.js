/**
 * JSON whose numbers keep every digit, also in browsers without `JSON.rawJSON` and the source of a number in revivers
 * (Safari before 18.4, Firefox before 135, Chrome before 114): there numbers travel as marked texts.
 */

// Unlike any text of a user's, who cannot know it.
const MARK = `exact-${Math.random()}${Math.random()}:`;
// A string, or a number (RFC 8259, sections 6 and 7).
const TOKEN = /"(?:[^"\\]|\\.)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

if (!(/** @type {any} */ (JSON).rawJSON)) {
  const marked = new RegExp(`"${MARK.replaceAll(".", "\\.")}([^"]*)"`, "g");
  const written = JSON.stringify;
  /** @type {any} */ (JSON).rawJSON = (/** @type {string} */ text) => MARK + text;
  JSON.stringify = (/** @type {[any, any?, any?]} */ ...given) => written(...given)?.replace(marked, "$1");
}

/** A number that this language cannot hold: it is shown, copied and sent as it was written. */
export class Exact {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }

  toString() {
    return this.text;
  }

  toJSON() {
    return /** @type {any} */ (JSON).rawJSON(this.text);
  }
}

/** Read JSON and keep every digit of its numbers; throws `SyntaxError`. @param {string} text */
export function parseExact(text) {
  let found = false;
  const marked = text.replace(TOKEN, (token) => {
    if (token[0] === '"' || String(Number(token)) === token) return token;
    found = true;
    return `"${MARK}${token}"`;
  });
  if (!found) return JSON.parse(text);
  const revive = (/** @type {string} */ _key, /** @type {unknown} */ value) =>
    typeof value === "string" && value.startsWith(MARK) ? new Exact(value.slice(MARK.length)) : value;
  return JSON.parse(marked, revive);
}
