"""Each table is written by the feature that owns it, and statements on rows read the app's schema alone."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotis.db.observing import owners
from tests.test_architecture import SOURCE, part_of

SQL = SOURCE / "db" / "sql"
WRITE = re.compile(r"\b(?:insert\s+into|update|delete\s+from)\s+pilotis\.(\w+)", re.IGNORECASE)
CREATE = re.compile(r"create (?:unlogged )?table (?:if not exists )?pilotis\.(\w+)\s*\((.*?)\n\)", re.DOTALL)

# Statements that write another feature's table, each with the reason why it still does.
ELSEWHERE = {
    ("apps.store", "audit_log"): "the purge of an app deletes all that is the app's, in one transaction",
    ("apps.store", "sessions"): "the purge of an app deletes all that is the app's, in one transaction",
    ("data.tables.index_builds", "index_uses"): "a dropped column takes its indexes with it, under the table's lock",
    ("data.tables.index_builds", "indexes"): "a dropped column takes its indexes with it, under the table's lock",
    ("data.trash.store", "columns"): "the trash is a state of tables and columns, not a table of its own",
    ("data.trash.store", "tables"): "the trash is a state of tables and columns, not a table of its own",
    ("hosting.content_store", "pending_deletions"): "the bytes of sites and of files are deleted by one mechanism",
    ("archive.request_store", "pending_deletions"): "the bytes of archives and of files are deleted by one mechanism",
    ("security.encryption.service", "apps"): "an app's data key is a column of the app",
    ("security.sessions.store", "members"): "a sign-in notes that the member is active in the same statement",
    ("security.sessions.store", "rate_limits"): "a sign-in that succeeds clears its counter in the same statement",
    (
        "users.role_store",
        "secret_keys",
    ): "a user that loses its role on an app loses its keys there in the same transaction",
}

# Tables that several modules of their owner write, each with the reason; all others have one.
SEVERAL = {
    "audit_log": (
        "each feature records entries in its own transaction, and a periodic task deletes old ones in batches",
        {"security.audit.retention", "security.audit.service"},
    ),
    "deliveries": (
        "the sender writes on its hot path, and the log restarts and deletes on request and by age",
        {"webhooks.delivery_store", "webhooks.log_store"},
    ),
    "delivery_attempts": (
        "the sender writes on its hot path, and the log deletes attempts together with their deliveries",
        {"webhooks.delivery_store", "webhooks.log_store"},
    ),
    "events": (
        "statements of other features contain the insert as text; dispatch and retention run on their own",
        {"events.statements", "events.store"},
    ),
    "file_storages": (
        "one statement ends an upload and settles its reservation in the storage, which saves a round trip",
        {"files.store", "files.uploads.store"},
    ),
    "files": (
        "one statement completes uploads and inserts their files, which saves a round trip",
        {"files.store", "files.uploads.store"},
    ),
    "installation": (
        "the set-up inserts the fingerprint of the master key, and a rotation replaces it",
        {"serve.installation", "serve.rotation"},
    ),
    "nodes": (
        "a claim renews the lease of its process in the same statement, so that a takeover excludes the claim",
        {"jobs.node", "jobs.sql"},
    ),
    "workflow_events": (
        "an event is stored by the statement of what happened: a start, a checkpoint, a cancellation; old ones expire",
        {
            "workflows.checkpoint_store",
            "workflows.claim_store",
            "workflows.execution_store",
            "workflows.start_store",
        },
    ),
    "workflow_executions": (
        "starts, claims and checkpoints are hot paths of one statement each, and retention deletes in batches",
        {
            "workflows.checkpoint_store",
            "workflows.claim_store",
            "workflows.execution_store",
            "workflows.start_store",
        },
    ),
    "workflow_steps": (
        "a checkpoint writes steps, a replay begins with those of another execution, and a cancellation ends them",
        {"workflows.checkpoint_store", "workflows.claim_store", "workflows.start_store"},
    ),
    "uploads": (
        "resumable uploads have their own lease and progress; setting a quota reserves room for those in progress",
        {"files.store", "files.tus.store", "files.uploads.store"},
    ),
}

# Modules that hold their statements themselves.
STORES = {
    "data.tables.index_builds",
    "db.migrations",
    "events.statements",
    "jobs.lanes",
    "jobs.node",
    "jobs.schedules",
    "jobs.sql",
    "security.audit.retention",
    "security.audit.service",
    "security.encryption.service",
    "security.rate_limits",
    "security.single_use",
    "serve.installation",
    "serve.rotation",
}

# Parts whose stores do not return records yet.
RETURN_ROWS = {"data", "files"}
# What the pool and the connection that listens return to stores.
DRIVER = {"db.control", "db.paging", "db.pool"}


def writes() -> set[tuple[str, str]]:
    """Each module, by its name in the package, with a table that it writes."""
    return {
        (".".join(path.relative_to(SOURCE).with_suffix("").parts), table.lower())
        for path in SOURCE.rglob("*.py")
        for table in WRITE.findall(path.read_text("utf-8"))
    }


def test_every_migration_names_its_owner():
    for path in sorted(SQL.glob("*.sql"))[1:]:
        assert re.fullmatch(r"-- owner: [\w.]+", path.read_text("utf-8").splitlines()[0]), path.name


def test_migrations_are_numbered_without_gaps():
    numbers = [int(path.name[:4]) for path in sorted(SQL.glob("*.sql"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_table_has_an_owner():
    created = {table for path in SQL.glob("*.sql") for table, _ in CREATE.findall(path.read_text("utf-8"))}
    assert created <= owners().keys()


def test_a_table_is_written_by_its_owner_alone():
    owner = owners()
    assert {(module, table) for module, table in writes() if part_of(module) != owner.get(table)} == ELSEWHERE.keys()


def test_a_table_is_written_by_one_store():
    modules: dict[str, set[str]] = {}
    for module, table in writes() - ELSEWHERE.keys():
        modules.setdefault(table, set()).add(module)
    several = {table: found for table, found in modules.items() if len(found) > 1}
    assert several == {table: stores for table, (_, stores) in SEVERAL.items()}


def test_commands_hold_no_statements():
    """They call services; what a command alone needs of the database is in `db`."""
    runs = re.compile(r"\.(?:fetch|fetchrow|fetchval|execute|executemany|copy_\w+)\(")
    assert runs.search("await connection.fetchval(query)")
    assert [path.name for path in (SOURCE / "cli").rglob("*.py") if runs.search(path.read_text("utf-8"))] == []


def test_statements_stand_in_stores():
    holders = {module for module, _ in writes()}
    assert {module for module in holders if not module.split(".")[-1].endswith("store")} == STORES


def _modules() -> Iterator[tuple[str, str]]:
    """Each module whose stores return records, by its name in the package, with its text."""
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts[0] not in RETURN_ROWS:
            yield ".".join(parts), path.read_text("utf-8")


def test_rows_of_the_driver_stay_in_stores():
    """What a store returns has typed fields: the driver's rows are `Any` to mypy."""
    imports = re.compile(r"^from asyncpg import (?:\([^)]*|.*)\bRecord\b|\basyncpg\.Record\b", re.MULTILINE)
    holders = {name for name, text in _modules() if imports.search(text)}
    assert {name for name in holders if not name.endswith("store")} - STORES == DRIVER


def test_records_name_their_columns():
    """A node of an older version would fail at a column that a newer one has added: see `pilotis.db.records`."""
    everything = re.compile(r"select \* from pilotis\.|returning \*")
    assert [name for name, text in _modules() if everything.search(text)] == []


@pytest.mark.parametrize("module", ["data.rows.statements", "data.rows.query", "data.where.compiler"])
def test_statements_on_rows_name_no_table_of_the_server(module: str):
    """An app's schema may stand on another node of Citus than the server's tables."""
    text = (SOURCE / Path(*module.split("."))).with_suffix(".py").read_text("utf-8")
    assert not re.search(r"\b(?:from|join|into|update)\s+pilotis\.\w+", _sql(text))


def _sql(text: str) -> str:
    """A module's text without its imports."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(("from ", "import ")))
