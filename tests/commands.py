"""Commands of `pilotis`, in this process: a Python for each of some hundreds would take most of their time."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

from click.testing import CliRunner

from pilotis.cli import main
from tests.waiting import PATIENCE

_ENVIRONMENT = {"COLUMNS": "200", "NO_COLOR": "1"}


def run(*arguments: str, typed: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in this process; one at a time."""
    # In a separate thread, because a command runs an event loop, and a test may do so already.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_run, arguments, typed, {**_ENVIRONMENT, **environment}).result(PATIENCE)


def run_process(*arguments: str, typed: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command as a shell does, where that is what a test is about."""
    return subprocess.run(
        [sys.executable, "-m", "pilotis", *arguments],
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, **_ENVIRONMENT, **environment},
    )


def _run(arguments: tuple[str, ...], typed: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    command = ["pilotis", *arguments]
    with (
        CliRunner().isolation(input=typed, env=environment) as (output, errors, _),
        mock.patch.object(sys, "argv", command),
    ):
        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
        return subprocess.CompletedProcess(command, status, output.getvalue().decode(), errors.getvalue().decode())
