"""Examples of statistics for the reference."""

from pilotis.http.api.example import Example

_STATS = {
    "members": {"total": 0, "guests": 0, "active_1d": 0, "active_7d": 0, "active_30d": 0},
    "tables": 1,
    "rows": 3,
    "storage_bytes": 57344,
    "traffic": {
        "last_24h": {"requests": 0, "client_errors": 0, "errors": 0},
        "last_30d": {"requests": 0, "client_errors": 0, "errors": 0},
        "by_day": [{"requests": 0, "client_errors": 0, "errors": 0, "date": "2026-01-31"}, "…"],
    },
}

EXAMPLES = [Example(route="GET /v1/public/stats", operation="getStats", answer=_STATS)]

APP_EXAMPLES = [
    Example(route="GET /v1/apps/:app_id/stats", operation="getAppStats", query={"days": 30}, answer=_STATS),
]
