"""A server that is killed between a mail and the relay's answer loses no proof and makes none twice."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.conftest import first_console_user, new_app
from tests.mail.smtp_server import SmtpServer, Taken
from tests.mail.test_sending import ADA, in_state
from tests.mail.world import MEMBERS, NEW_PASSWORD, account, call, post, sign_in, sign_up
from tests.support import Server
from tests.waiting import until

WAITS = b"250-"
"""An answer that does not end."""


def found_in(mail: Taken, pattern: str) -> str:
    found = re.search(pattern, mail.part("plain"))
    assert found is not None, mail.part("plain")
    return found[1]


@pytest.mark.parametrize(("where", "times"), [("MAIL", 1), ("TEXT", 2)])
async def test_after_a_kill_the_same_proof_is_mailed_again(tmp_path: Path, where: str, times: int):
    """Twice where the relay had the text; each mail has the same Message-ID, code and link."""
    told = {where: WAITS}
    async with SmtpServer(reply=lambda command: told.get(command)).listening() as smtp:
        environment = {"PILOTIS_SMTP_URL": smtp.url(), "PILOTIS_MAIL_FROM": "mail@test.invalid"}
        server = Server(tmp_path / "data", environment=environment)
        await asyncio.to_thread(server.start)
        try:
            app = await asyncio.to_thread(lambda: new_app(server, first_console_user(server)))
            ada = await sign_up(app, "ada", ADA)
            await until(lambda: where in smtp.commands or smtp.taken)
            await asyncio.to_thread(server.kill)
            told.clear()
            await asyncio.to_thread(server.start)
            await in_state(app, "sent")
            assert len(smtp.taken) == times
            assert len({(mail.message["Message-ID"], mail.part("plain")) for mail in smtp.taken}) == 1
            code = found_in(smtp.taken[-1], r"\b(\d{6})\b")
            answers = [await post(app, "/me/email/confirm", {"code": code}, ada["access_token"]) for _ in range(2)]
            assert [answer.status_code for answer in answers] == [200, 401]
            assert (await account(app, ada["access_token"]))["email"] == ADA
            # So it is for the link of a reset.
            told[where] = WAITS
            smtp.commands.clear()
            smtp.taken.clear()
            async with app.client() as client:
                assert (await client.post(f"{MEMBERS}/password-reset", json={"email": ADA})).status_code == 202
            await until(lambda: where in smtp.commands or smtp.taken)
            await asyncio.to_thread(server.kill)
            told.clear()
            await asyncio.to_thread(server.start)

            async def is_sent() -> bool:
                found = (await call(app, "GET", "/mail", params={"purpose": "reset_password"}))["data"]
                return [one["state"] for one in found] == ["sent"]

            await until(is_sent)
            assert len(smtp.taken) == times
            token = found_in(smtp.taken[-1], r"#(\S+)")
            body = {"token": token, "password": NEW_PASSWORD}
            answers = [await post(app, "/password-reset/confirm", body) for _ in range(2)]
            assert [answer.status_code for answer in answers] == [200, 401]
            assert (await sign_in(app, "ada", NEW_PASSWORD)).status_code == 200
        finally:
            await asyncio.to_thread(server.stop)
