"use strict";
// Values are inserted only by textContent, and tokens stay in this function's memory.
(() => {
  /**
   * @typedef {{password: boolean, email_code: boolean, email_link: boolean, passkey_origins: string[],
   *   sign_up: boolean, invited: boolean, login_id_form: "any" | "email", email_verification: "off" | "optional" | "required", second_factor: "off" | "optional" | "required",
   *   deletion_grace_days: number, challenge_on: string[], challenge: {provider: string, site_key: string}, fields: Field[]}} Settings
   * @typedef {{name: string, label: string, type: string, is_required: boolean}} Field
   * @typedef {{page: string, app: string, public_key: string | null, language: string, texts: Record<string, string>,
   *   errors: Record<string, string>, settings: Settings,
   *   vendors: {client_id: string, providers: {provider: string, name: string}[]}}} Data
   * @typedef {{verifier: string, place: string, code?: string, error?: string}} Trip a sign-in with a vendor
   * @typedef {{session_id: string, user_agent: string | null, refreshed_at: string, is_current: boolean}} Device
   * @typedef {{id: string, name: string, created_at: string}} Passkey
   */
  const MEMBERS = "/v1/public/app-members";
  /** An element of the page. @param {string} id */
  const $ = (id) => /** @type {HTMLInputElement} */ (document.getElementById(id));
  /** @type {Data} */
  const data = JSON.parse($("data").textContent || "");
  const { texts, errors, settings } = data;
  // Who comes back from a vendor goes on where the way there began; another tab's sign-in is none of this one's.
  const TRIP = "pilotis.vendor";
  const came = Object.fromEntries(new URLSearchParams(location.search));
  if (came.code || came.error) {
    const known = sessionStorage.getItem(`${TRIP}.${came.state}`);
    sessionStorage.removeItem(`${TRIP}.${came.state}`);
    /** @type {Trip} */
    const begun = known ? JSON.parse(known) : { verifier: "", place: "sign-in" };
    if (known) sessionStorage.setItem(TRIP, JSON.stringify({ ...begun, code: came.code, error: came.error }));
    location.replace(begun.place);
    return;
  }
  /** @type {Trip | null} */
  const trip = JSON.parse(sessionStorage.getItem(TRIP) || "null");
  sessionStorage.removeItem(TRIP);
  const sections = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-page]")]);
  const forms = /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll("form[data-form]"));
  // Sections that are not shown are not in the document.
  const [codeText, mailedText, mailed, who, address, ownLabel, ownPassword, deny, invited, noFactor] = [
    "code-text",
    "mailed-text",
    "mailed",
    "who",
    "address",
    "own-label",
    "own-password",
    "deny",
    "invited",
    "no-factor",
  ].map($);
  const [leavingText, deleteText, deleteButton] = ["leaving-text", "delete-text", "delete"].map($);
  const [joining, joinLogin, joinLabel] = ["joining", "join-login", "join-login-label"].map($);
  const [connected, identityList] = ["connected", "identities"].map($);
  const [factorState, factorPart, passkeyPart, ownPasskeys, devices, qr, key, codes] = [
    "factor-state",
    "factors",
    "passkeys",
    "own-passkeys",
    "devices",
    "qr",
    "key",
    "codes",
  ].map($);
  const [last, lastLabel, proofForm, proofLabel, proofValue, proofFault, proofCancel] = [
    "last",
    "last-label",
    "proof-form",
    "proof-label",
    "proof-value",
    "proof-fault",
    "proof-cancel",
  ].map($);
  const reasons = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-why]"));
  const proof = /** @type {HTMLDialogElement} */ (document.getElementById("proof"));
  proof.remove();
  const hasPasskeys = settings.passkey_origins.includes(location.origin) && passkeys.work();
  // Which field of a request a sentence is about.
  const FIELDS = /** @type {Record<string, string>} */ ({
    login_id: "INVALID_LOGIN",
    email: "INVALID_EMAIL",
    password: "INVALID_PASSWORD",
    new_password: "INVALID_PASSWORD",
    redirect_uri: "INVALID_RETURN",
    code_challenge: "INVALID_RETURN",
  });
  // The token of a mailed link stays here alone: not in the address bar, not in the history.
  const linkToken = location.hash.slice(1);
  // The page of the app that has sent the member here, with the challenge of its verifier.
  const { redirect_uri, code_challenge, state, client_id, again } = Object.fromEntries(
    new URLSearchParams(location.search),
  );
  const isSent = Boolean(redirect_uri && code_challenge);
  // Where a member goes that has signed in.
  // The part of the account that the page was opened for.
  let part = came.part;
  // Who is invited to the app has no account yet, unlike who is invited to a team.
  const isNew = data.page === "invite" && linkToken.startsWith("mi_");
  const home = data.page === "invite" && linkToken && !isNew ? "invite" : isSent ? "back" : "account";
  if (linkToken) history.replaceState(null, "", location.pathname + location.search);

  let token = "";
  // What the code that was mailed last, or the second factor, is entered with.
  let ticket = "";
  // The sign-in that makes a member once the app's own fields are filled in.
  let unfinished = /** @type {{path: string, body: object} | null} */ (null);

  // What the app may ask a solved puzzle for, by its route.
  const CHALLENGED = /** @type {Record<string, string>} */ ({
    [`${MEMBERS}/signup`]: "signup",
    [`${MEMBERS}/signin`]: "signin",
    [`${MEMBERS}/email-sign-in`]: "mail",
    [`${MEMBERS}/password-reset`]: "reset",
  });
  const solvedChallenge = async () => {
    if (settings.challenge.provider === "proof_of_work")
      return { "X-Challenge-Token": await challenges.solve(await call("POST", "/v1/public/challenges")) };
    const solved = challenges.ask(settings.challenge, $("challenge")).catch(() => {
      throw new Rejected("CHALLENGE_REQUIRED");
    });
    return { "X-Challenge-Token": await solved };
  };
  const known = knownDevices(data.public_key);
  const headers = () => ({
    "Content-Type": "application/json",
    "Accept-Language": data.language,
    ...(data.public_key ? { "X-Public-Key": data.public_key } : {}),
    ...(token ? { Authorization: `Bearer ${token}` } : {}),
  });

  /** What the server has not done, by its code; `found` is its answer. */
  class Rejected extends Error {
    /** @param {string} code @param {any} [found] */
    constructor(code, found = {}) {
      super(code);
      this.code = code;
      this.found = found;
    }
  }

  /**
   * Send a request, again after the member has proved who it is where that is asked for; throws `Rejected`.
   * @param {string} method @param {string} path @param {object} [body] @param {boolean} [isGuessed]
   * @returns {Promise<any>}
   */
  async function call(method, path, body, isGuessed = false) {
    const action = CHALLENGED[path];
    const solved = isGuessed || (action && settings.challenge_on.includes(action)) ? await solvedChallenge() : {};
    /** @type {Response} */
    let answer;
    try {
      answer = await fetch(path, {
        method,
        headers: { ...headers(), ...solved, ...(action === "signin" ? known.header() : {}) },
        body: body && JSON.stringify(body),
      });
    } catch {
      throw new Rejected("UNREACHABLE");
    }
    const found = await answer.json().catch(() => ({}));
    const device = answer.headers.get("x-device-token");
    if (device) known.add(found.member_id || "", device);
    if (answer.ok) return found;
    // Somebody guesses the password: each try takes a puzzle.
    if (found.code === "CHALLENGE_REQUIRED" && action && !isGuessed) return call(method, path, body, true);
    if (found.code === "REAUTHENTICATION_REQUIRED" && found.methods?.length && !proof.open) {
      await prove(found.methods);
      return call(method, path, body);
    }
    const field = found.details?.[0]?.field;
    if (field?.startsWith("profile."))
      throw new Rejected(`PROFILE_${answer.status === 409 ? "TAKEN" : "INVALID"}`, found);
    throw new Rejected(found.code === "VALIDATION_FAILED" ? FIELDS[field] || "OTHER" : found.code || "OTHER", found);
  }

  /** What an authenticator app or a list of recovery codes gives. @param {string} code */
  const factorOf = (code) => (/^\d{6}$/.test(code.trim()) ? { totp: code.trim() } : { recovery_code: code.trim() });

  /** Let the member prove who it is, by one of some methods. @param {string[]} methods @returns {Promise<void>} */
  async function prove(methods) {
    const isPassword = methods.includes("password");
    if (!isPassword && hasPasskeys && methods.includes("passkey")) return proveByPasskey();
    const isMailed = !isPassword && !methods.includes("totp") && methods.includes("email_code");
    let mailTicket = "";
    if (isMailed)
      mailTicket = (await call("POST", `${MEMBERS}/me/reauthenticate/start`, { method: "email_code" })).ticket;
    proofLabel.textContent = isPassword ? texts.password : isMailed ? texts.mailed_proof : texts.any_code;
    proofValue.type = isPassword ? "password" : "text";
    proofValue.autocomplete = isPassword ? "current-password" : "one-time-code";
    proofValue.value = "";
    proofFault.hidden = true;
    document.body.append(proof);
    proof.showModal();
    return new Promise((resolve, reject) => {
      proofForm.onsubmit = async (event) => {
        event.preventDefault();
        const code = proofValue.value.trim();
        const given = isPassword
          ? { password: proofValue.value }
          : isMailed
            ? { code, ticket: mailTicket }
            : factorOf(code);
        try {
          token = (await call("POST", `${MEMBERS}/me/reauthenticate`, given)).access_token;
          proof.close();
          resolve();
        } catch (error) {
          if (!(error instanceof Rejected)) throw error;
          proofFault.textContent = errors[error.code] || errors.OTHER;
          proofFault.hidden = false;
          proofValue.select();
        }
      };
      // Escape closes it too; after the proof this changes nothing.
      proof.onclose = () => {
        proof.remove();
        reject(new Rejected("CANCELLED"));
      };
    });
  }

  /** Let the member prove who it is by a passkey. */
  async function proveByPasskey() {
    const { ticket: asked, options } = await call("POST", `${MEMBERS}/me/reauthenticate/start`, { method: "passkey" });
    const passkey = await withPasskey(() => passkeys.get(options));
    token = (await call("POST", `${MEMBERS}/me/reauthenticate`, { ticket: asked, passkey })).access_token;
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
    // What is shown once is not in the document either.
    codes.replaceChildren();
    key.textContent = "";
    qr.removeAttribute("src");
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
    if (name === "invite" && isNew && !token) return join();
    if (["account", "invite"].includes(name) && !token) name = "sign-in";
    if (!location.pathname.endsWith(`/${name}`)) history.pushState(null, "", name + location.search);
    show(name);
    if (name === "account") account().then(goToPart).catch(complain);
    if (name === "invite") invitation().catch(complain);
  }

  /** Show the part of the account that was asked for, once. */
  function goToPart() {
    if (part === "password" && !ownPassword.hidden) {
      ownPassword.scrollIntoView();
      $("current").focus();
    }
    part = "";
  }

  /** Give the sign-in to the page of the app that the member has come from. */
  async function giveBack() {
    const body = { redirect_uri, code_challenge, ...(state ? { state } : {}) };
    const { redirect_to } = await call("POST", `${MEMBERS}/me/sign-in-code`, body);
    location.assign(redirect_to);
    // The button that was pressed stays disabled until the other page is there.
    await new Promise(() => {});
  }

  /** Say for which program the member signs in, where the consent page has sent it, by the name that the server has. */
  async function sayWhy() {
    const asked = new URLSearchParams((redirect_uri || "").split("?")[1]).get("request_id");
    if (!client_id || !asked) return;
    const query = new URLSearchParams({ request_id: asked });
    const { client } = await call(
      "GET",
      `/v1/public/oauth/clients/${encodeURIComponent(client_id)}/login-options?${query}`,
    );
    for (const reason of reasons) {
      reason.textContent = (again ? texts.again_for : texts.go_on_to).replace("{client}", () => client.name);
      reason.hidden = false;
    }
  }

  /** Go to where a member goes that has signed in. */
  const arrive = async () => (home === "back" ? giveBack() : go(home));

  /** @param {unknown} error */
  function complain(error) {
    if (!(error instanceof Rejected)) throw error;
    // A session that has ended is begun again.
    if (["INVALID_TOKEN", "TOKEN_REQUIRED"].includes(error.code) && token) {
      token = "";
      go("sign-in");
    }
    if (error.code === "DELETION_PENDING" && token)
      call("GET", `${MEMBERS}/me/account`).then(({ deletes_at }) => leaving(deletes_at), complain);
    else if (error.code === "CANCELLED") $("status").replaceChildren();
    // What a function of the app says is in the app's language.
    else if (error.code === "REJECTED_BY_HOOK") say("error", error.found.message);
    else if (error.code.startsWith("PROFILE_")) say("error", errors[error.code].replace("{field}", labelOf(error)));
    else say("error", errors[error.code] || errors.OTHER);
  }

  /** What the app calls the field that an answer is about. @param {Rejected} error */
  function labelOf({ found }) {
    const name = found.details[0].field.slice("profile.".length);
    return settings.fields.find((field) => field.name === name)?.label || name;
  }

  /** What a form says of the app's own fields. @param {HTMLFormElement} form */
  function profileOf(form) {
    /** @type {Record<string, string | number | boolean>} */
    const profile = {};
    for (const { name, type } of settings.fields) {
      const input = /** @type {HTMLInputElement} */ (form.elements.namedItem(`profile.${name}`));
      if (type === "boolean") profile[name] = input.checked;
      else if (input.value !== "") profile[name] = ["int", "number"].includes(type) ? input.valueAsNumber : input.value;
    }
    return settings.fields.length ? { profile } : {};
  }

  /** Show what the app asks for when it makes a member. @param {HTMLElement} place @param {string} prefix */
  function addFields(place, prefix) {
    const kinds = /** @type {Record<string, string>} */ ({
      int: "number",
      number: "number",
      boolean: "checkbox",
      date: "date",
    });
    for (const { name, label, type, is_required } of settings.fields) {
      const [caption, input] = ["label", "input"].map((tag) => document.createElement(tag));
      const id = `${prefix}-${name}`;
      caption.textContent = label;
      caption.setAttribute("for", id);
      input.id = id;
      Object.assign(input, { name: `profile.${name}`, type: kinds[type] || "text", required: is_required });
      if (type === "number") input.setAttribute("step", "any");
      // Whoever leaves a box empty has said so.
      if (type === "boolean") input.removeAttribute("required");
      place.before(caption, input);
    }
  }

  /** Sign in by a request, or ask for what it takes. @param {string} path @param {object} body */
  async function enter(path, body) {
    try {
      token = (await call("POST", path.startsWith("/") ? path : `${MEMBERS}/${path}`, body)).access_token;
    } catch (error) {
      if (!(error instanceof Rejected)) throw error;
      if (error.code.startsWith("PROFILE_") && !("profile" in body)) {
        unfinished = { path, body };
        show("profile");
        return;
      }
      if (error.code !== "SECOND_FACTOR_REQUIRED") throw error;
      ticket = error.found.ticket;
      if (error.found.factors.includes("email_code")) {
        await call("POST", `${MEMBERS}/second-factor/start`, { ticket, method: "email_code" });
        show("mail-factor");
        return;
      }
      const hasCodes = error.found.factors.includes("totp");
      const hasPasskey = hasPasskeys && error.found.factors.includes("passkey");
      formOf("factor").hidden = !hasCodes;
      formOf("passkey-factor").hidden = !hasPasskey;
      noFactor.hidden = hasCodes || hasPasskey;
      show("factor");
      return;
    }
    ticket = "";
    await arrive();
  }

  /** Show a button for each vendor; their tab keeps what makes the answer of use. @param {HTMLElement} place */
  function addVendors(place) {
    place.hidden = !data.vendors.providers.length;
    for (const { provider, name } of data.vendors.providers) {
      const [button, label] = ["button", "span"].map((tag) => document.createElement(tag));
      /** @type {HTMLButtonElement} */ (button).type = "button";
      label.textContent = texts.go_on_with.replace("{name}", () => name);
      button.append(...vendors.mark(provider), label);
      button.addEventListener("click", () => run(() => goToVendor(provider)));
      place.append(button);
    }
  }

  /** @param {string} provider */
  async function goToVendor(provider) {
    // Who is still signed in, and went back to this page, signs in again: nothing is linked here.
    if (token) await call("POST", `${MEMBERS}/signout`);
    token = "";
    const [verifier, back] = [pkce.random(), pkce.random()];
    const query = new URLSearchParams({
      provider,
      redirect_uri: new URL("sign-in", location.href).href,
      state: back,
      code_challenge: await pkce.challenge(verifier),
      code_challenge_method: "S256",
    });
    const client = encodeURIComponent(data.vendors.client_id);
    const { url } = await call("GET", `/v1/public/oauth/clients/${client}/social-login-url?${query}`);
    const begun = data.page === "sign-up" ? "sign-up" : "sign-in";
    const place = home === "invite" ? `invite${location.search}#${linkToken}` : begun + location.search;
    sessionStorage.setItem(`${TRIP}.${back}`, JSON.stringify({ verifier, place }));
    location.assign(url);
    // The buttons stay disabled until the vendor's page is there.
    await new Promise(() => {});
  }

  /** Sign in by what a vendor has answered. @param {Trip} trip */
  async function comeBack({ verifier, code, error }) {
    if (!code) throw new Rejected(error === "access_denied" ? "VENDOR_DECLINED" : "VENDOR_FAILED");
    await enter("/v1/auth/oauth/exchange", { code, code_verifier: verifier });
  }

  /** What the browser does with a passkey; the member may refuse. @param {() => Promise<object>} action */
  async function withPasskey(action) {
    try {
      return await action();
    } catch {
      throw new Rejected("PASSKEY_UNUSED");
    }
  }

  /** @param {string} time */
  const when = (time) =>
    new Intl.DateTimeFormat(data.language, { dateStyle: "medium", timeStyle: "short" }).format(new Date(time));

  /** A browser and its system, by what it calls itself. @param {string | null} agent */
  function deviceName(agent) {
    /** @param {[RegExp, string][]} known */
    const first = (known) => known.find(([pattern]) => pattern.test(agent || ""))?.[1];
    const browser = first([
      [/Edg/, "Edge"],
      [/OPR\//, "Opera"],
      [/Firefox|FxiOS/, "Firefox"],
      [/Chrom|CriOS/, "Chrome"],
      [/Safari/, "Safari"],
    ]);
    const system = first([
      [/Windows/, "Windows"],
      [/Android/, "Android"],
      [/iPhone/, "iPhone"],
      [/iPad/, "iPad"],
      [/Mac OS/, "macOS"],
      [/Linux/, "Linux"],
    ]);
    return [browser, system].filter(Boolean).join(" · ") || agent?.slice(0, 60) || texts.unknown_device;
  }

  /**
   * A line of a list, perhaps with a button.
   * @param {string} name @param {string} hint @param {string} [label] @param {() => Promise<void>} [action]
   */
  function row(name, hint, label, action) {
    const [line, text, soft] = ["li", "span", "small"].map((tag) => document.createElement(tag));
    text.textContent = name;
    soft.textContent = hint;
    text.append(soft);
    line.append(text);
    if (label && action) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.setAttribute("aria-label", `${label}: ${name}, ${hint}`);
      button.addEventListener("click", () => run(action));
      line.append(button);
    }
    return line;
  }

  /** Show when the account will be deleted, and how it is kept. @param {string} time */
  function leaving(time) {
    show("leaving");
    leavingText.textContent = texts.leaving_text.replace("{date}", when(time));
  }

  /** Fill the account's section. */
  async function account() {
    const [own, factors, { sessions }, { identities }] = await Promise.all(
      ["account", "factors", "sessions", "identities"].map((part) => call("GET", `${MEMBERS}/me/${part}`)),
    );
    if (own.deletes_at) {
      leaving(own.deletes_at);
      return;
    }
    who.textContent = texts.signed_in_as.replace("{name}", own.nickname || own.login_id || own.email || "");
    address.textContent = own.email || (own.pending_email ? `${own.pending_email}: ${texts.unconfirmed}` : "");
    formOf("address").hidden = settings.email_verification === "off";
    ownLabel.textContent = own.email ? texts.new_address : texts.address;
    ownPassword.hidden = own.login_id === null || !settings.password;
    // Who signed up by mail has no password, or the server says so.
    last.required = own.login_id !== null;
    last.hidden = lastLabel.hidden = own.login_id === null;
    showFactors(factors);
    showIdentities(identities);
    devices.replaceChildren(
      .../** @type {Device[]} */ (sessions).map(({ session_id, user_agent, refreshed_at, is_current }) =>
        is_current
          ? row(deviceName(user_agent), texts.this_device)
          : row(
              deviceName(user_agent),
              texts.last_used.replace("{date}", when(refreshed_at)),
              texts.sign_out,
              async () => {
                await call("DELETE", `${MEMBERS}/me/sessions/${session_id}`);
                await account();
                done(texts.ended);
              },
            ),
      ),
    );
    formOf("end-others").hidden = sessions.length < 2;
  }

  /** @param {{totp: {created_at: string} | null, recovery_codes: {left: number}, passkeys: Passkey[]}} factors */
  function showFactors({ totp, recovery_codes, passkeys }) {
    factorPart.hidden = !totp && settings.second_factor === "off";
    const missing = settings.second_factor === "required" ? texts.factor_required : texts.factor_optional;
    factorState.textContent = totp
      ? texts.factor_set.replace("{date}", when(totp.created_at)).replace("{count}", String(recovery_codes.left))
      : missing;
    formOf("set-up").hidden = totp !== null;
    formOf("renew").hidden = formOf("remove-factor").hidden = totp === null;
    passkeyPart.hidden = !hasPasskeys && !passkeys.length;
    formOf("add-passkey").hidden = !hasPasskeys;
    ownPasskeys.replaceChildren(
      ...passkeys.map(({ id, name, created_at }) =>
        row(name, when(created_at), texts.remove, async () => {
          await call("DELETE", `${MEMBERS}/me/passkeys/${id}`);
          await account();
          done(texts.passkey_removed);
        }),
      ),
    );
  }

  /** @param {{provider: string, email: string | null, last_used_at: string}[]} identities */
  function showIdentities(identities) {
    connected.hidden = !identities.length;
    identityList.replaceChildren(
      ...identities.map(({ provider, email, last_used_at }) => {
        const name = data.vendors.providers.find((one) => one.provider === provider)?.name || provider;
        return row(name, email || texts.last_used.replace("{date}", when(last_used_at)), texts.remove, async () => {
          await call("DELETE", `${MEMBERS}/me/identities/${provider}`);
          await account();
          done(texts.disconnected.replace("{name}", name));
        });
      }),
    );
  }

  /** Let the browser keep all that the app has of the member. @param {string} ticket */
  async function download(ticket) {
    const body = JSON.stringify({ token: ticket });
    const fail = () => {
      throw new Rejected("UNREACHABLE");
    };
    const sent = fetch(`${MEMBERS}/export/download`, { method: "POST", headers: headers(), body });
    const answer = await sent.catch(fail);
    if (!answer.ok) throw new Rejected((await answer.json().catch(() => ({}))).code || "OTHER");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await answer.blob().catch(fail));
    link.download = "export.zip";
    link.click();
    // The browser has opened it by then.
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  /** Show recovery codes, for the only time. @param {{recovery_codes: string[]}} answer */
  function showCodes({ recovery_codes }) {
    show("recovery");
    codes.replaceChildren(
      ...recovery_codes.map((code) => {
        const [line, text] = ["li", "code"].map((tag) => document.createElement(tag));
        text.textContent = code;
        line.append(text);
        return line;
      }),
    );
  }

  async function invitation() {
    const { name } = await call("GET", `${MEMBERS}/invitations/${linkToken}`);
    invited.textContent = texts.invited_by.replace("{team}", name);
  }

  /** Show what somebody is invited to who has no account yet; this uses nothing up. */
  function join() {
    show("join");
    if (!data.public_key) return;
    run(async () => {
      try {
        const { email, team } = await call("POST", `${MEMBERS}/invitations/read`, { token: linkToken });
        const sentences = [texts.member_text.replace("{email}", () => email)];
        if (team) sentences.push(texts.member_team.replace("{team}", () => team));
        if (!formOf("join").hidden) sentences.push(texts.member_password);
        joining.textContent = sentences.join(" ");
        // As what the forms go back to.
        joinLogin.setAttribute("value", email);
        joinLogin.readOnly = settings.login_id_form === "email";
        mailed.setAttribute("value", email);
      } catch (error) {
        formOf("join").hidden = formOf("join-by-mail").hidden = true;
        throw error;
      }
      $("status").replaceChildren();
    });
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
    "sign-in": (given) => enter("signin", given),
    "passkey-sign-in": async () => {
      const started = await call("POST", `${MEMBERS}/passkey-sign-in/start`);
      const credential = await withPasskey(() => passkeys.get(started.options));
      await enter("passkey-sign-in", { ticket: started.ticket, credential });
    },
    "to-mail": async () => show("mail"),
    mail: async ({ email }) => {
      const sent = isSent ? { redirect_uri, code_challenge, ...(state ? { state } : {}) } : {};
      ticket = (await call("POST", `${MEMBERS}/email-sign-in`, { email, ...sent })).ticket;
      show("mailed");
      mailedText.textContent = (settings.email_code ? texts.mailed_code : texts.mailed_link).replace("{email}", email);
      formOf("mailed").hidden = !settings.email_code;
    },
    mailed: ({ code }) => enter("email-sign-in/confirm", { code, ticket }),
    link: () => enter("email-sign-in/confirm", { token: linkToken }),
    factor: ({ code }) => enter("second-factor", { ticket, ...factorOf(code) }),
    "mail-factor": ({ code }) => enter("second-factor", { ticket, email_code: code }),
    "passkey-factor": async () => {
      const { options } = await call("POST", `${MEMBERS}/second-factor/start`, { ticket });
      const passkey = await withPasskey(() => passkeys.get(options));
      await enter("second-factor", { ticket, passkey });
    },
    profile: async () => {
      if (unfinished) await enter(unfinished.path, { ...unfinished.body, ...profileOf(formOf("profile")) });
    },
    "sign-up": async ({ login_id, password, email }) => {
      const given = { login_id, password, ...profileOf(formOf("sign-up")) };
      const body = { ...given, language: data.language, ...(email ? { email } : {}) };
      token = (await call("POST", `${MEMBERS}/signup`, body)).access_token;
      ticket = "";
      if (settings.login_id_form === "email" && settings.email_verification !== "off") email = given.login_id;
      if (email) askForCode(email);
      else await arrive();
    },
    join: async ({ login_id, password }) => {
      const body = { login_id, password, language: data.language, invitation: linkToken, ...profileOf(formOf("join")) };
      token = (await call("POST", `${MEMBERS}/signup`, body)).access_token;
      await arrive();
    },
    "join-by-mail": async () => show("mail"),
    code: async ({ code }) => {
      await call("POST", `${MEMBERS}/me/email/confirm`, ticket ? { code, ticket } : { code });
      await arrive();
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
    undo: async () => {
      await call("POST", `${MEMBERS}/email-undo`, { token: linkToken });
      formOf("undo").hidden = true;
      done(texts.undo_done);
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
    "set-up": async () => {
      const found = await call("POST", `${MEMBERS}/me/totp`);
      show("authenticator");
      const picture = found.qr.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ');
      /** @type {any} */ (qr).src = `data:image/svg+xml,${encodeURIComponent(picture)}`;
      key.textContent = found.secret;
    },
    authenticator: async ({ code }) => showCodes(await call("POST", `${MEMBERS}/me/totp/confirm`, { code })),
    renew: async () => showCodes(await call("POST", `${MEMBERS}/me/recovery-codes`)),
    recovery: async () => go("account"),
    "remove-factor": async () => {
      await call("DELETE", `${MEMBERS}/me/totp`);
      await account();
      done(texts.factor_removed);
    },
    "add-passkey": async () => {
      const started = await call("POST", `${MEMBERS}/me/passkeys/start`);
      const credential = await withPasskey(() => passkeys.create(started.options));
      const name = deviceName(navigator.userAgent);
      await call("POST", `${MEMBERS}/me/passkeys`, { ticket: started.ticket, credential, name });
      await account();
      done(texts.passkey_added);
    },
    "end-others": async () => {
      await call("POST", `${MEMBERS}/me/sessions/end-others`);
      await account();
      done(texts.ended);
    },
    export: async () => {
      await download((await call("POST", `${MEMBERS}/me/export`)).token);
      done(texts.downloading);
    },
    download: async () => {
      await download(linkToken);
      formOf("download").hidden = true;
      done(texts.downloading);
    },
    "sign-out": async () => {
      await call("POST", `${MEMBERS}/signout`);
      token = "";
      go("sign-in");
      done(texts.signed_out);
    },
    keep: async () => {
      await call("POST", `${MEMBERS}/me/restore`);
      await arrive();
      done(texts.kept);
    },
    delete: async ({ password }) => {
      let deletesAt = null;
      try {
        ({ deletes_at: deletesAt } = await call("DELETE", `${MEMBERS}/me`, password ? { password } : {}));
      } catch (error) {
        last.hidden = lastLabel.hidden = false;
        throw error;
      }
      token = "";
      go("sign-in");
      done(deletesAt ? texts.deleted_later.replace("{date}", when(deletesAt)) : texts.deleted);
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
  proofCancel.addEventListener("click", () => proof.close());
  // The session lasts as long as the page, whose memory alone has its token.
  addEventListener("pagehide", () => {
    if (token) fetch(`${MEMBERS}/signout`, { method: "POST", headers: headers(), keepalive: true });
  });
  // Who goes back from a vendor finds neither the session nor the buttons as they were.
  addEventListener("pageshow", (event) => event.persisted && location.reload());
  // Another link of a mail for a page that is open.
  addEventListener("hashchange", () => location.reload());
  addEventListener("popstate", () => go(location.pathname.split("/").pop() || "sign-in"));

  for (const form of [formOf("sign-up"), formOf("profile"), formOf("join")])
    addFields(/** @type {HTMLElement} */ (form.querySelector("[data-fields]")), form.dataset.form || "");
  formOf("sign-in").hidden = $("to-forgot").hidden = !settings.password;
  formOf("to-mail").hidden = formOf("join-by-mail").hidden = !settings.email_code && !settings.email_link;
  formOf("join").hidden = !settings.invited || !settings.password;
  formOf("passkey-sign-in").hidden = !hasPasskeys;
  for (const place of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-vendors]")))
    addVendors(place);
  const isLogin = settings.login_id_form === "email";
  if (isLogin) {
    $("new-login-label").textContent = joinLabel.textContent = texts.address;
    $("new-login").type = "email";
  } else if (settings.email_verification === "required") {
    $("new-email").required = true;
    $("new-email-label").textContent = texts.address;
  }
  for (const id of ["new-email-label", "new-email", "email-why"])
    $(id).hidden = isLogin || settings.email_verification === "off";
  $("to-sign-up").hidden = !settings.sign_up || !settings.password;

  if (settings.deletion_grace_days) {
    deleteText.textContent = texts.delete_later_text.replace("{days}", String(settings.deletion_grace_days));
    deleteButton.textContent = texts.delete_title;
  }

  // Without the name the sign-in goes on.
  sayWhy().catch(() => {});

  const needsLink = ["reset", "verify", "undo", "invite", "download"].includes(data.page);
  if (data.page === "preview") {
    // Before anything is shown, which would take the focus from the console.
    /** @type {HTMLElement} */ (document.querySelector("main")).inert = true;
    show(came.section || "sign-in");
    // The words of the app that the console has not stored yet; without one there are the server's.
    addEventListener("message", ({ origin, data: words }) => {
      if (origin !== location.origin) return;
      for (const place of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-own]"))) {
        const name = place.dataset.own || "";
        place.textContent = (words[name] || texts[name]).replaceAll("{app}", data.app);
      }
    });
    return;
  }
  if (["account", "invite"].includes(data.page)) go(data.page);
  else show(data.page === "sign-in" && linkToken ? "link" : data.page);
  if (needsLink && !linkToken) {
    formOf(data.page).hidden = true;
    say("error", texts.no_token);
  } else if (!data.public_key) say("error", texts.no_key);
  else if (trip) run(() => comeBack(trip));
})();
