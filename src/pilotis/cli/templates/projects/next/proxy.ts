import { NextResponse, type NextRequest } from "next/server";
import { clientOf, COOKIE, nameOf } from "./lib/pilotis";

/** Renews the session before a page is rendered, and sends it to the browser as cookies. */
export async function proxy(request: NextRequest) {
  const changed = new Map<string, string | null>();
  const pilotis = clientOf({
    get: (name) => request.cookies.get(nameOf(name))?.value,
    set: (name, value) => void (changed.set(nameOf(name), value), request.cookies.set(nameOf(name), value)),
    remove: (name) => void (changed.set(nameOf(name), null), request.cookies.delete(nameOf(name))),
  });
  // A session that has ended is that of a visitor.
  await pilotis.members.token().catch(() => null);
  const response = NextResponse.next({ request: { headers: request.headers } });
  for (const [name, value] of changed) {
    if (value === null) response.cookies.delete(name);
    else response.cookies.set(name, value, COOKIE);
  }
  return response;
}

export const config = { matcher: "/((?!_next/).*)" };
