/**
 * A plugin of Prettier that also formats what is in html`…`, the markup of the console's modules, which Prettier itself
 * keeps as it is. The grammar is that of htm 3: a component is `<${Name} …>`, and whitespace with a line break next to
 * a
 * tag or an expression means nothing.
 */
import { doc } from "prettier";
import { parsers as builtinParsers } from "prettier/plugins/babel";
import { printers as builtin } from "prettier/plugins/estree";

const { fill, group, ifBreak, indent, join, line, lineSuffixBoundary, softline } = doc.builders;

// Expressions stand as single characters in the text that is parsed: the first is U+E000.
const FIRST = 0xe000;
const EXPRESSION = /[\ue000-\uf8ff]/;
const SPACE = '${" "}';

/** @param {string} character */
const indexOf = (character) => character.charCodeAt(0) - FIRST;

/**
 * The children of a template: texts, expressions (numbers) and elements.
 * @param {string} source
 */
function parse(source) {
  let at = 0;
  /** @param {RegExp} pattern */
  const take = (pattern) => {
    const found = new RegExp(pattern, "y");
    found.lastIndex = at;
    const text = found.exec(source)?.[0];
    at += text?.length ?? 0;
    return text;
  };
  /** @param {string | undefined} given */
  const need = (given) => {
    if (!given) throw new SyntaxError(`html: unexpected "${source.slice(at, at + 20)}"`);
    return given;
  };
  const attribute = () => {
    if (take(/\.\.\./)) return { spread: indexOf(need(take(EXPRESSION))) };
    const name = need(take(/[^\s=/>"']+/));
    if (!take(/=/)) return { name };
    const quoted = take(/"[^"]*"|'[^']*'/);
    const value = quoted ? quoted.slice(1, -1) : need(take(/([^\s/>]|\/(?!>))+/));
    return { name, value, quote: quoted?.[0] ?? '"' };
  };
  const element = () => {
    const tag = need(take(/[^\s/>]+/));
    const attributes = [];
    while ((take(/\s+/), !/[/>]/.test(source[at]))) attributes.push(attribute());
    if (take(/\/\s*>/)) return { tag, attributes, children: null };
    need(take(/>/));
    const children = nodes();
    const closing = need(take(/<\/[^>]*>/))
      .slice(2, -1)
      .trim();
    if (EXPRESSION.test(tag) ? !EXPRESSION.test(closing) : closing !== tag)
      throw new SyntaxError(`html: <${tag}> ends as ${closing}`);
    return { tag, closing, attributes, children };
  };
  /** @returns {any[]} */
  const nodes = () => {
    const found = [];
    while (at < source.length && !/<\//y.test(source.slice(at, at + 2))) {
      if (take(/<(?!!--)/)) found.push(element());
      else if (EXPRESSION.test(source[at])) found.push(indexOf(source[at++]));
      else found.push(need(take(/[^<\ue000-\uf8ff]+/)));
    }
    return found;
  };
  const found = nodes();
  if (at < source.length) need("");
  return found;
}

/** @param {any} path @param {(selector?: any) => any} print */
function template(path, print) {
  const { quasis, expressions } = path.node;
  const roots = parse(
    quasis
      .map(
        (/** @type {any} */ one, /** @type {number} */ index) =>
          (index ? String.fromCharCode(FIRST + index - 1) : "") + (one.markup ?? one.value.raw),
      )
      .join(""),
  );

  /** An expression in its braces. @param {number} index */
  const expression = (index) => {
    const { type, operator, right, comments } = expressions[index];
    const ends = [lineSuffixBoundary, "}"];
    if (type === "LogicalExpression" && !comments && !/^(Logical|Binary|Conditional)/.test(right.type)) {
      const [left, last] = path.call(
        (/** @type {any} */ one) => [one.call(print, "left"), one.call(print, "right")],
        "expressions",
        index,
      );
      return ["${", group(indent(left)), ` ${operator} `, last, ends];
    }
    const printed = path.call(print, "expressions", index);
    if (/^(Logical|Binary|Assignment|Sequence)/.test(type))
      return group(["${", indent([softline, printed]), softline, ends]);
    return ["${", printed, ends];
  };
  /** A text with expressions in it. @param {string} text */
  const mixed = (text) =>
    text.split(/([\ue000-\uf8ff])/).map((part) => (EXPRESSION.test(part) ? expression(indexOf(part)) : part));

  /** @param {any} given */
  const attribute = ({ spread, name, value, quote }) => {
    if (spread !== undefined) return ["...", expression(spread)];
    if (value === undefined) return name;
    if (value.length === 1 && EXPRESSION.test(value)) return [name, "=", expression(indexOf(value))];
    return [name, "=", quote, ...mixed(value), quote];
  };
  /** @param {any} given */
  const element = ({ tag, closing, attributes, children }) => {
    const name = mixed(tag);
    const empty = children === null;
    const given = attributes.map(attribute);
    const isOne = attributes.length === 1 && (attributes[0].spread !== undefined || attributes[0].value?.length === 1);
    const opening = !given.length
      ? ["<", name, empty ? " />" : ">"]
      : isOne
        ? ["<", name, " ", given[0], empty ? " />" : ">"]
        : group(["<", name, indent([line, fill(join(line, given))]), empty ? [line, "/>"] : [softline, ">"]]);
    if (empty) return opening;
    const end = ["</", mixed(closing), ">"];
    if (tag === "pre" || tag === "textarea") return [opening, ...children.map(verbatim), end];
    const inside = content(children);
    return inside ? group([opening, indent([softline, inside]), softline, end]) : [opening, end];
  };
  /** @param {any} child */
  const verbatim = (child) =>
    typeof child === "string" ? child : typeof child === "number" ? expression(child) : element(child);

  /**
   * Children as lines: those between which there is text or whitespace fill their lines together.
   * @param {any[]} children
   */
  const content = (children) => {
    /** @type {any[][]} */
    const runs = [];
    let separator = /** @type {any} */ (null);
    let before = /** @type {any} */ ("");
    let after = /** @type {any} */ ("");
    const edge = ifBreak(SPACE, " ");
    /** @param {any} printed @param {boolean} glued */
    const put = (printed, glued) => {
      const run = runs.at(-1);
      if (run && separator) run.push(separator, printed);
      else if (run && glued) run.push([run.pop(), printed]);
      else runs.push([printed]);
      separator = null;
    };
    children.forEach((given, index) => {
      const child = expressions[given]?.value === " " ? " " : given;
      if (typeof child !== "string") {
        put(verbatim(child), typeof children[index - 1] === "string" && !/\n\s*$/.test(children[index - 1]));
        return;
      }
      const text = child.replace(/^\s*\n\s*|\s*\n\s*$/g, "");
      if (!text) return;
      const words = text.split(/[ \t\r\n]+/);
      const isFirst = !runs.length;
      const [leads, trails] = [words[0] === "", words.at(-1) === ""];
      const own = words.filter(Boolean);
      const space = ifBreak([softline, SPACE], " ");
      if (leads && isFirst) before = edge;
      own.forEach((word, place) => {
        if (place) separator = line;
        else if (leads && !isFirst) separator = space;
        put(word, place === 0 && !/^\s*\n/.test(child));
      });
      if (own.length ? trails : !isFirst) {
        if (index === children.length - 1) after = edge;
        else separator = space;
      }
    });
    if (separator) after = edge;
    return runs.length || before || after
      ? [
          before,
          join(
            softline,
            runs.map((run) => fill(run)),
          ),
          after,
        ]
      : null;
  };

  const isOne = roots.length === 1 && typeof roots[0] === "object";
  if (isOne) return ["`", element(roots[0]), "`"];
  const inside = content(roots);
  return inside ? group(["`", indent([softline, inside]), softline, "`"]) : "``";
}

const { estree } = builtin;
const { babel } = builtinParsers;

/** @param {any} node */
const isMarkup = (node) => node.type === "TaggedTemplateExpression" && node.tag.name === "html";

/**
 * Prettier lets a template follow an arrow on its line where it has several lines already: all of ours do.
 * @param {any} node
 */
function mark(node) {
  if (!node || typeof node !== "object") return;
  if (isMarkup(node)) {
    const [first] = node.quasi.quasis;
    first.markup = first.value.raw;
    first.value = { ...first.value, raw: `\n${first.value.raw}` };
  }
  for (const [key, child] of Object.entries(node)) if (key !== "loc" && key !== "comments") mark(child);
}

export const parsers = {
  babel: {
    ...babel,
    preprocess: (/** @type {string} */ text) => text.replace(/=>\s*\n\s*html`/g, "=> html`"),
    parse: async (/** @type {string} */ text, /** @type {any} */ options) => {
      const tree = await babel.parse(text, options);
      mark(tree.program);
      return tree;
    },
  },
};

/** @type {import("prettier").Plugin["printers"]} */
export const printers = {
  estree: {
    ...estree,
    embed: (path, options) =>
      path.node.type === "TemplateLiteral" && isMarkup(path.parent)
        ? async (_toDoc, print) => template(path, print)
        : estree.embed?.(path, options),
  },
};
