"""The frame of every page: everything inline, with a content security policy that permits nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources

from pilotis.http.api.cookies import SetCookie
from pilotis.http.reference.theme import NO_THEME, style_of
from pilotis.http.replies.page import page_headers
from pilotis.http.replies.reply import Reply
from pilotis.kit.account_settings import Mode, Theme

# A slab on three columns.
_MARK = (
    '<svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">'
    '<path d="M1.5 3.5h13M3.5 4v9M8 4v9M12.5 4v9"/></svg>'
)
_FOLDER = resources.files("pilotis.http.reference")
# The typeface of the console.
_FONTS = resources.files("pilotis") / "console" / "static" / "fonts"


def asset(name: str) -> str:
    """Return one of this folder's text files."""
    return (_FOLDER / name).read_text("utf-8")


def font(name: str) -> bytes | None:
    """Return a font file that the pages use, or None."""
    file = _FONTS / name
    return file.read_bytes() if name in {"plex-sans.woff2", "plex-mono.woff2"} else None


# What stands for the condition of the style sheet under which a page is dark.
_IS_DARK = {"auto": "(prefers-color-scheme: dark)", "light": "not all", "dark": "all"}
_SCHEMES = {"auto": "light dark", "light": "light", "dark": "dark"}
_PAGES = (("/console", "Console"), ("/docs", "Reference"), ("/docs/guides", "Guides"), ("/openapi.json", "OpenAPI"))


def page(
    title: str,
    body: str,
    *,
    script: str = "",
    current: str = "",
    status: int | None = None,
    has_bar: bool = True,
    language: str = "en",
    more_style: str = "",
    theme: Theme = NO_THEME,
    mode: Mode | None = None,
    images: Sequence[str] = (),
    ancestors: str = "'none'",
    form_action: Sequence[str] = (),
    others: Mapping[str, Sequence[str]] = {},
    headers: Sequence[tuple[bytes, bytes]] = ((b"cache-control", b"no-cache"),),
    cookies: Sequence[SetCookie] = (),
) -> Reply:
    """Return a page; `title` is text, `body` HTML, `script` JavaScript to run after the body has loaded.

    `language` is that of its texts. `current` is the page's address in the top bar, which pages for an app's members do
    not have. `theme` is the app's, before which `more_style` is added to the style sheet. `mode` is whether the page is
    light or dark, if not as the theme says; `auto` leaves that to the browser. `images` are the sources of its images
    besides `data:` and the theme's logo, `ancestors` who may show it in a frame, and `form_action` where its forms may
    be sent. `others` are sources of other servers, by the directive of the content security policy.
    """
    mode = mode or theme.mode
    bar = _bar(current) if has_bar else ""
    style = (asset("style.css") + more_style + style_of(theme)).replace(_IS_DARK["auto"], _IS_DARK[mode])
    html = (
        f'<!doctype html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="{_SCHEMES[mode]}">\n<link rel="icon" href="data:,">\n'
        f"<style>{style}</style>\n</head>\n<body>\n{bar}{body}\n"
        + (f"<script>{script}</script>\n" if script else "")
        + "</body>\n</html>\n"
    )
    rules = page_headers(
        [style],
        [script] if script else [],
        images=["'self'"] if theme.logo else images,
        fonts=["'self'"],
        form_action=form_action,
        ancestors=ancestors,
        others=others,
    )
    return Reply(html.encode(), status, [*rules, *headers], content_type=b"text/html; charset=utf-8", cookies=cookies)


def _bar(current: str) -> str:
    links = "".join(
        f'<a href="{address}"{" aria-current=page" if address == current else ""}>{name}</a>'
        for address, name in _PAGES
    )
    return (
        '<a class="skip" href="#main">Skip to the content</a>\n<header class="top">'
        f'<a class="brand" href="/">{_MARK}Pilotis</a><nav aria-label="Pages">{links}</nav></header>\n'
    )
