"""`pilotis doctor`: checks everything that this server needs, and changes nothing."""

from __future__ import annotations

import asyncio
import enum
import shutil
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
from asyncpg import Connection

from pilotis.apps.feature import AppsFeature
from pilotis.backup.errors import BackupError
from pilotis.backup.place import opened as backups_at
from pilotis.backup.status import status as backup_status
from pilotis.blobs.check import cause
from pilotis.blobs.errors import BlobStoreUnavailableError, InvalidStoreUrlError
from pilotis.certificates.report import report as certificate_report
from pilotis.console import exposure
from pilotis.data.indexes.feature import IndexesFeature
from pilotis.data.indexes.service import report as index_report
from pilotis.data.rules.feature import RulesFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.db import inspection, migrations, sharding, versions
from pilotis.db.connecting import connect, session_parameters
from pilotis.db.migrations import MigrationError
from pilotis.db.pool import Database
from pilotis.dead_jobs.service import report as job_report
from pilotis.events.service import report as event_report
from pilotis.feature import Features
from pilotis.files.cleaning import MISSING, Cleaning
from pilotis.files.storages import Storages
from pilotis.floor import command_floor, open_blobs
from pilotis.functions.runtime.isolation import choice, probe
from pilotis.functions.runtime.policy import Runtime
from pilotis.hosting.feature import HostingFeature
from pilotis.http.api.schemas import Paging
from pilotis.jobs.lanes import report as lane_report
from pilotis.jobs.node import report as stray_report
from pilotis.kit.errors import NotFoundError
from pilotis.kit.networks import serves_this_machine
from pilotis.security import master_key
from pilotis.serve import data_directory, database, installation
from pilotis.serve.errors import CommandError
from pilotis.serve.quiet import is_quiet
from pilotis.settings import Settings, SettingsError

EXTENSIONS = {
    "pg_trgm": "search and autocomplete",
    "cube": "geo queries",
    "earthdistance": "geo queries",
    "btree_gin": "search together with other conditions",
    "unaccent": "search that ignores accents",
    "fuzzystrmatch": "autocomplete despite typing errors",
}
_LEAST_FREE_BYTES = 1 << 30
_MAX_CLOCK_SECONDS = 1.0


class Level(enum.Enum):
    """How serious a finding is."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


class Finding(NamedTuple):
    """The result of one check."""

    level: Level
    sentence: str


def examine(settings: Settings, app_id: UUID | None) -> list[Finding]:
    """Return the findings; raises `CommandError` only for an app that does not exist."""
    findings = _data_directory(Path(settings.data_dir))
    findings += [*asyncio.run(_object_store(settings)), *asyncio.run(_functions(settings)), *_mail(settings)]
    findings += asyncio.run(_backups(settings))
    try:
        with database.for_command(settings) as source:
            return findings + asyncio.run(_database(settings, source.connect_arguments, app_id))
    except _AppNotFoundError:
        raise
    except CommandError as error:
        return [*findings, Finding(Level.PROBLEM, str(error))]


class _AppNotFoundError(CommandError):
    pass


def _data_directory(directory: Path) -> list[Finding]:
    if not directory.is_dir():
        return [Finding(Level.NOTE, f"The data directory {directory} does not exist yet; `pilotis serve` creates it.")]
    findings = [Finding(Level.OK, f"The data directory is {directory.absolute()}.")]
    mode = directory.stat().st_mode & 0o777
    if mode & ~data_directory.MODE:
        findings.append(
            Finding(Level.PROBLEM, f"{directory} has mode {mode:04o}; other users have access: run chmod 700 on it.")
        )
    free = shutil.disk_usage(directory).free
    level = Level.OK if free >= _LEAST_FREE_BYTES else Level.PROBLEM
    findings.append(Finding(level, f"{free / (1 << 30):.1f} GiB are free on its disk; at least 1 should be."))
    return findings


async def _object_store(settings: Settings) -> list[Finding]:
    """Ask the object store for a key, if there is one beside the data directory."""
    if settings.blob_store is None and settings.previous_blob_store is None:
        return []
    try:
        store = open_blobs(settings)
    except (InvalidStoreUrlError, OSError) as error:
        return [Finding(Level.PROBLEM, f"The object store cannot be used: {error}")]
    try:
        await store.ping()
    except BlobStoreUnavailableError as error:
        sentence = f"The object store is unavailable: pilotis storage check says more. It says: {cause(error)}"
        return [Finding(Level.PROBLEM, sentence)]
    finally:
        await store.close()
    findings = [Finding(Level.OK, "The object store answers.")]
    if settings.previous_blob_store is not None:
        sentence = "A previous object store is used too; `pilotis storage move` says when it can be removed."
        findings.append(Finding(Level.NOTE, sentence))
    return findings


async def _backups(settings: Settings) -> list[Finding]:
    """Say what is wrong with the backups, and outside of a developer's machine, that there are none."""
    if is_quiet(settings):
        sentence = "This is a restored server, which does nothing on its own until `pilotis backup accept`."
        return [Finding(Level.NOTE, sentence)]
    if settings.database_url is not None:
        return []
    if settings.backup.store is None:
        if serves_this_machine(settings.host, settings.base_url or ""):
            return []
        return [Finding(Level.NOTE, "There is no backup store: docs/backups.md says how to set one.")]
    try:
        async with backups_at(settings) as place:
            found = await backup_status(place)
    except (BackupError, OSError) as error:
        return [Finding(Level.PROBLEM, str(error))]
    findings = []
    if found.known:
        newest = f"The newest of {len(found.known)} backups is {found.known[-1].proof.state}."
        findings.append(Finding(Level.OK, newest))
    findings += [Finding(Level.PROBLEM, sentence) for sentence in found.problems]
    return findings + [Finding(Level.NOTE, sentence) for sentence in found.warnings]


def _mail(settings: Settings) -> list[Finding]:
    """Say that nothing is sent, unless the server is on a developer's machine, where the mailbox is enough."""
    if settings.smtp_url is not None or serves_this_machine(settings.host, settings.base_url or ""):
        return []
    sentence = "There is no smtp_url: mails of apps without an SMTP server of their own are stored, not sent."
    return [Finding(Level.NOTE, sentence)]


async def _functions(settings: Settings) -> list[Finding]:
    """Try how functions can be confined here."""
    findings = []
    for runtime in Runtime:
        wanted = choice(settings.functions_isolation)
        is_local = serves_this_machine(settings.host, settings.base_url or "")
        found = await probe(runtime, settings.functions_uid_base, wanted, is_local=is_local)
        if found.isolation is None:
            sentence = f"Functions in {runtime.value} cannot run here: {found.reason}"
            findings.append(Finding(Level.NOTE, sentence))
        elif found.is_own_code:
            sentence = f"Functions in {runtime.value} run by {found.isolation.value}, {found.reason}."
            findings.append(Finding(Level.NOTE, sentence))
        else:
            better = f" A better isolation is not available: {found.reason}." if found.reason else ""
            sentence = f"Functions in {runtime.value} run isolated by {found.isolation.value}.{better}"
            findings.append(Finding(Level.OK, sentence))
    return findings


async def _database(settings: Settings, connect_arguments: dict[str, Any], app_id: UUID | None) -> list[Finding]:
    connection = await installation.connect(connect_arguments)
    try:
        version = await inspection.server_version(connection)
        findings = [
            Finding(Level.OK, f"The database answers; it is PostgreSQL {version}."),
            *await _extensions(connection),
            await _clock(connection),
            *await _citus(connection),
        ]
        if settings.database_pooler == "transaction":
            findings += await _pooler(settings)
        ready = await _migrations(connection)
        findings.append(ready)
        if ready.level is Level.OK:
            findings += await _contracts(connection)
            findings += await _missing_bytes(settings, connect_arguments)
            findings += await _master_key(connection, settings)
            findings += await _certificates(connection, settings)
            findings += [Finding(Level.OK, sentence) for sentence in await index_report(connection)]
            for report in (job_report, lane_report, event_report):
                findings += [Finding(Level.NOTE, sentence) for sentence in await report(connection)]
            findings += [Finding(Level.PROBLEM, sentence) for sentence in await stray_report(connection)]
            if app_id is not None:
                findings += await _app(settings, connect_arguments, app_id)
        return findings
    finally:
        await connection.close()


async def _missing_bytes(settings: Settings, connect_arguments: dict[str, Any]) -> list[Finding]:
    """Look for the bytes of a few files."""
    try:
        store = open_blobs(settings)
    except (InvalidStoreUrlError, OSError):
        return []  # found before
    pool = Database(connect_arguments, size=2)
    try:
        missing, looked_for = await Cleaning(pool, store).missing_sample()
    except BlobStoreUnavailableError:
        return []
    finally:
        await store.close()
        await pool.close()
    if missing:
        return [Finding(Level.PROBLEM, MISSING.format(missing, looked_for))]
    return [Finding(Level.OK, f"The object store has the bytes of {looked_for} files that were looked for.")]


async def _extensions(connection: Connection) -> list[Finding]:
    absent = await inspection.unavailable_extensions(connection, EXTENSIONS)
    if not absent:
        return [Finding(Level.OK, f"The extensions {', '.join(EXTENSIONS)} are available.")]
    return [
        Finding(Level.NOTE, f"The extension {name} is not available; {purpose} will be missing.")
        for name, purpose in EXTENSIONS.items()
        if name in absent
    ]


async def _pooler(settings: Settings) -> list[Finding]:
    """Check, through the pooler, the parameters that its role must have: a connection cannot set its own there."""
    expected = session_parameters(settings.statement_seconds)
    try:
        connection = await connect(
            {"dsn": settings.database_url}, statement_seconds=settings.statement_seconds, is_pooled=True
        )
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        return [Finding(Level.PROBLEM, f"The pooler cannot be reached: {error}.")]
    try:
        role, values = await inspection.role_parameters(connection, expected)
    finally:
        connection.terminate()
    wrong = [name for name, value in values.items() if value != expected[name]]
    if not wrong:
        return [Finding(Level.OK, "The pooler answers, and its role has the parameters that Pilotis needs.")]
    return [
        Finding(
            Level.PROBLEM, f"Behind the pooler {name} differs. Run: alter role {role} set {name} = '{expected[name]}';"
        )
        for name in wrong
    ]


async def _citus(connection: Connection) -> list[Finding]:
    """Check, with Citus, the parameters of the sessions on other nodes."""
    role, _ = await inspection.role_parameters(connection, ())
    lost = await sharding.lost_nodes(connection)
    return [
        *(
            Finding(Level.PROBLEM, f"The node {name} of Citus does not answer; its apps are unavailable.")
            for name in lost
        ),
        *await _node_parameters(connection, role),
    ]


async def _node_parameters(connection: Connection, role: str) -> list[Finding]:
    return [
        Finding(
            Level.PROBLEM,
            f"On other nodes of Citus {name} differs. Run on the coordinator: "
            f"alter role {role} set {name} = '{sharding.NODE_PARAMETERS[name]}';",
        )
        for name in await sharding.wrong_on_nodes(connection)
    ]


async def _clock(connection: Connection) -> Finding:
    difference = await inspection.clock_difference(connection)
    sentence = f"The clocks of this machine and of the database differ by {difference:.3f} s."
    if difference <= _MAX_CLOCK_SECONDS:
        return Finding(Level.OK, sentence)
    return Finding(Level.PROBLEM, f"{sentence} The expiry of tokens depends on both: synchronise them.")


async def _migrations(connection: Connection) -> Finding:
    try:
        missing = await migrations.pending(connection)
    except MigrationError as error:
        return Finding(Level.PROBLEM, str(error))
    if missing:
        names = ", ".join(migration.name for migration in missing)
        return Finding(Level.PROBLEM, f"Migrations are pending: {names}; `pilotis migrate` applies them.")
    return Finding(Level.OK, "No migration is pending.")


async def _certificates(connection: Connection, settings: Settings) -> list[Finding]:
    """Say which certificates end soon, and why others could not be got."""
    if not settings.uses_https:
        return []
    files = None
    if settings.https_certificate is not None:
        files = Path(settings.https_certificate), Path(settings.https_key or settings.https_certificate)
    problems, notes = await certificate_report(connection, settings.https_names, files)
    if not (problems or notes):
        return [Finding(Level.OK, "The certificates for HTTPS are valid for long enough.")]
    findings = [Finding(Level.PROBLEM, sentence) for sentence in problems]
    return findings + [Finding(Level.NOTE, sentence) for sentence in notes]


async def _contracts(connection: Connection) -> list[Finding]:
    """Say what waits for processes of older versions."""
    findings = []
    for migration in await migrations.contracts(connection):
        older = await versions.processes_without(connection, migration.needs)
        waits = f"waits for {', '.join(older)}" if older else "is due; a node applies it within a minute"
        findings.append(Finding(Level.NOTE, f"Migration {migration.name} {waits}."))
    return findings


async def _master_key(connection: Connection, settings: Settings) -> list[Finding]:
    try:
        problem = await installation.master_key_problem(connection, settings)
        keys = master_key.existing_keys(settings)
    except SettingsError as error:
        return [Finding(Level.PROBLEM, " ".join(error.problems))]
    if problem or keys is None:
        return [Finding(Level.PROBLEM, problem or "There is no master key.")]
    findings = [Finding(Level.OK, "The master key is the one for this database.")]
    if keys.previous is not None:
        findings.append(
            Finding(
                Level.NOTE,
                "A previous master key is accepted too; `pilotis key rotate-master --forget-previous` ends it.",
            )
        )
    return findings


async def _app(settings: Settings, connect_arguments: dict[str, Any], app_id: UUID) -> list[Finding]:
    pool = Database(connect_arguments, size=1)
    try:
        features = Features(command_floor(settings, pool))
        apps, tables = features.get(AppsFeature), features.get(TablesFeature)
        # It says of rules which indexes they lack.
        features.get(IndexesFeature)
        app = await apps.apps.by_id(app_id)
        found = exposure.Exposure(
            app,
            [key.allowed_origins or [] for key in await apps.keyring.in_force(app_id, secret=False)],
            await tables.tables.all(app),
            await Storages(pool, features.get(RulesFeature).file_rules).all(app_id),
            (await features.get(HostingFeature).hosting.storages.page(app, Paging(limit=1))).total_count,
            await features.get(RulesFeature).rules.exposed(app),
        )
    except NotFoundError:
        raise _AppNotFoundError(
            f"The app {app_id} does not exist; `pilotis app list` shows the existing ones."
        ) from None
    finally:
        await pool.close()
    return [
        Finding(Level.OK if door.severity == "none" else Level.NOTE, door.message) for door in exposure.findings(found)
    ]
