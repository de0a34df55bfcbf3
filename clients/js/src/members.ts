import type { Http, Sent } from "./http.ts";
import { leave } from "./pages.ts";
import type { Sessions } from "./session.ts";
import type { Members } from "./types.ts";

const PATH = "/v1/public/app-members";

export function members(http: Http, sessions: Sessions): Members {
  const me = (method: string, path = "", body?: unknown) => http.json(method, `${PATH}/me${path}`, { body });
  const begin = async (path: string, body?: unknown, auth?: "none", more?: Sent) => {
    const session = await http.json("POST", PATH + path, { ...more, body, auth });
    await sessions.set(session);
    return session;
  };
  return {
    signUp: (data) => begin("/signup", data, "none"),
    async signIn(data) {
      // By it the server knows a device of the member, while others guess the password.
      const devices = await sessions.devices();
      const headers = devices ? { "X-Device-Token": devices } : undefined;
      let token: string | null = null;
      let member = "";
      try {
        const session = await begin("/signin", data, "none", { headers, hears: (response) => (token = response.headers.get("X-Device-Token")) });
        member = session.member_id;
        return session;
      } finally {
        // Also of who is asked for a second factor.
        if (token) await sessions.addDevice(member, token);
      }
    },
    signInWithPage: (options) => leave(http, options),
    guest: () => begin("", undefined, "none"),
    promote: (data) => begin("/signup", data),
    async signOut() {
      try {
        if (await sessions.get()) await http.json("POST", `${PATH}/signout`);
      } catch (error) {
        // Whose session has ended already, is signed out.
        if ((error as { status?: number }).status !== 401) throw error;
      }
      await sessions.clear("asked");
    },
    session: () => sessions.get(),
    token: () => Promise.resolve(sessions.token(http.clock)),
    setSession: (session) => sessions.set(session),
    me: (options) => http.json("GET", `${PATH}/me`, options),
    account: (options) => http.json("GET", `${PATH}/me/account`, options),
    update: (data) => me("PATCH", "", data),
    setCustomData: async (data) => (await me("PATCH", "/custom-data", { custom_data: data })).custom_data,
    async setPassword(current_password, new_password) {
      await me("PATCH", "/password", { current_password, new_password });
    },
    async deleteAccount(password) {
      const { deletes_at } = await me("DELETE", "", { password });
      await sessions.clear("asked");
      return deletes_at;
    },
    restore: () => me("POST", "/restore"),
    setEmail: (email) => me("POST", "/email", { email }),
    confirmEmail: (proof) => me("POST", "/email/confirm", proof),
    async requestPasswordReset(who) {
      await http.json("POST", `${PATH}/password-reset`, { body: who, auth: "none" });
    },
    async resetPassword(token, password) {
      await http.json("POST", `${PATH}/password-reset/confirm`, { body: { token, password }, auth: "none" });
    },
    onChange: (listener) => sessions.onChange(listener),
  };
}
