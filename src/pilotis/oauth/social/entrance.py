"""How an account at a vendor signs in: as the member that it is linked to or is linked to now, or as a new one.

Each way by which a vendor recognises somebody ends here, so that all link accounts by the same rules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from asyncpg import Connection

from pilotis.http.api.principals import Actor, AppInfo, Client, InvalidTokenError
from pilotis.kit.mail_addresses import folded
from pilotis.members.arrivals.types import MemberRows
from pilotis.members.gate.service import SecondFactorRequiredError
from pilotis.members.hooks import Passes
from pilotis.members.service import EmailTakenError, Members
from pilotis.members.types import SignedIn
from pilotis.oauth.social import store
from pilotis.oauth.social.errors import IdentityTakenError
from pilotis.oauth.social.vendors import Profile

_ATTEMPTS = 3

R = TypeVar("R")


class RacedError(Exception):
    """The account at the vendor has been linked to a member, or its member has been deleted, concurrently."""


class Arrival(NamedTuple):
    """Who has been recognised, and what for: `member_id` is a member that links the account, or a guest."""

    provider: str
    account: Profile
    member_id: str | None
    session_id: UUID
    """The id of the session that begins."""
    profile: Mapping[str, Any]
    """What the page says for the rows that are made with a new member."""


class Entered(NamedTuple):
    """What came of it: the tokens, or the error about a second factor; see `Gate.admit`."""

    outcome: SignedIn | SecondFactorRequiredError
    is_new: bool


class Entrance:
    """Lets accounts at vendors in."""

    def __init__(self, members: Members) -> None:
        self._members = members

    async def attempt(
        self, app: AppInfo, client: Client, within: Callable[[Passes, MemberRows], Awaitable[R]]
    ) -> R | None:
        """Run a transaction that calls `enter`, again where another sign-in with the account has come first.

        None if that happens three times in a row. Raises what the transaction does, and what the app's hooks do.
        """

        async def run(passes: Passes) -> R:
            return await self._members.arrivals.making(app, passes.rows, partial(within, passes))

        for _ in range(_ATTEMPTS):
            try:
                return await self._members.hooks.passing(app, client, run)
            except (RacedError, EmailTakenError):
                continue
        return None

    async def enter(
        self,
        connection: Connection,
        app: AppInfo,
        client: Client,
        arrival: Arrival,
        agent: str | None,
        passes: Passes,
        rows: MemberRows,
    ) -> Entered:
        """Sign an account's member in, in the caller's transaction.

        Raises `IdentityTakenError` for an account of another member than the one that links it, and what
        `Members.sign_in_elsewhere` does.
        """
        account = arrival.account
        known = await store.linked_member(connection, app.app_id, arrival.provider, account.subject)
        if known is not None and arrival.member_id not in {None, known}:
            raise IdentityTakenError
        member_id = known or arrival.member_id or await self._member_by_email(connection, app.app_id, account)
        try:
            outcome, linked = await self._members.sign_in_elsewhere(
                connection,
                app,
                Actor("public", None, client.request_id),
                arrival.provider.lower(),
                member_id,
                account.name,
                account.email if account.email_verified else None,
                arrival.session_id,
                agent,
                passes,
                rows,
                arrival.profile,
            )
        except InvalidTokenError:
            # The account's member was deleted after it was found; who links an account is told so.
            if arrival.member_id is None:
                raise RacedError from None
            raise
        if known is None:
            await self._link(connection, app.app_id, arrival, linked)
        elif known != await store.use_identity(
            connection, app.app_id, arrival.provider, account.subject, account.email, account.email_verified
        ):
            raise RacedError
        return Entered(outcome, member_id is None)

    async def _member_by_email(self, connection: Connection, app_id: UUID, account: Profile) -> str | None:
        """Return the member with an address that a mail or another vendor has verified, if the app links by address.

        A login_id never counts: anyone who signs up first with another person's address would get that person's
        account.
        """
        if account.email is None or not account.email_verified or not await store.links_by_email(connection, app_id):
            return None
        owner = await self._members.by_email(connection, app_id, folded(account.email))
        return owner.member_id if owner else await store.member_with_email(connection, app_id, account.email)

    async def _link(self, connection: Connection, app_id: UUID, arrival: Arrival, member_id: str) -> None:
        """Link the account at the vendor to the member; raises `RacedError` if it has just been linked."""
        account = arrival.account
        inserted = await store.insert_identity(
            connection,
            app_id,
            arrival.provider,
            account.subject,
            member_id,
            account.email,
            account.email_verified,
            account.picture,
        )
        if not inserted:
            raise RacedError
