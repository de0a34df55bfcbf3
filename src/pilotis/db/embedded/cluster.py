"""The cluster directory: created completely or not at all, owned by the server's user, configured at each start."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pilotis.db.embedded.account import Account, require_passwd_entry, spawn
from pilotis.db.embedded.errors import EmbeddedPostgresError
from pilotis.db.embedded.lockfile import DATABASE, SUPERUSER
from pilotis.kit.disk import sync_directory, sync_filesystem

_BUILTIN_LOCALE_SINCE = 17
_IO_METHOD_SINCE = 18
_MIB = 1 << 20

WAL_SPOOL = "pgsql_tmp.wal_spool"
"""The folder of a cluster to which it archives its log. Base backups leave out whatever is called so."""

# Renaming the database that initdb made costs 20 ms, creating a second one 70 to 300 ms and 7 MB.
NAME_DATABASE = f"alter database postgres rename to {DATABASE};\n"
"""The statement that gives a new cluster its database."""

_INCLUDE = """
# pilotis.conf is rewritten at each start. Settings below the next line override it.
include 'pilotis.conf'
"""

_SETTINGS = {
    "listen_addresses": "",  # only the unix socket
    "cluster_name": "pilotis",
    "max_connections": "100",
    # Durable: an acknowledged write survives a power cut.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_compression": "on",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "15min",
    "checkpoint_completion_target": "0.9",
    # Small: few processes, little memory.
    "shared_buffers": "128MB",
    "huge_pages": "off",
    # PostgreSQL takes 4 MB, and writes zeros to all of them when it starts. A thousand rows fill a quarter of this.
    "wal_buffers": "1MB",
    "max_logical_replication_workers": "0",  # saves a process; subscriptions are not used
    "jit": "off",  # compilation would only slow short statements down
    "track_io_timing": "off",
    "random_page_cost": "1.1",  # solid-state disks
    "timezone": "UTC",
    "log_timezone": "UTC",
    "default_text_search_config": "pg_catalog.simple",
    # The log is about the server, never about the data: a statement's error is sent only to its client.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_statement": "none",
    "log_checkpoints": "off",
    "log_autovacuum_min_duration": "-1",
}

# There fsync(2) leaves the bytes in the cache of the drive; see `kit.disk.sync_file`.
_SETTINGS_OF_MACOS = {"wal_sync_method": "fsync_writethrough"}


def check_cluster(directory: Path, major: int) -> bool:
    """Return whether `directory` contains a cluster of version `major`; False if it is missing or empty.

    Changes nothing, and raises if it contains a cluster of another version or something else.
    """
    try:
        version = (directory / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        if directory.exists() and any(directory.iterdir()):
            raise EmbeddedPostgresError(
                f"{directory} is neither empty nor a data directory of PostgreSQL; move it away or choose another."
            ) from None
        return False
    except PermissionError as error:
        raise EmbeddedPostgresError(
            f"The user id {os.geteuid()} may not read {directory}; start Pilotis as the user that created it."
        ) from error
    if version != str(major):
        if version.isdecimal() and int(version) < major:
            raise EmbeddedPostgresError(
                f"The database in {directory} is PostgreSQL {version}, and the programs found are PostgreSQL {major}. "
                "Run `pilotis postgres upgrade`. Nothing was changed."
            )
        raise EmbeddedPostgresError(
            f"{directory} was created by PostgreSQL {version}, and the programs found are PostgreSQL {major}; "
            f"use programs of version {version}. Nothing was changed."
        )
    return True


def create_cluster(
    directory: Path, binaries: Path, major: int, account: Account | None, script: str = NAME_DATABASE
) -> None:
    """Create the cluster with its database durably in a sibling directory, then rename it to `directory`.

    `script` has statements, one a line, that its first start runs. A crash leaves at most a sibling `<name>.new-…`,
    which the next attempt removes.
    """
    _remove_leftovers(directory)
    if account is None:
        require_passwd_entry()
    building = Path(tempfile.mkdtemp(prefix=f"{directory.name}.new-", dir=directory.parent))
    try:
        if account:
            os.chown(building, account.uid, account.gid)
        # Not synced here: sync_filesystem below does it once, for initdb and the database together.
        initdb = (str(binaries / "initdb"), "--no-sync", *_initdb_options(major))
        _run(initdb, "", building, account)
        single = (str(binaries / "postgres"), "--single", "-F", "template1")
        _run(single, script, building, account)
        _append(building / "postgresql.conf", _INCLUDE)
        sync_filesystem(building)
        building.rename(directory)
        sync_directory(directory.parent)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _append(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "a") as file:
        file.write(text)


def _remove_leftovers(directory: Path) -> None:
    for leftover in directory.parent.glob(f"{directory.name}.new-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _initdb_options(major: int) -> list[str]:
    """Return the options for initdb: local connections only, UTF-8, and the same text order on every machine.

    The character classes (LC_CTYPE) come from the C library even with the builtin provider: pg_trgm and the
    text search parser see no letters beyond ASCII under plain C.
    """
    options = [f"--username={SUPERUSER}", "--auth-local=trust", "--auth-host=reject", "--encoding=UTF8"]
    options += ["--data-checksums", f"--locale={_library_locale()}"]
    options += [f"--lc-{category}=C" for category in ("messages", "monetary", "numeric", "time")]
    if major >= _BUILTIN_LOCALE_SINCE:
        options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return options


def _library_locale() -> str:
    """Return a locale of the C library that knows the letters of UTF-8, or C where it has none.

    macOS has C.UTF-8 since version 15, and en_US.UTF-8 in all.
    """
    library = ctypes.CDLL(None)
    library.newlocale.restype = ctypes.c_void_p
    lc_ctype_mask = 1 if sys.platform == "linux" else 2
    known = (name for name in ("C.UTF-8", "en_US.UTF-8") if library.newlocale(lc_ctype_mask, name.encode(), None))
    return next(known, "C")


def _run(command: Sequence[str], script: str, directory: Path, account: Account | None) -> None:
    process = spawn(
        command,
        account=account,
        data=directory,
        parent_death_signal=signal.SIGKILL,
        stdin=subprocess.PIPE,
    )
    output, _ = process.communicate(script.encode())
    if process.returncode or b"ERROR:" in output:
        lines = output.decode(errors="replace").strip().splitlines()
        raise EmbeddedPostgresError(
            f"PostgreSQL could not create its data directory {directory.parent}: {' '.join(lines[-10:])}"
        )


def make_folder(directory: Path, name: str, account: Account | None) -> None:
    """Create a folder inside the cluster for its server, if there is none."""
    folder = directory / name
    if not folder.is_dir():
        folder.mkdir(mode=0o700)
        if account:
            os.chown(folder, account.uid, account.gid, follow_symlinks=False)
        sync_directory(directory)


def take_ownership(directory: Path, account: Account) -> None:
    """Give the whole cluster to the server's user if it is not the owner, for example after root restored a backup."""
    if directory.stat().st_uid == account.uid:
        return
    for _, directories, files, descriptor in os.fwalk(directory):
        for name in (*directories, *files):
            os.chown(name, account.uid, account.gid, dir_fd=descriptor, follow_symlinks=False)
    os.chown(directory, account.uid, account.gid)


def write_settings(directory: Path, major: int, account: Account | None) -> None:
    """Write `pilotis.conf` into the cluster; `postgresql.conf` includes it, and later lines there take precedence."""
    settings = {**_SETTINGS, "effective_cache_size": f"{_memory() // 2 // _MIB}MB"}
    if major >= _IO_METHOD_SINCE:
        # The default starts three workers for read-ahead; a small database is read from the page cache.
        settings["io_method"] = "sync"
        # What reads at once needs no room for 64 reads of each process, which is six megabytes.
        settings["io_max_concurrency"] = "8"
    if sys.platform == "darwin":
        settings |= _SETTINGS_OF_MACOS
    lines = ["# Written by Pilotis at each start; your own settings belong at the end of postgresql.conf."]
    lines += [f"{name} = '{value}'" for name, value in settings.items()]
    new = directory / "pilotis.conf.new"
    new.unlink(missing_ok=True)
    # Created exclusively and renamed: the directory belongs to a user whose links root must not follow.
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write("\n".join(lines) + "\n")
        if account:
            os.fchown(descriptor, account.uid, account.gid)
    new.rename(directory / "pilotis.conf")


def user_settings(old: Path, new: Path, account: Account | None) -> None:
    """Copy the operator's own settings from one cluster to another: what follows ours, and those of `alter system`."""
    own = _read(old / "postgresql.conf").partition(_INCLUDE.strip().encode())[2].strip()
    if own:
        _append(new / "postgresql.conf", f"{own.decode()}\n")
    for name in ("postgresql.auto.conf", "pg_hba.conf", "pg_ident.conf"):
        path = new / name
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_read(old / name))
            if account:
                os.fchown(descriptor, account.uid, account.gid)


def _read(path: Path) -> bytes:
    """Read a file of a directory that belongs to a user whose links root must not follow."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return file.read()


def _memory() -> int:
    """Return the machine's memory in bytes, or the container's limit (cgroup version 2) if that is lower."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):
        return machine
