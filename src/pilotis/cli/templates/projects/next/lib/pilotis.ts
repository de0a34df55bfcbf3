import { createClient, type SessionStorage } from "@pilotis/client";
import { cookies } from "next/headers";
import type { App } from "./pilotis-types";

const url = process.env.PILOTIS_URL!;
const publicKey = process.env.PILOTIS_PUBLIC_KEY!;
export const COOKIE = { httpOnly: true, sameSite: "lax", path: "/", maxAge: 365 * 86_400 } as const;

/** A client whose session is kept elsewhere. Each request has its own: a client has one member. */
export function clientOf(storage: SessionStorage) {
  return createClient<App>({ url, publicKey, storage });
}

/** The client of the request that is rendered, or of an action; pages in the browser never see a token. */
export async function pilotis() {
  const jar = await cookies();
  return clientOf({
    get: (name) => jar.get(nameOf(name))?.value,
    // While a page is rendered cookies cannot be set: `proxy.ts` has renewed the session before.
    set: (name, value) => void jar.set(nameOf(name), value, COOKIE),
    remove: (name) => void jar.delete(nameOf(name)),
  });
}

/** A cookie's name has no colon (RFC 6265, section 4.1.1). */
export const nameOf = (name: string) => name.replaceAll(":", "-");
