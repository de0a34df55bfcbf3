"""The types of passkeys: as they are stored, whoever's they are, and as their owners and browsers see them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from pilotis.accounts.types import Token
from pilotis.http.api.json_schemas import JsonObject
from pilotis.kit import json
from pilotis.kit.clock import optional_rfc3339, rfc3339

PasskeyName = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class PasskeyChallenge(msgspec.Struct, frozen=True, kw_only=True):
    """What a page gives to `navigator.credentials`: `options` in JSON's form, and the ticket of the answer."""

    ticket: str
    options: JsonObject


class PasskeySignIn(msgspec.Struct, forbid_unknown_fields=True):
    """The answer of `navigator.credentials.get`, as its `toJSON()` has it, with the ticket."""

    ticket: Token
    credential: dict[str, Any]


class NewPasskey(msgspec.Struct, forbid_unknown_fields=True):
    """The answer of `navigator.credentials.create`, as its `toJSON()` has it, with the ticket and a name."""

    ticket: Token
    credential: dict[str, Any]
    name: PasskeyName = "Passkey"


class PasskeyChange(msgspec.Struct, forbid_unknown_fields=True):
    """Another name of a passkey."""

    name: PasskeyName


class Passkey(msgspec.Struct, frozen=True, kw_only=True):
    """A passkey; one that `is_synced` is on several devices of its member."""

    id: UUID
    name: str
    is_synced: bool
    created_at: str
    last_used_at: str | None


class KeptPasskey(msgspec.Struct, frozen=True, kw_only=True):
    """A passkey as it is stored: what verifies it, and what its owner sees of it."""

    passkey_id: UUID
    credential_id: bytes
    credential: bytes
    name: str
    sign_count: int
    is_synced: bool
    created_at: datetime
    last_used_at: datetime | None


class DeletedPasskey(msgspec.Struct, frozen=True):
    """The passkey that was removed."""

    message: str
    id: UUID


class SecondFactorTicket(msgspec.Struct, forbid_unknown_fields=True):
    """The ticket of a sign-in that needs a second factor, and the one to begin with: a passkey, or a code by mail."""

    ticket: Token
    method: Literal["passkey", "email_code"] = "passkey"


class SecondFactorStart(msgspec.Struct, frozen=True, kw_only=True):
    """The ticket that the second factor is sent with; `options` are for a passkey, null for a mailed code."""

    ticket: str
    options: JsonObject | None


def shown(row: KeptPasskey) -> Passkey:
    """Return a stored passkey as its owner sees it."""
    return Passkey(
        id=row.passkey_id,
        name=row.name,
        is_synced=row.is_synced,
        created_at=rfc3339(row.created_at),
        last_used_at=optional_rfc3339(row.last_used_at),
    )


def asked(ticket: str, options: dict[str, Any]) -> PasskeyChallenge:
    """Return what a page gives to `navigator.credentials`."""
    return PasskeyChallenge(ticket=ticket, options=msgspec.Raw(json.encode(options)))
