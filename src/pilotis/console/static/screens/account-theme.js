/** How the pages of members' accounts look: a draft beside the sign-in page as it would be, saved as a whole. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { locale, t } from "../strings/index.js";
import { appId, may, onApp } from "../state/app.js";
import { Button, Field, Segments, SelectField, TextField, complain, said, toast, useAction } from "../ui/widgets.js";

/** @typedef {Api.AppAccountSettings} Settings */
/** @typedef {"sign_in_title" | "sign_in_text" | "sign_up_title" | "sign_up_text" | "footer"} Place */

/** What the server's own pages have. */
const OWN = { accent: "#1c6a5b", background: "#f7f5f1", radius: 4 };
const TITLES = /** @type {const} */ (["sign_in_title", "sign_up_title"]);
const PLACES = /** @type {const} */ (["sign_in_title", "sign_in_text", "sign_up_title", "sign_up_text", "footer"]);
const why = () => (may("owner") ? "" : t.needs.owner);
/** The path of a picture of the server, so that it comes from the address of this page. @param {string} url */
const pathOf = (url) => new URL(url).pathname + new URL(url).search;

/** @param {{settings: Settings, set: (settings: Settings) => void}} props */
export function AccountTheme({ settings, set }) {
  const words = t.settings.accounts;
  const [draft, setDraft] = useState(settings.theme);
  const [language, setLanguage] = useState(/** @type {keyof typeof words.languages} */ (locale));
  const { busy, error, run } = useAction(async () => {
    const changed = await onApp("/account-settings", { method: "PATCH", body: { theme: draft } });
    set(changed);
    setDraft(changed.theme);
    toast(words.saved);
  });
  const put = (/** @type {any} */ part) => setDraft({ ...draft, ...part });
  const isSame = JSON.stringify(draft) === JSON.stringify(settings.theme);
  const disabled = !may("owner");
  const texts = draft.texts?.[language] || {};
  const say = (/** @type {Place} */ place) => (/** @type {string} */ text) => {
    const { [place]: _, ...others } = texts;
    const changed = text ? { ...texts, [place]: text } : others;
    const { [language]: __, ...rest } = draft.texts || {};
    put({ texts: Object.keys(changed).length ? { ...rest, [language]: changed } : rest });
  };
  return html`<section class="slab pad">
    <h2>${words.pages}</h2>
    <p class="soft s13">
      ${words.pagesText}
      ${" "}<a class="link" href=${`/account/${appId.value}/sign-in`} target="_blank" rel="noopener">
        ${words.openPage}
      </a>
    </p>
    <div class="themed">
      <form
        class="form"
        onSubmit=${(/** @type {Event} */ event) => {
          event.preventDefault();
          if (!busy) run();
        }}
      >
        ${colour(words.accent, "accent", draft.accent, put)}
        ${" "}${colour(words.background, "background", draft.background, put)}
        <${Field} label=${words.radius}>
          ${(/** @type {Bind} */ bind) => html`<span class="line">
            <input
              type="range" min="0" max="16" class="grow" value=${draft.radius ?? OWN.radius} disabled=${disabled}
              title=${why() || undefined} ...${bind}
              onInput=${(/** @type {Typed} */ event) => put({ radius: Number(event.target.value) })}
            />
            <output class="s13">${words.pixels(draft.radius ?? OWN.radius)}</output>
          </span>`}
        </${Field}>
        <${SelectField}
          label=${words.font} value=${draft.font || ""} disabled=${disabled} title=${why() || undefined}
          onInput=${(/** @type {string} */ value) => put({ font: value || null })}
          options=${Object.entries(words.fonts)}
        />
        <${SelectField}
          label=${words.mode} value=${draft.mode || "auto"} disabled=${disabled} title=${why() || undefined}
          onInput=${(/** @type {string} */ value) => put({ mode: value })} options=${Object.entries(words.modes)}
        />
        <${Logo} url=${settings.logo_url} set=${set} />
        <${SelectField}
          label=${words.texts} help=${words.textsHelp} value=${language} onInput=${setLanguage}
          options=${Object.entries(words.languages)}
        />
        ${PLACES.map((place) =>
          TITLES.some((title) => title === place)
            ? html`<${TextField}
                key=${place} label=${words.text[place]} value=${texts[place] || ""} onInput=${say(place)} optional
                maxlength="100" disabled=${disabled} title=${why() || undefined} lang=${language}
              />`
            : html`<${Field} key=${place} label=${words.text[place]} optional>
                ${(/** @type {Bind} */ bind) => html`<textarea
                  class="in" rows="2" maxlength="500" value=${texts[place] || ""} disabled=${disabled}
                  title=${why() || undefined} lang=${language} ...${bind}
                  onInput=${(/** @type {Typed} */ event) => say(place)(event.target.value)}
                />`}
              </${Field}>`,
        )}
        ${error && html`<p class="notice bad" role="alert">
          <span class="grow">${said(error)}</span>
          ${error.nearest && html`<${Button} kind="small" onClick=${() => put({ accent: error.nearest })}>
            ${words.nearest(error.nearest)}
          </${Button}>`}
        </p>`}
        <p class="line">
          <${Button} kind="go" type="submit" busy=${busy} why=${why() || (isSame && t.unchanged)}>${t.save}</${Button}>
          <${Button} kind="flat" why=${isSame && t.unchanged} onClick=${() => setDraft(settings.theme)}>
            ${t.cancel}
          </${Button}>
          ${!isSame && html`<span class="soft s12">${words.unsaved}</span>`}
        </p>
      </form>
      <${Preview} draft=${draft} settings=${settings} language=${language} />
    </div>
  </section>`;
}

/**
 * @param {string} label @param {"accent" | "background"} name @param {string | null | undefined} value
 * @param {(part: object) => void} put
 */
const colour = (label, name, value, put) => html`<${Field} label=${label}>
  ${(/** @type {Bind} */ bind) => html`<span class="line">
    <input
      type="color" value=${value || OWN[name]} disabled=${!may("owner")} title=${why() || undefined} ...${bind}
      onInput=${(/** @type {Typed} */ event) => put({ [name]: event.target.value })}
    />
    ${value && html`<code>${value}</code>`}
    ${value && html`<${Button}
      kind="flat small" label=${t.settings.accounts.noColour(label)} why=${why()} onClick=${() => put({ [name]: null })}
    >
      ${t.settings.accounts.reset}
    </${Button}>`}
  </span>`}
</${Field}>`;

/** Uploads immediately: a logo is no part of what the form saves. @param {{url: string | null, set: (settings: Settings) => void}} props */
function Logo({ url, set }) {
  const picker = useRef(/** @type {any} */ (null));
  const words = t.settings.accounts;
  const send = (/** @type {File | undefined} */ file) =>
    file &&
    onApp("/account-settings/logo", {
      method: "PUT",
      raw: file,
      headers: { "Content-Type": "application/octet-stream" },
    }).then(set, complain);
  const remove = async () => {
    try {
      await onApp("/account-settings/logo", { method: "DELETE" });
      set(await onApp("/account-settings"));
    } catch (error) {
      complain(error);
    }
  };
  return html`<div class="field">
    <span class="label">${words.logo}</span>
    <span class="line">
      ${url && html`<img class="wordmark" src=${pathOf(url)} alt="" />`}
      <${Button} kind="small" why=${why()} onClick=${() => picker.current?.click()}>${words.chooseLogo}</${Button}>
      ${url && html`<${Button}
        kind="flat small bad" icon="trash" label=${words.deleteLogo} why=${why()} onClick=${remove}
      />`}
    </span>
    <input
      ref=${picker} type="file" hidden aria-label=${words.logo} accept="image/png,image/jpeg,image/gif,image/webp"
      onChange=${(/** @type {any} */ event) => (send(event.target.files[0]), (event.target.value = ""))}
    />
    <p class="help">${words.logoHelp}</p>
  </div>`;
}

/** A page in a frame, a moment after the last change. @param {{draft: any, settings: Settings, language: string}} props */
function Preview({ draft, settings, language }) {
  const [section, setSection] = useState("sign-in");
  const [shows, setShows] = useState("light");
  const frame = useRef(/** @type {any} */ (null));
  const words = t.settings.accounts;
  const query = new URLSearchParams({ lang: language, section, mode: draft.mode || "auto", shows });
  for (const name of ["accent", "background", "radius", "font"])
    if (draft[name] !== null && draft[name] !== undefined) query.set(name, draft[name]);
  // Another logo is another page, too.
  const wanted = `${query}#${settings.logo_url}`;
  const [shown, setShown] = useState(wanted);
  useEffect(() => {
    const timer = setTimeout(() => setShown(wanted), 300);
    return () => clearTimeout(timer);
  }, [wanted]);
  const texts = draft.texts?.[language] || {};
  const say = () => frame.current?.contentWindow?.postMessage(texts, location.origin);
  useEffect(say, [JSON.stringify(texts)]);
  return html`<div class="previewed">
    <span class="line">
      <${Segments}
        label=${words.previewedPage} value=${section} onChange=${setSection}
        options=${Object.entries(words.previewedPages)}
      />
      ${draft.mode !== "light" && draft.mode !== "dark" && html`<${Segments}
        label=${words.preview} value=${shows} onChange=${setShows} options=${Object.entries(words.previewed)}
      />`}
    </span>
    <iframe
      key=${shown} ref=${frame} title=${words.preview} tabindex="-1" onLoad=${say}
      src=${`/account/${appId.value}/preview?${shown.split("#")[0]}`}
    ></iframe>
  </div>`;
}
