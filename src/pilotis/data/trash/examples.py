"""Examples of the trash for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="GET /v1/apps/:app_id/trash",
        operation="listTrash",
        answer={
            "tables": [
                {
                    "table_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "title": "old cafes",
                    "rows": 0,
                    "dropped_at": "2026-01-31T09:30:00.000Z",
                    "restorable_until": "2026-01-31T09:30:00.000Z",
                }
            ],
            "columns": [],
        },
    ),
    Example(
        route="POST /v1/apps/:app_id/trash/tables/:table_id/restore",
        operation="restoreTable",
        path={"table_id": "$DELETED_TABLE_ID"},
        answer={"message": "Table restored.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
    Example(
        route="POST /v1/apps/:app_id/trash/tables/:table_id/columns/:number/restore",
        operation="restoreColumn",
        path={"number": "$DELETED_COLUMN_NUMBER"},
        answer={
            "message": "Column restored.",
            "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "number": 2,
            "name": "rating",
        },
    ),
    Example(
        route="DELETE /v1/apps/:app_id/trash/tables/:table_id",
        operation="deleteTrashedTable",
        path={"table_id": "$DELETED_TABLE_ID"},
        answer={"message": "Table deleted permanently.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
    Example(
        route="DELETE /v1/apps/:app_id/trash/tables/:table_id/columns/:number",
        operation="deleteTrashedColumn",
        path={"number": "$DELETED_COLUMN_NUMBER"},
        answer={
            "message": "Column deleted permanently.",
            "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "number": 2,
            "name": "rating",
        },
    ),
    Example(
        route="DELETE /v1/apps/:app_id/trash",
        operation="deleteTrash",
        answer={"message": "Trash emptied.", "tables": 1, "columns": 0},
    ),
]
