/**
 * Code in CodeMirror, which is loaded when the first editor is opened: a plain text box stands in until it arrives, and
 * where it does not. It lives in a shadow root, because there it needs no `<style>`, which the page's policy forbids.
 */
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/view.js";
import { isCommand } from "./format.js";

/** @typedef {"json" | "javascript" | "typescript" | "python" | "text"} Language */

/** @type {any} */
let loaded = null;

/** Fetch CodeMirror where it is likely to be needed, so that the first editor need not wait for it. */
export const prefetch = () =>
  void (
    loaded ||
    import("../vendor/editor.js").then(
      (found) => (loaded = found),
      () => {},
    )
  );

/**
 * What may be written behind a text, with what is being written in place of what begins at `from`.
 * @typedef {(text: string) => {from: number, isKey: boolean, options: {text: string, label: string, detail: string}[]} | null}
 *   Propose
 */
/**
 * @param {{value: string, onInput: (text: string) => void, language: Language, label: string, rows?: number, wrong?:
 *   boolean, readOnly?: boolean,
 *   numbers?: boolean, focused?: boolean, onSave?: () => void, onCancel?: () => void,
 *   mark?: {line: number, column: number, text: string} | null, proposed?: string, propose?: Propose}} props `mark` is where
 *   an error lies, `proposed` the name of what `propose` lists
 */
export function Editor(props) {
  const [module, setModule] = useState(loaded);
  const plain = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const wasFocused = useRef(!!props.focused);
  useEffect(() => {
    if (loaded) return undefined;
    let isGone = false;
    import("../vendor/editor.js").then(
      (found) => {
        loaded = found;
        // A text that is being composed stays where it is until it is written.
        const take = () => {
          if (isGone) return;
          wasFocused.current = document.activeElement === plain.current;
          setModule(found);
        };
        if (plain.current?.dataset.composing)
          plain.current.addEventListener("compositionend", () => setTimeout(take), { once: true });
        else take();
      },
      () => {},
    );
    return () => (isGone = true);
  }, []);
  useEffect(() => {
    if (props.focused) plain.current?.focus();
  }, []);
  if (module) return html`<${Full} ...${props} module=${module} focused=${wasFocused.current} />`;
  const { value, onInput, label, rows = 6, wrong, readOnly, onSave, onCancel } = props;
  /** @param {KeyboardEvent} event */
  const keys = (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape" && onCancel) onCancel();
    else if (event.key === "Enter" && onSave && isCommand(event)) (event.preventDefault(), onSave());
    if (onSave) event.stopPropagation();
  };
  return html`<textarea
    ref=${plain} class="in code" rows=${rows} spellcheck="false" autocapitalize="off" aria-label=${label}
    aria-invalid=${wrong ? "true" : undefined} readonly=${!!readOnly} value=${value}
    onInput=${(/** @type {Typed} */ event) => onInput(event.target.value)} onKeyDown=${keys}
    onCompositionStart=${(/** @type {Typed} */ event) => (event.target.dataset.composing = "1")}
    onCompositionEnd=${(/** @type {Typed} */ event) => delete event.target.dataset.composing}
  ></textarea>`;
}

/** @param {any} module */
function look({ EditorView, HighlightStyle, syntaxHighlighting, tags }) {
  return [
    EditorView.theme({
      "&": {
        height: "var(--editor-fill, auto)",
        color: "var(--text)",
        backgroundColor: "transparent",
        fontSize: "var(--t12)",
      },
      "&.cm-focused": { outline: "none" },
      ".cm-scroller": {
        fontFamily: "var(--mono)",
        lineHeight: "1.6",
        overflow: "auto",
        maxHeight: "var(--editor-height)",
      },
      ".cm-content": { padding: "7px 0", caretColor: "var(--text)", minHeight: "var(--editor-least)" },
      ".cm-line": { padding: "0 10px" },
      ".cm-gutters": { backgroundColor: "transparent", border: "0", color: "var(--soft)", paddingLeft: "6px" },
      ".cm-selectionMatch, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--tint)" },
      // The tree may not be complete yet: what is invalid is marked by the linter.
      "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "transparent" },
      ".cm-content ::selection": { backgroundColor: "var(--tint)" },
      ".cm-tooltip": {
        backgroundColor: "var(--raised)",
        color: "var(--text)",
        border: "1px solid var(--hair)",
        borderRadius: "4px",
      },
      ".cm-diagnostic-error": { borderLeft: "2px solid var(--bad)" },
      ".cm-tooltip.cm-tooltip-autocomplete > ul": {
        fontFamily: "var(--mono)",
        maxHeight: "220px",
        minWidth: "min(240px, 80vw)",
        maxWidth: "min(560px, 92vw)",
      },
      ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "4px 8px", lineHeight: "1.4" },
      ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
        backgroundColor: "var(--tint)",
        color: "var(--text)",
      },
      ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "600" },
      ".cm-completionDetail": { color: "var(--soft)", fontStyle: "normal", fontFamily: "var(--sans)" },
    }),
    syntaxHighlighting(
      HighlightStyle.define([
        {
          tag: [tags.propertyName, tags.keyword, tags.modifier, tags.definitionKeyword, tags.controlKeyword],
          color: "var(--c-key)",
        },
        { tag: [tags.string, tags.special(tags.string)], color: "var(--c-text)" },
        { tag: [tags.number, tags.bool, tags.null], color: "var(--c-number)" },
        { tag: tags.comment, color: "var(--soft)", fontStyle: "italic" },
      ]),
    ),
  ];
}

/** What is listed at a place: by itself once something is being written there, else when it is asked for. @param {any} at @param {Propose | undefined} propose */
function proposed(at, propose) {
  const { doc } = at.state;
  const found = propose?.(doc.sliceString(0, at.pos));
  if (!found?.options.length || (!at.explicit && found.from === at.pos)) return null;
  // The rest of a name that is changed goes with it, and what follows a name is not written twice.
  const rest = doc.sliceString(at.pos, at.pos + 100);
  const quoted = doc.sliceString(found.from, found.from + 1) === '"';
  const more = quoted ? /^[^"\n\\]*"/.exec(rest)?.[0].length || 0 : 0;
  const colon = found.isKey && !/^\s*:/.test(rest.slice(more)) ? ": " : "";
  return {
    from: found.from,
    to: at.pos + more,
    options: found.options.map(({ text, label, detail }) => ({
      label: text,
      displayLabel: label,
      detail,
      apply: text.endsWith('"') ? text + colon : text,
    })),
  };
}

/** @param {{line: number, column: number}} mark @param {any} doc @returns {number} */
function placeOf({ line, column }, doc) {
  const found = doc.line(Math.max(1, Math.min(line, doc.lines)));
  return Math.min(found.from + Math.max(0, column - 1), found.to);
}

/** @param {{line: number, column: number, text: string} | null | undefined} mark @param {any} doc */
function marked(mark, doc) {
  if (!mark) return [];
  const { from, to } = doc.lineAt(placeOf(mark, doc));
  return [{ from, to, severity: "error", message: mark.text }];
}

/** @param {Parameters<typeof Editor>[0] & {module: any}} props */
function Full(props) {
  const { module, value, language, label, rows = 6, wrong, readOnly, numbers, focused } = props;
  const host = useRef(/** @type {HTMLElement | null} */ (null));
  const view = useRef(/** @type {any} */ (null));
  const latest = useRef(props);
  latest.current = props;
  const seen = useRef(/** @type {any} */ (null));
  useLayoutEffect(() => {
    const box = /** @type {HTMLElement} */ (host.current);
    const root = box.shadowRoot || box.attachShadow({ mode: "open" });
    box.style.setProperty("--editor-least", `${Math.min(rows, 14) * 20}px`);
    const {
      EditorState,
      EditorView,
      bracketMatching,
      defaultKeymap,
      history,
      historyKeymap,
      indentOnInput,
      indentWithTab,
      jsonParseLinter,
      keymap,
      lineNumbers,
      linter,
    } = module;
    const act = (/** @type {"onSave" | "onCancel"} */ name) => () => {
      latest.current[name]?.();
      return !!latest.current[name];
    };
    const lint = jsonParseLinter();
    const propose = (/** @type {any} */ at) => proposed(at, latest.current.propose);
    view.current = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: value,
        extensions: [
          keymap.of([
            { key: "Mod-Enter", run: act("onSave") },
            { key: "Escape", run: act("onCancel") },
          ]),
          history(),
          indentOnInput(),
          bracketMatching(),
          props.propose && !readOnly
            ? [
                module.autocompletion({
                  override: [propose],
                  icons: false,
                  maxRenderedOptions: 60,
                  compareCompletions: () => 0,
                }),
                EditorState.phrases.of({ Completions: props.proposed || label }),
              ]
            : [],
          language === "text"
            ? []
            : language === "typescript"
              ? module.javascript({ typescript: true })
              : module[language](),
          language === "json"
            ? linter((/** @type {any} */ at) => (at.state.doc.toString().trim() ? lint(at) : []), { delay: 300 })
            : [],
          linter((/** @type {any} */ at) => marked(latest.current.mark, at.state.doc), {
            delay: 0,
            needsRefresh: () => seen.current !== latest.current.mark && ((seen.current = latest.current.mark), true),
          }),
          numbers ? lineNumbers() : [],
          // In a field of a form, Tab leads to the next one.
          keymap.of([...(language === "json" ? [] : [indentWithTab]), ...defaultKeymap, ...historyKeymap]),
          EditorView.lineWrapping,
          EditorState.readOnly.of(!!readOnly),
          EditorView.contentAttributes.of(() => ({
            "aria-label": label,
            // What scrolls can be reached by keys, which those who check that know by this.
            tabindex: "0",
            ...(latest.current.wrong ? { "aria-invalid": "true" } : {}),
          })),
          // Chromium would keep the look of a replaced text in an inline style, which the policy forbids.
          EditorView.domEventHandlers({
            beforeinput: (/** @type {InputEvent} */ event, /** @type {any} */ at) => {
              if (
                event.inputType !== "insertText" ||
                event.isComposing ||
                event.data === null ||
                at.state.readOnly ||
                at.state.selection.main.empty
              )
                return false;
              event.preventDefault();
              at.dispatch(at.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
              return true;
            },
          }),
          EditorView.updateListener.of(
            (/** @type {any} */ update) => update.docChanged && latest.current.onInput(update.state.doc.toString()),
          ),
          look(module),
        ],
      }),
    });
    if (focused) view.current.focus();
    return () => view.current.destroy();
  }, []);
  useLayoutEffect(() => {
    const now = view.current.state.doc.toString();
    if (now !== value) view.current.dispatch({ changes: { from: 0, to: now.length, insert: value } });
  }, [value]);
  // The line of an error comes into view, and is marked until the text changes.
  useLayoutEffect(() => {
    const { mark } = props;
    if (!mark) return view.current.dispatch({});
    const at = placeOf(mark, view.current.state.doc);
    view.current.dispatch({ selection: { anchor: at }, scrollIntoView: true });
  }, [props.mark?.text]);
  return html`<div
    ref=${host} class=${`in editor ${wrong ? "wrong" : ""}`}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => latest.current.onSave && event.stopPropagation()}
  ></div>`;
}
