"""Examples of tables and columns for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="GET /v1/public/tables",
        operation="listTables",
        answer={
            "tables": [
                {
                    "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "app_id": "0199c0de-f1c2-7b7d-89e6-2b7d9e60a385",
                    "title": "cafes",
                    "schema": {
                        "name": {"type": "string", "required": True},
                        "rating": "number",
                        "tags": "array",
                        "location": "object",
                        "opened": "date",
                    },
                    "is_active": True,
                    "access_level": "Public",
                    "create_time": "2026-01-31T09:30:00.000Z",
                    "update_time": "2026-01-31T09:30:00.000Z",
                }
            ]
        },
    ),
    Example(
        route="GET /v1/public/tables/:table_id",
        operation="getTable",
        answer={
            "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "app_id": "0199c0de-f1c2-7b7d-89e6-2b7d9e60a385",
            "title": "cafes",
            "schema": {
                "name": {"type": "string", "required": True},
                "rating": "number",
                "tags": "array",
                "location": "object",
                "opened": "date",
            },
            "is_active": True,
            "access_level": "Public",
            "create_time": "2026-01-31T09:30:00.000Z",
            "update_time": "2026-01-31T09:30:00.000Z",
        },
    ),
    Example(
        route="POST /v1/public/tables",
        operation="createTable",
        body={
            "title": "cafes",
            "schema": {
                "name": {"type": "string", "required": True},
                "rating": "number",
                "tags": "array",
                "location": "object",
                "opened": "date",
            },
            "access_level": "Public",
        },
        answer={"message": "Table created.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
    Example(
        route="PATCH /v1/public/tables/:table_id",
        operation="updateTable",
        body={
            "title": "coffee houses",
            "schema": {
                "name": {"type": "string", "required": True},
                "rating": "number",
                "tags": "array",
                "location": "object",
                "opened": "date",
                "website": "string",
            },
            "access_level": "Public",
        },
        answer={"message": "Table updated.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
    Example(
        route="DELETE /v1/public/tables/:table_id",
        operation="deleteTable",
        answer={"message": "Table deleted.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
    Example(
        route="GET /v1/public/tables/:table_id/columns",
        operation="listColumns",
        answer={
            "columns": [
                {
                    "name": "name",
                    "data_type": "string",
                    "is_required": True,
                    "default_value": None,
                    "description": None,
                    "encrypted": False,
                    "order": 1,
                },
                {
                    "name": "rating",
                    "data_type": "number",
                    "is_required": False,
                    "default_value": None,
                    "description": None,
                    "encrypted": False,
                    "order": 2,
                },
                {
                    "name": "tags",
                    "data_type": "array",
                    "is_required": False,
                    "default_value": None,
                    "description": None,
                    "encrypted": False,
                    "order": 3,
                },
                {
                    "name": "location",
                    "data_type": "object",
                    "is_required": False,
                    "default_value": None,
                    "description": None,
                    "encrypted": False,
                    "order": 4,
                },
                {
                    "name": "opened",
                    "data_type": "date",
                    "is_required": False,
                    "default_value": None,
                    "description": None,
                    "encrypted": False,
                    "order": 5,
                },
            ]
        },
    ),
    Example(
        route="POST /v1/public/tables/:table_id/columns",
        operation="createColumn",
        body={"name": "website", "data_type": "string", "description": "Where to read more"},
        answer={"message": "Column added.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38", "name": "website"},
    ),
    Example(
        route="PATCH /v1/public/tables/:table_id/columns/:name",
        operation="updateColumn",
        path={"name": "rating"},
        body={"is_required": True, "description": "From 0 to 5"},
        answer={"message": "Column updated.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38", "name": "rating"},
    ),
    Example(
        route="DELETE /v1/public/tables/:table_id/columns/:name",
        operation="deleteColumn",
        path={"name": "opened"},
        answer={"message": "Column deleted.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38", "name": "opened"},
    ),
]

SCHEMA_EXAMPLES = [
    Example(
        route="GET /v1/apps/:app_id/profiles",
        operation="getProfileTable",
        answer={"table_id": None, "table": None, "key": None},
    ),
    Example(
        route="PUT /v1/apps/:app_id/profiles",
        operation="replaceProfileTable",
        body={"table": None},
        answer={"table_id": None, "table": None, "key": None},
    ),
    Example(
        route="POST /v1/apps/:app_id/tables/:table_id/schema-preview",
        operation="previewSchema",
        body={"title": "cafes", "schema": {"name": "string", "rating": "string"}, "access_level": "Public"},
        answer={
            "changes": [
                {
                    "kind": "dropped",
                    "name": "tags",
                    "from": "array",
                    "to": None,
                    "rows": 3,
                    "rows_that_do_not_fit": 0,
                    "samples": [],
                },
                "…",
            ],
            "locks": "brief",
        },
    ),
    Example(
        route="POST /v1/apps/:app_id/tables/:table_id/columns/:name/rename",
        operation="renameColumn",
        path={"name": "opened"},
        body={"name": "opened_on"},
        answer={"message": "Column renamed.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38", "name": "opened_on"},
    ),
]
