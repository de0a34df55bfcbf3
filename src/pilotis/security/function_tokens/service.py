"""Tokens with which a running function calls the API over HTTP, for libraries that cannot use `ctx.api`.

A token is what `ctx.api` is: the function, in one execution, within its scopes. It is signed, and it is valid only
while the table has its execution, so it ends with the execution on every node; `exp` is the execution's deadline, for
the case that the process dies.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from uuid import UUID

from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo, FunctionCaller, InvalidTokenError
from pilotis.kit.errors import NotFoundError, PilotisError
from pilotis.kit.signing import FunctionAccess, TokenError, TokenKind, TokenSigner, looks_like
from pilotis.security.function_tokens import store

MAX_USES = 1000
"""The maximum number of requests with the token of one execution."""


class FunctionUsesError(PilotisError):
    """429 `LIMIT_REACHED`: the token of a function was used for 1,000 requests."""

    status = 429
    code = "LIMIT_REACHED"
    message = f"A call of a function may call the API {MAX_USES} times with its token."


class FunctionTokens:
    """Issues, verifies and ends the tokens of functions. `app_of` returns an app, or raises `NotFoundError`."""

    def __init__(self, database: Database, signer: TokenSigner, app_of: Callable[[UUID], Awaitable[AppInfo]]) -> None:
        self._database = database
        self._signer = signer
        self._app_of = app_of

    async def issue(self, caller: FunctionCaller, seconds: float) -> str:
        """Return a token of an execution that ends within these seconds."""
        app_id, now = caller.app.app_id, time.time()
        await store.insert(self._database, app_id, caller.execution_id, seconds)
        return self._signer.sign_as(
            FunctionAccess(
                app_id=app_id,
                iat=int(now),
                exp=math.ceil(now + seconds),
                sub=caller.function_id,
                eid=caller.execution_id,
                scp=tuple(sorted(caller.scopes)),
                depth=caller.depth,
            )
        )

    async def end(self, app_id: UUID, execution_id: UUID) -> None:
        """End the token of an execution."""
        await store.delete(self._database, app_id, execution_id)

    @staticmethod
    def is_one(token: str) -> bool:
        """Return whether a token claims to be a function's. This proves nothing."""
        return looks_like(TokenKind.FUNCTION_ACCESS, token)

    async def authenticate(self, token: str) -> FunctionCaller:
        """Return the function of a token, and count the use; raises `InvalidTokenError`, `FunctionUsesError`."""
        try:
            claims = self._signer.verify_as(FunctionAccess, token, time.time())
            app = await self._app_of(claims.app_id)
        except (TokenError, NotFoundError):
            raise InvalidTokenError from None
        uses = await store.count_use(self._database, claims.app_id, claims.eid)
        if uses is None:
            raise InvalidTokenError("The call of the function that had this token has ended.")
        if uses > MAX_USES:
            raise FunctionUsesError
        return FunctionCaller(
            app=app,
            function_id=claims.sub,
            execution_id=claims.eid,
            scopes=frozenset(claims.scp),
            depth=claims.depth,
        )
