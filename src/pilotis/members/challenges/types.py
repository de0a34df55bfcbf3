"""The types of challenges."""

from __future__ import annotations

import msgspec


class Puzzle(msgspec.Struct, frozen=True, kw_only=True):
    """A puzzle: find a `nonce` so that the SHA-256 of `challenge.nonce` begins with `difficulty` zero bits."""

    challenge: str
    difficulty: int
    expires_in: int
