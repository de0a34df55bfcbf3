"""The endpoint table: one declaration from which routing, binding, OpenAPI, CORS, limits and the test matrix follow.

A feature's `endpoints.py` holds a class derived from `Endpoints` whose methods carry a route:

    class NoteEndpoints(Endpoints, tag="Notes"):
        @post("/v1/notes/:note_id", access=Access.PUBLIC_KEY, status=201)
        async def create(self, call: Call, note_id: UUID, body: NewNote) -> Note: ...

The signature is the contract. After `call` come the path's parameters by their names (`UUID` or `str`), then
`query`, a struct read from the query string, and `body`, a struct read from the JSON body (`bytes` for a body the
service decodes itself, documented by `body_shape`; `AsyncIterator[bytes]` for one of any type and length that it takes
as it comes in). The return type is the answer's shape. A wrong declaration fails when the program starts.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar
from uuid import UUID

import msgspec

from pilotis.http.principals import Access
from pilotis.kit import json
from pilotis.kit.errors import PilotisError

MAX_JSON_BYTES = 10 * 1024 * 1024
_PARAMETER = re.compile(r"[:*](\w+)")

Handler = Callable[..., Awaitable[Any]]
Method = TypeVar("Method", bound=Handler)


class NoAnswer(msgspec.Struct, frozen=True):
    """An answer without a body."""


class Stream(msgspec.Struct, frozen=True):
    """A body of `size` bytes, or None where that is not known, that is read only as fast as the client takes it.

    It is closed in any case.
    """

    size: int | None
    chunks: AsyncGenerator[bytes]


class FilePart(msgspec.Struct, frozen=True):
    """A body of `size` bytes of an open file, from `start` on, for a call that `takes_files`.

    The descriptor `file` is closed in any case.
    """

    file: int
    start: int
    size: int


class Reply(msgspec.Struct, frozen=True):
    """An answer made by hand: bytes as they go out, with a status and headers where they differ from the endpoint's.

    `holds` tells whether the answer is still the one to give. One that has it is the same for whoever asks for the URL
    without credentials, conditions or ranges, and is not counted by any rate limit: it may be kept and given again.
    """

    body: bytes | Stream | FilePart
    status: int | None = None
    headers: Sequence[tuple[bytes, bytes]] = ()
    content_type: bytes = b"application/json"
    holds: Callable[[], Awaitable[bool]] | None = None


@dataclass(frozen=True, eq=False)
class Endpoint:
    """One route, complete: what calls it, what it asks for, what it answers."""

    method: str
    path: str
    handler: Handler
    access: Access
    status: int
    summary: str
    description: str
    tag: str
    rate: str | None
    max_body: int
    parameters: Mapping[str, type]
    query: type | None
    body: type | None
    body_optional: bool
    body_shape: Any
    returns: Any
    errors: Sequence[type[PilotisError]]
    cost: Callable[[Any], int] | None = None
    console: bool = False
    takes_raw_body: bool = False
    takes_stream: bool = False
    media_type: str = "application/json"
    decoder: msgspec.json.Decoder[Any] | None = field(default=None, repr=False)

    @property
    def is_console(self) -> bool:
        """Whether the route is the console's, which no other site's page may call."""
        return self.console or self.access.is_console

    @property
    def operation_id(self) -> str:
        """The handler's qualified name, such as `RowEndpoints.create`."""
        return self.handler.__qualname__


@dataclass(frozen=True)
class _Route:
    method: str
    path: str
    access: Access
    status: int
    rate: str | None
    max_body: int
    body_shape: Any
    returns: Any
    media_type: str
    errors: Sequence[type[PilotisError]]
    cost: Callable[[Any], int] | None
    console: bool


def route(
    method: str,
    path: str,
    *,
    access: Access,
    status: int = 200,
    rate: str | None = None,
    max_body: int = MAX_JSON_BYTES,
    body_shape: Any = None,
    returns: Any = None,
    media_type: str = "application/json",
    errors: Sequence[type[PilotisError]] = (),
    cost: Callable[[Any], int] | None = None,
    console: bool = False,
) -> Callable[[Method], Method]:
    """Declare that a method of an `Endpoints` class answers a route.

    `rate` names a rate-limit class, `cost` tells of a body how many requests it counts as there; `body_shape` and
    `returns` document a body or an answer of raw bytes, `media_type` the answer's, several with `, ` between them;
    `errors` are the ones peculiar to the route; `console` makes one that asks for no credential the console's.
    """

    def mark(handler: Method) -> Method:
        declared = _Route(
            method, path, access, status, rate, max_body, body_shape, returns, media_type, errors, cost, console
        )
        handler.__dict__.setdefault("routes", []).append(declared)
        return handler

    return mark


def get(path: str, **options: Any) -> Callable[[Method], Method]:
    """Declare a GET route; see `route`."""
    return route("GET", path, **options)


def post(path: str, **options: Any) -> Callable[[Method], Method]:
    """Declare a POST route; see `route`."""
    return route("POST", path, **options)


def put(path: str, **options: Any) -> Callable[[Method], Method]:
    """Declare a PUT route; see `route`."""
    return route("PUT", path, **options)


def patch(path: str, **options: Any) -> Callable[[Method], Method]:
    """Declare a PATCH route; see `route`."""
    return route("PATCH", path, **options)


def delete(path: str, **options: Any) -> Callable[[Method], Method]:
    """Declare a DELETE route; see `route`."""
    return route("DELETE", path, **options)


class Endpoints:
    """Base of a feature's endpoints; `table()` lists what its methods declare."""

    tag: ClassVar[str]

    def __init_subclass__(cls, *, tag: str, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.tag = tag

    def table(self) -> list[Endpoint]:
        """Return the endpoints in the order of their declaration."""
        return [
            _endpoint(getattr(self, name), declared, self.tag)
            for name, member in vars(type(self)).items()
            for declared in getattr(member, "routes", ())
        ]


def _endpoint(handler: Handler, declared: _Route, tag: str) -> Endpoint:
    hints = typing.get_type_hints(handler, include_extras=True)
    arguments = list(inspect.signature(handler).parameters)[1:]
    names = _PARAMETER.findall(declared.path)
    expected = [*names, *(name for name in ("query", "body") if name in hints)]
    if arguments != expected:
        raise TypeError(f"{handler.__qualname__} takes {arguments}, but {declared.path} gives {expected}.")
    if wrong := [name for name in names if hints[name] not in {UUID, str}]:
        raise TypeError(f"{handler.__qualname__}: the path parameters {wrong} must be UUID or str.")
    body, optional = _body_type(hints.get("body"))
    summary, description = _documentation(handler)
    return Endpoint(
        method=declared.method,
        path=declared.path,
        handler=handler,
        access=declared.access,
        status=declared.status,
        summary=summary,
        description=description,
        tag=tag,
        rate=declared.rate,
        max_body=declared.max_body,
        parameters={name: hints[name] for name in names},
        query=hints.get("query"),
        body=body,
        body_optional=optional,
        body_shape=declared.body_shape or body,
        returns=declared.returns or hints.get("return"),
        errors=declared.errors,
        cost=declared.cost,
        console=declared.console,
        takes_raw_body=body is bytes,
        takes_stream=body == AsyncIterator[bytes],
        media_type=declared.media_type,
        decoder=json.decoder(body) if body and body not in {bytes, AsyncIterator[bytes]} else None,
    )


def _body_type(hint: Any) -> tuple[Any, bool]:
    if hint is None:
        return None, False
    arguments = typing.get_args(hint)
    if type(None) in arguments:
        return next(argument for argument in arguments if argument is not type(None)), True
    return hint, False


def _documentation(handler: Handler) -> tuple[str, str]:
    summary, _, description = inspect.cleandoc(handler.__doc__ or "").partition("\n\n")
    if not summary:
        raise TypeError(f"{handler.__qualname__} needs a docstring: it is the route's documentation.")
    return " ".join(summary.split()), description
