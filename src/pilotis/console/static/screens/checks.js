/** The checks of a column's values: bounds, lengths, choices and a format, as the column's type has them. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { Button, FormDialog, TextField } from "../ui/widgets.js";

/** Checks by their names, as the routes take them. @typedef {Record<string, any>} Checks */

/** Which checks a type has. @type {Record<string, string[]>} */
const OF_TYPE = {
  number: ["min", "max", "enum"],
  int: ["min", "max", "enum"],
  date: ["min", "max", "on_update"],
  string: ["min_length", "max_length", "enum", "format", "normalize", "on_update"],
  array: ["min_length", "max_length"],
};
export const CHECKS = ["min", "max", "min_length", "max_length", "enum", "format", "normalize", "on_update"];
const STEPS = ["trim", "lower", "html"];
/** What a change makes of a column by itself. @type {Record<string, any>} */
const MADE = { date: { $now: true }, string: { $member: "id" } };
const FORMATS = ["email", "url", "slug", "hostname", "e164", "color"];

/** The checks of a column as the routes show it, with what is made of its values. @param {any} column @returns {Checks} */
export const checksOf = (column) => ({
  ...column.checks,
  ...(column.normalize ? { normalize: column.normalize } : {}),
  ...(column.on_update ? { on_update: column.on_update } : {}),
});

/**
 * What of a draft's checks a change sends: what differs, with null for what is gone.
 * @param {Checks} checks
 * @param {Checks} before
 */
export const changedChecks = (checks, before) =>
  Object.fromEntries(
    CHECKS.filter((name) => JSON.stringify(checks[name]) !== JSON.stringify(before[name])).map((name) => [
      name,
      checks[name] ?? null,
    ]),
  );

/** Checks in a few words. @param {Checks} checks */
export const checksText = (checks) =>
  CHECKS.filter((name) => checks[name] !== undefined)
    .map((name) => `${name} ${shown(checks[name])}`)
    .join(" · ");

/** @param {any} value */
const shown = (value) =>
  Array.isArray(value) ? value.join(", ") : value && typeof value === "object" ? Object.keys(value)[0] : value;

/** @param {unknown} value */
const textOf = (value) => (value === undefined ? "" : Array.isArray(value) ? value.join("\n") : String(value));

/**
 * What a typed text means as a check; `wrong` says why it means nothing.
 * @param {string} name
 * @param {string} text
 * @param {string} type
 * @returns {{value?: unknown, wrong?: string}}
 */
function meant(name, text, type) {
  const trimmed = text.trim();
  if (!trimmed) return {};
  if (name === "on_update") return { value: MADE[type] };
  if (name === "normalize") return { value: trimmed.split("\n") };
  if (name === "format" || (type === "date" && name !== "enum")) return { value: trimmed };
  const values =
    name === "enum"
      ? text
          .split("\n")
          .map((line) => line.trim())
          .filter(Boolean)
      : [trimmed];
  if (name === "enum" && type === "string") return { value: values };
  const numbers = values.map(Number);
  if (numbers.some((one, index) => !Number.isFinite(one) || String(one) !== values[index]))
    return { wrong: t.checks.notNumber };
  return { value: name === "enum" ? numbers : numbers[0] };
}

/**
 * @param {{name: string, type: string, checks: Checks, why: string | false, onChange: (checks: Checks) => void}} props
 */
export function ChecksButton({ name, type, checks, why, onChange }) {
  const [open, setOpen] = useState(false);
  if (!OF_TYPE[type]) return null;
  const text = checksText(checks);
  return html`
    <${Button}
      kind="flat small" icon=${text ? "check" : "plus"} label=${`${text || t.checks.title}, ${name}`}
      title=${text || t.checks.none} why=${why} onClick=${() => setOpen(true)}
    >
      <span class="cut checkstext">${text || t.checks.title}</span>
    </${Button}>
    ${open && html`<${ChecksDialog}
      name=${name} type=${type} checks=${checks} onClose=${() => setOpen(false)}
      done=${(/** @type {Checks} */ found) => (onChange(found), setOpen(false))}
    />`}
  `;
}

/** @param {{name: string, type: string, checks: Checks, onClose: () => void, done: (checks: Checks) => void}} props */
function ChecksDialog({ name, type, checks, onClose, done }) {
  const [texts, setTexts] = useState(
    /** @type {Record<string, string>} */ (Object.fromEntries(CHECKS.map((one) => [one, textOf(checks[one])]))),
  );
  const found = Object.fromEntries(OF_TYPE[type].map((one) => [one, meant(one, texts[one], type)]));
  const wrong = Object.values(found).find((one) => one.wrong)?.wrong;
  const set = (/** @type {string} */ one) => (/** @type {string} */ text) => setTexts({ ...texts, [one]: text });
  const submit = async () =>
    done(
      Object.fromEntries(
        Object.entries(found)
          .filter(([, one]) => one.value !== undefined)
          .map(([one, { value }]) => [one, value]),
      ),
    );
  const labels = /** @type {Record<string, string>} */ (t.checks.names);
  const steps = texts.normalize.split("\n").filter(Boolean);
  const toggle = (/** @type {string} */ step) =>
    set("normalize")(STEPS.filter((one) => (one === step) !== steps.includes(one)).join("\n"));
  return html`<${FormDialog}
    title=${t.checks.of(name)} action=${t.checks.use} why=${wrong} onClose=${onClose} submit=${submit}
  >
    <p class="soft s13">${t.checks.lead}</p>
    ${OF_TYPE[type].map((one) =>
      one === "enum"
        ? html`<label class="field">
            <span class="label">${labels[one]}</span>
            <textarea
              class="in" rows="4" value=${texts[one]} placeholder=${t.checks.onePerLine} spellcheck="false"
              onInput=${(/** @type {Typed} */ event) => set(one)(event.target.value)}
            ></textarea>
          </label>`
        : one === "normalize"
          ? html`<fieldset class="field plain">
              <legend class="label">${labels[one]}</legend>
              ${STEPS.map(
                (step) => html`<label class="check">
                  <input type="checkbox" checked=${steps.includes(step)} onChange=${() => toggle(step)} />
                  ${/** @type {Record<string, string>} */ (t.checks.steps)[step]}
                </label>`,
              )}
            </fieldset>`
          : one === "on_update"
            ? html`<label class="check">
                <input type="checkbox" checked=${!!texts[one]} onChange=${() => set(one)(texts[one] ? "" : "made")} />
                ${/** @type {Record<string, string>} */ (t.checks.made)[type]}
              </label>`
            : one === "format"
              ? html`<label class="field">
                  <span class="label">${labels[one]}</span>
                  <select
                    class="in" value=${texts[one]}
                    onChange=${(/** @type {Typed} */ event) => set(one)(event.target.value)}
                  >
                    <option value=""></option>
                    ${FORMATS.map(
                      (format) => html`<option value=${format} selected=${format === texts[one]}>${format}</option>`,
                    )}
                  </select>
                </label>`
              : html`<${TextField}
                  label=${labels[one]} value=${texts[one]} onInput=${set(one)}
                  placeholder=${type === "date" ? "2026-01-31" : ""}
                  inputmode=${type === "date" ? undefined : "decimal"}
                />`,
    )}
    ${wrong && html`<p class="wrong s12">${wrong}</p>`}
  </${FormDialog}>`;
}
