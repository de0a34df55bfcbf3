"""The route of imported members."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

from pilotis.accounts.imports.service import Imports
from pilotis.accounts.imports.types import ImportedMembers
from pilotis.http.api.endpoint import Endpoints, post
from pilotis.http.api.principals import Role, console
from pilotis.http.api.request import Call
from pilotis.kit.errors import PayloadTooLargeError


class ImportEndpoints(Endpoints, tag="App member administration"):
    """Members that come from another product."""

    def __init__(self, imports: Imports) -> None:
        self._imports = imports

    @post(
        "/v1/apps/:app_id/members/import",
        access=console(Role.EDITOR, secret_key=True, scope="members:write"),
        errors=[PayloadTooLargeError],
    )
    async def import_(self, call: Call, app_id: UUID, body: AsyncIterator[bytes]) -> ImportedMembers:
        """Import members of another product, with the hashes of their passwords: JSON lines, at most 1,000.

        Each line is a member, with `login_id` or `email`, and `password_hash` of bcrypt, argon2, scrypt, PBKDF2 or
        Firebase's scrypt; see the guide to accounts. A password is hashed again when its member signs in.
        """
        return await self._imports.run(call.app, call.actor, body)
