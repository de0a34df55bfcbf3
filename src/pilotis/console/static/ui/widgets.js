/** What all screens are made of. */
import { html, signal, useCallback, useEffect, useId, useLayoutEffect, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { opened } from "../state/app.js";
import { prose } from "./format.js";
import { Icon } from "./icons.js";

/** @typedef {import("../state/api.js").ApiError} ApiError */

/** How many characters of a code are shown. */
const MAX_CODE = 100_000;
/** What is typed into, in a dialog. */
const TEXTS = "input:not([type=checkbox], [type=radio], [type=file]), textarea";

/**
 * A button, or a link that looks like one. `why` disables it and says why; `busy` while it works.
 * @param {{kind?: string, icon?: string, children?: Markup, why?: string | false | null, busy?: boolean, href?: string,
 *   label?: string, onClick?: (event: MouseEvent) => void, type?: string, class?: string, [name: string]: any}} props
 */
export function Button({
  kind = "",
  icon,
  children,
  why,
  busy,
  href,
  label,
  onClick,
  type = "button",
  class: extra = "",
  ...rest
}) {
  const looks = `b ${kind} ${icon && !children ? "icon" : ""} ${extra}`;
  const inside = html`
    ${busy ? html`<${Icon} name="run" class="spin" />` : icon && html`<${Icon} name=${icon} />`}
    ${children}
  `;
  if (href) return html`<a class=${looks} href=${href} aria-label=${label} title=${label} ...${rest}>${inside}</a>`;
  /** @param {MouseEvent} event */
  const press = (event) => {
    if (why || busy) event.preventDefault();
    else onClick?.(event);
  };
  return html`<button
    type=${type} class=${looks} aria-disabled=${why || busy ? "true" : undefined} title=${why || label || undefined}
    aria-label=${label} onClick=${press} ...${rest}
  >
    ${inside}
  </button>`;
}

/**
 * A labelled control: `children` gets the attributes that tie it to its label, help and error.
 * @param {{label: Markup, help?: Markup, wrong?: Markup, children: (bind: Bind) => Markup, optional?: boolean}}
 *   props
 */
export function Field({ label, help, wrong, children, optional }) {
  const id = useId();
  const described = [help && `${id}-help`, wrong && `${id}-wrong`].filter(Boolean).join(" ") || undefined;
  return html`<div class="field">
    <label for=${id}>${label}${optional && html` <span class="soft">${t.optional}</span>`}</label>
    ${children({ id, "aria-describedby": described, "aria-invalid": wrong ? "true" : undefined })}
    ${help && html`<p class="help" id=${`${id}-help`}>${help}</p>`}
    ${wrong && html`<p class="wrong" id=${`${id}-wrong`} role="alert">${wrong}</p>`}
  </div>`;
}

/**
 * @param {{label: Markup, help?: Markup, wrong?: Markup, value: string, onInput: (value: string) => void, optional?:
 *   boolean,
 *   [name: string]: any}} props
 */
export function TextField({ label, help, wrong, value, onInput, optional, class: extra = "", ...rest }) {
  return html`<${Field} label=${label} help=${help} wrong=${wrong} optional=${optional}>
    ${(/** @type {Bind} */ bind) => html`<input
      class=${`in ${extra}`} value=${value} onInput=${(/** @type {Typed} */ event) => onInput(event.target.value)}
      ...${bind} ...${rest}
    />`}
  </${Field}>`;
}

/**
 * A text of several lines.
 * @param {{label: Markup, help?: Markup, wrong?: Markup, value: string, onInput: (value: string) => void, optional?:
 *   boolean,
 *   [name: string]: any}} props
 */
export function TextAreaField({ label, help, wrong, value, onInput, optional, ...rest }) {
  return html`<${Field} label=${label} help=${help} wrong=${wrong} optional=${optional}>
    ${(/** @type {Bind} */ bind) => html`<textarea
      class="in code" spellcheck="false" autocapitalize="off" value=${value}
      onInput=${(/** @type {Typed} */ event) => onInput(event.target.value)} ...${bind} ...${rest}
    />`}
  </${Field}>`;
}

/**
 * @param {{label: Markup, help?: Markup, value: string, onInput: (value: string) => void, options: [string, any][],
 *   [name:
 *   string]: any}} props
 */
export function SelectField({ label, help, value, onInput, options, ...rest }) {
  return html`<${Field} label=${label} help=${help}>
    ${(/** @type {Bind} */ bind) => html`<select
      class="in" value=${value} onChange=${(/** @type {Typed} */ event) => onInput(event.target.value)} ...${bind}
      ...${rest}
    >
      ${options.map(([name, text]) => html`<option value=${name} selected=${name === value}>${text}</option>`)}
    </select>`}
  </${Field}>`;
}

/**
 * One of a few, each explained by a sentence.
 * @param {{label: string, value: string, onInput: (value: string) => void, options: {value: string, icon: string,
 *   title: string, text: string}[]}} props
 */
export function Choice({ label, value, onInput, options }) {
  const name = useId();
  return html`<fieldset class="field plain">
    <legend class="label">${label}</legend>
    <div class="choice">
      ${options.map(
        (one) => html`<label>
          <input type="radio" name=${name} checked=${one.value === value} onChange=${() => onInput(one.value)} />
          <${Icon} name=${one.icon} />
          <b>${one.title}</b>
          <small>${one.text}</small>
        </label>`,
      )}
    </div>
  </fieldset>`;
}

/** @param {{kind?: string, icon?: string, children: Markup}} props */
export const Pill = ({ kind = "", icon, children }) => html`<span class=${`pill ${kind}`}>
  ${icon && html`<${Icon} name=${icon} class=${icon === "run" ? "spin" : ""} />`}
  ${children}
</span>`;

/**
 * How something stands, as an icon and a word.
 * @param {{look: string[] | undefined, children: Markup, title?: string}} props
 */
export const State = ({ look: [kind, icon] = ["bad", "fail"], children, title }) => html`<span
  class=${`state ${kind}`} title=${title}
>
  <${Icon} name=${icon} class=${icon === "run" ? "spin" : ""} />
  ${children}
</span>`;

/** @param {{label: string, options: [string, string][], value: string, onChange: (value: string) => void}} props */
export const Segments = ({ label, options, value, onChange }) => html`<span
  class="seg" role="group" aria-label=${label}
>
  ${options.map(
    ([name, text]) => html`<button
      type="button" class=${name === value ? "on" : ""} aria-pressed=${name === value ? "true" : "false"}
      onClick=${() => onChange(name)}
    >
      ${text}
    </button>`,
  )}
</span>`;

/** @param {{label: string, items: {href: string, text: string, on: boolean}[]}} props */
export function Tabs({ label, items }) {
  const bar = useRef(/** @type {HTMLElement | null} */ (null));
  const chosen = items.findIndex((item) => item.on);
  useLayoutEffect(() => {
    // Where not all have room, the chosen one stands in the middle of those that can be seen.
    const tab = /** @type {HTMLElement | undefined} */ (bar.current?.children[chosen]);
    if (bar.current && tab)
      bar.current.scrollLeft =
        tab.offsetLeft - bar.current.offsetLeft - (bar.current.clientWidth - tab.offsetWidth) / 2;
  }, [chosen]);
  return html`<nav class="tabs" aria-label=${label} ref=${bar}>
    ${items.map(
      (item) => html`<a href=${item.href} class=${item.on ? "on" : ""} aria-current=${item.on ? "page" : undefined}>
        ${item.text}
      </a>`,
    )}
  </nav>`;
}

/** Put a text on the clipboard, or say that it cannot be; returns whether it is there. @param {string} text */
export async function copyText(text) {
  try {
    await (navigator.clipboard ? navigator.clipboard.writeText(text) : copySelected(text));
    return true;
  } catch {
    toast(t.notCopied, { kind: "bad" });
    return false;
  }
}

/**
 * Copy as the browser's own menu does: a page over plain http from another machine has no clipboard.
 * @param {string} text
 */
function copySelected(text) {
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  const box = document.createElement("textarea");
  box.className = "sr";
  box.value = text;
  // A dialog lets nothing outside of it have the focus.
  (before?.closest("dialog") || document.body).append(box);
  box.select();
  const isCopied = document.execCommand("copy");
  box.remove();
  before?.focus();
  if (!isCopied) throw new Error();
}

/** Copy a text and say so. @param {{text: string, label?: string, kind?: string, onDone?: () => void}} props */
export function Copy({ text, label, kind = "flat small", onDone }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    if (!(await copyText(text))) return;
    setDone(true);
    onDone?.();
    setTimeout(() => setDone(false), 1500);
  };
  return html`<${Button}
    kind=${kind} icon=${done ? "check" : "copy"} label=${label ? undefined : t.copy} onClick=${copy}
  >
    ${label && (done ? t.copied : label)}
  </${Button}>`;
}

/** A secret that is shown once. @param {{value: string, onCopied?: () => void}} props */
export const Secret = ({ value, onCopied }) => html`<div class="secret">
  <code>${value}</code>
  <${Copy} text=${value} label=${t.copy} onDone=${onCopied} />
</div>`;

/**
 * What is shown only once: neither Escape nor a click leaves it before it was copied, or confirmed by its one button.
 * `text` says what the secret can do.
 * @param {{title: Markup, text: Markup, before?: any, label?: string, value: string, children?: Markup, onClose: () =>
 *   void}}
 *   props
 */
export function SecretDialog({ title, text, before, label, value, children, onClose }) {
  const [copied, setCopied] = useState(false);
  const button = html`<span class="grow"></span><${Button} kind="go" onClick=${onClose}>${t.kept}</${Button}>`;
  return html`<${Dialog} title=${title} onClose=${onClose} fixed=${!copied} held=${t.keepFirst} footer=${button}>
    <div class="form">
      <p>${text}</p>
      ${before}
      <div class="field">
        ${label && html`<span class="label">${label}</span>`}
        <${Secret} value=${value} onCopied=${() => setCopied(true)} />
      </div>
      ${children}
    </div>
  </${Dialog}>`;
}

/**
 * Code as coloured text: strings, numbers and keys of JSON or of a program.
 * @param {{text: string, label?: string}} props
 */
export function Code({ text: given, label }) {
  const text = prose(given, MAX_CODE);
  const parts = [];
  const pattern =
    /("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')(\s*:)?|(?<![\w-])(-?\d[\d.]*|true|false|null)(?![\w-])|\b(const|await|import|from|curl)\b/g;
  let end = 0;
  for (const found of text.matchAll(pattern)) {
    parts.push(text.slice(end, found.index));
    const [all, string, colon, number, word] = found;
    if (string) parts.push(html`<span class=${colon ? "k" : "s"}>${string}</span>`, colon || "");
    else parts.push(html`<span class=${number ? "n" : word ? "k" : "p"}>${all}</span>`);
    end = (found.index || 0) + all.length;
  }
  return html`<pre class="code" tabindex="0" role="region" aria-label=${label || t.code}>${parts}${text.slice(
    end,
  )}</pre>`;
}

/** @param {{title: string, text: Markup, icon?: string, children?: Markup, command?: string}} props */
export const Empty = ({ title, text, children, command }) => html`<div class="empty">
  <svg class="slabmark" viewBox="0 0 96 56" aria-hidden="true">
    <path d="M6 10h84M20 10v38M48 10v38M76 10v38" />
    <path class="gone" d="M6 48h84" />
  </svg>
  <h2>${title}</h2>
  <p class="soft">${text}</p>
  ${children}
  ${command && html`<${Code} text=${command} />`}
</div>`;

/** The words for an error of the interface. @param {any} error */
export function said(error) {
  if (!error?.code) return String(error?.message || error);
  if (error.code === "UNREACHABLE") return t.unreachable;
  if (error.code === "SILENT") return t.silent;
  const detail = error.details
    ?.map((/** @type {any} */ one) => one.message)
    .find((/** @type {string} */ text) => text && !error.message.includes(text));
  const wait = error.retryAfter ? t.tryAgainIn(error.retryAfter) : "";
  // The server's message may repeat what a stranger wrote.
  return prose([error.message || t.failed, detail, wait].filter(Boolean).join(" "));
}

/**
 * The seconds that an answer asks to wait, counted down; `then` is called at the end.
 * @param {any} error
 * @param {(() => void) | undefined} then
 */
function useWait(error, then) {
  const [left, setLeft] = useState(error.retryAfter || 0);
  useEffect(() => setLeft(error.retryAfter || 0), [error]);
  useEffect(() => {
    if (!left) return undefined;
    const timer = setTimeout(() => (left > 1 ? setLeft(left - 1) : then?.()), 1000);
    return () => clearTimeout(timer);
  }, [left]);
  return left;
}

/**
 * What failed, and another try: automatically once the time is over that the answer asks to wait.
 * @param {{error: any, retry?: () => void, title?: string, children?: Markup}} props
 */
export function Failure({ error, retry, title, children }) {
  const left = useWait(error, retry);
  return html`<div class="empty" role="alert">
    <span class="state bad"><${Icon} name="fail" /></span>
    <h2>${title || t.notRead}</h2>
    <p class="soft">${said(error)}</p>
    <div class="line">
      ${retry && html`<${Button} icon="retry" onClick=${retry}>${left ? t.againIn(left) : t.again}</${Button}>`}
      ${children}
    </div>
    <p class="s12 soft ids">
      ${error.code && html`<code>${error.code}</code>`}
      ${error.requestId && html`<code>${error.requestId}</code><${Copy} text=${`${error.code} ${error.requestId}`} />`}
    </p>
  </div>`;
}

/** The bones of a list while it loads. @param {{rows?: number, columns?: number}} props */
export const Bones = ({ rows = 6, columns = 4 }) => html`<table class="list" aria-busy="true" aria-label=${t.loading}>
  <tbody>
    ${Array.from(
      { length: rows },
      (_, row) => html`<tr key=${row}>
        ${Array.from(
          { length: columns },
          (_, column) => html`<td class=${column > 1 ? "wide" : ""}>
            <span class=${`bone w${1 + ((row * 3 + column * 2) % 4)}`} />
          </td>`,
        )}
      </tr>`,
    )}
  </tbody>
</table>`;

/**
 * Load something when `inputs` change: they name all that `load` uses of its component, which a test checks. `data` of
 * other inputs is forgotten, that of a reload stays until the new comes, and `set` replaces it unless the inputs have
 * changed meanwhile.
 * @template T @param {(signal: AbortSignal) => Promise<T>} load @param {unknown[]} inputs
 * @returns {{data: T | undefined, error: ApiError | undefined, loading: boolean, reload: () => void, set: (data: T) =>
 *   void}}
 */
export function useLoad(load, inputs) {
  const [state, setState] = useState(/** @type {{data?: T, error?: ApiError, key: string}} */ ({ key: "" }));
  const [turn, setTurn] = useState(0);
  const key = JSON.stringify(inputs);
  const latest = useRef({ load, key });
  latest.current = { load, key };
  useEffect(() => {
    const abort = new AbortController();
    latest.current.load(abort.signal).then(
      (data) => abort.signal.aborted || setState({ data, key }),
      (error) => abort.signal.aborted || setState({ error, key }),
    );
    return () => abort.abort();
  }, [key, turn]);
  const current = state.key === key;
  const reload = useCallback(() => setTurn((number) => number + 1), []);
  return {
    data: current ? state.data : undefined,
    error: current ? state.error : undefined,
    loading: !current,
    reload,
    set: (data) => latest.current.key === key && setState({ data, key }),
  };
}

/**
 * Load again and again while somebody looks, as long as `waits`.
 * @param {() => void} reload @param {number} milliseconds @param {boolean} [waits]
 */
export function useReload(reload, milliseconds, waits = true) {
  useEffect(() => {
    if (!waits) return undefined;
    const timer = setInterval(() => document.hidden || reload(), milliseconds);
    return () => clearInterval(timer);
  }, [reload, milliseconds, waits]);
}

/**
 * Whether an element has come into view, and the ref that watches it: what a long list shows of each entry is asked for
 * only then.
 * @returns {[{current: any}, boolean]}
 */
export function useInView() {
  const holder = useRef(/** @type {HTMLElement | null} */ (null));
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    if (seen || !holder.current) return;
    const observer = new IntersectionObserver((entries) => entries.some((one) => one.isIntersecting) && setSeen(true));
    observer.observe(holder.current);
    return () => observer.disconnect();
  }, [seen]);
  return [holder, seen];
}

/** Show the name of what is open as the title of the screen. @param {string | undefined} name */
export function useTitle(name) {
  useEffect(() => {
    opened.value = name || "";
    return () => (opened.value = "");
  }, [name]);
}

/**
 * Run something that may fail: whether it runs, its error, and how to start it.
 * @template {unknown[]} A @param {(...given: A) => Promise<unknown>} action
 */
export function useAction(action) {
  const [state, setState] = useState({ busy: false, error: /** @type {ApiError | null} */ (null) });
  const latest = useRef(action);
  latest.current = action;
  const shown = useShown();
  const run = useCallback(async (/** @type {A} */ ...given) => {
    setState({ busy: true, error: null });
    let error = /** @type {ApiError | null} */ (null);
    try {
      await latest.current(...given);
    } catch (failed) {
      error = /** @type {ApiError} */ (failed);
    }
    if (shown.current) setState({ busy: false, error });
  }, []);
  return { ...state, run };
}

/** Whether the component is still shown, for what ends later. @returns {{readonly current: boolean}} */
function useShown() {
  const shown = useRef(true);
  useLayoutEffect(
    () => () => {
      shown.current = false;
    },
    [],
  );
  return shown;
}

/**
 * A component of a module that is fetched when the component is first shown, or by its `fetch`; `Meanwhile` stands in.
 * What cannot be fetched says so, and a dialog is closed.
 * @param {() => Promise<any>} load @param {string} name @param {(props: any) => any} [Meanwhile]
 */
export function later(load, name, Meanwhile = () => null) {
  /** @type {any} */
  let found = null;
  const get = () => load().then((module) => (found = module[name]));
  /** @param {any} props */
  const Later = (props) => {
    const [state, setState] = useState(/** @type {"waits" | "there" | "failed"} */ (found ? "there" : "waits"));
    useEffect(() => {
      if (state === "waits")
        get().then(
          () => setState("there"),
          () => {
            if (props.onClose) (toast(t.notLoadedText, { kind: "bad" }), props.onClose());
            else setState("failed");
          },
        );
    }, []);
    if (state === "there") return html`<${found} ...${props} />`;
    if (state === "failed")
      return html`<${Failure}
        title=${t.notLoaded} error=${{ message: t.notLoadedText }} retry=${() => location.reload()}
      />`;
    return html`<${Meanwhile} ...${props} />`;
  };
  const fetch = () => void get().catch(() => {});
  return Object.assign(Later, { fetch });
}

/**
 * A dialog that holds the focus and gives it back. Escape closes none in which something was typed, nor a `fixed` one,
 * and then says what does, or `held`.
 * @param {{title: Markup, onClose: () => void, children?: Markup, footer?: Markup, class?: string, bare?: boolean,
 *   role?:
 *   string, fixed?: boolean, held?: string}} props
 */
export function Dialog({ title, onClose, children, footer, class: extra = "", bare, role, fixed, held = "" }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const typed = useRef(false);
  const [hint, setHint] = useState("");
  const id = useId();
  useLayoutEffect(() => {
    const dialog = /** @type {HTMLDialogElement} */ (box.current);
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog.showModal();
    const first = /** @type {HTMLElement | null} */ (
      dialog.querySelector("[data-first], .body :is(input, select, textarea):not([disabled])")
    );
    (first || dialog).focus();
    return () => {
      dialog.close();
      before?.focus?.();
    };
  }, []);
  const texts = () => /** @type {HTMLInputElement[]} */ ([...(box.current?.querySelectorAll(TEXTS) || [])]);
  /** @param {Event} event */
  const cancel = (event) => {
    event.preventDefault();
    if (fixed) return setHint(held);
    const isFull =
      typed.current && !bare && (box.current?.querySelector(".editor") || texts().some((one) => one.value));
    if (isFull) setHint(t.escapeHeld);
    else onClose();
  };
  /** @param {KeyboardEvent} event */
  const keys = (event) => {
    event.stopPropagation();
    // A browser would close the dialog at the second Escape, whatever becomes of its "cancel".
    if (event.key === "Escape" && !event.isComposing && !event.defaultPrevented) cancel(event);
  };
  return html`<dialog
    ref=${box} class=${extra} role=${role} aria-labelledby=${bare ? undefined : id}
    aria-label=${bare ? title : undefined} onCancel=${cancel} onKeyDown=${keys} onInput=${() => (typed.current = true)}
  >
    ${!bare && html`<header>
      <h2 id=${id}>${title}</h2>
      ${!fixed && html`<${Button} kind="flat small" icon="cross" label=${t.close} onClick=${onClose} />`}
    </header>`}
    ${bare ? children : html`<div class="body">${children}</div>`}
    ${hint && html`<p class="notice held" role="status"><${Icon} name="info" /><span>${hint}</span></p>`}
    ${footer && html`<footer>${footer}</footer>`}
  </dialog>`;
}

/**
 * A dialog with a form: `submit` may fail, which the dialog shows.
 * @param {{title: Markup, onClose: () => void, submit: () => Promise<unknown>, action: string, children?: Markup,
 *   kind?: string,
 *   why?: string | false | null, class?: string, about?: (error: unknown) => any}} props
 */
export function FormDialog({ title, onClose, submit, action, children, kind = "go", why, class: extra, about }) {
  const { busy, error, run } = useAction(submit);
  const form = useId();
  /** @param {Event} event */
  const send = (event) => {
    event.preventDefault();
    if (!why && !busy) run();
  };
  return html`<${Dialog}
    title=${title} onClose=${onClose} class=${extra}
    footer=${html`
      <${Button} kind="flat" onClick=${onClose}>${t.cancel}</${Button}>
      <span class="grow"></span>
      <${Button} kind=${kind} type="submit" form=${form} busy=${busy} why=${why}>${action}</${Button}>
    `}
  >
    <form id=${form} onSubmit=${send} class="form">${children}</form>
    ${error && html`<p class="notice bad" role="alert">
      <${Icon} name="fail" />
      <span>${about?.(error) || said(error)}</span>
    </p>`}
  </${Dialog}>`;
}

/**
 * Replace a secret; the previous one goes on for the chosen time. `rotate` gets seconds and returns the new secret.
 * @param {{title: Markup, overlap: string, help?: string, once: string, rotate: (seconds: number) => Promise<string>,
 *   onClose: () => void}} props
 */
export function RotateDialog({ title, overlap, help, once, rotate, onClose }) {
  const [hours, setHours] = useState("24");
  const [made, setMade] = useState("");
  if (made)
    return html`<${SecretDialog}
      key="made" title=${t.webhooks.rotated} onClose=${onClose} text=${once} value=${made}
    />`;
  return html`<${FormDialog}
    title=${title} onClose=${onClose} submit=${async () => setMade(await rotate(Number(hours) * 3600))}
    action=${t.webhooks.rotate}
  >
    <${SelectField}
      label=${overlap} value=${hours} onInput=${setHours}
      options=${[0, 1, 24, 168].map((number) => [
        String(number),
        number ? t.webhooks.overlapHours(number) : t.webhooks.overlapNone,
      ])}
      help=${help}
    />
  </${FormDialog}>`;
}

/**
 * Ask before something is lost; `name` has to be typed where nothing restores it.
 * @param {{title: Markup, text: Markup, note?: Markup, action: string, onClose: () => void, run: () =>
 *   Promise<unknown>, name?:
 *   string}} props
 */
export function Confirm({ title, text, note, action, onClose, run, name }) {
  const [typed, setTyped] = useState("");
  const submit = async () => {
    await run();
    onClose();
  };
  return html`<${FormDialog}
    title=${title} onClose=${onClose} submit=${submit} action=${action} kind="danger"
    why=${name && typed !== name ? t.typeName(name) : false}
  >
    <p>${text}</p>
    ${note && html`<p class="soft line"><${Icon} name="retry" /><span>${note}</span></p>`}
    ${name && html`<${TextField}
      label=${t.typeName(name)} value=${typed} onInput=${setTyped} autocomplete="off" spellcheck="false"
    />`}
  </${FormDialog}>`;
}

/** @typedef {{kind?: string, undo?: () => void, actions?: [text: string, run: () => void][]}} ToastOptions */

const toasts = signal(/** @type {(ToastOptions & {key: number, text: string})[]} */ ([]));
let toastKey = 0;

/**
 * Say what happened: for some seconds, or until it is dismissed where `actions` offer what can be done.
 * @param {string} text
 * @param {ToastOptions} [options]
 */
export function toast(text, { kind = "", undo, actions } = {}) {
  const key = ++toastKey;
  const kept = toasts.value.filter((one) => one.actions);
  toasts.value = [
    ...kept,
    ...toasts.value.filter((one) => !one.actions).slice(-2),
    { key, text, kind, actions: actions || (undo && [[t.undo, undo]]) },
  ];
  if (!actions) setTimeout(() => dismiss(key), kind === "bad" ? 10000 : 6000);
}

/** @param {number} key */
const dismiss = (key) => (toasts.value = toasts.value.filter((one) => one.key !== key));

/** Say what failed. @param {any} error */
export const complain = (error) => toast(said(error), { kind: "bad" });

export function Toasts() {
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.value.map(
      (one) => html`<div class=${`toast ${one.kind}`} key=${one.key}>
        <${Icon} name=${one.kind === "bad" ? "fail" : "done"} />
        <span class="grow">${one.text}</span>
        ${one.actions?.map(
          ([text, run]) => html`<${Button} kind="flat small" onClick=${() => (dismiss(one.key), run())}>
            ${text}
          </${Button}>`,
        )}
        <${Button} kind="flat small" icon="cross" label=${t.close} onClick=${() => dismiss(one.key)} />
      </div>`,
    )}
  </div>`;
}

/**
 * A button that opens a menu under itself, or with the role "dialog" a few fields. `children` gets how to close it.
 * @param {{button: (bind: Bind) => Markup, children: (close: () => void) => any, label: string, align?:
 *   "left" | "right", role?: "menu" | "dialog"}} props
 */
export function MenuButton({ button, children, label, align = "left", role = "menu" }) {
  const [at, setAt] = useState(/** @type {DOMRect | null} */ (null));
  const holder = useRef(/** @type {HTMLElement | null} */ (null));
  const close = () => {
    setAt(null);
    /** @type {HTMLElement | null} */ (holder.current?.querySelector("button"))?.focus();
  };
  return html`<span ref=${holder} class="line">
    ${button({
      "aria-haspopup": role,
      "aria-expanded": at ? "true" : "false",
      onClick: (/** @type {Typed} */ event) => setAt(at ? null : event.currentTarget.getBoundingClientRect()),
    })}
    ${at && html`<${Menu} at=${at} align=${align} role=${role} label=${label} onClose=${close}>
      ${children(close)}
    </${Menu}>`}
  </span>`;
}

/**
 * A menu at a place of the window, or a dialog there that does not hold the focus.
 * @param {{at: {left: number, right: number, top: number, bottom: number}, align?: string, role?: "menu" | "dialog",
 *   label: string, onClose: () => void, children?: Markup}} props
 */
export function Menu({ at, align = "left", role = "menu", label, onClose, children }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    const menu = /** @type {HTMLElement} */ (box.current);
    // In the top layer, so that it stands above dialogs too.
    menu.showPopover();
    const { width, height } = menu.getBoundingClientRect();
    const left = align === "right" ? at.right - width : at.left;
    menu.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
    menu.style.top = `${at.bottom + height + 8 > innerHeight && at.top > height ? at.top - height - 4 : Math.min(at.bottom + 4, innerHeight - height - 8)}px`;
    /** @type {HTMLElement | null} */ (menu.querySelector("input, .item"))?.focus();
    const outside = (/** @type {PointerEvent} */ event) =>
      menu.contains(/** @type {Node} */ (event.target)) || onClose();
    addEventListener("pointerdown", outside, true);
    return () => removeEventListener("pointerdown", outside, true);
  }, []);
  /** @param {KeyboardEvent} event */
  const keys = (event) => {
    event.stopPropagation();
    if (event.key === "Escape") (event.preventDefault(), onClose());
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const items = /** @type {HTMLElement[]} */ ([
      ...(box.current?.querySelectorAll(":is(a, button, input).item") || []),
    ]);
    // In a list of choices these keys choose.
    if (!step || !items.length || /** @type {HTMLElement} */ (event.target).matches("select")) return;
    event.preventDefault();
    items.at((items.indexOf(/** @type {any} */ (document.activeElement)) + step) % items.length)?.focus();
  };
  return html`<div class="menu" popover="manual" role=${role} aria-label=${label} ref=${box} onKeyDown=${keys}>
    ${children}
  </div>`;
}

/**
 * @param {{icon?: string, children?: Markup, why?: string | false | null, onClick?: () => void, kind?: string, href?:
 *   string, hint?: string}} props
 */
export function MenuItem({ icon, children, why, onClick, kind = "", href, hint }) {
  const inside = html`
    ${icon && html`<${Icon} name=${icon} />`}
    <span>${children}</span>
    ${hint && html`<small>${hint}</small>`}
  `;
  if (href) return html`<a role="menuitem" class=${`item ${kind}`} href=${href} onClick=${onClick}>${inside}</a>`;
  return html`<button
    type="button" role="menuitem" class=${`item ${kind}`} aria-disabled=${why ? "true" : undefined}
    title=${why || undefined} onClick=${() => why || onClick?.()}
  >
    ${inside}
  </button>`;
}

// With more pages than this, the first and the last are a step away.
const FAR = 3;

/**
 * A page of a longer list, with the way to the next.
 * @param {{offset: number, limit: number, total: number, onChange: (offset: number) => void}} props
 */
export function Pager({ offset, limit, total, onChange }) {
  if (total <= limit) return null;
  return html`<nav class="strip pager" aria-label=${t.pages}>
    <span class="soft s12 num">${t.range(offset + 1, Math.min(offset + limit, total), total)}</span>
    <span class="grow"></span>
    ${total > FAR * limit && html`<${Button}
      kind="small" icon="first" label=${t.first} why=${offset === 0 && t.noMore} onClick=${() => onChange(0)}
    />`}
    <${Button}
      kind="small" icon="left" label=${t.previous} why=${offset === 0 && t.noMore}
      onClick=${() => onChange(Math.max(0, offset - limit))}
    />
    <${Button}
      kind="small" icon="right" label=${t.next} why=${offset + limit >= total && t.noMore}
      onClick=${() => onChange(offset + limit)}
    />
    ${total > FAR * limit && html`<${Button}
      kind="small" icon="last" label=${t.last} why=${offset + limit >= total && t.noMore}
      onClick=${() => onChange(Math.floor((total - 1) / limit) * limit)}
    />`}
  </nav>`;
}
