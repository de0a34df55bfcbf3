/** Rows of lists that are pressed anywhere. */

const INTERACTIVE = "a, button, input, select, textarea, label, summary, [role=button], [contenteditable]";

/**
 * Passes a press anywhere in a row of a list on to the link or button that the row is about. It takes no layer over the
 * row: WebKit positions nothing within a table row, so the layer would cover the whole window.
 * @param {MouseEvent} event
 */
export function cover(event) {
  if (event.defaultPrevented || event.button > 1 || !(event.target instanceof Element)) return;
  const about = /** @type {HTMLElement | null} */ (
    event.target.closest(".list tbody tr")?.querySelector("a.cover, .coverbutton")
  );
  // What is pressed acts by itself, and a press that ends a selection of text is none.
  if (!about || event.target.closest(INTERACTIVE) || getSelection()?.type === "Range") return;
  if (about instanceof HTMLAnchorElement && (event.button === 1 || event.ctrlKey || event.metaKey)) {
    open(about.href, "_blank", "noopener");
  } else if (event.button === 0) {
    about.click();
  }
}
