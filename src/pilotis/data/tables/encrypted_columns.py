"""Encrypted columns of one table: encrypts rows before they are written, and decrypts results after they are read."""

from __future__ import annotations

import base64
import copy
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import msgspec

from pilotis.data.tables.schema import Column, ColumnType, TableSchema
from pilotis.data.tables.values import Row
from pilotis.kit import json
from pilotis.kit.clock import parse_rfc3339
from pilotis.kit.errors import PilotisError
from pilotis.security.encryption.cipher import Cipher, DecryptionError

Item = dict[str, msgspec.Raw]
"""The JSON of a row from the database, its members not decoded."""

_items = msgspec.json.Decoder(list[Item])
_fields = msgspec.json.Decoder(Item)
_EXACT = Context(prec=2000)
_sorted = msgspec.json.Encoder(decimal_format="number", order="sorted")
_text = msgspec.json.Decoder(str)


class EncryptedValueDamagedError(PilotisError):
    """500 `SEALED_VALUE_DAMAGED`: an encrypted value was changed or moved outside Pilotis."""

    code = "SEALED_VALUE_DAMAGED"
    message = "An encrypted value of this row cannot be decrypted: it was changed outside Pilotis."


class ColumnCipher:
    """Encrypts and decrypts the values of a table's encrypted columns."""

    def __init__(self, table: TableSchema, cipher: Cipher) -> None:
        self._table = table
        self._cipher = cipher
        self._columns = [column for column in table.columns if column.encrypted]

    def encrypt(self, row: Row, row_id: UUID) -> Row:
        """Return the row in its stored form: encrypted columns as base64 of encrypted JSON, with their hashes."""
        fields = copy.copy(row.fields)
        hashes: dict[int, str] = {}
        for column in self._columns:
            key = f"c{column.number}"
            value = getattr(fields, key)
            if value is None or value is msgspec.UNSET:
                continue
            encrypted, hash_ = self.encrypt_value(column, value, row_id)
            setattr(fields, key, base64.b64encode(encrypted).decode())
            hashes[column.number] = base64.b64encode(hash_).decode()
        return Row(fields, json.encode(fields), row.moments, row.nulls, hashes)

    def decrypt_items(self, items: bytes) -> bytes:
        """Return the JSON array of rows with the encrypted columns decrypted."""
        return json.encode([self.decrypt_item(item) for item in _items.decode(items)])

    def decrypt_item(self, item: Item) -> Item:
        """Return a row with the encrypted columns decrypted."""
        data = _fields.decode(item["data"])
        row_id = UUID(_text.decode(item["id"]))
        for column in self._columns:
            encrypted = data.get(column.name)
            if encrypted is not None and bytes(encrypted) != b"null":
                data[column.name] = self._decrypt(column, encrypted, row_id)
        return item | {"data": msgspec.Raw(json.encode(data))}

    def encrypt_value(self, column: Column, value: Any, row_id: UUID) -> tuple[bytes, bytes]:
        """Return one encrypted value and its hash."""
        encrypted = self._cipher.encrypt(
            json.plain_numbers(json.encode(value)), self._table.table_id, column.number, row_id
        )
        return encrypted, self.hash(column, value)

    def decrypt_value(self, column: Column, encrypted: bytes, row_id: UUID) -> bytes:
        """Return the JSON of one encrypted value."""
        try:
            return self._cipher.decrypt(encrypted, self._table.table_id, column.number, row_id)
        except DecryptionError as error:
            raise EncryptedValueDamagedError from error

    def hash(self, column: Column, value: Any) -> bytes:
        """Return the hash that finds equal values of an encrypted column."""
        return self._cipher.hash(canonical(column.type, value), self._table.table_id, column.number)

    def _decrypt(self, column: Column, encrypted: msgspec.Raw, row_id: UUID) -> msgspec.Raw:
        return msgspec.Raw(self.decrypt_value(column, base64.b64decode(_text.decode(encrypted)), row_id))


def canonical(type_: ColumnType, value: Any) -> bytes:
    """Return the same bytes for equal values, such as 1.10 and 1.1, or one moment in two time zones.

    The value comes from a row or, unconverted, from a condition: 1.0 for an int, a UUID in capitals.
    """
    if type_ is ColumnType.DATE and (moment := parse_rfc3339(value)):
        return moment.isoformat().encode()
    if type_ is ColumnType.UUID:
        value = str(value).lower()
    return _sorted.encode(_normal(value))


def _normal(value: Any) -> Any:
    """Return a value with its numbers in canonical form."""
    if isinstance(value, dict):
        return {name: _normal(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_normal(item) for item in value]
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        # Zero has no sign.
        return _EXACT.plus(_EXACT.normalize(Decimal(value)))
    return value
