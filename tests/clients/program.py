"""What a program does with the client that openapi-python-client generates."""

import json
import os
from uuid import UUID

from pilotis_client import AuthenticatedClient
from pilotis_client.api.table_data import create_row, query_rows
from pilotis_client.api.tables_and_columns import create_table, get_table
from pilotis_client.models import (
    AccessLevel,
    ColumnType,
    Error,
    ErrorCode,
    RowInput,
    Query,
    QueryResult,
    TableDefinition,
    TableResult,
)

client = AuthenticatedClient(
    os.environ["SERVER"], token=os.environ["PUBLIC_KEY"], prefix="", auth_header_name="X-Public-Key"
)
definition = {"title": "cafes", "schema": {"name": "string", "rating": "number"}, "access_level": "Public"}
table = create_table.sync(client=client, body=TableDefinition.from_dict(definition))
assert isinstance(table, TableResult)
assert isinstance(table.id, UUID)
assert ColumnType("string") is ColumnType.STRING
assert AccessLevel("Public") is AccessLevel.PUBLIC
for rating in (4.5, 3.0):
    create_row.sync(
        table.id, client=client, body=RowInput.from_dict({"data": {"name": f"cafe {rating}", "rating": rating}})
    )
found = query_rows.sync(table.id, client=client, body=Query.from_dict({"where": {"rating": {"$gte": 4}}}))
assert isinstance(found, QueryResult)
missing = get_table.sync(UUID("00000000-0000-7000-8000-000000000000"), client=client)
assert isinstance(missing, Error)
assert missing.code is ErrorCode.TABLE_NOT_FOUND
print(json.dumps([row.data["name"] for row in found.data]))
