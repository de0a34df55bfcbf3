// What must compile with the client and the types of an app, and what must not.
import { createClient, inc, isApiError } from "@pilotis/client";
import type { App } from "./app.js";

const pilotis = createClient<App>({ url: "http://127.0.0.1:8090", publicKey: "pk_" });
const orders = pilotis.rows("orders");

export async function right() {
  const page = await orders.where({ state: "open", amount: { $gte: 100 } }).orderBy("due").limit(50);
  const customer: string | undefined = page.rows[0]?.data.customer;
  const due: string | null | undefined = page.rows[0]?.data.due;
  for await (const row of orders.where({ customer: { $startsWith: "A" }, $or: [{ due: null }, { amount: 1 }] })) row.data.amount?.toFixed(2);
  const row = await orders.create({ customer: "Ada" });
  await orders.update(row, { state: "paid", due: null });
  await orders.update(row.id, { amount: inc(5) });
  await orders.upsert("number", { number: "A-7", customer: "Ada" });
  await orders.where({ "address.city": "Seoul", note: "equal" }).delete();
  await pilotis.transaction((t) => {
    const order = t.create("orders", { customer: "Ada" });
    t.create("lines", { order, qty: 2 });
    t.update("orders", order, { amount: inc(1) });
  });
  orders.live(row.id, (now) => now?.data.amount?.toFixed(2))();
  await pilotis.rows("이름 · 1").create({ 가격: 1, class: "a", größe: null });
  const line = await pilotis.rows("lines").all().expand("order", { others: { from: "lines.order" } }).first();
  const amount: number | null | undefined = line?.expanded?.order?.data.amount;
  const others: string = line?.expanded?.others[0].id;
  const free: number = (await createClient({ url: "", publicKey: "" }).rows("any").get("id")).data.whatever;
  return [customer, due, amount, others, isApiError(row, "UNIQUE_VIOLATION"), free];
}

export async function wrong() {
  // @ts-expect-error: there is no such table
  pilotis.rows("order");
  // @ts-expect-error: there is no such column
  orders.where({ color: "red" });
  // @ts-expect-error: another type
  orders.where({ amount: "5" });
  // @ts-expect-error: no operator of numbers
  orders.where({ amount: { $contains: "5" } });
  // @ts-expect-error: an encrypted column is compared for equality only
  orders.where({ note: { $contains: "x" } });
  // @ts-expect-error: none of the values
  orders.where({ state: "lost" });
  // @ts-expect-error: the customer is required
  orders.create({ amount: 1 });
  // @ts-expect-error: a required column cannot be emptied
  orders.update("id", { customer: null });
  // @ts-expect-error: only numbers are increased
  orders.update("id", { due: inc(1) });
  // @ts-expect-error: no such unique key
  orders.upsert("customer", { customer: "Ada" });
  // @ts-expect-error: it may be missing
  (await orders.get("id")).data.customer.length;
  // @ts-expect-error: the row that it refers to may be missing
  (await pilotis.rows("lines").get("id", { expand: ["order"] })).expanded?.order.data;
  // @ts-expect-error: that row has no such column
  (await pilotis.rows("lines").get("id", { expand: ["order"] })).expanded?.order?.data.qty;
  // @ts-expect-error: no such column
  orders.all().fields("color");
  // @ts-expect-error: the quantity is a number
  await pilotis.transaction((t) => t.create("lines", { qty: "2" }));
  // @ts-expect-error: there may be no such row
  orders.live("id", (now) => now.data);
  // @ts-expect-error: a client needs a key
  createClient({ url: "" });
}
