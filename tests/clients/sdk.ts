// The functions that @hey-api/openapi-ts makes, one for each operation.
import { client } from "./generated/sdk/client.gen.js";
import { aggregateRows, createRow, createTable, getTable, queryRows } from "./generated/sdk/index.js";

const { SERVER, PUBLIC_KEY } = process.env as Record<string, string>;
client.setConfig({ baseUrl: SERVER, headers: { "X-Public-Key": PUBLIC_KEY } });

const table = await createTable({ body: { title: "coffee houses", schema: { name: "string", rating: { type: "number" } }, access_level: "Public" } });
const table_id = table.data!.id;
for (const rating of [4.5, 3.0]) {
  await createRow({ path: { table_id }, body: { data: { name: `cafe ${rating}`, rating } } });
}
const found = await queryRows({ path: { table_id }, body: { where: { rating: { $gte: 4 } } } });
const grouped = await aggregateRows({ body: { table_id, pipeline: [{ $group: { _id: null, mean: { $avg: "$rating" } } }] } });
const missing = await getTable({ path: { table_id: "00000000-0000-7000-8000-000000000000" } });
if (missing.error && missing.error.code === "TABLE_NOT_FOUND") {
  console.log(JSON.stringify([found.data!.data.map((row) => row.data["name"]), grouped.data!.data[0]!["mean"]]));
}
