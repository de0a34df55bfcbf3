"""Sends a mail to servers between which and us somebody has taken STARTTLS away, and prints what was sent to each.

`python -m tests.mail.stripped FOLDER`, where 203.0.113.25 is an address of this machine; the folder has a certificate's
authority.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from pilotis.http.outgoing import Outgoing, OutgoingSettings
from pilotis.kit.mail_addresses import Sender
from pilotis.kit.smtp_urls import parse_smtp_url
from pilotis.mail.relays import DeferredError, Relay, Relays
from tests.certificates import Authority
from tests.mail.smtp_server import SmtpServer

ADDRESS = "203.0.113.25"


def answering(**told: bytes) -> dict[str, Any]:
    return {"reply": lambda verb: told.get(verb)}


def servers(authority: Authority) -> Iterator[tuple[str, SmtpServer]]:
    tls = authority.context(ADDRESS)
    yield "whole", SmtpServer(host=ADDRESS, tls=tls)
    yield "not offered", SmtpServer(host=ADDRESS)
    yield "refused", SmtpServer(host=ADDRESS, tls=tls, **answering(STARTTLS=b"454 not now\r\n"))
    yield "unknown", SmtpServer(host=ADDRESS, tls=tls, **answering(STARTTLS=b"502 what\r\n"))
    # What was sent before the handshake must not count as said after it (CVE-2011-0411).
    ahead = b"220 go\r\n250-test\r\n250 AUTH PLAIN\r\n235 welcome\r\n"
    yield "answered ahead", SmtpServer(host=ADDRESS, tls=tls, **answering(STARTTLS=ahead))


async def main(folder: Path) -> None:
    authority = Authority(folder)
    settings = OutgoingSettings(host="0.0.0.0", base_url="https://api.example.com", ca_file=str(authority.ca_file))
    message = EmailMessage()
    message["Subject"] = "Hello"
    message.set_content("Hello")
    results = {}
    for name, smtp in servers(authority):
        outgoing = Outgoing(settings)
        relays = Relays(lambda outgoing=outgoing: outgoing, "api.example.com")
        async with smtp.listening():
            relay = Relay(
                parse_smtp_url(smtp.url(ADDRESS)), Sender("Cafes", "cafes@example.com"), None, is_operators=True
            )
            try:
                reply = await relays.send(relay, message, "ada@example.com")
            except DeferredError:
                reply = None
            await relays.close()
        encrypted = [mail.is_encrypted for mail in smtp.taken]
        results[name] = {"reply": reply, "taken": encrypted, "commands": smtp.commands}
    print(json.dumps(results))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
