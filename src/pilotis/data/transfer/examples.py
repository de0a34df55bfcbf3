"""Examples of imports and exports for the reference."""

from pilotis.http.api.example import Example

_CSV = (
    'name,rating,tags,location,opened\nBlue Door,4.5,"[""espresso"", ""wifi""]","{""la'
    'titude"": 35.1631, ""longitude"": 129.1635}",2021-03-01\nHarbour Roasters,4.2,"["'
    '"espresso"", ""view"", ""wifi""]","{""latitude"": 35.1587, ""longitude"": 129.04'
    '03}",2018-09-15\nStation Espresso,3.4,"[""espresso""]",,2023-11-20\n'
)

EXAMPLES = [
    Example(
        route="POST /v1/apps/:app_id/tables/:table_id/import",
        operation="importRows",
        query={"key": "cafes-1"},
        headers={"Content-Type": "text/csv"},
        content="name,rating\nCorner Bakery,4.1\nTea Room,4.4\n",
        answer={
            "table_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "key": "cafes-1",
            "created": 2,
            "rejected": 0,
            "rejections": [],
            "resumed_at_line": None,
            "was_finished": False,
        },
    ),
    Example(
        route="GET /v1/apps/:app_id/tables/:table_id/imports/:import_key",
        operation="getImport",
        path={"import_key": "$IMPORT_KEY"},
        answer={
            "table_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "key": "cafes-0",
            "created": 1,
            "rejected": 1,
            "line": 3,
            "position": 44,
            "finished": True,
        },
    ),
    Example(
        route="POST /v1/apps/:app_id/tables/:table_id/export-link",
        operation="createExportLink",
        body={"format": "csv"},
        answer={
            "url": "http://127.0.0.1:8090/v1/exports/ex_…",
            "expires_at": "2026-01-31T09:31:00.000Z",
        },
    ),
    Example(
        route="GET /v1/exports/:export_link",
        operation="exportByLink",
        path={"export_link": "$LINK_TOKEN"},
        answer=_CSV,
    ),
    Example(
        route="GET /v1/apps/:app_id/tables/:table_id/export",
        operation="exportRows",
        query={"format": "csv"},
        answer=_CSV,
    ),
]
