"""The types of plans and quotas."""

from __future__ import annotations

from typing import Annotated, Literal, get_args
from uuid import UUID

import msgspec

from pilotis.limits import PER_APP, Limits

QuotaName = Literal["requests", "row_bytes", "file_bytes", "traffic_bytes", "function_seconds", "mails", "executions"]
QUOTAS: tuple[QuotaName, ...] = get_args(QuotaName)
Amount = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
PLAN_NAME = "^[a-z0-9][a-z0-9_-]{0,39}$"


class Quota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much an app may use. Past a `hard` quota what stores something is rejected; any other is only told of."""

    limit: Amount
    hard: bool = True


Quotas = dict[QuotaName, Quota | Amount]
"""Quotas by name; a number alone is a hard quota."""

PlanLimits = msgspec.defstruct(
    "PlanLimits",
    [
        (field.name, field.type | msgspec.UnsetType, msgspec.UNSET)
        for field in msgspec.structs.fields(Limits)
        if field.name in PER_APP
    ],
    forbid_unknown_fields=True,
    frozen=True,
    module=__name__,
    namespace={"__doc__": "Limits of a plan; those that are absent are the server's."},
)


class PlanFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan as a TOML file says it."""

    limits: PlanLimits = PlanLimits()  # type: ignore[valid-type]
    quotas: Quotas = {}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, with how many apps have it."""

    name: str
    limits: dict[str, int]
    quotas: dict[QuotaName, Quota]
    apps: int


class QuotaUse(msgspec.Struct, frozen=True, kw_only=True):
    """What an app, with its branches, has used of a quota of its plan, as of a minute ago.

    `requests`, `traffic_bytes`, `function_seconds`, `mails` and `executions` are those of this month in UTC, and are
    0 again at `resets_at`. `row_bytes` and `file_bytes` are what the app has stored.
    """

    quota: QuotaName
    used: int
    limit: int
    hard: bool
    percent: float
    resets_at: str


class PlanUse(msgspec.Struct, frozen=True):
    """The plan of an app, or of the parent of a branch, with what was used of each quota; no name without a plan."""

    name: str | None
    quotas: list[QuotaUse]


class MonthUse(msgspec.Struct, frozen=True, kw_only=True):
    """What an app has used in a month; the bytes of rows and files are those of now. `app_id` may be a branch's."""

    app_id: UUID
    name: str
    plan: str | None
    requests: int
    row_bytes: int
    file_bytes: int
    traffic_bytes: int
    function_seconds: int
    mails: int
    executions: int
