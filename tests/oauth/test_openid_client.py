"""openid-client, from npm, walks through the whole flow as its users' programs do."""

import asyncio
import json
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import shared
from tests.accounts.authenticator import enrolled
from tests.console import owner_of
from tests.oauth.browsing import PASSWORD, Provider
from tests.support import App
from tests.waiting import PATIENCE

PROGRAM = Path(__file__).with_name("openid_flow.mjs")
PACKAGE = "openid-client@6.8.9"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library and the program."""
    folder = shared.install_npm(tmp_path_factory.mktemp("openid-client"), PACKAGE)
    for file in (PROGRAM, PROGRAM.with_name("steps.mjs")):
        shutil.copy(file, folder)
    return folder


def run(folder: Path, given: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    command = ["node", "openid_flow.mjs", json.dumps(given)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)


async def sign_up(app: App, **credentials: str) -> dict[str, Any]:
    async with app.client() as client:
        return (await client.post("/v1/public/app-members/signup", json=credentials)).json()


@pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="there is no node with npm, which the library needs"
)
async def test_openid_client_accepts_every_step(provider: Provider, folder: Path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    await provider.scope("orders:read")
    back = {
        "redirect_uris": [f"http://127.0.0.1:{port}/cb"],
        "post_logout_redirect_uris": [f"http://127.0.0.1:{port}/out"],
    }
    shop = await provider.client(
        **back,
        grant_types=["authorization_code", "refresh_token", "client_credentials"],
        scopes=["openid", "profile", "email", "offline_access", "orders:read"],
        backchannel_logout_uri=f"http://127.0.0.1:{port}/bcl",
    )
    spa = await provider.client(**back, token_endpoint_auth_method="none", scopes=["openid", "offline_access"])
    async with owner_of(provider.app).client(provider.app) as console:
        assert (await console.patch("/account-settings", json={"second_factor": "optional"})).status_code == 200
    bea = {"login_id": "bea", "password": PASSWORD}
    _, codes = await enrolled(provider.app, (await sign_up(provider.app, **bea))["access_token"])
    given = {
        "base": provider.url,
        "public_key": provider.settings["public_key"],
        "login_id": "ada",
        "password": PASSWORD,
        "strong": {**bea, "recovery_code": codes[0]},
        "port": port,
        "confidential": {"id": shop.client_id, "secret": shop.secret},
        "spa": {"id": spa.client_id},
    }
    done = await asyncio.to_thread(run, folder, given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok  ") == 24
