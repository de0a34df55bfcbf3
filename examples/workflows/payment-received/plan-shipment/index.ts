// Adds a row to the table "shipments" (order_number, key). A step runs at least once: `key` is the same for all its tries.

export default async ({ order }: any, ctx: any) => {
  const shipments = ctx.api.rows("shipments");
  const known = (await shipments.query({ where: { key: ctx.idempotencyKey } })).data;
  const row = known[0] ?? (await shipments.create({ order_number: order, key: ctx.idempotencyKey }));
  return { shipment: row.id };
};
