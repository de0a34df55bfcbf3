"""Examples of webhooks for the reference."""

from pilotis.http.api.example import Example

_ID = "0199c0de-4f1c-72b7-8d9e-c2b7d9e60b00"
_TIME = "2026-01-31T09:30:00.000Z"
_URL = "http://localhost:9/hooks"

WEBHOOK = {
    "id": _ID,
    "app_id": _ID,
    "name": "orders",
    "description": "",
    "url": _URL,
    "event_types": ["row.created"],
    "table_ids": None,
    "provider_app_id": None,
    "client_id": None,
    "headers": {"X-Team": "•••"},
    "is_active": True,
    "status": "active",
    "disabled_reason": None,
    "failing_since": None,
    "timeout_seconds": 15,
    "max_in_flight": 4,
    "secret_prefix": "whsec_…",
    "previous_secret_expires_at": None,
    "pending_count": 0,
    "last_success_at": None,
    "last_failure_at": None,
    "created_at": _TIME,
    "updated_at": _TIME,
}
_ATTEMPT = {
    "number": 1,
    "at": _TIME,
    "status_code": None,
    "duration_ms": 2,
    "error": "CONNECT",
    "response_excerpt": None,
    "response_headers": None,
}
DELIVERY = {
    "id": _ID,
    "event_id": _ID,
    "event_type": "webhook.test",
    "status": "failed",
    "is_test": True,
    "attempt_count": 1,
    "status_code": None,
    "error": "CONNECT",
    "duration_ms": 2,
    "next_attempt_at": None,
    "next_attempt_reason": None,
    "created_at": _TIME,
    "finished_at": _TIME,
    "request_id": None,
    "attempts": [_ATTEMPT],
}

EXAMPLES = [
    Example(
        route="POST /v1/apps/:app_id/webhooks",
        operation="createWebhook",
        body={"name": "orders", "url": _URL, "event_types": ["row.created"], "headers": {"X-Team": "orders"}},
        answer=WEBHOOK | {"secret": "whsec_…"},
    ),
    Example(
        route="GET /v1/apps/:app_id/webhooks",
        operation="listWebhooks",
        answer={"data": [WEBHOOK], "total_count": 1, "limit": 20, "offset": 0},
    ),
    Example(
        route="GET /v1/apps/:app_id/webhooks/:webhook_id",
        operation="getWebhook",
        answer=WEBHOOK
        | {
            "stats": {
                "pending": 0,
                "succeeded_24h": 0,
                "failed_24h": 0,
                "failed_count": 0,
                "p50_ms": None,
                "p95_ms": None,
            }
        },
    ),
    Example(
        route="PUT /v1/apps/:app_id/webhooks/:webhook_id",
        operation="updateWebhook",
        body={"event_types": ["row.*"], "timeout_seconds": 5},
        answer=WEBHOOK | {"event_types": ["row.*"], "timeout_seconds": 5},
    ),
    Example(
        route="DELETE /v1/apps/:app_id/webhooks/:webhook_id",
        operation="deleteWebhook",
        answer={"message": "Webhook deleted.", "id": _ID},
    ),
    Example(
        route="POST /v1/apps/:app_id/webhooks/:webhook_id/regenerate-secret",
        operation="rotateWebhookSecret",
        body={"overlap_seconds": 3600},
        answer={"id": _ID, "secret": "whsec_…", "previous_secret_expires_at": _TIME},
    ),
    Example(
        route="POST /v1/apps/:app_id/webhooks/:webhook_id/test",
        operation="testWebhook",
        body={"event_type": "row.created"},
        answer={
            "success": False,
            "delivery_id": _ID,
            "event_id": _ID,
            "status_code": None,
            "duration_ms": 2,
            "error": "CONNECT",
            "response_excerpt": None,
        },
    ),
    Example(
        route="GET /v1/apps/:app_id/webhooks/:webhook_id/logs",
        operation="listDeliveries",
        query={"status": "failed"},
        answer={"data": [DELIVERY], "limit": 20, "next_before": None},
    ),
    Example(
        route="GET /v1/apps/:app_id/webhooks/:webhook_id/logs/:delivery_id",
        operation="getDelivery",
        answer=DELIVERY
        | {
            "request": {
                "headers": {
                    "Content-Type": "application/json",
                    "User-Agent": "Pilotis-Webhooks/1",
                    "Accept": "*/*",
                    "X-Service-Event": "webhook.test",
                    "X-Service-Delivery": _ID,
                    "X-Service-Attempt": "1",
                    "Idempotency-Key": _ID,
                    "webhook-id": _ID,
                    "X-Team": "•••",
                },
                "body": "…",
            }
        },
    ),
    Example(
        route="POST /v1/apps/:app_id/webhooks/:webhook_id/logs/:delivery_id/redeliver",
        operation="redeliverDelivery",
        path={"delivery_id": "$FAILED_DELIVERY_ID"},
        answer=DELIVERY
        | {
            "event_type": "row.created",
            "status": "pending",
            "is_test": False,
            "error": None,
            "duration_ms": None,
            "next_attempt_at": _TIME,
            "next_attempt_reason": "schedule",
            "finished_at": None,
            "request_id": _ID,
            "attempts": ["…"],
        },
    ),
    Example(
        route="POST /v1/apps/:app_id/webhooks/:webhook_id/recover",
        operation="recoverDeliveries",
        body={"since": "2026-01-31T00:00:00Z"},
        answer={"queued": 0},
    ),
    Example(
        route="GET /v1/apps/:app_id/webhook-stats",
        operation="listWebhookStats",
        query={"hours": 24},
        answer={"hours": 24, "data": []},
    ),
]
