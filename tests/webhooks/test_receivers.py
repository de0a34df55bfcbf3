"""Receivers as the guide shows them verify real deliveries, and refuse changed ones."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from pilotis.webhooks.signatures import signature_headers, signing_key
from tests.receiver import Received, Receiver
from tests.support import App
from tests.waiting import PATIENCE, reserved_port, until
from tests.webhooks.world import create

GUIDE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text("utf-8")


def block(language: str, kind: str = "receiver") -> str:
    return re.search(rf"^```{language} {kind}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)[1]


async def delivered(app: App, receiver: Receiver) -> tuple[Received, str]:
    """A real delivery, and the secret that it was signed with."""
    webhook = await create(app, receiver.url())
    assert (await webhook.call("POST", "/test", json={}))["success"]
    return receiver.received[0], webhook.secret


async def test_the_receiver_in_python(app: App, receiver: Receiver):
    request, secret = await delivered(app, receiver)
    names: dict[str, Any] = {}
    exec(block("python"), names)
    headers = dict(request.pairs)
    assert names["verify"](request.body, headers, secret)
    assert not names["verify"](request.body + b" ", headers, secret)
    assert not names["verify"](request.body, headers | {"webhook-id": "another"}, secret)
    assert not names["verify"](request.body, headers, secret[:-5] + "AAAA=")
    moment = re.search(r"t=(\d+)", headers["X-Service-Signature"])[1]
    old = headers["X-Service-Signature"].replace(moment, str(int(moment) - 360))
    assert not names["verify"](request.body, headers | {"X-Service-Signature": old}, secret)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
async def test_the_receiver_in_javascript(app: App, receiver: Receiver):
    request, secret = await delivered(app, receiver)
    for body, answer in ((request.body, "true"), (request.body + b" ", "false")):
        call = f"console.log(verify(Buffer.from({body.hex()!r}, 'hex'), {request.headers!r}, {secret!r}))"
        assert run(["node", "-e", block("js") + call]).strip() == answer


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("language", "command"),
    [
        ("python", [sys.executable, "-c"]),
        pytest.param("js", ["node", "-e"], marks=pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")),
    ],
)
async def test_a_whole_receiver_prints_each_event_once_and_refuses_others(
    app: App, language: str, command: list[str], tmp_path: Path
):
    program = block(language) + block(language, "program")
    with reserved_port() as port:
        webhook = await create(app, f"http://127.0.0.1:{port}/")
        environment = {**os.environ, "SECRET": webhook.secret, "PORT": str(port)}
    with (tmp_path / "printed").open("w") as printed:
        process = subprocess.Popen([*command, program], env=environment, stdout=printed)  # noqa: ASYNC220
        try:
            await until(lambda: _listens(port))
            assert (await webhook.call("POST", "/test", json={}))["status_code"] == 204
            (delivery,) = await webhook.logs()
            event = {"id": delivery["event_id"], "type": "webhook.test", "subject": None}
            body = json.dumps(event).encode()
            signed = signature_headers(event["id"], body, [signing_key(webhook.secret)], int(time.time()))
            signed["Idempotency-Key"] = event["id"]
            async with httpx.AsyncClient() as client:
                for headers, status in ((signed, 204), (signed, 204), (signed | {"webhook-id": "x"}, 401), ({}, 401)):
                    answer = await client.post(f"http://127.0.0.1:{port}/", content=body, headers=headers)
                    assert answer.status_code == status
        finally:
            process.kill()
            process.wait()
    assert len((tmp_path / "printed").read_text().splitlines()) == 1


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs OpenSSL")
async def test_the_receiver_in_a_shell(app: App, receiver: Receiver, tmp_path: Path):
    request, secret = await delivered(app, receiver)
    (tmp_path / "body").write_bytes(request.body)
    values = f"ID={request.headers['webhook-id']} T={request.headers['webhook-timestamp']} SECRET='{secret}'"
    mac = run(["bash", "-euc", f"{values} BODY={tmp_path}/body\n{block('sh')}"]).strip()
    assert f"v1={mac}" in request.headers["x-service-signature"]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout
