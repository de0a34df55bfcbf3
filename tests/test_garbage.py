"""What caches drop while a server runs is collected, although it refers to itself; what was there before is not."""

import subprocess
import sys

import pytest

from tests.waiting import PATIENCE

_TABLE = """
class Table:
    alive = 0

    def __init__(self):
        Table.alive += 1
        self.prepared = {"table": self}

    def __del__(self):
        Table.alive -= 1
"""

_PROGRAM = """
from collections import deque
from pilotis.serve.worker import tune

# As on a server, at first nothing is there that could become garbage.
tune()
cache, most = deque(maxlen=20_000), 0
for _ in range(150_000):
    cache.append(Table())
    most = max(most, Table.alive)
print(most)
"""

_FORKING = """
import os
import re
from pilotis.serve.worker import tune

reading, writing = os.pipe()
if os.fork() == 0:
    tune()
    with open("/proc/self/smaps_rollup") as file:
        kilobytes = re.search(r"Private_Dirty: +(\\d+)", file.read())[1]
    os.write(writing, kilobytes.encode())
    os._exit(0)
os.close(writing)
os.wait()
print(os.read(reading, 100).decode())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="how much memory processes share is asked of Linux")
def test_workers_share_the_memory_of_their_modules() -> None:
    """A collection would copy all of it, some forty megabytes."""
    printed = subprocess.run([sys.executable, "-c", _FORKING], check=True, capture_output=True, text=True).stdout
    assert int(printed) < 10_000


_WAITING = """
import asyncio
import gc
from pilotis.serve import worker

async def serve():
    tables = [Table() for _ in range(100)]
    for _ in range(COLLECTIONS):
        gc.collect(1)
    worker._collect(asyncio.get_running_loop())
    tables.clear()
    before = Table.alive
    while Table.alive:
        await asyncio.sleep(0.01)
    print(before)

worker._COLLECT_SECONDS = 0.05
worker.tune()
asyncio.run(serve())
"""


@pytest.mark.parametrize("collections", [0, 2], ids=["young", "old"])
def test_little_garbage_is_collected_soon(collections: int) -> None:
    command = [sys.executable, "-c", f"COLLECTIONS = {collections}\n{_TABLE}{_WAITING}"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout
    assert int(printed) == 100


def test_tables_that_leave_a_cache_are_collected() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", _TABLE + _PROGRAM], check=True, capture_output=True, text=True
    ).stdout
    assert int(printed) < 100_000
