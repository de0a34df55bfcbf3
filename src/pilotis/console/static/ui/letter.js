/** A mail as its recipient sees it. */
import { html } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { plain, prose } from "./format.js";
import { Button, Copy } from "./widgets.js";

/** @typedef {{subject: string, text: string, link: string | null, code: string | null, button: string | null}} Written */

/**
 * The subject and the paragraphs; the link is a button, and the code can be copied. A `preview` leads nowhere.
 * @param {{mail: Written, to?: string, language: string, preview?: boolean}} props
 */
export const Letter = ({ mail, to, language, preview }) => html`<article class="letter" lang=${language}>
  <header><b>${plain(mail.subject, 300)}</b>${to && html`<span class="s12 soft">${plain(to, 300)}</span>`}</header>
  ${mail.text
    .trimEnd()
    .split(/\n{2,}/)
    .map((paragraph, at) =>
      paragraph === mail.link
        ? html`<p key=${at}>
            ${preview
              ? html`<span class="b sample">${plain(mail.button || t.mail.openLink, 100)}</span>`
              : html`<${Button} kind="go" href=${mail.link} target="_blank" rel="noopener noreferrer">
                  ${plain(mail.button || t.mail.openLink, 100)}
                </${Button}>`}
          </p>`
        : paragraph === mail.code
          ? html`<p key=${at} class="line">
              <code class="bigcode">${mail.code}</code>
              ${!preview && html`<${Copy} text=${mail.code} />`}
            </p>`
          : html`<p key=${at}>${prose(paragraph, 20_000)}</p>`,
    )}
</article>`;
