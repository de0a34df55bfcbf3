"""The types of the request log and of metrics."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

import msgspec

from pilotis.http.api.schemas import Paging

Time = Annotated[str, msgspec.Meta(max_length=40)]


class RequestQuery(Paging, forbid_unknown_fields=True):
    """Filters of the request log.

    `from` and `to` are RFC 3339 times; `status` is a status such as `404`, or a class such as `4xx`; `route` is one as
    entries have it; `min_ms` the least duration; `search` finds a part of the route, code, address, actor or request
    id in either case; `actor_id` is that of a member, key, function or console user; `function_id` finds the calls of a
    function, and those that it made.
    """

    from_: Time | None = msgspec.field(name="from", default=None)
    to: Time | None = None
    status: Annotated[str, msgspec.Meta(pattern="^[1-5]([0-9][0-9]|xx)$")] | None = None
    route: Annotated[str, msgspec.Meta(max_length=300)] | None = None
    member_id: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    min_ms: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    search: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    actor_id: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    request_id: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    function_id: UUID | None = None


class RequestEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A request: its route, never its query string or a body. `code` is the error's.

    `actor_kind` and `actor_id` are those of the audit log; `address` is the client's, empty for a call that a function
    made. `function_id` is the function that was called.
    """

    request_id: str
    time: str
    method: str
    route: str
    status: int
    code: str | None
    duration_ms: float
    actor_kind: str
    actor_id: str | None
    address: str
    function_id: UUID | None


class MetricsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """`from` and `to` are RFC 3339 times; `by` makes a series for each route or status class instead of one for all."""

    from_: Time | None = msgspec.field(name="from", default=None)
    to: Time | None = None
    step: Literal["minute", "hour", "day"] = "hour"
    by: Literal["route", "status"] | None = None


class MetricTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of some time, and the durations that half and 95 % of them did not exceed, from histograms."""

    requests: int
    client_errors: int
    errors: int
    p50_ms: float | None
    p95_ms: float | None


class MetricPoint(MetricTotals, frozen=True, kw_only=True):
    """The requests of one step, which begins at `time`."""

    time: str


class MetricSeries(msgspec.Struct, frozen=True):
    """The whole of a series, and its points, oldest first; steps without requests have none."""

    key: str
    total: MetricTotals
    points: list[MetricPoint]


class RequestMetrics(msgspec.Struct, frozen=True):
    """The series with the most requests first, at most 50."""

    series: list[MetricSeries]
