"""The libraries of Standard Webhooks and of Svix, from PyPI and npm, verify deliveries and refuse changed ones."""

import asyncio
import base64
import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import standardwebhooks
from svix import webhooks as svix

from pilotis.webhooks.signatures import new_secret, signature_headers, signing_key
from tests import shared
from tests.receiver import Received, Receiver
from tests.support import App
from tests.waiting import PATIENCE
from tests.webhooks.world import create, received

PROGRAM = Path(__file__).with_name("libraries.cjs")
VERSIONS = {"standardwebhooks": "1.1.1", "svix": "2.5.0"}
NEEDS_NODE = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="there is no node with npm, which the libraries need"
)


@dataclass
class Case:
    """What a receiver has got, the secret it knows, and whether it should accept."""

    name: str
    secret: str
    body: bytes
    headers: dict[str, str]
    is_good: bool = False


@pytest.fixture
async def cases(app: App, receiver: Receiver) -> list[Case]:
    """Real deliveries before, within and after the overlap of a rotation, and what attackers send."""
    table_id = await app.table({"text": "string"})
    webhook = await create(app, receiver.url(), ["row.created"])
    first = webhook.secret
    await app.row(table_id, {"text": "tea ☕"})
    await received(receiver)
    second = (await webhook.call("POST", "/regenerate-secret", json={"overlap_seconds": 3600}))["secret"]
    # A process reads a webhook again after a second.
    await asyncio.sleep(1.1)
    await app.row(table_id, {"text": "coffee"})
    await received(receiver, 2)
    third = (await webhook.call("POST", "/regenerate-secret", json={"overlap_seconds": 0}))["secret"]
    await asyncio.sleep(1.1)
    await app.row(table_id, {"text": "water"})
    await received(receiver, 3)
    before, within, after = receiver.received
    return [
        sent("before the rotation", first, before, is_good=True),
        sent("by the previous secret within the overlap", first, within, is_good=True),
        sent("by the new secret within the overlap", second, within, is_good=True),
        sent("after a rotation without overlap", third, after, is_good=True),
        sent("by a secret that was leaked and replaced", second, after),
        sent("by another secret", new_secret(), before),
        *forged(first, before),
    ]


def sent(name: str, secret: str, request: Received, *, is_good: bool = False) -> Case:
    return Case(name, secret, request.body, request.headers, is_good)


def forged(secret: str, request: Received) -> list[Case]:
    """Each part of a delivery changed, and one that was signed six minutes ago."""
    moment = int(request.headers["webhook-timestamp"])
    old = signature_headers(request.headers["webhook-id"], request.body, [signing_key(secret)], int(time.time()) - 360)
    replaced = {
        "another event": {"webhook-id": "0199a1b2-0000-7000-8000-000000000000"},
        "another timestamp": {"webhook-timestamp": str(moment + 1)},
        "no signature": {"webhook-signature": ""},
        "of six minutes ago": {name.lower(): value for name, value in old.items()},
    }
    return [
        Case("one byte more", secret, request.body + b" ", request.headers),
        Case("one byte changed", secret, request.body.replace(b"tea", b"pea"), request.headers),
        *(Case(name, secret, request.body, request.headers | headers) for name, headers in replaced.items()),
    ]


def check(cases: Sequence[Case], verdicts: Sequence[bool]) -> None:
    named = {case.name: verdict for case, verdict in zip(cases, verdicts, strict=True)}
    assert named == {case.name: case.is_good for case in cases}


def verdict(library: type, error: type[Exception], case: Case) -> bool:
    try:
        library(case.secret).verify(case.body.decode(), case.headers)
    except error:
        return False
    return True


async def test_standardwebhooks_from_pypi(cases: list[Case]):
    library, error = standardwebhooks.Webhook, standardwebhooks.WebhookVerificationError
    check(cases, [verdict(library, error, case) for case in cases])


async def test_svix_from_pypi(cases: list[Case]):
    check(cases, [verdict(svix.Webhook, svix.WebhookVerificationError, case) for case in cases])


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which npm has installed the libraries, with the program that uses them."""
    packages = [f"{name}@{version}" for name, version in VERSIONS.items()]
    folder = shared.install_npm(tmp_path_factory.mktemp("webhook-libraries"), *packages)
    shutil.copy(PROGRAM, folder)
    return folder


@NEEDS_NODE
@pytest.mark.parametrize("library", VERSIONS)
async def test_libraries_from_npm(cases: list[Case], library: str, modules: Path):
    given = [
        {"secret": case.secret, "body": base64.b64encode(case.body).decode(), "headers": case.headers} for case in cases
    ]
    done = await asyncio.to_thread(
        subprocess.run,
        ["node", modules / PROGRAM.name, library],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    check(cases, json.loads(done.stdout))
