"""The one gate: each way in ends here, with the methods by which the member has proved who it is.

The gate alone decides whether that is enough, whether a second factor is asked for, and what the session has to wait
for, and so it alone starts sessions of members.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.http.api.principals import Actor, AppInfo, Client, InvalidTokenError, TokenFault
from pilotis.kit import clock
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import secret_hash
from pilotis.kit.errors import ForbiddenError, UnauthorizedError
from pilotis.kit.ids import uuid7
from pilotis.members import events, store
from pilotis.members.events import MemberData
from pilotis.members.gate import store as ticket_store
from pilotis.members.gate.store import Ticket
from pilotis.members.hooks import Passes
from pilotis.members.records import Entrant
from pilotis.members.types import RETURN, Method, SignedIn
from pilotis.security.sessions.service import Proof, SessionOrigin, Sessions, TokenPair
from pilotis.security.single_use import app_of, mint

TICKET_LIFETIME = timedelta(minutes=10)
_TICKET_PREFIX = "sf_"
# Each counts as two factors together with what came before it, a passkey also alone: it asks for the user's finger,
# face or code.
_STRONG: frozenset[str] = frozenset(("passkey", "totp", "recovery_code"))
_MAILED: Method = "email_code"
_AMR = {"password": "pwd", "social": "fed", "email_code": "otp", "email_link": "otp", "passkey": "hwk", "app": "fed"}


class MemberInactiveError(ForbiddenError):
    """403: the member has been deactivated."""

    code = "MEMBER_INACTIVE"
    message = "This member has been deactivated."


class DeletionPendingError(ForbiddenError):
    """403: the session is provisional: the member has deleted its account, and may still come back."""

    code = "DELETION_PENDING"
    message = "This account will be deleted. To keep it, call /v1/public/app-members/me/restore."


class MemberBannedError(ForbiddenError):
    """403: the member may not sign in until the time in `until`."""

    code = "MEMBER_BANNED"
    message = "This member may not sign in for some time."

    def __init__(self, until: datetime) -> None:
        super().__init__()
        self.extra = {"until": rfc3339(until)}


class SignInNotAllowedError(ForbiddenError):
    """403: signing members in takes a secret key that an owner has created with `may_sign_in_members`."""

    code = "SIGN_IN_NOT_ALLOWED"
    message = "Send a secret key that may sign members in; an owner creates it with may_sign_in_members."


class EmailNotVerifiedError(ForbiddenError):
    """403: the session is provisional: the app requires a verified address, and the member has none yet."""

    code = "EMAIL_NOT_VERIFIED"
    message = "Verify an e-mail address first: this app requires one."


class SecondFactorEnrolmentRequiredError(ForbiddenError):
    """403: the session is provisional: the app requires a second factor, and the member has set up none yet."""

    code = "SECOND_FACTOR_ENROLMENT_REQUIRED"
    message = "Set up a second factor first: this app requires one."


class SecondFactorRequiredError(UnauthorizedError):
    """401: the sign-in takes a second factor: send it with `ticket` to `second-factor`; `factors` are the member's."""

    code = "SECOND_FACTOR_REQUIRED"
    message = "Send a second factor with this ticket to /v1/public/app-members/second-factor."

    def __init__(self, ticket: str, factors: Sequence[str], expires_at: datetime, route: str | None = None) -> None:
        super().__init__(f"Send a second factor with this ticket to {route}." if route else None)
        self.extra = {"ticket": ticket, "factors": list(factors), "expires_at": rfc3339(expires_at)}


class Admission(NamedTuple):
    """What the gate decides: a session, which perhaps awaits proofs, or that a second factor is needed."""

    awaits: list[str]
    level: int
    needs_factor: bool

    @property
    def is_plain(self) -> bool:
        """Whether it is a session as any other."""
        return not self.awaits and self.level == 1 and not self.needs_factor


class Gate:
    """Decides on sign-ins, and starts sessions."""

    def __init__(self, database: Database, sessions: Sessions, emitter: Events) -> None:
        self._database = database
        self._sessions = sessions
        self._events = emitter

    def examine(self, app: AppInfo, entrant: Entrant, methods: Sequence[Method]) -> Admission:
        """Decide on a member that has proved who it is; raises `MemberInactiveError` or `MemberBannedError`."""
        if not entrant.is_active and entrant.deletes_at is None:
            raise MemberInactiveError
        if entrant.banned_until is not None and entrant.banned_until > clock.now():
            raise MemberBannedError(entrant.banned_until)
        level = 2 if _STRONG & set(methods) else 1
        accepted = _accepted(app, entrant, methods[0])
        required = app.accounts.second_factor == "required" and not entrant.is_guest
        has_factor = "totp" in accepted or (required and bool(accepted))
        # A mailed code is the second factor only where it comes second.
        is_done = level == 2 or (accepted == [_MAILED] and _MAILED in methods[1:])
        return Admission(
            awaits=returning(entrant)
            + ([] if entrant.is_guest else _awaited(app, entrant.email, has_factor=is_done or has_factor)),
            level=level,
            needs_factor=has_factor and not is_done,
        )

    async def lock(self, connection: Connection, app_id: UUID, member_id: str) -> Entrant:
        """Return a member that signs in, which nobody changes until the transaction ends.

        Raises `InvalidTokenError` if it has been deleted.
        """
        entrant = await store.lock_entrant(connection, app_id, member_id)
        if entrant is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        return entrant

    async def admit(
        self,
        connection: Connection,
        app: AppInfo,
        actor: Actor,
        entrant: Entrant,
        methods: Sequence[Method],
        agent: str | None,
        *,
        session_id: UUID | None = None,
        provider: str | None = None,
        is_new: bool = False,
        passes: Passes,
    ) -> SignedIn | SecondFactorRequiredError:
        """Sign in a locked member in the caller's transaction, and emit the event unless the member is new.

        Returns the error about a second factor instead of raising it, because its ticket must be committed: see
        `settled`. `provider` is the vendor of a social sign-in, for the event. Raises `HookDueError`.
        """
        admission = self.examine(app, entrant, methods)
        if not is_new:
            self.require_pass(app, entrant, methods, passes)
        session_id = session_id or uuid7()
        if admission.needs_factor:
            return await self._ticket(connection, app, entrant, methods, session_id)
        if not is_new:
            member = MemberData(entrant.member_id, entrant.nickname, entrant.is_guest, entrant.is_active)
            event = events.signed_in(actor, member, provider or methods[0])
            await self._events.emit_all(connection, app.app_id, [event])
        tokens = await self.start(connection, app, entrant.member_id, methods, admission, agent, session_id)
        return SignedIn(
            member_id=entrant.member_id,
            nickname=entrant.nickname,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token,
        )

    async def complete(
        self,
        connection: Connection,
        app: AppInfo,
        client: Client,
        ticket: Ticket,
        entrant: Entrant,
        method: Method,
        agent: str | None,
    ) -> SignedIn | SecondFactorRequiredError | None:
        """Finish the sign-in of a ticket that was used, by a second factor; see `admit`.

        None for a factor that the app does not accept.
        """
        if method not in _accepted(app, entrant, ticket.proven[0]):
            return None
        actor = Actor("member", ticket.member_id, client.request_id)
        methods: list[Method] = [*ticket.proven, method]
        passes = Passes(ticket.member_id)
        return await self.admit(
            connection, app, actor, entrant, methods, agent, session_id=ticket.session_id, passes=passes
        )

    def accepts_mail(self, app: AppInfo, entrant: Entrant, ticket: Ticket) -> bool:
        """Return whether a mailed code finishes the sign-in of a ticket."""
        return _MAILED in _accepted(app, entrant, ticket.proven[0])

    def require_pass(self, app: AppInfo, entrant: Entrant, methods: Sequence[Method], passes: Passes) -> None:
        """Raise `HookDueError` unless the app's hook lets the member in."""
        payload = {"email": entrant.email, "nickname": entrant.nickname, "method": methods[0]}
        passes.require_sign_in(app, entrant.member_id, payload)

    async def start(
        self,
        connection: Connection,
        app: AppInfo,
        member_id: str,
        methods: Sequence[Method],
        admission: Admission,
        agent: str | None,
        session_id: UUID,
        *,
        is_guest: bool = False,
        proven_at: datetime | None = None,
    ) -> TokenPair:
        """Start a session of a member as the gate has decided; `proven_at` is when the member signed in, if earlier."""
        return await self._sessions.start(
            connection,
            app.app_id,
            member_id,
            app.limits,
            SessionOrigin(None, agent),
            is_guest=is_guest,
            session_id=session_id,
            method=_AMR.get(methods[0], "pwd"),
            proof=Proof(list(methods), admission.level, admission.awaits, proven_at),
        )

    def newcomer(self, app: AppInfo, *, is_guest: bool = False, email: str | None = None) -> Admission:
        """Decide on a member that signs up; `email` is verified."""
        return Admission([] if is_guest else _awaited(app, email, has_factor=False), 1, False)

    async def _ticket(
        self, connection: Connection, app: AppInfo, entrant: Entrant, methods: Sequence[Method], session_id: UUID
    ) -> SecondFactorRequiredError:
        minted = mint(_TICKET_PREFIX, app.app_id)
        expires_at = await ticket_store.insert(
            connection,
            app.app_id,
            minted.hash,
            entrant.member_id,
            session_id,
            methods,
            password_version(entrant.password_hash),
            TICKET_LIFETIME,
        )
        return SecondFactorRequiredError(minted.text, _accepted(app, entrant, methods[0]), expires_at)

    async def count_try(self, app_id: UUID, text: str) -> Ticket | None:
        """Count a try of a ticket and return it; None for an unknown or expired one, or after five tries."""
        if app_of(_TICKET_PREFIX, text) != app_id:
            return None
        return await ticket_store.count_try(self._database, app_id, secret_hash(text))

    async def challenge(self, app_id: UUID, text: str, challenge: bytes) -> Ticket | None:
        """Set what a passkey has to sign for a ticket, and return it; None for an unknown or expired one."""
        ticket = await self.read(app_id, text)
        if ticket is not None:
            await ticket_store.set_challenge(self._database, app_id, ticket.ticket_hash, challenge)
        return ticket

    async def read(self, app_id: UUID, text: str) -> Ticket | None:
        """Return a ticket without a try; None for an unknown or expired one, or after five tries."""
        if app_of(_TICKET_PREFIX, text) != app_id:
            return None
        return await ticket_store.read(self._database, app_id, secret_hash(text))

    async def use(self, connection: Connection, app_id: UUID, ticket: Ticket) -> Entrant | None:
        """Use a ticket and return its locked member; None if it was used, or if the password has changed."""
        entrant = await store.lock_entrant(connection, app_id, ticket.member_id)
        is_same = entrant is not None and password_version(entrant.password_hash) == ticket.password_version
        return entrant if is_same and await ticket_store.use(connection, app_id, ticket.ticket_hash) else None

    async def end_tickets(self, connection: Connection, app_id: UUID, member_id: str) -> None:
        """End all sign-ins of a member that wait for a second factor."""
        await ticket_store.end_of_member(connection, app_id, member_id)


def settled(entered: SignedIn | SecondFactorRequiredError) -> SignedIn:
    """Return who was signed in; raises the error about a second factor, after the transaction with its ticket."""
    if isinstance(entered, SecondFactorRequiredError):
        raise entered
    return entered


def password_version(password_hash: str | None) -> bytes:
    """Return what changes with a member's password."""
    return hashlib.sha256((password_hash or "").encode()).digest()


def require_complete(awaits: Sequence[str]) -> None:
    """Raise the error of a provisional session."""
    if RETURN in awaits:
        raise DeletionPendingError
    if "email" in awaits:
        raise EmailNotVerifiedError
    if "factor" in awaits:
        raise SecondFactorEnrolmentRequiredError


def _accepted(app: AppInfo, entrant: Entrant, first: Method) -> list[str]:
    """Return the second factors of a member that the app accepts after a first one.

    A code by mail adds nothing to what a mail has proved, nor to an authenticator app that the member prefers.
    """
    named = app.accounts.second_factors
    accepted: list[str] = [factor for factor in entrant.factors if factor in named]
    is_mail = first in {"email_code", "email_link"} or (first == "password" and entrant.password_by_mail)
    if _MAILED in named and entrant.email is not None and not is_mail and not accepted:
        accepted.append(_MAILED)
    return accepted


def returning(entrant: Entrant) -> list[str]:
    """Return what the sessions of a member await that has deleted its account: that it comes back."""
    return [] if entrant.deletes_at is None else [RETURN]


def _awaited(app: AppInfo, email: str | None, *, has_factor: bool) -> list[str]:
    awaits = []
    if app.accounts.email_verification == "required" and email is None:
        awaits.append("email")
    if app.accounts.second_factor == "required" and not has_factor:
        awaits.append("factor")
    return awaits
