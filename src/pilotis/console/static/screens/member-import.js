/** Members of another product: a file of JSON lines is sent in parts, and the lines that were rejected are shown. */
import { html, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { onApp } from "../state/app.js";
import { plain } from "../ui/format.js";
import { Button, Dialog, complain } from "../ui/widgets.js";

const LINES = 1000;
/** As many rejected lines as anybody reads. */
const SHOWN = 100;

/** @param {{onClose: () => void, done: () => void}} props */
export function MemberImport({ onClose, done }) {
  const picker = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [progress, setProgress] = useState(/** @type {{sent: number, all: number} | null} */ (null));
  const [result, setResult] = useState(/** @type {Api.ImportedMembers | null} */ (null));
  const send = async (/** @type {File} */ file) => {
    const lines = (await file.text()).split("\n");
    /** @type {Api.ImportedMembers} */
    const all = { created: 0, rejected: [] };
    try {
      for (let first = 0; first < lines.length; first += LINES) {
        setProgress({ sent: first, all: lines.length });
        const part = lines.slice(first, first + LINES).join("\n");
        const made = await onApp("/members/import", { method: "POST", raw: part });
        all.created += made.created;
        all.rejected.push(...made.rejected.map((one) => ({ ...one, line: one.line + first })));
      }
    } catch (error) {
      complain(error);
    }
    setProgress(null);
    setResult(all);
    done();
  };
  return html`<${Dialog} title=${t.members.importTitle} onClose=${onClose} held=${progress ? t.members.import : ""}>
    <p>${t.members.importText}</p>
    <p>
      <a class="link" href="/docs/guides/accounts#members-of-another-product" target="_blank">
        ${t.members.importGuide}
      </a>
    </p>
    <input
      ref=${picker} type="file" hidden accept=".jsonl,.ndjson,.json,.txt"
      onChange=${(/** @type {any} */ event) => event.target.files[0] && send(event.target.files[0])}
    />
    <p>
      <${Button} kind="go" busy=${!!progress} onClick=${() => picker.current?.click()}>
        ${t.members.importChoose}
      </${Button}>
    </p>
    <div role="status">
      ${progress && html`<p class="soft">${t.members.importing(progress.sent, progress.all)}</p>`}
      ${result && html`<p><b>${t.members.imported(result.created)}</b></p>`}
      ${result && result.rejected.length > 0 && html`
        <p>${t.members.importRejected(result.rejected.length)}</p>
        <ul class="s13">
          ${result.rejected
            .slice(0, SHOWN)
            .map(
              (one) => html`<li key=${one.line}>
                <span class="num">${t.members.importLine(one.line)}</span>: ${plain(one.message, 300)}
              </li>`,
            )}
        </ul>
      `}
    </div>
  </${Dialog}>`;
}
