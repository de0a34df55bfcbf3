"""A copy of the embedded database from before a migration: a backup where there is a store, else a folder beside it."""

from __future__ import annotations

import asyncio
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pilotis.db.embedded import find_binaries
from pilotis.db.migrations import Migration
from pilotis.kit.disk import size_of, sync_directory, sync_filesystem
from pilotis.serve.errors import CommandError
from pilotis.settings import Settings

_NAME = re.compile(r"before-\d{4}")
_PART = ".part"
_ADVICE = "--no-snapshot migrates without it."


async def take(settings: Settings, connect_arguments: dict[str, Any], due: Sequence[Migration]) -> str | None:
    """Copy the database before the migrations that are `due`, and return a sentence that says where the copy is.

    Returns None for a database of which its operator makes the backups. Raises `CommandError` if there is no room, or
    no answer from the store.
    """
    if settings.database_url is not None:
        return None
    if settings.backup.store is not None:
        return await _back_up(settings, connect_arguments)
    directory = Path(settings.data_dir) / f"before-{due[0].number:04}"
    await _copy(settings, connect_arguments, directory)
    return f"The database of before is in {directory}."


def forget_older(settings: Settings, due: Sequence[Migration]) -> None:
    """Delete the copies of earlier migrations, once those that were `due` have been applied."""
    for path in Path(settings.data_dir).glob("before-*"):
        if _NAME.fullmatch(path.name.removesuffix(_PART)) and path.name != f"before-{due[0].number:04}":
            shutil.rmtree(path)


async def _back_up(settings: Settings, connect_arguments: dict[str, Any]) -> str:
    from pilotis.backup import base  # here: a start that migrates nothing needs none of it
    from pilotis.backup.errors import BackupError
    from pilotis.backup.place import opened

    try:
        async with opened(settings, may_create=True) as place:
            made = await base.create(place, connect_arguments)
    except (BackupError, OSError) as error:
        raise CommandError(f"There is no backup from before the migration: {error} {_ADVICE}") from error
    return f"The database of before is the backup {made.backup.backup_id}."


async def _copy(settings: Settings, address: dict[str, Any], directory: Path) -> None:
    cluster = Path(settings.data_dir) / "postgres"
    part = directory.with_name(directory.name + _PART)
    # What a start that was killed has left.
    shutil.rmtree(part, ignore_errors=True)
    needed, free = size_of(cluster) + settings.write_reserve_bytes, shutil.disk_usage(cluster).free
    if needed > free:
        raise CommandError(
            f"A copy of the database from before the migration needs {needed >> 20} MiB, and {free >> 20} MiB are "
            f"free. Free some, or set a backup store; {_ADVICE}"
        )
    binaries = find_binaries(Path(settings.postgres_binaries) if settings.postgres_binaries else None)
    command = [str(binaries / "pg_basebackup"), "--pgdata", str(part), "--checkpoint=fast", "--no-sync"]
    command += ["-h", str(address["host"]), "-p", str(address["port"]), "-U", str(address["user"]), "--no-password"]
    try:
        await _run(command)
        await asyncio.to_thread(sync_filesystem, part)
        # One from an attempt before this, after which the version of before went on.
        shutil.rmtree(directory, ignore_errors=True)
        part.rename(directory)
        sync_directory(directory.parent)
    except OSError as error:
        raise CommandError(f"The database could not be copied before the migration: {error}. {_ADVICE}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


async def _run(command: Sequence[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, env={"LC_ALL": "C"}, start_new_session=True
    )
    try:
        _, said = await process.communicate()
    finally:
        # A start that is stopped does not wait for the copy.
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        sentence = " ".join(said.decode(errors="replace").split())
        raise CommandError(f"The database could not be copied before the migration: {sentence} {_ADVICE}")
