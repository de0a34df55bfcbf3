/** The texts of an app's mails: the shipped ones, or the app's own, in each language. */
import { html, useEffect, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { appId, denied, onApp } from "../state/app.js";
import { change, guard, place } from "../state/router.js";
import { Icon } from "../ui/icons.js";
import { Letter } from "../ui/letter.js";
import {
  Bones,
  Button,
  Confirm,
  Failure,
  Pill,
  TextAreaField,
  TextField,
  said,
  toast,
  useAction,
  useLoad,
} from "../ui/widgets.js";

// Typing is one preview, not one for each letter.
const PAUSE = 400;

export function Templates() {
  const query = place.value.query;
  const { data, error, reload } = useLoad((signal) => onApp("/mail-templates", { signal }), [appId.value]);
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  if (!data) return html`<${Bones} rows=${8} columns=${2} />`;
  const purposes = [...new Set(data.templates.map((one) => one.purpose))];
  const purpose = purposes.find((one) => one === query.get("purpose")) || purposes[0];
  const languages = data.templates.filter((one) => one.purpose === purpose);
  const language = languages.find((one) => one.language === query.get("in"))?.language || "en";
  return html`
    <div class="strip filters templates">
      <select
        class="in small" aria-label=${t.mail.purpose} value=${purpose}
        onChange=${(/** @type {Typed} */ event) => change({ purpose: event.target.value })}
      >
        ${purposes.map(
          (one) => html`<option value=${one} selected=${one === purpose}>
            ${worded(t.mail.purposes, one) || one}
          </option>`,
        )}
      </select>
      <select
        class="in small" aria-label=${t.language} value=${language}
        onChange=${(/** @type {Typed} */ event) => change({ in: event.target.value })}
      >
        ${languages.map(
          (one) => html`<option value=${one.language} selected=${one.language === language}>
            ${nameOf(one.language)}
            ${one.is_custom ? ` · ${t.mail.own}` : ""}
          </option>`,
        )}
      </select>
    </div>
    <${Template} key=${`${purpose} ${language}`} purpose=${purpose} language=${language} changed=${reload} />
  `;
}

/** A language in its own words. @param {string} language */
const nameOf = (language) => new Intl.DisplayNames([language], { type: "language" }).of(language) || language;

/** @param {{purpose: string, language: string, changed: () => void}} props */
function Template({ purpose, language, changed }) {
  const path = /** @type {const} */ (`/mail-templates/${purpose}/${language}`);
  const { data, error, reload, set } = useLoad((signal) => onApp(path, { signal }), [appId.value, path]);
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  if (!data) return html`<${Bones} rows=${8} columns=${2} />`;
  // A new text fills the form again.
  return html`<${Form}
    key=${data.updated_at} known=${data} path=${path} restored=${() => (reload(), changed())}
    saved=${(/** @type {Api.MailTemplate} */ template) => (set(template), changed())}
  />`;
}

/**
 * @param {{known: Api.MailTemplate, path: `/mail-templates/${string}/${string}`,
 *   saved: (template: Api.MailTemplate) => void, restored: () => void}} props
 */
function Form({ known, path, saved, restored }) {
  const [subject, setSubject] = useState(known.subject);
  const [text, setText] = useState(known.text);
  const [button, setButton] = useState(known.button);
  const [markup, setMarkup] = useState(known.html || "");
  const [restores, setRestores] = useState(false);
  const body = { subject, text, button, html: markup || null };
  const isChanged =
    subject !== known.subject || text !== known.text || button !== known.button || markup !== (known.html || "");
  const preview = usePreview(path, body);
  const save = useAction(async () => {
    saved(await onApp(path, { method: "PUT", body }));
    toast(t.saved);
  });
  useEffect(() => (isChanged ? guard(() => t.mail.notSaved) : undefined), [isChanged]);
  const wrong = (/** @type {string} */ name) => preview.error?.about?.(name);
  return html`<div class="scroll">
    <div class="page writing">
      <form class="slab pad form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), save.run())}>
        <div class="line">
          <h2 class="grow">${t.mail.text}</h2>
          <${Pill} kind=${known.is_custom ? "live" : ""}>${known.is_custom ? t.mail.own : t.mail.shipped}</${Pill}>
        </div>
        <${TextField}
          label=${t.mail.subject} value=${subject} onInput=${setSubject} maxlength="200" lang=${known.language}
          wrong=${wrong("subject")} disabled=${!!denied("editor")} title=${denied("editor") || undefined}
        />
        <${TextAreaField}
          label=${t.mail.paragraphs} value=${text} onInput=${setText} rows="14" lang=${known.language}
          help=${t.mail.paragraphsHelp} wrong=${wrong("text")} disabled=${!!denied("editor")}
          title=${denied("editor") || undefined}
        />
        ${known.variables.includes("link") && html`<${TextField}
          label=${t.mail.buttonLabel} value=${button} onInput=${setButton} maxlength="100" lang=${known.language}
          wrong=${wrong("button")} disabled=${!!denied("editor")} title=${denied("editor") || undefined}
        />`}
        <${TextAreaField}
          label=${t.mail.html} value=${markup} onInput=${setMarkup} rows="6" lang=${known.language} optional
          class="code" spellcheck="false" help=${t.mail.htmlHelp} wrong=${wrong("html")} disabled=${!!denied("editor")}
          title=${denied("editor") || undefined}
        />
        <p class="s12 soft">
          ${t.mail.variables}
          ${known.variables.map((name) => html` <code key=${name}>${`{{${name}}}`}</code>`)}
        </p>
        ${save.error && html`<p class="notice bad" role="alert">
          <${Icon} name="fail" />
          <span>${said(save.error)}</span>
        </p>`}
        <div class="actions">
          <${Button}
            kind="go" type="submit" busy=${save.busy}
            why=${denied("editor") || (!isChanged && t.unchanged) || (preview.error && said(preview.error))}
          >
            ${t.save}
          </${Button}>
          ${known.is_custom && html`<${Button} icon="undo" why=${denied("editor")} onClick=${() => setRestores(true)}>
            ${t.mail.restore}
          </${Button}>`}
        </div>
      </form>
      <section class="desk" aria-label=${t.mail.preview} aria-live="polite">
        <h2 class="s12 soft">${t.mail.preview}</h2>
        ${preview.data && html`<${Letter} mail=${preview.data} language=${known.language} preview />`}
      </section>
      ${restores && html`<${Confirm}
        title=${t.mail.restoreTitle} text=${t.mail.restoreText} action=${t.mail.restore}
        onClose=${() => setRestores(false)} run=${async () => (await onApp(path, { method: "DELETE" }), restored())}
      />`}
    </div>
  </div>`;
}

/**
 * The mail that a text gives, with made-up values, some time after it was typed; the last one stays while another is
 * on its way.
 * @param {string} path @param {{subject: string, text: string, button: string, html: string | null}} body
 */
function usePreview(path, body) {
  const [typed, setTyped] = useState(JSON.stringify(body));
  const now = JSON.stringify(body);
  useEffect(() => {
    const timer = setTimeout(() => setTyped(now), PAUSE);
    return () => clearTimeout(timer);
  }, [now]);
  const [shown, setShown] = useState(/** @type {Api.MailPreview | undefined} */ (undefined));
  const { data, error } = useLoad(
    (signal) =>
      onApp(/** @type {`/mail-templates/${string}/${string}/preview`} */ (`${path}/preview`), {
        method: "POST",
        body: JSON.parse(typed),
        signal,
      }),
    [appId.value, path, typed],
  );
  useEffect(() => {
    if (data) setShown(data);
  }, [data]);
  return { data: shown, error };
}
