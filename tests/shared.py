"""Read-only things that the processes of a test run share, because they take long to create."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

# A registry's mirror may be slow, or away for a moment.
NPM = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--fetch-retries=8", "--fetch-timeout=120000"]
PIP = ["--quiet", "--disable-pip-version-check", "--retries=10", "--timeout=60"]
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
