// The sales of a day by item, from the table "orders" with the columns item, price, quantity and sold.

const DAY = 86_400_000;

export default async ({ day, until }: any, ctx: any) => {
  day ??= new Date((until ? Date.parse(until) : Date.now()) - DAY).toISOString().slice(0, 10);
  const table = await ctx.api.table("orders");
  const answer = await ctx.api.fetch("/v1/public/aggregate", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({
      table_id: table.id,
      pipeline: [
        { $match: { sold: day } },
        {
          $group: {
            _id: "$item",
            quantity: { $sum: "$quantity" },
            revenue: { $sum: { $multiply: ["$price", "$quantity"] } },
          },
        },
        { $sort: { _id: 1 } },
      ],
    }),
  });
  if (!answer.ok) throw new Error(`the orders cannot be read: ${await answer.text()}`);
  const lines = (await answer.json()).data.map((one: any) => ({ ...one, item: one._id, _id: undefined }));
  const revenue = lines.reduce((sum: number, one: any) => sum + one.revenue, 0);
  console.log(`${lines.length} items were sold on ${day}`);
  return { day, lines, number: lines.length, revenue };
};
