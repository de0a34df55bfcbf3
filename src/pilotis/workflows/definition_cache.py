"""The definitions of versions of workflows, which never change once they are stored."""

from __future__ import annotations

from collections import OrderedDict
from uuid import UUID

from pilotis.db.pool import Database
from pilotis.workflows import store
from pilotis.workflows.definition import decode
from pilotis.workflows.types import NewWorkflow

_MAX_DEFINITIONS = 1000


class DefinitionCache:
    """Keeps the last definitions that were read, decoded."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._definitions: OrderedDict[tuple[UUID, UUID, int], NewWorkflow] = OrderedDict()

    async def of(self, app_id: UUID, workflow_id: UUID, version: int) -> NewWorkflow | None:
        """Return the definition of a version; None if the workflow is deleted."""
        key = (app_id, workflow_id, version)
        found = self._definitions.get(key)
        if found is None:
            text = await store.definition(self._database.of(app_id), *key)
            if text is None:
                return None
            found = self._definitions[key] = decode(text)
            while len(self._definitions) > _MAX_DEFINITIONS:
                self._definitions.popitem(last=False)
        return found
