"""The provider's pages: the consent screen, a single-page application, and pages that explain errors to users.

Style and script are inline, and the policy allows them by their hashes alone. The only value from a client in the
markup is its id, as an attribute; all others are passed to the script as JSON and inserted by `textContent`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from urllib.parse import urlsplit

from pilotis.http.api.cookies import SetCookie
from pilotis.http.reference.page import asset
from pilotis.http.replies.page import Page
from pilotis.kit import json
from pilotis.kit.errors import PilotisError, RateLimitedError
from pilotis.kit.languages import Language
from pilotis.oauth.flow.consent import PageData
from pilotis.oauth.flow.texts import texts_of
from pilotis.oauth.redirect_uris import origin_of

# In a frame, or with access from another site's page, a user could be tricked into clicking (RFC 9700, section 4.16).
_ALONE = ((b"x-frame-options", b"DENY"), (b"cross-origin-opener-policy", b"same-origin"))
_PLACE = re.compile(r"\{([a-z]+)\}")
_OVER_CODES = frozenset(("OAUTH_REQUEST_NOT_FOUND", "OAUTH_REQUEST_EXPIRED", "OAUTH_REQUEST_DECIDED"))


def consent_page(data: PageData, language: Language) -> Page:
    """Return the consent screen of a request."""
    known = texts_of(language)
    places = {
        "request": data.request_id,
        "client": data.client_id,
        "noscript": known.texts["noscript"],
        "data": json.encode({"texts": known.texts, "errors": known.errors}).decode(),
    }
    body = _PLACE.sub(lambda found: escape(places[found[1]]), _asset("consent.html"))
    return _page(language, known.texts["sign_in"], body, script=asset("pkce.js") + _asset("consent.js"))


def problem_page(error: PilotisError, request_id: str, language: Language) -> Page:
    """Return a page that explains an error; the details for developers are collapsed below."""
    known = texts_of(language)
    is_over = error.code in _OVER_CODES
    problems = known.problems
    told = problems.busy if isinstance(error, RateLimitedError) else problems.over if is_over else problems.refused
    body = (
        f"<main>\n<h1>{escape(told.title)}</h1>\n<p>{escape(told.text)}</p>\n<p>{escape(told.advice)}</p>\n"
        f"<details><summary>{escape(known.texts['developers'])}</summary>\n<p>{escape(error.text)}</p>\n"
        f"<p><code>{escape(error.code)}</code> · <code>{escape(request_id)}</code></p></details>\n</main>\n"
    )
    headers = [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
    return _page(language, told.title, body, status=error.status, headers=headers)


def logout_page(
    token: str, fields: Mapping[str, str], client_name: str | None, location: str | None, language: Language
) -> Page:
    """Return the page that asks whether to sign out; its form repeats the request with the browser's `token`."""
    known = texts_of(language).sign_out
    why = known.asked.replace("{client}", client_name) if client_name else known.told
    hidden = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">\n'
        for name, value in {**fields, "confirm": token}.items()
    )
    body = (
        f"<main>\n<h1>{escape(known.title)}</h1>\n<p>{escape(why)}</p>\n"
        f'<form method="post" action="/oauth/end-session">\n{hidden}'
        f'<button type="submit">{escape(known.button)}</button>\n</form>\n</main>\n'
    )
    # The policy also applies to where the form redirects, the client's address (CSP 3, section 6.4.1).
    targets = ["'self'", *([_source_of(location)] if location else [])]
    return _page(language, known.title, body, form_action=targets)


def signed_out_page(language: Language, cookies: Sequence[SetCookie]) -> Page:
    """Return the page shown after a sign-out without a redirect."""
    known = texts_of(language).sign_out
    body = f"<main>\n<h1>{escape(known.done)}</h1>\n<p>{escape(known.close)}</p>\n</main>\n"
    return _page(language, known.done, body, cookies=cookies)


def _source_of(uri: str) -> str:
    """Return a URI as a CSP source: its origin, or its scheme if that is private."""
    parts = urlsplit(uri)
    return origin_of(uri) if parts.scheme in {"http", "https"} else f"{parts.scheme}:"


def _page(
    language: Language,
    title: str,
    body: str,
    *,
    script: str = "",
    status: int | None = None,
    form_action: Sequence[str] = (),
    headers: Sequence[tuple[bytes, bytes]] = (),
    cookies: Sequence[SetCookie] = (),
) -> Page:
    style = _asset("consent.css")
    html = (
        f'<!doctype html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="robots" content="noindex">\n'
        f'<link rel="icon" href="data:,">\n<style>{style}</style>\n</head>\n<body>\n{body}'
        + (f"<script>{script}</script>\n" if script else "")
        + "</body>\n</html>\n"
    )
    return Page(
        html=html,
        status=status,
        styles=[style],
        scripts=[script] if script else [],
        images=["'self'"],
        form_action=form_action,
        headers=[*_ALONE, *headers],
        cookies=cookies,
    )


@cache
def _asset(name: str) -> str:
    return (resources.files("pilotis.oauth.flow") / name).read_text("utf-8")
