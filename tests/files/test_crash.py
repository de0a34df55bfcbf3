"""The short form of `tests/files/crash.py`."""

from pathlib import Path

from tests.files.crash import Crash


async def test_a_killed_server_loses_nothing_and_leaves_nothing(tmp_path: Path):
    outcome = await Crash(tmp_path, uploads=15, seed=2).run()
    assert outcome.kills >= 1
    assert outcome.completed >= 3
    assert outcome.pieces >= 3
