"""Passkeys as members see them. Pure."""

from __future__ import annotations

from pilotis.accounts.passkeys.store import StoredPasskey
from pilotis.accounts.passkeys.types import Passkey
from pilotis.kit.clock import optional_rfc3339, rfc3339


def shown(row: StoredPasskey) -> Passkey:
    """Return a stored passkey as its member sees it."""
    return Passkey(
        id=row.passkey_id,
        name=row.name,
        is_synced=row.is_synced,
        created_at=rfc3339(row.created_at),
        last_used_at=optional_rfc3339(row.last_used_at),
    )
