/** The types of events that the open app knows, for lists to choose from. */
import { appId, onApp } from "../state/app.js";
import { useLoad } from "./widgets.js";

const LIMIT = 100;

/** The names of the types; none until they are loaded. @returns {string[]} */
export function useEventTypes() {
  const { data } = useLoad((signal) => onApp("/event-types", { query: { limit: LIMIT }, signal }), [appId.value]);
  return (data?.data || []).map((one) => one.event_type);
}
