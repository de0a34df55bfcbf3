// Creates an order whose total comes from the prices on the server, whatever the client says.
// POST …/order-total/invoke {"payload": {"items": [{"product_id": "…", "quantity": 2}]}}

type Item = { product_id: string; quantity: number };

export default async (payload: { items?: Item[] }, ctx: any) => {
  const items = payload.items ?? [];
  if (!items.length || !items.every((item) => Number.isInteger(item.quantity) && item.quantity > 0)) {
    throw new Error("An order has items, each with a whole quantity above zero.");
  }
  const products = await Promise.all(items.map((item) => ctx.api.rows("products").get(item.product_id)));
  const total = products.reduce((sum: number, product: any, at: number) => sum + product.data.price * items[at].quantity, 0);
  const order = await ctx.api.rows("orders").create({ items, total });
  ctx.log.info("order", order.id, "of", total);
  return { order_id: order.id, total };
};
