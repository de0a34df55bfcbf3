import type { Sender } from "./rows.ts";
import type { AnyApp, CallOptions, JsonObject, OperationResult, Operations, Row, RowReference } from "./types.ts";

/** Collects operations, and sends them as one request to `transactions` or `batch`. */
export async function write(
  http: Sender,
  route: "transactions" | "batch",
  collect: (operations: Operations<AnyApp>) => void,
  options: CallOptions = {},
): Promise<OperationResult[]> {
  const operations: JsonObject[] = [];
  const add = (table_id: string, operation: JsonObject): RowReference => ({ $ref: operations.push({ table_id, ...operation }) - 1 });
  const rowOf = (row: string | Row | RowReference) =>
    typeof row === "string" ? { doc_id: row } : "$ref" in row ? { doc_id: { $ref: row.$ref } } : { doc_id: row.id, expected_updated_at: row.updated_at };
  collect({
    create: (table, data) => add(table, { type: "create", data }),
    update: (table, row, data) => add(table, { type: "update", ...rowOf(row), data }),
    upsert: (table, key, data, mode) => add(table, { type: "upsert", key, data, mode }),
    delete: (table, row) => void add(table, { type: "delete", doc_id: rowOf(row).doc_id }),
  });
  const { signal, timeout } = options;
  return (await http.json("POST", `/v1/public/${route}`, { signal, timeout, body: { operations } })).results;
}
