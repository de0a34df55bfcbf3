"""A test that hangs fails, and the run goes on."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).parent.parent
HANGING = """
import asyncio, threading

def test_hangs_in_a_thread():
    threading.Event().wait()

async def test_hangs_in_the_loop():
    await asyncio.Event().wait()

async def test_comes_after():
    await asyncio.sleep(0)
"""


def test_every_test_has_a_time_limit_that_waiting_stays_below(pytestconfig: pytest.Config):
    assert float(pytestconfig.getini("timeout")) >= 3 * PATIENCE


def test_a_hanging_test_fails_and_the_next_one_runs(tmp_path: Path):
    path = tmp_path / "test_hanging.py"
    path.write_text(HANGING)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={tmp_path}"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "--timeout=1", "--tb=short", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("Timeout (>1.0s)") >= 2
