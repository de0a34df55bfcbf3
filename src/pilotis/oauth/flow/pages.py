"""The provider's pages: the consent screen, a single-page application, and pages that explain errors to users.

Style and script are inline, and the policy allows them by their hashes alone. The only value from a client in the
markup is its id, as an attribute; all others are passed to the script as JSON and inserted by `textContent`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from urllib.parse import urlsplit

from pilotis.http.api.cookies import SetCookie
from pilotis.http.reference.page import asset
from pilotis.http.replies.page import Page
from pilotis.kit.errors import PilotisError, RateLimitedError
from pilotis.oauth.flow.consent import PageData
from pilotis.oauth.redirect_uris import origin_of

# In a frame, or with access from another site's page, a user could be tricked into clicking (RFC 9700, section 4.16).
_ALONE = ((b"x-frame-options", b"DENY"), (b"cross-origin-opener-policy", b"same-origin"))
_TITLE = {"en": "Sign in", "ko": "로그인"}
_NOSCRIPT = {
    "en": "This page requires JavaScript. Enable it and reload the page.",
    "ko": "이 페이지는 자바스크립트가 필요합니다. 켠 다음 다시 불러오세요.",
}
_PROBLEM = {
    "en": (
        "This sign-in cannot continue",
        "The app or site that sent you here made an error, or must be configured again.",
        "You did nothing wrong, and no information was shared. Go back and tell the people who run it.",
        "For developers",
    ),
    "ko": (
        "로그인을 진행할 수 없습니다",
        "이곳으로 보낸 앱 또는 사이트의 요청이 잘못되었거나 다시 설정해야 합니다.",
        "사용자의 잘못이 아니며 아무 정보도 전달되지 않았습니다. 돌아가서 운영자에게 알려 주세요.",
        "개발자 정보",
    ),
}
_OVER = {
    "en": (
        "This request has ended",
        "It has already been answered, or ten minutes have passed.",
        "Go back to where you came from and start again.",
        "For developers",
    ),
    "ko": (
        "요청이 끝났습니다",
        "이미 처리되었거나 10분이 지났습니다.",
        "처음 시작한 곳으로 돌아가서 다시 시도하세요.",
        "개발자 정보",
    ),
}
_BUSY = {
    "en": (
        "Too many sign-ins",
        "More sign-ins have been started from your network than this server accepts.",
        "Wait a minute and reload this page.",
        "For developers",
    ),
    "ko": (
        "로그인 시도가 너무 많습니다",
        "사용 중인 네트워크에서 시작한 로그인이 서버의 한도를 넘었습니다.",
        "잠시 후 이 페이지를 다시 불러오세요.",
        "개발자 정보",
    ),
}
_OVER_CODES = frozenset(("OAUTH_REQUEST_NOT_FOUND", "OAUTH_REQUEST_EXPIRED", "OAUTH_REQUEST_DECIDED"))


def consent_page(data: PageData, language: str) -> Page:
    """Return the consent screen of a request."""
    body = _asset("consent.html")
    for name, value in (
        ("request", data.request_id),
        ("client", data.client_id),
        ("noscript", _NOSCRIPT[language]),
    ):
        body = body.replace(f"{{{name}}}", escape(value))
    return _page(language, _TITLE[language], body, script=asset("vendors.js") + _asset("consent.js"))


def problem_page(error: PilotisError, request_id: str, language: str) -> Page:
    """Return a page that explains an error; the details for developers are collapsed below."""
    texts = _BUSY if isinstance(error, RateLimitedError) else _OVER if error.code in _OVER_CODES else _PROBLEM
    title, text, advice, developers = texts[language]
    body = (
        f"<main>\n<h1>{escape(title)}</h1>\n<p>{escape(text)}</p>\n<p>{escape(advice)}</p>\n"
        f"<details><summary>{escape(developers)}</summary>\n<p>{escape(error.text)}</p>\n"
        f"<p><code>{escape(error.code)}</code> · <code>{escape(request_id)}</code></p></details>\n</main>\n"
    )
    told = [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
    return _page(language, title, body, status=error.status, headers=told)


_LOGOUT = {
    "en": ("Sign out?", "{client} asks to sign you out here.", "You will be signed out in this browser.", "Sign out"),
    "ko": ("로그아웃할까요?", "{client}에서 로그아웃을 요청했습니다.", "이 브라우저에서 로그아웃됩니다.", "로그아웃"),
}
_SIGNED_OUT = {
    "en": ("You are signed out", "You can close this page."),
    "ko": ("로그아웃되었습니다", "이 페이지를 닫아도 됩니다."),
}


def logout_page(
    token: str, fields: Mapping[str, str], client_name: str | None, location: str | None, language: str
) -> Page:
    """Return the page that asks whether to sign out; its form repeats the request with the browser's `token`."""
    title, by_client, by_nobody, button = _LOGOUT[language]
    why = by_client.replace("{client}", client_name) if client_name else by_nobody
    hidden = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">\n'
        for name, value in {**fields, "confirm": token}.items()
    )
    body = (
        f"<main>\n<h1>{escape(title)}</h1>\n<p>{escape(why)}</p>\n"
        f'<form method="post" action="/oauth/end-session">\n{hidden}<button type="submit">{escape(button)}</button>\n'
        "</form>\n</main>\n"
    )
    # The policy also applies to where the form redirects, the client's address (CSP 3, section 6.4.1).
    targets = ["'self'", *([_source_of(location)] if location else [])]
    return _page(language, title, body, form_action=targets)


def signed_out_page(language: str, cookies: Sequence[SetCookie]) -> Page:
    """Return the page shown after a sign-out without a redirect."""
    title, text = _SIGNED_OUT[language]
    body = f"<main>\n<h1>{escape(title)}</h1>\n<p>{escape(text)}</p>\n</main>\n"
    return _page(language, title, body, cookies=cookies)


def _source_of(uri: str) -> str:
    """Return a URI as a CSP source: its origin, or its scheme if that is private."""
    parts = urlsplit(uri)
    return origin_of(uri) if parts.scheme in {"http", "https"} else f"{parts.scheme}:"


def _page(
    language: str,
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
