"""Decoders of rows, which tables of the same columns share."""

from uuid import uuid4

from pilotis.data.rows.table import PreparedTable
from pilotis.data.tables.schema import AccessLevel, TableSchema
from pilotis.data.tables.service import numbered, parse_schema
from pilotis.data.tables.values import _KEPT_DECODERS, _decoders_made
from pilotis.db.pool import Database
from pilotis.limits import Limits


def prepared(number: int) -> PreparedTable:
    """Make a table of columns whose names have a number."""
    columns = numbered(parse_schema({f"c{number}_{index}": "string" for index in range(3)}, Limits()), 1)
    table = TableSchema(uuid4(), uuid4(), "t", AccessLevel.PUBLIC, 1, tuple(columns))
    return PreparedTable(table, Database({}), None)


def test_tables_of_the_same_columns_share_their_decoders():
    one, same, other = prepared(1), prepared(1), prepared(2)
    assert one.new_rows._decoder is same.new_rows._decoder
    assert one.new_rows._decoder is not one.changes._decoder
    assert one.new_rows._decoder is not other.new_rows._decoder


def test_those_that_were_not_used_for_long_are_forgotten():
    often = prepared(0)
    kept = often.new_rows._decoder
    for number in range(1, _KEPT_DECODERS + 10):
        assert prepared(number).new_rows
        assert prepared(0).new_rows._decoder is kept
    assert len(_decoders_made) == _KEPT_DECODERS
