"""Account pages: one document in the member's language, whose script shows the page that was asked for. Pure.

The values of an app are escaped in the markup, and are JSON for the script, which inserts them by `textContent`.
"""

from __future__ import annotations

import functools
import re
import tomllib
from html import escape
from importlib.resources import files

import msgspec

from pilotis.http.reference.page import page
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.languages import Language
from pilotis.limits import Limits

PAGES = ("sign-in", "sign-up", "forgot", "reset", "verify", "invite", "account")

_FOLDER = files("pilotis.account_pages")
_PLACE = re.compile(r"\{\{([a-z_]+)\}\}")
_VALUE = re.compile(r"\{(app|number)\}")


class Texts(msgspec.Struct, frozen=True):
    """What the pages say in a language; `{app}` is the app's name, `{number}` a number of characters."""

    texts: dict[str, str]
    errors: dict[str, str]


def account_page(name: str, app_name: str, public_key: str | None, limits: Limits, language: Language) -> Reply:
    """Return one of `PAGES`, for an app that members reach by a public key."""
    values = {"app": app_name, "number": str(limits.password_min_length)}
    known = texts_of(language)
    texts, errors = (
        {key: _VALUE.sub(lambda found: values[found[1]], text) for key, text in part.items()}
        for part in (known.texts, known.errors)
    )
    data = {
        "page": name,
        "app": app_name,
        "public_key": public_key,
        "language": language,
        "texts": texts,
        "errors": errors,
    }
    places = {
        **{key: escape(text) for key, text in texts.items()},
        "shortest": str(limits.password_min_length),
        "longest": str(limits.password_max_length),
        # No text ends the element early.
        "data": json.encode(data).decode().replace("<", "\\u003c"),
    }
    body = _PLACE.sub(lambda found: places[found[1]], _asset("page.html"))
    return page(app_name, body, script=_asset("page.js"), has_bar=False, language=language)


@functools.cache
def texts_of(language: Language) -> Texts:
    """Return the texts of a language."""
    return msgspec.convert(tomllib.loads(_asset(f"languages/{language}.toml")), Texts)


@functools.cache
def _asset(name: str) -> str:
    return _FOLDER.joinpath(*name.split("/")).read_text("utf-8")
