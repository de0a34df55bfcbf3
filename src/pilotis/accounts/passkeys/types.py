"""The types of passkeys."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from pilotis.accounts.types import Token
from pilotis.http.api.json_schemas import JsonObject

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
