"""`pilotis mail`: `check` and `test` with the operator's SMTP server, and the texts of an app's mails."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.commands import run
from tests.mail.smtp_server import SmtpServer
from tests.support import App, Server


@pytest.fixture
def place(mail_server: Server) -> list[str]:
    return mail_server.place


async def test_check_and_test_speak_to_the_server_of_the_settings(place: list[str], authority: Authority):
    async with SmtpServer(tls=authority.context("127.0.0.1")).listening() as smtp:
        environment = {
            "PILOTIS_SMTP_URL": smtp.url(),
            "PILOTIS_MAIL_FROM": "mail@test.invalid",
            "PILOTIS_OUTGOING_CA_FILE": str(authority.ca_file),
        }
        checked = await asyncio.to_thread(run, "mail", "check", "--json", *place, **environment)
        assert checked.returncode == 0, checked.stderr
        found = json.loads(checked.stdout)
        assert (found["domain"], found["spf"], found["dmarc"]) == ("test.invalid", None, None)
        assert "p%40ss" not in checked.stdout
        sent = await asyncio.to_thread(run, "mail", "test", "ada@example.com", *place, **environment)
        assert sent.returncode == 0, sent.stderr
        refused = await asyncio.to_thread(
            run, "mail", "check", *place, **(environment | {"PILOTIS_SMTP_URL": smtp.url(user="cafes:no")})
        )
    assert [taken.recipients for taken in smtp.taken] == [["ada@example.com"]]
    assert refused.returncode == 1
    assert "5.7.8" in refused.stderr


def test_texts_are_shown_set_and_restored(place: list[str], app: App, tmp_path: Path):
    of = ["reset_password", "fr", "--app", app.app_id, *place]
    shown = json.loads(run("mail", "templates", "show", *of, "--json").stdout)
    file = tmp_path / "text.json"
    file.write_text(json.dumps(shown | {"subject": "Bonjour"}), "utf-8")
    assert run("mail", "templates", "set", *of[:2], str(file), *of[2:]).returncode == 0
    listed = json.loads(run("mail", "templates", "list", *of[2:], "--json").stdout)
    assert [(one["purpose"], one["language"], one["subject"]) for one in listed if one["own"]] == [
        ("reset_password", "fr", "Bonjour")
    ]
    file.write_text(json.dumps(shown | {"text": "{{nothing}}"}), "utf-8")
    refused = run("mail", "templates", "set", *of[:2], str(file), *of[2:])
    assert (refused.returncode, "{{nothing}}" in refused.stderr) == (1, True)
    assert run("mail", "templates", "restore", *of).returncode == 0
    assert json.loads(run("mail", "templates", "show", *of, "--json").stdout) == shown


def test_without_a_server_in_the_settings_they_say_so(place: list[str], tmp_path: Path):
    told = run("mail", "check", *place, folder=tmp_path)
    assert (told.returncode, "smtp_url" in told.stderr) == (1, True)
