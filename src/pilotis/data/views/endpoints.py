"""The routes of views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pilotis.data.query.aggregate.expressions import InvalidPipelineError
from pilotis.data.query.aggregate.service import CalculationFailedError
from pilotis.data.query.endpoints import AggregateResult
from pilotis.data.rows.query import ResultTooLargeError
from pilotis.data.rows.running import QueryTooLargeError
from pilotis.data.rules.document import RULE_ERRORS
from pilotis.data.rules.visibility import MemberTokenRequiredError
from pilotis.data.tables.service import TableNotFoundError
from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.views.calls import Called, ViewCalls, ViewDeniedError
from pilotis.data.views.parameters import ParameterMissingError, from_query
from pilotis.data.views.service import ViewNameTakenError, ViewNotFoundError, Views
from pilotis.data.views.types import NewView, View, ViewCall, ViewChange, ViewList
from pilotis.data.where.compiler import InvalidOperatorError, WhereTooComplexError
from pilotis.data.where.operands import EncryptedColumnError
from pilotis.http.api.endpoint import Endpoints, delete, get, patch, post
from pilotis.http.api.principals import Role, console, public
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted, Whole
from pilotis.http.replies.reply import Reply
from pilotis.kit.errors import QueryTimeoutError

_VIEWS = "/v1/apps/:app_id/views"
_CALL = "/v1/public/views/:name"
_READ = public(scope="rows:read")
_PIPELINE = [
    TableNotFoundError,
    InvalidPipelineError,
    UnknownColumnError,
    EncryptedColumnError,
    InvalidOperatorError,
    WhereTooComplexError,
    *RULE_ERRORS,
]
_CALLED = [
    ViewNotFoundError,
    ViewDeniedError,
    MemberTokenRequiredError,
    ParameterMissingError,
    CalculationFailedError,
    ResultTooLargeError,
    QueryTimeoutError,
    QueryTooLargeError,
]
_AGE = {"Age": "For how many seconds the answer has been cached; present where the view's answers are."}


class ViewEndpoints(Endpoints, tag="Views"):
    """Views: saved pipelines with parameters, which clients call by name."""

    def __init__(self, views: Views, calls: ViewCalls) -> None:
        self._views = views
        self._calls = calls

    @get(_VIEWS, access=console(Role.VIEWER, secret_key=True))
    async def list(self, call: Call, app_id: UUID, query: Whole) -> ViewList:
        """List an app's views, by name."""
        return await self._views.all(call.app)

    @post(
        _VIEWS,
        access=console(Role.EDITOR, secret_key=True),
        status=201,
        creates="view_id",
        again="read",
        errors=[*_PIPELINE, ViewNameTakenError],
    )
    async def create(self, call: Call, app_id: UUID, body: NewView) -> View:
        """Save a pipeline as a view. It is compiled at once: what `aggregate` would reject is rejected here."""
        view_id = UUID(call.new_id())
        await self._views.create(call.app, call.actor, view_id, body)
        return await self._views.read(call.app, view_id)

    @get(f"{_VIEWS}/:view_id", access=console(Role.VIEWER, secret_key=True), errors=[ViewNotFoundError])
    async def read(self, call: Call, app_id: UUID, view_id: UUID) -> View:
        """Read a view, with today's names of columns."""
        return await self._views.read(call.app, view_id)

    @patch(
        f"{_VIEWS}/:view_id",
        access=console(Role.EDITOR, secret_key=True),
        errors=[ViewNotFoundError, *_PIPELINE, ViewNameTakenError],
    )
    async def change(self, call: Call, app_id: UUID, view_id: UUID, body: ViewChange) -> View:
        """Change a view. That holds for every call that begins after the answer, on every node."""
        await self._views.change(call.app, call.actor, view_id, body)
        return await self._views.read(call.app, view_id)

    @delete(f"{_VIEWS}/:view_id", access=console(Role.EDITOR, secret_key=True), errors=[ViewNotFoundError])
    async def remove(self, call: Call, app_id: UUID, view_id: UUID) -> Deleted:
        """Delete a view."""
        await self._views.delete(call.app, call.actor, view_id)
        return Deleted("View deleted.", view_id)

    @post(
        _CALL,
        access=_READ,
        needs_room=False,
        only_reads=True,
        returns=AggregateResult,
        response_headers=_AGE,
        errors=_CALLED,
    )
    async def call(self, call: Call, name: str, body: ViewCall) -> Reply:
        """Call a view: the documents that come out of its pipeline with the values of its parameters."""
        return _reply(await self._calls.call(call.principal, name, lambda _params: body.params))

    @get(
        _CALL,
        access=_READ,
        only_reads=True,
        returns=AggregateResult,
        response_headers=_AGE,
        errors=_CALLED,
    )
    async def call_by_get(self, call: Call, name: str) -> Reply:
        """Call a view with the values of its parameters in the query string.

        There texts, dates and UUIDs stand as they are, and all others as JSON: `?since=2026-01-01T00:00:00Z&limit=10`.
        """

        def given(params: Mapping[str, Any]) -> Mapping[str, Any]:
            return from_query(dict(params), call.scope["query_string"])

        return _reply(await self._calls.call(call.principal, name, given))


def _reply(called: Called) -> Reply:
    headers = () if called.age is None else ((b"age", b"%d" % called.age),)
    return Reply(called.body, headers=headers)
