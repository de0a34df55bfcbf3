"""Examples of health for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="GET /healthz",
        operation="getLiveness",
        answer={"isolation": "…", "status": "ok"},
    ),
    Example(
        route="GET /healthz/proxy",
        operation="getProxyHeaders",
        answer={"is_trusted": False, "missing": ["X-Forwarded-For", "X-Forwarded-Proto"]},
    ),
    Example(
        route="GET /readyz",
        operation="getReadiness",
        answer={"status": "ready", "parts": ["database", "migrations", "process", "object_store"]},
    ),
]
