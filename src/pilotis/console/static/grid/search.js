/** The search of a table's texts: its box above the grid, and what it asks for. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { Icon } from "../ui/icons.js";

const PAUSE = 350;
// The search route takes this many fields.
const FIELDS = 50;

/** The columns that are searched. @param {import("./values.js").Column[]} columns */
export const searched = (columns) =>
  columns
    .filter((column) => column.type === "string" && !column.encrypted && !column.own)
    .map((column) => column.name)
    .slice(0, FIELDS);

/** @param {{text: string, onChange: (text: string) => void}} props */
export function SearchBox({ text, onChange }) {
  const [typed, setTyped] = useState(text);
  const timer = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  const box = useRef(/** @type {HTMLInputElement | null} */ (null));
  // The way back and a shared link change the address without typing.
  useEffect(() => {
    if (document.activeElement !== box.current) setTyped(text);
  }, [text]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const put = (/** @type {string} */ next, pause = 0) => {
    setTyped(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onChange(next.trim()), pause);
  };
  /** @param {KeyboardEvent} event */
  const keys = (event) => {
    if (event.isComposing) return;
    if (event.key === "Enter") put(typed);
    else if (event.key === "Escape" && typed) put("");
    else return;
    event.preventDefault();
  };
  return html`<span class="searchbox short">
    <${Icon} name="search" />
    <input
      ref=${box} class="in small" type="search" aria-label=${t.grid.search} placeholder=${t.grid.search}
      title=${t.grid.searchHelp} value=${typed} autocomplete="off" spellcheck="false"
      onInput=${(/** @type {Typed} */ event) => put(event.target.value, PAUSE)} onKeyDown=${keys}
    />
  </span>`;
}
