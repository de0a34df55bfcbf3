"""The shapes of usage statistics."""

from __future__ import annotations

import msgspec


class MemberStats(msgspec.Struct, frozen=True):
    """How many members there are, how many of them guests, and how many were active lately, right to the hour."""

    total: int
    guests: int
    active_1d: int
    active_7d: int
    active_30d: int


class Traffic(msgspec.Struct, frozen=True):
    """Requests that were answered; `client_errors` with a status of 400 to 499, `errors` with 500 or above."""

    requests: int
    client_errors: int
    errors: int


class Day(Traffic, frozen=True):
    """The traffic of one day, UTC; `date` as in `2026-01-31`."""

    date: str


class TrafficStats(msgspec.Struct, frozen=True):
    """The traffic of the last 24 hours, this one included, and of the last 30 days, today included, oldest first."""

    last_24h: Traffic
    last_30d: Traffic
    by_day: list[Day]


class Stats(msgspec.Struct, frozen=True):
    """Usage of an app. `tables` and `rows` leave the trash out; `storage_bytes` are those of all it keeps."""

    members: MemberStats
    tables: int
    rows: int
    storage_bytes: int
    traffic: TrafficStats
