"""The routes of rules."""

from __future__ import annotations

from uuid import UUID

from pilotis.data.rules.document import RULE_ERRORS
from pilotis.data.rules.service import Rules, RulesChangedError, UsedInRuleError
from pilotis.data.rules.types import NewRules, TableRules
from pilotis.data.tables.service import TableBusyError, TableNotFoundError
from pilotis.http.api.endpoint import Endpoints, get, put
from pilotis.http.api.principals import Role, console
from pilotis.http.api.request import Call

_RULES = "/v1/apps/:app_id/tables/:table_id/rules"


class RuleEndpoints(Endpoints, tag="Rules"):
    """Rules: who may list, read, create, change and delete which rows of a table."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    @get(_RULES, access=console(Role.VIEWER, secret_key=True), errors=[TableNotFoundError])
    async def read(self, call: Call, app_id: UUID, table_id: UUID) -> TableRules:
        """Read a table's rules, and what to begin with."""
        return await self._rules.read(call.app, table_id)

    @put(
        _RULES,
        access=console(Role.EDITOR, secret_key=True),
        errors=[TableNotFoundError, *RULE_ERRORS, RulesChangedError, UsedInRuleError, TableBusyError],
    )
    async def save(self, call: Call, app_id: UUID, table_id: UUID, body: NewRules) -> TableRules:
        """Replace a table's rules. They hold for every request that begins after the answer, on every node."""
        await self._rules.save(call.app, call.actor, table_id, body)
        return await self._rules.read(call.app, table_id)
