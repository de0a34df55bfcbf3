"""What the provider's pages say, and what the built-in scopes are called, in each language. Pure.

An app's own scopes have texts of their own.
"""

from __future__ import annotations

import functools
import re
import tomllib
from importlib import resources

import msgspec

from pilotis.kit.languages import Language, preferred

# What separates the languages of `ui_locales` (OpenID Connect Core 1.0, section 3.1.2.1).
_BETWEEN_WORDS = re.compile(r"(?<=\w) +(?=\w)")


class ScopeText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The title and description of a scope."""

    title: str
    description: str = ""


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page that explains why a sign-in does not go on."""

    title: str
    text: str
    advice: str


class Problems(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The reasons: the request is refused, it is over, or there are too many."""

    refused: Problem
    over: Problem
    busy: Problem


class SignOut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pages of the sign-out; `asked` has a place for `{client}`, `told` is said where no client asks."""

    title: str
    asked: str
    told: str
    button: str
    done: str
    close: str


class Texts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The texts of a language: `texts` and `errors` are what the script of the consent page says."""

    texts: dict[str, str]
    errors: dict[str, str]
    problems: Problems
    sign_out: SignOut
    scopes: dict[str, ScopeText]


@functools.cache
def texts_of(language: Language) -> Texts:
    """Return the texts of a language."""
    text = resources.files("pilotis.oauth.flow").joinpath("languages", f"{language}.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Texts)


def language(wanted: str | None) -> Language:
    """Return the language that a list such as `Accept-Language` or `ui_locales` asks for most, English by default."""
    return preferred(_BETWEEN_WORDS.sub(",", wanted or "")) or "en"
