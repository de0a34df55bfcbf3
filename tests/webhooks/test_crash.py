"""Processes are killed and stopped, and PostgreSQL restarts, while rows are written: every row arrives, under one key.

`python -m tests.webhooks.crash` does the same with 10,000 writes.
"""

from pathlib import Path

import pytest

from tests.webhooks.crash import Crash
from tests.whole import times


@pytest.mark.embedded("it kills PostgreSQL")
async def test_every_row_arrives_whatever_is_killed(tmp_path: Path):
    outcome = await Crash(tmp_path, writes=times(300, whole=500), seed=7).run()
    assert {"kill", "stop", "database"} <= outcome.disturbances.keys()
    assert outcome.rows > 0
