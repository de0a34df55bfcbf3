"use strict";
// Values are inserted only by textContent, and tokens stay in this function's memory.
(() => {
  /** An element of the page; `consent.html` has all of them. @param {string} id */
  const $ = (id) => /** @type {HTMLInputElement} */ (document.getElementById(id));
  const { request = "", client = "", texts: given = "" } = $("main").dataset;
  /** @type {{texts: Record<string, string>, errors: Record<string, string>}} */
  const { texts, errors } = JSON.parse(given);
  const FINAL = ["OAUTH_REQUEST_NOT_FOUND", "OAUTH_REQUEST_EXPIRED", "OAUTH_REQUEST_DECIDED", "WRONG_BROWSER"];
  /** What the app and the client are called. @type {Api.LoginOptions} */
  let options;
  let token = /** @type {string | null} */ (null);

  /** An answer that is no success, or none: then `status` is 0. */
  class Rejected extends Error {
    /** @param {number} status @param {string} code */
    constructor(status, code) {
      super(code);
      this.status = status;
      this.code = code;
    }
  }

  /**
   * Send a request and return its answer; throws `Rejected`.
   * @template {string} M @template {string} P @param {M} method @param {P} path
   * @param {{body?: unknown, form?: URLSearchParams}} [given]
   * @returns {Promise<Api.Answer<M, P>>}
   */
  async function call(method, path, { body, form } = {}) {
    let answer;
    try {
      answer = await fetch(path, {
        method,
        headers: {
          "Accept-Language": document.documentElement.lang,
          ...(token ? { Authorization: `Bearer ${token}` } : {}),
          ...(body ? { "Content-Type": "application/json" } : {}),
        },
        body: body ? JSON.stringify(body) : form,
      });
    } catch {
      throw new Rejected(0, "OTHER");
    }
    const told = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Rejected(answer.status, told.code ?? told.error ?? "OTHER");
    return told;
  }

  /** @param {string} id @param {string} value */
  const text = (id, value) => {
    $(id).textContent = value;
  };
  /** A text with names in its places. @param {string} key @param {Record<string, string>} names */
  const filled = (key, names) => texts[key].replace(/\{([a-z]+)\}/g, (_, name) => names[name]);
  /** @param {string} code */
  const message = (code) => errors[code] ?? errors.OTHER;

  /** @param {string} id */
  function show(id) {
    for (const name of ["wait", "consent", "problem"]) $(name).hidden = name !== id;
  }

  /** @param {string} code */
  function problem(code) {
    document.title = texts.problem;
    text("problem-title", texts.problem);
    text("problem-text", message(code));
    text("problem-next", texts.next);
    show("problem");
  }

  // What proves, when the browser comes back from the app's sign-in, that this page has sent it there. A link that is
  // mailed to the member may be opened in another tab.
  const TRIP = "pilotis.consent.";
  const TRIP_MS = 15 * 60_000;

  function forgetOldTrips() {
    for (const key of Object.keys(localStorage)) {
      if (!key.startsWith(TRIP)) continue;
      const { at } = JSON.parse(localStorage.getItem(key) || "{}");
      if (!(Date.now() - at < TRIP_MS)) localStorage.removeItem(key);
    }
  }

  /** Send the browser to the app's page for signing in, which sends it back. @param {boolean} again */
  async function signIn(again) {
    const [verifier, state] = [pkce.random(), pkce.random()];
    forgetOldTrips();
    localStorage.setItem(TRIP + state, JSON.stringify({ verifier, at: Date.now() }));
    const query = new URLSearchParams({
      redirect_uri: location.href,
      state,
      code_challenge: await pkce.challenge(verifier),
      lang: document.documentElement.lang,
      client_id: client,
      ...(again ? { again: "1" } : {}),
    });
    location.replace(`/account/${options.provider_app.app_id}/sign-in?${query}`);
  }

  /** What the browser brings from the app's sign-in; the address keeps nothing of it. */
  function brought() {
    const query = new URLSearchParams(location.search);
    const [code, state] = [query.get("code"), query.get("state")];
    for (const name of ["code", "state"]) query.delete(name);
    history.replaceState(null, "", `${location.pathname}?${query}`);
    const trip = JSON.parse(localStorage.getItem(TRIP + state) || "null");
    localStorage.removeItem(TRIP + state);
    // A state that this browser does not know comes from a link of another origin.
    return code && trip ? { code, code_verifier: trip.verifier } : null;
  }

  async function ask() {
    const info = await call("GET", `/v1/oauth/consent/info?request_id=${encodeURIComponent(request)}`);
    if (info.reauthentication_required) await signIn(true);
    else if (!info.consent_required) await decide("approve");
    else await consent(info);
  }

  /** What the member calls itself. @param {Api.ConsentInfo} info */
  async function nameOf(info) {
    if (info.member.nickname) return info.member.nickname;
    const own = await call("GET", "/v1/public/app-members/me/account").catch(() => null);
    return own && (own.login_id ?? own.email);
  }

  /** @param {Api.ConsentInfo} info */
  async function consent(info) {
    const names = { app: info.provider_app.name, client: info.client.name };
    const name = await nameOf(info);
    document.title = filled("title", names);
    text("consent-title", filled("title", names));
    text("consent-who", name ? filled("who", { name }) : texts.signed_in);
    text("unverified", filled("unverified", names));
    $("unverified").hidden = info.client.is_verified;
    $("scopes").replaceChildren(...info.scopes.map(scopeLine));
    const [before, after] = texts.leads.split("{host}");
    const strong = document.createElement("b");
    strong.textContent = info.client.redirect_host;
    $("leads").replaceChildren(before, strong, after);
    const links = [
      [info.client.client_uri, texts.site],
      [info.client.policy_uri, texts.policy],
      [info.client.tos_uri, texts.terms],
    ];
    $("links").replaceChildren(
      ...links
        .filter(([url]) => url && /^https?:\/\//.test(url))
        .map(([url, label]) => {
          const link = document.createElement("a");
          Object.assign(link, { href: url, textContent: label, rel: "noopener noreferrer", target: "_blank" });
          return link;
        }),
    );
    show("consent");
    $("allow").focus();
  }

  /** @param {Api.AskedScope} scope */
  function scopeLine(scope) {
    const line = document.createElement("li");
    const label = document.createElement("label");
    const title = document.createElement("span");
    title.textContent = scope.title;
    label.append(scope.is_required ? tick() : box(scope.name), title);
    if (scope.description) {
      const description = document.createElement("small");
      description.textContent = scope.description;
      label.append(description);
    }
    line.append(label);
    return line;
  }

  /** @param {string} name */
  function box(name) {
    const input = document.createElement("input");
    Object.assign(input, { type: "checkbox", checked: true, name });
    return input;
  }

  function tick() {
    const mark = document.createElement("span");
    mark.className = "tick";
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 20 20");
    svg.setAttribute("width", "20");
    svg.setAttribute("height", "20");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", "M4 10.5l4 4 8-9");
    svg.append(path);
    mark.append(svg);
    return mark;
  }

  /** @param {"approve" | "deny"} action */
  async function decide(action) {
    const buttons = [$("allow"), $("deny")];
    for (const button of buttons) button.disabled = true;
    $("consent-error").hidden = true;
    const boxes = [...$("scopes").querySelectorAll("input")];
    const chosen = boxes.length ? { scopes: boxes.filter((one) => one.checked).map((one) => one.name) } : {};
    const body = { request_id: request, ...(action === "approve" ? chosen : {}) };
    try {
      const { redirect_to } = await call("POST", `/v1/oauth/consent/${action}`, { body });
      show("wait");
      location.replace(redirect_to);
    } catch (rejected) {
      if (!(rejected instanceof Rejected)) throw rejected;
      for (const button of buttons) button.disabled = false;
      if (rejected.status === 401) await signIn(rejected.code === "REAUTHENTICATION_REQUIRED");
      else if (FINAL.includes(rejected.code) || $("consent").hidden) problem(rejected.code);
      else {
        text("consent-error", message(rejected.code));
        $("consent-error").hidden = false;
      }
    }
  }

  /** The letter stays until the picture has arrived. @param {HTMLElement} mark @param {string} url */
  function showLogo(mark, url) {
    const picture = new Image();
    picture.alt = "";
    picture.addEventListener("load", () => mark.replaceChildren(picture));
    picture.src = url;
  }

  /** The token of the member that has just signed in, or is signed in with the provider here; null for neither. */
  async function memberToken() {
    const found = brought();
    if (found) return (await call("POST", "/v1/auth/oauth/exchange", { body: found })).access_token;
    const form = new URLSearchParams({ request_id: request });
    try {
      return (await call("POST", "/oauth/consent/session", { form })).access_token;
    } catch (rejected) {
      if (rejected instanceof Rejected && rejected.status === 401) return null;
      throw rejected;
    }
  }

  async function start() {
    text("wait", texts.wait);
    text("other-account", texts.other);
    text("scopes-title", texts.scopes);
    text("allow", texts.allow);
    text("deny", texts.deny);
    try {
      const query = `?request_id=${encodeURIComponent(request)}`;
      options = await call("GET", `/v1/public/oauth/clients/${encodeURIComponent(client)}/login-options${query}`);
      for (const mark of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-initial]"))) {
        const name = mark.dataset.initial === "app" ? options.provider_app.name : options.client.name;
        mark.textContent = [...name.trim()][0]?.toUpperCase() ?? "";
        if (mark.dataset.initial === "client" && options.client.logo_url) showLogo(mark, options.client.logo_url);
      }
      token = await memberToken();
      if (token) await ask();
      else await signIn(false);
    } catch (rejected) {
      problem(rejected instanceof Rejected ? rejected.code : "OTHER");
    }
  }

  $("other-account").addEventListener("click", () => signIn(false));
  $("allow").addEventListener("click", () => decide("approve"));
  $("deny").addEventListener("click", () => decide("deny"));
  start();
})();
