/** The bar of filters above a grid: chips that can be read, or the exact condition as JSON. */
import { html, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { plain } from "../ui/format.js";
import { Editor as CodeEditor } from "../ui/editor.js";
import { Icon } from "../ui/icons.js";
import { Button, Dialog, MenuButton } from "../ui/widgets.js";
import { MemberField, MemberName } from "../ui/member.js";
import { labelOf, parse, readable, textOf } from "./values.js";
import { DateField } from "./picker.js";
import { OPERATORS, fromWhere, ofDay, toWhere } from "./where.js";

/** @typedef {import("./values.js").Column} Column */

/**
 * @param {{where: Record<string, unknown>, onChange: (where: any) => void, columns: Column[], daysAlone: (column:
 *   Column) => boolean}}
 *   props
 */
export function Filters({ where, onChange, columns, daysAlone }) {
  const [json, setJson] = useState(false);
  const filter = where ? fromWhere(where) : { mode: /** @type {"all"} */ ("all"), conditions: [] };
  const put = (/** @type {import("./where.js").Filter} */ next) => onChange(toWhere(next));
  return html`
    ${filter
      ? html`
          ${filter.conditions.map(
            (condition, index) => html`
              <span class="chip" key=${index}>
                <${MenuButton}
                  role="dialog" label=${t.grid.filter}
                  button=${(/** @type {Bind} */ bind) => html`<button type="button" class="main" ...${bind}>
                    <b>${plain(nameOf(condition.column, columns), 40)}</b>
                    <em>${worded(t.operators, operatorOf(condition, columns))}</em>
                    <span class="cut">${shown(condition, columns)}</span>
                  </button>`}
                >
                  ${(/** @type {() => void} */ close) => html`<${ConditionEditor}
                    columns=${columns} known=${condition} daysAlone=${daysAlone}
                    save=${(/** @type {any} */ next) => (
                      put({ ...filter, conditions: filter.conditions.map((one, at) => (at === index ? next : one)) }),
                      close()
                    )}
                  />`}
                </${MenuButton}>
                <button
                  type="button" aria-label=${t.removeFilter}
                  onClick=${() => put({ ...filter, conditions: filter.conditions.filter((_, at) => at !== index) })}
                >
                  <${Icon} name="cross" />
                </button>
              </span>
              ${index === 0 && filter.conditions.length > 1 && html`<button
                type="button" class="b flat small"
                onClick=${() => put({ ...filter, mode: filter.mode === "all" ? "any" : "all" })}
              >
                ${filter.mode === "all" ? t.grid.and : t.grid.or}
              </button>`}
            `,
          )}
          <${MenuButton}
            role="dialog" label=${t.grid.filter}
            button=${(/** @type {Bind} */ bind) => html`<${Button} kind="flat small" icon="plus" ...${bind}>
              ${t.grid.filter}
            </${Button}>`}
          >
            ${(/** @type {() => void} */ close) => html`<${ConditionEditor}
              columns=${columns} daysAlone=${daysAlone}
              save=${(/** @type {any} */ next) => (
                put({ ...filter, conditions: [...filter.conditions, next] }),
                close()
              )}
            />`}
          </${MenuButton}>
        `
      : html`<span class="chip">
          <button type="button" class="main" onClick=${() => setJson(true)}>
            <b>where</b>
            <code class="cut">${plain(JSON.stringify(where), 80)}</code>
          </button>
          <button type="button" aria-label=${t.removeFilter} onClick=${() => onChange(null)}>
            <${Icon} name="cross" />
          </button>
        </span>`}
    <${Button} kind="flat small" icon="t-object" class="wide" onClick=${() => setJson(true)}>JSON</${Button}>
    ${json && html`<${WhereDialog} where=${where} onChange=${onChange} onClose=${() => setJson(false)} />`}
  `;
}

/** @param {string} name @param {Column[]} columns */
function nameOf(name, columns) {
  const column = columns.find((one) => one.name === name);
  return column ? labelOf(column) : name;
}

/**
 * A day is compared by "on", whether it is stored as one or as the moments of it.
 * @param {import("./where.js").Condition} condition
 * @param {Column[]} columns
 */
const operatorOf = ({ column, operator, value }, columns) =>
  operator === "equals" &&
  columns.find((one) => one.name === column)?.type === "date" &&
  /^\d{4}-\d\d-\d\d$/.test(String(value))
    ? "on"
    : operator;

/** @param {import("./where.js").Condition} condition @param {Column[]} columns */
function shown({ column, operator, value }, columns) {
  if (operator === "isNull" || operator === "notNull") return "";
  const known = columns.find((one) => one.name === column);
  if (known?.type === "member" && typeof value === "string") return html`<${MemberName} id=${value} />`;
  const text = (/** @type {unknown} */ one) =>
    known?.type === "date"
      ? readable(String(one))
      : plain(typeof one === "object" ? JSON.stringify(one) : one === "" ? "“”" : one, 60);
  return Array.isArray(value) ? value.map(text).join(operator === "between" ? ` ${t.grid.to} ` : ", ") : text(value);
}

/**
 * @param {{columns: Column[], known?: import("./where.js").Condition, daysAlone: (column: Column) => boolean, save:
 *   (condition: import("./where.js").Condition) => void}} props
 */
export function ConditionEditor({ columns, known, daysAlone, save }) {
  const [name, setName] = useState(known?.column || columns[0]?.name || "");
  const column = columns.find((one) => one.name === name) || columns[0];
  const allowed = OPERATORS[column.encrypted ? "encrypted" : column.type];
  const [operator, setOperator] = useState(known ? operatorOf(known, columns) : "");
  const chosen = allowed.includes(operator) ? operator : allowed[0];
  const first = known && known.value !== null ? known.value : "";
  const [texts, setTexts] = useState(
    Array.isArray(first)
      ? chosen === "oneOf"
        ? [first.map((one) => textOf(one, column)).join(", "), ""]
        : first.map((one) => textOf(one, column))
      : [textOf(first, column), ""],
  );
  const [wrong, setWrong] = useState("");
  const bare = chosen === "isNull" || chosen === "notNull";
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    if (bare) return save({ column: column.name, operator: chosen, value: null });
    const given =
      chosen === "between"
        ? texts
        : chosen === "oneOf"
          ? texts[0]
              .split(",")
              .map((one) => one.trim())
              .filter(Boolean)
          : [texts[0]];
    const values = given.map((text) => parse(text, column));
    const bad = values.find((one) => one.wrong);
    if (bad) return setWrong(String(bad.wrong));
    if (values.some((one) => one.value === null)) return setWrong(t.grid.valueFirst);
    if (chosen === "on" && !/^\d{4}-\d\d-\d\d$/.test(String(values[0].value)))
      return save({ column: column.name, operator: "equals", value: values[0].value });
    if (column.type === "date" && chosen !== "equals" && chosen !== "not") {
      const { operator: meant, value } = ofDay(
        chosen,
        chosen === "between" ? values.map((one) => one.value) : values[0].value,
        daysAlone(column),
      );
      // The moments of a whole day are one condition, which reads as the day.
      return save({ column: column.name, operator: meant, value });
    }
    save({
      column: column.name,
      operator: chosen,
      value: chosen === "between" || chosen === "oneOf" ? values.map((one) => one.value) : values[0].value,
    });
  };
  const field = (/** @type {number} */ index) =>
    column.type === "boolean"
      ? html`<select
          class="in" aria-label=${t.grid.value} value=${texts[index] || "true"}
          onChange=${(/** @type {Typed} */ event) => setTexts([event.target.value, ""])}
        >
          <option value="true">true</option>
          <option value="false" selected=${texts[index] === "false"}>false</option>
        </select>`
      : column.type === "member"
        ? html`<${MemberField}
            label=${t.grid.value} id=${texts[index]}
            onChoose=${(/** @type {string} */ id) => (setWrong(""), setTexts([id, ""]))}
          />`
        : column.type === "date"
          ? html`<${DateField}
              label=${t.grid.value} text=${texts[index]}
              onInput=${(/** @type {string} */ text) => (
                setWrong(""),
                setTexts(index ? [texts[0], text] : [text, texts[1]])
              )}
            />`
          : html`<input
              class="in" aria-label=${t.grid.value} value=${texts[index]}
              placeholder=${chosen === "oneOf" ? t.grid.commas : ""} spellcheck="false"
              onInput=${(/** @type {Typed} */ event) => (
                setWrong(""),
                setTexts(index ? [texts[0], event.target.value] : [event.target.value, texts[1]])
              )}
            />`;
  if (column.type === "boolean" && !texts[0]) texts[0] = "true";
  return html`<form class="conditions" onSubmit=${submit}>
    <select
      class="in" aria-label=${t.grid.column} value=${column.name}
      onChange=${(/** @type {Typed} */ event) => (setName(event.target.value), setTexts(["", ""]))}
    >
      ${columns.map(
        (one) => html`<option value=${one.name} selected=${one.name === column.name}>
          ${plain(labelOf(one), 60)}
        </option>`,
      )}
    </select>
    <select
      class="in" aria-label=${t.grid.operator} value=${chosen}
      onChange=${(/** @type {Typed} */ event) => setOperator(event.target.value)}
    >
      ${allowed.map(
        (one) => html`<option value=${one} selected=${one === chosen}>${worded(t.operators, one)}</option>`,
      )}
    </select>
    ${!bare && field(0)}
    ${chosen === "between" && field(1)}
    ${wrong && html`<p class="state bad s12" role="alert">${wrong}</p>`}
    <div class="line">
      <span class="grow"></span>
      <${Button} kind="go small" type="submit">${t.grid.apply}</${Button}>
    </div>
  </form>`;
}

/**
 * @param {{where: Record<string, unknown>, onChange: (where: Record<string, unknown>) => void, onClose: () => void}}
 *   props
 */
function WhereDialog({ where, onChange, onClose }) {
  const [text, setText] = useState(where ? JSON.stringify(where, null, 2) : "{\n  \n}");
  let wrong = "";
  let value = null;
  try {
    value = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) wrong = t.grid.notObject;
  } catch (error) {
    wrong = t.grid.notJson(/** @type {Error} */ (error).message);
  }
  const apply = () => {
    onChange(Object.keys(value).length ? value : null);
    onClose();
  };
  return html`<${Dialog}
    title="where" onClose=${onClose}
    footer=${html`
      <${Button} kind="flat" href="/docs/guides/where" target="_blank">${t.grid.whereGuide}</${Button}>
      <span class="grow"></span>
      <${Button} kind="go" why=${wrong} onClick=${apply}>${t.grid.apply}</${Button}>
    `}
  >
    <${CodeEditor}
      language="json" label="where" rows=${12} numbers focused value=${text} onInput=${setText} wrong=${!!wrong}
    />
    <p class=${`state s12 ${wrong ? "bad" : "ok"}`} role="status">
      <${Icon} name=${wrong ? "fail" : "check"} />
      ${wrong || t.grid.valid}
    </p>
  </${Dialog}>`;
}
