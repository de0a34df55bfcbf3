"""The types of apps, their settings and their keys."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import msgspec

from pilotis.kit.account_settings import (
    ChallengedAction,
    ChallengeProvider,
    Font,
    HexColour,
    Impersonation,
    LoginIdForm,
    Mode,
    OnMemberDelete,
    OwnText,
    PageText,
    Radius,
    Requirement,
    SecondFactorName,
    SignUpMethod,
    SignUpPolicy,
    SiteKey,
)
from pilotis.kit.languages import Language
from pilotis.limits import PER_APP, Limits

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
BranchName = Annotated[
    str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._/-]*\Z", min_length=1, max_length=60, examples=["pr-17"])
]
Provider = Annotated[str, msgspec.Meta(max_length=50, examples=["GOOGLE"])]
Origins = Annotated[list[Annotated[str, msgspec.Meta(max_length=300)]], msgspec.Meta(max_length=100)]


class NewAppName(msgspec.Struct, forbid_unknown_fields=True):
    """An app to create."""

    name: Name


class App(msgspec.Struct, frozen=True, kw_only=True):
    """An app as console routes show it. `deleted_at` is set during the 7 days in which a deleted app can be restored.

    `role` is the caller's: `owner`, `editor` or `viewer`. A branch has a `parent_app_id`, the name of the `branch`, and
    the time when it is deleted, `expires_at`.
    """

    app_id: UUID
    name: str
    schema_locked: bool
    created_at: str
    updated_at: str
    deleted_at: str | None
    role: str
    parent_app_id: UUID | None = None
    branch: str | None = None
    expires_at: str | None = None


class CreatedApp(msgspec.Struct, frozen=True, kw_only=True):
    """A created app with its first keys. The secret key is shown only once."""

    app_id: UUID
    name: str
    public_key: str
    secret_key: str


class BranchOf(msgspec.Struct, frozen=True, kw_only=True):
    """The id that a branch gets, the app of which it is one, the branch's name there, and when it is deleted."""

    app_id: UUID
    parent_id: UUID
    name: str
    expires_at: datetime


class CopiedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a copy of an app begins with; `limits` and `account_settings` are JSON objects."""

    name: str
    schema_locked: bool
    allow_id_password_login: bool
    allow_guest_login: bool
    limits: str
    account_settings: str


class AppChange(msgspec.Struct, forbid_unknown_fields=True):
    """Changes to an app; absent fields keep their values. Only an owner may set `schema_locked`."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    schema_locked: bool | msgspec.UnsetType = msgspec.UNSET


class AuthSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How members may sign in. `enabled_oauth_providers` are those that are enabled at `oauth/social`."""

    allow_id_password_login: bool
    allow_guest_login: bool
    enabled_oauth_providers: Annotated[list[Provider], msgspec.Meta(max_length=50)]


class SignInMethods(msgspec.Struct, frozen=True, kw_only=True):
    """The ways in which members may sign in besides social login.

    `password` is the `allow_id_password_login` of `auth-settings`.
    """

    password: bool
    email_code: bool
    email_link: bool
    passkey: bool


class SignInMethodsChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The methods to switch on or off; absent ones stay as they are."""

    password: bool | msgspec.UnsetType = msgspec.UNSET
    email_code: bool | msgspec.UnsetType = msgspec.UNSET
    email_link: bool | msgspec.UnsetType = msgspec.UNSET
    passkey: bool | msgspec.UnsetType = msgspec.UNSET


class AccountTheme(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the app's account pages look; null is as the server's own pages are.

    `accent` is the colour of buttons and links, `background` that of the page behind the form, `radius` the roundness
    of corners in pixels. `mode` says whether the pages are light or dark, which `auto` leaves to the browser. `accent`
    can be read on a light page, or with `mode: dark` on a dark one; `auto` lightens it on the dark one. `texts` are
    what the app says in place of the server's words, by language; `{app}` is the app's name.
    """

    accent: HexColour | None = None
    background: HexColour | None = None
    radius: Radius | None = None
    font: Font | None = None
    mode: Mode = "auto"
    texts: dict[Language, dict[PageText, OwnText]] = {}


class SignUpRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row that is made with each member, in a table by its title or id; with `guests`, with each guest as well.

    A value is `{"$member": "id"}`, `login_id`, `email` or `nickname`; `{"$input": "username", "label": "User name"}`,
    what the sign-up says in its `profile`; `{"$ref": 0}`, the id of a row before; or a plain one.
    """

    table: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    data: dict[str, Any] = {}
    guests: bool = False


class SignUpField(msgspec.Struct, frozen=True, kw_only=True):
    """What a sign-up may say in its `profile`, with the type of the column that gets it."""

    name: str
    label: str
    type: str
    is_required: bool


class AccountSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How members make accounts and prove who they are.

    `sign_up: closed` stops every way by which a member makes itself, and `sign_up_methods` names those that `open`
    leaves. With `login_id_form: email` a login_id is an
    e-mail address. With `email_verification: required` a session is provisional until an address is verified, and with
    `second_factor: required` until a second factor is set up, one of `second_factors`. Passkeys belong to
    `passkey_domain`, and pages of `allowed_origins` may ask for them; without one, to the server's own domain and
    pages. `logo_url` is where the logo of the account pages is. `challenge_on` names what takes a solved challenge.
    Mails and pages are in the `default_language` where neither the member nor the browser asks for another. With
    `password_check` members choose no password that is guessed first. `on_member_delete` says whether what a
    member has created is deleted with it, loses its creator (`anonymise`), or whether it chooses (`ask`). For
    `deletion_grace_days` a member that deletes its account may come back.
    """

    sign_up: SignUpPolicy
    sign_up_methods: list[SignUpMethod]
    login_id_form: LoginIdForm
    email_verification: Requirement
    second_factor: Requirement
    second_factors: list[SecondFactorName]
    methods: SignInMethods
    passkey_domain: str | None
    allowed_origins: list[str]
    theme: AccountTheme
    logo_url: str | None
    challenge_on: list[ChallengedAction]
    default_language: Language
    password_check: bool
    on_member_delete: OnMemberDelete
    deletion_grace_days: int
    sign_up_fields: list[SignUpField]


class AccountHooks(msgspec.Struct, frozen=True, kw_only=True):
    """The functions, by their ids, that decide on sign-ups and sign-ins, send mails, and verify challenges."""

    before_sign_up: UUID | None
    before_sign_in: UUID | None
    send_mail: UUID | None
    verify_challenge: UUID | None


class PublicChallenge(msgspec.Struct, frozen=True, kw_only=True):
    """What sets the challenges of an app: Pilotis (`proof_of_work`), or a vendor whose widget takes the `site_key`."""

    provider: ChallengeProvider
    site_key: str | None


class AppChallenge(PublicChallenge, frozen=True, kw_only=True):
    """What sets the challenges of an app, and whether actions pass while the vendor cannot be reached."""

    has_secret: bool
    open_when_unreachable: bool


class ChallengeChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The changes; absent fields stay, but another `provider` needs its own `site_key` and `secret`."""

    provider: ChallengeProvider | msgspec.UnsetType = msgspec.UNSET
    site_key: SiteKey | msgspec.UnsetType = msgspec.UNSET
    secret: Annotated[str, msgspec.Meta(pattern="^[!-~]{1,500}$")] | msgspec.UnsetType = msgspec.UNSET
    open_when_unreachable: bool | msgspec.UnsetType = msgspec.UNSET


class AccountUrls(msgspec.Struct, frozen=True, kw_only=True):
    """The app's own pages to which the links of mails lead; null for the server's page."""

    verify: str | None
    reset: str | None
    sign_in: str | None
    invite: str | None


PageUrl = Annotated[str, msgspec.Meta(min_length=1, max_length=2000, examples=["https://club.example/verify"])]


class AccountUrlsChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pages to set, each with the origin of one of the app's `login_redirect_uris`; null removes one."""

    verify: PageUrl | msgspec.UnsetType | None = msgspec.UNSET
    reset: PageUrl | msgspec.UnsetType | None = msgspec.UNSET
    sign_in: PageUrl | msgspec.UnsetType | None = msgspec.UNSET
    invite: PageUrl | msgspec.UnsetType | None = msgspec.UNSET


class AppAccountSettings(AccountSettings, frozen=True, kw_only=True):
    """How an app's members make accounts and prove who they are, and the functions bound to that.

    `impersonation` is the role on the app from which on its team may act as members. With `team_second_factor` console
    users reach the app only once they have set up a second factor. `on_sign_up` are the rows that are
    made with each member, from which `sign_up_fields` follow.
    """

    challenge: AppChallenge
    impersonation: Impersonation
    team_second_factor: bool
    urls: AccountUrls
    hooks: AccountHooks
    on_sign_up: list[SignUpRow]


class AccountHooksChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The functions to bind; null removes one, absent ones stay."""

    before_sign_up: UUID | msgspec.UnsetType | None = msgspec.UNSET
    before_sign_in: UUID | msgspec.UnsetType | None = msgspec.UNSET
    send_mail: UUID | msgspec.UnsetType | None = msgspec.UNSET
    verify_challenge: UUID | msgspec.UnsetType | None = msgspec.UNSET


class PublicAccountSettings(AccountSettings, frozen=True, kw_only=True):
    """What a page that signs members in must know: also whether there are guests, and the vendors of social login.

    `pages_url` is where the account pages are: `/sign-in`, `/account` and others follow.
    """

    challenge: PublicChallenge
    pages_url: str
    guests: bool
    providers: list[str]
    password_min_length: int
    password_max_length: int


class AccountSettingsChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The account settings to change; absent ones stay as they are."""

    sign_up: SignUpPolicy | msgspec.UnsetType = msgspec.UNSET
    sign_up_methods: Annotated[list[SignUpMethod], msgspec.Meta(min_length=1, max_length=4)] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    login_id_form: LoginIdForm | msgspec.UnsetType = msgspec.UNSET
    email_verification: Requirement | msgspec.UnsetType = msgspec.UNSET
    second_factor: Requirement | msgspec.UnsetType = msgspec.UNSET
    second_factors: Annotated[list[SecondFactorName], msgspec.Meta(min_length=1, max_length=4)] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    methods: SignInMethodsChange = SignInMethodsChange()
    passkey_domain: Annotated[str, msgspec.Meta(max_length=253)] | msgspec.UnsetType | None = msgspec.UNSET
    allowed_origins: Origins | msgspec.UnsetType = msgspec.UNSET
    urls: AccountUrlsChange = AccountUrlsChange()
    hooks: AccountHooksChange = AccountHooksChange()
    impersonation: Impersonation | msgspec.UnsetType = msgspec.UNSET
    team_second_factor: bool | msgspec.UnsetType = msgspec.UNSET
    theme: AccountTheme | msgspec.UnsetType = msgspec.UNSET
    challenge_on: Annotated[list[ChallengedAction], msgspec.Meta(max_length=5)] | msgspec.UnsetType = msgspec.UNSET
    challenge: ChallengeChange = ChallengeChange()
    default_language: Language | msgspec.UnsetType = msgspec.UNSET
    password_check: bool | msgspec.UnsetType = msgspec.UNSET
    on_member_delete: OnMemberDelete | msgspec.UnsetType = msgspec.UNSET
    deletion_grace_days: Annotated[int, msgspec.Meta(ge=0, le=90)] | msgspec.UnsetType = msgspec.UNSET
    on_sign_up: Annotated[list[SignUpRow], msgspec.Meta(max_length=5)] | msgspec.UnsetType = msgspec.UNSET


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that applies to an app: its value, the server's, whether the app set its own, and whether it may.

    `plan_value` is that of the app's plan, or of the plan of its parent; null if there is none.
    `unit` is null for a limit on a count. `zero_is_unlimited` says that 0 lifts it; for the others 0 is the least.
    """

    value: int
    server_value: int
    plan_value: int | None
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
    """A secret key to create. One with the role viewer reads whatever its user may, and changes nothing.

    With `may_sign_in_members`, which takes an owner, the app's own server signs members in by it.
    """

    name: Name
    role: KeyRole = "editor"
    may_sign_in_members: bool = False


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
    may_sign_in_members: bool
    created_at: str
    last_used_at: str | None


class ShownSecretKey(msgspec.Struct, frozen=True, kw_only=True):
    """A new secret key, shown only once."""

    key_id: UUID
    key: str
    prefix: str
    name: str
    role: KeyRole
    may_sign_in_members: bool
    created_at: str
