"""Account pages: one document in the member's language, whose script shows the page that was asked for. Pure.

The values of an app are escaped in the markup, and are JSON for the script, which inserts them by `textContent`.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

import msgspec

from pilotis.http.api.principals import AppInfo
from pilotis.http.reference.page import asset, page
from pilotis.http.reference.theme import filled, logo_of, own_texts
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.account_settings import ChallengeProvider, Mode
from pilotis.kit.languages import Language
from pilotis.oauth.social.types import AccountPageVendors

PREVIEW = "preview"
"""The sign-in page as the console shows it: it looks and does nothing."""
PAGES = ("sign-in", "sign-up", "forgot", "reset", "verify", "undo", "invite", "download", "account")

_SCRIPTS = ("vendors.js", "passkeys.js", "challenges.js", "devices.js", "page.js")
# What the widgets of challenges load, by their vendors' documentation of content security policies.
_CLOUDFLARE, _HCAPTCHA = ("https://challenges.cloudflare.com",), ("https://hcaptcha.com", "https://*.hcaptcha.com")
_GOOGLE = "https://www.google.com/recaptcha/"
WIDGETS: Mapping[ChallengeProvider, Mapping[str, Sequence[str]]] = {
    "proof_of_work": {},
    "turnstile": {"script-src": _CLOUDFLARE, "frame-src": _CLOUDFLARE},
    "hcaptcha": dict.fromkeys(("script-src", "style-src", "connect-src", "frame-src"), _HCAPTCHA),
    "recaptcha": {
        "script-src": (_GOOGLE, "https://www.gstatic.com/recaptcha/"),
        "frame-src": (_GOOGLE, "https://recaptcha.google.com/recaptcha/"),
    },
}
# Where an app says something, and the server nothing.
_UNSAID = {"sign_in_text": "", "sign_up_text": "", "footer": ""}
_FOLDER = files("pilotis.account_pages")
_PLACE = re.compile(r"\{\{([a-z_]+)\}\}")


class Texts(msgspec.Struct, frozen=True):
    """What the pages say in a language; `{app}` is the app's name, `{number}` a number of characters."""

    texts: dict[str, str]
    errors: dict[str, str]


def account_page(
    name: str,
    app: AppInfo,
    public_key: str | None,
    origin: str,
    language: Language,
    vendors: AccountPageVendors | None,
    mode: Mode | None = None,
) -> Reply:
    """Return one of `PAGES` or `PREVIEW`, for an app that members reach by a public key.

    `origin` is the server's. `mode` is that of the theme unless it is given.
    """
    known = texts_of(language)
    texts, errors = (
        {key: filled(text, app) for key, text in part.items()} for part in (known.texts | _UNSAID, known.errors)
    )
    texts |= own_texts(app, language)
    data = {
        "page": name,
        "app": app.name,
        "public_key": public_key,
        "language": language,
        "settings": _settings(app, origin),
        "texts": texts,
        "errors": errors,
        "vendors": {"client_id": "", "providers": []} if vendors is None else vendors,
    }
    places = {
        **{key: escape(text) for key, text in texts.items()},
        "shortest": str(app.limits.password_min_length),
        "logo": logo_of(app),
        "longest": str(app.limits.password_max_length),
        # No text ends the element early.
        "data": json.encode(data).decode().replace("<", "\\u003c"),
    }
    body = _PLACE.sub(lambda found: places[found[1]], _asset("page.html"))
    script = asset("pkce.js") + "".join(map(_asset, _SCRIPTS))
    return page(
        app.name,
        body,
        script=script,
        has_bar=False,
        language=language,
        theme=app.accounts.theme,
        mode=mode,
        ancestors="'self'" if name == PREVIEW else "'none'",
        # The preview in the console does nothing.
        others={} if name == PREVIEW else WIDGETS[app.accounts.challenge.provider],
    )


def _settings(app: AppInfo, origin: str) -> dict[str, object]:
    """Return what of an app's account settings the pages show or leave out."""
    accounts = app.accounts
    origins = accounts.allowed_origins if accounts.passkey_domain else [origin]
    return {
        "password": app.allow_id_password_login,
        "email_code": accounts.email_code,
        "email_link": accounts.email_link,
        "passkey_origins": origins if accounts.passkey else [],
        "sign_up": accounts.may_sign_up("password"),
        "invited": accounts.may_sign_up("password", is_invited=True),
        "login_id_form": accounts.login_id_form,
        "email_verification": accounts.email_verification,
        "second_factor": accounts.second_factor,
        "deletion_grace_days": accounts.deletion_grace_days,
        "challenge_on": list(accounts.challenge_on),
        "challenge": {"provider": accounts.challenge.provider, "site_key": accounts.challenge.site_key},
        "fields": [msgspec.structs.asdict(field) for field in accounts.sign_up_fields],
    }


@functools.cache
def texts_of(language: Language) -> Texts:
    """Return the texts of a language."""
    return msgspec.convert(tomllib.loads(_asset(f"languages/{language}.toml")), Texts)


@functools.cache
def _asset(name: str) -> str:
    return _FOLDER.joinpath(*name.split("/")).read_text("utf-8")
