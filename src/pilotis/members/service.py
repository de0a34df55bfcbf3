"""App members: sign-up, sign-in, guests and their promotion, and a member's own record."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.db.batching import Batchers
from pilotis.db.locks import lock_app
from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.events.types import encoded
from pilotis.http.api.principals import (
    SYSTEM,
    Actor,
    AppInfo,
    Client,
    ImpersonationNotAllowedError,
    InTeam,
    InvalidPublicKeyError,
    InvalidTokenError,
    MemberInfo,
    Presumption,
    TokenFault,
)
from pilotis.kit import json
from pilotis.kit.account_settings import ChallengedAction, Remains, SignUpMethod
from pilotis.kit.addresses import one_client
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    PayloadTooLargeError,
    UnauthorizedError,
    invalid,
)
from pilotis.kit.foreign_passwords import is_foreign
from pilotis.kit.ids import uuid7, uuid7_text
from pilotis.kit.languages import Language
from pilotis.kit.mail_addresses import folded, is_address
from pilotis.kit.passwords import Passwords
from pilotis.kit.signing import Claims
from pilotis.limits import Limits
from pilotis.members import events, records, store
from pilotis.members.arrivals.service import Arrivals, require_profile
from pilotis.members.arrivals.types import MemberRows, Newcomer
from pilotis.members.challenges.service import Challenges
from pilotis.members.events import MemberData
from pilotis.members.gate.service import (
    Gate,
    MemberInactiveError,
    SecondFactorRequiredError,
    require_complete,
    settled,
)
from pilotis.members.hooks import Hooks, Passes, Verdict
from pilotis.members.invitations.types import Invitations, Invited, TokenExpiredError
from pilotis.members.known_devices.service import KnownDevices
from pilotis.members.password_rules import PasswordRules
from pilotis.members.records import AccountState, Facts, MailedAccount, SessionMember
from pilotis.members.types import (
    RETURN,
    Account,
    AccountDeletion,
    CurrentMember,
    CustomDataResult,
    Method,
    NewRecord,
    PasswordChange,
    SignedIn,
    SignedInGuest,
    SignIn,
    SignUp,
)
from pilotis.security.audit.service import record
from pilotis.security.rate_limits import RateLimits, sign_in_key
from pilotis.security.sessions.service import Sessions, TokenPair

GUEST_PREFIX = "guest_"
NO_SESSION = UUID(int=0)
"""In the place of the session of a member that has not signed in."""
# A patch that deletes every key and sets as much again is about two and a half times as large as the result.
_MAX_PATCH_FACTOR = 4

_CLAIMS_BYTES, _CLAIMS_DEPTH = 4096, 4
_BAD_ADDRESS = "INVALID_EMAIL"
_WAYS: Mapping[SignUpMethod, str] = {
    "password": "with a password",
    "email": "by mail",
    "social": "with an account elsewhere",
    "guest": "as a guest",
}
_F = TypeVar("_F", bound=Facts)

# The Bidi_Control characters, and those of no width among Default_Ignorable_Code_Point (Unicode, PropList and
# DerivedCoreProperties).
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


class LoginIdTakenError(ConflictError):
    """409: another member of the app has this login_id."""

    code = "LOGIN_ID_TAKEN"
    message = "This login_id is taken. Choose another one."


class InvalidCredentialsError(UnauthorizedError):
    """401: the login_id is unknown or the password is wrong; the answer does not say which."""

    code = "INVALID_CREDENTIALS"
    message = "The login_id or the password is wrong."


class LoginDisabledError(ForbiddenError):
    """403: this sign-in method is disabled for the app."""

    code = "LOGIN_DISABLED"
    message = "This sign-in method is disabled for this app."


class SignUpClosedError(ForbiddenError):
    """403: members of this app do not make themselves, or not in this way: the app's own side creates them."""

    code = "SIGN_UP_CLOSED"
    message = "This app creates its members itself: nobody can sign up."


class NotAGuestError(ConflictError):
    """409: only a guest can be promoted by signing up, and only once."""

    code = "NOT_A_GUEST"
    message = "The token's member is not a guest. Sign up without a token to create another member."


class MemberIdTakenError(ConflictError):
    """409: a member with this id exists already, in this app."""

    code = "MEMBER_ID_TAKEN"
    message = "The app has a member with this id already."


class AddressTakenError(ConflictError):
    """409: the address is another member's; only the app's own side is told."""

    code = "EMAIL_TAKEN"
    message = "This e-mail address is another member's."


class WrongPasswordError(ForbiddenError):
    """403: the current password in the request is wrong."""

    code = "WRONG_PASSWORD"
    message = "The current password is wrong."


class NoDeletionPendingError(ConflictError):
    """409: the member has not deleted its account, or it was restored before."""

    code = "NO_DELETION_PENDING"
    message = "This account is not about to be deleted."


class NoPasswordError(ConflictError):
    """409: the member has no password, such as a guest."""

    code = "NO_PASSWORD"
    message = "This member has no password: a guest gets one by signing up."


_DUE_BATCH = 500
Farewell = Callable[[Connection, str, Language | None, timedelta | None], Awaitable[None]]
"""Mails to an address that its account is deleted, or will be after a time in which it may come back."""


class Telling(Protocol):
    """Tells a member that it is deleted, or will be after a time in which it may come back."""

    def __call__(self, connection: Connection, member_id: str, grace: timedelta | None = None) -> Awaitable[None]:
        """Write the mail, if the member has a verified address, in the caller's transaction."""


"""Mails to an address, in a language, that the account which had it is deleted."""


class EmailTakenError(Exception):
    """Another member of the app has the verified address."""


class EmailClaim(NamedTuple):
    """An address that a new member names; `network` is where the sign-up comes from."""

    app_id: UUID
    member_id: str
    session_id: UUID
    email: str
    language: Language | None
    network: str


class _Joining(NamedTuple):
    """A sign-up with a password, after all that is done before its transaction; `email` may be an invitation's."""

    member_id: str
    login_id: str
    email: str | None
    password_hash: str
    given: Verdict
    guest: MemberInfo | None
    new: SignUp
    agent: str | None
    accepted: Language | None


Claim = Callable[[Connection, AppInfo, Actor, str, str, str | None], Awaitable[None]]
"""Gives a member its address and a password, or none, and ends all by which its earlier holder could come back."""


class NoRobot(NamedTuple):
    """What a sign-in sends along against robots: a solved challenge, or the token of a device."""

    solution: str | None
    device: str | None


class Members:
    """Operations of members on their own accounts."""

    def __init__(
        self,
        database: Database,
        sessions: Sessions,
        passwords: Passwords,
        rate_limits: RateLimits,
        emitter: Events,
        password_rules: PasswordRules | None = None,
        challenges: Challenges | None = None,
        devices: KnownDevices | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self._challenges = challenges
        self._devices = devices
        self._database = database
        self._sessions = sessions
        self._passwords = passwords
        self._rate_limits = rate_limits
        self._events = emitter
        self.gate = Gate(database, sessions, emitter)
        self.hooks = hooks or Hooks()
        self.arrivals = Arrivals()
        self.password_rules = password_rules or PasswordRules(None, None)
        self._claimed: Callable[[Connection, EmailClaim], Awaitable[None]] | None = None
        self._verified: Callable[[Connection, UUID, str], Awaitable[None]] | None = None
        self._claim: Claim | None = None
        self._invitations: Invitations | None = None
        self._eraser: Callable[[Connection, UUID, list[str], bool], Awaitable[None]] | None = None
        self._farewells: Callable[[UUID], Awaitable[Farewell]] | None = None
        self.followers: list[Callable[[Connection, UUID, Sequence[str]], Awaitable[None]]] = []
        """What is told of deleted members, each in the transaction of the deletion."""
        self._checks: Batchers[UUID, tuple[UUID, Claims], SessionMember | None] = Batchers(self._check)

    async def require_challenge(
        self, app: AppInfo, client: Client, token: str | None, action: ChallengedAction
    ) -> None:
        """Raise `ChallengeRequiredError` unless the app lets the action pass, or the token solves a challenge."""
        if self._challenges is not None:
            await self._challenges.require(app, client, token, action)

    async def departed(self, connection: Connection, app_id: UUID, member_ids: Sequence[str]) -> None:
        """Tell those who follow that members are deleted, in the transaction that deletes them."""
        for follow in self.followers:
            await follow(connection, app_id, member_ids)

    def attach_farewells(self, farewells: Callable[[UUID], Awaitable[Farewell]]) -> None:
        """Set what returns, before a transaction, what mails to deleted members of an app."""
        self._farewells = farewells

    async def farewell(self, app_id: UUID) -> Telling:
        """Return what mails to a member that it is deleted, called in the transaction before it is."""
        farewell = None if self._farewells is None else await self._farewells(app_id)

        async def tell(connection: Connection, member_id: str, grace: timedelta | None = None) -> None:
            state = await self.lock_account(connection, app_id, member_id)
            if farewell is not None and state is not None and state.email is not None:
                await farewell(connection, state.email, state.language, grace)

        return tell

    async def erase(self, connection: Connection, app_id: UUID, member_id: str, remains: Remains) -> None:
        """Delete what a member has created, or take its creator away, in the transaction that deletes it."""
        if self._eraser is not None and remains != "keep":
            await self._eraser(connection, app_id, [member_id], remains == "anonymise")

    def attach_eraser(self, eraser: Callable[[Connection, UUID, list[str], bool], Awaitable[None]]) -> None:
        """Set what deletes the rows and files of deleted members, or takes their creators away."""
        self._eraser = eraser

    def attach(
        self,
        claimed: Callable[[Connection, EmailClaim], Awaitable[None]],
        verified: Callable[[Connection, UUID, str], Awaitable[None]],
        claim: Claim,
    ) -> None:
        """Set what mails a proof to an address that a sign-up names, and what ends all other claims of a verified one.

        `claim` gives an account that never proved its address to who has proved it. All run in the transaction of their
        cause.
        """
        self._claimed, self._verified, self._claim = claimed, verified, claim

    def attach_invitations(self, invitations: Invitations) -> None:
        """Set what finds invitations."""
        self._invitations = invitations

    async def invited(self, connection: Connection, app_id: UUID, email: str | None, *, lock: bool = True) -> bool:
        """Return whether an address has an open invitation, which `lock` keeps until the transaction ends."""
        if self._invitations is None or email is None:
            return False
        return await self._invitations.by_email(connection, app_id, folded(email), lock=lock) is not None

    async def _welcome(
        self, connection: Connection, app_id: UUID, actor: Actor, member_id: str, email_folded: str
    ) -> None:
        """Let a member that has proved an address accept the address's invitation, if there is one."""
        if self._invitations is not None:
            invited = await self._invitations.by_email(connection, app_id, email_folded)
            if invited is not None:
                await self._invitations.accept(connection, app_id, actor, invited, member_id)

    async def add_roles(
        self, connection: Connection, app_id: UUID, actor: Actor, member_id: str, roles: Sequence[str]
    ) -> None:
        """Give a member roles beside those that it has."""
        row = await store.add_roles(connection, app_id, member_id, roles)
        if row is not None:
            await self._events.emit_all(connection, app_id, [events.updated(actor, row, ["roles"])])

    async def sign_up(
        self,
        client: Client,
        app: AppInfo,
        actor: Actor,
        new: SignUp,
        guest: MemberInfo | None,
        agent: str | None,
        accepted: Language | None,
    ) -> SignedIn:
        """Create a member, or promote the given guest, which keeps its id and data; sign the member in.

        To an `email` a proof is mailed, in the member's language, or the `accepted` one. With an `invitation` its
        address is verified: an account that was made for it and never proved it is claimed, and its earlier holder
        keeps nothing. Raises `LoginIdTakenError`, `LoginDisabledError`, `NotAGuestError`, `TokenExpiredError`, what the
        app's hook does, and what `Gate.examine` does for a claimed account.
        """
        if not app.allow_id_password_login:
            raise LoginDisabledError
        invited = None if new.invitation is None else await self._by_token(app, new.invitation)
        require_open(app, "password", is_invited=invited is not None)
        if guest is not None and not guest.is_guest:
            raise NotAGuestError
        if guest is not None and guest.impersonated:
            raise ImpersonationNotAllowedError
        check_password(new.password, app.limits)
        login_id = _login_id(app, new.login_id)
        email = _claimed_address(app, new) if invited is None else _invited_address(app, new, invited)
        if invited is None or folded(login_id) != invited.email_folded:
            await self._require_free(app.app_id, login_id)
        personal = login_id, email, new.nickname
        await self.password_rules.require(app, new.password, "password", *personal)
        asked = _asked(login_id, email, new.nickname, "password", new.language or accepted)
        given = await self.hooks.passing(app, client, partial(_sign_up_verdict, app, asked))
        password_hash = await self._passwords.hash(new.password)
        member_id, nickname = guest.member_id if guest else uuid7_text(), given.nickname or new.nickname
        admission = self.gate.newcomer(app)
        is_bare = not (given.roles or given.claims or given.custom_data)
        is_bare = is_bare and not (given.rows or app.accounts.on_sign_up)
        if guest is None and email is None and new.language is None and admission.is_plain and is_bare:
            require_profile(app, new.profile)
            async with _unique_login_id():
                tokens = await self._join(app, actor, member_id, login_id, password_hash, nickname, agent)
            return SignedIn(
                member_id=member_id,
                nickname=nickname,
                access_token=tokens.access_token,
                refresh_token=tokens.refresh_token,
            )

        joining = _Joining(member_id, login_id, email, password_hash, given, guest, new, agent, accepted)

        async def attempt(passes: Passes, rows: MemberRows) -> SignedIn | SecondFactorRequiredError:
            async with _unique_login_id(), self._database.transaction(app.app_id) as connection:
                if invited is not None:
                    holder = await self._lock_invited(connection, app, new.invitation or "")
                    if holder is not None:
                        return await self._claim_invited(connection, app, client, holder, joining, passes)
                return await self._join_with_password(connection, app, client, actor, joining, rows)

        async def run(passes: Passes) -> SignedIn | SecondFactorRequiredError:
            return await self.arrivals.making(app, given.rows, partial(attempt, passes))

        try:
            return settled(await self.hooks.passing(app, client, run))
        except EmailTakenError:
            # Another member has just verified the address, and has the invitation.
            raise TokenExpiredError from None

    async def _join_with_password(
        self,
        connection: Connection,
        app: AppInfo,
        client: Client,
        actor: Actor,
        joining: _Joining,
        rows: MemberRows,
    ) -> SignedIn:
        """Create a member, or make one of a guest, and sign it in; an invitation verifies its address."""
        member_id, guest, new = joining.member_id, joining.guest, joining.new
        name = joining.given.nickname or new.nickname
        if guest is None:
            await self._insert(connection, app, actor, member_id, joining.login_id, joining.password_hash, name)
            await self._give(connection, app, member_id, joining.given)
        else:
            promoted = await store.promote(
                connection, app.app_id, member_id, joining.login_id, joining.password_hash, name
            )
            if promoted is None:
                raise NotAGuestError
            name = promoted.nickname
            await self._give(connection, app, member_id, joining.given)
            # The guest's tokens may be known to others; the member gets new ones.
            await self._sessions.revoke_all(connection, app.app_id, member_id)
            await self._events.emit_all(connection, app.app_id, [events.about(events.MEMBER_PROMOTED, actor, promoted)])
        verified = joining.email if new.invitation is not None else None
        newcomer = Newcomer(member_id, joining.login_id, verified, name, profile=new.profile)
        await self._make_rows(connection, app, rows, newcomer, was_guest=guest is not None)
        if verified is not None:
            # Whoever has chosen the password reads the address's mail.
            await store.set_password(connection, app.app_id, member_id, joining.password_hash, by_mail=True)
            await self.set_email(connection, app, actor, member_id, verified)
        session_id, admission = uuid7(), self.gate.newcomer(app, email=verified)
        tokens = await self.gate.start(connection, app, member_id, ["password"], admission, joining.agent, session_id)
        if new.language is not None:
            await store.set_language(connection, app.app_id, member_id, new.language)
        if joining.email is not None and verified is None and self._claimed is not None:
            network, language = one_client(client.address), new.language or joining.accepted
            claim = EmailClaim(app.app_id, member_id, session_id, joining.email, language, network)
            await self._claimed(connection, claim)
        return SignedIn(
            member_id=member_id,
            nickname=name,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token,
        )

    async def _by_token(self, app: AppInfo, token: str) -> Invited:
        if self._invitations is None:
            raise TokenExpiredError
        return await self._invitations.by_token(self._database.of(app.app_id), app.app_id, token)

    async def _lock_invited(self, connection: Connection, app: AppInfo, token: str) -> str | None:
        """Lock an invitation, and before it the account whose login_id is its address and that never proved it.

        Returns that account, None without one; raises `TokenExpiredError` if the invitation was used meanwhile.
        """
        assert self._invitations is not None
        asked = await self._invitations.by_token(connection, app.app_id, token)
        holder = await self.unproven(connection, app, asked.email_folded)
        state = None if holder is None else await store.lock_account(connection, app.app_id, holder)
        await self._invitations.by_token(connection, app.app_id, token, lock=True)
        if holder is not None and (state is None or state.email is not None):
            raise TokenExpiredError
        return holder

    async def _claim_invited(
        self,
        connection: Connection,
        app: AppInfo,
        client: Client,
        member_id: str,
        joining: _Joining,
        passes: Passes,
    ) -> SignedIn | SecondFactorRequiredError:
        """Give an account to who was invited to its address, with a new password, and sign in; see `Gate.admit`."""
        assert self._claim is not None
        assert joining.email is not None
        actor = Actor("member", member_id, client.request_id)
        await self._claim(connection, app, actor, member_id, joining.email, joining.password_hash)
        entrant = await self.gate.lock(connection, app.app_id, member_id)
        return await self.gate.admit(connection, app, actor, entrant, ["password"], joining.agent, passes=passes)

    async def _make_rows(
        self, connection: Connection, app: AppInfo, rows: MemberRows, newcomer: Newcomer, *, was_guest: bool = False
    ) -> None:
        """Make the rows that the app wants with a member, without those that it had as a guest."""
        require_profile(app, newcomer.profile)
        known = await store.made_rows(connection, app.app_id, newcomer.member_id) if was_guest else ()
        made = await rows.make(connection, newcomer, known)
        if newcomer.is_guest and made:
            await store.set_made_rows(connection, app.app_id, newcomer.member_id, made)

    async def create(
        self,
        app: AppInfo,
        actor: Actor,
        login_id: str,
        password: str,
        nickname: str | None,
        member_id: str,
        roles: Sequence[str] = (),
        claims: dict[str, object] | None = None,
        profile: Mapping[str, Any] = {},
    ) -> None:
        """Create a member for the app, and record it in the audit log; nobody is signed in.

        Raises `LoginIdTakenError`, and what the rows do that are made with it.
        """
        claims = claims or {}
        facts = distinct(roles), claims_text(claims)
        check_password(password, app.limits)
        login_id = _login_id(app, login_id)
        await self._require_free(app.app_id, login_id)
        password_hash = await self._passwords.hash(password)

        async def attempt(rows: MemberRows) -> None:
            async with _unique_login_id(), self._database.transaction(app.app_id) as connection:
                await self._insert(connection, app, actor, member_id, login_id, password_hash, nickname, *facts)
                newcomer = Newcomer(member_id, login_id, None, nickname, profile=profile)
                await self._make_rows(connection, app, rows, newcomer)
                given = {name: value for name, value in (("roles", facts[0]), ("claims", claims)) if value}
                await record(connection, app.app_id, actor, "member.create", member_id, login_id=login_id, **given)

        await self.arrivals.making(app, (), attempt)

    async def sign_in(
        self, client: Client, app: AppInfo, credentials: SignIn, agent: str | None, proofs: NoRobot
    ) -> tuple[SignedIn, str | None]:
        """Sign a member in, and return the token of its device as well; see `KnownDevices`.

        An unknown login_id takes as long as a wrong password and gets the same answer. Raises
        `SecondFactorRequiredError` for a member that has one.

        One rate limit counts for the login_id and the client's address, another for the address alone. After a hundred
        wrong passwords within an hour, from wherever, a sign-in takes one of the `proofs`.
        """
        if not app.allow_id_password_login:
            raise LoginDisabledError
        login_id = _normalised(credentials.login_id, app.limits.login_id_length)
        # A member may sign in with its verified address instead of its login_id.
        query, more = (store.BY_ADDRESS, (folded(login_id),)) if "@" in login_id else (store.BY_LOGIN_ID, ())
        account, is_guessed = await self._rate_limits.attempt_sign_in(
            client, app, login_id, records.Entrant, query, app.app_id, login_id, *more
        )
        key = sign_in_key(client, app, login_id)
        if is_guessed and "signin" not in app.accounts.challenge_on:
            await self._require_no_robot(app, client, account, proofs)
        password_hash = None if account is None else account.password_hash
        is_right = await self._passwords.verify(password_hash, credentials.password)
        if account is None or password_hash is None or not is_right:
            await self._rate_limits.count_failure(app, login_id)
            raise InvalidCredentialsError
        try:
            admission = self.gate.examine(app, account, ["password"])
        except ForbiddenError:
            await self._rate_limits.forgive(app, key)
            raise
        await self.hooks.passing(app, client, partial(self._require_pass, app, account))
        if is_foreign(password_hash):
            password_hash = await self._rehashed(app, account.member_id, password_hash, credentials.password)
            account = msgspec.structs.replace(account, password_hash=password_hash)
        device = None if self._devices is None else self._devices.token(app.app_id, account)
        if account.factors or not admission.is_plain:
            try:
                return await self._sign_in_slowly(client, app, account, agent, key), device
            except SecondFactorRequiredError as error:
                error.headers |= {} if device is None else {"X-Device-Token": device}
                raise
        member_id = account.member_id
        member = MemberData(member_id, account.nickname, is_guest=False, is_active=True)
        # The correct password proves that the caller is the member.
        event = encoded(events.signed_in(Actor("member", member_id, client.request_id), member, "password"))
        started = await self._sessions.sign_in_member(
            app.app_id, member_id, key, password_hash, app.limits, event, agent
        )
        if started is None:
            raise InvalidCredentialsError
        tokens, emitted = started
        if emitted:
            self._events.committed(app.app_id)
        signed_in = SignedIn(
            member_id=member_id,
            nickname=account.nickname,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token,
        )
        return signed_in, device

    async def _require_no_robot(
        self, app: AppInfo, client: Client, account: records.Entrant | None, proofs: NoRobot
    ) -> None:
        """Whoever guesses from many addresses pays for each try; where the member has signed in before is free."""
        if self._devices is not None and await self._devices.permits(app.app_id, account, proofs.device):
            return
        if self._challenges is not None:
            await self._challenges.require_solved(app, client, proofs.solution, "signin")

    async def _require_pass(self, app: AppInfo, account: records.Entrant, passes: Passes) -> None:
        self.gate.require_pass(app, account, ["password"], passes)

    async def _give(self, connection: Connection, app: AppInfo, member_id: str, given: Verdict) -> None:
        """Give a new member what the app's hook has decided."""
        if given.roles or given.claims:
            roles, claims = distinct(given.roles), claims_text(given.claims)
            await store.set_facts(connection, app.app_id, member_id, roles, claims)
        if given.custom_data:
            data = custom_data_text(given.custom_data, app.limits)
            await store.replace_custom_data(connection, app.app_id, member_id, data)

    async def _rehashed(self, app: AppInfo, member_id: str, old_hash: str, password: str) -> str:
        """Replace the hash that another product has made of a password, and return the new one."""
        new_hash = await self._passwords.hash(password)
        async with self._database.transaction(app.app_id) as connection:
            if not await store.replace_password(connection, app.app_id, member_id, old_hash, new_hash):
                raise InvalidCredentialsError
        return new_hash

    async def _sign_in_slowly(
        self, client: Client, app: AppInfo, account: records.Entrant, agent: str | None, key: str
    ) -> SignedIn:
        """Sign in a member whose session awaits a proof, or that has second factors."""
        actor = Actor("member", account.member_id, client.request_id)
        async with self._database.transaction(app.app_id) as connection:
            entrant = await store.lock_entrant(connection, app.app_id, account.member_id)
            if entrant is None or entrant.password_hash != account.password_hash:
                raise InvalidCredentialsError
            # The hook was asked before.
            passes = Passes(entrant.member_id)
            entered = await self.gate.admit(connection, app, actor, entrant, ["password"], agent, passes=passes)
        await self._rate_limits.forgive(app, key)
        return settled(entered)

    async def insert_imported(
        self,
        connection: Connection,
        app: AppInfo,
        actor: Actor,
        new: NewRecord,
        rows: MemberRows,
        profile: Mapping[str, Any],
    ) -> None:
        """Insert a member of another product in the caller's transaction, with its rows; nobody is signed in.

        Raises `LoginIdTakenError`, `AddressTakenError`, `MemberIdTakenError`, and validation errors.
        """
        login_id = None if new.login_id is None else _login_id(app, new.login_id)
        if login_id is not None and "@" in login_id:
            owner = await store.by_email(connection, app.app_id, folded(login_id))
            if owner is not None:
                raise LoginIdTakenError
        custom_data = custom_data_text(new.custom_data, app.limits)
        roles, claims = distinct(new.roles), claims_text(new.claims)
        email_folded = None if new.email is None else folded(new.email)
        new = msgspec.structs.replace(new, login_id=login_id)
        async with _unique_record():
            row = await store.insert_imported(connection, app.app_id, new, email_folded, custom_data, roles, claims)
        if row is None:
            raise InvalidPublicKeyError
        if email_folded is not None and self._verified is not None:
            await self._verified(connection, app.app_id, email_folded)
        newcomer = Newcomer(new.member_id, login_id, new.email, new.nickname, profile=profile)
        await self._make_rows(connection, app, rows, newcomer)
        await self._events.emit_all(connection, app.app_id, [events.about(events.MEMBER_CREATED, actor, row)])

    async def create_guest(self, app: AppInfo, actor: Actor, agent: str | None) -> SignedInGuest:
        """Create an anonymous member and sign it in."""
        if not app.allow_guest_login:
            raise LoginDisabledError
        require_open(app, "guest")
        member_id = GUEST_PREFIX + uuid7_text()
        if not any(row.guests for row in app.accounts.on_sign_up):
            tokens = await self._join(app, actor, member_id, None, None, None, agent, is_guest=True)
            return SignedInGuest(member_id, tokens.access_token, tokens.refresh_token)

        async def attempt(rows: MemberRows) -> TokenPair:
            async with self._database.transaction(app.app_id) as connection:
                await self._insert(connection, app, actor, member_id, None, None, None, is_guest=True)
                await self._make_rows(connection, app, rows, Newcomer(member_id, is_guest=True))
                admission = self.gate.newcomer(app, is_guest=True)
                return await self.gate.start(
                    connection, app, member_id, ["guest"], admission, agent, uuid7(), is_guest=True
                )

        tokens = await self.arrivals.making(app, (), attempt)
        return SignedInGuest(member_id, tokens.access_token, tokens.refresh_token)

    async def sign_in_elsewhere(
        self,
        connection: Connection,
        app: AppInfo,
        actor: Actor,
        provider: str,
        member_id: str | None,
        nickname: str | None,
        email: str | None,
        session_id: UUID,
        agent: str | None,
        passes: Passes,
        rows: MemberRows,
        profile: Mapping[str, Any],
    ) -> tuple[SignedIn | SecondFactorRequiredError, str]:
        """Sign in a member that another provider has recognised, in the caller's transaction; also return its id.

        None as the member creates one without login_id and password; a guest becomes such a member, and gets new
        tokens. `email` is an address that the provider has verified: the member gets it if it has none and nobody else
        has it. The error about a second factor is returned, see `Gate.admit`.

        Raises what `Gate.lock` and `Gate.admit` do, `SignUpClosedError`, and `HookDueError`.
        """
        is_new = member_id is None
        asked = _asked(None, email, nickname, provider, None)
        if member_id is None:
            require_open(app, "social", is_invited=await self.invited(connection, app.app_id, email))
            given = passes.sign_up(app, asked)
            member_id = uuid7_text()
            await self._insert(connection, app, actor, member_id, None, None, given.nickname or nickname)
            await self._give(connection, app, member_id, given)
            newcomer = Newcomer(member_id, None, email, given.nickname or nickname, profile=profile)
            await self._make_rows(connection, app, rows, newcomer)
        entrant = await self.gate.lock(connection, app.app_id, member_id)
        if entrant.is_guest:
            self.gate.examine(app, entrant, ["social"])
            require_open(app, "social", is_invited=await self.invited(connection, app.app_id, email))
            given = passes.sign_up(app, asked)
            name = given.nickname or entrant.nickname or nickname
            row = await store.promote(connection, app.app_id, member_id, None, None, name)
            assert row is not None
            await self._give(connection, app, member_id, given)
            newcomer = Newcomer(member_id, None, email, row.nickname, profile=profile)
            await self._make_rows(connection, app, rows, newcomer, was_guest=True)
            await self._sessions.revoke_all(connection, app.app_id, member_id)
            await self._events.emit_all(connection, app.app_id, [events.about(events.MEMBER_PROMOTED, actor, row)])
            entrant, is_new = msgspec.structs.replace(entrant, is_guest=False, nickname=row.nickname), True
        if email is not None and entrant.email is None and entrant.is_active and is_address(email):
            owner = await store.by_email(connection, app.app_id, folded(email))
            if owner is None and app.accounts.email_verification != "off":
                await self.set_email(connection, app, actor, member_id, email)
                entrant = msgspec.structs.replace(entrant, email=email)
            elif owner is None:
                await self._welcome(connection, app.app_id, actor, member_id, folded(email))
        entered = await self.gate.admit(
            connection,
            app,
            actor,
            entrant,
            ["social"],
            agent,
            session_id=session_id,
            provider=provider,
            is_new=is_new,
            passes=passes,
        )
        return entered, member_id

    async def _join(
        self,
        app: AppInfo,
        actor: Actor,
        member_id: str,
        login_id: str | None,
        password_hash: str | None,
        nickname: str | None,
        agent: str | None,
        *,
        is_guest: bool = False,
    ) -> TokenPair:
        """Create a member who signs in at once, and return the tokens."""
        event = encoded(events.composed(events.MEMBER_CREATED, actor, member_id))
        session = self._sessions.opening(app.limits, agent, is_guest=is_guest)
        row = await store.sign_up(
            self._database, app.app_id, member_id, login_id, password_hash, nickname, is_guest, event, session
        )
        # The cached app may be stale.
        if row is None:
            raise InvalidPublicKeyError
        if row.emitted:
            self._events.committed(app.app_id)
        return self._sessions.opened(row, app.limits)

    async def _insert(
        self,
        connection: Connection,
        app: AppInfo,
        actor: Actor,
        member_id: str,
        login_id: str | None,
        password_hash: str | None,
        nickname: str | None,
        roles: Sequence[str] = (),
        claims: str = "{}",
        *,
        is_guest: bool = False,
    ) -> None:
        # The cached app may be stale.
        row = await store.insert(
            connection, app.app_id, member_id, login_id, password_hash, nickname, is_guest, roles, claims
        )
        if row is None:
            raise InvalidPublicKeyError
        await self._events.emit_all(connection, app.app_id, [events.about(events.MEMBER_CREATED, actor, row)])

    async def authenticate(self, token: str, *, provisional: bool = False) -> tuple[UUID, MemberInfo]:
        """Return the app's id and the member of an access token; the session must be alive and the member active.

        `provisional` accepts a session that awaits a proof.
        """
        claims = self._sessions.access_claims(token, console=False)
        confirmed = _confirmed if provisional else _complete
        row = confirmed(await self._checks.submit(claims.app_id, (claims.app_id, claims)))
        return claims.app_id, _member_info(claims, row)

    async def acting(self, app_id: UUID, member_id: str) -> MemberInfo | None:
        """Return a member without a session, for somebody who sees what it sees; None if there is none.

        Raises `MemberInactiveError`.
        """
        row = await store.facts(self._database, app_id, member_id)
        return None if row is None else _with_facts(member_id, NO_SESSION, _confirmed(row))

    async def act_as(self, app_id: UUID, actor: Actor, member_id: str) -> MemberInfo | None:
        """Do what `acting` does for a console user, and record it in the audit log."""
        member = await self.acting(app_id, member_id)
        if member is not None:
            async with self._database.transaction(app_id) as connection:
                await record(connection, app_id, actor, "member.act_as", member_id)
        return member

    async def refresh_teams(self, connection: Connection, app_id: UUID, member_ids: Sequence[str]) -> None:
        """Let sessions of members know which teams they are in, after a change in the caller's transaction."""
        await store.refresh_teams(connection, app_id, member_ids)

    def claimed(self, token: str) -> tuple[UUID, MemberInfo]:
        """Return the app's id and the member that a token names, as far as the token alone tells; see `presume`."""
        claims = self._sessions.access_claims(token, console=False)
        return claims.app_id, MemberInfo(claims.sub, claims.sid, is_guest=False)

    def presume(self, token: str, *, provisional: bool = False) -> tuple[UUID, MemberInfo, Presumption]:
        """Return what `authenticate` does before it is known whether the session is alive and the member active.

        Whether the member is a guest is not known either. The token's signature and time were verified.
        """
        claims = self._sessions.access_claims(token, console=False)
        check = self._checks.begin(claims.app_id, (claims.app_id, claims))
        confirmed = _confirmed if provisional else _complete

        async def confirm() -> MemberInfo:
            # The check is the request's: one who is cancelled while waiting for it does not end it.
            return _member_info(claims, confirmed(await asyncio.shield(check)))

        member = MemberInfo(claims.sub, claims.sid, is_guest=False, confirm=confirm)

        def known() -> MemberInfo:
            return _member_info(claims, confirmed(check.result()))

        return claims.app_id, member, Presumption(check, confirmed, known)

    async def _check(self, asked: Sequence[tuple[UUID, Claims]]) -> Sequence[SessionMember | None]:
        """Return the members of the sessions of an app's tokens; None for one that is not alive."""
        app_id = asked[0][0]
        rows = await store.of_sessions(self._database, app_id, list({claims.sid for _, claims in asked}))
        if again := [row.subject for row in rows if row.active_again and row.is_active]:
            await store.touch(self._database, app_id, again)
        found = {(row.session_id, row.subject): row for row in rows}
        members = [found.get((claims.sid, claims.sub)) for _, claims in asked]
        await self._sessions.tokens_used(
            [(claims, row.unused_successor) for (_, claims), row in zip(asked, members, strict=True) if row]
        )
        return members

    async def alive(self, app_id: UUID, session_ids: Sequence[UUID]) -> dict[UUID, MemberInfo]:
        """Return the active members of those sessions that are alive, by session."""
        rows = await store.of_sessions(self._database, app_id, session_ids)
        return {row.session_id: _of_session(row) for row in rows if row.is_active}

    async def require_entry(self, app_id: UUID, member_id: str) -> None:
        """Raise `InvalidTokenError` for a deleted member, `MemberInactiveError` for one that may not come back."""
        may_enter = await store.may_enter(self._database, app_id, member_id)
        if may_enter is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        if not may_enter:
            raise MemberInactiveError

    async def nickname(self, app_id: UUID, member_id: str) -> str | None:
        """Return a member's nickname; None if it has none."""
        row = await store.own_record(self._database, app_id, member_id)
        return None if row is None else row.nickname

    async def own_record(self, app: AppInfo, member: MemberInfo) -> CurrentMember:
        """Return a member's own record."""
        row = await store.own_record(self._database, app.app_id, member.member_id)
        if row is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        return CurrentMember(
            member_id=row.member_id,
            nickname=row.nickname,
            is_active=row.is_active,
            custom_data=msgspec.Raw(row.custom_data.encode()),
        )

    async def account(self, app: AppInfo, member: MemberInfo) -> Account:
        """Return a member's own account, with the roles and claims that the app gave it."""
        row = await store.account(self._database, app.app_id, member.member_id)
        if row is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        return Account(
            member_id=row.member_id,
            nickname=row.nickname,
            is_active=row.is_active,
            custom_data=msgspec.Raw(row.custom_data.encode()),
            login_id=row.login_id,
            is_guest=row.is_guest,
            roles=row.roles,
            claims=msgspec.Raw(row.claims.encode()),
            created_at=rfc3339(row.created_at),
            email=row.email,
            pending_email=row.pending_email,
            language=row.language,
            has_password=row.has_password,
            deletes_at=optional_rfc3339(row.deletes_at),
        )

    async def password_hash(self, app_id: UUID, member_id: str) -> str | None:
        """Return a member's password hash; None if it has none."""
        return await store.password_hash(self._database, app_id, member_id)

    async def lock_account(self, connection: Connection, app_id: UUID, member_id: str) -> AccountState | None:
        """Return what a proof depends on, and lock the member until the transaction ends; None without one."""
        return await store.lock_account(connection, app_id, member_id)

    async def lock_own(self, connection: Connection, app: AppInfo, member: MemberInfo) -> AccountState:
        """Return what `lock_account` does of the signed-in member; raises `InvalidTokenError` if it was deleted."""
        state = await self.lock_account(connection, app.app_id, member.member_id)
        if state is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        return state

    async def by_email(self, connection: Connection, app_id: UUID, email_folded: str) -> MailedAccount | None:
        """Return the member with a verified address, given in its folded form."""
        return await store.by_email(connection, app_id, email_folded)

    async def by_login_id(self, connection: Connection, app_id: UUID, login_id: str) -> MailedAccount | None:
        """Return the member with a login_id or, if it is one, with a verified address."""
        normal = unicodedata.normalize("NFC", login_id)
        found = await store.by_login_id(connection, app_id, normal)
        if found is None and "@" in normal:
            found = await store.by_email(connection, app_id, folded(normal))
        return found

    async def unproven(self, connection: Connection, app: AppInfo, email_folded: str) -> str | None:
        """Return the member whose login_id is an address that it never proved, in an app where login_ids are addresses.

        Who proves the address claims that account.
        """
        if app.accounts.login_id_form != "email":
            return None
        return await store.by_unproven_login_id(connection, app.app_id, email_folded)

    async def unproven_account(self, connection: Connection, app: AppInfo, address: str) -> MailedAccount | None:
        """Return what `unproven` does, locked and as a member that mail is sent to."""
        member_id = await self.unproven(connection, app, folded(address))
        state = None if member_id is None else await store.lock_account(connection, app.app_id, member_id)
        if member_id is None or state is None:
            return None
        return MailedAccount(member_id, address, state.language, state.password_hash, state.may_enter)

    async def join(
        self,
        connection: Connection,
        app: AppInfo,
        actor: Actor,
        email: str,
        method: Method,
        passes: Passes,
        rows: MemberRows,
        profile: Mapping[str, Any],
    ) -> str:
        """Create a member with an address that a proof has verified, and return its id.

        Raises `EmailTakenError`, and `HookDueError`.
        """
        member_id = uuid7_text()
        login_id = folded(email) if app.accounts.login_id_form == "email" else None
        given = passes.sign_up(app, _asked(login_id, email, None, method, None))
        async with _unique_address():
            await self._insert(connection, app, actor, member_id, login_id, None, given.nickname)
            await self._give(connection, app, member_id, given)
            await store.set_email(connection, app.app_id, member_id, email, folded(email))
        newcomer = Newcomer(member_id, login_id, email, given.nickname, profile=profile)
        await self._make_rows(connection, app, rows, newcomer)
        await self._welcome(connection, app.app_id, actor, member_id, folded(email))
        return member_id

    async def hand_over(
        self,
        connection: Connection,
        app: AppInfo,
        actor: Actor,
        member_id: str,
        email: str,
        password_hash: str | None,
    ) -> None:
        """Give a member to who has proved its address: its sessions end; raises `EmailTakenError`.

        It gets the password, or none, and has no second factors.
        """
        async with _unique_address():
            row = await store.hand_over(connection, app.app_id, member_id, email, folded(email), password_hash)
        assert row is not None
        changes = [events.updated(actor, row, ["email"])]
        if await self._sessions.revoke_all(connection, app.app_id, member_id):
            changes.append(events.about(events.MEMBER_SIGNED_OUT, actor, row))
        await self.gate.end_tickets(connection, app.app_id, member_id)
        await self._events.emit_all(connection, app.app_id, changes)
        await record(connection, app.app_id, actor, "member.claim", member_id)
        await self._welcome(connection, app.app_id, actor, member_id, folded(email))

    async def reprove(
        self, connection: Connection, app: AppInfo, member: MemberInfo, method: Method, level: int
    ) -> datetime | None:
        """Record that a member has proved again in its session who it is, and return when; None if that has ended."""
        return await self._sessions.reprove(connection, app.app_id, member.session_id, method, level)

    def access_token(self, app: AppInfo, member: MemberInfo) -> str:
        """Return another access token of a member's session."""
        return self._sessions.short_token(
            app.app_id, member.member_id, member.session_id, app.limits.access_token_seconds
        )

    async def set_factors(
        self, connection: Connection, app: AppInfo, actor: Actor, member_id: str, factors: Sequence[str], action: str
    ) -> None:
        """Record which kinds of second factors a member has, as `action` has changed them.

        With one, its sessions no longer await any; a sign-in that waits for one ends.
        """
        await store.set_factors(connection, app.app_id, member_id, factors)
        if factors:
            await self._sessions.complete(connection, app.app_id, member_id, "factor")
        await self.gate.end_tickets(connection, app.app_id, member_id)
        await record(connection, app.app_id, actor, action, member_id)

    async def set_first_password(
        self, connection: Connection, app: AppInfo, actor: Actor, member_id: str, password_hash: str
    ) -> None:
        """Set the password of a member that has none."""
        await store.set_password(connection, app.app_id, member_id, password_hash)
        await record(connection, app.app_id, actor, "member.set_password", member_id)

    async def remove_email(self, connection: Connection, app: AppInfo, actor: Actor, member_id: str) -> None:
        """Remove a member's address."""
        row = await store.remove_email(connection, app.app_id, member_id)
        assert row is not None
        await self._events.emit_all(connection, app.app_id, [events.updated(actor, row, ["email"])])
        await record(connection, app.app_id, actor, "member.remove_email", member_id)

    async def session_began(self, connection: Connection, app_id: UUID, session_id: UUID) -> datetime | None:
        """Return when a member has last proved in a session who it is."""
        return await store.session_began(connection, app_id, session_id)

    async def set_email(self, connection: Connection, app: AppInfo, actor: Actor, member_id: str, email: str) -> None:
        """Give a member an address that a proof has verified; raises `EmailTakenError`."""
        async with _unique_address():
            row = await store.set_email(connection, app.app_id, member_id, email, folded(email))
        assert row is not None
        if self._verified is not None:
            await self._verified(connection, app.app_id, folded(email))
        await self._events.emit_all(connection, app.app_id, [events.updated(actor, row, ["email"])])
        await self._sessions.complete(connection, app.app_id, member_id, "email")
        await record(connection, app.app_id, actor, "member.verify_email", member_id)
        await self._welcome(connection, app.app_id, actor, member_id, folded(email))

    async def reset_password(
        self, connection: Connection, app: AppInfo, actor: Actor, member_id: str, password_hash: str
    ) -> None:
        """Set a member's password by a proof, and end all its sessions."""
        row = await store.set_password(connection, app.app_id, member_id, password_hash, by_mail=True)
        assert row is not None
        if await self._sessions.revoke_all(connection, app.app_id, member_id):
            event = events.about(events.MEMBER_SIGNED_OUT, actor, row)
            await self._events.emit_all(connection, app.app_id, [event])
        await record(connection, app.app_id, actor, "member.reset_password", member_id)

    async def _require_free(self, app_id: UUID, login_id: str) -> None:
        """Refuse a login_id that is another member's verified address: sign-ins accept both."""
        if "@" in login_id and await store.has_email(self._database, app_id, folded(login_id)):
            raise LoginIdTakenError

    async def merge_custom_data(self, app: AppInfo, member: MemberInfo, change: dict[str, object]) -> CustomDataResult:
        """Merge a JSON Merge Patch (RFC 7396) into the member's custom_data and return the result."""
        limit = app.limits.custom_data_bytes
        patch = json.encode(change)
        if len(patch) > _MAX_PATCH_FACTOR * limit:
            raise PayloadTooLargeError(f"A change of custom_data has at most {_MAX_PATCH_FACTOR * limit} bytes.")
        merged = await store.merge_custom_data(
            self._database, app.app_id, member.member_id, patch.decode(), limit, _updated(member)
        )
        if merged is None:
            raise PayloadTooLargeError(f"custom_data would be larger than {limit} bytes.")
        if merged.emitted:
            self._events.committed(app.app_id)
        return CustomDataResult(member.member_id, msgspec.Raw(merged.custom_data.encode()))

    async def change_nickname(self, app: AppInfo, member: MemberInfo, nickname: str | None) -> CurrentMember:
        """Set or remove a member's nickname and return its own record."""
        if await store.change_nickname(self._database, app.app_id, member.member_id, nickname, _updated(member)):
            self._events.committed(app.app_id)
        return await self.own_record(app, member)

    async def change_password(self, client: Client, app: AppInfo, member: MemberInfo, change: PasswordChange) -> None:
        """Replace a member's password, and end its other sessions.

        Raises `WrongPasswordError`, or `NoPasswordError` for a member that has none.
        """
        check_password(change.new_password, app.limits, "new_password")
        old_hash = await self._require_password(client, app, member, change.current_password)
        if old_hash is None:
            raise NoPasswordError
        own = await store.account(self._database, app.app_id, member.member_id)
        personal = (own.login_id, own.email, own.nickname) if own else ()
        await self.password_rules.require(app, change.new_password, "new_password", *personal)
        new_hash = await self._passwords.hash(change.new_password)
        async with self._database.transaction(app.app_id) as connection:
            if not await store.replace_password(connection, app.app_id, member.member_id, old_hash, new_hash):
                raise WrongPasswordError
            await self._sessions.revoke_all(connection, app.app_id, member.member_id, kept=member.session_id)

    async def delete(
        self, client: Client, app: AppInfo, member: MemberInfo, actor: Actor, given: AccountDeletion
    ) -> datetime | None:
        """Delete a member at its own request, and end its sessions. Its rows remain, unless the app says otherwise.

        Where the app has `deletion_grace_days`, a member that can sign in again may come back until the time that is
        returned; meanwhile it is not active. None for one that is gone. Its verified address gets a mail.

        A member that has a password must give it; raises `WrongPasswordError`.
        """
        policy, days = app.accounts.on_member_delete, app.accounts.deletion_grace_days
        if given.data is not None and policy != "ask":
            raise invalid("data", "data: the app decides what becomes of what you have created.", "NOT_ACCEPTED")
        if given.data is None and policy == "ask":
            raise invalid("data", "data: keep, delete or anonymise is expected.", "REQUIRED")
        remains: Remains = given.data or ("keep" if policy == "ask" else policy)
        old_hash = await self._require_password(client, app, member, given.password)
        tell = await self.farewell(app.app_id)
        async with self._database.transaction(app.app_id) as connection:
            if await store.lock_password(connection, app.app_id, member.member_id) != old_hash:
                raise WrongPasswordError
            if days and not member.is_guest:
                return await self._schedule_deletion(connection, app, actor, member.member_id, days, remains, tell)
            if not await self.depart(connection, app.app_id, actor, member.member_id, remains, tell):
                raise InvalidTokenError(fault=TokenFault.REVOKED)
        return None

    async def _schedule_deletion(
        self,
        connection: Connection,
        app: AppInfo,
        actor: Actor,
        member_id: str,
        days: int,
        remains: Remains,
        tell: Telling,
    ) -> datetime:
        found = await store.schedule_deletion(connection, app.app_id, member_id, days, remains)
        if found is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        deletes_at, row = found
        if row is not None:
            await tell(connection, member_id, timedelta(days=days))
            await self._sessions.revoke_all(connection, app.app_id, member_id)
            await self.gate.end_tickets(connection, app.app_id, member_id)
            event = events.about(events.MEMBER_DEACTIVATED, actor, row)
            await self._events.emit_all(connection, app.app_id, [event])
            await record(
                connection, app.app_id, actor, "member.schedule_deletion", member_id, deletes_at=rfc3339(deletes_at)
            )
        return deletes_at

    async def restore(self, app: AppInfo, member: MemberInfo, actor: Actor) -> Account:
        """Let a member that has deleted its account come back; raises `NoDeletionPendingError`."""
        async with self._database.transaction(app.app_id) as connection:
            row = await store.cancel_deletion(connection, app.app_id, member.member_id)
            if row is None:
                raise NoDeletionPendingError
            await self.returned(connection, app.app_id, member.member_id)
            event = events.about(events.MEMBER_ACTIVATED, actor, row)
            await self._events.emit_all(connection, app.app_id, [event])
            await record(connection, app.app_id, actor, "member.restore", member.member_id)
        return await self.account(app, member)

    async def returned(self, connection: Connection, app_id: UUID, member_id: str) -> None:
        """Complete the sessions of a member that has come back, or that the app's side has activated."""
        await self._sessions.complete(connection, app_id, member_id, RETURN)

    async def delete_due(self, connection: Connection) -> None:
        """Delete the members of all apps whose time to come back is over."""
        while found := await store.due_deletions(connection, _DUE_BATCH):
            for due in found:
                try:
                    tell = await self.farewell(due.app_id)
                except NotFoundError:
                    # The app was deleted in this moment, and with it the member.
                    continue
                async with connection.transaction():
                    await lock_app(connection, due.app_id)
                    # It may have come back in this moment.
                    if await store.lock_due(connection, due.app_id, due.member_id):
                        await self.depart(connection, due.app_id, SYSTEM, due.member_id, due.deletion_remains, tell)

    async def depart(
        self, connection: Connection, app_id: UUID, actor: Actor, member_id: str, remains: Remains, tell: Telling
    ) -> bool:
        """Delete a member in the caller's transaction, end its sessions, and tell it and all who follow.

        Returns whether there was one. `tell` is what `farewell` returned before the transaction.
        """
        await tell(connection, member_id)
        await self._sessions.revoke_all(connection, app_id, member_id)
        row = await store.delete(connection, app_id, member_id)
        if row is None:
            return False
        await self.departed(connection, app_id, [member_id])
        await self.erase(connection, app_id, member_id, remains)
        await self._events.emit_all(connection, app_id, [events.about(events.MEMBER_DELETED, actor, row)])
        await record(connection, app_id, actor, "member.delete", member_id)
        return True

    async def _require_password(
        self, client: Client, app: AppInfo, member: MemberInfo, password: str | None
    ) -> str | None:
        """Verify the password and return the signed-in member's password hash, or None if it has none.

        Tries count for the member, from whatever address: the holder of a stolen token may change addresses.
        """
        app_id, member_id = app.app_id, member.member_id
        stored = await store.password_hash(self._database, app_id, member_id)
        if stored is None:
            return None
        key = f"password:{app_id}:{member_id}"
        await self._rate_limits.attempt_password(client, app, key)
        if password is None or not await self._passwords.verify(stored, password):
            raise WrongPasswordError
        await self._rate_limits.forgive(app, key)
        return stored

    async def sign_out(self, app: AppInfo, member: MemberInfo) -> None:
        """End the member's session. Its access and refresh tokens stop working immediately."""
        event = events.composed(events.MEMBER_SIGNED_OUT, _as(member), member.member_id)
        if await self._sessions.sign_out_member(app.app_id, member.session_id, encoded(event)):
            self._events.committed(app.app_id)


def _asked(
    login_id: str | None, email: str | None, nickname: str | None, method: str, language: Language | None
) -> dict[str, Any]:
    """Return what a hook learns of a sign-up."""
    return {"login_id": login_id, "email": email, "nickname": nickname, "method": method, "language": language}


async def _sign_up_verdict(app: AppInfo, asked: dict[str, Any], passes: Passes) -> Verdict:
    return passes.sign_up(app, asked)


def _member_info(claims: Claims, row: SessionMember) -> MemberInfo:
    return _of_session(row, claims.exp)


def _of_session(row: SessionMember, until: int | None = None) -> MemberInfo:
    return _with_facts(row.subject, row.session_id, row, row.level, impersonated=row.impersonated, until=until)


def _with_facts(
    member_id: str,
    session_id: UUID,
    row: Facts,
    level: int = 1,
    *,
    impersonated: bool = False,
    until: int | None = None,
) -> MemberInfo:
    claims, teams = json.decode(row.claims.encode()), tuple(map(_in_team, row.teams))
    return MemberInfo(
        member_id, session_id, row.is_guest, tuple(row.roles), claims, level, teams, impersonated, until=until
    )


def _in_team(text: str) -> InTeam:
    team_id, _, roles = text.partition(":")
    return InTeam(team_id, tuple(roles.split(",")) if roles else ())


def _confirmed(row: _F | None) -> _F:
    if row is None:
        raise InvalidTokenError(fault=TokenFault.REVOKED)
    if not row.is_active:
        raise MemberInactiveError
    return row


def _complete(row: SessionMember | None) -> SessionMember:
    """Return the member of a session; a provisional one is good only for the member's own account."""
    found = _confirmed(row)
    if found.awaits:
        require_complete(found.awaits)
    return found


def _as(member: MemberInfo) -> Actor:
    return Actor("member", member.member_id, None)


def _updated(member: MemberInfo) -> str:
    return encoded(events.composed(events.MEMBER_UPDATED, _as(member), member.member_id))


def custom_data_text(data: dict[str, object], limits: Limits) -> str:
    """Return custom_data as JSON; raises `PayloadTooLargeError`."""
    text = json.encode(data)
    if len(text) > limits.custom_data_bytes:
        raise PayloadTooLargeError(f"custom_data would be larger than {limits.custom_data_bytes} bytes.")
    return text.decode()


def distinct(roles: Sequence[str]) -> list[str]:
    """Return a member's roles, each once; raises a validation error for a role that ends in a line break."""
    for index, role in enumerate(roles):
        # The pattern of the type lets this one pass.
        if role.endswith("\n"):
            raise invalid(f"roles[{index}]", "A role consists of a-z, 0-9, _ and -.")
    return list(dict.fromkeys(roles))


def claims_text(claims: dict[str, object]) -> str:
    """Return a member's claims as JSON; raises a validation error for claims that are too large or too deep."""
    text = json.encode(claims)
    if len(text) > _CLAIMS_BYTES:
        raise invalid("claims", f"The claims of a member have at most {_CLAIMS_BYTES} bytes.", "TOO_LARGE")
    if _depth(claims) > _CLAIMS_DEPTH:
        raise invalid(
            "claims", f"The claims of a member are at most {_CLAIMS_DEPTH} objects or lists deep.", "TOO_DEEP"
        )
    return text.decode()


def _depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


def check_password(password: str, limits: Limits, field: str = "password") -> None:
    """Raise a validation error for a password that is too short or too long."""
    shortest, longest = limits.password_min_length, limits.password_max_length
    if not shortest <= len(password) <= longest:
        raise invalid(field, f"A password has {shortest} to {longest} characters.", "INVALID_LENGTH")


def _require_visible(login_id: str) -> None:
    """Refuse characters that make one login_id look like another: bidirectional controls and zero-width characters."""
    if found := _INVISIBLE.search(login_id):
        code = f"U+{ord(found[0]):04X}"
        raise invalid("login_id", f"A login_id has no bidirectional or zero-width characters, such as {code}.")


def require_open(app: AppInfo, method: SignUpMethod, *, is_invited: bool = False) -> None:
    """Raise `SignUpClosedError` if members of the app, perhaps invited, do not make themselves in this way."""
    if app.accounts.may_sign_up(method, is_invited=is_invited):
        return
    if app.accounts.sign_up == "closed":
        raise SignUpClosedError
    if app.accounts.sign_up == "invited" and not is_invited:
        raise SignUpClosedError("Only who was invited can sign up for this app.")
    raise SignUpClosedError(f"Nobody can sign up for this app {_WAYS[method]}.")


def _login_id(app: AppInfo, text: str) -> str:
    """Return a new member's login_id in the form in which it is stored: the app's rules apply."""
    login_id = _normalised(text, app.limits.login_id_length)
    _require_visible(login_id)
    if app.accounts.login_id_form == "any":
        return login_id
    if not is_address(login_id):
        raise invalid(
            "login_id", "login_id: this app expects an e-mail address, such as ada@example.com.", _BAD_ADDRESS
        )
    return folded(login_id)


def _claimed_address(app: AppInfo, new: SignUp) -> str | None:
    """Return the address that a sign-up names, or None; as login_id where that is one."""
    if new.email is not None and not is_address(new.email):
        raise invalid("email", "email: one e-mail address is expected, such as ada@example.com.", _BAD_ADDRESS)
    if app.accounts.email_verification == "off":
        if new.email is not None:
            raise invalid("email", "email: this app does not verify addresses.", "NOT_ACCEPTED")
        return None
    if app.accounts.login_id_form == "email":
        if new.email is not None and folded(new.email) != folded(new.login_id):
            raise invalid("email", "email: in this app the login_id is the address.", "NOT_ACCEPTED")
        return new.email or new.login_id
    if new.email is None and app.accounts.email_verification == "required":
        raise invalid("email", "email: this app requires an e-mail address.", "REQUIRED")
    return new.email


def _invited_address(app: AppInfo, new: SignUp, invited: Invited) -> str:
    """Return the address of an invitation; raises a validation error for a sign-up that names another one."""
    message = "the invitation is for another address."
    if new.email is not None and folded(new.email) != invited.email_folded:
        raise invalid("email", f"email: {message}", "NOT_ACCEPTED")
    if app.accounts.login_id_form == "email" and folded(new.login_id) != invited.email_folded:
        raise invalid("login_id", f"login_id: {message}", "NOT_ACCEPTED")
    return invited.email


def _normalised(login_id: str, max_length: int) -> str:
    normal = unicodedata.normalize("NFC", login_id)
    # A few characters have no composed form and become two or three.
    if len(normal) > max_length:
        raise invalid("login_id", f"A login_id has at most {max_length} characters in NFC.", "INVALID_LENGTH")
    return normal


@asynccontextmanager
async def _unique_login_id() -> AsyncGenerator[None]:
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name == "login_id_unique":
            raise LoginIdTakenError from None
        raise


@asynccontextmanager
async def _unique_record() -> AsyncGenerator[None]:
    taken = {
        "login_id_unique": LoginIdTakenError,
        "members_email": AddressTakenError,
        "members_pkey": MemberIdTakenError,
    }
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name in taken:
            raise taken[error.constraint_name] from None
        raise


@asynccontextmanager
async def _unique_address() -> AsyncGenerator[None]:
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name in {"members_email", "login_id_unique"}:
            raise EmailTakenError from None
        raise
