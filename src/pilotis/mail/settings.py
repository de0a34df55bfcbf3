"""How mails are sent: an app's own SMTP server, else the server's, else the mailbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

import msgspec

from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.outgoing import Outgoing, Reach
from pilotis.http.outgoing_types import OutgoingError, OutgoingFailure
from pilotis.kit.account_settings import PageUrls, is_listed
from pilotis.kit.errors import NotFoundError, invalid
from pilotis.kit.languages import Language
from pilotis.kit.mail_addresses import Sender, is_address, parse_sender
from pilotis.kit.smtp_urls import SmtpServer, parse_smtp_url
from pilotis.limits import Limits, limits_in_force
from pilotis.mail import store
from pilotis.mail.relays import Relay
from pilotis.mail.store import AppMail, StoredSettings
from pilotis.mail.types import MailSettings, NewMailSettings, Source
from pilotis.security.audit.service import record
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose


class ServerMail(NamedTuple):
    """The SMTP server that the operator has configured."""

    server: SmtpServer
    sender: Sender
    reply_to: str | None


class Sending(NamedTuple):
    """How an app's mails are sent; without a relay they are stored. `per_day` is the limit; 0 = unlimited.

    A function that is the app's `hook` sends them instead.
    """

    app_name: str
    relay: Relay | None
    per_day: int
    hook: UUID | None = None
    language: Language = "en"
    """That of mails to whom nothing says another."""
    pages: PageUrls = PageUrls()
    """The app's own pages to which links lead."""


class SettingsOfMail:
    """The SMTP servers of apps and of the server."""

    def __init__(
        self,
        database: Database,
        secrets: Secrets,
        outgoing: Callable[[], Outgoing],
        server: ServerMail | None,
        limits: Limits,
    ) -> None:
        self._database = database
        self._secrets = secrets
        self._outgoing = outgoing
        self._server = server
        self._limits = limits

    async def read(self, app: AppInfo) -> MailSettings:
        """Return how an app's mails are sent, without the password."""
        row = await store.settings(self._database.of(app.app_id), app.app_id)
        found = await store.app(self._database.of(app.app_id), app.app_id)
        is_branch = found is not None and found.is_branch
        source: Source = "app" if row else "server" if self._server and not is_branch else "mailbox"
        return MailSettings(
            source=source,
            smtp_url=row.smtp_url if row else None,
            has_password=row is not None and row.password is not None,
            mail_from=row.mail_from if row else None,
            mail_reply_to=row.mail_reply_to if row else None,
            mail_per_day=app.limits.mail_per_day if source == "server" else 0,
            server_from=self._server and self._server.sender.address,
        )

    async def put(self, app: AppInfo, actor: Actor, new: NewMailSettings) -> MailSettings:
        """Set an app's own SMTP server. A password that is absent stays, unless host or user change."""
        app_id = app.app_id
        server = await self._checked(new)
        secrets = await self._secrets.app(app_id)
        async with self._database.transaction(app_id) as connection:
            old = await store.settings(connection, app_id)
            password: bytes | None
            if server.password is not None:
                password = secrets.encrypt(Purpose.MAIL_PASSWORD, "smtp", server.password.encode())
            else:
                # Who can change the address must not be able to have the password sent there.
                password = old.password if old is not None and old.smtp_url == server.url else None
            settings = StoredSettings(server.url, password, new.mail_from, new.mail_reply_to)
            await store.put_settings(connection, app_id, settings)
            await record(connection, app_id, actor, "mail_settings.put", app_id, smtp_url=server.url)
        return await self.read(app)

    async def delete(self, app: AppInfo, actor: Actor) -> None:
        """Delete an app's own SMTP server."""
        async with self._database.transaction(app.app_id) as connection:
            await store.delete_settings(connection, app.app_id)
            await record(connection, app.app_id, actor, "mail_settings.delete", app.app_id)

    async def of(self, app_id: UUID) -> Sending:
        """Return how an app's mails are sent; raises `NotFoundError` for an app that is deleted."""
        found = await store.app(self._database.of(app_id), app_id)
        if found is None:
            raise NotFoundError
        return (await self._sending(app_id, found))._replace(pages=_pages(found))

    async def _sending(self, app_id: UUID, found: AppMail) -> Sending:
        if found.is_branch and found.smtp_url is None:
            # Members of a copy have the addresses of real ones.
            return Sending(found.name, None, 0, language=found.language)
        if found.hook is not None:
            return Sending(found.name, None, 0, found.hook, found.language)
        if found.smtp_url is not None:
            return Sending(found.name, await self._own(app_id, found), 0, language=found.language)
        limits = limits_in_force(self._limits, found.plan_limits, found.limits)
        relay = None if self._server is None else _with_name(self._server, found.name)
        return Sending(found.name, relay, limits.mail_per_day if relay else 0, language=found.language)

    async def _own(self, app_id: UUID, found: AppMail) -> Relay:
        assert found.smtp_url is not None
        assert found.mail_from is not None
        password = None
        if found.password is not None:
            secrets = await self._secrets.app(app_id)
            password = secrets.decrypt(Purpose.MAIL_PASSWORD, "smtp", found.password).decode()
        server = parse_smtp_url(found.smtp_url)._replace(password=password)
        return Relay(server, parse_sender(found.mail_from), found.mail_reply_to, is_operators=False)

    async def _checked(self, new: NewMailSettings) -> SmtpServer:
        for name in ("smtp_url", "mail_from"):
            try:
                (parse_smtp_url if name == "smtp_url" else parse_sender)(getattr(new, name))
            except ValueError as error:
                raise invalid(name, f"{name}: {error}.") from None
        if new.mail_reply_to is not None and not is_address(new.mail_reply_to):
            raise invalid("mail_reply_to", "mail_reply_to: an e-mail address is expected.", "INVALID_EMAIL")
        server = parse_smtp_url(new.smtp_url)
        outgoing = self._outgoing()
        try:
            await outgoing.guard(Reach.SERVER).addresses(server.host, server.port)
        except OutgoingError as error:
            # A name that does not resolve yet is checked when mail is sent.
            if error.failure is not OutgoingFailure.DNS:
                raise invalid("smtp_url", f"smtp_url: {error}", error.failure.value) from None
        return server


def _with_name(server: ServerMail, name: str) -> Relay:
    printable = "".join(letter for letter in name if letter.isprintable())
    return Relay(server.server, server.sender._replace(name=printable), server.reply_to, is_operators=True)


def _pages(found: AppMail) -> PageUrls:
    """Return the pages to which links may lead: an origin may have left the app's list since they were set."""
    urls = msgspec.json.decode(found.urls, type=PageUrls)
    listed = {
        name: url for name, url in msgspec.structs.asdict(urls).items() if url and is_listed(url, found.own_pages)
    }
    return PageUrls(**listed)
