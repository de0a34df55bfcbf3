"""The types of exports of a member's data."""

from __future__ import annotations

from typing import Annotated

import msgspec


class ExportTicket(msgspec.Struct, frozen=True):
    """What the export is downloaded with, once and until `expires_at`."""

    token: str
    expires_at: str


class ExportDownload(msgspec.Struct, forbid_unknown_fields=True):
    """The token of an export."""

    token: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
