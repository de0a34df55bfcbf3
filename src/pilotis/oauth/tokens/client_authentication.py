"""Client authentication (RFC 6749, sections 2.3 and 3.2.1; RFC 7523)."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import unquote_plus

import msgspec

from pilotis.db.pool import Database
from pilotis.http.api.principals import Client
from pilotis.kit.addresses import one_client
from pilotis.kit.crypto import secret_hash
from pilotis.oauth import client_store, registry
from pilotis.oauth.auth_methods import PRIVATE_KEY
from pilotis.oauth.dynamic_clients import DynamicClients
from pilotis.oauth.errors import InvalidClientError
from pilotis.oauth.parameters import Parameters
from pilotis.oauth.records import KnownClient
from pilotis.oauth.registry import find_client
from pilotis.oauth.tokens import assertions, store
from pilotis.oauth.types import ClientKeys
from pilotis.security.rate_limits import RateLimits

_BASIC = "basic "
_TOUCHED_EVERY = timedelta(minutes=1)


class _Credentials(NamedTuple):
    """The id with the secret or the assertion that the client sent, in a header or in the form."""

    method: str
    client_id: str
    secret: str | None


class ClientAuthentication:
    """Authenticates clients, and limits failed attempts; `issuer` is the server's address."""

    def __init__(self, database: Database, rate_limits: RateLimits, dynamic: DynamicClients, issuer: str) -> None:
        self._database = database
        self._rate_limits = rate_limits
        self._dynamic = dynamic
        self._issuer = issuer

    async def authenticate(
        self, client: Client, header: str | None, form: Parameters, *, admits: bool = False
    ) -> KnownClient:
        """Return the client that the `Authorization` header or the form names, once authenticated.

        A client must use its registered method. With `admits`, the request may be the first one of a dynamic client to
        its app. Raises `InvalidClientError`, or `RateLimitedError` after too many failures of one client from one
        address.
        """
        by_header = header is not None and header[: len(_BASIC)].lower() == _BASIC
        try:
            given = _credentials(header if by_header else None, form)
            found = await self._find(client, given.client_id, form, admits=admits)
            if found is None:
                secret_hash(given.secret or "")  # An unknown client costs as much time as a known one.
            elif await self._proves(found, given):
                if found.last_used_at is None or found.last_used_at < datetime.now(UTC) - _TOUCHED_EVERY:
                    await client_store.touch_client(self._database, found.app_id, found.client_id)
                return found
        except InvalidClientError:
            given = _Credentials("", form.get("client_id") or "", None)
        group = f"{given.client_id[:64]}:{one_client(client.address)}"
        await self._rate_limits.count(client, None, "oauth_client_failures", group=group)
        client.standing = None
        raise InvalidClientError(headers={"WWW-Authenticate": 'Basic realm="OAuth"'} if by_header else {})

    async def _find(self, client: Client, client_id: str, form: Parameters, *, admits: bool) -> KnownClient | None:
        app_id = None
        if registry.is_dynamic(client_id):
            app_id = await self._dynamic.app_of(form)
            if admits:
                await self._dynamic.admit(client, client_id, app_id)
        return await find_client(self._database, client_id, app_id)

    async def _proves(self, found: KnownClient, given: _Credentials) -> bool:
        if given.method == PRIVATE_KEY == found.token_endpoint_auth_method:
            return await self._signed(found, given.secret or "")
        matches = found.knows_secret(given.secret or "")
        return given.method == found.token_endpoint_auth_method and (found.is_public or matches)

    async def _signed(self, found: KnownClient, text: str) -> bool:
        """Return whether an assertion is the client's, and was not used before by any node."""
        keys = msgspec.json.decode(found.jwks or b'{"keys": []}', type=ClientKeys)
        try:
            assertion = assertions.check(text, found.client_id, keys, self._issuer)
        except (ValueError, RecursionError):
            return False
        app_id = registry.NO_APP if found.is_dynamic else found.app_id
        row = await store.use_proof(self._database, app_id, assertion.hash, assertions.REMEMBERED_SECONDS)
        if row is None:
            # A crash of PostgreSQL emptied the table: what was issued before may have been used before.
            await store.begin_proof_epoch(self._database, app_id)
            return False
        return row.is_new and assertion.issued_at > row.began_at.timestamp()


def _credentials(basic: str | None, form: Parameters) -> _Credentials:
    client_id, secret, assertion = (form.get(name) for name in ("client_id", "client_secret", "client_assertion"))
    if sum(one is not None for one in (basic, secret, assertion)) > 1:
        raise InvalidClientError("Use only one authentication method.")
    if assertion is not None:
        named = assertions.client_of(assertion)
        if form.get("client_assertion_type") != assertions.TYPE or named is None or client_id not in {None, named}:
            raise InvalidClientError
        return _Credentials(PRIVATE_KEY, named, assertion)
    if basic is None:
        if client_id is None:
            raise InvalidClientError
        return _Credentials("none" if secret is None else "client_secret_post", client_id, secret)
    try:
        decoded = base64.b64decode(basic[len(_BASIC) :].strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        raise InvalidClientError from None
    user, colon, password = decoded.partition(":")
    if not colon:
        raise InvalidClientError
    # Both halves are form-encoded (RFC 6749, section 2.3.1). Some libraries do not encode them, but ids and secrets
    # need no encoding.
    user, password = unquote_plus(user), unquote_plus(password)
    if client_id is not None and client_id != user:
        raise InvalidClientError
    return _Credentials("client_secret_basic", user, password)
