// The functions that @hey-api/openapi-ts makes, one for each operation.
import { client } from "./generated/sdk/client.gen.js";
import {
  aggregateRows, completeUpload, createRow, createTable, createUpload, getTable, listRows, queryRows, signInMember, signUpMember,
} from "./generated/sdk/index.js";

const { SERVER, PUBLIC_KEY, STORAGE: storage_id } = process.env as Record<"SERVER" | "PUBLIC_KEY" | "STORAGE", string>;
client.setConfig({ baseUrl: SERVER, headers: { "X-Public-Key": PUBLIC_KEY } });

const table = await createTable({ body: { title: "coffee houses", schema: { name: "string", rating: { type: "number" } }, access_level: "Public" } });
const table_id = table.data!.id;
for (const rating of [4.5, 3.0]) {
  await createRow({ path: { table_id }, body: { data: { name: `cafe ${rating}`, rating } } });
}
const found = await queryRows({ path: { table_id }, body: { where: { rating: { $gte: 4 } } } });
const grouped = await aggregateRows({ body: { table_id, pipeline: [{ $group: { _id: null, mean: { $avg: "$rating" } } }] } });
const listed = await listRows({ path: { table_id }, query: { limit: 1 } });
const upload = { file_name: "dog.txt", file_size: 4, mime_type: "text/plain" };
const permit = (await createUpload({ path: { storage_id }, body: upload })).data!;
const sent = await fetch(permit.upload_url, { method: permit.method, headers: permit.headers, body: "meow" });
if (!sent.ok) throw new Error(await sent.text());
const file = await completeUpload({ path: { storage_id }, body: { file_id: permit.file_id } });
const account = { login_id: "hey-api", password: "correct horse battery" };
const member = await signUpMember({ body: account });
const again = await signInMember({ body: account });
const missing = await getTable({ path: { table_id: "00000000-0000-7000-8000-000000000000" } });
if (missing.error && missing.error.code === "TABLE_NOT_FOUND") {
  console.log(JSON.stringify([found.data!.data.map((row) => row.data["name"]), grouped.data!.data[0]!["mean"], listed.data!.total_count, file.data!.size, member.data!.member_id === again.data!.member_id]));
}
