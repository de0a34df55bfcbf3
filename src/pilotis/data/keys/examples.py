"""Examples of unique keys for the reference."""

from pilotis.http.api.example import Example

_ROUTE = "/v1/apps/:app_id/tables/:table_id/unique"
_KEY = {"name": "name", "columns": ["name"], "ignore_case": True, "nulls": "distinct", "where": None}

EXAMPLES = [
    Example(
        route=f"POST {_ROUTE}",
        operation="createUniqueKey",
        body={"columns": ["name"], "ignore_case": True},
        answer=_KEY,
    ),
    Example(route=f"GET {_ROUTE}", operation="listUniqueKeys", answer={"unique": [_KEY]}),
    Example(
        route=f"DELETE {_ROUTE}/:name",
        operation="deleteUniqueKey",
        path={"name": "name"},
        answer={"message": "Unique key deleted.", "id": "0199c0de-4f1c-7e02-9b4d-6a1f2c3d4e5f"},
    ),
]
