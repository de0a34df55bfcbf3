"""`pilotis doctor`: checks everything that this server needs, and changes nothing."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from asyncpg import Connection

from pilotis.apps.feature import AppsFeature
from pilotis.blobs.errors import BlobStoreUnavailableError, InvalidStoreUrlError
from pilotis.cli import doctor_database, doctor_machine, proxy_check
from pilotis.cli.findings import Check, Finding, Level, ok, problem, problems, warning
from pilotis.console import exposure
from pilotis.data.indexes.feature import IndexesFeature
from pilotis.data.rules.feature import RulesFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.data.tables.store import open_apps
from pilotis.db.pool import Database
from pilotis.feature import Features
from pilotis.files.cleaning import MISSING, Cleaning
from pilotis.files.storages import Storages
from pilotis.floor import command_floor, open_blobs
from pilotis.hosting.feature import HostingFeature
from pilotis.http.api.schemas import Paging
from pilotis.kit.errors import NotFoundError
from pilotis.kit.networks import serves_this_machine
from pilotis.serve import database, installation
from pilotis.serve.errors import CommandError
from pilotis.settings import Settings

_ACCESS_FIXES = {
    "SCHEMA": "Set schema_locked of the app in the console's settings, or by PATCH /v1/apps/:app_id.",
    "KEY": "Create a public key with allowed origins, and revoke this one: `pilotis key create --origin`.",
    "SIGN_UP": "Turn the ways to sign up off in the app's settings.",
    "STORAGE": "Change the storage's access, or give it rules: docs/rules.md.",
    "PAGES": "Let a secret key write the metadata; nothing secret belongs there.",
}
_TABLE_FIX = "Change the table's access_level, or give it rules: docs/rules.md."


def examine(settings: Settings, app_id: UUID | None) -> list[Finding]:
    """Return the findings; raises `CommandError` only for an app that does not exist."""
    findings = asyncio.run(doctor_machine.examine(settings))
    try:
        with database.for_command(settings) as source:
            return findings + asyncio.run(_database(settings, source.connect_arguments, app_id))
    except _AppNotFoundError:
        raise
    except CommandError as error:
        fix = "Start the database, or name it with --data-dir or --database-url."
        return [*findings, problem(Check.DATABASE, str(error), fix)]


def examine_url(settings: Settings, url: str) -> list[Finding]:
    """Return the findings about the way from a client to the server at an address."""
    found = proxy_check.problems(url, settings.sites_base_url, is_proxied=settings.is_proxied)
    findings = problems(Check.PROXY, found)
    if not findings:
        findings = [ok(Check.PROXY, f"{url} is reached, with every header that it needs.")]
    return findings + certificate(url)


def certificate(url: str) -> list[Finding]:
    """Return the finding about the end of the certificate at an https URL; none without one that is accepted."""
    days = proxy_check.certificate_days(url)
    if days is None:
        return []
    sentence = f"The certificate of {url} ends in {days:.0f} days."
    fix = "Renew it, and see why that was not done automatically."
    if days < _CERTIFICATE_DAYS[Level.PROBLEM]:
        return [problem(Check.CERTIFICATE, sentence, fix)]
    if days < _CERTIFICATE_DAYS[Level.WARNING]:
        return [warning(Check.CERTIFICATE, sentence, fix)]
    return [ok(Check.CERTIFICATE, sentence)]


_CERTIFICATE_DAYS = {Level.PROBLEM: 7.0, Level.WARNING: 21.0}
"""Certificates of 90 days are renewed 30 days before their end."""


class _AppNotFoundError(CommandError):
    pass


async def _database(settings: Settings, connect_arguments: dict[str, Any], app_id: UUID | None) -> list[Finding]:
    connection = await installation.connect(connect_arguments)
    try:
        findings = await doctor_database.examine_server(connection, settings)
        schema = await doctor_database.examine_schema(connection)
        findings.append(schema)
        if schema.level is Level.OK:
            findings += await files(settings, connect_arguments)
            findings += await doctor_database.examine_contents(connection, settings)
            findings += await open_tables(settings, connection)
            if app_id is not None:
                findings += await _app(settings, connect_arguments, app_id)
        return findings
    finally:
        await connection.close()


async def files(settings: Settings, connect_arguments: dict[str, Any]) -> list[Finding]:
    """Look for the bytes of a few files, and for the files of a few bytes."""
    try:
        store = open_blobs(settings)
    except (InvalidStoreUrlError, OSError):
        return []  # found before
    pool = Database(connect_arguments, size=2)
    try:
        cleaning = Cleaning(pool, store)
        missing, looked_for = await cleaning.missing_sample()
        orphans, compared = await cleaning.orphan_sample()
    except BlobStoreUnavailableError:
        return []
    finally:
        await store.close()
        await pool.close()
    findings = []
    if missing:
        findings.append(problem(Check.MISSING_FILES, MISSING.sentence.format(missing, looked_for), MISSING.fix))
    else:
        sentence = f"The object store has the bytes of {looked_for} files that were looked for."
        findings.append(ok(Check.MISSING_FILES, sentence))
    if orphans:
        sentence = f"{orphans} of {compared} objects in the store belong to no file."
        fix = "`pilotis storage reconcile` lists them, and deletes them with --apply."
        findings.append(warning(Check.ORPHANED_FILES, sentence, fix))
    return findings


async def open_tables(settings: Settings, connection: Connection) -> list[Finding]:
    """Say, outside of a developer's machine, how many apps have tables that the public key alone can change."""
    number = await open_apps(connection)
    if not number or serves_this_machine(settings.host, settings.base_url or ""):
        return []
    sentence = f"{number} apps have tables that anybody can read, write and delete by the public key alone."
    return [
        warning(Check.ACCESS, sentence, "`pilotis doctor --app ID` lists them; give them rules or an access_level.")
    ]


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
        ok(Check.ACCESS, door.message)
        if door.severity == "none"
        else warning(Check.ACCESS, door.message, _ACCESS_FIXES.get(door.code, _TABLE_FIX))
        for door in exposure.findings(found)
    ]
