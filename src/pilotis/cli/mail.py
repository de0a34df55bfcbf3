"""`pilotis mail`: checks the SMTP server of the settings, sends a test mail by it, and changes the texts of mails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from pilotis.cli.command import Outcome, app_option, command, told
from pilotis.kit.mail_addresses import domain_of
from pilotis.serve.errors import CommandError

if TYPE_CHECKING:
    from pilotis.cli.session import Session
    from pilotis.mail.feature import MailFeature
    from pilotis.mail.templates import OwnTemplates

_RECORD_SECONDS = 5.0


@click.group()
def mail() -> None:
    """Check how mails leave this server, send a test mail, and change the texts of mails."""


@mail.group()
def templates() -> None:
    """Change the texts of an app's mails."""


@command(mail)
async def check(on: Session) -> Outcome:
    """Connect and sign in to the SMTP server of the settings, and look up SPF and DMARC of the sender's domain.

    DKIM cannot be looked up: only the SMTP server knows its selector.
    """
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
    found = {
        "smtp_url": feature.operators.server.url,
        "reply": reply,
        "domain": domain,
        "spf": await _record(domain, "v=spf1"),
        "dmarc": await _record(f"_dmarc.{domain}", "v=DMARC1"),
    }
    missing = [name.upper() for name in ("spf", "dmarc") if found[name] is None]
    said = [f"{found['domain']} has no {name} record: mail from it may be taken for spam." for name in missing]
    return Outcome(found, found, said=said)


@command(mail)
@click.argument("recipient", help="Address to send the test mail to.")
async def test(on: Session, recipient: str) -> Outcome:
    """Send a test mail by the SMTP server of the settings, and print the reply."""
    from pilotis.mail.relays import DeferredError, RejectedError

    feature = _feature(on)
    assert feature.operators is not None
    try:
        reply = await feature.mails.send_test(feature.operators, recipient)
    except (DeferredError, RejectedError) as error:
        raise CommandError(f"{feature.operators.server.url}: {error}") from None
    finally:
        await feature.close()
    sent = {"recipient": recipient, "reply": reply}
    return Outcome(sent, sent, said=[f"The SMTP server has taken the mail to {recipient}."])


@command(templates, "list")
@app_option()
async def list_(on: Session, app: UUID) -> list[dict[str, Any]]:
    """List the texts of an app's mails, and which of them are its own."""
    found = await (await _templates(on, app)).all(app)
    return [
        {"purpose": one.purpose, "language": one.language, "subject": one.subject, "own": one.is_custom}
        for one in found.templates
    ]


@command(templates)
@click.argument("purpose", help="What the mail is for, such as reset_password.")
@click.argument("language", help="The language, such as en.")
@app_option()
async def show(on: Session, purpose: str, language: str, app: UUID) -> dict[str, Any]:
    """Print a text; with `--json`, in the form that `set` takes."""
    found = await (await _templates(on, app)).read(app, purpose, language)
    return {"subject": found.subject, "text": found.text, "button": found.button}


@command(templates, "set")
@click.argument("purpose", help="What the mail is for, such as reset_password.")
@click.argument("language", help="The language, such as en.")
@click.argument("file", type=click.Path(allow_dash=True), help="JSON with subject, text and button; - for stdin.")
@app_option()
async def set_(on: Session, purpose: str, language: str, file: str, app: UUID) -> Outcome:
    """Replace a text by the app's own."""
    import msgspec

    from pilotis.http.api.principals import OPERATOR
    from pilotis.mail.types import NewMailTemplate

    try:
        with click.open_file(file, encoding="utf-8") as opened:
            new = msgspec.json.decode(opened.read(), type=NewMailTemplate)
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
        raise CommandError(f"{file}: {error}") from None
    await (await _templates(on, app)).put(app, OPERATOR, purpose, language, new)
    return told({"purpose": purpose, "language": language}, f"The app's own text is used for {purpose} in {language}.")


@command(templates)
@click.argument("purpose", help="What the mail is for, such as reset_password.")
@click.argument("language", help="The language, such as en.")
@app_option()
async def restore(on: Session, purpose: str, language: str, app: UUID) -> Outcome:
    """Use the shipped text again."""
    from pilotis.http.api.principals import OPERATOR

    await (await _templates(on, app)).restore(app, OPERATOR, purpose, language)
    return told({"purpose": purpose, "language": language}, f"The shipped text is used for {purpose} in {language}.")


async def _templates(on: Session, app: UUID) -> OwnTemplates:
    from pilotis.mail.feature import MailFeature

    await on.apps.by_id(app)
    return on.features.get(MailFeature).templates


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
