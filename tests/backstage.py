"""What an operator can do without the server: read its database, and sign tokens with its master key."""

import time
from typing import Any

import asyncpg
import httpx
import msgspec
from joserfc import jwt
from joserfc.jwk import OctKey

from pilotis.kit.crypto import derive_key, from_base64url
from pilotis.kit.signing import ISSUER, TokenKind
from tests import databases
from tests.support import Server, plain_client


async def run_sql(server: Server, statement: str, *arguments: Any) -> Any:
    """Run a statement on the server's database and return the first value of its answer."""
    connection = await asyncpg.connect(**databases.address(server.data_dir))
    try:
        return await connection.fetchval(statement, *arguments)
    finally:
        await connection.close()


def claims_of(token: str) -> dict[str, Any]:
    """Return a token's claims without verifying it."""
    return msgspec.json.decode(from_base64url(token.split(".")[1]))


def master_key(server: Server) -> bytes:
    """Return the server's master key."""
    return bytes.fromhex((server.data_dir / "master.key").read_text())


def mint(server: Server, kind: TokenKind, *, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """Sign any claims under any header with the key the server itself uses for a kind of token.

    A claim that is None is left out.
    """
    key = OctKey.import_key(derive_key(master_key(server), f"token/{kind.value}"))
    now = int(time.time())
    base = {"iss": ISSUER, "aud": kind.audience, "typ": kind.value, "iat": now, "exp": now + 3600}
    given = {name: value for name, value in (base | claims).items() if value is not None}
    return jwt.encode(header or {"alg": "HS256", "typ": "JWT"}, given, key)


def bearer(token: str) -> dict[str, str]:
    """Return the header that carries a token."""
    return {"Authorization": f"Bearer {token}"}


async def me(server: Server, token: str) -> httpx.Response:
    """Read the own record with a member's access token."""
    async with plain_client(server.url) as client:
        return await client.get("/v1/public/app-members/me", headers=bearer(token))
