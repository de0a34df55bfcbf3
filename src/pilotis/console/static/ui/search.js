/** A search that is part of the address. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { change, place } from "../state/router.js";
import { Icon } from "./icons.js";

// Typing is one search, not one for each letter.
const PAUSE = 250;

/** The text of the search in the address, empty without one. */
export const searched = () => place.value.query.get("search") || "";

/**
 * A field whose text becomes `?search=` of the address, on its first page. `room` gives it a line of its own on a
 * phone.
 * @param {{label: string, room?: boolean}} props
 */
export function SearchBox({ label, room }) {
  const known = searched();
  const [text, setText] = useState(known);
  const sent = useRef(known);
  useEffect(() => {
    if (known !== sent.current) setText((sent.current = known));
  }, [known]);
  useEffect(() => {
    const timer = setTimeout(
      () => text !== sent.current && change({ search: (sent.current = text) || null, offset: null }, { replace: true }),
      PAUSE,
    );
    return () => clearTimeout(timer);
  }, [text]);
  return html`<label class=${`searchbox ${room ? "room" : ""}`}>
    <${Icon} name="search" />
    <span class="sr">${label}</span>
    <input
      class="in small" type="search" placeholder=${label} value=${text}
      onInput=${(/** @type {Typed} */ event) => setText(event.target.value)}
    />
  </label>`;
}
