/** The names of members by their ids: each is asked for when it is first shown, a few at once, the latest first. */
import { signal } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { plain } from "../ui/format.js";
import { appId, onApp } from "./app.js";

const CONCURRENT_REQUESTS = 4;
// What was scrolled past long ago is not asked for.
const WAITING = 100;
const KEPT = 2000;

/**
 * What is known of a member: undefined until it is, null where it was deleted.
 * @typedef {import("../vendor/view.js").Signal<string | null | undefined>} Name
 */

/** @type {Map<string, Name>} */
const known = new Map();
/** @type {{key: string, app: string, id: string}[]} */
let waiting = [];
let running = 0;

/** What a member is called. @param {{member_id: string, nickname: string | null, login_id: string | null}} member */
export const memberName = (member) =>
  member.nickname
    ? plain(member.nickname, 60)
    : member.login_id
      ? plain(member.login_id, 60)
      : `${t.members.guest} ${member.member_id.slice(-4)}`;

/** The name of a member of the open app, as a signal. @param {string} id @returns {Name} */
export function nameOf(id) {
  const app = appId.peek();
  const key = `${app} ${id}`;
  const found = known.get(key);
  if (found) return found;
  if (known.size >= KEPT) known.clear();
  const name = signal(/** @type {string | null | undefined} */ (undefined));
  known.set(key, name);
  waiting.push({ key, app, id });
  for (const one of waiting.splice(0, Math.max(0, waiting.length - WAITING))) known.delete(one.key);
  // After what is being drawn.
  queueMicrotask(next);
  return name;
}

function next() {
  const one = running < CONCURRENT_REQUESTS && waiting.pop();
  if (!one) return;
  if (one.app !== appId.peek()) {
    known.delete(one.key);
    return next();
  }
  running++;
  const name = known.get(one.key);
  onApp(`/members/${encodeURIComponent(one.id)}`)
    .then((member) => name && (name.value = memberName(member)))
    .catch((error) => (error.status === 404 ? name && (name.value = null) : known.delete(one.key)))
    .finally(() => (running--, next()));
  next();
}

/** Forget a name that has changed. @param {string} id */
export const forgetName = (id) => void known.delete(`${appId.peek()} ${id}`);
