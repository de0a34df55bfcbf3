// At most five products from the table "products" (name, price in cents, stock) whose names contain a text.

export default async ({ name }: any, ctx: any) => {
  const where = { name: { $contains: name } };
  const rows = (await ctx.api.rows("products").query({ where, limit: 5 })).data;
  return { products: rows.map(({ data }: any) => ({ name: data.name, price: data.price, stock: data.stock })) };
};
