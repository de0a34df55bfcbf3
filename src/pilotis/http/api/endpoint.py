"""The endpoint table: one declaration from which routing, binding, OpenAPI, CORS, limits and the test matrix follow.

A feature's `endpoints.py` holds a class derived from `Endpoints` whose methods declare a route:

    class NoteEndpoints(Endpoints, tag="Notes"):
        @post("/v1/notes/:note_id", access=Access.PUBLIC_KEY, status=201)
        async def create(self, call: Call, note_id: UUID, body: NewNote) -> Note: ...

The signature is the contract. After `call` come the path's parameters by their names (`UUID` or `str`), then `query`, a
struct read from the query string, `body`, of one of the types in `pilotis.http.api.bodies`, and the cookies that it
reads, see `pilotis.http.api.cookies`. The return type is the answer's type: a struct that becomes JSON, None for 204,
or one of `pilotis.http.replies`. A wrong declaration fails when the program starts.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, ClassVar, Literal, TypeVar
from uuid import UUID

import msgspec

from pilotis.http.api.bodies import BodyKind, declared_body
from pilotis.http.api.cookies import Cookie, CookiesWithPrefix, Origins
from pilotis.http.api.error_styles import ErrorStyle
from pilotis.http.api.example import Example, examples_beside
from pilotis.http.api.incoming import Incoming
from pilotis.http.api.principals import Access, Credential
from pilotis.http.replies.reply import Answer
from pilotis.kit import json
from pilotis.kit.errors import PilotisError

_PARAMETER = re.compile(r"[:*](\w+)")

_COMPARABLE = frozenset({None, BodyKind.JSON, BodyKind.JSON_TEXT})

Handler = Callable[..., Awaitable[Any]]
Method = TypeVar("Method", bound=Handler)


CorsRule = Literal["public", "console", "none"] | Callable[[Incoming], str | None]
"""Whose pages may read an answer: any site's, the console's, none, or those of the origin that a function returns."""


@dataclass(frozen=True)
class Again:
    """The method that reads what a POST created, and the names of its arguments after `call`."""

    handler: Handler
    parameters: Sequence[str]


@dataclass(frozen=True, eq=False)
class Endpoint:
    """One route: its path, its requirements and its responses."""

    method: str
    path: str
    handler: Handler
    access: Access
    status: int
    summary: str
    description: str
    tag: str
    rate: str | None
    rows: bool
    unique_keys: bool
    parameters: Mapping[str, type]
    query: type | None
    body: type | None
    body_optional: bool
    body_schema: Any
    returns: Any
    errors: Sequence[type[PilotisError]]
    cost: Callable[[Any], int] | None = None
    console: bool = False
    body_kind: BodyKind | None = None
    cookies: Sequence[Cookie | CookiesWithPrefix] = ()
    origins: Origins | None = None
    cors: CorsRule = "public"
    error_styles: Mapping[str, ErrorStyle] = field(default_factory=dict)
    creates: str | None = None
    again: Again | None = None
    direct: Callable[..., Any] | None = None
    only_reads: bool = False
    other_statuses: tuple[int, ...] = ()
    media_type: str = "application/json"
    needs_room: bool | Callable[[Any], bool] = False
    body_media_type: str = "application/json"
    request_headers: Mapping[str, str] = field(default_factory=dict)
    response_headers: Mapping[str, str] = field(default_factory=dict)
    head: str = ""

    @functools.cached_property
    def decoder(self) -> msgspec.json.Decoder[Any]:
        """The decoder of a JSON body, built for the first request: a start would wait for those of all routes."""
        return json.decoder(self.body)

    @property
    def takes_stream(self) -> bool:
        """Whether the body is read as it arrives, whatever its length."""
        return self.body_kind in {BodyKind.STREAM, BodyKind.MULTIPART}

    @property
    def takes_idempotency_key(self) -> bool:
        """Whether the route honours `Idempotency-Key`: a POST or PATCH that may write, by a client that is known.

        A refresh is repeatable as it is, and a body that is not JSON has no canonical form to compare.
        """
        if self.creates is not None:
            return True
        by_known = bool(self.access.any_of) and not self.access.takes(Credential.REFRESH)
        return self.method in {"POST", "PATCH"} and by_known and not self.only_reads and self.body_kind in _COMPARABLE

    @property
    def is_console(self) -> bool:
        """Whether the route belongs to the console, so that no other site's page may call it."""
        return self.console or self.access.is_console

    @property
    def example(self) -> Example | None:
        """Its example, which the reference shows and a test runs."""
        return examples_beside(self.handler.__module__).get(f"{self.method} {self.path}")

    @property
    def operation_id(self) -> str:
        """The handler's qualified name, such as `RowEndpoints.create`."""
        return self.handler.__qualname__


@dataclass(frozen=True)
class _Route:
    method: str
    path: str
    access: Access
    status: int | None
    rate: str | None
    rows: bool
    unique_keys: bool
    body_schema: Any
    returns: Any
    media_type: str | None
    body_media_type: str
    errors: Sequence[type[PilotisError]]
    cost: Callable[[Any], int] | None
    console: bool
    needs_room: bool | Callable[[Any], bool]
    request_headers: Mapping[str, str]
    response_headers: Mapping[str, str]
    head: str
    cors: CorsRule | None
    origins: Origins | None
    creates: str | None
    again: str | None
    direct: str | None
    only_reads: bool
    other_statuses: tuple[int, ...]


def route(
    method: str,
    path: str,
    *,
    access: Access,
    status: int | None = None,
    rate: str | None = None,
    rows: bool = False,
    unique_keys: bool = False,
    body_schema: Any = None,
    returns: Any = None,
    media_type: str | None = None,
    body_media_type: str = "application/octet-stream",
    errors: Sequence[type[PilotisError]] = (),
    cost: Callable[[Any], int] | None = None,
    console: bool = False,
    needs_room: bool | Callable[[Any], bool] | None = None,
    request_headers: Mapping[str, str] | None = None,
    response_headers: Mapping[str, str] | None = None,
    head: str = "",
    cors: CorsRule | None = None,
    origins: Origins | None = None,
    creates: str | None = None,
    again: str | None = None,
    direct: str | None = None,
    only_reads: bool = False,
    other_statuses: tuple[int, ...] = (),
) -> Callable[[Method], Method]:
    """Declare that a method of an `Endpoints` class answers a route.

    `rows` says that the body contains rows, and so may be as large as `body_bytes` instead of `query_bytes`;
    `unique_keys` rejects a body with duplicate keys in an object. `rate` names a rate-limit class, and `cost` returns
    how many requests a body counts as; `body_schema` and `returns` document a body or an answer of raw bytes,
    `media_type` the answer's content types, separated by `, `; `errors` are those specific to the route; `console`
    assigns a route without credentials to the console. `needs_room` says whether the route stores something, so that it
    is rejected while the disk is nearly full; by default POST, PUT and PATCH do. It may be a function of the body.
    `body_media_type` documents the content type of a streamed body; for several, separated by `, `, `body_schema`
    is a union with one member each, in order; `request_headers` and `response_headers` describe the headers
    specific to the route, by name; `head` is the summary of the HEAD request, if clients need one. `cors` says
    whose pages may read the answer: by default any, and for a console route the console's. A route that reads
    cookies must name the `origins` that it may be called from. `creates` is the path parameter that names what a
    POST creates; its id is reserved for an `Idempotency-Key` (`takes_idempotency_key`). `again` is the method of
    the class that returns the created thing as the POST does, or raises a `NotFoundError`, for routes that take the
    new id from `call.new_id()`. After `call` it takes any of the path parameters, what `creates` names, and `body`.
    `direct` is the method that begins the answer to a usual request without a task, see `pilotis.http.api.direct`.
    `only_reads` is for a handler that changes nothing, and uses nothing of a signed-in member but its id: it runs
    while the member's session is being checked, and is cancelled if that fails. `other_statuses` are those that a
    success may also have.
    """
    if needs_room is None:
        needs_room = method in {"POST", "PUT", "PATCH"}

    def mark(handler: Method) -> Method:
        declared = _Route(
            method=method,
            path=path,
            access=access,
            status=status,
            rate=rate,
            rows=rows,
            unique_keys=unique_keys,
            body_schema=body_schema,
            returns=returns,
            media_type=media_type,
            errors=errors,
            cost=cost,
            console=console,
            needs_room=needs_room,
            body_media_type=body_media_type,
            request_headers=request_headers or {},
            response_headers=response_headers or {},
            head=head,
            cors=cors,
            origins=origins,
            creates=creates,
            again=again,
            direct=direct,
            only_reads=only_reads,
            other_statuses=other_statuses,
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
    """Base of a feature's endpoints; `table()` lists the routes that its methods declare."""

    tag: ClassVar[str]
    error_styles: ClassVar[Mapping[str, ErrorStyle]]

    def __init_subclass__(
        cls,
        *,
        tag: str,
        error_styles: Mapping[str, ErrorStyle] | None = None,
        **options: Any,
    ) -> None:
        """Register the routes of the class; `error_styles` apply to all paths, even unknown ones, below a prefix."""
        super().__init_subclass__(**options)
        cls.tag = tag
        cls.error_styles = error_styles or {}

    def table(self) -> list[Endpoint]:
        """Return the endpoints in the order of their declaration."""
        return self._table(lambda name: getattr(self, name))

    @classmethod
    def describe(cls) -> list[Endpoint]:
        """Return the endpoints for documentation: without an object, their handlers cannot be called."""
        return cls._table(lambda name: vars(cls)[name])

    @classmethod
    def _table(cls, handler: Callable[[str], Handler]) -> list[Endpoint]:
        return [
            _endpoint(
                cls,
                handler(name),
                declared,
                handler(declared.again) if declared.again else None,
                handler(declared.direct) if declared.direct else None,
            )
            for name, member in vars(cls).items()
            for declared in getattr(member, "routes", ())
        ]


def _endpoint(
    group: type[Endpoints],
    handler: Handler,
    declared: _Route,
    again: Handler | None,
    direct: Callable[..., Any] | None,
) -> Endpoint:
    hints = _hints(handler)
    names = _PARAMETER.findall(declared.path)
    cookies = _cookies(handler, hints, declared)
    _check_parameters(handler, declared, [*names, *(name for name in ("query", "body") if name in hints), *cookies])
    if wrong := [name for name in names if hints[name] not in {UUID, str}]:
        raise TypeError(f"{handler.__qualname__}: the path parameters {wrong} must be UUID or str.")
    body = declared_body(hints.get("body"))
    answer = _answer(hints.get("return"))
    summary, description = _documentation(handler)
    return Endpoint(
        method=declared.method,
        path=declared.path,
        handler=handler,
        access=declared.access,
        status=declared.status
        or (204 if hints.get("return") is NoneType else answer.default_status if answer else 200),
        summary=summary,
        description=description,
        tag=group.tag,
        rate=declared.rate,
        rows=declared.rows,
        unique_keys=declared.unique_keys,
        parameters={name: hints[name] for name in names},
        query=hints.get("query"),
        body=body.type if body else None,
        body_optional=body.optional if body else False,
        body_schema=declared.body_schema or (body.type if body else None),
        body_kind=body.kind if body else None,
        cookies=tuple(cookies.values()),
        origins=declared.origins,
        creates=declared.creates,
        again=again and _again(again, {*names, "body", declared.creates}),
        direct=direct,
        only_reads=declared.only_reads,
        other_statuses=declared.other_statuses,
        cors=declared.cors or ("console" if declared.console or declared.access.is_console else "public"),
        error_styles=group.error_styles,
        returns=declared.returns or _returned(hints.get("return"), answer, declared.status),
        errors=declared.errors,
        cost=declared.cost,
        console=declared.console,
        needs_room=declared.needs_room,
        media_type=declared.media_type or (answer.media_type if answer else "application/json"),
        body_media_type=declared.body_media_type,
        request_headers=declared.request_headers,
        response_headers=declared.response_headers,
        head=declared.head,
    )


def _hints(handler: Handler) -> dict[str, Any]:
    """Return the types of the parameters and of the answer; `typing.get_type_hints` takes four times as long."""
    found = inspect.get_annotations(handler, eval_str=True)
    return {name: NoneType if hint is None else hint for name, hint in found.items()}


def _arguments(handler: Handler) -> list[str]:
    """Return the names of the parameters after `call`."""
    code = handler.__code__
    return [name for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if name != "self"][1:]


def _check_parameters(handler: Handler, declared: _Route, expected: list[str]) -> None:
    arguments = _arguments(handler)
    if arguments != expected:
        raise TypeError(f"{handler.__qualname__} takes {arguments}, but {declared.path} gives {expected}.")


def _again(handler: Handler, known: set[str | None]) -> Again:
    parameters = _arguments(handler)
    if unknown := set(parameters) - known:
        raise TypeError(f"{handler.__qualname__} takes {unknown}, which is unknown when a request is repeated.")
    return Again(handler, parameters)


def _cookies(handler: Handler, hints: Mapping[str, Any], declared: _Route) -> dict[str, Cookie | CookiesWithPrefix]:
    cookies = {
        name: note
        for name, hint in hints.items()
        for note in getattr(hint, "__metadata__", ())
        if isinstance(note, (Cookie, CookiesWithPrefix))
    }
    if cookies and declared.origins is None:
        raise TypeError(f"{handler.__qualname__} reads cookies, so {declared.path} must name its origins.")
    return cookies


def _answer(hint: Any) -> type[Answer] | None:
    """Return the kind of answer that a handler's return type names; of several, the one with a body."""
    kinds = [kind for kind in (hint, *typing.get_args(hint)) if isinstance(kind, type) and issubclass(kind, Answer)]
    return max(kinds, key=lambda kind: bool(kind.media_type), default=None)


def _returned(hint: Any, answer: type[Answer] | None, status: int | None) -> Any:
    """Return the type that documents a return type: a string for what is not JSON, `NoneType` for no body."""
    if status == 204 or (answer is not None and not answer.media_type):
        return NoneType
    return hint if answer is None else str


def _documentation(handler: Handler) -> tuple[str, str]:
    summary, _, description = inspect.cleandoc(handler.__doc__ or "").partition("\n\n")
    if not summary:
        raise TypeError(f"{handler.__qualname__} needs a docstring: it is the route's documentation.")
    return " ".join(summary.split()), description
