import { ApiError } from "./errors.ts";
import { passes, type Http, type Tokens } from "./http.ts";
import { arrival } from "./pages.ts";
import type { Session, SessionEvent, SessionStorage } from "./types.ts";

const SOON = 60_000;
const LOCK_WAIT = 3000;
const MAX_DEVICES = 5;

/**
 * The session of a member: stored, renewed before it expires, and shared with other tabs.
 *
 * Of tabs that renew at once one asks the server, if the browser has locks; the others find its tokens in the storage. A
 * lock is only waited for a moment, and nothing goes wrong without it: the server answers the same refresh token with
 * the same pair, until that pair was used. So no frozen tab can hold up or sign out the others.
 */
export class Sessions implements Tokens {
  private current: Session | null = null;
  private loaded: Promise<void>;
  private isLoaded = false;
  private renewing: Promise<Session> | null = null;
  private rejectedToken: string | null = null;
  /** The token that was decoded last, and when it expires. */
  private readToken: string | null = null;
  private expiry = 0;
  private readonly listeners = new Set<(event: SessionEvent) => void>();
  private readonly name: string;
  readonly storage: SessionStorage;

  constructor(
    private readonly http: Http,
    storage: SessionStorage | undefined,
  ) {
    this.name = `pilotis:${http.options.publicKey}`;
    const shared = storage ? null : pageStorage();
    this.storage = tolerant(storage ?? shared ?? memoryStorage());
    this.loaded = this.load();
    if (shared) {
      // Of changes by other tabs alone.
      addEventListener("storage", (event) => {
        if (event.key === this.name || event.key === null) void this.follow();
      });
    }
  }

  async get(): Promise<Session | null> {
    await this.loaded;
    return this.current;
  }

  /** Stores a session that begins, or that was renewed. */
  async set(session: Session, type: "signed_in" | "refreshed" = "signed_in"): Promise<void> {
    await this.loaded;
    await this.put(session, type);
  }

  private async put(session: Session, type: "signed_in" | "refreshed"): Promise<void> {
    this.current = { member_id: session.member_id, access_token: session.access_token, refresh_token: session.refresh_token };
    this.rejectedToken = null;
    await this.storage.set(this.name, JSON.stringify(this.current));
    this.tell({ type, member_id: session.member_id });
  }

  async clear(reason: "asked" | "ended"): Promise<void> {
    const was = await this.get();
    this.current = null;
    await this.storage.remove(this.name);
    if (was) this.tell({ type: "signed_out", reason });
  }

  /** The tokens by which the server knows this device of members, the oldest first, as a header has them. */
  async devices(): Promise<string> {
    return Object.values(await this.known()).join();
  }

  /** Keeps the token of a member, "" for one who has not signed in yet, with those of the last others. */
  async addDevice(member: string, token: string): Promise<void> {
    const { [member]: _, ...others } = await this.known();
    const kept = [...Object.entries(others), [member, token]].slice(-MAX_DEVICES);
    await this.storage.set(`${this.name}:devices`, JSON.stringify(Object.fromEntries(kept)));
  }

  private async known(): Promise<Record<string, string>> {
    try {
      return JSON.parse((await this.storage.get(`${this.name}:devices`)) ?? "{}");
    } catch {
      return {};
    }
  }

  onChange(listener: (event: SessionEvent) => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  rejected(token: string): void {
    this.rejectedToken = token;
  }

  token(now: () => number): string | null | Promise<string | null> {
    if (!this.isLoaded) return this.renewed(now);
    return this.current && !this.fresh(this.current, now) ? this.renewed(now) : (this.current?.access_token ?? null);
  }

  private async renewed(now: () => number): Promise<string | null> {
    let session = await this.get();
    // A pair that was lost for long has an access token that has expired: its refresh token gets the next one.
    for (let tries = 0; session && !this.fresh(session, now) && tries < 3; tries++) {
      session = await (this.renewing ??= this.renew(session, now).finally(() => (this.renewing = null)));
    }
    return session?.access_token ?? null;
  }

  private fresh(session: Session, now: () => number): boolean {
    if (session.access_token !== this.readToken) {
      this.readToken = session.access_token;
      this.expiry = expiry(session.access_token);
    }
    return session.access_token !== this.rejectedToken && this.expiry - now() > SOON;
  }

  private async renew(session: Session, now: () => number): Promise<Session> {
    const locks = typeof navigator === "object" ? navigator.locks : undefined;
    if (!locks) return this.exchange(session, now);
    const begun: { exchange?: Promise<Session> } = {};
    try {
      return await locks.request(this.name, { signal: AbortSignal.timeout(LOCK_WAIT) }, () => (begun.exchange = this.exchange(session, now)));
    } catch (error) {
      // Another tab holds the lock and does nothing, or the page may have none.
      if (begun.exchange || error instanceof ApiError) throw error;
      return this.exchange(session, now);
    }
  }

  private async exchange(session: Session, now: () => number, number = 0): Promise<Session> {
    const newer = await this.changed(session);
    if (newer && this.fresh(newer, now)) return newer;
    const used = newer ?? session;
    let pair: { access_token: string; refresh_token: string };
    try {
      pair = await this.http.json("POST", "/v1/auth/re-issue", { auth: { token: used.refresh_token }, once: true });
    } catch (error) {
      if (error instanceof ApiError && passes(error) && number < (this.http.options.retries ?? 3)) {
        // Not the same request again: a tab that was frozen for long must not send what other tabs have used since.
        await new Promise((resolve) => setTimeout(resolve, (1 + Math.random()) * 200 * 2 ** number));
        return this.exchange(used, now, number + 1);
      }
      if (!(error instanceof ApiError) || (error.status !== 401 && error.status !== 403)) throw error;
      const meanwhile = await this.changed(used);
      if (meanwhile) return meanwhile;
      await this.clear("ended");
      throw new ApiError(error.status, "SESSION_ENDED", `Sign in again: ${error.message}`, error.body, null, { cause: error });
    }
    const meanwhile = await this.changed(used);
    if (meanwhile && expiry(meanwhile.access_token) >= expiry(pair.access_token)) return meanwhile;
    // Signed out while the request was on its way.
    if (!this.current) throw new ApiError(0, "SESSION_ENDED", "Signed out.");
    const renewed = { ...used, ...pair };
    await this.set(renewed, "refreshed");
    return renewed;
  }

  /** Returns the session that is stored, if it is another one. */
  private async changed(from: Session): Promise<Session | null> {
    const stored = await this.stored();
    if (!stored || stored.refresh_token === from.refresh_token) return null;
    this.current = stored;
    return stored;
  }

  /** Takes over what another tab has stored. */
  private async follow(): Promise<void> {
    const was = await this.get();
    const now = (this.current = await this.stored());
    if (!now) {
      if (was) this.tell({ type: "signed_out", reason: "asked" });
    } else if (now.access_token !== was?.access_token) {
      this.tell({ type: was?.member_id === now.member_id ? "refreshed" : "signed_in", member_id: now.member_id });
    }
  }

  private async load(): Promise<void> {
    const arrived = arrival(this.http);
    this.current = await this.stored();
    try {
      if (arrived) await this.put(await arrived(), "signed_in");
    } catch (error) {
      this.tell({ type: "sign_in_failed", error: error as ApiError });
    }
    this.isLoaded = true;
  }

  private async stored(): Promise<Session | null> {
    try {
      return JSON.parse((await this.storage.get(this.name)) ?? "null");
    } catch {
      return null;
    }
  }

  private tell(event: SessionEvent): void {
    // Never awaited, and outside of what is going on: a listener may call the client, and may fail.
    for (const listener of this.listeners) void Promise.resolve(event).then(listener);
  }
}

/** When a token expires, in milliseconds since 1970; 0 for what is no token. */
function expiry(token: string): number {
  try {
    return JSON.parse(atob(token.split(".")[1]!.replace(/-/g, "+").replace(/_/g, "/"))).exp * 1000;
  } catch {
    return 0;
  }
}

export function memoryStorage(): SessionStorage {
  const values = new Map<string, string>();
  return {
    get: (name) => values.get(name),
    set: (name, value) => void values.set(name, value),
    remove: (name) => void values.delete(name),
  };
}

function pageStorage(): SessionStorage | null {
  try {
    // Node.js has one too, which needs a file. Where a page may not have it, reading the name fails.
    if (typeof document !== "object" || !localStorage) return null;
  } catch {
    return null;
  }
  return {
    get: (name) => localStorage.getItem(name),
    set: (name, value) => localStorage.setItem(name, value),
    remove: (name) => localStorage.removeItem(name),
  };
}

/** Keeps in memory what a storage rejects, because it is full or forbidden. */
function tolerant(storage: SessionStorage): SessionStorage {
  const lost = memoryStorage();
  return {
    async get(name) {
      try {
        return (await lost.get(name)) ?? (await storage.get(name));
      } catch {
        return null;
      }
    },
    async set(name, value) {
      try {
        await storage.set(name, value);
        lost.remove(name);
      } catch {
        lost.set(name, value);
      }
    },
    async remove(name) {
      lost.remove(name);
      try {
        await storage.remove(name);
      } catch {
        // Then it is not there, or cannot be read either.
      }
    },
  };
}
