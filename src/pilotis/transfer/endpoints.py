"""The routes of imports and exports."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from uuid import UUID

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, Reply, Stream, get, post
from pilotis.http.principals import Access, Role
from pilotis.kit.errors import invalid
from pilotis.tables.service import TableNotFoundError
from pilotis.tables.values import UnknownColumnError
from pilotis.transfer.formats import Format
from pilotis.transfer.lines import NotUtf8Error
from pilotis.transfer.service import (
    FirstRejections,
    FreeFormCsvError,
    ImportFormatError,
    ImportRunningError,
    NoHeaderError,
    Transfer,
    from_offset,
)
from pilotis.transfer.types import ExportOptions, ExportQuery, ImportOptions, ImportQuery, ImportResult

_CONTENT_TYPES = {Format.CSV: b"text/csv; charset=utf-8; header=present", Format.JSONL: b"application/jsonl"}


class TransferEndpoints(Endpoints, tag="Import and export"):
    """Whole tables, in and out."""

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer

    @post(
        "/v1/apps/:app_id/tables/:table_id/import",
        access=Access.APP_EDITOR,
        errors=[
            TableNotFoundError,
            UnknownColumnError,
            NotUtf8Error,
            NoHeaderError,
            ImportRunningError,
            ImportFormatError,
        ],
    )
    async def import_(
        self, call: Call, app_id: UUID, table_id: UUID, query: ImportQuery, body: AsyncIterator[bytes]
    ) -> ImportResult:
        """Import CSV or JSON lines into a table.

        Rows are made as the body comes in, and stay even if it breaks off. A request with a `key` of your choice can
        then be sent again, whole: it goes on where the last one with that key was interrupted. A line that makes no
        row does not stop the others.
        """
        if not query.delimiter.isascii() or query.delimiter in '"\r\n':
            raise invalid("delimiter", "delimiter is one ASCII character, and no quote or line end.")
        options = ImportOptions(
            format=Format(query.format) if query.format else _format_of(call.header(b"content-type")),
            delimiter=query.delimiter,
            key=query.key,
            own_fields=query.own_fields,
        )
        rejections = FirstRejections()
        result = await self._transfer.import_(call.app, call.actor, table_id, from_offset(body), options, rejections)
        result.rejections = rejections.kept
        return result

    @get(
        "/v1/apps/:app_id/tables/:table_id/export",
        access=Access.APP_VIEWER,
        returns=bytes,
        media_type="application/jsonl, text/csv",
        errors=[TableNotFoundError, FreeFormCsvError],
    )
    async def export(self, call: Call, app_id: UUID, table_id: UUID, query: ExportQuery) -> Reply:
        """Export a table's rows, as they are at one moment, as CSV or JSON lines.

        Encrypted columns are in plain for editors, and left out for viewers.
        """
        options = ExportOptions(
            format=Format(query.format), own_fields=query.own_fields, encrypted=call.principal.may(Role.EDITOR)
        )
        chunks = self._transfer.export(call.app, table_id, options)
        # What is wrong shows before the first piece; after that there is no status left to tell it by.
        first = await anext(chunks)
        await self._transfer.note_export(call.app, call.actor, table_id, options)
        disposition = f'attachment; filename="{table_id}.{query.format}"'.encode()
        return Reply(
            Stream(None, _continued(first, chunks)),
            headers=[(b"content-disposition", disposition)],
            content_type=_CONTENT_TYPES[options.format],
        )


async def _continued(first: bytes, chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    try:
        if first:
            yield first
        async for chunk in chunks:
            yield chunk
    finally:
        await chunks.aclose()


def _format_of(content_type: str | None) -> Format:
    essence = (content_type or "").partition(";")[0].strip().lower()
    return Format.CSV if essence == "text/csv" else Format.JSONL
