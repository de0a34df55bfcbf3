"""The shapes of apps, their settings and their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import msgspec

from pilotis.limits import PER_APP, Limits

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Provider = Annotated[str, msgspec.Meta(max_length=50, examples=["GOOGLE"])]
Origins = Annotated[list[Annotated[str, msgspec.Meta(max_length=300)]], msgspec.Meta(max_length=100)]


class NewAppName(msgspec.Struct, forbid_unknown_fields=True):
    """An app to make."""

    name: Name


class App(msgspec.Struct, frozen=True):
    """An app as console routes show it. `deleted_at` is set during the 7 days in which a deletion can be taken back.

    `role` is the caller's: `owner`, `editor` or `viewer`.
    """

    app_id: UUID
    name: str
    schema_locked: bool
    created_at: str
    updated_at: str
    deleted_at: str | None
    role: str


class NewApp(msgspec.Struct, frozen=True):
    """A created app with its first keys. The secret key is shown this once."""

    app_id: UUID
    name: str
    public_key: str
    secret_key: str


class AppChange(msgspec.Struct, forbid_unknown_fields=True):
    """What to change of an app; what is not given stays. Only an owner may give `schema_locked`."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    schema_locked: bool | msgspec.UnsetType = msgspec.UNSET


class AuthSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How members may sign in. `enabled_oauth_providers` are identifiers of A to Z, 0 to 9 and _."""

    allow_id_password_login: bool
    allow_guest_login: bool
    enabled_oauth_providers: Annotated[list[Provider], msgspec.Meta(max_length=50)]


class Limit(msgspec.Struct, frozen=True):
    """A limit in force for an app: its value, the server's, whether the app set its own, and whether it may."""

    value: int
    server_value: int
    is_own: bool
    is_settable: bool


class AppLimits(msgspec.Struct, frozen=True):
    """The limits in force for an app, by name."""

    limits: dict[str, Limit]


def _limit_fields() -> list[tuple[str, Any, Any]]:
    types = {field.name: field.type for field in msgspec.structs.fields(Limits)}
    return [(name, types[name] | None | msgspec.UnsetType, msgspec.UNSET) for name in sorted(PER_APP)]


if TYPE_CHECKING:

    class LimitChange(msgspec.Struct):
        """Limits to set for an app."""

else:
    LimitChange = msgspec.defstruct(
        "LimitChange",
        _limit_fields(),
        forbid_unknown_fields=True,
        module=__name__,
        namespace={"__doc__": "Limits to set for an app; null takes the app's own away, so that the server's holds."},
    )


class NewPublicKey(msgspec.Struct, forbid_unknown_fields=True):
    """A public key to make. With `allowed_origins`, browsers may use it from pages of these origins only."""

    name: Name
    allowed_origins: Origins = []


class PublicKeyChange(msgspec.Struct, forbid_unknown_fields=True):
    """What to change of a public key; what is not given stays. An empty list of origins allows any."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    allowed_origins: Origins | msgspec.UnsetType = msgspec.UNSET


class PublicKey(msgspec.Struct, frozen=True):
    """A public key. `last_used_at` is exact to about a minute."""

    key_id: UUID
    key: str
    name: str
    allowed_origins: list[str]
    created_at: str
    last_used_at: str | None


class NewSecretKey(msgspec.Struct, forbid_unknown_fields=True):
    """A secret key to make."""

    name: Name


class SecretKey(msgspec.Struct, frozen=True):
    """A secret key as lists show it: how it begins, and whose it is.

    It acts with the role that its user has on the app, as an editor at most. `user_id` and `email` are null for a key
    made on the server's command line, which acts as an editor.
    """

    key_id: UUID
    prefix: str
    name: str
    user_id: UUID | None
    email: str | None
    created_at: str
    last_used_at: str | None


class ShownSecretKey(msgspec.Struct, frozen=True):
    """A new secret key, shown this once."""

    key_id: UUID
    key: str
    prefix: str
    name: str
    created_at: str
