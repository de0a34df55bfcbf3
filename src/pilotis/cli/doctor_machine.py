"""What `pilotis doctor` checks without the database: the data directory, its disk, the stores, functions, addresses."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import urlsplit

from pilotis.backup import gaps
from pilotis.backup.errors import BackupError
from pilotis.backup.place import opened as backups_at
from pilotis.backup.status import Trouble, spool_problems
from pilotis.backup.status import status as backup_status
from pilotis.backup.waiting import waiting
from pilotis.blobs.check import cause
from pilotis.blobs.errors import BlobStoreUnavailableError, InvalidStoreUrlError
from pilotis.cli.findings import Check, Finding, Level, ok, problem, warning
from pilotis.floor import open_blobs
from pilotis.functions.runtime.isolation import choice, probe
from pilotis.functions.runtime.policy import Isolation, Runtime
from pilotis.kit.disk_history import DiskHistory, days_left
from pilotis.kit.networks import serves_this_machine
from pilotis.serve import data_directory
from pilotis.serve.quiet import is_quiet
from pilotis.settings import Settings

LEAST_FREE_BYTES = 1 << 30
_LEAST_DAYS = {Level.PROBLEM: 4.0, Level.WARNING: 14.0}
_BACKUP_CHECKS = {
    "store": Check.BACKUPS,
    "age": Check.BACKUP_AGE,
    "proof": Check.BACKUP_PROOF,
    "spool": Check.BACKUP_SPOOL,
    "key": Check.BACKUP_KEY,
}
_CONFINED = {Isolation.OWN_USER, Isolation.NAMESPACE}


async def examine(settings: Settings) -> list[Finding]:
    """Return the findings about what is on this machine, or reached from it beside the database."""
    return [
        *disk(Path(settings.data_dir)),
        *await object_store(settings),
        *await functions(settings),
        *mail(settings),
        *addresses(settings),
        *await backups(settings),
    ]


def disk(directory: Path) -> list[Finding]:
    """Check the data directory, and how full its disk is and will be."""
    if not directory.is_dir():
        sentence = f"The data directory {directory} does not exist yet."
        return [warning(Check.DATA_DIRECTORY, sentence, "`pilotis serve` creates it.")]
    findings = [ok(Check.DATA_DIRECTORY, f"The data directory is {directory.absolute()}.")]
    mode = directory.stat().st_mode & 0o777
    if mode & ~data_directory.MODE:
        sentence = f"{directory} has mode {mode:04o}; other users have access."
        findings.append(problem(Check.DATA_DIRECTORY, sentence, f"Run: chmod 700 {directory}"))
    free = shutil.disk_usage(directory).free
    sentence = f"{free / (1 << 30):.1f} GiB are free on its disk; at least 1 should be."
    if free < LEAST_FREE_BYTES:
        findings.append(problem(Check.DISK_SPACE, sentence, _MORE_SPACE))
    else:
        findings.append(ok(Check.DISK_SPACE, sentence))
    return findings + _trend(directory, free)


_MORE_SPACE = (
    "Delete what is not needed, or move the data directory to a larger disk; docs/operating.md says what grows."
)


def _trend(directory: Path, free: int) -> list[Finding]:
    """Say when the disk is full if it goes on as in the last week."""
    days = days_left(DiskHistory(directory).read(), free)
    for level, least in _LEAST_DAYS.items():
        if days is not None and days < least:
            sentence = f"At the rate of the last week the disk is full in {days:.1f} days."
            return [Finding(Check.DISK_TREND, level, sentence, _MORE_SPACE)]
    return []


async def object_store(settings: Settings) -> list[Finding]:
    """Ask the object store for a key, if there is one beside the data directory."""
    if settings.blob_store is None and settings.previous_blob_store is None:
        return []
    fix = "`pilotis storage check` says which setting or permission is wrong."
    try:
        store = open_blobs(settings)
    except (InvalidStoreUrlError, OSError) as error:
        return [problem(Check.OBJECT_STORE, f"The object store cannot be used: {error}", fix)]
    try:
        await store.ping()
    except BlobStoreUnavailableError as error:
        return [problem(Check.OBJECT_STORE, f"The object store is unavailable. It says: {cause(error)}", fix)]
    finally:
        await store.close()
    findings = [ok(Check.OBJECT_STORE, "The object store answers.")]
    if settings.previous_blob_store is not None:
        fix = "`pilotis storage move` copies the rest, and says when the setting can be removed."
        findings.append(warning(Check.PREVIOUS_OBJECT_STORE, "A previous object store is used too.", fix))
    return findings


async def backups(settings: Settings) -> list[Finding]:
    """Say what is wrong with the backups, and outside of a developer's machine, that there are none."""
    if is_quiet(settings):
        sentence = "This is a restored server, which does nothing on its own."
        return [warning(Check.BACKUPS, sentence, "Look at it, then run `pilotis backup accept` and restart it.")]
    if settings.database_url is not None:
        return []
    if settings.backup.store is None:
        if serves_this_machine(settings.host, settings.base_url or ""):
            return []
        return [warning(Check.BACKUPS, "There is no backup store.", "Set store in [backup]; see docs/backups.md.")]
    try:
        async with backups_at(settings) as place:
            found = await backup_status(place)
    except (BackupError, OSError) as error:
        fix = "Correct store and key_file in [backup]; `pilotis backup list` tries them."
        data_dir = Path(settings.data_dir)
        spool = spool_problems(waiting(data_dir), gaps.noted(data_dir))
        return [problem(Check.BACKUPS, str(error), fix), *(_trouble(Level.PROBLEM, one) for one in spool)]
    findings = []
    if found.known:
        newest = f"The newest of {len(found.known)} backups is {found.known[-1].proof.state}."
        findings.append(ok(Check.BACKUPS, newest))
    findings += [_trouble(Level.PROBLEM, one) for one in found.problems]
    return findings + [_trouble(Level.WARNING, one) for one in found.warnings]


def _trouble(level: Level, trouble: Trouble) -> Finding:
    return Finding(_BACKUP_CHECKS[trouble.topic], level, *trouble.report)


def mail(settings: Settings) -> list[Finding]:
    """Say that nothing is sent, unless the server is on a developer's machine, where the mailbox is enough."""
    if settings.smtp_url is not None or serves_this_machine(settings.host, settings.base_url or ""):
        return []
    sentence = "There is no SMTP server: mails of apps without one of their own are stored, not sent."
    return [warning(Check.MAIL, sentence, "Set smtp_url and mail_from.")]


def addresses(settings: Settings) -> list[Finding]:
    """Compare the addresses with each other, and with what a proxy in front of the server needs."""
    base_url = settings.base_url or ""
    if serves_this_machine(settings.host, base_url):
        return []
    if not base_url:
        sentence = (
            f"The server listens on {settings.host} and base_url is not set, so links lead to this machine's name."
        )
        return [warning(Check.ADDRESS, sentence, "Set base_url to the URL that clients use.")]
    if urlsplit(base_url).scheme != "https":
        sentence = f"base_url is {base_url}: passwords and tokens are readable on the way, and links lead to http."
        return [warning(Check.ADDRESS, sentence, "Put a proxy with TLS in front, and set base_url to its https URL.")]
    if settings.is_proxied and not settings.trusted_proxies:
        sentence = (
            "base_url is https, so a proxy is in front, but trusted_proxies is empty: all visitors share one address."
        )
        return [warning(Check.ADDRESS, sentence, "Set trusted_proxies to the addresses of the proxy.")]
    return [ok(Check.ADDRESS, f"Clients reach the server at {base_url}.")]


async def functions(settings: Settings) -> list[Finding]:
    """Try how functions can be confined here."""
    findings = []
    for runtime in Runtime:
        wanted = choice(settings.functions_isolation)
        is_local = serves_this_machine(settings.host, settings.base_url or "")
        found = await probe(runtime, settings.functions_uid_base, wanted, is_local=is_local)
        name = f"Functions in {runtime.value}"
        if found.isolation is None:
            reason = f"{name} cannot run here: {found.reason}"
            findings.append(warning(Check.FUNCTIONS, reason, "Install what is missing and start the server again."))
        elif found.is_own_code:
            sentence = f"{name} run by {found.isolation.value}, {found.reason}."
            findings.append(warning(Check.FUNCTIONS, sentence, "Use Linux with bubblewrap for code of other people."))
        elif found.isolation in _CONFINED:
            better = f" A better isolation is not available: {found.reason}." if found.reason else ""
            findings.append(ok(Check.FUNCTIONS, f"{name} run isolated by {found.isolation.value}.{better}"))
        else:
            sentence = f"{name} run isolated by {found.isolation.value} only: {found.reason or 'it was chosen'}."
            fix = "Install bubblewrap and allow it namespaces (docs/operating.md), or set functions_isolation to auto."
            findings.append(warning(Check.FUNCTIONS, sentence, fix))
    return findings
