"""Codes that give a sign-in on a page of the server to a page of the app, which exchanges them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo, Client, InvalidTokenError, MemberInfo, TokenFault
from pilotis.kit.errors import invalid
from pilotis.kit.ids import uuid7
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.members.gate.service import (
    Admission,
    DeletionPendingError,
    SecondFactorRequiredError,
    SignInNotAllowedError,
    returning,
)
from pilotis.members.hooks import Passes
from pilotis.members.service import Members
from pilotis.members.types import RETURN, Method, SignedIn
from pilotis.oauth import settings_store
from pilotis.oauth.flow.granting import REQUEST_PREFIX
from pilotis.oauth.flow.requests import is_challenge
from pilotis.security import single_use
from pilotis.security.audit.service import record
from pilotis.security.sessions.service import Sessions

PREFIX = "sc_"
LIFETIME_SECONDS = 60
_PURPOSE = "members.sign_in_code"
_VOUCHED: list[Method] = ["app"]


Verifies = Callable[[str], None]
"""Raises an error unless the caller has the verifier of a challenge."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that a code gives: whose it is, how and when it was proved, and the session that the exchange begins.

    `proven_at` is None where the exchange itself is the sign-in.
    """

    member_id: str
    session_id: UUID
    code_challenge: str
    methods: list[Method]
    level: int
    awaits: list[str]
    proven_at: datetime | None = None


class Taken(NamedTuple):
    """A sign-in that a page has taken over: its method, and the tokens or the error about a second factor."""

    method: str
    outcome: SignedIn | SecondFactorRequiredError


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

        Raises a validation error for another page, and `DeletionPendingError`.
        """
        if not await self.is_own_page(app.app_id, redirect_uri):
            message = "redirect_uri: exactly one of the app's login_redirect_uris is expected."
            raise invalid("redirect_uri", message, "INVALID_REDIRECT_URI")
        _require_challenge(code_challenge)
        minted = single_use.mint(PREFIX, app.app_id)
        async with self._database.transaction(app.app_id) as connection:
            proof = await self._sessions.proof_of(connection, app.app_id, member.session_id)
            if proof is None:
                raise InvalidTokenError(fault=TokenFault.REVOKED)
            if RETURN in proof.awaits:
                raise DeletionPendingError
            given = {
                "member_id": member.member_id,
                "session_id": str(uuid7()),
                "code_challenge": code_challenge,
                "methods": proof.methods,
                "level": proof.level,
                "awaits": list(proof.awaits),
                "proven_at": proof.proven_at and proof.proven_at.isoformat(),
            }
            lifetime = timedelta(seconds=LIFETIME_SECONDS)
            await single_use.put(connection, app.app_id, minted, _PURPOSE, given, lifetime)
        return _with_query(redirect_uri, [("code", minted.text), *([("state", state)] if state is not None else [])])

    async def vouch(self, app: AppInfo, actor: Actor, member_id: str, code_challenge: str, *, is_allowed: bool) -> str:
        """Return a code that signs a member in for which the app's own server vouches; recorded.

        Raises `MemberNotFoundError`, `SignInNotAllowedError`, and what `Gate.examine` does.
        """
        minted, session_id = single_use.mint(PREFIX, app.app_id), uuid7()
        async with self._database.transaction(app.app_id) as connection:
            try:
                entrant = await self._members.gate.lock(connection, app.app_id, member_id)
            except InvalidTokenError:
                raise MemberNotFoundError from None
            if not is_allowed:
                raise SignInNotAllowedError
            _require_challenge(code_challenge)
            self._members.gate.examine(app, entrant, _VOUCHED)
            given = {
                "member_id": member_id,
                "session_id": str(session_id),
                "code_challenge": code_challenge,
                "methods": _VOUCHED,
                "level": 1,
                "awaits": [],
            }
            lifetime = timedelta(seconds=LIFETIME_SECONDS)
            await single_use.put(connection, app.app_id, minted, _PURPOSE, given, lifetime)
            await record(connection, app.app_id, actor, "member.sign_in_code", member_id, session_id=session_id)
        return minted.text

    async def given(self, app_id: UUID, code: str) -> Given | None:
        """Return what a code that was used has given; None for another one."""
        data = await single_use.used_data(self._database, app_id, _PURPOSE, code)
        return None if data is None else msgspec.convert(data, Given)

    async def take(self, app: AppInfo, client: Client, code: str, verify: Verifies, agent: str | None) -> Taken | None:
        """Begin the session that a code gives; None for an unknown, used or expired one.

        Raises what `verify` does, and the errors of members that may not sign in, or not any more.
        """

        async def attempt(passes: Passes) -> Taken | None:
            async with self._database.transaction(app.app_id) as connection:
                data = await single_use.consume(connection, app.app_id, _PURPOSE, code)
                if data is None:
                    return None
                given = msgspec.convert(data, Given)
                verify(given.code_challenge)
                entrant = await self._members.gate.lock(connection, app.app_id, given.member_id)
                gate = self._members.gate
                if given.methods == _VOUCHED:
                    # The app vouches for the member, and so comes in as by any other way.
                    actor = Actor("member", given.member_id, client.request_id)
                    outcome: SignedIn | SecondFactorRequiredError = await gate.admit(
                        connection,
                        app,
                        actor,
                        entrant,
                        given.methods,
                        agent,
                        session_id=given.session_id,
                        passes=passes,
                    )
                else:
                    gate.examine(app, entrant, given.methods)
                    # It may have deleted its account since then.
                    given = msgspec.structs.replace(given, awaits=[*returning(entrant), *given.awaits])
                    outcome = await self._go_on(connection, app, given, entrant.nickname, agent)
                return Taken(given.methods[0], outcome)

        return await self._members.hooks.passing(app, client, attempt)

    async def _go_on(
        self, connection: Connection, app: AppInfo, given: Given, nickname: str | None, agent: str | None
    ) -> SignedIn:
        """Begin a second session, proved as and when the one from which the code comes: that has passed the gate."""
        admission = Admission(given.awaits, given.level, needs_factor=False)
        tokens = await self._members.gate.start(
            connection,
            app,
            given.member_id,
            given.methods,
            admission,
            agent,
            given.session_id,
            proven_at=given.proven_at,
        )
        return SignedIn(
            member_id=given.member_id,
            nickname=nickname,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token,
        )


def _require_challenge(text: str) -> None:
    if not is_challenge(text):
        message = "code_challenge: the SHA-256 of the verifier in base64url is expected."
        raise invalid("code_challenge", message, "INVALID_CODE_CHALLENGE")


def _with_query(url: str, pairs: Sequence[tuple[str, str]]) -> str:
    base, mark, fragment = url.partition("#")
    joined = "&" if urlsplit(base).query else "?"
    return f"{base}{joined}{urlencode(pairs)}{mark}{fragment}"
