"""Shared by the decisions with and without a question: find the session, and create a grant with its code."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.kit.crypto import secret_hash
from pilotis.kit.ids import uuid7
from pilotis.oauth.flow import store
from pilotis.oauth.flow.records import BrowserSession
from pilotis.oauth.flow.requests import AuthorizationRequest
from pilotis.oauth.parameters import CODE_PREFIX
from pilotis.oauth.records import KnownClient
from pilotis.oauth.tokens.records import MULTI_FACTOR
from pilotis.oauth.tokens.store import NewGrant, insert_grant
from pilotis.security.single_use import mint

PROVIDER_COOKIE = "__Host-op-"
REQUEST_COOKIE = "__Host-oa-"
REQUEST_PREFIX = "req_"


async def begin_grant(
    connection: Connection,
    issuer: str,
    client: KnownClient,
    request: AuthorizationRequest,
    scopes: list[str],
    member_id: str,
    session_id: UUID,
    auth_time: datetime,
    method: str,
    level: int,
    consent_id: UUID | None,
) -> str:
    """Insert a grant and return the client's redirect URI with its code."""
    code = mint(CODE_PREFIX, client.app_id)
    new = NewGrant(
        app_id=client.app_id,
        grant_id=uuid7(),
        client_id=client.client_id,
        member_id=member_id,
        session_id=session_id,
        consent_id=consent_id,
        is_offline="offline_access" in scopes or "openid" not in scopes,
        scopes=scopes,
        resources=request.resources,
        issuer=issuer,
        auth_time=auth_time,
        amr=[method] if level == 1 else [method, MULTI_FACTOR],
        code_hash=code.hash,
        redirect_uri=request.redirect_uri,
        code_challenge=request.code_challenge,
        nonce=request.nonce,
        jkt=request.dpop_jkt,
    )
    await insert_grant(connection, new)
    return request.answer(issuer, code=code.text)


async def signed_in(database: Database, app_id: UUID, cookies: Mapping[str, str]) -> BrowserSession | None:
    """Return the member that is signed in with the provider in a browser, by its cookies, or None."""
    cookie = cookies.get(PROVIDER_COOKIE + app_id.hex)
    return None if cookie is None else await store.browser_session(database, app_id, secret_hash(cookie))


def request_cookie(request_hash: bytes) -> str:
    """Return the name of the cookie of the browser that started a request."""
    return REQUEST_COOKIE + request_hash.hex()
