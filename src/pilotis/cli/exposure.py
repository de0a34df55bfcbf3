"""What anybody can do who has an app's public key, which is in every page that uses it."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis.files.types import StorageAccess
from pilotis.tables.schema import AccessLevel


class FileDoors(NamedTuple):
    """Who may upload to a file storage, delete from it and read it."""

    name: str
    upload: StorageAccess
    delete: StorageAccess
    read: StorageAccess


class Exposure(NamedTuple):
    """An app's doors: sign-up, changes of tables, the origins of its keys, the access to its tables and storages."""

    name: str
    schema_locked: bool
    password_login: bool
    guest_login: bool
    key_origins: list[list[str]]
    tables: list[tuple[str, AccessLevel]]
    storages: list[FileDoors]


async def of_app(connection: Connection, app_id: UUID) -> Exposure | None:
    """Return what is set for an app; None if there is no such live app."""
    app = await connection.fetchrow(
        """
        select name, schema_locked, allow_id_password_login, allow_guest_login
        from pilotis.apps where app_id = $1 and deleted_at is null
        """,
        app_id,
    )
    if app is None:
        return None
    keys = await connection.fetch(
        "select allowed_origins from pilotis.public_keys where app_id = $1 and revoked_at is null order by key_id",
        app_id,
    )
    tables = await connection.fetch(
        "select title, access_level from pilotis.tables where app_id = $1 and dropped_at is null order by table_id",
        app_id,
    )
    storages = await connection.fetch(
        """
        select name, upload_access, delete_access, read_access
        from pilotis.file_storages where app_id = $1 order by storage_id
        """,
        app_id,
    )
    return Exposure(
        app["name"],
        app["schema_locked"],
        app["allow_id_password_login"],
        app["allow_guest_login"],
        [list(key["allowed_origins"]) for key in keys],
        [(table["title"], AccessLevel(table["access_level"])) for table in tables],
        [
            FileDoors(row["name"], *(StorageAccess(row[f"{door}_access"]) for door in ("upload", "delete", "read")))
            for row in storages
        ],
    )


def told(found: Exposure) -> list[tuple[bool, str]]:
    """Return a sentence for each door, and whether it stands open. Pure."""
    return [
        _schema(found),
        *_keys(found),
        *_sign_up(found),
        *(_table(title, level, found) for title, level in found.tables),
        *(sentence for doors in found.storages for sentence in _storage(doors, found)),
    ]


def _schema(found: Exposure) -> tuple[bool, str]:
    if found.schema_locked:
        return False, f"App {found.name}: its schema is locked; the public key cannot change tables."
    return True, f"App {found.name}: the public key alone can create, change and drop tables (schema_locked is off)."


def _keys(found: Exposure) -> list[tuple[bool, str]]:
    if not found.key_origins:
        return [(False, "It has no public key in force.")]
    return [
        (False, f"A public key is for browsers on {', '.join(origins)}; other programs can use it too.")
        if origins
        else (True, "A public key can be used by browsers on any site.")
        for origins in found.key_origins
    ]


def _sign_up(found: Exposure) -> list[tuple[bool, str]]:
    ways = {"with a password": found.password_login, "as a guest": found.guest_login}
    opened = [way for way, on in ways.items() if on]
    if not opened:
        return [(False, "Nobody can sign up as a member.")]
    return [(True, f"Anybody can sign up as a member {' or '.join(opened)}.")]


def _table(title: str, level: AccessLevel, found: Exposure) -> tuple[bool, str]:
    anybody = found.password_login or found.guest_login
    if level is AccessLevel.PUBLIC:
        return True, f"Table {title} (Public): the public key alone can read, write and delete every row."
    if level is AccessLevel.APP_MEMBER:
        who = "any member, so anybody who signs up," if anybody else "any member"
        return anybody, f"Table {title} (AppMember): {who} can read, write and delete every row."
    return False, f"Table {title} (Creator): a member can read, write and delete its own rows alone."


_DOORS = {"upload": "upload files", "delete": "delete every file", "read": "read every file"}


def _storage(doors: FileDoors, found: Exposure) -> list[tuple[bool, str]]:
    """Return a sentence for each kind of caller that may do something with a storage."""
    anybody = found.password_login or found.guest_login
    callers = {
        StorageAccess.PUBLIC: (True, "the public key alone"),
        StorageAccess.APP_MEMBER: (anybody, "any member, so anybody who signs up," if anybody else "any member"),
        StorageAccess.CREATOR: (False, "a member, for its own files alone,"),
        StorageAccess.SECRET: (False, "the secret key alone"),
    }
    told = []
    for access, (is_open, who) in callers.items():
        deeds = [deed for door, deed in _DOORS.items() if getattr(doors, door) is access]
        if deeds:
            listed = " and ".join([", ".join(deeds[:-1]), deeds[-1]] if deeds[1:] else deeds)
            told.append((is_open, f"Storage {doors.name}: {who} can {listed}."))
    return told
