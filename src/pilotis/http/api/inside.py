"""Calls from inside the process, such as a function's: through the whole endpoint layer, without HTTP.

Router, scope, role, rate limits, binding, handler and metrics are those of an external request. Credentials, hosts,
CORS, `Idempotency-Key` and the access log do not apply.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import aclosing
from urllib.parse import unquote

import msgspec

from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.principals import (
    AppItself,
    AppMember,
    AppUser,
    ConsoleUser,
    Credential,
    FunctionCaller,
    InvalidTokenError,
    Principal,
    RoleRequiredError,
    ScopeRequiredError,
    SecretKey,
)
from pilotis.http.api.request import Call, Message, Receive, Scope
from pilotis.http.replies.events import Events
from pilotis.http.replies.reply import FilePart, Reply, Stream
from pilotis.kit.errors import BadRequestError, NotFoundError, PayloadTooLargeError, PilotisError

MAX_ANSWER = 6 * 1024 * 1024
"""The maximum size of an answer in bytes."""


class StreamNotAllowedError(BadRequestError):
    """400 `STREAM_NOT_ALLOWED`: the route answers with a stream, which an internal call cannot receive."""

    code = "STREAM_NOT_ALLOWED"
    message = "This route answers with a stream; call it by HTTP."


class DeadlineExceededError(PilotisError):
    """504 `DEADLINE_EXCEEDED`: the call was not answered before its deadline."""

    status = 504
    code = "DEADLINE_EXCEEDED"
    message = "The call was not answered before its deadline."


def scope_of(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Scope:
    """Return the ASGI scope of a call; `path` may have a query string."""
    raw, _, query = path.partition("?")
    lines = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    lines = [line for line in lines if line[0] not in {b"content-length", b"transfer-encoding"}]
    lines.append((b"content-length", b"%d" % len(body)))
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method.upper(),
        "path": unquote(raw),
        "raw_path": raw.encode(),
        "query_string": query.encode(),
        "headers": lines,
        "client": None,
    }


def receive_of(body: bytes) -> Receive:
    """Return an ASGI `receive` that returns the whole body, and then blocks: the caller never disconnects."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop()

    return receive


def require_access(
    endpoint: Endpoint, principal: Principal, values: Mapping[str, str], scopes: frozenset[str] | None = None
) -> None:
    """Raise the 401, 403 or 404 of a principal that may not call the endpoint.

    `scopes`, where they are given, bound any principal as they do a function.
    """
    access = endpoint.access
    if scopes is not None and access.scope not in scopes:
        raise ScopeRequiredError
    if isinstance(principal, FunctionCaller):
        # An open route with a scope is one whose URL is a credential, such as that of an upload.
        is_taken = access.takes(Credential.FUNCTION) or not access.any_of
        if not is_taken or access.scope is None or access.scope not in principal.scopes:
            raise ScopeRequiredError
    elif not _is_taken(endpoint, principal):
        raise InvalidTokenError
    if access.role is not None:
        if principal.app is None or values.get("app_id") != str(principal.app.app_id):
            raise NotFoundError
        if not principal.may(access.role):
            raise RoleRequiredError


def _is_taken(endpoint: Endpoint, principal: Principal) -> bool:
    access = endpoint.access
    if access.takes(Credential.PUBLIC_KEY):
        return principal.app is not None
    if Credential.MEMBER in access.usual:
        return isinstance(principal, AppMember)
    if access.is_console:
        if isinstance(principal, SecretKey):
            return access.takes(Credential.SECRET_KEY)
        return isinstance(principal, AppUser | AppItself if access.role is not None else ConsoleUser)
    if Credential.SECRET_KEY in access.usual:
        return isinstance(principal, SecretKey)
    return not access.any_of


async def require_whole(call: Call, reply: Reply) -> Reply:
    """Return an answer whose body is complete bytes, and read one of known size, such as a file, to its end.

    Closes any other and raises `StreamNotAllowedError`, or `PayloadTooLargeError` above `MAX_ANSWER` bytes.
    """
    if isinstance(reply.body, bytes):
        return reply
    if isinstance(reply.body, Stream):
        async with aclosing(reply.body.chunks) as chunks:
            if reply.body.size is not None:
                if reply.body.size > MAX_ANSWER:
                    raise PayloadTooLargeError(
                        f"The response has more than {MAX_ANSWER} bytes; request less at a time."
                    )
                call.reserve(reply.body.size)
                return msgspec.structs.replace(reply, body=b"".join([chunk async for chunk in chunks]))
    elif isinstance(reply.body, FilePart):
        os.close(reply.body.file)
    elif isinstance(reply.body, Events):
        await reply.body.source.aclose()
    raise StreamNotAllowedError
