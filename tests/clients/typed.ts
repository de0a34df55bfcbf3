// openapi-typescript's types with openapi-fetch: what a page would do, and what must not compile.
import createClient from "openapi-fetch";
import type { components, paths } from "./generated/schema.js";

const { SERVER, PUBLIC_KEY, STORAGE: storage_id } = process.env as Record<"SERVER" | "PUBLIC_KEY" | "STORAGE", string>;
const client = createClient<paths>({ baseUrl: SERVER, headers: { "X-Public-Key": PUBLIC_KEY } });

const table = await client.POST("/v1/public/tables", {
  body: { title: "cafes", schema: { name: { type: "string", required: true }, place: "object", rating: "number" }, access_level: "Public" },
});
const table_id = table.data!.id;
const path = { table_id };
const place = { latitude: 35.1, longitude: 129.1 };
for (const rating of [4.5, 3.0]) {
  await client.POST("/v1/public/tables/{table_id}/data", { params: { path }, body: { data: { name: `cafe ${rating}`, place, rating } } });
}
const where: components["schemas"]["Where"] = { rating: { $gte: 4 }, $or: [{ name: { $startsWith: "cafe" } }, { name: null }] };
const found = await client.POST("/v1/public/tables/{table_id}/data/query", { params: { path }, body: { where, order_by: "rating", limit: 5 } });
const grouped = await client.POST("/v1/public/aggregate", {
  body: { table_id, pipeline: [{ $match: { rating: { $gt: 1 } } }, { $group: { _id: null, mean: { $avg: "$rating" } } }, { $sort: { mean: -1 } }] },
});
const near = await client.POST("/v1/public/geo", { body: { table_id, field: "place", near: { center: place, max_distance: 10 } } });
const moved = await client.POST("/v1/public/transactions", {
  body: { operations: [{ type: "create", table_id, data: { name: "new" } }, { type: "update", table_id, doc_id: { $ref: 0 }, data: { rating: 1 } }] },
});
const listed = await client.GET("/v1/public/tables/{table_id}/data", { params: { path, query: { limit: 1 } } });
const storage = { params: { path: { storage_id } } };
const upload = { file_name: "cat.txt", file_size: 4, mime_type: "text/plain" };
const permit = (await client.POST("/v1/public/storages/files/{storage_id}/presigned-url", { ...storage, body: upload })).data!;
const sent = await fetch(permit.upload_url, { method: permit.method, headers: permit.headers, body: "meow" });
if (!sent.ok) throw new Error(await sent.text());
const file = await client.POST("/v1/public/storages/files/{storage_id}/complete-upload", { ...storage, body: { file_id: permit.file_id } });
const account = { login_id: "openapi-fetch", password: "correct horse battery" };
const member = await client.POST("/v1/public/app-members/signup", { body: account });
const again = await client.POST("/v1/public/app-members/signin", { body: account });
const missing = await client.GET("/v1/public/tables/{table_id}", { params: { path: { table_id: "00000000-0000-7000-8000-000000000000" } } });
const code: components["schemas"]["ErrorCode"] = missing.error!.code;
if (code === "TABLE_NOT_FOUND") {
  console.log(JSON.stringify([found.data!.data.map((row) => row.data["name"]), grouped.data!.data[0]!["mean"], near.data!.total_count, moved.data!.success_count, listed.data!.total_count, file.data!.size, member.data!.member_id === again.data!.member_id]));
}

// @ts-expect-error: there is no such operator's value, a list is needed
const wrongCondition: components["schemas"]["Condition"] = { $in: 4 };
// @ts-expect-error: there is no such stage
const wrongStage: components["schemas"]["Stage"] = { $lookup: {} };
// @ts-expect-error: there is no such type
const wrongColumn: components["schemas"]["ColumnDefinition"] = { type: "text" };
// @ts-expect-error: there is no such code
const wrongCode: components["schemas"]["ErrorCode"] = "NO_SUCH_CODE";
// @ts-expect-error: a centre is needed
const wrongNear: components["schemas"]["GeoRequest"]["near"] = { max_distance: 1 };
void [wrongCondition, wrongStage, wrongColumn, wrongCode, wrongNear];
