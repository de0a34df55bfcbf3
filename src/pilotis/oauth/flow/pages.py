"""The provider's pages: the consent screen, a single-page application, and pages that explain errors to users.

They are in the frame and with the theme of the app's account pages. Style and script are inline, and the policy allows
them by their hashes alone. The only value from a client in the markup is its id, as an attribute; all others
are passed to the script as JSON and inserted by `textContent`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from urllib.parse import urlsplit

from pilotis.http.api.cookies import SetCookie
from pilotis.http.api.principals import AppInfo
from pilotis.http.reference.page import asset, page
from pilotis.http.reference.theme import NO_THEME, logo_of, own_texts
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.errors import PilotisError, RateLimitedError
from pilotis.kit.languages import Language
from pilotis.oauth.flow.consent import PageData
from pilotis.oauth.flow.texts import texts_of
from pilotis.oauth.redirect_uris import origin_of

# In a frame, or with access from another site's page, a user could be tricked into clicking (RFC 9700, section 4.16).
_ALONE = (
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-robots-tag", b"noindex"),
    (b"cache-control", b"no-store"),
)
_PLACE = re.compile(r"\{([a-z]+)\}")
_OVER_CODES = frozenset(("OAUTH_REQUEST_NOT_FOUND", "OAUTH_REQUEST_EXPIRED", "OAUTH_REQUEST_DECIDED"))


def consent_page(data: PageData, app: AppInfo, language: Language) -> Reply:
    """Return the consent screen of a request to an app."""
    known = texts_of(language)
    places = {
        "request": escape(data.request_id),
        "client": escape(data.client_id),
        "noscript": escape(known.texts["noscript"]),
        "data": escape(json.encode({"texts": known.texts, "errors": known.errors}).decode()),
        "logo": logo_of(app),
        "footer": _footer(app, language),
    }
    body = _PLACE.sub(lambda found: places[found[1]], _asset("consent.html"))
    script = asset("pkce.js") + _asset("consent.js")
    # The logos of clients are the server's.
    return _page(app, language, known.texts["sign_in"], body, script=script, images=["'self'"])


def problem_page(error: PilotisError, request_id: str, app: AppInfo | None, language: Language) -> Reply:
    """Return a page that explains an error, of the app if it is known; details for developers are collapsed below."""
    known = texts_of(language)
    is_over = error.code in _OVER_CODES
    problems = known.problems
    told = problems.busy if isinstance(error, RateLimitedError) else problems.over if is_over else problems.refused
    body = (
        f"<h1>{escape(told.title)}</h1>\n<p>{escape(told.text)}</p>\n<p>{escape(told.advice)}</p>\n"
        f"<details><summary>{escape(known.texts['developers'])}</summary>\n<p>{escape(error.text)}</p>\n"
        f"<p><code>{escape(error.code)}</code> · <code>{escape(request_id)}</code></p></details>\n"
    )
    headers = [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
    return _page(app, language, told.title, _card(app, body, language), status=error.status, headers=headers)


def logout_page(
    token: str,
    fields: Mapping[str, str],
    client_name: str | None,
    location: str | None,
    app: AppInfo | None,
    language: Language,
) -> Reply:
    """Return the page that asks whether to sign out; its form repeats the request with the browser's `token`."""
    known = texts_of(language).sign_out
    why = known.asked.replace("{client}", client_name) if client_name else known.told
    hidden = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">\n'
        for name, value in {**fields, "confirm": token}.items()
    )
    body = (
        f"<h1>{escape(known.title)}</h1>\n<p>{escape(why)}</p>\n"
        f'<form method="post" action="/oauth/end-session">\n{hidden}'
        f'<button type="submit">{escape(known.button)}</button>\n</form>\n'
    )
    # The policy also applies to where the form redirects, the client's address (CSP 3, section 6.4.1).
    targets = ["'self'", *([_source_of(location)] if location else [])]
    return _page(app, language, known.title, _card(app, body, language), form_action=targets)


def signed_out_page(app: AppInfo | None, language: Language, cookies: Sequence[SetCookie]) -> Reply:
    """Return the page shown after a sign-out without a redirect."""
    known = texts_of(language).sign_out
    body = f"<h1>{escape(known.done)}</h1>\n<p>{escape(known.close)}</p>\n"
    return _page(app, language, known.done, _card(app, body, language), cookies=cookies)


def _source_of(uri: str) -> str:
    """Return a URI as a CSP source: its origin, or its scheme if that is private."""
    parts = urlsplit(uri)
    return origin_of(uri) if parts.scheme in {"http", "https"} else f"{parts.scheme}:"


def _card(app: AppInfo | None, body: str, language: Language) -> str:
    logo, footer = ("", "") if app is None else (logo_of(app), _footer(app, language))
    return f'<main id="main" class="card">\n{logo}\n{body}</main>\n{footer}'


def _footer(app: AppInfo, language: Language) -> str:
    return f'<footer class="foot own">{escape(own_texts(app, language).get("footer", ""))}</footer>'


def _page(
    app: AppInfo | None,
    language: Language,
    title: str,
    body: str,
    *,
    script: str = "",
    status: int | None = None,
    images: Sequence[str] = (),
    form_action: Sequence[str] = (),
    headers: Sequence[tuple[bytes, bytes]] = (),
    cookies: Sequence[SetCookie] = (),
) -> Reply:
    return page(
        title,
        body,
        script=script,
        status=status,
        has_bar=False,
        language=language,
        more_style=_asset("provider.css"),
        theme=NO_THEME if app is None else app.accounts.theme,
        images=images,
        form_action=form_action,
        headers=[*_ALONE, *headers],
        cookies=cookies,
    )


@cache
def _asset(name: str) -> str:
    return (resources.files("pilotis.oauth.flow") / name).read_text("utf-8")
