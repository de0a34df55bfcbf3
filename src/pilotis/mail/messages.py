"""Builds the bytes of a mail. Pure."""

from __future__ import annotations

from email.utils import format_datetime
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from pilotis.kit import clock
from pilotis.kit.mail_addresses import Sender, domain_of

if TYPE_CHECKING:
    from email.message import EmailMessage


class Body(msgspec.Struct, frozen=True):
    """What a mail says; `link`, whose label is `button`, and `code` are parts of it, if it has them."""

    text: str
    html: str
    link: str | None = None
    code: str | None = None
    button: str | None = None


def build(
    mail_id: UUID, sender: Sender, reply_to: str | None, recipient: str, language: str, subject: str, body: Body
) -> EmailMessage:
    """Return a mail; all attempts to send it have the same Message-ID. Raises `ValueError` for a line break."""
    # A start does without them.
    from email.headerregistry import Address
    from email.message import EmailMessage
    from email.policy import SMTP

    message = EmailMessage(policy=SMTP)
    message["From"] = Address(sender.name, addr_spec=sender.address)
    message["To"] = Address(addr_spec=recipient)
    if reply_to is not None:
        message["Reply-To"] = Address(addr_spec=reply_to)
    message["Subject"] = subject
    message["Date"] = format_datetime(clock.now())
    message["Message-ID"] = f"<{mail_id}@{domain_of(sender.address)}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(body.text)
    message.add_alternative(body.html, subtype="html")
    # The content's headers replace those that are set before.
    message["Content-Language"] = language
    return message
