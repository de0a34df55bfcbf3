"""What becomes of the values of a row when it becomes another app's. Pure."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from pilotis.archive import lines
from pilotis.archive.errors import InvalidArchiveError
from pilotis.data.tables.types import ArchivedTable
from pilotis.kit.archiving import Copied
from pilotis.security.encryption.cipher import Cipher, DecryptionError
from pilotis.security.encryption.secrets import AppSecrets
from pilotis.security.encryption.types import Purpose

Step = Callable[[list[bytes]], None]
"""Checks or changes the values of a row in place."""


class Change(NamedTuple):
    """From which app rows come, and which they become; the data key, if the archive has one."""

    source: UUID
    target: UUID
    data_key: bytes | None
    salt: bytes

    @property
    def is_copy(self) -> bool:
        """Whether the app has another id."""
        return self.source != self.target


def prefix(how: Copied, change: Change) -> bytes:
    """Return what stands before each row: the app's id, and the values that an archive does not choose."""
    values = [str(change.target), *how.replaced.values()]
    return b"".join(lines.value_of(value) + b"\t" for value in values)


def steps(columns: Sequence[str], how: Copied, change: Change) -> list[Step]:
    """Return what checks and changes the values of a row of a server's table; none if a row is taken as it is."""
    at = {name: number for number, name in enumerate(columns)}
    found: list[Step] = [_checked(at[name], check) for name, check in how.checks.items() if name in at]
    if change.is_copy:
        found += [_fresh(at[name], change.salt) for name in how.fresh if name in at]
        found += [_renamed(at[name], rename) for name, rename in how.renamed.items() if name in at]
    for secret in how.secrets:
        if secret.column in at:
            found.append(_secret(at, secret.column, Purpose(secret.purpose), secret.place, change))
    return found


def of_rows(table: ArchivedTable, change: Change) -> list[Step]:
    """Return what encrypts the values of a row for the new app. Their hashes do not depend on it."""
    return [_value(table, number, index, change) for number, index in table.encrypted]


def in_order(steps: Sequence[Step]) -> Callable[[list[bytes]], Sequence[bytes]]:
    """Return the function that does all steps to the values of a row, and returns them."""

    def changed(values: list[bytes]) -> Sequence[bytes]:
        for step in steps:
            step(values)
        return values

    return changed


def _checked(index: int, check: Callable[[str], object]) -> Step:
    def step(values: list[bytes]) -> None:
        if values[index] != lines.NULL:
            check(lines.text_of(values[index]))

    return step


def _renamed(index: int, rename: Callable[[str], str]) -> Step:
    def step(values: list[bytes]) -> None:
        values[index] = lines.value_of(rename(lines.text_of(values[index])))

    return step


def _fresh(index: int, salt: bytes) -> Step:
    def step(values: list[bytes]) -> None:
        if values[index] != lines.NULL:
            values[index] = str(fresh_id(UUID(lines.text_of(values[index])), salt)).encode()

    return step


def fresh_id(id_: UUID, salt: bytes) -> UUID:
    """Return another id in the place of one, the same each time: its time stays, by which lists are in order."""
    mixed = hmac.digest(salt, id_.bytes, "sha256")[:10]
    marked = bytes([0x70 | mixed[0] & 0x0F, mixed[1], 0x80 | mixed[2] & 0x3F])
    return UUID(bytes=id_.bytes[:6] + marked + mixed[3:])


def _secret(at: Mapping[str, int], column: str, purpose: Purpose, template: str, change: Change) -> Step:
    index = at[column]
    named = [name for name in at if f"{{{name}}}" in template]
    key = change.data_key

    def step(values: list[bytes]) -> None:
        if values[index] == lines.NULL:
            return
        if key is None:
            raise InvalidArchiveError("The archive is damaged: it has secrets without their key.")
        place = template.format_map({name: lines.text_of(values[at[name]]) for name in named})
        try:
            plain = AppSecrets(change.source, key).decrypt(purpose, place, lines.bytes_of(values[index]))
        except DecryptionError:
            raise InvalidArchiveError("The archive is damaged: a secret cannot be decrypted.") from None
        values[index] = lines.value_of_bytes(AppSecrets(change.target, key).encrypt(purpose, place, plain))

    return step


def _value(table: ArchivedTable, number: int, index: int, change: Change) -> Step:
    id_ = table.columns.index("__id")
    if change.data_key is None:
        old = new = None
    else:
        old, new = Cipher(change.source, change.data_key), Cipher(change.target, change.data_key)

    def step(values: list[bytes]) -> None:
        if values[index] == lines.NULL:
            return
        if old is None or new is None:
            raise InvalidArchiveError("The archive is damaged: it has encrypted values without their key.")
        row_id = UUID(lines.text_of(values[id_]))
        try:
            plain = old.decrypt(lines.bytes_of(values[index]), table.table_id, number, row_id)
        except DecryptionError:
            raise InvalidArchiveError("The archive is damaged: a value cannot be decrypted.") from None
        if change.is_copy:
            values[index] = lines.value_of_bytes(new.encrypt(plain, table.table_id, number, row_id))

    return step
