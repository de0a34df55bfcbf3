"""Encrypted columns of one table: rows sealed on their way in, answers opened on their way out."""

from __future__ import annotations

import base64
import copy
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import msgspec

from pilotis.encryption.cipher import Cipher, SealError
from pilotis.kit import json
from pilotis.kit.clock import parse_rfc3339
from pilotis.kit.errors import PilotisError
from pilotis.tables.schema import Column, ColumnType, TableSchema
from pilotis.tables.values import Row


class SealedItem(msgspec.Struct):
    """A row as the database gives it, its fields not decoded."""

    id: UUID
    data: dict[str, msgspec.Raw]
    created_at: str
    updated_at: str


_items = msgspec.json.Decoder(list[SealedItem])
_EXACT = Context(prec=2000)
_sorted = msgspec.json.Encoder(decimal_format="number", order="sorted")
_text = msgspec.json.Decoder(str)


class SealedValueDamagedError(PilotisError):
    """500 `SEALED_VALUE_DAMAGED`: an encrypted value was changed, or put into another place, behind Pilotis' back."""

    code = "SEALED_VALUE_DAMAGED"
    message = "An encrypted value of this row does not open: it was changed outside Pilotis."


class Sealer:
    """Seals and opens the values of a table's encrypted columns."""

    def __init__(self, table: TableSchema, cipher: Cipher) -> None:
        self._table = table
        self._cipher = cipher
        self._columns = [column for column in table.columns if column.encrypted]

    def seal(self, row: Row, row_id: UUID) -> Row:
        """Return the row as it is stored: encrypted columns as base64 of sealed JSON, with their hashes."""
        fields = copy.copy(row.fields)
        hashes: dict[int, str] = {}
        for column in self._columns:
            key = f"c{column.number}"
            value = getattr(fields, key)
            if value is None or value is msgspec.UNSET:
                continue
            sealed, hash_ = self.seal_value(column, value, row_id)
            setattr(fields, key, base64.b64encode(sealed).decode())
            hashes[column.number] = base64.b64encode(hash_).decode()
        return Row(fields, json.encode(fields), row.moments, row.nulls, hashes)

    def open_items(self, items: bytes) -> bytes:
        """Return the JSON array of rows with the encrypted columns in plain."""
        decoded = _items.decode(items)
        for item in decoded:
            for column in self._columns:
                sealed = item.data.get(column.name)
                if sealed is not None and bytes(sealed) != b"null":
                    item.data[column.name] = self._open(column, sealed, item.id)
        return json.encode(decoded)

    def seal_value(self, column: Column, value: Any, row_id: UUID) -> tuple[bytes, bytes]:
        """Return one sealed value and its hash."""
        sealed = self._cipher.seal(json.encode(value), self._table.table_id, column.number, row_id)
        return sealed, self.hash(column, value)

    def open_value(self, column: Column, sealed: bytes, row_id: UUID) -> bytes:
        """Return the JSON of one sealed value."""
        try:
            return self._cipher.open(sealed, self._table.table_id, column.number, row_id)
        except SealError as error:
            raise SealedValueDamagedError from error

    def hash(self, column: Column, value: Any) -> bytes:
        """Return the hash by which equal values of an encrypted column are found."""
        return self._cipher.hash(canonical(column.type, value), self._table.table_id, column.number)

    def _open(self, column: Column, sealed: msgspec.Raw, row_id: UUID) -> msgspec.Raw:
        return msgspec.Raw(self.open_value(column, base64.b64decode(_text.decode(sealed)), row_id))


def canonical(type_: ColumnType, value: Any) -> bytes:
    """Return bytes that are the same for values that compare equal: 1.10 and 1.1, one moment in two time zones.

    The value may be one of a row, or of a condition that has not been converted: 1.0 for an int, a UUID in capitals.
    """
    if type_ is ColumnType.DATE and (moment := parse_rfc3339(value)):
        return moment.isoformat().encode()
    if type_ is ColumnType.UUID:
        value = str(value).lower()
    return _sorted.encode(_normal(value))


def _normal(value: Any) -> Any:
    """Return a value with every number in it written in one way."""
    if isinstance(value, dict):
        return {name: _normal(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_normal(item) for item in value]
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        # Zero has no sign.
        return _EXACT.plus(_EXACT.normalize(Decimal(value)))
    return value
