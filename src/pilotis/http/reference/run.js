// The examples with the reader's own values, and "Run", which sends them. Tokens stay in this scope and are not shown.
{
  const SHOWN = 20000;
  const PANEL = ["PUBLIC_KEY", "TABLE_ID", "ACCESS_TOKEN", "SECRET_KEY"];
  const VARIABLE = /\$([A-Z][A-Z0-9_]+)/g;
  const SECRET = /TOKEN$|^SECRET_KEY$/;
  const CONFIRMED = /^(GET|HEAD|OPTIONS)$/;
  const values = new Map();
  let renewAt = 0;

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name in element && typeof value !== "string") element[name] = value;
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  };
  const filled = (text) => text.replace(VARIABLE, (whole, name) => values.get(name) || whole);
  const deep = (value) =>
    typeof value === "string"
      ? filled(value)
      : Array.isArray(value)
        ? value.map(deep)
        : value && typeof value === "object"
          ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, deep(one)]))
          : value;
  const variablesOf = (request) => [
    ...new Set([...JSON.stringify(request).matchAll(VARIABLE)].map((match) => match[1])),
  ];

  const ASSIGNMENTS = {
    curl: (name, value) => `${name}='${value.replaceAll("'", "'\\''")}'`,
    js: (name, value) => `const ${name} = ${JSON.stringify(value)};`,
    python: (name, value) => `${name} = ${JSON.stringify(value)}`,
  };
  const examples = [...document.querySelectorAll(".sample[data-request]")].map((sample) => {
    const request = JSON.parse(sample.dataset.request);
    return { sample, request, variables: variablesOf(request) };
  });

  /** Put the values before each example that uses them, so that what is copied can be run. */
  function fill() {
    for (const { sample, variables } of examples) {
      const known = variables.filter((name) => values.get(name) && !SECRET.test(name));
      for (const pre of sample.querySelectorAll("pre[data-language]")) {
        let before = pre.querySelector(".given");
        if (!before) pre.querySelector("code").prepend((before = make("span", { class: "given" })));
        const lines = known.map((name) => ASSIGNMENTS[pre.dataset.language](name, values.get(name)));
        before.textContent = lines.length ? `${lines.join("\n")}\n\n` : "";
      }
    }
  }
  function set(name, value) {
    values.set(name, value.trim());
    for (const input of document.querySelectorAll(`[data-value="${name}"]`))
      if (input.value !== value) input.value = value;
    fill();
  }
  function field(name) {
    const input = make("input", {
      "data-value": name,
      id: `value-${++field.count}`,
      autocomplete: "off",
      spellcheck: "false",
      type: SECRET.test(name) ? "password" : "text",
    });
    input.value = values.get(name) || "";
    input.addEventListener("input", () => set(name, input.value));
    return make("div", {}, make("label", { for: input.id }, make("code", {}, name)), input);
  }
  field.count = 0;

  // What the console's session in this browser knows. Its cookie is sent, and read, by the server alone.
  async function session() {
    if (Date.now() < renewAt) return true;
    const answer = await fetch("/v1/auth/session/refresh", { method: "POST" }).catch(() => null);
    if (answer?.status !== 200) return false;
    const { access_token: token, expires_in: lasting } = await answer.json();
    values.set("CONSOLE_TOKEN", token);
    renewAt = Date.now() + lasting * 500;
    return true;
  }
  async function ask(path, app) {
    if (!(await session())) return {};
    const headers = { Authorization: `Bearer ${values.get("CONSOLE_TOKEN")}`, ...(app ? { "X-App-Id": app } : {}) };
    const answer = await fetch(path, { headers }).catch(() => null);
    return answer?.ok ? answer.json() : {};
  }

  const panel = document.getElementById("values");
  const fields = make("form", { class: "values" }, ...PANEL.map(field));
  fields.addEventListener("submit", (event) => event.preventDefault());
  panel.querySelector("pre").replaceWith(fields);

  function choice(label, options, chosen, change) {
    const list = make(
      "select",
      { id: `value-${++field.count}` },
      ...options.map(([value, text]) => make("option", { value }, text)),
    );
    list.value = chosen;
    list.addEventListener("change", () => change(list.value));
    return make("div", {}, make("label", { for: list.id }, label), list);
  }
  async function open(app) {
    values.set("APP_ID", app);
    const [keys, { tables = [] }] = await Promise.all([
      ask(`/v1/apps/${app}/keys/public?limit=1`),
      ask("/v1/public/tables", app),
    ]);
    if (values.get("APP_ID") !== app) return;
    panel.querySelector(".tables")?.remove();
    set("PUBLIC_KEY", keys.data?.[0]?.key || "");
    set("TABLE_ID", tables[0]?.id || "");
    if (!tables.length) return;
    const list = choice(
      "Table",
      tables.slice(0, 200).map((table) => [table.id, table.title.slice(0, 80)]),
      tables[0].id,
      (id) => set("TABLE_ID", id),
    );
    list.className = "tables";
    fields.querySelector('[data-value="TABLE_ID"]').parentElement.before(list);
  }
  const opening = (async () => {
    // The console leaves the app that was open; without it, nobody of this browser has a session to ask for.
    let last = null;
    try {
      last = localStorage.getItem("pilotis.app");
    } catch {
      /* a private window */
    }
    const { data: apps = [] } = last ? await ask("/v1/apps?limit=100") : {};
    // Among very many apps the one that was open may not be on the first page.
    const opened =
      last && !apps.some((app) => app.app_id === last) ? await ask(`/v1/apps/${encodeURIComponent(last)}`) : {};
    if (opened.app_id) apps.unshift(opened);
    if (!apps.length) {
      fields.prepend(
        make(
          "p",
          { class: "hint" },
          make("a", { href: "/console" }, "Open your app in the console"),
          " once, and its values are filled in here.",
        ),
      );
      return;
    }
    const chosen = apps.some((app) => app.app_id === last) ? last : apps[0].app_id;
    fields.prepend(
      choice(
        "App",
        apps.map((app) => [app.app_id, app.name.slice(0, 80)]),
        chosen,
        open,
      ),
    );
    await open(chosen);
  })();

  /** Why an example cannot be sent from a page; empty if it can. */
  function reason({ method, headers, file }) {
    if (method === "DELETE") return "Nothing is deleted from here: copy the example.";
    if (file) return "It sends a file: copy the example.";
    if (headers.Cookie || headers.Origin) return "A browser sends these headers itself: copy the example.";
    return "";
  }

  async function send({ sample, request }, text) {
    if (variablesOf(request).includes("CONSOLE_TOKEN")) await session();
    const result = shown(sample);
    result.title.textContent = "Sending …";
    result.code.textContent = "";
    result.box.setAttribute("aria-busy", "true");
    const begun = performance.now();
    try {
      const headers = deep(request.headers);
      const body =
        text === undefined
          ? undefined
          : request.content === undefined
            ? JSON.stringify(deep(JSON.parse(text)))
            : filled(text);
      const answer = await fetch(new URL(filled(request.url), location.origin), {
        method: request.method,
        headers,
        body,
        signal: AbortSignal.timeout(30000),
      });
      const time = `${Math.round(performance.now() - begun)} ms`;
      const kind = answer.headers.get("Content-Type") || "";
      result.title.replaceChildren(
        "Answer ",
        make("b", { class: answer.ok ? "" : "bad" }, String(answer.status)),
        ` in ${time}`,
      );
      if (/json|text|xml|javascript/.test(kind)) await show(answer, result.code);
      else result.code.textContent = (await answer.blob()).size ? kind : "No body";
    } catch (error) {
      result.title.replaceChildren("Not sent");
      result.code.textContent =
        error instanceof SyntaxError
          ? `The body is not JSON: ${error.message}`
          : "Pilotis did not answer. The server may be unreachable, or the address is not one of this server.";
    }
    result.box.removeAttribute("aria-busy");
  }
  /** Write an answer as it arrives: a stream of events does not end. */
  async function show(answer, code) {
    let text = "";
    const decoder = new TextDecoder();
    const reader = answer.body.getReader();
    try {
      for (let part; text.length < SHOWN && !(part = await reader.read()).done;) {
        text += decoder.decode(part.value, { stream: true });
        code.textContent = text.slice(0, SHOWN);
      }
      reader.cancel();
    } catch (error) {
      if (!text) throw error;
    }
    if (!text) code.textContent = "No body";
    try {
      const parsed = JSON.parse(text);
      remember(parsed);
      // Numbers that JavaScript cannot hold stay as they were sent.
      // 4.780 is 4.78: zeros at the end are no digits that would be lost.
      const plain = text.replace(/"(?:[^"\\]|\\.)*"|(\.\d*?)0+(?!\d)/g, (all, digits) =>
        digits === undefined ? all : digits.length > 1 ? digits : "",
      );
      if (JSON.stringify(parsed) === plain) code.textContent = JSON.stringify(parsed, null, 2).slice(0, SHOWN);
    } catch {
      /* no JSON, or more than is shown */
    }
  }
  /** A member who signs in here is the one that acts in the next examples. */
  function remember(answer) {
    if (typeof answer?.member_id !== "string" || typeof answer.access_token !== "string") return;
    set("ACCESS_TOKEN", answer.access_token);
    set("REFRESH_TOKEN", answer.refresh_token || "");
    set("MEMBER_ID", answer.member_id);
  }
  function shown(sample) {
    let box = sample.parentElement.querySelector(".result");
    if (!box) {
      box = make(
        "div",
        { class: "sample result", role: "status" },
        make("div", { class: "bar" }, make("span")),
        make("pre", { class: "answer", tabindex: "0" }, make("code")),
      );
      (sample.parentElement.querySelector(".run") || sample).after(box);
    }
    return { box, title: box.querySelector(".bar span"), code: box.querySelector("code") };
  }

  /** The form of an example: the values that only it needs, its body, and the button that sends it. */
  function form(example) {
    const { sample, request, variables } = example;
    const known = sample.parentElement.querySelector(".run");
    if (known) return known;
    const own = variables.filter(
      (name) => !["CONSOLE_TOKEN", "APP_ID"].includes(name) && !(PANEL.includes(name) && values.get(name)),
    );
    const given = request.content ?? (request.body === undefined ? undefined : JSON.stringify(request.body, null, 2));
    const body =
      given === undefined
        ? null
        : make("textarea", {
            id: `value-${++field.count}`,
            rows: String(Math.min(given.split("\n").length + 1, 14)),
            spellcheck: "false",
          });
    if (body) body.value = given;
    const note = make(
      "p",
      { class: "hint" },
      CONFIRMED.test(request.method)
        ? ""
        : `This sends a real ${request.method}, which may change what your app has stored.`,
    );
    const made = make(
      "form",
      { class: "sample run" },
      ...own.map(field),
      ...(body ? [make("div", {}, make("label", { for: body.id }, "Body"), body)] : []),
      note,
      make("button", { type: "submit" }, `Send ${request.method}`),
    );
    made.addEventListener("submit", (event) => {
      event.preventDefault();
      const missing = missingOf(example);
      if (missing.length) {
        note.textContent = missing.includes("CONSOLE_TOKEN")
          ? "Sign in to the console first, and reload this page."
          : `${missing.join(", ")}: enter a value first.`;
        made.querySelector(`[data-value="${missing[0]}"]`)?.focus();
      } else send(example, body?.value);
    });
    sample.after(made);
    return made;
  }
  const missingOf = ({ variables }) => variables.filter((name) => !values.get(name));

  for (const example of examples) {
    const why = reason(example.request);
    const button = make(
      "button",
      { type: "button", class: "go", ...(why ? { "aria-disabled": "true", title: why } : {}) },
      "Run",
    );
    button.addEventListener("click", async () => {
      if (why) return;
      // Nothing is asked for that is about to be filled in.
      await opening.catch(() => {});
      const { request, variables } = example;
      const simple = CONFIRMED.test(request.method) && request.body === undefined;
      const common = variables.every((name) => PANEL.includes(name) || ["CONSOLE_TOKEN", "APP_ID"].includes(name));
      if (simple && common && !missingOf(example).length) return void send(example);
      const opened = form(example);
      if (simple && !missingOf(example).length) send(example);
      else (opened.querySelector("input, textarea") || opened.querySelector("button")).focus();
    });
    example.sample.querySelector(".bar").append(button);
  }
}
