"""Pages: HTML with a content security policy that permits only what the page declares."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pilotis.http.api.cookies import SetCookie
from pilotis.http.replies.reply import Answer, Reply


class Page(Answer, frozen=True, kw_only=True):
    """A complete HTML document.

    `styles` and `scripts` are its inline texts; the page may use only these, and requests to this server. `images` are
    the sources of its images besides `data:`. `form_action` lists the sources that its forms may be sent to, redirects
    after that included (CSP 3, section 6.4.1), such as `'self'`.
    """

    media_type: ClassVar[str] = "text/html"

    html: str
    status: int | None = None
    styles: Sequence[str] = ()
    scripts: Sequence[str] = ()
    images: Sequence[str] = ()
    form_action: Sequence[str] = ()
    headers: Sequence[tuple[bytes, bytes]] = ()
    cookies: Sequence[SetCookie] = ()

    def reply(self) -> Reply:
        """See `Answer.reply`."""
        return Reply(
            self.html.encode(),
            self.status,
            [
                *page_headers(self.styles, self.scripts, images=self.images, form_action=self.form_action),
                (b"cache-control", b"no-store"),
                *self.headers,
            ],
            b"text/html; charset=utf-8",
            cookies=self.cookies,
        )


def page_headers(
    styles: Sequence[str],
    scripts: Sequence[str],
    *,
    images: Sequence[str] = (),
    fonts: Sequence[str] = (),
    form_action: Sequence[str] = (),
    ancestors: str = "'none'",
    others: Mapping[str, Sequence[str]] = {},
) -> list[tuple[bytes, bytes]]:
    """Return the headers that restrict a page to these inline texts, each by its hash (CSP 3, section 6.7.3.3).

    `ancestors` is whose pages may show it in a frame. `others` are sources of other servers, by the directive.
    """
    policy = [
        "default-src 'none'",
        f"style-src {' '.join((_sources(styles), *others.get('style-src', ())))}",
        f"script-src {' '.join((_sources(scripts), *others.get('script-src', ())))}",
        f"img-src {' '.join(('data:', *images))}",
        f"font-src {' '.join(fonts) or _NONE}",
        f"connect-src {' '.join((_SELF, *others.get('connect-src', ())))}",
        *([f"frame-src {' '.join(others['frame-src'])}"] if "frame-src" in others else []),
        "base-uri 'none'",
        f"form-action {' '.join(form_action) or _NONE}",
        f"frame-ancestors {ancestors}",
    ]
    return [
        (b"content-security-policy", "; ".join(policy).encode("ascii")),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
    ]


_NONE, _SELF = "'none'", "'self'"


def _sources(texts: Sequence[str]) -> str:
    return " ".join(map(_source, texts)) or _NONE


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
