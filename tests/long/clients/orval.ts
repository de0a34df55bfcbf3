// What a page does with the functions that orval makes, one for each operation.
import { completeUpload, createRow, createTable, createUpload, listRows, queryRows, signInMember, signUpMember } from "./generated/pilotis.js";

const { SERVER, PUBLIC_KEY, STORAGE } = process.env as Record<string, string>;
const { fetch } = globalThis;
// orval's functions have the paths alone; a page would be on the same origin, or give a mutator.
globalThis.fetch = (url, init) =>
  fetch(new URL(String(url), SERVER), { ...init, headers: { ...(init?.headers as Record<string, string>), "X-Public-Key": PUBLIC_KEY! } });

function data<T extends { status: number; data: unknown }, S extends number>(answer: T, status: S): Extract<T, { status: S }>["data"] {
  if (answer.status !== (status as number)) throw new Error(JSON.stringify(answer));
  return answer.data as never;
}

const schema = { name: "string", rating: { type: "number" } } as const;
const { id } = data(await createTable({ title: "cafes of orval", schema, access_level: "Public" }), 201);
for (const rating of [4.5, 3.0]) data(await createRow(id, { data: { name: `cafe ${rating}`, rating } }), 201);
const { total_count } = data(await listRows(id, { limit: 1 }), 200);
const found = data(await queryRows(id, { where: { rating: { $gte: 4 } }, order_by: "rating" }), 200);
const permit = data(await createUpload(STORAGE!, { file_name: "cat.txt", file_size: 4, mime_type: "text/plain" }), 200);
const sent = await fetch(permit.upload_url, { method: permit.method, headers: permit.headers, body: "meow" });
if (!sent.ok) throw new Error(await sent.text());
const file = data(await completeUpload(STORAGE!, { file_id: permit.file_id }), 200);
const member = data(await signUpMember({ login_id: "orval", password: "correct horse battery" }), 201);
const again = data(await signInMember({ login_id: "orval", password: "correct horse battery" }), 200);
console.log(JSON.stringify([found.data[0]!.data["name"], total_count, file.size, member.member_id === again.member_id]));
