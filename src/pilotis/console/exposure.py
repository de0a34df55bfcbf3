"""Reports what everybody can do with an app's public key, which every page that uses it contains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pilotis.console.types import Finding, Severity
from pilotis.data.rules.types import RuleFinding
from pilotis.data.tables.types import Table
from pilotis.files.types import Storage, StorageAccess
from pilotis.http.api.principals import AppInfo


class Exposure(NamedTuple):
    """An app, the origins of each of its active public keys, its tables, file storages and the number of its sites."""

    app: AppInfo
    keys: Sequence[Sequence[str]]
    tables: Sequence[Table]
    storages: Sequence[Storage]
    sites: int = 0
    rules: Sequence[RuleFinding] = ()
    """What the rules of its tables leave open, and what its views show."""

    @property
    def anybody_can_sign_up(self) -> bool:
        """Whether the public can sign up as a member of the app."""
        return self.app.allow_id_password_login or self.app.allow_guest_login


def findings(found: Exposure) -> list[Finding]:
    """Return a finding about each kind of access, whether public or not. Pure."""
    return [
        _schema(found),
        *_keys(found),
        _sign_up(found),
        *(_table(table, found) for table in found.tables if not table.has_rules),
        *(
            Finding(severity=one.severity, code=one.code, subject=str(one.table_id), message=one.message)
            for one in found.rules
        ),
        *(finding for storage in found.storages if not storage.has_rules for finding in _storage(storage, found)),
        *([_PAGES] if found.sites else []),
    ]


def _schema(found: Exposure) -> Finding:
    name = found.app.name
    if found.app.schema_locked:
        return _closed("SCHEMA", f"App {name}: its schema is locked; the public key cannot change tables.")
    return _open(
        "high",
        "SCHEMA",
        f"App {name}: the public key alone can create, change and drop tables (schema_locked is off).",
    )


def _keys(found: Exposure) -> list[Finding]:
    if not found.keys:
        return [_closed("KEY", "It has no active public key.")]
    return [
        _closed(
            "KEY", f"A public key is for browsers on {', '.join(origins)}; programs other than browsers can use it too."
        )
        if origins
        else _open("low", "KEY", "A public key can be used by browsers on any site.")
        for origins in found.keys
    ]


def _sign_up(found: Exposure) -> Finding:
    ways = {"with a password": found.app.allow_id_password_login, "as a guest": found.app.allow_guest_login}
    opened = [way for way, on in ways.items() if on]
    if not opened:
        return _closed("SIGN_UP", "The public cannot sign up as a member.")
    return _open("low", "SIGN_UP", f"Anybody can sign up as a member {' or '.join(opened)}.")


def _table(table: Table, found: Exposure) -> Finding:
    title, level, subject = table.title, table.access_level, str(table.id)
    if level == "Public":
        message = f"Table {title} (Public): the public key alone can read, write and delete every row."
        return _open("high", "TABLE", message, subject)
    if level == "AppMember":
        is_open = found.anybody_can_sign_up
        who = "any member, and so anyone who signs up," if is_open else "any member"
        message = f"Table {title} (AppMember): {who} can read, write and delete every row."
        return _open("medium", "TABLE", message, subject) if is_open else _closed("TABLE", message, subject)
    message = f"Table {title} (Creator): a member can read, write and delete only its own rows."
    return _closed("TABLE", message, subject)


def _storage(storage: Storage, found: Exposure) -> list[Finding]:
    """Return a finding for each kind of caller that has access to a storage."""
    anybody = found.anybody_can_sign_up
    callers = {
        StorageAccess.PUBLIC: (True, "the public key alone"),
        StorageAccess.APP_MEMBER: (anybody, "any member, and so anyone who signs up," if anybody else "any member"),
        StorageAccess.CREATOR: (False, "a member, for its own files only,"),
        StorageAccess.SECRET: (False, "the secret key alone"),
    }
    needed = {
        "upload files": storage.upload_access,
        "delete every file": storage.delete_access,
        "read every file": storage.read_access,
    }
    described = []
    for access, (is_open, who) in callers.items():
        allowed = [action for action, level in needed.items() if level is access]
        if allowed:
            listed = " and ".join([", ".join(allowed[:-1]), allowed[-1]] if allowed[1:] else allowed)
            message = f"Storage {storage.name}: {who} can {listed}."
            subject = str(storage.id)
            finding = (
                _open("high" if "delete every file" in allowed else "medium", "STORAGE", message, subject)
                if is_open
                else _closed("STORAGE", message, subject)
            )
            described.append(finding)
    return described


def _open(severity: Severity, code: str, message: str, subject: str | None = None) -> Finding:
    return Finding(severity=severity, code=code, subject=subject, message=message)


def _closed(code: str, message: str, subject: str | None = None) -> Finding:
    return Finding(severity="none", code=code, subject=subject, message=message)


_PAGES = _open(
    "medium",
    "PAGES",
    "Pages of its sites: the public key alone can write and delete their metadata, such as title, image and robots.",
)
