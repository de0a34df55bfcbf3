"""Examples of rows for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="GET /v1/public/tables/:table_id/data",
        operation="listRows",
        query={"limit": 1},
        answer={
            "data": [
                {
                    "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "data": {
                        "name": "Blue Door",
                        "rating": 4.5,
                        "tags": ["espresso", "wifi"],
                        "location": {"latitude": 35.1631, "longitude": 129.1635},
                        "opened": "2021-03-01",
                    },
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "updated_at": "2026-01-31T09:30:00.000Z",
                }
            ],
            "total_count": 3,
            "limit": 1,
            "offset": 0,
            "execution_time_ms": 0.412,
        },
    ),
    Example(
        route="GET /v1/public/tables/:table_id/data/:row_id",
        operation="getRow",
        answer={
            "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "data": {
                "name": "Blue Door",
                "rating": 4.5,
                "tags": ["espresso", "wifi"],
                "location": {"latitude": 35.1631, "longitude": 129.1635},
                "opened": "2021-03-01",
            },
            "created_at": "2026-01-31T09:30:00.000Z",
            "updated_at": "2026-01-31T09:30:00.000Z",
        },
    ),
    Example(
        route="POST /v1/public/tables/:table_id/data",
        operation="createRow",
        body={"data": {"name": "Cafe Müller", "rating": 4.8, "tags": ["cake"], "opened": "2019-05-01"}},
        answer={
            "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "data": {"name": "Cafe Müller", "rating": 4.8, "tags": ["cake"], "opened": "2019-05-01"},
            "created_at": "2026-01-31T09:30:00.000Z",
            "updated_at": "2026-01-31T09:30:00.000Z",
        },
    ),
    Example(
        route="POST /v1/public/tables/:table_id/data/bulk",
        operation="createRows",
        body={"data": [{"name": "Corner Bakery", "rating": 4.1}, {"rating": 3.9}]},
        answer={
            "created": [
                {
                    "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "data": {"name": "Corner Bakery", "rating": 4.1},
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "updated_at": "2026-01-31T09:30:00.000Z",
                }
            ],
            "total": 2,
            "success": 1,
            "failed": [{"index": 1, "code": "VALIDATION_FAILED", "message": "data[1].name is required."}],
        },
    ),
    Example(
        route="POST /v1/public/tables/:table_id/data/query",
        operation="queryRows",
        body={
            "where": {"rating": {"$gte": 4}, "tags": {"$arrayContains": "wifi"}},
            "order_by": "rating",
            "order_direction": "desc",
            "limit": 10,
        },
        answer={
            "data": [
                {
                    "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "data": {
                        "name": "Blue Door",
                        "rating": 4.5,
                        "tags": ["espresso", "wifi"],
                        "location": {"latitude": 35.1631, "longitude": 129.1635},
                        "opened": "2021-03-01",
                    },
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "updated_at": "2026-01-31T09:30:00.000Z",
                },
                {
                    "id": "0199c0de-f1c2-7b7d-89e6-2b7d9e60a385",
                    "data": {
                        "name": "Harbour Roasters",
                        "rating": 4.2,
                        "tags": ["espresso", "view", "wifi"],
                        "location": {"latitude": 35.1587, "longitude": 129.0403},
                        "opened": "2018-09-15",
                    },
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "updated_at": "2026-01-31T09:30:00.000Z",
                },
            ],
            "total_count": 2,
            "limit": 10,
            "offset": 0,
        },
    ),
    Example(
        route="PATCH /v1/public/tables/:table_id/data/:row_id",
        operation="updateRow",
        body={"data": {"rating": 4.9}},
        answer={
            "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "data": {
                "name": "Blue Door",
                "rating": 4.9,
                "tags": ["espresso", "wifi"],
                "location": {"latitude": 35.1631, "longitude": 129.1635},
                "opened": "2021-03-01",
            },
            "created_at": "2026-01-31T09:30:00.000Z",
            "updated_at": "2026-01-31T09:30:00.000Z",
        },
    ),
    Example(
        route="POST /v1/public/tables/:table_id/data/upsert",
        operation="upsertRow",
        body={
            "key": "id",
            "data": {"id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38", "name": "Blue Door", "rating": 4.5},
        },
        answer={
            "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "data": {"name": "Blue Door", "rating": 4.5},
            "created_at": "2026-01-31T09:30:00.000Z",
            "updated_at": "2026-01-31T09:30:00.000Z",
            "created": True,
        },
    ),
    Example(
        route="DELETE /v1/public/tables/:table_id/data/:row_id",
        operation="deleteRow",
        answer={"message": "Row deleted.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
    Example(
        route="POST /v1/public/tables/:table_id/data/delete-where",
        operation="deleteRows",
        body={"where": {"rating": {"$lt": 4}}},
        answer={"deleted_count": 1},
    ),
    Example(
        route="POST /v1/public/tables/:table_id/data/update-where",
        operation="updateRows",
        body={"where": {"rating": {"$gte": 4}}, "data": {"tags": {"$addToSet": ["good"]}}},
        answer={"updated_count": 2},
    ),
]

RULE_TESTS = [
    Example(
        route="POST /v1/apps/:app_id/tables/:table_id/rules/test",
        operation="testTableRules",
        body={
            "action": "read",
            "as": "public",
            "rules": {"read": {"$or": [{"rating": {"$gte": 4}}, {"$creator": {"$member": "id"}}]}},
        },
        answer={
            "allowed": True,
            "status": 200,
            "code": None,
            "message": None,
            "visible_columns": ["name", "rating", "tags", "location", "opened"],
            "writable_columns": [],
            "parts": [
                {"place": "rules.read.$or[0].rating", "words": "rating is at least 4", "holds": None},
                {"place": "rules.read.$or[1].$creator", "words": "the caller created the row", "holds": None},
            ],
            "visible_count": None,
            "milliseconds": 0.1,
            "index": None,
        },
    ),
]

_ROW = {
    "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
    "data": {
        "name": "Blue Door",
        "rating": 4.5,
        "tags": ["espresso", "wifi"],
        "location": {"latitude": 35.1631, "longitude": 129.1635},
        "opened": "2021-03-01",
    },
    "created_at": "2026-01-31T09:30:00.000Z",
    "updated_at": "2026-01-31T09:30:00.000Z",
}
BY_KEY = [
    Example(
        route="GET /v1/public/tables/:table_id/data/by/:key/*values",
        operation="getRowByKey",
        path={"key": "name", "values": "Blue%20Door"},
        answer=_ROW,
    ),
    Example(
        route="PATCH /v1/public/tables/:table_id/data/by/:key/*values",
        operation="updateRowByKey",
        path={"key": "name", "values": "Blue%20Door"},
        body={"data": {"rating": 4.5}},
        answer=_ROW,
    ),
    Example(
        route="DELETE /v1/public/tables/:table_id/data/by/:key/*values",
        operation="deleteRowByKey",
        path={"key": "name", "values": "Blue%20Door"},
        answer={"message": "Row deleted.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
]
