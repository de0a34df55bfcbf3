"""The vendors of social login: their addresses, and the conversion of their responses to profiles. Pure.

Six vendors are built in; every other name is an issuer of OpenID Connect, whose discovery document contains the
addresses. One type describes all of them, and `social.client` handles all of them in the same way.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec

from pilotis.oauth.social.types import Endpoints

Kind = Literal["google", "apple", "github", "kakao", "naver", "facebook", "oidc"]
T = TypeVar("T")

_MAX_SUBJECT = 255
_MAX_EMAIL = 254
_MAX_NICKNAME = 100
_MAX_PICTURE = 2000
FACEBOOK_VERSION = "23.0"


class VendorError(Exception):
    """The vendor did not return a profile; the message is for the log and contains no secret."""


class VendorUnreachableError(VendorError):
    """The vendor did not answer, or not as its protocol says."""


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """A vendor of social login.

    A vendor with `issuers` returns an ID token, which `jwks` verifies; the others have a `userinfo`, and GitHub also
    `emails`.
    """

    kind: Kind
    name: str
    authorization: str = ""
    token: str = ""
    userinfo: str | None = None
    emails: str | None = None
    jwks: str | None = None
    issuers: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    separator: str = " "
    uses_pkce: bool = False
    uses_form_post: bool = False
    signs_secret: bool = False
    uses_basic: bool = False

    @property
    def gives_id_tokens(self) -> bool:
        """Whether it tells by a signed token who has signed in; an issuer's addresses are in its document."""
        return self.kind == "oidc" or self.jwks is not None


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The account that has signed in; only `subject` identifies it."""

    subject: str
    email: str | None = None
    email_verified: bool = False
    name: str | None = None
    picture: str | None = None


VENDORS: Mapping[str, Vendor] = {
    "GOOGLE": Vendor(
        kind="google",
        name="Google",
        authorization="https://accounts.google.com/o/oauth2/v2/auth",
        token="https://oauth2.googleapis.com/token",  # noqa: S106 - an address
        jwks="https://www.googleapis.com/oauth2/v3/certs",
        issuers=("https://accounts.google.com", "accounts.google.com"),
        scopes=("openid", "email", "profile"),
        uses_pkce=True,
    ),
    "APPLE": Vendor(
        kind="apple",
        name="Apple",
        authorization="https://appleid.apple.com/auth/authorize",
        token="https://appleid.apple.com/auth/token",  # noqa: S106
        jwks="https://appleid.apple.com/auth/keys",
        issuers=("https://appleid.apple.com", "https://account.apple.com"),
        scopes=("name", "email"),
        uses_form_post=True,
        signs_secret=True,
    ),
    "GITHUB": Vendor(
        kind="github",
        name="GitHub",
        authorization="https://github.com/login/oauth/authorize",
        token="https://github.com/login/oauth/access_token",  # noqa: S106
        userinfo="https://api.github.com/user",
        emails="https://api.github.com/user/emails",
        scopes=("read:user", "user:email"),
        uses_pkce=True,
    ),
    "KAKAO": Vendor(
        kind="kakao",
        name="Kakao",
        authorization="https://kauth.kakao.com/oauth/authorize",
        token="https://kauth.kakao.com/oauth/token",  # noqa: S106
        userinfo="https://kapi.kakao.com/v2/user/me",
        scopes=("account_email", "profile_nickname", "profile_image"),
        separator=",",
    ),
    "NAVER": Vendor(
        kind="naver",
        name="Naver",
        authorization="https://nid.naver.com/oauth2.0/authorize",
        token="https://nid.naver.com/oauth2.0/token",  # noqa: S106
        userinfo="https://openapi.naver.com/v1/nid/me",
    ),
    "FACEBOOK": Vendor(
        kind="facebook",
        name="Facebook",
        authorization="https://www.facebook.com/v{version}/dialog/oauth",
        token="https://graph.facebook.com/v{version}/oauth/access_token",  # noqa: S106
        userinfo="https://graph.facebook.com/v{version}/me",
        scopes=("email", "public_profile"),
        separator=",",
    ),
}
_OIDC = Vendor(kind="oidc", name="", scopes=("openid", "email", "profile"), uses_pkce=True)


def vendor_of(provider: str, *, name: str | None = None, version: str | None = None) -> Vendor:
    """Return the vendor of a provider's name, such as GOOGLE; any name that is not built in is an issuer of its own."""
    vendor = VENDORS.get(provider, _OIDC)
    number = version or FACEBOOK_VERSION
    addresses = {
        field: address.replace("{version}", number)
        for field in ("authorization", "token", "userinfo")
        if (address := getattr(vendor, field))
    }
    return msgspec.structs.replace(vendor, name=name or vendor.name or provider.title(), **addresses)


def at(vendor: Vendor, endpoints: Endpoints) -> Vendor:
    """Return the vendor with other addresses, for tests."""
    given = {name: value for name, value in msgspec.structs.asdict(endpoints).items() if value is not None}
    issuer = given.pop("issuer", None)
    return msgspec.structs.replace(vendor, **given, **({"issuers": (issuer,)} if issuer else {}))


class _GithubUser(msgspec.Struct):
    id: int
    login: str
    name: str | None = None
    avatar_url: str | None = None


class _GithubEmail(msgspec.Struct):
    email: str
    primary: bool = False
    verified: bool = False


class _KakaoProfile(msgspec.Struct):
    nickname: str | None = None
    profile_image_url: str | None = None


class _KakaoAccount(msgspec.Struct):
    email: str | None = None
    is_email_valid: bool | None = None
    is_email_verified: bool | None = None
    profile: _KakaoProfile | None = None


class _KakaoUser(msgspec.Struct):
    id: int
    kakao_account: _KakaoAccount | None = None


class _NaverUser(msgspec.Struct):
    id: str
    email: str | None = None
    name: str | None = None
    nickname: str | None = None
    profile_image: str | None = None


class _NaverAnswer(msgspec.Struct):
    resultcode: str
    response: _NaverUser | None = None


class _FacebookImage(msgspec.Struct):
    url: str | None = None


class _FacebookPicture(msgspec.Struct):
    data: _FacebookImage | None = None


class _FacebookUser(msgspec.Struct):
    id: str
    name: str | None = None
    email: str | None = None
    picture: _FacebookPicture | None = None


def from_claims(claims: Mapping[str, Any], *, trusts_email: bool) -> Profile:
    """Return the profile from the claims of an ID token, merged with those of userinfo if there are any."""
    verified = claims.get("email_verified")
    return Profile(
        subject=_subject(claims.get("sub")),
        email=_email(claims.get("email")),
        # Apple writes its booleans as text.
        email_verified=trusts_email and (verified is True or verified == "true"),
        name=_name(claims.get("name")) or _name(claims.get("nickname")),
        picture=_picture(claims.get("picture")),
    )


def from_userinfo(vendor: Vendor, body: bytes, emails: bytes | None) -> Profile:
    """Return the profile from the response of a vendor without ID tokens; raises `VendorError`."""
    if vendor.kind == "github":
        return _github(_decoded(body, _GithubUser), _decoded(emails or b"[]", list[_GithubEmail]))
    if vendor.kind == "kakao":
        return _kakao(_decoded(body, _KakaoUser))
    if vendor.kind == "naver":
        return _naver(_decoded(body, _NaverAnswer))
    return _facebook(_decoded(body, _FacebookUser))


def _github(user: _GithubUser, emails: list[_GithubEmail]) -> Profile:
    # The address in the profile is unverified; only the list contains those that GitHub has verified.
    primary = next((one for one in emails if one.primary and one.verified), None)
    return Profile(
        subject=str(user.id),
        email=_email(primary.email) if primary else None,
        email_verified=primary is not None,
        name=_name(user.name) or _name(user.login),
        picture=_picture(user.avatar_url),
    )


def _kakao(user: _KakaoUser) -> Profile:
    account = user.kakao_account or _KakaoAccount()
    profile = account.profile or _KakaoProfile()
    return Profile(
        subject=str(user.id),
        email=_email(account.email),
        email_verified=account.is_email_valid is True and account.is_email_verified is True,
        name=_name(profile.nickname),
        picture=_picture(profile.profile_image_url),
    )


def _naver(answer: _NaverAnswer) -> Profile:
    if answer.resultcode != "00" or answer.response is None:
        raise VendorError("Naver answered with a resultcode other than 00.")
    user = answer.response
    return Profile(
        subject=_subject(user.id),
        email=_email(user.email),
        name=_name(user.nickname) or _name(user.name),
        picture=_picture(user.profile_image),
    )


def _facebook(user: _FacebookUser) -> Profile:
    image = user.picture.data if user.picture else None
    return Profile(
        subject=_subject(user.id),
        email=_email(user.email),
        name=_name(user.name),
        picture=_picture(image.url if image else None),
    )


def _decoded(body: bytes, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.DecodeError:
        raise VendorError("The account's profile does not have the documented format.") from None


def _subject(value: Any) -> str:
    """Return the id of an account; raises `VendorError` if there is none."""
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_SUBJECT or "\0" in value:
        raise VendorError("The vendor did not return an account id.")
    return value


def _email(value: Any) -> str | None:
    """Return an address in lower case; None for one with non-ASCII characters, which may look like another one."""
    if not isinstance(value, str) or len(value) > _MAX_EMAIL or "@" not in value[1:-1]:
        return None
    return value.lower() if value.isascii() and value.isprintable() else None


def _name(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    shown = "".join(one for one in value if unicodedata.category(one) not in {"Cc", "Cf", "Cs"})
    return shown.strip()[:_MAX_NICKNAME] or None


def _picture(value: Any) -> str | None:
    is_web = isinstance(value, str) and value.startswith(("https://", "http://"))
    return value if is_web and value.isascii() and value.isprintable() and len(value) <= _MAX_PICTURE else None
