"""Calling views: who may, what comes out, and answers that are cached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from pilotis.data.query.aggregate.service import Aggregation
from pilotis.data.rows.table import PreparedTable
from pilotis.data.rules import of_member
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import MemberTokenRequiredError
from pilotis.data.tables.schema import TableSchema
from pilotis.data.tables.service import Tables
from pilotis.data.views import names, store
from pilotis.data.views.answers import Answer, Answers
from pilotis.data.views.parameters import substituted, values
from pilotis.data.views.service import ViewNotFoundError
from pilotis.data.views.store import Saved
from pilotis.data.views.types import Parameters
from pilotis.db.batching import SingleFlight
from pilotis.db.pool import Database
from pilotis.http.api.principals import Principal, app_of
from pilotis.kit import json
from pilotis.kit.errors import ForbiddenError

Json = Any
Given = Callable[[Parameters], Mapping[str, Json]]
"""Returns the values of a call, where the view's parameters are known."""


class ViewDeniedError(ForbiddenError):
    """403 `RULE_DENIED`: the rule of the view does not let the caller call it."""

    code = "RULE_DENIED"
    message = "The rule of this view does not let you call it."


class Called(NamedTuple):
    """An answer, and its age in seconds where it may come from the cache."""

    body: bytes
    age: int | None


class ViewCalls:
    """Answers calls of views."""

    def __init__(self, database: Database, tables: Tables, aggregation: Aggregation) -> None:
        self._database = database
        self._tables = tables
        self._aggregation = aggregation
        self._reads: SingleFlight[tuple[Saved, Mapping[UUID, int]] | None] = SingleFlight(runs=2)
        self._flights: SingleFlight[Answer] = SingleFlight()
        self._answers = Answers()

    async def call(self, principal: Principal, name: str, given: Given) -> Called:
        """Return what comes out of a view; raises the errors of `Aggregation`, and those of its rule and parameters."""
        app = app_of(principal)
        found = await self._reads.run(
            (app.app_id, name), lambda: store.called(self._database.of(app.app_id), app.app_id, name)
        )
        if found is None:
            raise ViewNotFoundError
        view, versions = found
        await _require_allowed(principal, view)
        self._forget_outdated(app.app_id, versions)
        params = values(view.params, given(view.params), app.limits)

        async def stages(table: PreparedTable) -> Sequence[Json]:
            others = [one for one in view.table_ids if one != view.table_id]
            tables: dict[UUID, TableSchema] = {view.table_id: table.schema}
            for other in others:
                tables[other] = await self._tables.current(app.app_id, other)
            return substituted(names.shown(view.pipeline, table.schema, tables), params)

        if view.run_as == "caller":
            return Called(await self._aggregation.run_on(app, principal, view.table_id, stages), None)
        state = view.version, tuple(sorted(versions.items()))
        key = json.encode(sorted(params.items()))
        seconds = view.cache_seconds

        async def made() -> Answer:
            # Others who waited may have made it.
            if answer := self._answers.get(app.app_id, view.view_id, state, key, seconds):
                return answer
            now = self._answers.now()
            answer = Answer(await self._aggregation.run_on(app, None, view.table_id, stages), now)
            if seconds:
                self._answers.put(app.app_id, view.view_id, state, key, answer)
            return answer

        answer = self._answers.get(app.app_id, view.view_id, state, key, seconds)
        if answer is None:
            answer = await self._flights.run((view.view_id, state, key), made)
        return Called(answer.body, int(self._answers.now() - answer.made) if seconds else None)

    def _forget_outdated(self, app_id: UUID, versions: Mapping[UUID, int]) -> None:
        for table_id, version in versions.items():
            known = self._tables.known(app_id, table_id)
            if known is not None and known.version != version:
                self._tables.forget(known)


async def _require_allowed(principal: Principal, view: Saved) -> None:
    if view.read is True or principal.may(Action.LIST.role):
        return
    member = None if principal.member is None else await principal.member.confirmed()
    if of_member.allows(view.read, member):
        return
    if member is None and of_member.asks_for_member(view.read):
        raise MemberTokenRequiredError("This view is for signed-in members: send an access token as Authorization.")
    raise ViewDeniedError
