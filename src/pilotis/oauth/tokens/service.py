"""The three grants of the token endpoint (RFC 6749, sections 4.1.3, 4.4 and 6; RFC 9700, section 2)."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor
from pilotis.kit.crypto import MasterKeyring, base64url, secret_hash
from pilotis.kit.ids import uuid7
from pilotis.oauth.clients import BUILT_IN_SCOPES
from pilotis.oauth.errors import (
    InvalidGrantError,
    InvalidScopeError,
    UnauthorizedClientError,
    UnsupportedGrantTypeError,
)
from pilotis.oauth.parameters import CODE_PREFIX, Parameters
from pilotis.oauth.records import KnownClient
from pilotis.oauth.resources import chosen_resources, narrowed_resources
from pilotis.oauth.tokens import refresh_tokens, store
from pilotis.oauth.tokens.inspection import Inspection, InvalidOAuthTokenError
from pilotis.oauth.tokens.issuing import Issuer
from pilotis.oauth.tokens.records import Grant, RevokedGrant
from pilotis.oauth.tokens.refresh_tokens import RefreshToken
from pilotis.oauth.tokens.types import TokenAnswer
from pilotis.security.audit.service import record
from pilotis.security.single_use import app_of

RETRY_WINDOW = timedelta(seconds=60)
"""How long a public client's used refresh token still returns the same successor."""

_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class Tokens:
    """Exchanges codes, refresh tokens and client credentials for tokens."""

    def __init__(self, database: Database, issuer: Issuer, inspection: Inspection, keyring: MasterKeyring) -> None:
        self._database = database
        self._inspection = inspection
        self._issuer = issuer
        self._keyring = keyring

    async def grant(self, client: KnownClient, form: Parameters, jkt: str | None, actor: Actor) -> TokenAnswer:
        """Return the tokens that an authenticated client requests.

        `jkt` is the thumbprint of the key that it has proved. Raises an `OAuthError`.
        """
        grant_type = form.need("grant_type")
        grants = {
            "authorization_code": self._code,
            "refresh_token": self._refresh,
            "client_credentials": self._own,
        }
        if grant_type not in grants:
            raise UnsupportedGrantTypeError
        if not client.provider.is_provider:
            raise UnauthorizedClientError("The app is not a provider.")
        if grant_type not in client.grant_types:
            raise UnauthorizedClientError
        return await grants[grant_type](client, form, jkt, actor)

    async def _code(self, client: KnownClient, form: Parameters, jkt: str | None, actor: Actor) -> TokenAnswer:
        text, verifier = form.need("code"), form.get("code_verifier")
        app_id, code_hash = client.app_id, secret_hash(text)
        row = await store.code(self._database, app_id, code_hash) if app_of(CODE_PREFIX, text) == app_id else None
        if row is None or row.client_id != client.client_id:
            raise InvalidGrantError
        if row.used_at is not None:
            await self._end(row, "code_reused", actor)
            raise InvalidGrantError("The code was used before, so its tokens have been revoked.")
        if not row.is_fresh or not row.lives:
            raise InvalidGrantError
        if form.get("redirect_uri") != row.redirect_uri:
            raise InvalidGrantError("redirect_uri does not match the authorization request.")
        if verifier is None or not _proves(verifier, row.code_challenge):
            raise InvalidGrantError("code_verifier does not match code_challenge.")
        if row.code_jkt is not None and row.code_jkt != jkt:
            raise InvalidGrantError("The code is bound to another key.")
        resources = self._narrowed(row, form)
        refresh_id = uuid7() if "refresh_token" in client.grant_types else None
        idle, lifetime = _lifetimes(client)
        if not await store.redeem(self._database, app_id, code_hash, refresh_id, idle, lifetime, jkt):
            await self._end(row, "code_reused", actor)
            raise InvalidGrantError
        return await self._answer(client, row, row.scopes, resources, refresh_id, jkt, row.nonce)

    async def _refresh(self, client: KnownClient, form: Parameters, jkt: str | None, actor: Actor) -> TokenAnswer:
        token = refresh_tokens.read(self._keyring, form.need("refresh_token"))
        row = None
        if token is not None and token.app_id == client.app_id:
            row = await store.grant(self._database, token.app_id, token.grant_id)
        if token is None or row is None or row.client_id != client.client_id or not row.lives:
            raise InvalidGrantError
        if not row.may_refresh:
            raise InvalidGrantError("The refresh token has expired.")
        if row.is_bound and (jkt is None or (client.is_public and jkt != row.jkt)):
            raise InvalidGrantError("The refresh token is bound to another key.")
        scopes, resources = _fewer(row.scopes, form.get("scope")), self._narrowed(row, form)
        idle, _ = _lifetimes(client)
        current = await self._successor(client, token, idle)
        if current is None:
            await self._end(row, "refresh_token_reused", actor)
            raise InvalidGrantError("The refresh token was used before, so its grant has been revoked.")
        return await self._answer(client, row, scopes, resources, current, jkt, None)

    async def _successor(self, client: KnownClient, token: RefreshToken, idle: timedelta) -> UUID | None:
        """Return the current refresh id, or None if the token was already used.

        Public clients rotate (RFC 9700, section 2.2.2); confidential ones do not (FAPI 2.0, section 5.3.2.1).
        """
        where = (self._database, client.app_id, token.grant_id, token.refresh_id)
        if not client.is_public:
            return token.refresh_id if await store.extend(*where, idle) else None
        next_id = uuid7()
        if await store.rotate(*where, next_id, idle):
            return next_id
        return await store.just_rotated(*where, RETRY_WINDOW)

    async def _own(self, client: KnownClient, form: Parameters, jkt: str | None, _actor: Actor) -> TokenAnswer:
        if client.is_public:
            raise UnauthorizedClientError
        own = [name for name in client.scopes if name not in BUILT_IN_SCOPES]
        scopes = _fewer(own, form.get("scope"))
        resources = chosen_resources(client, self._issuer.issuer, form.resources)
        token = await self._issuer.access_token(
            client, sub=client.client_id, scopes=scopes, resources=resources, jkt=jkt
        )
        return _token_answer(client, token, scopes, jkt)

    async def _answer(
        self,
        client: KnownClient,
        row: Grant,
        scopes: Sequence[str],
        resources: Sequence[str],
        refresh_id: UUID | None,
        jkt: str | None,
        nonce: str | None,
    ) -> TokenAnswer:
        member_id, sid, auth_time = row.member_id, row.session_id, row.auth_time
        access = await self._issuer.access_token(
            client,
            sub=member_id,
            scopes=scopes,
            resources=resources,
            sid=sid,
            grant_id=row.grant_id,
            auth_time=auth_time,
            jkt=jkt,
        )
        identity = None
        if "openid" in scopes:
            shared: dict[str, Any] = {}
            if client.claims_in_id_token:
                shared = await self._shared(client.app_id, row.grant_id, scopes)
            identity = await self._issuer.id_token(
                client,
                sub=member_id,
                sid=sid,
                auth_time=auth_time,
                amr=row.amr,
                access_token=access,
                nonce=nonce,
                shared=shared,
            )
        refresh = None
        if refresh_id is not None:
            refresh = refresh_tokens.write(self._keyring, RefreshToken(client.app_id, row.grant_id, refresh_id))
        return _token_answer(client, access, scopes, jkt, refresh, identity)

    async def _shared(self, app_id: UUID, grant_id: UUID, scopes: Sequence[str]) -> dict[str, Any]:
        try:
            return await self._inspection.shared(app_id, grant_id, uuid7(), frozenset(scopes))
        except InvalidOAuthTokenError:
            # The member was deactivated, or the grant revoked, a moment ago.
            raise InvalidGrantError from None

    def _narrowed(self, row: Grant, form: Parameters) -> list[str]:
        allowed = row.resources or [self._issuer.default_resource(row.app_id)]
        return narrowed_resources(allowed, form.resources) or list(row.resources)

    async def _end(self, row: Grant, reason: str, actor: Actor) -> None:
        """Revoke a grant whose code or refresh token was reused."""
        app_id, grant_id = row.app_id, row.grant_id
        async with self._database.transaction(app_id) as connection:
            await revoke(connection, app_id, actor, grant_id, reason)


async def revoke(
    connection: Connection, app_id: UUID, actor: Actor, grant_id: UUID, reason: str
) -> RevokedGrant | None:
    """Revoke a grant with all its tokens, and audit that.

    Return its client, member and session, or None if it was already revoked.
    """
    row = await store.revoke(connection, app_id, grant_id, reason)
    if row is not None:
        whose = {"client_id": row.client_id, "member_id": row.member_id}
        await record(connection, app_id, actor, "oauth_grant.revoke", grant_id, reason=reason, **whose)
    return row


def _lifetimes(client: KnownClient) -> tuple[timedelta, timedelta]:
    """Return for how long a refresh token is valid without use, and at most."""
    provider = client.provider
    return timedelta(days=provider.refresh_idle_days), timedelta(days=provider.refresh_absolute_days)


def _token_answer(
    client: KnownClient,
    access_token: str,
    scopes: Sequence[str],
    jkt: str | None,
    refresh_token: str | None = None,
    id_token: str | None = None,
) -> TokenAnswer:
    return TokenAnswer(
        access_token=access_token,
        token_type="Bearer" if jkt is None else "DPoP",
        expires_in=client.provider.access_token_seconds,
        scope=" ".join(scopes),
        refresh_token=refresh_token,
        id_token=id_token,
        cnf=None if jkt is None else {"jkt": jkt},
    )


def _proves(verifier: str, challenge: str) -> bool:
    """Return whether the verifier matches the challenge (RFC 7636, section 4.6)."""
    if not _VERIFIER.fullmatch(verifier):
        return False
    return hmac.compare_digest(base64url(hashlib.sha256(verifier.encode()).digest()), challenge)


def _fewer(granted: Sequence[str], wanted: str | None) -> list[str]:
    """Return the requested scopes, by default all granted ones.

    Raises `InvalidScopeError` for a scope that was not granted.
    """
    if wanted is None:
        return list(granted)
    names = list(dict.fromkeys(wanted.split(" ")))
    if not set(names) <= set(granted):
        raise InvalidScopeError
    return names
