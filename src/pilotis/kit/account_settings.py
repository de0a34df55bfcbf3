"""How the members of an app make accounts and prove who they are. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from pilotis.kit.languages import Language

SignUpPolicy = Literal["open", "invited", "closed"]
SignUpMethod = Literal["password", "email", "social", "guest"]
SIGN_UP_METHODS: tuple[SignUpMethod, ...] = get_args(SignUpMethod)
LoginIdForm = Literal["any", "email"]
Requirement = Literal["off", "optional", "required"]


Impersonation = Literal["off", "owner", "editor"]
ChallengedAction = Literal["signup", "signin", "guest", "mail", "reset"]
Font = Literal["system", "serif", "mono"]
Mode = Literal["auto", "light", "dark"]
HexColour = Annotated[str, msgspec.Meta(pattern="^#[0-9a-f]{6}$", examples=["#1c6a5b"])]
Radius = Annotated[int, msgspec.Meta(ge=0, le=16)]
PageText = Literal["sign_in_title", "sign_in_text", "sign_up_title", "sign_up_text", "footer"]
OwnText = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Remains = Literal["keep", "delete", "anonymise"]
"""What becomes of what a deleted member has created; `anonymise` takes its creator away."""
OnMemberDelete = Literal["keep", "delete", "anonymise", "ask"]
SecondFactorName = Literal["passkey", "totp", "recovery_code", "email_code"]
HookName = Literal["before_sign_up", "before_sign_in", "send_mail", "verify_challenge"]
ChallengeProvider = Literal["proof_of_work", "turnstile", "hcaptcha", "recaptcha"]
SiteKey = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{1,200}$", examples=["0x4AAAAAAAB"])]


class Hooks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The functions that an app has bound to what happens to accounts, by their ids."""

    before_sign_up: UUID | None = None
    before_sign_in: UUID | None = None
    send_mail: UUID | None = None
    verify_challenge: UUID | None = None


class Challenge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What tells people from robots; the secret that a vendor gives an app is stored apart."""

    provider: ChallengeProvider = "proof_of_work"
    site_key: SiteKey | None = None
    """What names the app to the vendor, in the browser."""
    open_when_unreachable: bool = False
    """Whether an action passes while the vendor does not answer."""


class Theme(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the app's account pages look; what is not set is as the server's own pages are."""

    accent: HexColour | None = None
    background: HexColour | None = None
    radius: Radius | None = None
    font: Font | None = None
    mode: Mode = "auto"
    texts: dict[str, dict[str, OwnText]] = {}
    """What the app says in place of the server's texts, by the language and the `PageText`."""
    logo: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")] | None = None
    """The version of the app's logo, which is stored apart."""


class PageUrls(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The app's own pages to which the links of mails lead; where there is none, they lead to the server's."""

    verify: str | None = None
    reset: str | None = None
    sign_in: str | None = None
    invite: str | None = None


class SignUpRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row that is made with a member: what its columns get, and whether guests have it, too."""

    table_id: UUID
    table: str
    """The table's title, which stays while it is named here."""
    data: dict[str, Any] = {}
    guests: bool = False


class SignUpField(msgspec.Struct, frozen=True, kw_only=True):
    """What a sign-up may say in its `profile`: the type is the column's."""

    name: str
    label: str
    type: str
    is_required: bool


class AccountSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An app's settings as they are stored, without those that have their default."""

    sign_up: SignUpPolicy = "open"
    """Whether members may make themselves, or only those who were invited; the app's own side always may."""
    sign_up_methods: tuple[SignUpMethod, ...] = SIGN_UP_METHODS
    """By which ways they may; who is a member already signs in by any."""
    login_id_form: LoginIdForm = "any"
    email_verification: Requirement = "optional"
    second_factor: Requirement = "off"
    second_factors: tuple[SecondFactorName, ...] = ("passkey", "totp", "recovery_code")
    """What counts as one; a mailed code only beside a first factor that was no mail."""
    email_code: bool = False
    email_link: bool = False
    passkey: bool = False
    passkey_domain: str | None = None
    """The domain of the app's own pages on which passkeys work; by default the server's, on its pages."""
    allowed_origins: tuple[str, ...] = ()
    urls: PageUrls = PageUrls()
    hooks: Hooks = Hooks()
    theme: Theme = Theme()
    challenge_on: tuple[ChallengedAction, ...] = ()
    """What members do only with a solved challenge."""
    challenge: Challenge = Challenge()
    impersonation: Impersonation = "off"
    """Who of the app's team may act as its members."""
    team_second_factor: bool = False
    """Whether console users reach the app only with a second factor."""
    default_language: Language = "en"
    """That of mails and pages where neither the member nor the browser says another."""
    password_check: bool = False
    """Whether members may not choose passwords that are guessed first."""
    on_member_delete: OnMemberDelete = "keep"
    """What becomes of rows and files that a deleted member has created, or that it chooses."""
    deletion_grace_days: int = 0
    """How long a member that has deleted its account may come back."""
    on_sign_up: tuple[SignUpRow, ...] = ()
    """The rows that are made with each member."""
    sign_up_fields: tuple[SignUpField, ...] = ()
    """What these rows take from the sign-up."""

    def may_sign_up(self, method: SignUpMethod, *, is_invited: bool = False) -> bool:
        """Whether somebody may become a member in this way, who was perhaps invited."""
        is_open = self.sign_up == "open" or (is_invited and self.sign_up == "invited")
        return is_open and method in self.sign_up_methods


DEFAULTS = AccountSettings()


def is_listed(url: str, pages: Sequence[str]) -> bool:
    """Whether the origin of a page is that of one of an app's pages."""
    return _origin(url) in {_origin(page) for page in pages}


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def pages_path(app_id: UUID) -> str:
    """Return the path below which an app's account pages are, such as `/sign-in`."""
    return f"/account/{app_id}"


def logo_path(app_id: UUID, version: str) -> str:
    """Return the path of the logo of an app's account pages; another version has another one."""
    return f"{pages_path(app_id)}/logo?v={version}"


_DOMAIN = re.compile(r"(?!.*\.\d+$)[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*", re.ASCII)


def passkey_fault(domain: str | None, origins: Sequence[str]) -> tuple[str, str] | None:
    """Return the invalid field and a sentence where passkeys cannot work with a domain and the origins of pages."""
    if domain is None:
        return ("allowed_origins", "allowed_origins need a passkey_domain.") if origins else None
    if len(domain) > 253 or not _DOMAIN.fullmatch(domain):
        return "passkey_domain", "passkey_domain: a host name in small letters is expected, such as example.com."
    if not origins:
        return "allowed_origins", "allowed_origins: at least one page of the domain is expected."
    for index, origin in enumerate(origins):
        if not _is_on(domain, origin):
            message = "an origin on passkey_domain or below it is expected, such as https://app.example.com."
            return f"allowed_origins[{index}]", f"allowed_origins[{index}]: {message}"
    return None


def _is_on(domain: str, origin: str) -> bool:
    try:
        parts = urlsplit(origin)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    is_local = host == "localhost" or host.endswith(".localhost")
    is_secure = parts.scheme == "https" or (parts.scheme == "http" and is_local)
    is_bare = origin == f"{parts.scheme}://{parts.netloc}" and "@" not in parts.netloc and origin == origin.lower()
    return is_secure and is_bare and (host == domain or host.endswith(f".{domain}"))
