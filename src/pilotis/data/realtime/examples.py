"""Examples of live subscriptions for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="POST /v1/public/realtime",
        operation="createLiveStream",
        body={
            "subscriptions": [
                {"id": "open", "table_id": "$TABLE_ID", "where": {"rating": {"$gte": 4}}, "types": ["create", "update"]}
            ]
        },
        answer="retry: 1000\n\nevent: ready\n"
        'data: {"stream":"…","subscriptions":["open"],"started":["open"],"resumed":false}\nid: …\n\n',
    ),
]
