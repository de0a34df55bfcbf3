"use strict";
// Values are inserted only by textContent, and tokens stay in this function's memory.
(() => {
  /**
   * @typedef {{page: string, app: string, public_key: string | null, language: string, texts: Record<string, string>,
   *   errors: Record<string, string>}} Data
   */
  const MEMBERS = "/v1/public/app-members";
  /** An element of the page. @param {string} id */
  const $ = (id) => /** @type {HTMLInputElement} */ (document.getElementById(id));
  /** @type {Data} */
  const data = JSON.parse($("data").textContent || "");
  const { texts, errors } = data;
  const sections = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-page]")]);
  const forms = /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll("form[data-form]"));
  const [codeText, who, address, ownPassword, deny, invited] = [
    "code-text",
    "who",
    "address",
    "own-password",
    "deny",
    "invited",
  ].map($);
  // Which field of a request a sentence is about.
  const FIELDS = /** @type {Record<string, string>} */ ({
    login_id: "INVALID_LOGIN",
    email: "INVALID_EMAIL",
    password: "INVALID_PASSWORD",
    new_password: "INVALID_PASSWORD",
  });
  // The token of a mailed link stays here alone: not in the address bar, not in the history.
  const linkToken = location.hash.slice(1);
  // Where a member goes that has signed in.
  const home = data.page === "invite" && linkToken ? "invite" : "account";
  if (linkToken) history.replaceState(null, "", location.pathname + location.search);

  let token = "";
  let ticket = "";

  const headers = () => ({
    "Content-Type": "application/json",
    "Accept-Language": data.language,
    ...(data.public_key ? { "X-Public-Key": data.public_key } : {}),
    ...(token ? { Authorization: `Bearer ${token}` } : {}),
  });

  /** What the server has not done, by its code. */
  class Rejected extends Error {
    /** @param {string} code */
    constructor(code) {
      super(code);
      this.code = code;
    }
  }

  /**
   * Send a request; throws `Rejected`.
   * @param {string} method @param {string} path @param {object} [body]
   */
  async function call(method, path, body) {
    /** @type {Response} */
    let answer;
    try {
      answer = await fetch(path, {
        method,
        headers: headers(),
        body: body && JSON.stringify(body),
      });
    } catch {
      throw new Rejected("UNREACHABLE");
    }
    const found = await answer.json().catch(() => ({}));
    if (answer.ok) return found;
    const field = found.details?.[0]?.field;
    throw new Rejected(found.code === "VALIDATION_FAILED" ? FIELDS[field] || "OTHER" : found.code || "OTHER");
  }

  /** @param {string} kind @param {string} text */
  function say(kind, text) {
    const paragraph = document.createElement("p");
    paragraph.className = `notice ${kind}`;
    paragraph.textContent = text;
    $("status").replaceChildren(paragraph);
  }

  /** @param {string} text */
  function done(text) {
    say("success", text);
    $("status").tabIndex = -1;
    $("status").focus();
  }

  /** Show one section; nothing that was typed into another stays. @param {string} name */
  function show(name) {
    $("status").replaceChildren();
    for (const form of forms) form.reset();
    for (const section of sections) {
      section.hidden = section.dataset.page !== name;
      // Password managers find the fields of one form alone.
      if (section.hidden) section.remove();
      else $("status").before(section);
    }
    document.title = `${document.querySelector("h1")?.textContent} · ${data.app}`;
    /** @type {HTMLElement | null} */ (document.querySelector("main :is(input, button)"))?.focus();
  }

  /** Go to a section that has an address of its own. @param {string} name */
  function go(name) {
    if (["account", "invite"].includes(name) && !token) name = "sign-in";
    if (!location.pathname.endsWith(`/${name}`)) history.pushState(null, "", name + location.search);
    show(name);
    if (name === "account") account().catch(complain);
    if (name === "invite") invitation().catch(complain);
  }

  /** @param {unknown} error */
  function complain(error) {
    if (!(error instanceof Rejected)) throw error;
    // A session that has ended is begun again.
    if (["INVALID_TOKEN", "TOKEN_REQUIRED"].includes(error.code) && token) {
      token = "";
      go("sign-in");
    }
    say("error", errors[error.code] || errors.OTHER);
  }

  async function account() {
    const own = await call("GET", `${MEMBERS}/me/account`);
    who.textContent = texts.signed_in_as.replace("{name}", own.nickname || own.login_id || own.email || "");
    address.textContent = own.email || (own.pending_email ? `${own.pending_email}: ${texts.unconfirmed}` : "");
    formOf("address").hidden = own.email !== null;
    ownPassword.hidden = own.login_id === null;
  }

  async function invitation() {
    const { name } = await call("GET", `${MEMBERS}/invitations/${linkToken}`);
    invited.textContent = texts.invited_by.replace("{team}", name);
  }

  /** @param {string} name */
  const formOf = (name) => /** @type {HTMLFormElement} */ ([...forms].find((form) => form.dataset.form === name));

  /** @param {string} email */
  function askForCode(email) {
    show("code");
    codeText.textContent = texts.code_text.replace("{email}", email);
  }

  /** What each form does with its fields. @type {Record<string, (given: Record<string, string>) => Promise<void>>} */
  const actions = {
    "sign-in": async (given) => {
      token = (await call("POST", `${MEMBERS}/signin`, given)).access_token;
      go(home);
    },
    "sign-up": async ({ email, ...given }) => {
      const body = { ...given, language: data.language, ...(email ? { email } : {}) };
      token = (await call("POST", `${MEMBERS}/signup`, body)).access_token;
      ticket = "";
      if (email) askForCode(email);
      else go(home);
    },
    code: async ({ code }) => {
      await call("POST", `${MEMBERS}/me/email/confirm`, ticket ? { code, ticket } : { code });
      go(home);
      done(texts.verify_done);
    },
    forgot: async ({ login_id }) => {
      await call("POST", `${MEMBERS}/password-reset`, login_id.includes("@") ? { email: login_id } : { login_id });
      formOf("forgot").reset();
      done(texts.asked);
    },
    reset: async ({ password }) => {
      await call("POST", `${MEMBERS}/password-reset/confirm`, { token: linkToken, password });
      go("sign-in");
      done(texts.reset_done);
    },
    invite: async () => {
      await call("POST", `${MEMBERS}/invitations/accept`, { token: linkToken });
      go("account");
      done(texts.joined);
    },
    verify: async ({ password }) => {
      await call("POST", `${MEMBERS}/email-verification`, { token: linkToken, password });
      formOf("verify").hidden = true;
      done(texts.verify_done);
    },
    address: async ({ email }) => {
      ticket = (await call("POST", `${MEMBERS}/me/email`, { email })).ticket;
      askForCode(email);
    },
    password: async (given) => {
      await call("PATCH", `${MEMBERS}/me/password`, given);
      formOf("password").reset();
      done(texts.password_changed);
    },
    "sign-out": async () => {
      await call("POST", `${MEMBERS}/signout`);
      token = "";
      go("sign-in");
      done(texts.signed_out);
    },
    delete: async ({ password }) => {
      await call("DELETE", `${MEMBERS}/me`, { password });
      token = "";
      go("sign-in");
      done(texts.deleted);
    },
  };

  /** Do something while no button can be pressed. @param {() => Promise<void>} action */
  async function run(action) {
    const buttons = /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll("main button"));
    for (const button of buttons) button.disabled = true;
    say("plain", texts.wait);
    try {
      await action();
    } catch (error) {
      complain(error);
    } finally {
      for (const button of buttons) button.disabled = false;
    }
  }

  for (const form of forms) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = /** @type {Record<string, string>} */ (Object.fromEntries(new FormData(form)));
      run(() => actions[form.dataset.form || ""](given));
    });
  }
  for (const link of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-to]"))) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      go(link.dataset.to || "sign-in");
    });
  }
  deny.addEventListener("click", () =>
    run(async () => {
      await call("POST", `${MEMBERS}/email-verification/deny`, { token: linkToken });
      formOf("verify").hidden = true;
      done(texts.deny_done);
    }),
  );
  // The session lasts as long as the page, whose memory alone has its token.
  addEventListener("pagehide", () => {
    if (token) fetch(`${MEMBERS}/signout`, { method: "POST", headers: headers(), keepalive: true });
  });
  addEventListener("popstate", () => go(location.pathname.split("/").pop() || "sign-in"));

  const needsLink = ["reset", "verify", "invite"].includes(data.page);
  if (["account", "invite"].includes(data.page)) go(data.page);
  else show(data.page);
  if (needsLink && !linkToken) {
    formOf(data.page).hidden = true;
    say("error", texts.no_token);
  } else if (!data.public_key) say("error", texts.no_key);
})();
