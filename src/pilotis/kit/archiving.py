"""What a feature declares about its tables, so that archives of apps have what is theirs: `Copied` or `LeftOut`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from pilotis.kit.foreign_passwords import check_stored


class SecretColumn(NamedTuple):
    """A column with secrets under the app's data key: its purpose, and its place within it.

    `place` is a template with names of columns, such as `{member_id}/{number}`.
    """

    column: str
    purpose: str
    place: str


class BlobColumns(NamedTuple):
    """The columns that name the bytes of a row in the object store: the id in their key, their size and SHA-256."""

    blob_id: str
    size: str
    sha256: str


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """A table whose rows move with their app. `columns` are those that an archive has, without `app_id`.

    What an archive says is a stranger's word: other columns get their defaults, or what `replaced` says. `checks` are
    called with a value's text, and raise an error or `ValueError`. `fresh` are columns whose ids stand in addresses
    without an app: a copy gets others there, and `renamed` makes the names that a server has once. Only rows `where`
    the condition holds of the row `t` are copied. `finishing` are statements with the app's id as `$1`, run after all
    rows.

    `part` says of what the rows are: a branch may leave members and files out. `branching` are statements that give a
    branch what a stranger's archive may not bring: the branch's id is `$1`, that of its parent on this server `$2`.
    """

    columns: str
    replaced: Mapping[str, str | None] = {}
    secrets: Sequence[SecretColumn] = ()
    checks: Mapping[str, Callable[[str], object]] = {}
    fresh: Sequence[str] = ()
    renamed: Mapping[str, Callable[[str], str]] = {}
    blobs: BlobColumns | None = None
    where: str = ""
    finishing: Sequence[str] = ()
    branching: Sequence[str] = ()
    part: Literal["definition", "members", "files"] = "definition"

    @property
    def names(self) -> list[str]:
        """The columns in the order of the archive."""
        return self.columns.split()


class LeftOut(msgspec.Struct, frozen=True):
    """A table that does not move, and why."""

    why: str


Archived = Mapping[str, Copied | LeftOut]


def within(low: float, high: float) -> Callable[[str], object]:
    """Return the check of a number between two others."""

    def check(text: str) -> None:
        if not low <= float(text) <= high:
            raise ValueError(f"{text[:30]} is not between {low:g} and {high:g}")

    return check


_PASSWORD_HASH = re.compile(
    r"\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,3}),p=1\$[A-Za-z0-9+/]{16,86}\$[A-Za-z0-9+/]{16,86}"
)
_MAX_KIB, _MAX_KIB_PASSES = 256 << 10, 1 << 20


def check_password_hash(text: str) -> None:
    """Raise ValueError for a text that is no hash of a password, or whose parameters would exhaust the server."""
    found = _PASSWORD_HASH.fullmatch(text)
    if not found:
        check_stored(text)
    elif int(found[1]) > _MAX_KIB or int(found[1]) * int(found[2]) > _MAX_KIB_PASSES:
        raise ValueError("the hash of a password is none of Pilotis")


def without_controls(text: str) -> None:
    """Raise ValueError for a text with characters that could end a line."""
    if not text.isprintable():
        raise ValueError("a name has control characters")
