"""Examples of event types and publishing for the reference."""

from pilotis.http.api.example import Example

_ID = "0199c0de-4f1c-72b7-8d9e-c2b7d9e60e00"
_TIME = "2026-01-31T09:30:00.000Z"
_NAME = {"event_type": "order.created"}
_COMMON = {
    "event_type": "order.created",
    "title": "Order created",
    "description": "",
    "required_scope": "orders:read",
    "version": 1,
    "deprecated": False,
    "example": {"total": 12.5},
}
_DECLARED = _COMMON | {"payload_schema": None, "source": None, "created_at": _TIME, "updated_at": _TIME}

EXAMPLES = [
    Example(
        route="GET /v1/apps/:app_id/event-types",
        operation="listEventTypes",
        query={"limit": 1},
        answer={
            "data": [
                {
                    "event_type": "…",
                    "built_in": True,
                    "title": "",
                    "description": "…",
                    "required_scope": "…",
                    "version": 1,
                    "deprecated": False,
                    "example": {"…": "…"},
                }
            ],
            "…": "…",
        },
    ),
    Example(
        route="PUT /v1/apps/:app_id/event-types/:event_type",
        operation="replaceEventType",
        path=_NAME,
        body={"title": "Order created", "required_scope": "orders:read", "example": {"total": 12.5}},
        answer=_DECLARED,
    ),
    Example(
        route="DELETE /v1/apps/:app_id/event-types/:event_type",
        operation="deleteEventType",
        path=_NAME,
        answer={"message": "Event type deleted.", "id": "order.created"},
    ),
    Example(
        route="GET /v1/apps/:app_id/events",
        operation="listEvents",
        query={"limit": 10},
        answer={"data": [], "limit": 10, "next_before": None},
    ),
    Example(
        route="GET /v1/apps/:app_id/events/stream",
        operation="getEventStream",
        answer="retry: 1000\n\n",
    ),
    Example(
        route="GET /v1/integrations/providers/:provider_app_id/event-catalog",
        operation="getEventCatalog",
        path={"provider_app_id": "$APP_ID"},
        answer={
            "provider_app_id": _ID,
            "name": "Cafe guide",
            "events": [_COMMON | {"payload_schema": None}],
        },
    ),
    Example(
        route="POST /v1/integrations/events",
        operation="publishEvent",
        body={"event_type": "order.created", "data": {"total": 12.5}, "idempotency_key": "order-1"},
        answer={"id": _ID, "event_type": "order.created", "timestamp": _TIME, "duplicate": False},
    ),
]
