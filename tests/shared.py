"""Read-only things that the processes of a test run share, and what earlier runs have found out."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

# A registry's mirror may be slow, or away for a moment.
NPM = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--fetch-retries=8", "--fetch-timeout=120000"]
PIP = ["--quiet", "--disable-pip-version-check", "--retries=10", "--timeout=60"]
_ROOT = Path(__file__).parents[1]
_ARTIFACTS = Path(__file__).parent / "artifacts"
_MANIFESTS = ("package.json", "package-lock.json")
SECONDS_TO_INSTALL = 500  # less than the time limit of a test


def kept(name: str, contents: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that `make` has filled, in this run or an earlier one: what is in it follows from `contents`.

    It is below the user's cache directory, and nothing may change it.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pilotis-tests"
    folder = cache / f"{name}-{hashlib.sha256(contents.encode()).hexdigest()[:16]}"
    complete = folder.with_suffix(".complete")
    cache.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            complete.touch()
    return folder


def install_npm(folder: Path, *packages: str, copied: bool = False) -> Path:
    """Give a folder the packages of npm, or those that its own `package.json` and lock file name, and return it.

    They are copied for programs that look for the project around themselves, and linked for others.
    """
    own = {name: (folder / name).read_text() for name in _MANIFESTS if (folder / name).exists()}

    def install_all(place: Path) -> None:
        for name, text in own.items():
            (place / name).write_text(text)
        command = ["npm", "ci"] if len(own) == len(_MANIFESTS) else ["npm", "install", *packages, "--prefix", place]
        install([*command, *NPM], place)

    made = kept("npm", json.dumps([packages, own]), install_all)
    if copied:
        shutil.copytree(made / "node_modules", folder / "node_modules", symlinks=True)
    else:
        (folder / "node_modules").symlink_to(made / "node_modules")
    return folder


def check_once(name: str, files: Iterable[Path], check: Callable[[], object]) -> None:
    """Run a check whose result depends on the contents of some files alone, unless it has passed for them before.

    Meant for programs that take long, as type checkers do. Only the last contents that passed are remembered.
    """
    contents = hashlib.sha256()
    for file in sorted(files):
        contents.update(f"{file.relative_to(_ROOT)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    passed = _ARTIFACTS / f"{name}.passed"
    if passed.exists() and passed.read_text() == contents.hexdigest():
        return
    check()
    _ARTIFACTS.mkdir(exist_ok=True)
    passed.write_text(contents.hexdigest())


def install(command: Sequence[str | Path], folder: Path) -> None:
    """Run an installer in a folder; raises AssertionError with its output."""
    output(command, folder)


def output(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a program and return its standard output; raises AssertionError with all of it where it fails."""
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS_TO_INSTALL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
