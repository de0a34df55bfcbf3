"""Examples of aggregation, search, batches and transactions for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="POST /v1/public/aggregate",
        operation="aggregateRows",
        body={
            "table_id": "$TABLE_ID",
            "pipeline": [
                {"$match": {"rating": {"$gte": 3}}},
                {"$unwind": "$tags"},
                {"$group": {"_id": "$tags", "cafes": {"$count": {}}, "rating": {"$avg": "$rating"}}},
                {"$sort": {"cafes": -1, "_id": 1}},
            ],
        },
        answer={
            "data": [
                {"_id": "espresso", "cafes": 3, "rating": 4.033333333333333},
                {"_id": "wifi", "cafes": 2, "rating": 4.35},
                {"_id": "view", "cafes": 1, "rating": 4.2},
            ],
            "total_count": 3,
        },
    ),
    Example(
        route="POST /v1/public/search",
        operation="searchRows",
        body={"table_id": "$TABLE_ID", "query": "harbour", "fields": ["name"]},
        answer={
            "data": [
                {
                    "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "data": {
                        "name": "Harbour Roasters",
                        "rating": 4.2,
                        "tags": ["espresso", "view", "wifi"],
                        "location": {"latitude": 35.1587, "longitude": 129.0403},
                        "opened": "2018-09-15",
                    },
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "updated_at": "2026-01-31T09:30:00.000Z",
                    "score": 0.3836,
                    "highlights": {"name": "<mark>Harbour</mark> Roasters"},
                }
            ],
            "total_count": 1,
        },
    ),
    Example(
        route="POST /v1/public/autocomplete",
        operation="autocompleteValues",
        body={"table_id": "$TABLE_ID", "query": "har", "field": "name"},
        answer={"suggestions": ["Harbour Roasters"]},
    ),
    Example(
        route="POST /v1/public/geo",
        operation="searchRowsByLocation",
        body={
            "table_id": "$TABLE_ID",
            "field": "location",
            "near": {"center": {"latitude": 35.1796, "longitude": 129.0756}, "max_distance": 5000},
        },
        answer={
            "data": [
                {
                    "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "data": {
                        "name": "Harbour Roasters",
                        "rating": 4.2,
                        "tags": ["espresso", "view", "wifi"],
                        "location": {"latitude": 35.1587, "longitude": 129.0403},
                        "opened": "2018-09-15",
                    },
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "updated_at": "2026-01-31T09:30:00.000Z",
                    "distance": 3961.867,
                }
            ],
            "total_count": 1,
        },
    ),
    Example(
        route="POST /v1/public/batch",
        operation="runBatch",
        body={
            "operations": [
                {"type": "create", "table_id": "$TABLE_ID", "data": {"name": "Corner Bakery"}},
                {"type": "update", "table_id": "$TABLE_ID", "doc_id": "$ROW_ID", "data": {"rating": {"$inc": 0.1}}},
            ]
        },
        answer={
            "results": [
                {
                    "index": 0,
                    "type": "create",
                    "success": True,
                    "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "data": {"name": "Corner Bakery"},
                    "updated_at": "2026-01-31T09:30:00.000Z",
                },
                {
                    "index": 1,
                    "type": "update",
                    "success": True,
                    "id": "0199c0de-f1c2-7b7d-89e6-2b7d9e60a385",
                    "data": {
                        "name": "Blue Door",
                        "rating": 4.6,
                        "tags": ["espresso", "wifi"],
                        "location": {"latitude": 35.1631, "longitude": 129.1635},
                        "opened": "2021-03-01",
                    },
                    "updated_at": "2026-01-31T09:30:00.000Z",
                },
            ],
            "success_count": 2,
            "failed_count": 0,
        },
    ),
    Example(
        route="POST /v1/public/transactions",
        operation="runTransaction",
        body={
            "operations": [
                {"type": "create", "table_id": "$TABLE_ID", "data": {"name": "Corner Bakery"}},
                {"type": "update", "table_id": "$TABLE_ID", "doc_id": {"$ref": 0}, "data": {"tags": ["bread"]}},
            ]
        },
        answer={
            "results": [
                {
                    "index": 0,
                    "type": "create",
                    "success": True,
                    "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "data": {"name": "Corner Bakery"},
                    "updated_at": "2026-01-31T09:30:00.000Z",
                },
                {
                    "index": 1,
                    "type": "update",
                    "success": True,
                    "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "data": {"name": "Corner Bakery", "tags": ["bread"]},
                    "updated_at": "2026-01-31T09:30:00.000Z",
                },
            ],
            "success_count": 2,
            "failed_count": 0,
        },
    ),
]
