"""Examples of live subscriptions for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="POST /v1/public/realtime",
        operation="openLiveStream",
        body={
            "subscriptions": [
                {"id": "open", "table_id": "$TABLE_ID", "where": {"rating": {"$gte": 4}}, "types": ["create", "update"]}
            ]
        },
    ),
]
