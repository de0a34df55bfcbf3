"""What anybody can do who has an app's public key, which is in every page that uses it."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis.tables.schema import AccessLevel


class Exposure(NamedTuple):
    """An app's doors: who may sign up, whether tables may be changed, the origins of its keys, its tables' levels."""

    name: str
    schema_locked: bool
    password_login: bool
    guest_login: bool
    key_origins: list[list[str]]
    tables: list[tuple[str, AccessLevel]]


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
    return Exposure(
        app["name"],
        app["schema_locked"],
        app["allow_id_password_login"],
        app["allow_guest_login"],
        [list(key["allowed_origins"]) for key in keys],
        [(table["title"], AccessLevel(table["access_level"])) for table in tables],
    )


def told(found: Exposure) -> list[tuple[bool, str]]:
    """Return a sentence for each door, and whether it stands open. Pure."""
    return [
        _schema(found),
        *_keys(found),
        *_sign_up(found),
        *(_table(title, level, found) for title, level in found.tables),
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
