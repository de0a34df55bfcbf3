"""PostgreSQL's extensions, created when first needed, with a clear error if they are not available."""

from __future__ import annotations

import asyncpg

from pilotis.db.pool import Database
from pilotis.kit.errors import UnavailableError

_SCHEMA = """
    select quote_ident(nspname) from pg_extension join pg_namespace n on n.oid = extnamespace where extname = $1
"""


class ExtensionMissingError(UnavailableError):
    """503 `EXTENSION_MISSING`: the database lacks an extension, and Pilotis may not create it."""

    code = "EXTENSION_MISSING"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The database lacks the extension {name}. Its administrator can add it: create extension {name}.",
            retry_after=60,
        )


class Extensions:
    """The schemas of a database's extensions, by which their types and operators are qualified."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._schemas: dict[str, str] = {}

    async def schema(self, name: str) -> str:
        """Return the quoted schema of an extension, creating it if necessary; raises `ExtensionMissingError`."""
        found = self._schemas.get(name) or await self._find(name) or await self._make(name)
        self._schemas[name] = found
        return found

    async def _find(self, name: str) -> str | None:
        found: str | None = await self._database.fetchval(_SCHEMA, name)
        return found

    async def _make(self, name: str) -> str:
        try:
            await self._database.execute(f'create extension if not exists "{name}" schema pilotis')
        except (asyncpg.UniqueViolationError, asyncpg.DuplicateObjectError):
            pass  # Another connection was faster.
        except (
            asyncpg.InsufficientPrivilegeError,
            asyncpg.FeatureNotSupportedError,
            asyncpg.UndefinedFileError,
        ):
            raise ExtensionMissingError(name) from None
        found = await self._find(name)
        if found is None:
            raise ExtensionMissingError(name)
        return found
