"""What a program does with the client that openapi-python-client generates."""

import json
import os
import urllib.request
from uuid import UUID

from pilotis_client import AuthenticatedClient
from pilotis_client.api.app_member_authentication import sign_in_member, sign_up_member
from pilotis_client.api.file_storage import complete_upload, create_upload
from pilotis_client.api.table_data import create_row, list_rows, query_rows
from pilotis_client.api.tables_and_columns import create_table, get_table
from pilotis_client.models import (
    AccessLevel,
    ColumnType,
    CompleteUpload,
    Error,
    ErrorCode,
    RowInput,
    Query,
    QueryResult,
    SignIn,
    SignUp,
    TableDefinition,
    TableResult,
    UploadInput,
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
listed = list_rows.sync(table.id, client=client, limit=1)
assert listed is not None
assert not isinstance(listed, Error)
storage = UUID(os.environ["STORAGE"])
upload = UploadInput(file_name="cat.txt", file_size=4, mime_type="text/plain")
permit = create_upload.sync(storage, client=client, body=upload)
assert permit is not None
assert not isinstance(permit, Error)
sent = urllib.request.Request(permit.upload_url, b"meow", permit.headers.to_dict(), method=permit.method)
urllib.request.urlopen(sent).close()
file = complete_upload.sync(storage, client=client, body=CompleteUpload(file_id=permit.file_id))
assert file is not None
assert not isinstance(file, Error)
account = {"login_id": "python", "password": "correct horse battery"}
member = sign_up_member.sync(client=client, body=SignUp.from_dict(account))
again = sign_in_member.sync(client=client, body=SignIn.from_dict(account))
assert member is not None
assert not isinstance(member, Error)
assert again is not None
assert not isinstance(again, Error)
names = [row.data["name"] for row in found.data]
print(json.dumps([names, listed.total_count, file.size, member.member_id == again.member_id]))
