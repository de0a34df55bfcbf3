// Stores receipts/<order>.txt in the storage whose id is the variable STORAGE. Running it again replaces the file.

export default async ({ order, item, amount }: any, ctx: any) => {
  const text = `Receipt for order ${order}\n${item}: ${(amount / 100).toFixed(2)} EUR\n`;
  const file = await ctx.api.files(ctx.env.STORAGE).write(`receipts/${order}.txt`, text, "text/plain");
  return { url: file.url };
};
