"""Read-only things that the processes of a test run share, and what earlier runs have found out."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

# A registry's mirror may be slow, or away for a moment.
NPM = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--fetch-retries=8", "--fetch-timeout=120000"]
PIP = ["--quiet", "--disable-pip-version-check", "--retries=10", "--timeout=60"]
_ROOT = Path(__file__).parents[1]
_ARTIFACTS = Path(__file__).parent / "artifacts"
SECONDS_TO_INSTALL = 500  # less than the time limit of a test


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder of the whole run, which the first process to ask has filled with `make`."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, complete = root / name, root / f"{name}.complete"
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            complete.touch()
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
