"""`Idempotency-Key`: repeating a POST or PATCH that writes writes only once.

Follows the draft "The Idempotency-Key HTTP Header Field". A key belongs to a route, its path and the principal. For
`idempotency_hours` the same request gets the same answer, with `Idempotent-Replayed: true`; another body under the key
is a conflict.

Before the handler runs, the key is reserved together with the id that the new thing will have (`call.new_id()`);
afterwards the answer is stored. If the process dies in between, the repeat finds the id: if the thing exists, the
method that `again` names reads it, otherwise it is created with that id. A route without `again` then answers 503
`OUTCOME_UNKNOWN`. So nothing is ever written twice. An error that changed nothing frees the key: that of the client, or
of a server that was too busy.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from uuid import UUID

import msgspec

from pilotis.http.api import capabilities
from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import Reply
from pilotis.kit import effects, json
from pilotis.kit.errors import (
    BadRequestError,
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    PilotisError,
)
from pilotis.kit.ids import uuid7
from pilotis.kit.offload import offload

HEADER = b"idempotency-key"
REPLAYED = (b"idempotent-replayed", b"true")
MAX_REPLY_BYTES = 1_000_000
_MAX_KEY_LENGTH = 255


class InvalidIdempotencyKeyError(BadRequestError):
    """400 `INVALID_IDEMPOTENCY_KEY`: the header is empty, too long, or not printable ASCII."""

    code = "INVALID_IDEMPOTENCY_KEY"
    message = (
        f"Idempotency-Key is 1 to {_MAX_KEY_LENGTH} printable ASCII characters, spaces included, preferably a UUID."
    )


class IdempotencyKeyInUseError(ConflictError):
    """409 `IDEMPOTENCY_KEY_IN_USE`: the first request with this key is still being answered."""

    code = "IDEMPOTENCY_KEY_IN_USE"
    message = "The first request with this Idempotency-Key is still being answered. Try again shortly."


class IdempotencyKeyReusedError(ConflictError):
    """409 `IDEMPOTENCY_KEY_REUSED`: this key was already sent with a different request."""

    code = "IDEMPOTENCY_KEY_REUSED"
    message = "This Idempotency-Key was sent with a different request. Use a new key for a new request."


class KeptReply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it is stored, encrypted, for the repeats of its request."""

    status: int
    content_type: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows about a key: the id of the new thing, and the answer, if there is one.

    `is_new` says that no process has run the request yet; otherwise, without an answer, the process that ran it has
    died.
    """

    resource_id: UUID
    is_new: bool
    reply: KeptReply | None = None


class IdempotencyStore(Protocol):
    """Stores keys by app, those of routes about no app under `NO_APP`; `scope` and `body` are hashes."""

    async def reserve(self, app_id: UUID, scope: bytes, body: bytes, resource_id: UUID, hours: int) -> Reservation:
        """Reserve the key for this process, or wait up to 5 s for its holder; raises the conflicts above.

        The caller ends what it reserved with one of the methods below, of which none leaves the key in use, whatever
        it raises.
        """

    async def keep(self, app_id: UUID, scope: bytes, resource_id: UUID, status: int, reply: KeptReply | None) -> None:
        """Store the answer for repeats; with `reply` None, because it is too large, store the status alone."""

    async def free(self, app_id: UUID, scope: bytes) -> None:
        """Delete the key, after an error that changed nothing."""

    async def abandon(self, app_id: UUID, scope: bytes) -> None:
        """Let another request run with the reserved id."""


NO_APP = UUID(int=0)
Run = Callable[[], Awaitable[Reply]]
ReadAgain = Callable[[UUID], Awaitable[Reply]]


class Idempotency:
    """Runs each request once per key."""

    def __init__(self, store: IdempotencyStore) -> None:
        self._store = store

    async def run(self, call: Call, key: bytes, endpoint: Endpoint, body: Any, run: Run, read: ReadAgain) -> Reply:
        """Return the handler's answer, or that of an earlier request with the key.

        `read` returns the answer about the thing with an id, by the endpoint's `again`; it raises 404 if it does not
        exist.
        """
        app = call.principal.app
        app_id, scope = NO_APP if app is None else app.app_id, _scope(call, endpoint, key)
        data = msgspec.json.encode(body)
        hash_ = await offload(len(data), _body_hash, key, data)
        found = await self._store.reserve(app_id, scope, hash_, uuid7(), call.limits.idempotency_hours)
        if found.reply is not None:
            return _replay(found.reply)
        call.reserved_id = found.resource_id
        made = None
        if not found.is_new:
            try:
                made = await self._made(endpoint, body, found.resource_id, read)
            except BaseException:
                await self._store.abandon(app_id, scope)
                raise
        reply = made or await self._run(app_id, scope, run)
        status = reply.status or endpoint.status
        await self._store.keep(app_id, scope, found.resource_id, status, _kept(status, reply))
        return _replay_of(reply) if made else reply

    async def _run(self, app_id: UUID, scope: bytes, run: Run) -> Reply:
        done, token = effects.begin()
        try:
            return await run()
        except BaseException as error:
            if _changed_nothing(error, done):
                await self._store.free(app_id, scope)
            else:
                # It is unknown whether the thing exists: the repeat finds out.
                await self._store.abandon(app_id, scope)
            raise
        finally:
            effects.end(token)

    async def _made(self, endpoint: Endpoint, body: Any, resource_id: UUID, read: ReadAgain) -> Reply | None:
        """Return what a dead process created, or None if it created nothing."""
        if endpoint.again is None or (endpoint.cost is not None and endpoint.cost(body) != 1):
            # It cannot be known whether it exists.
            raise OutcomeUnknownError
        try:
            return await read(resource_id)
        except NotFoundError:
            return None


def _changed_nothing(error: BaseException, done: effects.Effects) -> bool:
    """Whether the request may run again as if for the first time."""
    if not isinstance(error, PilotisError):
        return False
    return error.status < 500 or not (done.exist or isinstance(error, OutcomeUnknownError))


def key_of(call: Call) -> bytes | None:
    """Return the request's key; raises `InvalidIdempotencyKeyError`."""
    key = call.headers.get(HEADER)
    if key is not None and not (0 < len(key) <= _MAX_KEY_LENGTH and all(0x20 <= byte < 0x7F for byte in key)):
        raise InvalidIdempotencyKeyError
    return key


def _scope(call: Call, endpoint: Endpoint, key: bytes) -> bytes:
    principal = call.principal
    who = f"{principal.kind}\0{principal.actor_id or ''}"
    if principal.capabilities:
        who += f"\0{capabilities.digest(principal.capabilities)}"
    parts = [endpoint.method, endpoint.path, *call.path_values, call.scope["query_string"].decode("latin-1"), who]
    return hashlib.sha256("\0".join(parts).encode() + b"\0" + key).digest()


def _body_hash(key: bytes, data: bytes) -> bytes:
    """Return a keyed hash of a body's canonical JSON: object members in order, no white space.

    The hash key is derived from the Idempotency-Key, which is not stored: with a plain hash, a reader of the table
    could guess passwords.
    """
    return hmac.digest(key, msgspec.json.encode(json.decode(data), order="sorted"), "sha256")


def _kept(status: int, reply: Reply) -> KeptReply | None:
    if not isinstance(reply.body, bytes) or len(reply.body) > MAX_REPLY_BYTES:
        return None
    return KeptReply(
        status=status,
        content_type=reply.content_type,
        headers=list(reply.headers),
        body=reply.body,
    )


def _replay(kept: KeptReply) -> Reply:
    return Reply(kept.body, kept.status, [*kept.headers, REPLAYED], kept.content_type)


def _replay_of(reply: Reply) -> Reply:
    return msgspec.structs.replace(reply, headers=[*reply.headers, REPLAYED])
