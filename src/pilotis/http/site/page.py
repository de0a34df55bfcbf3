"""One frame for every page: everything inline, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib import resources

from pilotis.http.endpoint import Reply

_FOLDER = resources.files("pilotis.http.site")


def asset(name: str) -> str:
    """Return one of this folder's text files."""
    return (_FOLDER / name).read_text("utf-8")


def page(title: str, body: str, *, script: str = "") -> Reply:
    """Return a page; `title` is text, `body` HTML, `script` JavaScript to run once the body is there."""
    style = asset("style.css")
    html = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<style>{style}</style>\n</head>\n<body>\n{body}\n"
        + (f"<script>{script}</script>\n" if script else "")
        + "</body>\n</html>\n"
    )
    return Reply(html.encode(), headers=_headers(style, script), content_type=b"text/html; charset=utf-8")


def _headers(style: str, script: str) -> list[tuple[bytes, bytes]]:
    """Allow this style, this script and requests to this server, each by its hash (CSP 3, section 6.7.3.3)."""
    policy = [
        "default-src 'none'",
        f"style-src {_source(style)}",
        f"script-src {_source(script) if script else repr('none')}",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    return [
        (b"content-security-policy", "; ".join(policy).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-cache"),
    ]


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
