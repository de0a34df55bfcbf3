"""Mail: what apps send to their members, by SMTP or into the mailbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar
from urllib.parse import urlsplit
from uuid import UUID

from pilotis.apps.feature import AppsFeature
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, Copied, LeftOut
from pilotis.kit.mail_addresses import parse_sender
from pilotis.kit.networks import is_loopback
from pilotis.kit.smtp_urls import parse_smtp_url
from pilotis.mail.endpoints import MailEndpoints
from pilotis.mail.relays import Relay, Relays
from pilotis.mail.sending import Sender
from pilotis.mail.service import Mails, OperatorMail
from pilotis.mail.settings import ServerMail, SettingsOfMail
from pilotis.mail.tasks import periodic
from pilotis.mail.templates import OwnTemplates


class MailFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Mail."""

    described = (MailEndpoints,)
    archived: ClassVar[Archived] = {
        "mail_templates": Copied(columns="purpose language subject text button updated_at"),
        "mail_settings": LeftOut("a copy sends no mail until its mail server is set"),
        "mail_messages": LeftOut("mails are sent once, by the server that wrote them"),
        "mail_suppressions": Copied(columns="address_hash reason created_at"),
    }

    mails: Mails
    templates: OwnTemplates
    operators: Relay | None
    """The SMTP server that the operator has configured."""
    operator_mail: OperatorMail
    attach_hook: Callable[[Callable[[UUID, UUID, dict[str, Any]], Awaitable[None]]], None]
    """Sets what calls an app's function that sends its mails."""


def feature(floor: Floor, apps: AppsFeature) -> MailFeature:
    """Return the feature."""
    host = urlsplit(floor.base_url).hostname or ""
    configured = server_mail(floor.settings.smtp_url, floor.settings.mail_from, floor.settings.mail_reply_to)
    settings = SettingsOfMail(floor.database, floor.secrets, lambda: floor.outgoing, configured, floor.limits)
    relays = Relays(lambda: floor.outgoing, host if host.strip("0123456789.") and ":" not in host else "localhost")

    sender = Sender(floor.database, settings, floor.secrets, floor.jobs, relays, apps.meter.mailed)
    mails = Mails(
        floor.database,
        settings,
        floor.secrets,
        floor.jobs,
        sender.kind,
        floor.rate_limits,
        relays,
        floor.base_url,
        is_local=is_loopback(host),
    )
    operators = configured and Relay(*configured, is_operators=True)
    templates = OwnTemplates(floor.database, floor.base_url)
    return MailFeature(
        name="mail",
        endpoints=[MailEndpoints(settings, mails, templates)],
        jobs=[sender.kind],
        metrics=[sender.attempts],
        periodic=periodic(floor.database),
        close=relays.close,
        mails=mails,
        templates=templates,
        operators=operators,
        operator_mail=OperatorMail(operators, relays),
        attach_hook=sender.attach,
    )


def server_mail(smtp_url: str | None, mail_from: str | None, mail_reply_to: str | None) -> ServerMail | None:
    """Return the SMTP server that the operator has configured."""
    if smtp_url is None or mail_from is None:
        return None
    reply_to = parse_sender(mail_reply_to).address if mail_reply_to else None
    return ServerMail(parse_smtp_url(smtp_url), parse_sender(mail_from), reply_to)
