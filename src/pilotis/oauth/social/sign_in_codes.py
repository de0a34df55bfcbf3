"""Codes that give a sign-in on a page of the server to a page of the app, which exchanges them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import UUID

import msgspec

from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo, InvalidTokenError, MemberInfo, TokenFault
from pilotis.kit.errors import invalid
from pilotis.kit.ids import uuid7
from pilotis.members.gate.service import Admission
from pilotis.members.service import Members
from pilotis.members.types import Method
from pilotis.oauth import settings_store
from pilotis.oauth.flow.granting import REQUEST_PREFIX
from pilotis.oauth.flow.requests import is_challenge
from pilotis.security import single_use
from pilotis.security.sessions.service import Sessions, TokenPair

PREFIX = "sc_"
LIFETIME_SECONDS = 60
_PURPOSE = "members.sign_in_code"


Verifies = Callable[[str], None]
"""Raises an error unless the caller has the verifier of a challenge."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that a code gives: whose it is, how it was proved, and the session that the exchange begins."""

    member_id: str
    session_id: UUID
    code_challenge: str
    methods: list[Method]
    level: int
    awaits: list[str]


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that a page has taken over."""

    member_id: str
    nickname: str | None
    method: str
    tokens: TokenPair


class SignInCodes:
    """Gives sign-ins to pages, and lets them take those over."""

    lifetime_seconds = LIFETIME_SECONDS

    def __init__(self, database: Database, members: Members, sessions: Sessions, consent_page: str) -> None:
        """`consent_page` is the address of the server's own, without its query."""
        self._database = database
        self._members = members
        self._sessions = sessions
        self._consent_page = consent_page

    async def is_own_page(self, app_id: UUID, uri: str) -> bool:
        """Return whether a page may receive the tokens of an app's members.

        It is one of the app's `login_redirect_uris`, or the server's consent page about a request to the app.
        """
        page, _, query = uri.partition("?")
        if page == self._consent_page and "#" not in query:
            asked = parse_qs(query).get("request_id", [""])
            return [single_use.app_of(REQUEST_PREFIX, one) for one in asked] == [app_id]
        row = await settings_store.settings(self._database, app_id)
        return row is not None and uri in row.login_redirect_uris

    async def give(
        self, app: AppInfo, member: MemberInfo, redirect_uri: str, code_challenge: str, state: str | None
    ) -> str:
        """Return the address at which a page of the app takes over the member's session.

        Raises a validation error for another page.
        """
        if not await self.is_own_page(app.app_id, redirect_uri):
            message = "redirect_uri: exactly one of the app's login_redirect_uris is expected."
            raise invalid("redirect_uri", message, "INVALID_REDIRECT_URI")
        if not is_challenge(code_challenge):
            message = "code_challenge: the SHA-256 of the verifier in base64url is expected."
            raise invalid("code_challenge", message, "INVALID_CODE_CHALLENGE")
        minted = single_use.mint(PREFIX, app.app_id)
        async with self._database.transaction(app.app_id) as connection:
            proof = await self._sessions.proof_of(connection, app.app_id, member.session_id)
            if proof is None:
                raise InvalidTokenError(fault=TokenFault.REVOKED)
            given = {
                "member_id": member.member_id,
                "session_id": str(uuid7()),
                "code_challenge": code_challenge,
                "methods": proof.methods,
                "level": proof.level,
                "awaits": list(proof.awaits),
            }
            lifetime = timedelta(seconds=LIFETIME_SECONDS)
            await single_use.put(connection, app.app_id, minted, _PURPOSE, given, lifetime)
        return _with_query(redirect_uri, [("code", minted.text), *([("state", state)] if state is not None else [])])

    async def given(self, app_id: UUID, code: str) -> Given | None:
        """Return what a code that was used has given; None for another one."""
        data = await single_use.used_data(self._database, app_id, _PURPOSE, code)
        return None if data is None else msgspec.convert(data, Given)

    async def take(self, app: AppInfo, code: str, is_verified: Verifies, agent: str | None) -> Taken | None:
        """Begin the session that a code gives; None for an unknown, used or expired one, or with a wrong verifier.

        Raises the errors of members that may not sign in any more.
        """
        async with self._database.transaction(app.app_id) as connection:
            data = await single_use.consume(connection, app.app_id, _PURPOSE, code)
            if data is None:
                return None
            given = msgspec.convert(data, Given)
            is_verified(given.code_challenge)
            entrant = await self._members.gate.lock(connection, app.app_id, given.member_id)
            self._members.gate.examine(app, entrant, given.methods)
            admission = Admission(given.awaits, given.level, needs_factor=False)
            tokens = await self._members.gate.start(
                connection, app, given.member_id, given.methods, admission, agent, given.session_id
            )
        return Taken(member_id=given.member_id, nickname=entrant.nickname, method=given.methods[0], tokens=tokens)


def _with_query(url: str, pairs: Sequence[tuple[str, str]]) -> str:
    base, mark, fragment = url.partition("#")
    joined = "&" if urlsplit(base).query else "?"
    return f"{base}{joined}{urlencode(pairs)}{mark}{fragment}"
