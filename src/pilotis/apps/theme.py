"""The theme of an app's account pages: what is stored of it, and which one is refused. Pure."""

from __future__ import annotations

import msgspec

from pilotis.apps.types import AccountTheme
from pilotis.kit.account_settings import Theme
from pilotis.kit.colours import DARK_PAGE, LIGHT_PAGE, READABLE, contrast, parse, readable_on, text_of
from pilotis.kit.errors import BadRequestError, invalid

_MAX_TITLE = 100
_JOINER = "\u200d"


class LowContrastError(BadRequestError):
    """400: a colour of the account pages cannot be read on them; `nearest` is the nearest one that can."""

    code = "LOW_CONTRAST"
    message = "This colour cannot be read on the account pages."

    def __init__(self, colour: str, nearest: str, page: str, found: float) -> None:
        super().__init__(
            f"theme.accent: {colour} has a contrast of {found:.1f}:1 with {page}, where {READABLE}:1 is needed. "
            f"The nearest colour that has it is {nearest}."
        )
        self.extra = {"nearest": nearest}
        self.at("theme.accent")


def stored_theme(theme: AccountTheme, logo: str | None) -> Theme:
    """Return what is stored of a theme, beside the version of the logo; raises `LowContrastError` or a 400 error."""
    given = msgspec.structs.asdict(theme)
    # The pattern of the type lets a line break pass at the end.
    for name in ("accent", "background"):
        given[name] = given[name] and given[name].strip()
    given["texts"] = {
        language: {name: _checked(f"theme.texts.{language}.{name}", text) for name, text in texts.items()}
        for language, texts in theme.texts.items()
        if texts
    }
    if given["accent"] is not None:
        _require_readable(given["accent"], is_dark=theme.mode == "dark")
    return Theme(**given, logo=logo)


def shown_theme(theme: Theme) -> AccountTheme:
    """Return a theme as the account settings show it."""
    shown = {name: value for name, value in msgspec.structs.asdict(theme).items() if name != "logo"}
    return AccountTheme(**shown)


def _require_readable(accent: str, *, is_dark: bool) -> None:
    page, name = (DARK_PAGE, "a dark page") if is_dark else (LIGHT_PAGE, "a light page")
    colour = parse(accent)
    found = contrast(colour, page)
    if found < READABLE:
        raise LowContrastError(accent, text_of(readable_on(page, colour)), name, found)


def _checked(field: str, text: str) -> str:
    """Return a text without spaces around it; titles have one line, other texts may have several."""
    is_title = field.endswith("_title")
    text = text.strip()
    characters = text.replace(_JOINER, "") if is_title else text.replace(_JOINER, "").replace("\n", "")
    if not text or not characters.isprintable():
        raise invalid(field, f"{field}: a text without control characters is expected.")
    if is_title and len(text) > _MAX_TITLE:
        raise invalid(field, f"{field} has at most {_MAX_TITLE} characters.", "TOO_LONG")
    return text
