"""The events of deployments."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from pilotis.events.types import EventType
from pilotis.hosting.types import Changes, Creator, Deployment, DeploymentStatus, Problem

SCOPE = "sites:read"


class DeploymentEvent(msgspec.Struct, frozen=True):
    """Data of an event about a deployment."""

    storage_id: UUID
    deployment: Deployment


class PromotionEvent(msgspec.Struct, frozen=True):
    """Data of an event about the current deployment of a channel, and the one before it."""

    storage_id: UUID
    channel: str
    kind: str
    previous_id: UUID | None
    deployment: Deployment


_ID = UUID("0199c0de-0000-7000-8000-00000000de91")
_STORAGE = UUID("0199c0de-0000-7000-8000-0000000051fe")
_DEPLOYMENT = Deployment(
    id=_ID,
    storage_id=_STORAGE,
    version=4,
    status=DeploymentStatus.READY,
    source="zip",
    target="production",
    base_deployment_id=UUID("0199c0de-0000-7000-8000-00000000de90"),
    file_count=12,
    total_size=48213,
    uploaded_size=1203,
    changes=Changes(1, 2, 0),
    manifest_hash="2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    message=None,
    url="http://cafe-guide-k3x9ab--v4.localhost:8090",
    is_production=True,
    is_qa=False,
    warnings=[],
    error=None,
    created_by=Creator("secret_key", "0199c0de-0000-7000-8000-00000000be01"),
    created_at="2026-11-22T07:30:00.123Z",
    ready_at="2026-11-22T07:30:00.456Z",
)
_FAILED = msgspec.structs.replace(
    _DEPLOYMENT,
    version=None,
    status=DeploymentStatus.FAILED,
    url=None,
    is_production=False,
    ready_at=None,
    error=Problem("INVALID_ZIP", "index.html: Its bytes are damaged."),
)


def _about(name: str, description: str, example: Deployment) -> EventType[DeploymentEvent]:
    return EventType(
        name=name,
        data=DeploymentEvent,
        description=description,
        example=DeploymentEvent(_STORAGE, example),
        scope=SCOPE,
    )


DEPLOYMENT_READY = _about("deployment.ready", "A deployment is complete and can be served.", _DEPLOYMENT)
DEPLOYMENT_FAILED = _about("deployment.failed", "An archive that was processed in the background failed.", _FAILED)
DEPLOYMENT_PROMOTED: EventType[PromotionEvent] = EventType(
    name="deployment.promoted",
    data=PromotionEvent,
    description="A deployment became production: by a deploy, a promotion or a rollback.",
    example=PromotionEvent(
        _STORAGE, "production", "promote", UUID("0199c0de-0000-7000-8000-00000000de90"), _DEPLOYMENT
    ),
    scope=SCOPE,
)
EVENT_TYPES: tuple[EventType[Any], ...] = (DEPLOYMENT_READY, DEPLOYMENT_FAILED, DEPLOYMENT_PROMOTED)
