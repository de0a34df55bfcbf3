"""The types of apps, their settings and their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import msgspec

from pilotis.limits import PER_APP, Limits

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Provider = Annotated[str, msgspec.Meta(max_length=50, examples=["GOOGLE"])]
Origins = Annotated[list[Annotated[str, msgspec.Meta(max_length=300)]], msgspec.Meta(max_length=100)]


class NewAppName(msgspec.Struct, forbid_unknown_fields=True):
    """An app to create."""

    name: Name


class App(msgspec.Struct, frozen=True, kw_only=True):
    """An app as console routes show it. `deleted_at` is set during the 7 days in which a deleted app can be restored.

    `role` is the caller's: `owner`, `editor` or `viewer`.
    """

    app_id: UUID
    name: str
    schema_locked: bool
    created_at: str
    updated_at: str
    deleted_at: str | None
    role: str


class CreatedApp(msgspec.Struct, frozen=True, kw_only=True):
    """A created app with its first keys. The secret key is shown only once."""

    app_id: UUID
    name: str
    public_key: str
    secret_key: str


class AppChange(msgspec.Struct, forbid_unknown_fields=True):
    """Changes to an app; absent fields keep their values. Only an owner may set `schema_locked`."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    schema_locked: bool | msgspec.UnsetType = msgspec.UNSET


class AuthSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How members may sign in. `enabled_oauth_providers` are those that are enabled at `oauth/social`."""

    allow_id_password_login: bool
    allow_guest_login: bool
    enabled_oauth_providers: Annotated[list[Provider], msgspec.Meta(max_length=50)]


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that applies to an app: its value, the server's, whether the app set its own, and whether it may.

    `unit` is null for a limit on a count. `zero_is_unlimited` says that 0 lifts it; for the others 0 is the least.
    """

    value: int
    server_value: int
    is_own: bool
    is_settable: bool
    unit: str | None
    zero_is_unlimited: bool


class AppLimits(msgspec.Struct, frozen=True):
    """The limits that apply to an app, by name."""

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
        namespace={"__doc__": "Limits to set for an app; null removes the app's own, so that the server's applies."},
    )


class NewPublicKey(msgspec.Struct, forbid_unknown_fields=True):
    """A public key to create. With `allowed_origins`, browsers may use it only from pages of these origins."""

    name: Name
    allowed_origins: Origins = []


class PublicKeyChange(msgspec.Struct, forbid_unknown_fields=True):
    """Changes to a public key; absent fields keep their values. An empty list of origins allows any origin."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    allowed_origins: Origins | msgspec.UnsetType = msgspec.UNSET


class PublicKey(msgspec.Struct, frozen=True, kw_only=True):
    """A public key. `last_used_at` is accurate to about a minute."""

    key_id: UUID
    key: str
    name: str
    allowed_origins: list[str]
    created_at: str
    last_used_at: str | None


KeyRole = Literal["viewer", "editor"]


class NewSecretKey(msgspec.Struct, forbid_unknown_fields=True):
    """A secret key to create. One with the role viewer reads whatever its user may, and changes nothing."""

    name: Name
    role: KeyRole = "editor"


class SecretKey(msgspec.Struct, frozen=True, kw_only=True):
    """A secret key as lists show it: its first characters and its user.

    It acts with its `role`, or with the one that its user has on the app if that is lower. `user_id` and `email` are
    null for a key created on the server's command line.
    """

    key_id: UUID
    prefix: str
    name: str
    role: KeyRole
    user_id: UUID | None
    email: str | None
    created_at: str
    last_used_at: str | None


class ShownSecretKey(msgspec.Struct, frozen=True, kw_only=True):
    """A new secret key, shown only once."""

    key_id: UUID
    key: str
    prefix: str
    name: str
    role: KeyRole
    created_at: str
