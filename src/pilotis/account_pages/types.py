"""The types of account pages."""

from __future__ import annotations

from typing import Literal

import msgspec

from pilotis.kit.account_settings import Font, HexColour, Mode, Radius
from pilotis.kit.languages import Language


class LogoQuery(msgspec.Struct):
    """`v` is the picture's version in a logo's address, so that a replaced one has another address."""

    v: str = ""


class PreviewQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The part of a theme that a preview shows, whatever is stored, with the logo that is stored.

    `section` is the page that is shown, and `shows` says whether it is the light or the dark one of the mode `auto`,
    whatever the browser prefers.
    """

    accent: HexColour | None = None
    background: HexColour | None = None
    radius: Radius | None = None
    font: Font | None = None
    mode: Mode = "auto"
    section: Literal["sign-in", "sign-up"] = "sign-in"
    shows: Literal["light", "dark"] | None = None
    lang: Language = "en"
