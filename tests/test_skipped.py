"""The end of a run on a machine without browsers, Node.js or bubblewrap."""

import os
import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE

SKIPPING = """
import pytest
from pilotis.functions.runtime import policy
from tests.chromium import chromium
from tests.console.test_modules import test_the_types_hold
from tests.functions.support import require_sandboxes
from tests.webdriver import ENGINES
from tests.webhooks.test_receivers import test_the_receiver_in_javascript

policy._BINARY_PATHS = ""  # where it looks for bubblewrap

@pytest.fixture
def sandboxes():
    require_sandboxes()

@pytest.fixture
async def browser():
    async with chromium() as running:
        yield running

@pytest.mark.parametrize("number", [1, 2])
async def test_page(browser, number): pass

@pytest.mark.parametrize("engine", ENGINES)
async def test_walk(engine):
    async with ENGINES[engine]():
        pass

def test_function(sandboxes): pass

def test_other(): pass
"""
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-o", "asyncio_mode=auto", "-W", "ignore"]


def test_without_programs_the_run_passes_and_ends_with_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SKIPPING)
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_terminal_summary\n"
        "def pytest_addoption(parser):\n    parser.addoption('--failures')\n    parser.addoption('--again')\n"
    )
    (tmp_path / "bin").mkdir()
    environment = {**os.environ, "PATH": str(tmp_path / "bin"), "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "pytest", *OPTIONS, "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, last, end = done.stdout.strip().splitlines()
    assert end.startswith("1 passed, 7 skipped"), done.stdout
    assert "    2 tests: there is no Chromium" in done.stdout
    assert "    1 test: needs npm\n" in done.stdout
    assert "    1 test: no sandbox for javascript here: " in done.stdout
    assert last.startswith("To run them, install: chromium-headless-shell fonts-noto-cjk")
    assert {"nodejs npm", "bubblewrap", "firefox-esr", "webkit2gtk-driver xvfb"} <= set(
        last.partition(": ")[2].split(", ")
    )
