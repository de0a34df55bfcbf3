"""What the sources of work share: the process they claim for, the order of apps, and how they are woken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar
from uuid import UUID

from pilotis.jobs.kinds import SERVER, LeaseHolder, LeaseLostError


class _OfApp(Protocol):
    @property
    def app_id(self) -> UUID: ...


W = TypeVar("W", bound=_OfApp)


class NodeSource:
    """The base of a source; a subclass claims work with `_after` and passes it to `_claimed`."""

    wakes_itself = False

    def __init__(self) -> None:
        self._node: LeaseHolder | None = None
        self._after = SERVER
        self._wake: Callable[[], None] | None = None

    def attach(self, node: LeaseHolder) -> None:
        """Set the process for which work is claimed."""
        self._node = node

    def serve_by(self, wake: Callable[[], None]) -> None:
        """Set the callback that looks for due work; not called where the queue is not served."""
        self._wake = wake

    def wake(self) -> bool:
        """Look for due work now; return False in a process that does not serve the queue."""
        if self._wake is None:
            return False
        self._wake()
        return True

    def require_lease_of(self, owner: UUID) -> None:
        """Raise `LeaseLostError` unless this process is the owner and its lease is certain."""
        assert self._node is not None
        if self._node.id != owner:
            raise LeaseLostError
        self._node.require_lease()

    def _claimed(self, claimed: Sequence[W]) -> Sequence[W]:
        """Remember the last app that work was claimed for, so that the next claim begins with the app after it."""
        if claimed:
            self._after = max(one.app_id for one in claimed)
        return claimed
