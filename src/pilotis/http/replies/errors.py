"""The only place that converts an exception to an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from http import HTTPStatus
from typing import Annotated

import msgspec

from pilotis.http.api.error_styles import ErrorStyle
from pilotis.http.api.json_schemas import described_by
from pilotis.http.api.schemas import UuidText
from pilotis.http.reference.page import page
from pilotis.http.replies.page import Page
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.errors import Detail, PilotisError

_STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:15vh auto;padding:0 1rem}"
    "code{font-size:.875rem}small{color:GrayText}"
)
_OAUTH_CODES = {401: "invalid_client", 403: "access_denied", 429: "temporarily_unavailable"}


class ErrorBody(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The body of every error: a code for programs, a sentence for people, and the request's id for the logs.

    `key` is the unique key that a row violates, and `existing_id` the row that has its values already. `table` and
    `column` say which reference leads to a row that is to stay, `count` by how many rows. `ticket` finishes until
    `expires_at` a sign-in that needs one of `factors`; `methods` prove again who a member is; a ban ends at `until`.
    `quota` is the one that is used up, until `resets_at`. `nearest` is the value that would do.
    """

    code: Annotated[str, described_by("ErrorCode", {})]
    message: str
    request_id: str
    details: Sequence[Detail] = ()
    failed_index: int | None = None
    key: str | None = None
    existing_id: UuidText | None = None
    table: str | None = None
    column: str | None = None
    count: int | None = None
    ticket: str | None = None
    factors: list[str] | None = None
    expires_at: str | None = None
    methods: list[str] | None = None
    until: str | None = None
    quota: str | None = None
    resets_at: str | None = None
    nearest: str | None = None


class OAuthErrorBody(msgspec.Struct, omit_defaults=True):
    """An error of OAuth 2.0 (RFC 6749, section 5.2)."""

    error: str
    error_description: str


def error_response(error: PilotisError, request_id: str, style: ErrorStyle = "api") -> Reply:
    """Return the error answer in a style."""
    if style == "oauth":
        return _oauth(error)
    if style == "page":
        return _page(error, request_id)
    if style == "site":
        return _own_page(error, request_id)
    body = ErrorBody(
        code=error.code,
        message=error.text,
        request_id=request_id,
        details=error.details,
        failed_index=error.failed_index,
        **error.extra,
    )
    return Reply(json.encode(body), error.status, header_pairs(error.headers))


def header_pairs(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers in ASGI's form; raises `ValueError` for a value with control characters (RFC 9110, 5.5)."""
    if any(not value.isprintable() for value in headers.values()):
        raise ValueError("A header's value contains control characters.")
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]


def _oauth(error: PilotisError) -> Reply:
    """Return the error in the form of RFC 6749, section 5.2; errors of OAuth have their code in `oauth_code`."""
    default = "server_error" if error.status == 500 else "temporarily_unavailable" if error.status > 500 else None
    code: str = getattr(error, "oauth_code", None) or default or _OAUTH_CODES.get(error.status, "invalid_request")
    description = "".join(
        character if " " <= character <= "~" and character not in '"\\' else "'" for character in error.text
    )
    headers = [*header_pairs(error.headers), (b"cache-control", b"no-store")]
    return Reply(json.encode(OAuthErrorBody(code, description)), error.status, headers)


def _page(error: PilotisError, request_id: str) -> Reply:
    title = HTTPStatus(error.status).phrase
    html = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n<p>{escape(error.text)}</p>\n"
        f"<p><small><code>{escape(error.code)}</code> · request <code>{escape(request_id)}</code></small></p>\n"
        "</body>\n</html>\n"
    )
    return Page(html=html, status=error.status, styles=[_STYLE], headers=header_pairs(error.headers)).reply()


def _own_page(error: PilotisError, request_id: str) -> Reply:
    """Return the error as one of the server's own pages, which lead on from it."""
    title = HTTPStatus(error.status).phrase
    body = (
        f'<main id="main" class="home"><p class="eyebrow">{error.status}</p><h1>{escape(title)}</h1>'
        f'<p class="lead">{escape(error.text)}</p><ul class="cards">'
        '<li><a href="/console"><b>Console</b><span>Apps, tables, members, files and sites</span></a></li>'
        '<li><a href="/docs"><b>API reference</b><span>Every operation, with examples to copy</span></a></li>'
        '<li><a href="/docs/guides"><b>Guides</b><span>From a first table to hosting</span></a></li></ul>'
        f'<p class="soft foot"><code>{escape(error.code)}</code> · '
        f"request <code>{escape(request_id)}</code></p></main>\n"
    )
    answer = page(f"{title} · Pilotis", body, status=error.status)
    return msgspec.structs.replace(answer, headers=[*answer.headers, *header_pairs(error.headers)])
