// Stores a report as reports/<day>.csv in the storage whose id is the variable STORAGE. Running it again replaces the file.

const quoted = (value: unknown) => `"${String(value).replaceAll('"', '""')}"`;

export default async ({ day, lines }: any, ctx: any) => {
  const rows = lines.map((one: any) => [quoted(one.item), one.quantity, one.revenue].join(","));
  const csv = ["item,quantity,revenue", ...rows, ""].join("\r\n");
  const file = await ctx.api.files(ctx.env.STORAGE).write(`reports/${day}.csv`, csv, "text/csv");
  return { url: file.url, bytes: file.size };
};
