"""Examples of live subscriptions for the reference."""

from typing import Any

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
            "send": True,
            "presence": True,
            "echo": False,
            "keep": None,
            "events": False,
        }
    ]
}

_LIVE = {"subscriptions": [{"id": "all", "table_id": "$TABLE_ID"}]}
EXAMPLES += [
    Example(
        route="POST /v1/public/realtime/tickets",
        operation="createLiveTicket",
        body=_LIVE,
        answer={
            "ticket": "lt_…",
            "url": "http://127.0.0.1:8090/v1/public/realtime/streams/lt_…",
            "expires_at": "2026-01-31T12:01:00.000Z",
        },
    ),
    Example(
        route="GET /v1/public/realtime/streams/:ticket",
        operation="getLiveStream",
        path={"ticket": "$TICKET_TOKEN"},
        answer="retry: 1000\n\nevent: ready\n"
        'data: {"stream":"…","subscriptions":["all"],"started":["all"],"channels":[],"resumed":false}\nid: …\n\n',
    ),
]
_CHANNEL = "/v1/public/realtime/channels/:name"
EXAMPLES += [
    Example(
        route=f"POST {_CHANNEL}/messages",
        operation="publishMessage",
        path={"name": "room:42"},
        body={"event": "cursor", "payload": {"x": 120, "y": 80}},
        answer={"ids": ["0199c0de-4f1c-7c1d-8a44-1d9f27d0b6aa"]},
    ),
    Example(
        route=f"PUT {_CHANNEL}/presence",
        operation="updatePresence",
        path={"name": "room:42"},
        body={"stream": "$STREAM_ID", "state": {"typing": True}},
        answer={"channel": "room:42"},
    ),
    Example(
        route=f"DELETE {_CHANNEL}/presence",
        operation="deletePresence",
        path={"name": "room:42"},
        query={"stream": "$STREAM_ID"},
        answer={"message": "The stream is not visible in the channel any more.", "name": "room:42"},
    ),
]

_SETTINGS: dict[str, Any] = {"live": "public", "tables": {}}
CHANNELS = [
    Example(
        route="GET /v1/apps/:app_id/live-streams",
        operation="listLiveStreams",
        answer={
            "nodes": [
                {
                    "node_id": "0199c0de-4f1c-7c1d-8a44-1d9f27d0b6aa",
                    "name": "…/0",
                    "streams": 0,
                    "subscriptions": 0,
                    "channels": 0,
                    "told": 0,
                    "delay_ms": None,
                    "slowest_ms": None,
                }
            ],
            "silent": [],
            "total_count": 0,
            "streams": [],
        },
    ),
    Example(
        route="PUT /v1/apps/:app_id/live-settings", operation="updateLiveSettings", body=_SETTINGS, answer=_SETTINGS
    ),
    Example(route="GET /v1/apps/:app_id/live-settings", operation="getLiveSettings", answer=_SETTINGS),
    Example(route="PUT /v1/apps/:app_id/channels", operation="replaceChannels", body=_CHANNELS, answer=_CHANNELS),
    Example(route="GET /v1/apps/:app_id/channels", operation="listChannels", answer=_CHANNELS),
]
