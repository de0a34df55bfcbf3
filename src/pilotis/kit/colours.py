"""Colours of pages, and whether they can be read (WCAG 2.2, 1.4.3). Pure."""

from __future__ import annotations

READABLE = 4.5
"""The least contrast of text with its ground."""
LIGHT_PAGE, DARK_PAGE = (243.0, 241.0, 236.0), (34.0, 34.0, 32.0)
"""The darkest ground of the server's light pages and the lightest of its dark ones: `--sunken` of their style sheet."""
BLACK, WHITE = (0.0, 0.0, 0.0), (255.0, 255.0, 255.0)
_STEPS = 255

Colour = tuple[float, float, float]
"""Red, green and blue, each from 0 to 255."""


def parse(text: str) -> Colour:
    """Return the colour of a text `#rrggbb`."""
    red, green, blue = (int(text[at : at + 2], 16) for at in (1, 3, 5))
    return float(red), float(green), float(blue)


def text_of(colour: Colour) -> str:
    """Return a colour as `#rrggbb`."""
    return "#" + "".join(f"{round(part):02x}" for part in colour)


def contrast(first: Colour, second: Colour) -> float:
    """Return the contrast of two colours, from 1 to 21 (WCAG 2.2, contrast ratio)."""
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def readable_on(page: Colour, colour: Colour) -> Colour:
    """Return the nearest colour to one that can be read on a page, darker on a light page and lighter on a dark one."""
    goal = BLACK if luminance(page) > 0.5 else WHITE
    for step in range(_STEPS + 1):
        nearest = mixed(colour, goal, step / _STEPS)
        if contrast(nearest, page) >= READABLE:
            return nearest
    return goal


def on(ground: Colour) -> Colour:
    """Return black or white, whichever can be read on a ground; one of them always can."""
    return max((BLACK, WHITE), key=lambda one: contrast(one, ground))


def dimmed(colour: Colour, highest: float) -> Colour:
    """Return a colour mixed with black until its luminance is at most `highest`."""
    for step in range(_STEPS + 1):
        darker = mixed(colour, BLACK, step / _STEPS)
        if luminance(darker) <= highest:
            return darker
    return BLACK


def mixed(colour: Colour, other: Colour, part: float) -> Colour:
    """Return a colour with a part, from 0 to 1, of another."""
    red, green, blue = (round(one + (two - one) * part) for one, two in zip(colour, other, strict=True))
    return float(red), float(green), float(blue)


def luminance(colour: Colour) -> float:
    """Return the relative luminance of a colour, from 0 to 1 (WCAG 2.2)."""
    red, green, blue = (
        part / 255 / 12.92 if part <= 10.31 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in colour
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
