"""What caches drop while a server runs is collected, although it refers to itself."""

import subprocess
import sys

_PROGRAM = """
from collections import deque
from pilotis.serve.worker import tune

class Table:
    alive = 0

    def __init__(self):
        Table.alive += 1
        self.prepared = {"table": self}

    def __del__(self):
        Table.alive -= 1

# As on a server, at first nothing is there that could become garbage.
tune()
cache, most = deque(maxlen=20_000), 0
for _ in range(150_000):
    cache.append(Table())
    most = max(most, Table.alive)
print(most)
"""


def test_tables_that_leave_a_cache_are_collected() -> None:
    printed = subprocess.run([sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True).stdout
    assert int(printed) < 100_000
