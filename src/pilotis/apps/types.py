"""The shapes of apps and keys."""

from __future__ import annotations

from uuid import UUID

import msgspec


class App(msgspec.Struct, frozen=True):
    """An app as console routes show it. `deleted_at` is set during the 7 days in which a deletion can be taken back."""

    app_id: UUID
    name: str
    schema_locked: bool
    created_at: str
    updated_at: str
    deleted_at: str | None
    role: str | None


class NewApp(msgspec.Struct, frozen=True):
    """A created app with its first keys. The secret key is shown this once."""

    app_id: UUID
    name: str
    public_key: str
    secret_key: str


class AuthSettings(msgspec.Struct, frozen=True):
    """How members may sign in."""

    allow_id_password_login: bool
    allow_guest_login: bool
    enabled_oauth_providers: list[str]
