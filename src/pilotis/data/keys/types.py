"""The types of unique keys."""

from __future__ import annotations

import msgspec

from pilotis.data.tables.types import ShownUniqueKey


class UniqueKeyList(msgspec.Struct):
    """The unique keys of a table, in the order of their creation."""

    unique: list[ShownUniqueKey]
