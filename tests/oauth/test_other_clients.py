"""oauth4webapi and arctic, from npm, as clients and as a resource server; the consent page is the test's."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from tests import shared
from tests.oauth.browsing import CALLBACK, Browser, Provider
from tests.waiting import PATIENCE

PROGRAM = Path(__file__).with_name("other_clients.mjs")
PACKAGES = ("oauth4webapi@3.8.8", "arctic@3.7.0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the libraries and the program."""
    folder = shared.install_npm(tmp_path_factory.mktemp("other-clients"), *PACKAGES)
    for file in (PROGRAM, PROGRAM.with_name("steps.mjs")):
        shutil.copy(file, folder)
    return folder


@pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="there is no node with npm, which the libraries need"
)
async def test_other_libraries_accept_every_step(provider: Provider, browser: Browser, folder: Path):
    shop = await provider.client(scopes=["openid", "profile", "offline_access"])
    spa = await provider.client(token_endpoint_auth_method="none", scopes=["openid", "offline_access"])
    given = {
        "base": provider.url,
        "resource": f"{provider.url}/apps/{provider.app.app_id}",
        "callback": CALLBACK,
        "shop": {"id": shop.client_id, "secret": shop.secret},
        "spa": {"id": spa.client_id},
    }
    process = await asyncio.create_subprocess_exec(
        "node",
        PROGRAM.name,
        json.dumps(given),
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    said = []
    try:
        async with asyncio.timeout(PATIENCE):
            async for line in process.stdout:
                said.append(line.decode().rstrip())
                if said[-1].startswith("visit "):
                    back = await browser.approve(said[-1].removeprefix("visit "))
                    process.stdin.write(json.dumps(back).encode() + b"\n")
                    await process.stdin.drain()
            assert await process.wait() == 0, "\n".join(said)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert sum(line.startswith("ok  ") for line in said) == 28, "\n".join(said)
