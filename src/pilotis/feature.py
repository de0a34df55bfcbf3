"""Features: what each declares, and how they are created.

A feature's folder has a module `feature.py` with a subclass of `Feature`, which lists the feature's endpoints and holds
the services that other features use, and a function `feature(floor, *needs)` that returns one. The function's
annotations say which features it needs.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import msgspec

from pilotis.events.types import EventType, TargetKind
from pilotis.floor import Floor
from pilotis.http.api.application import Application, AreaHandler, FindId, Finished
from pilotis.http.api.endpoint import Endpoints
from pilotis.http.server.cached_answers import FindCached
from pilotis.jobs.kinds import Holding, JobKind, Periodic, ScheduleKind, Source
from pilotis.kit.archiving import Archived
from pilotis.kit.metrics import Metric, Total
from pilotis.security.encryption.types import EncryptedColumn

F = TypeVar("F", bound="Feature")

Hook = Callable[[], Awaitable[object]]


async def no_op() -> None:
    """Do nothing."""


def unattached(_application: Application) -> None:
    """Do nothing."""


class HostArea(msgspec.Struct, frozen=True, eq=False):
    """Hosts whose requests a feature answers itself: those that match `predicate`; see `Hosts.add`.

    `cached` finds answers that need no handler.
    """

    predicate: Callable[[str], bool]
    handler: AreaHandler
    cached: FindCached


class Feature(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What one feature adds to a process.

    At a stop, `drain` runs while requests in flight end; `close` runs afterwards, when no background work runs any
    more. `/readyz` calls `checks`; each raises if the part of its name is not ready.
    """

    described: ClassVar[Sequence[type[Endpoints]]] = ()
    """The classes of `endpoints`, from which the documentation is generated without a server."""
    encrypted_columns: ClassVar[Sequence[EncryptedColumn]] = ()
    """The columns with secrets under the master key, which a rotation re-encrypts without a server."""

    archived: ClassVar[Archived] = {}
    """What archives of apps have of the feature's tables, those that others refer to first."""

    name: str
    endpoints: Sequence[Endpoints] = ()
    jobs: Sequence[JobKind[Any]] = ()
    sources: Sequence[Source[Any]] = ()
    periodic: Sequence[Periodic] = ()
    schedules: Sequence[ScheduleKind] = ()
    holdings: Sequence[Holding] = ()
    event_types: Sequence[EventType[Any]] = ()
    targets: Sequence[TargetKind] = ()
    checks: Mapping[str, Hook] = {}
    areas: Sequence[HostArea] = ()
    names: Mapping[str, FindId] = {}
    """What finds the id where a path has a name: by the beginning of the paths, up to that parameter."""
    metrics: Sequence[Metric] = ()
    totals: Sequence[Total] = ()
    facts: Mapping[str, Callable[[], str]] = {}
    """What `/healthz` says of the feature, by field."""
    finished: Finished | None = None
    """Called after every request."""
    attach: Callable[[Application], None] = unattached
    """Called with the application that serves the features, which a feature may call itself."""
    start: Hook = no_op
    drain: Hook = no_op
    close: Hook = no_op


class Features:
    """Creates features on a floor on demand: each once, after those it needs."""

    def __init__(self, floor: Floor) -> None:
        self.floor = floor
        self._made: dict[type[Feature], Feature] = {}

    def get(self, kind: type[F]) -> F:
        """Return the feature of a class."""
        if kind not in self._made:
            make = sys.modules[kind.__module__].feature
            hints = typing.get_type_hints(make)
            needs = [self.get(hint) for name, hint in hints.items() if name not in {"floor", "return"}]
            self._made[kind] = make(self.floor, *needs)
        return typing.cast("F", self._made[kind])
