"""The types of usage statistics."""

from __future__ import annotations

from typing import Annotated

import msgspec


class MemberStats(msgspec.Struct, frozen=True, kw_only=True):
    """How many members, guests among them, and recently active members there are; exact to the hour."""

    total: int
    guests: int
    active_1d: int
    active_7d: int
    active_30d: int


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Traffic; `client_errors` are responses with a status of 400 to 499, `errors` with 500 or above."""

    requests: int
    client_errors: int
    errors: int


class DailyTraffic(Traffic, frozen=True, kw_only=True):
    """The traffic of one day, UTC; `date` as in `2026-01-31`."""

    date: str


class TrafficStats(msgspec.Struct, frozen=True):
    """The traffic of the last 24 hours, including this one, and of the last 30 days, including today.

    `by_day` has the last days, oldest first: 30, unless the request asks for another number.
    """

    last_24h: Traffic
    last_30d: Traffic
    by_day: list[DailyTraffic]


class StatsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The number of days, up to today, in `by_day`."""

    days: Annotated[int, msgspec.Meta(ge=1, le=60)] = 30


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of an app. `tables` and `rows` exclude the trash; `storage_bytes` include it."""

    members: MemberStats
    tables: int
    rows: int
    storage_bytes: int
    traffic: TrafficStats
