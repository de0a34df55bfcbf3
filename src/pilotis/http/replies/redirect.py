"""Redirects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pilotis.http.api.cookies import SetCookie
from pilotis.http.replies.reply import Answer, Reply


class Redirect(Answer, frozen=True, kw_only=True):
    """Redirects the client to another URL with a GET request: 303 (RFC 9110, section 15.4.4).

    307 and 308 would send a form's fields again, including passwords.
    """

    media_type: ClassVar[str] = ""
    default_status: ClassVar[int] = 303

    location: str
    cookies: Sequence[SetCookie] = ()

    def reply(self) -> Reply:
        """See `Answer.reply`; raises `ValueError` for a URL that is not printable ASCII without spaces."""
        if not self.location.isascii() or not self.location.isprintable() or " " in self.location:
            raise ValueError("The URL of a redirect must be percent-encoded.")
        headers = [(b"location", self.location.encode()), (b"cache-control", b"no-store")]
        return Reply(b"", 303, headers, b"text/plain; charset=utf-8", cookies=self.cookies)
