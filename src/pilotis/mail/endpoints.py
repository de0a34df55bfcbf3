"""The console routes of mail."""

from __future__ import annotations

from uuid import UUID

from pilotis.http.api.endpoint import Endpoints, delete, get, post, put
from pilotis.http.api.principals import Access, ReauthenticationRequiredError, Role, console
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Paging
from pilotis.mail.service import (
    MailNotFoundError,
    MailNotRetryableError,
    Mails,
    NoAddressError,
    SuppressionNotFoundError,
)
from pilotis.mail.settings import SettingsOfMail
from pilotis.mail.templates import MailTemplateNotFoundError, OwnTemplates
from pilotis.mail.types import (
    DeletedMailSettings,
    DeletedMailTemplate,
    DeletedSuppression,
    Mail,
    MailItem,
    MailMessage,
    MailPage,
    MailPreview,
    MailQuery,
    MailSettings,
    MailTemplate,
    MailTemplates,
    MailTest,
    NewMailSettings,
    NewMailTemplate,
    NewSuppression,
    SentMail,
    Suppression,
    SuppressionPage,
)
from pilotis.members.administration.service import MemberNotFoundError

_APP = "/v1/apps/:app_id"
_SETTINGS = f"{_APP}/mail-settings"
_MAIL = f"{_APP}/mail"
_SUPPRESSIONS = f"{_MAIL}/suppressions"
_TEMPLATES = f"{_APP}/mail-templates"
_TEMPLATE = f"{_TEMPLATES}/:purpose/:language"

VIEWER = console(Role.VIEWER, secret_key=True)
EDITOR = console(Role.EDITOR, secret_key=True)


class MailEndpoints(Endpoints, tag="Mail"):
    """Settings of mail, the mailbox, and addresses that get none."""

    def __init__(self, settings: SettingsOfMail, mails: Mails, templates: OwnTemplates) -> None:
        self._settings = settings
        self._mails = mails
        self._templates = templates

    @get(_SETTINGS, access=Access.APP_OWNER)
    async def settings(self, call: Call, app_id: UUID) -> MailSettings:
        """Read how an app's mails are sent, without the password."""
        return await self._settings.read(call.app)

    @put(_SETTINGS, access=Access.APP_OWNER_FRESH, errors=[ReauthenticationRequiredError])
    async def replace_settings(self, call: Call, app_id: UUID, body: NewMailSettings) -> MailSettings:
        """Set an app's own SMTP server.

        `smtp://` must offer STARTTLS, unless it is on loopback or in `outgoing_networks`; `smtps://` is TLS from the
        start. The password is stored encrypted, and never shown. If it is absent, the one before stays, unless host,
        port or user change.
        """
        return await self._settings.put(call.app, call.actor, body)

    @delete(_SETTINGS, access=Access.APP_OWNER)
    async def delete_settings(self, call: Call, app_id: UUID) -> DeletedMailSettings:
        """Remove an app's own SMTP server: the server's sends its mails, or they are stored."""
        await self._settings.delete(call.app, call.actor)
        return DeletedMailSettings("Mail settings deleted.", app_id)

    @post(f"{_SETTINGS}/test", access=Access.APP_OWNER, rate="mail_requests")
    async def test(self, call: Call, app_id: UUID) -> MailTest:
        """Send a test mail to the caller's own address, and return what the SMTP server replied."""
        return await self._mails.test(call.app, call.actor, call.user.email)

    @get(_MAIL, access=EDITOR)
    async def page(self, call: Call, app_id: UUID, query: MailQuery) -> MailPage:
        """List an app's mails of the last 30 days, newest first, without their texts."""
        return await self._mails.page(call.app, query)

    @post(
        f"{_MAIL}/send",
        access=console(Role.EDITOR, secret_key=True, scope="mail:send"),
        status=202,
        creates="mail_id",
        errors=[MemberNotFoundError, NoAddressError],
    )
    async def send(self, call: Call, app_id: UUID, body: MailMessage) -> SentMail:
        """Send a mail of the app's own to a member or to an address, as all mails are sent: soon, and with retries.

        Without an SMTP server it is in the mailbox; `suppressed` says that it is not sent, see the limits of mail.
        """
        return await self._mails.send(call.app, call.actor, body, UUID(call.new_id()))

    @get(f"{_MAIL}/:mail_id", access=EDITOR, errors=[MailNotFoundError])
    async def read(self, call: Call, app_id: UUID, mail_id: UUID) -> Mail:
        """Read a mail.

        A mail that was stored because there is no SMTP server has its text, link and code; who reads them is recorded
        in the audit log. Unless the server is on the reader's own machine, owners alone see them. All others have none.
        """
        return await self._mails.read(call.app, call.actor, mail_id, is_owner=call.principal.may(Role.OWNER))

    @post(f"{_MAIL}/:mail_id/retry", access=EDITOR, errors=[MailNotFoundError, MailNotRetryableError])
    async def retry(self, call: Call, app_id: UUID, mail_id: UUID) -> MailItem:
        """Send a mail again that was deferred, bounced or failed, unless its link has expired."""
        return await self._mails.retry(call.app, call.actor, mail_id)

    @get(_SUPPRESSIONS, access=EDITOR)
    async def suppressions(self, call: Call, app_id: UUID, query: Paging) -> SuppressionPage:
        """List the addresses that get no mail from the app, newest first; only their hashes are stored."""
        return await self._mails.suppressions(call.app, query)

    @post(_SUPPRESSIONS, access=EDITOR)
    async def suppress(self, call: Call, app_id: UUID, body: NewSuppression) -> Suppression:
        """Send no mail to an address any more, such as one that a provider reports as unknown."""
        return await self._mails.suppress(call.app, call.actor, body.address)

    @delete(f"{_SUPPRESSIONS}/:address_hash", access=EDITOR, errors=[SuppressionNotFoundError])
    async def unsuppress(self, call: Call, app_id: UUID, address_hash: str) -> DeletedSuppression:
        """Send mail to an address again."""
        await self._mails.unsuppress(call.app, call.actor, address_hash)
        return DeletedSuppression("Suppression deleted.", address_hash)

    @get(_TEMPLATES, access=VIEWER)
    async def templates(self, call: Call, app_id: UUID) -> MailTemplates:
        """List the texts of an app's mails, of each purpose in each language."""
        return await self._templates.all(app_id)

    @get(_TEMPLATE, access=VIEWER, errors=[MailTemplateNotFoundError])
    async def template(self, call: Call, app_id: UUID, purpose: str, language: str) -> MailTemplate:
        """Read a text: the app's own, else the shipped one."""
        return await self._templates.read(app_id, purpose, language)

    @put(_TEMPLATE, access=EDITOR, errors=[MailTemplateNotFoundError])
    async def replace_template(
        self, call: Call, app_id: UUID, purpose: str, language: str, body: NewMailTemplate
    ) -> MailTemplate:
        """Replace a text by the app's own.

        It has variables such as `{{app.name}}`, nothing else is computed; HTML is made from the paragraphs.
        """
        return await self._templates.put(app_id, call.actor, purpose, language, body)

    @delete(_TEMPLATE, access=EDITOR, errors=[MailTemplateNotFoundError])
    async def delete_template(self, call: Call, app_id: UUID, purpose: str, language: str) -> DeletedMailTemplate:
        """Use the shipped text again."""
        await self._templates.restore(app_id, call.actor, purpose, language)
        return DeletedMailTemplate("The shipped text is used again.", f"{purpose}/{language}")

    @post(f"{_TEMPLATE}/preview", access=VIEWER, errors=[MailTemplateNotFoundError])
    async def preview_template(
        self, call: Call, app_id: UUID, purpose: str, language: str, body: NewMailTemplate
    ) -> MailPreview:
        """Show the mail that a text gives, with a made-up link and code, without storing or sending anything."""
        return self._templates.preview(call.app, purpose, language, body)
