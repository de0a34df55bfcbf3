// Lists each uploaded picture with the link of its thumbnail; for a trigger by file.created on a file storage.
// The server makes the thumbnail when the link is first asked for, and keeps it. Events come at least once, so a
// picture that is listed already is left alone.

const PICTURE = /^image\/(jpeg|png|webp|gif)$/;

export default async (event: any, ctx: any) => {
  const { file } = event.data;
  if (!PICTURE.test(file.mime_type)) return { listed: false };
  const pictures = ctx.api.rows("pictures");
  const known = await pictures.query({ where: { file_id: file.id }, limit: 1 });
  if (known.data.length) return { listed: false };
  const thumbnail = `${file.url}?width=200&height=200&fit=cover&format=webp`;
  await pictures.create({ file_id: file.id, name: file.name, url: file.url, thumbnail });
  return { listed: true };
};
