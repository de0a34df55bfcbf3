"""Examples of the request log and of metrics, for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="GET /v1/apps/:app_id/requests",
        operation="listRequests",
        query={"status": "4xx"},
        answer={"data": [], "total_count": 0, "limit": 20, "offset": 0},
    ),
    Example(
        route="GET /v1/apps/:app_id/metrics",
        operation="getMetrics",
        query={"step": "hour"},
        answer={"series": []},
    ),
]
