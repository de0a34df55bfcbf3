"""How an app's account pages look: its colour, the roundness of corners, and the typeface. Pure.

No style sheet of an app is taken. A colour is darkened on the light page and lightened on the dark one until it can be
read there (WCAG 2.2, 1.4.3), and what stands on it is black or white, whichever can be read.
"""

from __future__ import annotations

from pilotis.kit.account_settings import Theme

_READABLE = 4.5
_STEPS = 40
_BLACK, _WHITE = (0.0, 0.0, 0.0), (255.0, 255.0, 255.0)
_LIGHT_PAGE, _DARK_PAGE = (243.0, 241.0, 236.0), (34.0, 34.0, 32.0)
_FONTS = {
    "system": "system-ui, sans-serif",
    "serif": "Georgia, 'Times New Roman', serif",
    "mono": "ui-monospace, 'Cascadia Mono', Menlo, monospace",
}

Colour = tuple[float, float, float]


def style_of(theme: Theme) -> str:
    """Return the style sheet that a theme adds to that of the pages; empty without one."""
    parts = []
    if theme.accent is not None:
        accent = parse(theme.accent)
        light, dark = readable_on(_LIGHT_PAGE, accent), readable_on(_DARK_PAGE, accent)
        parts.append(f":root{{{_accent(light, _BLACK)}}}")
        parts.append(f"@media (prefers-color-scheme: dark){{:root{{{_accent(dark, _WHITE)}}}}}")
    if theme.radius is not None:
        parts.append(f":root{{--r1:{theme.radius}px}}")
    if theme.font is not None:
        parts.append(f"body,button,input{{font-family:{_FONTS[theme.font]}}}")
    return "".join(parts)


def parse(text: str) -> Colour:
    """Return the colour of a text `#rrggbb`."""
    red, green, blue = (int(text[at : at + 2], 16) for at in (1, 3, 5))
    return float(red), float(green), float(blue)


def contrast(first: Colour, second: Colour) -> float:
    """Return the contrast of two colours, from 1 to 21 (WCAG 2.2, contrast ratio)."""
    high, low = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def readable_on(page: Colour, colour: Colour) -> Colour:
    """Return the nearest colour to one that can be read on a page, darker on a light page and lighter on a dark one."""
    goal = _BLACK if _luminance(page) > 0.5 else _WHITE
    for step in range(_STEPS + 1):
        mixed = _mixed(colour, goal, step / _STEPS)
        if contrast(mixed, page) >= _READABLE:
            return mixed
    return goal


def _accent(colour: Colour, strong: Colour) -> str:
    on = max((_BLACK, _WHITE), key=lambda one: contrast(one, colour))
    return f"--accent:{_text(colour)};--accent-strong:{_text(_mixed(colour, strong, 0.2))};--on-accent:{_text(on)}"


def _mixed(colour: Colour, other: Colour, part: float) -> Colour:
    red, green, blue = (round(one + (two - one) * part) for one, two in zip(colour, other, strict=True))
    return float(red), float(green), float(blue)


def _luminance(colour: Colour) -> float:
    red, green, blue = (
        part / 255 / 12.92 if part <= 10.31 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in colour
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _text(colour: Colour) -> str:
    return "#" + "".join(f"{round(part):02x}" for part in colour)
