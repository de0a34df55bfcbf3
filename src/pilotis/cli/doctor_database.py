"""What `pilotis doctor` checks in the database: PostgreSQL itself, the schema, the keys, and what the nodes report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
from asyncpg import Connection

from pilotis.certificates.report import report as certificate_report
from pilotis.cli.findings import Check, Finding, ok, problem, problems, warning, warnings
from pilotis.data.indexes.service import report as index_report
from pilotis.data.indexes.service import trouble_report as index_trouble_report
from pilotis.db import inspection, migrations, sharding, versions
from pilotis.db.connecting import connect, session_parameters
from pilotis.db.migrations import MigrationError
from pilotis.dead_jobs.service import overdue_report
from pilotis.dead_jobs.service import report as dead_job_report
from pilotis.events.service import report as event_report
from pilotis.jobs import node
from pilotis.jobs.lanes import report as lane_report
from pilotis.kit.reports import Report
from pilotis.security import master_key
from pilotis.serve import installation
from pilotis.settings import Settings, SettingsError

EXTENSIONS = {
    "pg_trgm": "search and autocomplete",
    "cube": "geo queries",
    "earthdistance": "geo queries",
    "btree_gin": "search together with other conditions",
    "unaccent": "search that ignores accents",
    "fuzzystrmatch": "autocomplete despite typing errors",
}
_MAX_CLOCK_SECONDS = 1.0

_Reporter = Callable[[Connection], Awaitable[list[Report]]]
_WARNINGS: tuple[tuple[Check, _Reporter], ...] = (
    (Check.DEAD_JOBS, dead_job_report),
    (Check.OVERDUE_WORK, overdue_report),
    (Check.OVERDUE_WORK, lane_report),
    (Check.EVENTS, event_report),
    (Check.NODE_VERSIONS, node.version_report),
    (Check.STATISTICS, inspection.statistics_report),
    (Check.INDEXES, inspection.invalid_index_report),
)
_PROBLEMS: tuple[tuple[Check, _Reporter], ...] = (
    (Check.NODE_WORK, node.report),
    (Check.NODE_CLOCKS, node.clock_report),
)


async def examine_server(connection: Connection, settings: Settings) -> list[Finding]:
    """Return the findings about PostgreSQL, whatever is in the database."""
    version = await inspection.server_version(connection)
    findings = [
        ok(Check.DATABASE, f"The database answers; it is PostgreSQL {version}."),
        *await _extensions(connection),
        await _clock(connection),
        *await _citus(connection),
    ]
    if settings.database_pooler == "transaction":
        findings += await _pooler(settings)
    return findings


async def examine_schema(connection: Connection) -> Finding:
    """Return the finding about migrations; only if it is `ok` can the rest be examined."""
    try:
        missing = await migrations.pending(connection)
    except MigrationError as error:
        return problem(Check.MIGRATIONS, str(error), "Start a version that knows this database.")
    if missing:
        names = ", ".join(migration.name for migration in missing)
        return problem(Check.MIGRATIONS, f"Migrations are pending: {names}.", "Run `pilotis migrate`.")
    return ok(Check.MIGRATIONS, "No migration is pending.")


async def examine_contents(connection: Connection, settings: Settings) -> list[Finding]:
    """Return the findings about what the server has stored, and what its nodes report."""
    findings = await _contracts(connection)
    findings += await _master_key(connection, settings)
    findings += await _certificates(connection, settings)
    findings += [ok(Check.INDEXES, sentence) for sentence in await index_report(connection)]
    days = settings.limits.index_unused_days
    findings += warnings(Check.INDEXES, await index_trouble_report(connection, days))
    for check, report in _WARNINGS:
        findings += warnings(check, await report(connection))
    for check, report in _PROBLEMS:
        findings += problems(check, await report(connection))
    return findings + await _connections(connection, settings)


async def _contracts(connection: Connection) -> list[Finding]:
    """Say what waits for processes of older versions."""
    findings = []
    for migration in await migrations.contracts(connection):
        older = await versions.processes_without(connection, migration.needs)
        waits = f"waits for {', '.join(older)}" if older else "is due"
        fix = (
            "Stop those processes, or start them with this version." if older else "A node applies it within a minute."
        )
        findings.append(warning(Check.MIGRATIONS, f"Migration {migration.name} {waits}.", fix))
    return findings


async def _certificates(connection: Connection, settings: Settings) -> list[Finding]:
    """Say which certificates end soon, and why others could not be got."""
    if not settings.uses_https:
        return []
    files = None
    if settings.https_certificate is not None:
        files = Path(settings.https_certificate), Path(settings.https_key or settings.https_certificate)
    wrong, failed = await certificate_report(connection, settings.https_names, files)
    if not (wrong or failed):
        return [ok(Check.CERTIFICATE, "The certificates for HTTPS are valid for long enough.")]
    fix = "Let port 80 of the name reach this server, or renew the files of https_certificate."
    findings = [problem(Check.CERTIFICATE, sentence, fix) for sentence in wrong]
    fix = "Point the domain at this server, or remove it from its site."
    return findings + [warning(Check.CERTIFICATE, sentence, fix) for sentence in failed]


async def _extensions(connection: Connection) -> list[Finding]:
    absent = await inspection.unavailable_extensions(connection, EXTENSIONS)
    if not absent:
        return [ok(Check.EXTENSIONS, f"The extensions {', '.join(EXTENSIONS)} are available.")]
    fix = "Install PostgreSQL's contrib package on the database's machine."
    return [
        warning(Check.EXTENSIONS, f"The extension {name} is not available; {purpose} will be missing.", fix)
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
        fix = "Start the pooler, or correct database_url."
        return [problem(Check.POOLER, f"The pooler cannot be reached: {error}.", fix)]
    try:
        role, values = await inspection.role_parameters(connection, expected)
    finally:
        connection.terminate()
    wrong = [name for name, value in values.items() if value != expected[name]]
    if not wrong:
        return [ok(Check.POOLER, "The pooler answers, and its role has the parameters that Pilotis needs.")]
    return [
        problem(
            Check.POOLER,
            f"Behind the pooler {name} differs.",
            f"Run: alter role {role} set {name} = '{expected[name]}';",
        )
        for name in wrong
    ]


async def _citus(connection: Connection) -> list[Finding]:
    """Check, with Citus, its nodes and the parameters of the sessions there."""
    role, _ = await inspection.role_parameters(connection, ())
    lost = [
        problem(
            Check.CITUS,
            f"The node {name} of Citus does not answer; its apps are unavailable.",
            "Start it, or name its standby's address by citus_update_node on the coordinator.",
        )
        for name in await sharding.lost_nodes(connection)
    ]
    wrong = [
        problem(
            Check.CITUS,
            f"On other nodes of Citus {name} differs.",
            f"Run on the coordinator: alter role {role} set {name} = '{sharding.NODE_PARAMETERS[name]}';",
        )
        for name in await sharding.wrong_on_nodes(connection)
    ]
    return lost + wrong


async def _clock(connection: Connection) -> Finding:
    difference = await inspection.clock_difference(connection)
    sentence = f"The clocks of this machine and of the database differ by {difference:.3f} s."
    if difference <= _MAX_CLOCK_SECONDS:
        return ok(Check.CLOCK, sentence)
    return problem(Check.CLOCK, sentence, "The expiry of tokens depends on both: synchronise them, as by NTP.")


async def _master_key(connection: Connection, settings: Settings) -> list[Finding]:
    fix = "Restore master.key, or set master_key, from where you keep a copy (docs/operating.md)."
    try:
        wrong = await installation.master_key_problem(connection, settings)
        keys = master_key.existing_keys(settings)
    except SettingsError as error:
        return [problem(Check.MASTER_KEY, " ".join(error.problems), fix)]
    if wrong or keys is None:
        return [problem(Check.MASTER_KEY, wrong or "There is no master key.", fix)]
    findings = [ok(Check.MASTER_KEY, "The master key is the one for this database.")]
    if keys.previous is not None:
        sentence = "A previous master key is accepted too."
        fix = "`pilotis key rotate-master --forget-previous` ends it."
        findings.append(warning(Check.MASTER_KEY, sentence, fix))
    return findings


async def _connections(connection: Connection, settings: Settings) -> list[Finding]:
    """Compare what PostgreSQL accepts with what the running processes may open, and with what is open."""
    processes = await node.count(connection)
    wanted = processes * (settings.pool_size + node.OTHER_CONNECTIONS)
    allowed, opened = await inspection.connections(connection)
    fix = f"Set max_connections of PostgreSQL to {2 * wanted}, or make pool_size smaller."
    if wanted > allowed:
        sentence = f"{processes} processes may open {wanted} connections, and PostgreSQL accepts {allowed}."
        return [problem(Check.CONNECTIONS, sentence, fix)]
    if opened > 0.8 * allowed:
        sentence = f"{opened} of {allowed} connections of PostgreSQL are open."
        return [warning(Check.CONNECTIONS, sentence, fix)]
    return [ok(Check.CONNECTIONS, f"{opened} of {allowed} connections of PostgreSQL are open.")]
