/** The types of events that the open app knows, for lists to choose from. */
import { appId, onApp } from "../state/app.js";
import { useLoad } from "./widgets.js";

const LIMIT = 100;

/** The names of the types; none until they are loaded. @returns {string[]} */
export function useEventTypes() {
  const { data } = useLoad((signal) => onApp("/event-types", { query: { limit: LIMIT }, signal }), [appId.value]);
  return (data?.data || []).map((one) => one.event_type);
}

/**
 * Names of types in order, with a pattern before each group of several: `team.*`, and `team.member.*` within it.
 * @param {string[]} names @returns {string[]}
 */
export function withPatterns(names) {
  const sorted = [...new Set(names)].sort();
  const shown = new Set();
  for (const name of sorted) {
    const parts = name.split(".");
    for (let length = 1; length < parts.length; length++) {
      const prefix = `${parts.slice(0, length).join(".")}.`;
      if (sorted.filter((other) => other.startsWith(prefix)).length > 1) shown.add(`${prefix}*`);
    }
    shown.add(name);
  }
  return [...shown];
}
