"use strict";
// Values are inserted only by textContent, and tokens stay in this function's memory.
(() => {
  const TEXTS = {
    en: {
      wait: "Loading …",
      signInTitle: (/** @type {string} */ app) => `Sign in to ${app}`,
      signInWhy: (/** @type {string} */ client) => `to continue to ${client}`,
      again: (/** @type {string} */ client) => `${client} asks you to sign in again.`,
      loginId: "Login ID",
      password: "Password",
      signIn: "Sign in",
      signUpTitle: (/** @type {string} */ app) => `Create an account at ${app}`,
      signUp: "Create account",
      toSignUp: "Create an account",
      toSignIn: "I already have an account",
      factorTitle: "Confirm that it is you",
      factorWhy: "Enter the code of your authenticator app, or a recovery code.",
      factorCode: "Code",
      factor: "Continue",
      factorOther: "Sign in another way",
      noPassword: (/** @type {string} */ app) => `${app} does not support password sign-in.`,
      or: "or",
      goOnWith: (/** @type {string} */ name) => `Continue with ${name}`,
      title: (/** @type {string} */ client, /** @type {string} */ app) => `${client} wants to use your ${app} account`,
      who: (/** @type {string} */ name) => (name ? `Signed in as ${name}` : "You are signed in"),
      other: "Use another account",
      unverified: (/** @type {string} */ client, /** @type {string} */ app) =>
        `${app} has not verified “${client}”. Continue only if you just started this there yourself.`,
      scopes: "It will be able to",
      leads: (/** @type {string} */ host) => [
        "You will be sent to ",
        host,
        ". You can disconnect it in your account at any time.",
      ],
      site: "Website",
      policy: "Privacy policy",
      terms: "Terms of service",
      allow: "Allow",
      deny: "Cancel",
      problemTitle: "Something went wrong",
      next: "Close this page, go back to where you came from, and start again.",
      errors: {
        INVALID_CREDENTIALS: "The login ID or the password is wrong.",
        LOGIN_ID_TAKEN: "This login ID is taken. Choose another one.",
        SIGN_UP_INVALID: "Choose another login ID or a longer password.",
        RATE_LIMITED: "Too many attempts. Wait a moment and try again.",
        LOGIN_DISABLED: "Password sign-in is disabled.",
        MEMBER_INACTIVE: "This account has been deactivated.",
        MEMBER_BANNED: "This account may not sign in for some time.",
        SIGN_UP_CLOSED: "Nobody can sign up here.",
        EMAIL_NOT_VERIFIED:
          "Verify your e-mail address first. A mail is on its way, or your account sends another one.",
        SECOND_FACTOR_ENROLMENT_REQUIRED: "Set up a second factor in your account first.",
        INVALID_SECOND_FACTOR: "The code is wrong or was used before. After five tries sign in again.",
        OAUTH_REQUEST_NOT_FOUND: "This request does not exist, or it belongs to another account.",
        OAUTH_REQUEST_EXPIRED: "This request has expired after ten minutes.",
        OAUTH_REQUEST_DECIDED: "This request has already been answered.",
        WRONG_BROWSER: "This request was started in another browser.",
        access_denied: "You have cancelled the sign-in there. Nothing was shared.",
        provider_error: "The sign-in there did not work. Try again, or sign in another way.",
        INVALID_CODE: "The sign-in there took too long. Try again.",
        PROVIDER_NOT_ENABLED: "This way to sign in does not work at the moment. Choose another one.",
        OTHER: "The server is unreachable or reported an error. Try again.",
      },
    },
    ko: {
      wait: "잠시만 기다려 주세요 …",
      signInTitle: (/** @type {string} */ app) => `${app} 로그인`,
      signInWhy: (/** @type {string} */ client) => `${client}(으)로 계속하려면 로그인하세요`,
      again: (/** @type {string} */ client) => `${client}에서 다시 로그인하도록 요청했습니다.`,
      loginId: "아이디",
      password: "비밀번호",
      signIn: "로그인",
      signUpTitle: (/** @type {string} */ app) => `${app} 회원가입`,
      signUp: "가입하기",
      toSignUp: "계정 만들기",
      toSignIn: "이미 계정이 있습니다",
      factorTitle: "본인 확인",
      factorWhy: "인증 앱의 코드나 복구 코드를 입력하세요.",
      factorCode: "코드",
      factor: "계속하기",
      factorOther: "다른 방법으로 로그인",
      noPassword: (/** @type {string} */ app) => `${app}에서는 비밀번호 로그인을 사용하지 않습니다.`,
      or: "또는",
      goOnWith: (/** @type {string} */ name) => `${name}(으)로 계속하기`,
      title: (/** @type {string} */ client, /** @type {string} */ app) =>
        `${client}에서 ${app} 계정을 사용하려고 합니다`,
      who: (/** @type {string} */ name) => (name ? `${name} 계정으로 로그인됨` : "로그인되어 있습니다"),
      other: "다른 계정 사용",
      unverified: (/** @type {string} */ client, /** @type {string} */ app) =>
        `${app}에서 “${client}”의 운영자를 확인하지 않았습니다. 방금 그곳에서 직접 시작한 경우에만 계속하세요.`,
      scopes: "허용하면 다음을 할 수 있습니다",
      leads: (/** @type {string} */ host) => [
        "허용하면 ",
        host,
        "(으)로 이동합니다. 연결은 언제든지 계정에서 끊을 수 있습니다.",
      ],
      site: "웹사이트",
      policy: "개인정보처리방침",
      terms: "이용약관",
      allow: "허용",
      deny: "취소",
      problemTitle: "진행할 수 없습니다",
      next: "이 페이지를 닫고 처음 시작한 곳에서 다시 시도하세요.",
      errors: {
        INVALID_CREDENTIALS: "아이디 또는 비밀번호가 올바르지 않습니다.",
        LOGIN_ID_TAKEN: "이미 사용 중인 아이디입니다. 다른 아이디를 선택하세요.",
        SIGN_UP_INVALID: "다른 아이디나 더 긴 비밀번호를 선택하세요.",
        RATE_LIMITED: "시도가 너무 많습니다. 잠시 후 다시 시도하세요.",
        LOGIN_DISABLED: "비밀번호 로그인이 꺼져 있습니다.",
        MEMBER_INACTIVE: "비활성화된 계정입니다.",
        MEMBER_BANNED: "당분간 로그인할 수 없는 계정입니다.",
        SIGN_UP_CLOSED: "이곳에서는 가입할 수 없습니다.",
        EMAIL_NOT_VERIFIED: "먼저 이메일 주소를 확인해 주세요. 메일을 보냈으며, 계정에서 다시 보낼 수 있습니다.",
        SECOND_FACTOR_ENROLMENT_REQUIRED: "먼저 계정에서 2단계 인증을 설정해 주세요.",
        INVALID_SECOND_FACTOR: "코드가 올바르지 않거나 이미 사용되었습니다. 다섯 번 틀리면 다시 로그인하세요.",
        OAUTH_REQUEST_NOT_FOUND: "알 수 없는 요청이거나 다른 계정의 요청입니다.",
        OAUTH_REQUEST_EXPIRED: "요청이 만료되었습니다. 10분이 지났습니다.",
        OAUTH_REQUEST_DECIDED: "이미 처리된 요청입니다.",
        WRONG_BROWSER: "다른 브라우저에서 시작된 요청입니다.",
        access_denied: "로그인을 취소했습니다. 아무 정보도 전달되지 않았습니다.",
        provider_error: "로그인하지 못했습니다. 다시 시도하거나 다른 방법으로 로그인하세요.",
        INVALID_CODE: "로그인이 너무 오래 걸렸습니다. 다시 시도하세요.",
        PROVIDER_NOT_ENABLED: "지금은 이 방법으로 로그인할 수 없습니다. 다른 방법을 선택하세요.",
        OTHER: "서버에 연결할 수 없거나 처리하지 못했습니다. 다시 시도하세요.",
      },
    },
  };
  const language = document.documentElement.lang === "ko" ? "ko" : "en";
  const T = TEXTS[language];
  /** An element of the page; `consent.html` has all of them. @param {string} id */
  const $ = (id) => /** @type {HTMLInputElement} */ (document.getElementById(id));
  const { request = "", client = "" } = $("main").dataset;
  const FINAL = ["OAUTH_REQUEST_NOT_FOUND", "OAUTH_REQUEST_EXPIRED", "OAUTH_REQUEST_DECIDED", "WRONG_BROWSER"];
  /** What the app and the client are called, and how members sign in. @type {Api.LoginOptions} */
  let options;
  let token = /** @type {string | null} */ (null);
  let loginId = "";
  let isNew = false;
  /** What finishes a sign-in together with a second factor. */
  let ticket = "";

  /** An answer that is no success, or none: then `status` is 0. */
  class Rejected extends Error {
    /** @param {number} status @param {string} code @param {string} [ticket] */
    constructor(status, code, ticket = "") {
      super(code);
      this.status = status;
      this.code = code;
      this.ticket = ticket;
    }
  }

  /**
   * Send a request and return its answer; throws `Rejected`.
   * @template {string} M @template {string} P @param {M} method @param {P} path
   * @param {{headers?: Record<string, string>, body?: unknown, form?: URLSearchParams}} [given]
   * @returns {Promise<Api.Answer<M, P>>}
   */
  async function call(method, path, { headers = {}, body, form } = {}) {
    let answer;
    try {
      answer = await fetch(path, {
        method,
        headers: {
          "Accept-Language": language,
          ...(token ? { Authorization: `Bearer ${token}` } : {}),
          ...(body ? { "Content-Type": "application/json" } : {}),
          ...headers,
        },
        body: body ? JSON.stringify(body) : form,
      });
    } catch {
      throw new Rejected(0, "OTHER");
    }
    const told = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Rejected(answer.status, told.code ?? told.error ?? "OTHER", told.ticket);
    return told;
  }

  /** @param {string} id @param {string} value */
  const text = (id, value) => {
    $(id).textContent = value;
  };
  /** @param {string} code */
  const message = (code) => /** @type {Record<string, string>} */ (T.errors)[code] ?? T.errors.OTHER;

  /** @param {string} id */
  function show(id) {
    for (const name of ["wait", "sign-in", "factor", "consent", "problem"]) $(name).hidden = name !== id;
  }

  /** @param {string} code */
  function problem(code) {
    document.title = T.problemTitle;
    text("problem-title", T.problemTitle);
    text("problem-text", message(code));
    text("problem-next", T.next);
    show("problem");
  }

  /** @param {string} id @param {string} code */
  function complain(id, code) {
    text(id, message(code));
    $(id).hidden = false;
  }

  /**
   * Whether the form signs a new member up, which is allowed wherever members sign in with a password.
   * @param {boolean} signUp
   */
  function choose(signUp) {
    isNew = signUp;
    const title = (signUp ? T.signUpTitle : T.signInTitle)(options.provider_app.name);
    document.title = title;
    text("sign-in-title", title);
    text("sign-in-button", signUp ? T.signUp : T.signIn);
    text("switch", signUp ? T.toSignIn : T.toSignUp);
    $("password").autocomplete = signUp ? "new-password" : "current-password";
    $("sign-in-error").hidden = true;
  }

  /** @param {boolean} again */
  function signIn(again) {
    token = null;
    const [app, name] = [options.provider_app.name, options.client.name];
    choose(false);
    text("sign-in-why", again ? T.again(name) : T.signInWhy(name));
    // Who is asked to sign in again has an account.
    $("switch").hidden = again || !options.allow_id_password_login;
    $("password-form").hidden = !options.allow_id_password_login;
    if (!options.allow_id_password_login && !options.providers.length) {
      text("sign-in-error", T.noPassword(app));
      $("sign-in-error").hidden = false;
    }
    showProviders();
    show("sign-in");
    if (options.allow_id_password_login) $("login-id").focus();
    else $("social-sign-in").querySelector("button")?.focus();
  }

  function showProviders() {
    const some = options.providers.length > 0;
    $("social-sign-in").hidden = !some;
    $("or").hidden = !(some && options.allow_id_password_login);
    /** @type {Element} */ ($("or").firstElementChild).textContent = T.or;
    $("social-sign-in").replaceChildren(
      ...options.providers.map(({ provider, name }) => {
        const button = document.createElement("button");
        button.type = "button";
        button.dataset.provider = provider;
        const label = document.createElement("span");
        label.textContent = T.goOnWith(name);
        button.append(...vendors.mark(provider), label);
        button.addEventListener("click", () => goTo(provider));
        return button;
      }),
    );
  }

  /**
   * The verifier stays in this tab while the browser is at the provider; without it the code is of no use.
   * @param {string} provider
   */
  async function goTo(provider) {
    const buttons = [...$("social-sign-in").querySelectorAll("button")];
    for (const button of buttons) button.disabled = true;
    const [verifier, state] = [vendors.random(), vendors.random()];
    const query = new URLSearchParams({
      provider,
      redirect_uri: location.origin + location.pathname,
      request_id: request,
      state,
      code_challenge: await vendors.challenge(verifier),
      code_challenge_method: "S256",
    });
    try {
      const path = `/v1/public/oauth/clients/${encodeURIComponent(client)}/social-login-url?${query}`;
      const { url } = await call("GET", path);
      sessionStorage.setItem(state, verifier);
      location.assign(url);
    } catch (rejected) {
      if (!(rejected instanceof Rejected)) throw rejected;
      complain("sign-in-error", rejected.code);
      for (const button of buttons) button.disabled = false;
    }
  }

  /** Returns whether the browser has just come back from a provider: a member is then signed in, or learns why not. */
  async function comeBack() {
    const query = new URLSearchParams(location.search);
    const [code, state, error] = [query.get("code"), query.get("state"), query.get("error")];
    if (!code && !error) return false;
    for (const name of ["code", "state", "error"]) query.delete(name);
    history.replaceState(null, "", `${location.pathname}?${query}`);
    const verifier = sessionStorage.getItem(state || "");
    sessionStorage.removeItem(state || "");
    // A state that this tab does not know comes from a link of another origin.
    if (!verifier) return false;
    try {
      if (error) throw new Rejected(0, error);
      const body = { code, code_verifier: verifier };
      token = (await call("POST", "/v1/auth/oauth/exchange", { body })).access_token;
      await ask();
    } catch (rejected) {
      if (!(rejected instanceof Rejected)) throw rejected;
      if (FINAL.includes(rejected.code)) problem(rejected.code);
      else if (rejected.ticket) askFactor(rejected.ticket);
      else {
        signIn(false);
        complain("sign-in-error", rejected.code);
      }
    }
    return true;
  }

  /** @param {Event} event */
  async function sendPassword(event) {
    event.preventDefault();
    const invalid = isNew ? "SIGN_UP_INVALID" : "INVALID_CREDENTIALS";
    $("sign-in-error").hidden = true;
    $("sign-in-button").disabled = true;
    try {
      const signedIn = await call("POST", `/v1/public/app-members/${isNew ? "signup" : "signin"}`, {
        headers: { "X-Public-Key": options.provider_app.public_key ?? "" },
        body: { login_id: $("login-id").value, password: $("password").value },
      });
      token = signedIn.access_token;
      loginId = $("login-id").value;
      await ask();
    } catch (rejected) {
      if (!(rejected instanceof Rejected)) throw rejected;
      if (FINAL.includes(rejected.code)) problem(rejected.code);
      else if (rejected.ticket) askFactor(rejected.ticket);
      else complain("sign-in-error", rejected.code === "VALIDATION_FAILED" ? invalid : rejected.code);
    } finally {
      $("password").value = "";
      $("sign-in-button").disabled = false;
    }
  }

  /** Ask for a second factor. @param {string} needed */
  function askFactor(needed) {
    ticket = needed;
    document.title = T.factorTitle;
    $("factor-error").hidden = true;
    $("factor-code").value = "";
    show("factor");
    $("factor-code").focus();
  }

  /** @param {Event} event */
  async function sendFactor(event) {
    event.preventDefault();
    const code = $("factor-code").value.trim();
    $("factor-error").hidden = true;
    $("factor-button").disabled = true;
    try {
      const signedIn = await call("POST", "/v1/public/app-members/second-factor", {
        headers: { "X-Public-Key": options.provider_app.public_key ?? "" },
        body: { ticket, [/^\d{6}$/.test(code) ? "totp" : "recovery_code"]: code },
      });
      token = signedIn.access_token;
      await ask();
    } catch (rejected) {
      if (!(rejected instanceof Rejected)) throw rejected;
      if (FINAL.includes(rejected.code)) problem(rejected.code);
      else complain("factor-error", rejected.code === "VALIDATION_FAILED" ? "INVALID_SECOND_FACTOR" : rejected.code);
    } finally {
      $("factor-button").disabled = false;
    }
  }

  async function ask() {
    const info = await call("GET", `/v1/oauth/consent/info?request_id=${encodeURIComponent(request)}`);
    if (info.reauthentication_required) signIn(true);
    else if (!info.consent_required) await decide("approve");
    else consent(info);
  }

  /** @param {Api.ConsentInfo} info */
  function consent(info) {
    const [app, name] = [info.provider_app.name, info.client.name];
    document.title = T.title(name, app);
    text("consent-title", T.title(name, app));
    text("consent-who", T.who(info.member.nickname ?? loginId));
    text("unverified", T.unverified(name, app));
    $("unverified").hidden = info.client.is_verified;
    $("scopes").replaceChildren(...info.scopes.map(scopeLine));
    const [before, host, after] = T.leads(info.client.redirect_host);
    const strong = document.createElement("b");
    strong.textContent = host;
    $("leads").replaceChildren(before, strong, after);
    const links = [
      [info.client.client_uri, T.site],
      [info.client.policy_uri, T.policy],
      [info.client.tos_uri, T.terms],
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
      text("wait", T.wait);
      show("wait");
      location.replace(redirect_to);
    } catch (rejected) {
      if (!(rejected instanceof Rejected)) throw rejected;
      for (const button of buttons) button.disabled = false;
      if (FINAL.includes(rejected.code)) problem(rejected.code);
      else if (rejected.status === 401) signIn(rejected.code === "REAUTHENTICATION_REQUIRED");
      else complain("consent-error", rejected.code);
    }
  }

  /** The letter stays until the picture has arrived. @param {HTMLElement} mark @param {string} url */
  function showLogo(mark, url) {
    const picture = new Image();
    picture.alt = "";
    picture.addEventListener("load", () => mark.replaceChildren(picture));
    picture.src = url;
  }

  async function start() {
    text("wait", T.wait);
    text("label-login-id", T.loginId);
    text("label-password", T.password);
    text("factor-title", T.factorTitle);
    text("factor-why", T.factorWhy);
    text("label-factor-code", T.factorCode);
    text("factor-button", T.factor);
    text("factor-other", T.factorOther);
    text("other-account", T.other);
    text("scopes-title", T.scopes);
    text("allow", T.allow);
    text("deny", T.deny);
    try {
      const query = `?request_id=${encodeURIComponent(request)}`;
      options = await call("GET", `/v1/public/oauth/clients/${encodeURIComponent(client)}/login-options${query}`);
      for (const mark of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-initial]"))) {
        const name = mark.dataset.initial === "app" ? options.provider_app.name : options.client.name;
        mark.textContent = [...name.trim()][0]?.toUpperCase() ?? "";
        if (mark.dataset.initial === "client" && options.client.logo_url) showLogo(mark, options.client.logo_url);
      }
      if (await comeBack()) return;
      const session = await call("POST", "/oauth/consent/session", {
        form: new URLSearchParams({ request_id: request }),
      }).catch((rejected) => {
        if (rejected.status === 401) return null;
        throw rejected;
      });
      if (session) {
        token = session.access_token;
        await ask();
      } else signIn(false);
    } catch (rejected) {
      problem(rejected instanceof Rejected ? rejected.code : "OTHER");
    }
  }

  $("password-form").addEventListener("submit", sendPassword);
  $("switch").addEventListener("click", () => {
    choose(!isNew);
    $("login-id").focus();
  });
  $("factor-form").addEventListener("submit", sendFactor);
  $("factor-other").addEventListener("click", () => signIn(false));
  $("other-account").addEventListener("click", () => signIn(false));
  $("allow").addEventListener("click", () => decide("approve"));
  $("deny").addEventListener("click", () => decide("deny"));
  start();
})();
