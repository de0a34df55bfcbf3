"""An app in use: its screens, opened one after another in a page, and what is looked for on each of them."""

import re
from collections.abc import AsyncIterator

from playwright.async_api import Page, Route, expect

from tests.console.furnished import Furnished
from tests.support import App
from tests.waiting import until
from tests.whole import sample

NARROW = {"width": 390, "height": 844}
BETWEEN = {"width": 1024, "height": 768}
WIDE = {"width": 1440, "height": 900}
DOUBLED = {"width": 640, "height": 400}
"""What a page has of a screen of 1280 by 800 at a zoom of 200 % (WCAG 2.2, 1.4.4)."""

# The words of the console, known by their brackets, of which a part is hidden where nobody can scroll to it.
CLIPPED = """async () => {
  // What measures its room, as the graph of a workflow, is drawn again in the frame after a change of the window.
  await new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(then)));
  const found = [];
  const walker = document.createTreeWalker(document.querySelector(".frame"), NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const parent = text.parentElement;
    if (!/[⟦⟧]/.test(text.data) || parent.closest("option, svg, [aria-hidden], .sr, .skip")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const boxes = [...range.getClientRects()].filter((box) => box.width && box.height);
    if (!boxes.length) continue;
    const [left, right] = [Math.min(...boxes.map((box) => box.left)), Math.max(...boxes.map((box) => box.right))];
    for (let around = text.parentElement; around; around = around.parentElement) {
      const style = getComputedStyle(around);
      if (style.position === "fixed") break;
      if (["auto", "scroll"].includes(style.overflowX) && around.scrollWidth > around.clientWidth) break;
      if (style.overflowX === "visible" && around !== document.documentElement) continue;
      const box = around.getBoundingClientRect();
      if (right > box.right + 1.5 || left < box.left - 1.5) {
        const over = Math.round(right - box.right);
        found.push(`${text.data.slice(0, 50)} in ${around.tagName}.${around.className} (${over} px)`);
        break;
      }
    }
  }
  if (document.documentElement.scrollWidth > innerWidth) found.push("the page scrolls sideways");
  return [...new Set(found)];
}"""

# English with every word in brackets and longer by two fifths, as translations are.
_STRETCHED = """
import plain from "./en.js?plain";
const longer = (text) => text && `⟦${text}${" ·lorem".repeat(Math.ceil((text.length * 0.4) / 7))}⟧`;
const stretch = (value) => typeof value === "string" ? longer(value)
  : typeof value === "function" ? (...given) => longer(String(value(...given)))
  : Array.isArray(value) ? value.map((one, at) => at < 2 ? stretch(one) : one)
  : Object.fromEntries(Object.entries(value).map(([name, one]) => [name, stretch(one)]));
export default stretch(plain);
"""

# What is below the window's edge may wait until it is scrolled to.
LOADS_NOTHING = """() => ![...document.querySelectorAll(".bone, [aria-busy=true]")].some((one) =>
  one.getBoundingClientRect().top < innerHeight)"""

# Follows an address as a link within the console does.
_GO = """(path) => {
  history.pushState(null, "", path);
  dispatchEvent(new PopStateEvent("popstate"));
}"""


async def screens_of(page: Page, app: App, content: Furnished, *, of: str) -> AsyncIterator[str]:
    """Open a part of the screens, in a whole run all, wait until nothing on each loads, and yield its name.

    A screen of the console is open before. `of` says who looks: each sees other screens.
    """
    await expect(page.get_by_role("heading", level=1)).not_to_be_empty()
    for name in sample(content.screens, 0.15, of=of):
        path = content.screens[name]
        # An address without a screen between two, so that nothing of the one before is taken for the next.
        await page.evaluate(_GO, f"/console/apps/{app.app_id}/nowhere/at/all")
        await expect(page.get_by_role("heading", level=1)).to_be_empty()
        await page.evaluate(_GO, f"/console/apps/{app.app_id}{path}")
        await expect(page.get_by_role("heading", level=1)).not_to_be_empty()
        await until(lambda: page.evaluate(LOADS_NOTHING))
        yield name


async def stretch(page: Page) -> None:
    """Show all that the console says in longer words."""

    async def stretched(route: Route) -> None:
        await route.fulfill(body=_STRETCHED, content_type="text/javascript")

    await page.route(re.compile(r"/strings/en\.js$"), stretched)


def nothing(found: dict[str, list[str]]) -> None:
    """Fail with all that was found on any screen."""
    said = "\n".join(f"{name}: {one}" for name, all_ in found.items() for one in all_)
    assert not said, said
