import { onScopeDispose, shallowRef, watchEffect } from "vue";
import type { ApiError, Member, Query, Row, TableTypes } from "@pilotis/client";
import { pilotis } from "./pilotis";

/** The rows of a query, kept true; it may depend on what is reactive. */
export function useRows<Table extends TableTypes>(query: () => Query<Table>) {
  const rows = shallowRef<Row<Table["row"]>[]>([]);
  const error = shallowRef<ApiError | null>(null);
  watchEffect((ends) => ends(query().live({ rows: (found) => (rows.value = found), error: (failed) => (error.value = failed) })));
  return { rows, error };
}

/** The member who is signed in; null for a visitor, and undefined until that is known. */
export function useMember() {
  const member = shallowRef<Member | null>();
  const read = async () => (member.value = (await pilotis.members.session()) ? await pilotis.members.me() : null);
  onScopeDispose(pilotis.members.onChange((event) => event.type !== "refreshed" && void read()));
  void read();
  return member;
}
