/** A call of the interface as curl, JavaScript and Python, with real values filled in; "Run" sends it. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { store } from "../state/app.js";
import { Icon } from "./icons.js";
import { Button, Code, Copy, said } from "./widgets.js";

/**
 * `bearer` is the name of the token that the call needs; `written` are programs for calls of several requests.
 * @typedef {{method: string, path: string, body?: unknown, key?: string, bearer?: string,
 *   written?: Record<string, string>}} Request
 */

const LANGUAGES = /** @type {[string, string, (base: string, request: Request) => string][]} */ ([
  ["javascript", "JavaScript", javascript],
  ["curl", "curl", curl],
  ["python", "Python", python],
]);

/**
 * The headers of a request; a token is a variable, which each language writes in its way.
 * @param {Request} request
 * @param {(name: string) => string} variable
 * @returns {[string, string][]}
 */
const headersOf = ({ key, bearer, body }, variable) => [
  ...(key ? [/** @type {[string, string]} */ (["X-Public-Key", JSON.stringify(key)])] : []),
  ...(bearer ? [/** @type {[string, string]} */ (["Authorization", variable(bearer)])] : []),
  ...(body === undefined ? [] : [/** @type {[string, string]} */ (["Content-Type", '"application/json"'])]),
];

/** @param {string} name */
const camel = (name) => name.toLowerCase().replace(/_(.)/g, (_, letter) => letter.toUpperCase());

/** @param {string} base @param {Request} request */
function javascript(base, request) {
  const { method, path, body } = request;
  const given = headersOf(request, (name) => `\`Bearer \${${camel(name)}}\``).map(
    ([name, value]) => `${/^\w+$/.test(name) ? name : JSON.stringify(name)}: ${value}`,
  );
  const headers = given.length > 2 ? `{\n    ${given.join(",\n    ")},\n  }` : `{ ${given.join(", ")} }`;
  const options = [
    method === "GET" ? "" : `  method: ${JSON.stringify(method)},\n`,
    `  headers: ${headers},\n`,
    body === undefined ? "" : `  body: JSON.stringify(${JSON.stringify(body)}),\n`,
  ].join("");
  return `const answer = await fetch(${JSON.stringify(base + path)}, {\n${options}});\nconst result = await answer.json();`;
}

/** A text in single quotes for a shell. @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** @param {string} base @param {Request} request */
function curl(base, { method, path, body, key, bearer }) {
  const lines = [`curl ${method === "GET" ? "" : `-X ${method} `}${quoted(base + path)}`];
  if (key) lines.push(`  -H ${quoted(`X-Public-Key: ${key}`)}`);
  if (bearer) lines.push(`  -H "Authorization: Bearer $${bearer}"`);
  if (body !== undefined) lines.push(`  -H 'Content-Type: application/json'`, `  -d ${quoted(JSON.stringify(body))}`);
  return lines.join(" \\\n");
}

/** @param {string} base @param {Request} request */
function python(base, request) {
  const { method, path, body } = request;
  // `json` sets the content type.
  const headers = headersOf({ ...request, body: undefined }, (name) => `f"Bearer {${name.toLowerCase()}}"`).map(
    ([name, value]) => `${JSON.stringify(name)}: ${value}`,
  );
  const given = body === undefined ? "" : `\n    json=${literal(body)},`;
  return `import requests\n\nanswer = requests.${method.toLowerCase()}(\n    ${JSON.stringify(base + path)},\n    headers={${headers.join(", ")}},${given}\n)\nresult = answer.json()`;
}

/** A value as Python writes it. @param {unknown} value @returns {string} */
function literal(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object")
    return `{${Object.entries(value)
      .map(([name, one]) => `${JSON.stringify(name)}: ${literal(one)}`)
      .join(", ")}}`;
  return JSON.stringify(value);
}

/**
 * `token` returns the token of whom the call is sent as.
 * @param {{request: Request, base: string, onRun?: () => void, aside?: Markup, why?: string | false, token?: () =>
 *   Promise<string>, still?: boolean}} props
 */
export function Snippet({ request, base, onRun, aside, why, token, still }) {
  const [language, setLanguage] = useState(localStorage.getItem("pilotis.snippets") || "javascript");
  const [result, setResult] = useState(/** @type {{status: number, text: string} | null} */ (null));
  const [busy, setBusy] = useState(false);
  const chosen = LANGUAGES.find(([name]) => name === language) || LANGUAGES[0];
  const text = request.written?.[chosen[0]] || chosen[2](base, request);
  const choose = (/** @type {string} */ name) => {
    store("pilotis.snippets", name);
    setLanguage(name);
  };
  // As a page of the app would send it: with the public key, and without the console's own token.
  const run = async () => {
    setBusy(true);
    try {
      const answer = await fetch(request.path, {
        method: request.method,
        headers: {
          ...(request.key ? { "X-Public-Key": request.key } : {}),
          ...(token ? { Authorization: `Bearer ${await token()}` } : {}),
          ...(request.body === undefined ? {} : { "Content-Type": "application/json" }),
        },
        body: request.body === undefined ? undefined : JSON.stringify(request.body),
      });
      const said = await answer.text();
      setResult({ status: answer.status, text: pretty(said) });
      if (answer.ok) onRun?.();
    } catch (error) {
      setResult({ status: 0, text: said(error instanceof TypeError ? { code: "UNREACHABLE" } : error) });
    }
    setBusy(false);
  };
  return html`<div class="how">
    <div class="bar">
      <div class="tabs" role="group" aria-label=${t.language}>
        ${LANGUAGES.map(
          ([name, title]) => html`<button
            type="button" class=${name === chosen[0] ? "on" : ""} aria-pressed=${name === chosen[0] ? "true" : "false"}
            onClick=${() => choose(name)}
          >
            ${title}
          </button>`,
        )}
      </div>
      <span class="grow"></span>
      <${Copy} text=${text} />
      ${!still && html`<${Button} kind="small" icon="bolt" busy=${busy} why=${why} onClick=${run}>${t.run}</${Button}>`}
      ${aside}
    </div>
    <${Code} text=${text} />
    ${result && html`<div class="answer" role="status">
      <p class=${`state ${result.status && result.status < 400 ? "ok" : "bad"} s12`}>
        <${Icon} name=${result.status && result.status < 400 ? "done" : "fail"} />
        ${result.status || t.disconnected}
      </p>
      <${Code} text=${result.text} />
    </div>`}
  </div>`;
}

/** @param {string} text */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2).slice(0, 4000);
  } catch {
    return text.slice(0, 4000);
  }
}

const SAMPLES = /** @type {Record<string, unknown>} */ ({
  string: "Hello",
  number: 1.5,
  int: 1,
  boolean: true,
  bool: true,
  date: "2026-01-31",
  object: {},
  array: [],
  uuid: "0190a6c2-1111-7000-8000-000000000001",
});
const FORMATS = /** @type {Record<string, string>} */ ({
  email: "ada@example.com",
  url: "https://example.com",
  slug: "hello-world",
  hostname: "example.com",
  e164: "+821012345678",
  color: "#1f7a8c",
});

/** A value that a column accepts, as far as its checks tell. @param {any} definition */
function sampleOf(definition) {
  if (typeof definition === "string") return SAMPLES[definition];
  const { type, format, min, max, min_length: least, max_length: longest } = definition;
  if (definition.enum) return definition.enum[0];
  if (format) return FORMATS[format];
  if (type === "string") return "Hello".padEnd(least || 0, "o").slice(0, longest ?? undefined);
  if (min !== undefined || max !== undefined) return min ?? max;
  return SAMPLES[type];
}

/** A row that fits a table's schema, to show how one is sent. @param {Record<string, any>} schema */
export function sampleRow(schema) {
  // No sample is the id of a row that is there.
  const columns = Object.entries(schema)
    .filter(([, definition]) => !definition.references || definition.required)
    .map(([name, definition]) => /** @type {[string, unknown]} */ ([name, sampleOf(definition)]));
  return columns.length
    ? Object.fromEntries(columns.slice(0, 4).concat(columns.slice(4).filter(([name]) => schema[name].required)))
    : { text: "Hello" };
}
