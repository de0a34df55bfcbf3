"""The types of exports of a member's data."""

from __future__ import annotations

from typing import Annotated

import msgspec


class ExportRequest(msgspec.Struct, forbid_unknown_fields=True):
    """How the member gets its export: by a token in the answer, or by a link in a mail to its verified address."""

    by_mail: bool = False


class ExportTicket(msgspec.Struct, frozen=True):
    """What the export is downloaded with, once and until `expires_at`; null if a link is mailed."""

    token: str | None
    expires_at: str


class ExportDownload(msgspec.Struct, forbid_unknown_fields=True):
    """The token of an export."""

    token: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
