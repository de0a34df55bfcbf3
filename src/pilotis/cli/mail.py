"""`pilotis mail`: checks the SMTP server of the settings, and sends a test mail by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pilotis.cli.command import Outcome, Place, command
from pilotis.kit.mail_addresses import domain_of
from pilotis.serve.errors import CommandError

if TYPE_CHECKING:
    from pilotis.cli.session import Session
    from pilotis.mail.feature import MailFeature

_RECORD_SECONDS = 5.0


@click.group()
def mail() -> None:
    """Check how mails leave this server, and send a test mail."""


@command(mail)
def check(place: Place) -> Outcome:
    """Connect and sign in to the SMTP server of the settings, and look up SPF and DMARC of the sender's domain.

    DKIM cannot be looked up: only the SMTP server knows its selector.
    """

    async def work(on: Session) -> dict[str, Any]:
        from pilotis.mail.relays import DeferredError

        feature = _feature(on)
        assert feature.operators is not None
        try:
            reply = await feature.mails.check(feature.operators)
        except DeferredError as error:
            raise CommandError(f"{feature.operators.server.url}: {error}") from None
        finally:
            await feature.close()
        domain = domain_of(feature.operators.sender.address)
        return {
            "smtp_url": feature.operators.server.url,
            "reply": reply,
            "domain": domain,
            "spf": await _record(domain, "v=spf1"),
            "dmarc": await _record(f"_dmarc.{domain}", "v=DMARC1"),
        }

    found = place.run(work)
    missing = [name.upper() for name in ("spf", "dmarc") if found[name] is None]
    said = [f"{found['domain']} has no {name} record: mail from it may be taken for spam." for name in missing]
    return Outcome(found, found, said=said)


@command(mail)
@click.argument("recipient", help="Address to send the test mail to.")
def test(place: Place, recipient: str) -> Outcome:
    """Send a test mail by the SMTP server of the settings, and print the reply."""

    async def work(on: Session) -> dict[str, Any]:
        from pilotis.mail.relays import DeferredError, RejectedError

        feature = _feature(on)
        assert feature.operators is not None
        try:
            reply = await feature.mails.send_test(feature.operators, recipient)
        except (DeferredError, RejectedError) as error:
            raise CommandError(f"{feature.operators.server.url}: {error}") from None
        finally:
            await feature.close()
        return {"recipient": recipient, "reply": reply}

    sent = place.run(work)
    return Outcome(sent, sent, said=[f"The SMTP server has taken the mail to {recipient}."])


def _feature(on: Session) -> MailFeature:
    from pilotis.mail.feature import MailFeature

    feature = on.features.get(MailFeature)
    if feature.operators is None:
        raise CommandError(
            "There is no smtp_url in the settings: mails are stored, and shown in the mailbox of each app."
        )
    return feature


async def _record(name: str, start: str) -> str | None:
    """Return the TXT record of a name that has a certain beginning."""
    from dns import asyncresolver, exception

    try:
        answer = await asyncresolver.resolve(name, "TXT", lifetime=_RECORD_SECONDS)
    except exception.DNSException:
        return None
    texts = [b"".join(record.strings).decode(errors="replace") for record in answer]
    return next((text for text in texts if text.startswith(start)), None)
