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
        'data: {"stream":"…","subscriptions":["open"],"started":["open"],"channels":[],"resumed":false}\nid: …\n\n',
    ),
]

_CHANNELS = {
    "channels": [
        {
            "pattern": "room:{room}",
            "listen": True,
            "send": {"$member": {}},
            "presence": True,
            "echo": False,
        }
    ]
}

CHANNELS = [
    Example(route="PUT /v1/apps/:app_id/channels", operation="replaceChannels", body=_CHANNELS, answer=_CHANNELS),
    Example(route="GET /v1/apps/:app_id/channels", operation="listChannels", answer=_CHANNELS),
]
