import { readable, type Readable } from "svelte/store";
import type { ApiError, Member, Query, Row, TableTypes } from "@pilotis/client";
import { pilotis } from "./pilotis";

type List<Data> = { rows: Row<Data>[]; error: ApiError | null };

/** The rows of a query, kept true while a component shows them. */
export function live<Table extends TableTypes>(query: Query<Table>): Readable<List<Table["row"]>> {
  return readable<List<Table["row"]>>({ rows: [], error: null }, (set, update) =>
    query.live({ rows: (rows) => set({ rows, error: null }), error: (error) => update((list) => ({ ...list, error })) }),
  );
}

/** The member who is signed in; null for a visitor, and undefined until that is known. */
export const member = readable<Member | null | undefined>(undefined, (set) => {
  const read = async () => set((await pilotis.members.session()) ? await pilotis.members.me() : null);
  void read();
  return pilotis.members.onChange((event) => event.type !== "refreshed" && void read());
});
