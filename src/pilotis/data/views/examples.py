"""Examples of views for the reference."""

from pilotis.http.api.example import Example

_ROUTE = "/v1/apps/:app_id/views"
_PIPELINE = [
    {"$match": {"opened": {"$gte": {"$param": "since"}}}},
    {"$unwind": "$tags"},
    {"$group": {"_id": "$tags", "cafes": {"$count": {}}}},
    {"$sort": {"cafes": -1, "_id": 1}},
]
_NEW = {
    "name": "popular-tags",
    "table_id": "$TABLE_ID",
    "pipeline": _PIPELINE,
    "params": {"since": {"type": "date", "default": "2000-01-01"}},
    "read": True,
    "run_as": "app",
    "cache_seconds": 60,
}
_VIEW = {
    "id": "0199c0de-4f1c-7c1d-8a44-1d9f27d0b6aa",
    "name": "popular-tags",
    "table_id": "0199c0de-4f1c-7e02-9b4d-6a1f2c3d4e5f",
    "table": "cafes",
    "pipeline": _PIPELINE,
    "params": {"since": {"type": "date", "default": "2000-01-01"}},
    "read": True,
    "run_as": "app",
    "cache_seconds": 60,
    "description": None,
    "created_at": "2026-01-31T12:00:00.000Z",
    "updated_at": "2026-01-31T12:00:00.000Z",
}
_DOCUMENTS = {"data": [{"_id": "espresso", "cafes": 2}, {"_id": "wifi", "cafes": 1}], "total_count": 2}

EXAMPLES = [
    Example(route=f"POST {_ROUTE}", operation="createView", body=_NEW, answer=_VIEW),
    Example(route=f"GET {_ROUTE}", operation="listViews", answer={"views": [_VIEW]}),
    Example(route=f"GET {_ROUTE}/:view_id", operation="getView", answer=_VIEW),
    Example(
        route=f"PATCH {_ROUTE}/:view_id",
        operation="updateView",
        body={"description": "The tags of the cafes that opened since then."},
        answer=_VIEW | {"description": "The tags of the cafes that opened since then."},
    ),
    Example(
        route=f"DELETE {_ROUTE}/:view_id",
        operation="deleteView",
        answer={"message": "View deleted.", "id": "0199c0de-4f1c-7c1d-8a44-1d9f27d0b6aa"},
    ),
    Example(
        route="POST /v1/public/views/:name",
        operation="callView",
        path={"name": "popular-tags"},
        body={"params": {"since": "2021-01-01"}},
        answer=_DOCUMENTS,
    ),
    Example(
        route="GET /v1/public/views/:name",
        operation="getViewResult",
        path={"name": "popular-tags"},
        query={"since": "2021-01-01"},
        answer=_DOCUMENTS,
    ),
]
