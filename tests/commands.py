"""Commands of `pilotis`, in this process: a Python for each of some hundreds would take most of their time."""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

from pilotis.cli import main, remote
from tests import forked
from tests.waiting import PATIENCE

_ENVIRONMENT = {"COLUMNS": "200", "NO_COLOR": "1"}
_running = threading.Lock()  # The standard streams are those of the whole process.


def run(
    *arguments: str, typed: str = "", folder: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command in a folder: in this process, or while another command runs here, in one of its own."""
    if not _running.acquire(blocking=False):
        given = {**os.environ, **_ENVIRONMENT, **environment}
        return forked.run("pilotis", *arguments, typed=typed, folder=folder, environment=given)
    try:
        # In a separate thread, because a command runs an event loop, and a test may do so already.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(_run, arguments, typed, folder, {**_ENVIRONMENT, **environment}).result()
    finally:
        _running.release()


async def run_beside(
    *arguments: str, typed: str = "", folder: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command in this process while the test's event loop goes on."""
    return await asyncio.to_thread(run, *arguments, typed=typed, folder=folder, **environment)


def run_process(
    *arguments: str, typed: str = "", folder: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command as a shell does, where that is what a test is about."""
    return subprocess.run(
        [sys.executable, "-m", "pilotis", *arguments],
        input=typed,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, **_ENVIRONMENT, **environment},
    )


def _run(
    arguments: tuple[str, ...], typed: str, folder: Path | None, environment: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    command = ["pilotis", *arguments]
    remote.secret_key.cache_clear()  # of the command before
    with (
        CliRunner().isolation(input=typed, env=environment) as (output, errors, _),
        mock.patch.object(sys, "argv", command),
        contextlib.chdir(folder or Path.cwd()),
    ):
        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
        return subprocess.CompletedProcess(command, status, output.getvalue().decode(), errors.getvalue().decode())
