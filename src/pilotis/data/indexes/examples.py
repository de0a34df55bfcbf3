"""Examples of indexes for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="GET /v1/apps/:app_id/tables/:table_id/indexes",
        operation="listIndexes",
        answer={"indexes": [], "noted": []},
    ),
]
