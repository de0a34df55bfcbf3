"""Examples of resumable uploads for the reference."""

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="POST /v1/public/storages/files/:storage_id/tus",
        operation="createResumableUpload",
        headers={
            "Tus-Resumable": "1.0.0",
            "Content-Type": "application/offset+octet-stream",
            "Upload-Length": "11",
            "Upload-Metadata": "filename bWVudS50eHQ=,filetype dGV4dC9wbGFpbg==",
        },
        content="Espre",
        answer={
            "file_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
            "upload_url": "http://127.0.0.1:8090/v1/uploads/tus/0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38?expires=1769853600&signature=…",
            "public_url": "http://127.0.0.1:8090/files/0199c0de-f1c2-7b7d-89e6-2b7d9e60a385/0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38/menu.txt",
            "method": "PATCH",
            "headers": {"Tus-Resumable": "1.0.0", "Content-Type": "application/offset+octet-stream"},
            "expires_at": "2026-01-31T09:30:00.000Z",
        },
    ),
    Example(
        route="GET /v1/uploads/tus/:upload_id",
        operation="getResumableUpload",
        headers={"Tus-Resumable": "1.0.0"},
        url="$RESUMABLE_UPLOAD_URL",
        answer={"offset": 5, "length": 11, "expires_at": "2026-01-31T09:30:00.000Z"},
    ),
    Example(
        route="PATCH /v1/uploads/tus/:upload_id",
        operation="updateResumableUpload",
        headers={"Tus-Resumable": "1.0.0", "Upload-Offset": "5", "Content-Type": "application/offset+octet-stream"},
        content="sso 2\n",
        url="$RESUMABLE_UPLOAD_URL",
    ),
    Example(
        route="DELETE /v1/uploads/tus/:upload_id",
        operation="deleteResumableUpload",
        headers={"Tus-Resumable": "1.0.0"},
        url="$RESUMABLE_UPLOAD_URL",
    ),
    Example(
        route="OPTIONS /v1/public/storages/files/:storage_id/tus",
        operation="getResumableUploadOptions",
    ),
    Example(
        route="OPTIONS /v1/uploads/tus/:upload_id",
        operation="getResumableUploadOptionsOfUpload",
        url="$RESUMABLE_UPLOAD_URL",
    ),
]
