"""The routes of imports and exports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

from pilotis.data.rows.bulk.service import ExportsBusyError
from pilotis.data.tables.keys import KeyNotReadyError, UnknownKeyError
from pilotis.data.tables.service import TableNotFoundError
from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.transfer.formats import Format
from pilotis.data.transfer.lines import NotUtf8Error
from pilotis.data.transfer.links import ExportLinkInvalidError, ExportLinks
from pilotis.data.transfer.service import (
    FirstRejections,
    FreeFormCsvError,
    ImportFormatError,
    ImportNotFoundError,
    ImportRunningError,
    NoHeaderError,
    Transfer,
    from_offset,
)
from pilotis.data.transfer.types import (
    ExportLink,
    ExportLinkRequest,
    ExportOptions,
    ExportQuery,
    ImportOptions,
    ImportProgress,
    ImportQuery,
    ImportResult,
)
from pilotis.http.api.endpoint import Endpoints, get, post
from pilotis.http.api.principals import Access, Actor, AppInfo, AppUser, Role
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import Reply, Stream, disposition
from pilotis.kit.errors import invalid
from pilotis.kit.generators import started

_CONTENT_TYPES = {Format.CSV: b"text/csv; charset=utf-8; header=present", Format.JSONL: b"application/jsonl"}


class TransferEndpoints(Endpoints, tag="Import and export"):
    """Imports and exports of whole tables."""

    def __init__(self, transfer: Transfer, links: ExportLinks) -> None:
        self._transfer = transfer
        self._links = links

    @post(
        "/v1/apps/:app_id/tables/:table_id/import",
        access=Access.APP_EDITOR,
        errors=[
            TableNotFoundError,
            UnknownColumnError,
            UnknownKeyError,
            KeyNotReadyError,
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

        Rows are created while the body arrives, and are kept if the connection breaks. A request with a `key` of your
        choice can be repeated in full: it continues where the last one with that key was interrupted. A rejected line
        does not stop the others. With `unique_key`, the name of a unique key of the table, lines change the rows that
        have its values already, as `mode` says.
        """
        if not query.delimiter.isascii() or query.delimiter in '"\r\n':
            raise invalid("delimiter", "delimiter must be one ASCII character other than a quote or a line end.")
        options = ImportOptions(
            format=Format(query.format) if query.format else _format_of(call.header(b"content-type")),
            delimiter=query.delimiter,
            key=query.key,
            own_fields=query.own_fields,
            unique_key=query.unique_key,
            mode=query.mode,
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
        errors=[TableNotFoundError, FreeFormCsvError, ExportsBusyError],
    )
    async def export(self, call: Call, app_id: UUID, table_id: UUID, query: ExportQuery) -> Reply:
        """Export a snapshot of a table's rows as CSV or JSON lines.

        Editors get encrypted columns in plain text; for viewers they are left out.
        """
        options = ExportOptions(
            format=Format(query.format),
            own_fields=query.own_fields,
            encrypted=call.principal.may(Role.EDITOR),
            neutralise_formulas=query.neutralise_formulas,
        )
        return await self._stream(call.app, call.actor, table_id, options)

    @get(
        "/v1/apps/:app_id/tables/:table_id/imports/:import_key",
        access=Access.APP_EDITOR,
        errors=[TableNotFoundError, ImportNotFoundError],
    )
    async def progress(self, call: Call, app_id: UUID, table_id: UUID, import_key: str) -> ImportProgress:
        """Read how far an import is, while it runs and for 30 days after."""
        return await self._transfer.progress(call.app, table_id, import_key)

    @post("/v1/apps/:app_id/tables/:table_id/export-link", access=Access.APP_VIEWER, errors=[TableNotFoundError])
    async def link(self, call: Call, app_id: UUID, table_id: UUID, body: ExportLinkRequest) -> ExportLink:
        """Create a link to an export, for a download by a browser, which cannot send a header.

        It can be used once, within 60 seconds, and exports what the user who created it may read.
        """
        assert isinstance(call.principal, AppUser)
        return await self._links.create(call.principal, table_id, body)

    @get(
        "/v1/exports/:export_link",
        access=Access.OPEN,
        returns=bytes,
        media_type="application/jsonl, text/csv",
        errors=[ExportLinkInvalidError, TableNotFoundError, FreeFormCsvError, ExportsBusyError],
    )
    async def linked(self, call: Call, export_link: str) -> Reply:
        """Export a table by a link, in the format that the link names."""
        found = await self._links.consume(export_link, call.request_id)
        return await self._stream(found.app, found.actor, found.table_id, found.options)

    async def _stream(self, app: AppInfo, actor: Actor, table_id: UUID, options: ExportOptions) -> Reply:
        chunks = await started(self._transfer.export(app, table_id, options))
        await self._transfer.record_export(app, actor, table_id, options)
        name = await self._transfer.export_name(app, table_id, options)
        return Reply(
            Stream(None, chunks),
            headers=[(b"content-disposition", disposition("attachment", name).encode())],
            content_type=_CONTENT_TYPES[options.format],
        )


def _format_of(content_type: str | None) -> Format:
    essence = (content_type or "").partition(";")[0].strip().lower()
    return Format.CSV if essence == "text/csv" else Format.JSONL
