"""What a server keeps of tables that it no longer knows: nothing for long."""

import gc
import sys
from collections.abc import Iterator
from uuid import uuid4
from weakref import WeakSet

import pytest

from pilotis.data.rows.table import PreparedTable
from pilotis.data.tables.schema import AccessLevel, TableSchema
from pilotis.data.tables.service import numbered, parse_schema
from pilotis.db.pool import Database
from pilotis.limits import Limits
from pilotis.serve import worker

TABLES = 200


@pytest.fixture
def tuned() -> Iterator[None]:
    """Collect garbage as a server does."""
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    worker.tune()
    yield
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)


def prepared(number: int, database: Database) -> PreparedTable:
    """Make a table with columns that no other has."""
    columns = numbered(parse_schema({f"c{number}_{index}": "string" for index in range(8)}, Limits()), 1)
    table = TableSchema(uuid4(), uuid4(), "t", AccessLevel.PUBLIC, 1, tuple(columns))
    made = table.__dict__["prepared"] = PreparedTable(table, database, None)
    assert made.new_rows is not made.changes  # They are made when they are used.
    return made


async def test_tables_that_were_known_for_long_are_freed_once_they_are_dropped(tuned: None):
    database, known, alive = Database({}), list[PreparedTable](), WeakSet[PreparedTable]()
    for number in range(TABLES):
        known.append(prepared(number, database))
        alive.add(known[-1])
    gc.collect(1)  # as time goes by
    known.clear()
    allocated: list[list[int]] = [[] for _ in range(300_000)]
    assert not len(alive), f"{len(alive)} of {TABLES} are there, after {len(allocated)} other objects"


def test_tables_of_the_same_columns_share_their_decoders():
    database = Database({})
    one, same, other = prepared(1, database), prepared(1, database), prepared(2, database)
    assert one.new_rows._decoder is same.new_rows._decoder
    assert one.new_rows._decoder is not one.changes._decoder
    assert one.new_rows._decoder is not other.new_rows._decoder
