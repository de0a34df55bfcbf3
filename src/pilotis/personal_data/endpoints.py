"""The routes of exports of members' data."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from uuid import UUID

from pilotis.accounts.service import Proofs
from pilotis.http.api.endpoint import Endpoints, get, post
from pilotis.http.api.principals import Access, ReauthenticationRequiredError, Role, console
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import Reply, Stream, disposition
from pilotis.kit.generators import started
from pilotis.mail.service import NoAddressError
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.members.gate.service import MemberInactiveError
from pilotis.personal_data.service import ExportBusyError, ExportExpiredError, ExportLimitError, PersonalData
from pilotis.personal_data.types import ExportDownload, ExportRequest, ExportTicket

_MEMBERS = "/v1/public/app-members"


class PersonalDataEndpoints(Endpoints, tag="App member authentication"):
    """What an app has of a member."""

    def __init__(self, data: PersonalData, proofs: Proofs) -> None:
        self._data = data
        self._proofs = proofs

    @post(
        f"{_MEMBERS}/me/export",
        access=Access.ACCOUNT,
        errors=[MemberInactiveError, ReauthenticationRequiredError, ExportLimitError, NoAddressError],
    )
    async def ask(self, call: Call, body: ExportRequest | None) -> ExportTicket:
        """Ask for all that the app has of the signed-in member: its account, its rows and its files.

        With `by_mail` a link goes to its verified address, and `token` is null.
        """
        await self._proofs.require_fresh(call.app, call.member)
        return await self._data.ask(call.app, call.actor, call.member, by_mail=body is not None and body.by_mail)

    @post(
        f"{_MEMBERS}/export/download",
        access=Access.PUBLIC_KEY,
        needs_room=False,
        only_reads=False,
        returns=bytes,
        media_type="application/zip",
        errors=[ExportExpiredError, ExportBusyError],
    )
    async def download(self, call: Call, body: ExportDownload) -> Reply:
        """Download an export by its token, once: a zip archive."""
        return await _zip(await self._data.download(call.app, body.token))

    @get(
        "/v1/apps/:app_id/members/:member_id/export",
        access=console(Role.EDITOR, secret_key=True),
        returns=bytes,
        media_type="application/zip",
        errors=[MemberNotFoundError, ExportBusyError],
    )
    async def export(self, call: Call, app_id: UUID, member_id: str) -> Reply:
        """Download all that the app has of a member, such as for a request by law; the audit log has it."""
        return await _zip(await self._data.export(call.app, call.actor, member_id))


async def _zip(chunks: AsyncGenerator[bytes]) -> Reply:
    return Reply(
        Stream(None, await started(chunks)),
        headers=[
            (b"content-disposition", disposition("attachment", "export.zip").encode()),
            (b"cache-control", b"no-store"),
        ],
        content_type=b"application/zip",
    )
