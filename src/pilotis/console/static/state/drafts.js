/** What was typed and is not saved yet: it stays while one looks at other screens, until it is saved or discarded. */
import { useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { user } from "./api.js";
import { guard } from "./router.js";

/** @type {Map<string, unknown>} */
const drafts = new Map();

guard(() => (drafts.size ? t.grid.unsaved : null));

// No user finds what another one of this browser has typed.
let owner = "";
user.subscribe((now) => {
  const id = now?.user_id || "";
  if (id !== owner) drafts.clear();
  owner = id;
});

/** @param {string} key @returns {any} */
export const draftOf = (key) => drafts.get(key);

/** Keep a draft; undefined forgets it. @param {string} key @param {unknown} value */
export function keepDraft(key, value) {
  if (value === undefined) drafts.delete(key);
  else drafts.set(key, value);
}

/**
 * The texts of a form by name, which stay until they are all empty or `forget` is called.
 * @param {string} key
 * @returns {[Record<string, string>, (texts: Record<string, string>) => void, () => void]}
 */
export function useDraft(key) {
  const [texts, setTexts] = useState(/** @type {Record<string, string>} */ (draftOf(key) || {}));
  const put = (/** @type {Record<string, string>} */ next) => {
    keepDraft(key, Object.values(next).some(Boolean) ? next : undefined);
    setTexts(next);
  };
  return [texts, put, () => put({})];
}
