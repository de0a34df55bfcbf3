"""The event types that an app has declared itself, as webhooks use them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol
from uuid import UUID


class OwnTypes(Protocol):
    """The event types of apps' own; implemented by the integrations."""

    async def names(self, app_id: UUID) -> Collection[str]:
        """Return the names of an app's own types."""

    async def example(self, app_id: UUID, event_type: str) -> Mapping[str, Any] | None:
        """Return `version` and `data`, as JSON text, of an example of the app's type; None if there is no such type."""
