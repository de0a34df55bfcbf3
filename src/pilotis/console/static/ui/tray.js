/** The uploads on their way, at the foot of the page: one line once all have arrived. */
import { html, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { cancel, clear, pause, resume, uploads } from "../state/uploads.js";
import { plain, size } from "./format.js";
import { Icon } from "./icons.js";
import { Button } from "./widgets.js";

const ICONS = { waiting: "clock", sending: "run", paused: "clock", done: "done", failed: "fail" };

export function Tray() {
  const all = uploads.value;
  const open = all.filter((one) => one.state !== "done").length;
  const [wanted, setWanted] = useState(/** @type {boolean | null} */ (null));
  if (!all.length) return null;
  const unfolded = wanted ?? open > 0;
  return html`<section class="tray" aria-label=${t.files.uploads}>
    <header>
      <span class=${`state ${open ? "info" : "ok"}`}><${Icon} name=${open ? "in" : "done"} /></span>
      <b class="grow">${open ? t.files.uploading(open) : t.files.uploaded(all.length)}</b>
      <${Button} kind="flat small" aria-expanded=${unfolded ? "true" : "false"} onClick=${() => setWanted(!unfolded)}>
        ${unfolded ? t.less : t.details}
      </${Button}>
      ${open < all.length && html`<${Button} kind="flat small" onClick=${clear}>${t.files.clear}</${Button}>`}
    </header>
    ${unfolded && html`<ul>
      ${all.map(
        (one) => html`<li key=${one.key}>
          <span class=${`state ${one.state === "failed" ? "bad" : one.state === "sending" ? "info" : "ok"}`}>
            <${Icon} name=${ICONS[one.state]} class=${one.state === "sending" ? "spin" : ""} />
          </span>
          <div class="grow">
            <div class="line">
              <span class="cut grow">${plain(one.path || one.file.name, 80)}</span>
              <span class="soft s12 num">
                ${one.state === "sending"
                  ? `${size(one.sent)} / ${size(one.file.size)}${one.speed ? `, ${size(one.speed)}/s` : ""}`
                  : one.state === "failed"
                    ? ""
                    : size(one.file.size)}
              </span>
            </div>
            ${one.state === "failed"
              ? html`<p class="state bad s12 failed">${plain(one.message)}</p>`
              : one.state !== "done" &&
                html`<div
                  class="meter" role="progressbar" aria-label=${one.file.name} aria-valuenow=${one.sent}
                  aria-valuemax=${one.file.size}
                >
                  <span ref=${(/** @type {HTMLElement | null} */ bar) =>
                    bar && (bar.style.width = `${(one.sent / Math.max(1, one.file.size)) * 100}%`)}></span>
                </div>`}
          </div>
          ${one.state === "sending" && html`<${Button} kind="flat small" onClick=${() => pause(one.key)}>
            ${t.files.pause}
          </${Button}>`}
          ${(one.state === "paused" || one.state === "failed") && html`<${Button}
            kind="flat small" onClick=${() => resume(one.key)}
          >
            ${one.state === "paused" ? t.files.resume : t.again}
          </${Button}>`}
          ${one.state !== "done" && html`<${Button}
            kind="flat small" icon="cross" label=${t.files.cancel(one.file.name)} onClick=${() => cancel(one.key)}
          />`}
        </li>`,
      )}
    </ul>`}
  </section>`;
}
