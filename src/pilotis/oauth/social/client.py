"""Requests to a vendor: discovery, keys, the exchange of its code, and the profile of the signed-in account.

All requests use the guarded client for outgoing requests, without redirects, and with limits on time and size.
Vendors' tokens are used at once and never stored.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec

from pilotis.db.batching import SingleFlight
from pilotis.http.outgoing import Outgoing, Reach
from pilotis.http.outgoing_types import OutgoingError, OutgoingRequest
from pilotis.oauth.social.id_tokens import UnknownKeyError, apple_secret, verified_claims
from pilotis.oauth.social.types import ProviderOptions
from pilotis.oauth.social.vendors import (
    Profile,
    Vendor,
    VendorError,
    VendorUnreachableError,
    at,
    from_claims,
    from_userinfo,
    vendor_of,
)

_SECONDS = 10.0
_MAX_BYTES = 64 * 1024
_DISCOVERED_SECONDS = 3600.0
_KEYS_SECONDS = 600.0
_ASK_AGAIN_SECONDS = 60.0
_MAX_CACHED = 256
_MAX_KEYS = 50
_USER_AGENT = "Pilotis"
T = TypeVar("T")


class Account(NamedTuple):
    """An app's registration with a vendor."""

    provider: str
    client_id: str
    secret: str | None
    scopes: list[str]
    options: ProviderOptions
    client_ids: Sequence[str] = ()
    """The app's other programs, whose tokens count as well where a page or a phone got them from the vendor."""


class Returned(NamedTuple):
    """The parameters with which a vendor sent the browser back, and those of the sign-in request."""

    code: str
    redirect_uri: str
    verifier: str
    nonce: str
    state: str
    user: str | None


class _Discovered(msgspec.Struct):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


class _Tokens(msgspec.Struct):
    access_token: str | None = None
    id_token: str | None = None
    error: Any = None


class _AppleName(msgspec.Struct):
    firstName: str = ""  # noqa: N815 - Apple's
    lastName: str = ""  # noqa: N815


class _AppleUser(msgspec.Struct):
    name: _AppleName | None = None


class _Cached(NamedTuple):
    value: Any
    at: float


class VendorClient:
    """Sends requests to vendors; `outgoing` returns the client for them. Documents are cached for all apps."""

    def __init__(self, outgoing: Callable[[], Outgoing]) -> None:
        self._outgoing = outgoing
        self._documents: OrderedDict[tuple[str, str], _Cached] = OrderedDict()
        self._reads: SingleFlight[Any] = SingleFlight()

    async def vendor(self, account: Account) -> Vendor:
        """Return the vendor of an account, with the addresses that an issuer's discovery document gives.

        Raises `VendorError`.
        """
        options = account.options
        vendor = vendor_of(account.provider, name=options.name, version=options.version)
        if options.endpoints is not None:
            return at(vendor, options.endpoints)
        if vendor.kind != "oidc" or options.issuer is None:
            return vendor
        found: _Discovered = await self._cached("issuer", options.issuer, _DISCOVERED_SECONDS, self._discover)
        methods = found.token_endpoint_auth_methods_supported
        return msgspec.structs.replace(
            vendor,
            authorization=found.authorization_endpoint,
            token=found.token_endpoint,
            userinfo=found.userinfo_endpoint,
            jwks=found.jwks_uri,
            issuers=(found.issuer,),
            uses_basic="client_secret_post" not in methods,
        )

    async def profile(self, account: Account, returned: Returned) -> Profile:
        """Exchange a vendor's code and return who has signed in; raises `VendorError`."""
        vendor = await self.vendor(account)
        tokens = await self._exchange(vendor, account, returned)
        if vendor.issuers:
            return await self._from_id_token(vendor, account, returned, tokens)
        if tokens.access_token is None or vendor.userinfo is None:
            raise VendorError("The vendor returned no access token.")
        bearer = {"Authorization": f"Bearer {tokens.access_token}"}
        if vendor.kind == "facebook":
            proof = hmac.digest((account.secret or "").encode(), tokens.access_token.encode(), "sha256").hex()
            query = urlencode({"fields": "id,name,email,picture", "appsecret_proof": proof})
            return from_userinfo(vendor, await self._get(f"{vendor.userinfo}?{query}", bearer), None)
        emails = None if vendor.emails is None else await self._get(vendor.emails, bearer)
        return from_userinfo(vendor, await self._get(vendor.userinfo, bearer), emails)

    async def recognised(self, account: Account, id_token: str, nonce: str, max_age: float) -> Profile:
        """Return whose an ID token is that the vendor gave to a page or a program of the app.

        It is for one of the account's clients, contains the nonce, and was issued at most `max_age` seconds ago. Raises
        `VendorUnreachableError`, or `VendorError` for an invalid token.
        """
        vendor = await self.vendor(account)
        if not vendor.issuers or vendor.jwks is None:
            raise VendorError("The vendor gives no ID tokens.")
        # Apple's programs send it the hash of their nonce, Google's the nonce.
        expected = hashlib.sha256(nonce.encode()).hexdigest() if vendor.kind == "apple" else nonce
        client_ids = [account.client_id, *account.client_ids]
        claims = await self._claims(vendor, vendor.jwks, id_token, client_ids, expected, max_age)
        return _profile(vendor, account, claims)

    async def _exchange(self, vendor: Vendor, account: Account, returned: Returned) -> _Tokens:
        form = {
            "grant_type": "authorization_code",
            "code": returned.code,
            "redirect_uri": returned.redirect_uri,
            "client_id": account.client_id,
        }
        if vendor.uses_pkce:
            form["code_verifier"] = returned.verifier
        if vendor.kind == "naver":
            form["state"] = returned.state
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        secret = _secret(vendor, account)
        if secret is not None and vendor.uses_basic:
            pair = f"{quote_plus(account.client_id)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif secret is not None:
            form["client_secret"] = secret
        body = await self._send("POST", vendor.token, headers, urlencode(form).encode())
        tokens = _decoded(body, _Tokens)
        if tokens.error is not None:  # Some vendors report errors with status 200.
            raise VendorError(f"The vendor rejected its code: {str(tokens.error)[:100]!r}.")
        return tokens

    async def _from_id_token(self, vendor: Vendor, account: Account, returned: Returned, tokens: _Tokens) -> Profile:
        if tokens.id_token is None or vendor.jwks is None:
            raise VendorError("The vendor returned no ID token.")
        claims = await self._claims(vendor, vendor.jwks, tokens.id_token, [account.client_id], returned.nonce)
        if vendor.userinfo is not None and tokens.access_token is not None and "email" not in claims:
            bearer = {"Authorization": f"Bearer {tokens.access_token}"}
            more = _decoded(await self._get(vendor.userinfo, bearer), dict[str, Any])
            # It could have been replaced by another account's response (OpenID Connect Core 1.0, section 5.3.2).
            if more.get("sub") != claims.get("sub"):
                raise VendorError("The vendor's userinfo belongs to another account.")
            claims = {**more, **claims}
        if vendor.kind == "apple" and returned.user is not None:
            claims = {**claims, "name": _apple_name(returned.user)}
        return _profile(vendor, account, claims)

    async def _claims(
        self,
        vendor: Vendor,
        jwks: str,
        token: str,
        client_ids: Sequence[str],
        nonce: str,
        max_age: float | None = None,
    ) -> dict[str, Any]:
        seconds = _KEYS_SECONDS
        while True:
            keys: _KeySet = await self._cached("keys", jwks, seconds, self._keys)
            try:
                return verified_claims(
                    token,
                    keys.keys[:_MAX_KEYS],
                    issuers=vendor.issuers,
                    client_ids=client_ids,
                    nonce=nonce,
                    max_age=max_age,
                )
            except UnknownKeyError:
                if seconds == _ASK_AGAIN_SECONDS:
                    raise
                seconds = _ASK_AGAIN_SECONDS

    async def _discover(self, issuer: str) -> _Discovered:
        url = issuer.rstrip("/") + "/.well-known/openid-configuration"
        found = _decoded(await self._get(url, {}), _Discovered)
        if found.issuer != issuer:
            raise VendorUnreachableError("The discovery document belongs to another issuer.")
        if not found.authorization_endpoint.startswith(("https://", "http://")):
            raise VendorUnreachableError("The issuer's authorization endpoint is not a web address.")
        return found

    async def _keys(self, url: str) -> _KeySet:
        return _decoded(await self._get(url, {}), _KeySet)

    async def _cached(self, what: str, url: str, seconds: float, read: Callable[[str], Awaitable[Any]]) -> Any:
        """Return a document that was read at most so many seconds ago; concurrent callers read it once."""

        async def current() -> Any:
            found = self._known(what, url, seconds)
            if found is None:
                found = self._documents[what, url] = _Cached(await read(url), time.monotonic())
                while len(self._documents) > _MAX_CACHED:
                    self._documents.popitem(last=False)
            return found.value

        known = self._known(what, url, seconds)
        return await self._reads.run((what, url), current) if known is None else known.value

    def _known(self, what: str, url: str, seconds: float) -> _Cached | None:
        found = self._documents.get((what, url))
        return None if found is None or time.monotonic() - found.at > seconds else found

    async def _get(self, url: str, headers: Mapping[str, str]) -> bytes:
        return await self._send("GET", url, headers, None)

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        every = {"Accept": "application/json", "User-Agent": _USER_AGENT, **headers}
        request = OutgoingRequest(url=url, method=method, headers=every, body=body)
        try:
            response = await self._outgoing().send(
                request, reach=Reach.SERVER, seconds=_SECONDS, max_bytes=_MAX_BYTES, tenant=urlsplit(url).hostname
            )
        except OutgoingError as error:
            raise VendorUnreachableError(f"The vendor cannot be reached: {error.failure.value}.") from None
        if response.status != 200 or response.is_truncated:
            raise VendorUnreachableError(f"The vendor answered with {response.status}, or with too large a response.")
        return response.body


def _profile(vendor: Vendor, account: Account, claims: Mapping[str, Any]) -> Profile:
    if vendor.kind != "oidc":
        return from_claims(claims, trusts_email=True)
    # Subjects are unique within an issuer: a provider whose issuer changes must not reach the accounts of the old one.
    profile = from_claims(claims, trusts_email=account.options.trust_email)
    return msgspec.structs.replace(profile, subject=f"{claims['iss']} {profile.subject}")


def challenge_of(verifier: str) -> str:
    """Return the challenge of a verifier (RFC 7636, section 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _secret(vendor: Vendor, account: Account) -> str | None:
    if not vendor.signs_secret or account.secret is None:
        return account.secret
    options = account.options
    return apple_secret(
        account.secret,
        team_id=options.team_id or "",
        key_id=options.key_id or "",
        client_id=account.client_id,
    )


def _apple_name(user: str) -> str:
    """Return the name that Apple sends once, together with its code; the member's browser could have changed it."""
    try:
        name = msgspec.json.decode(user, type=_AppleUser).name
    except msgspec.DecodeError:
        name = None
    return f"{name.firstName} {name.lastName}".strip() if name else ""


def _decoded(body: bytes, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.DecodeError:
        raise VendorUnreachableError("The vendor's response is not the JSON of its protocol.") from None
