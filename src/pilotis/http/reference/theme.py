"""How the pages look that an app's members see: colours, the roundness of corners, typeface, logo, own words. Pure.

No style sheet of an app is taken. The accent is darkened on the light page and lightened on the dark one until it can
be read there, and what stands on it or on the background is black or white, whichever can be read.
"""

from __future__ import annotations

import re

from pilotis.http.api.principals import AppInfo
from pilotis.kit.account_settings import Theme, logo_path
from pilotis.kit.colours import (
    BLACK,
    DARK_PAGE,
    LIGHT_PAGE,
    WHITE,
    Colour,
    dimmed,
    mixed,
    on,
    parse,
    readable_on,
    text_of,
)
from pilotis.kit.languages import Language

NO_THEME = Theme()
_VALUE = re.compile(r"\{(app|number)\}")
_DARK = "@media (prefers-color-scheme: dark)"
_NARROW = "@media (max-width:40rem)"
# As dark as the ground of the server's own dark pages, nearly.
_DARKEST = 0.03
_MAX_CARD_RADIUS = 24
_FONTS = {
    "system": "system-ui, sans-serif",
    "serif": "Georgia, 'Times New Roman', serif",
    "mono": "ui-monospace, 'Cascadia Mono', Menlo, monospace",
}


def style_of(theme: Theme) -> str:
    """Return the style sheet that a theme adds to that of the pages; empty without one.

    What it says of dark pages stands in a condition `prefers-color-scheme`, whatever the theme's mode.
    """
    parts = []
    if theme.accent is not None:
        accent = parse(theme.accent)
        parts.append(f":root{{{_accent(readable_on(LIGHT_PAGE, accent), BLACK)}}}")
        parts.append(f"{_DARK}{{:root{{{_accent(readable_on(DARK_PAGE, accent), WHITE)}}}}}")
    if theme.background is not None:
        ground = parse(theme.background)
        dark = ground if theme.mode == "dark" else dimmed(ground, _DARKEST)
        parts.append(f":root{{{_ground(ground)}}}{_DARK}{{:root{{{_ground(dark)}}}}}")
        # On a phone the card would cover it.
        parts.append(f"{_NARROW}{{body>.card:first-child{{margin:var(--s4);min-height:0;border-radius:var(--r2)}}}}")
    if theme.radius is not None:
        card = min(2 * theme.radius, _MAX_CARD_RADIUS)
        parts.append(f":root{{--r1:{theme.radius}px;--r2:{card}px}}")
    if theme.font is not None:
        parts.append(f"body,button,input{{font-family:{_FONTS[theme.font]}}}")
    return "".join(parts)


def _accent(colour: Colour, strong: Colour) -> str:
    stronger = mixed(colour, strong, 0.2)
    return f"--accent:{text_of(colour)};--accent-strong:{text_of(stronger)};--on-accent:{text_of(on(colour))}"


def _ground(colour: Colour) -> str:
    return f"--ground:{text_of(colour)};--on-ground:{text_of(on(colour))}"


def logo_of(app: AppInfo) -> str:
    """Return the markup of the app's logo; empty without one."""
    version = app.accounts.theme.logo
    return "" if version is None else f'<img class="logo" src="{logo_path(app.app_id, version)}" alt="">'


def own_texts(app: AppInfo, language: Language) -> dict[str, str]:
    """Return what the app says in a language in place of the server, its values filled in."""
    return {name: filled(text, app) for name, text in app.accounts.theme.texts.get(language, {}).items()}


def filled(text: str, app: AppInfo) -> str:
    """Return a text with the app's name for `{app}` and its shortest password's length for `{number}`."""
    values = {"app": app.name, "number": str(app.limits.password_min_length)}
    return _VALUE.sub(lambda found: values[found[1]], text)
