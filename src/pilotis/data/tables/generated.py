"""Values that the server makes for a column: those of new rows, of changed ones, and the normal form of a text. Pure.

`{"$now": true}`, `{"$uuid": true}`, `{"$secret": true}` and `{"$member": "id"}` in the place of a default are made for
each new row. The option `on_update` makes the first and the last of them again with every change that does not name the
column.
"""

from __future__ import annotations

import enum
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pilotis.data.tables import html
from pilotis.kit import json
from pilotis.kit.errors import invalid

Normalization = Literal["trim", "lower", "html"]


class Maker(enum.Enum):
    """What makes a value."""

    NOW = "$now"
    UUID = "$uuid"
    SECRET = "$secret"  # noqa: S105 - it says what to make
    MEMBER_ID = "$member id"
    NICKNAME = "$member nickname"


# The JSON of each, and the column type that takes it. An object was never a value of these types.
_MAKERS: dict[str, tuple[tuple[Maker, Any], ...]] = {
    "date": ((Maker.NOW, {"$now": True}),),
    "uuid": ((Maker.UUID, {"$uuid": True}),),
    "string": (
        (Maker.MEMBER_ID, {"$member": "id"}),
        (Maker.NICKNAME, {"$member": "nickname"}),
        (Maker.SECRET, {"$secret": True}),
    ),
}
_ON_UPDATE = {Maker.NOW, Maker.MEMBER_ID}


class Writer(NamedTuple):
    """The member who writes a row: its id and nickname, None for what there is none of."""

    member_id: str | None = None
    nickname: str | None = None

    def value(self, maker: Maker) -> str | None:
        """Return what a default makes of the member."""
        return self.nickname if maker is Maker.NICKNAME else self.member_id


NOBODY = Writer()


def maker_of(type_: str, value: Any) -> Maker | None:
    """Return what makes the values of a column of a type; None if the value is one itself."""
    return next((maker for maker, written in _MAKERS.get(type_, ()) if value == written), None)


def check_made(type_: str, encrypted: bool | None, default: Any, on_update: Any, fields: tuple[str, str]) -> None:
    """Raise a 400 error if a column cannot have the values made; `fields` are the places of the two options."""
    known = [written for _, written in _MAKERS.get(type_, ())]
    if isinstance(default, dict) and known and default not in known:
        raise invalid(fields[0], f"A default of a {type_} is a value of it, or {_listed(known)}.", "INVALID_DEFAULT")
    if maker_of(type_, default) is Maker.NOW and encrypted:
        raise invalid(
            fields[0], "The database knows the moment, and does not know encrypted values.", "INVALID_DEFAULT"
        )
    if on_update is None:
        return
    if encrypted:
        raise invalid(fields[1], "An encrypted column has no on_update: its value depends on the row.")
    if maker_of(type_, on_update) not in _ON_UPDATE:
        raise invalid(fields[1], 'on_update is {"$now": true} of a date, or {"$member": "id"} of a string.')


def check_normalized(type_: str, normalize: Sequence[str] | None, field: str) -> None:
    """Raise a 400 error if a column has no texts to normalize."""
    if normalize is not None and type_ != "string":
        raise invalid(field, "normalize is for columns of type string.")


def secret() -> str:
    """Return a text that nobody guesses: 32 characters of 192 random bits, for links."""
    return secrets.token_urlsafe(24)


_STEPS: Mapping[str, Callable[[str], str]] = {"trim": str.strip, "lower": str.lower, "html": html.cleaned}


def normalized(text: str, steps: Sequence[str]) -> str | None:
    """Return a text in its normal form; None for HTML that would take too long to clean."""
    for step in steps:
        if step == "html" and html.too_complex(text):
            return None
        text = _STEPS[step](text)
    return text


def _listed(values: Sequence[Any]) -> str:
    return " or ".join(json.encode(one).decode() for one in values)
