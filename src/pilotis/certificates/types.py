"""The types of certificates that are got by ACME."""

from __future__ import annotations

import msgspec


class OrderJob(msgspec.Struct, frozen=True):
    """The job that gets the certificate of a name."""

    name: str
