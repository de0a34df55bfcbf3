import { ApiError } from "./errors.ts";
import type { Http } from "./http.ts";
import type { PageOptions, Session } from "./types.ts";

/** A way to a page of the server: what proves that its end belongs to its begin (RFC 7636), and the address after it. */
interface Way {
  verifier: string;
  after: string;
}

const nameOf = (http: Http, state: string) => `pilotis:${http.options.publicKey}:${state}`;
const base64url = (bytes: Uint8Array) => btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

/** Leaves this page for one of the server on which the member signs in. */
export async function leave(http: Http, { page = "sign-in", redirectUri, language }: PageOptions = {}): Promise<never> {
  if (typeof document !== "object" || !globalThis.crypto?.subtle) throw new ApiError(0, "NOT_A_PAGE", "Only a page with TLS signs in with a page.");
  const { pages_url } = await http.json("GET", "/v1/public/account-settings", { auth: "none" });
  const [verifier, state] = [random(), random()];
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  const query = new URLSearchParams({
    redirect_uri: redirectUri ?? location.origin + location.pathname,
    code_challenge: base64url(new Uint8Array(digest)),
    state,
  });
  if (language) query.set("lang", language);
  const way: Way = { verifier, after: redirectUri ?? location.href };
  sessionStorage.setItem(nameOf(http, state), JSON.stringify(way));
  location.assign(`${pages_url}/${page}?${query}`);
  // Until the other page is there.
  return new Promise(() => undefined);
}

/** Where this page is the end of a way: how to take the sign-in over. The address has no trace of it from now on. */
export function arrival(http: Http): (() => Promise<Session>) | null {
  let way: Way;
  let code: string;
  try {
    const given = new URLSearchParams(location.search);
    const name = nameOf(http, given.get("state")!);
    way = JSON.parse(sessionStorage.getItem(name)!);
    code = given.get("code")!;
    sessionStorage.removeItem(name);
    history.replaceState(history.state, "", way.after);
  } catch {
    // No page, or one that was opened otherwise.
    return null;
  }
  return () => http.json("POST", "/v1/auth/oauth/exchange", { body: { code, code_verifier: way.verifier }, auth: "none" });
}
