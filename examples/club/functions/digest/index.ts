export default async (_: unknown, { api }: any) => {
  const day = new Date().toISOString().slice(0, 10);
  const today = { created_at: { $gte: `${day}T00:00:00Z` } };
  const [posts, comments] = await Promise.all(["posts", "comments"].map((table) => api.rows(table).where(today).count()));
  return (await api.rows("digests").upsert("day", { day, posts, comments })).data;
};
