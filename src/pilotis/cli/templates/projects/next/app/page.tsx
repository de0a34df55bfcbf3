import { pilotis } from "../lib/pilotis";
import { Notes } from "./notes";

export default async function Page() {
  const client = await pilotis();
  const { rows } = await client.rows("notes").all().orderBy("created_at").limit(100);
  const session = await client.members.session();
  return <Notes notes={rows.map(({ id, data }) => ({ id, ...data }))} isMember={session !== null} />;
}
