"""Any issuer of OpenID Connect: oidc-provider, from npm, is the vendor behind social login."""

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from tests import shared
from tests.oauth.browsing import Browser as MemberBrowser
from tests.oauth.browsing import Provider, Registered, signed_in
from tests.oauth.test_social_login import PAGE, Page
from tests.oauth.vendors import parameters
from tests.support import plain_client

PROGRAM = Path(__file__).with_name("social_vendor.mjs")
PACKAGE = "oidc-provider@9.5.2"
SECRET = "simpleSecret_0123456789-abcdef"

pytestmark = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="there is no node with npm, which the vendor needs"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the vendor."""
    folder = shared.install_npm(tmp_path_factory.mktemp("oidc-provider"), PACKAGE)
    shutil.copy(PROGRAM, folder)
    return folder


@pytest.fixture
def issuer(folder: Path, provider: Provider) -> Iterator[str]:
    """The vendor's address, while it runs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = json.dumps({"port": port, "redirect_uri": f"{provider.url}/v1/public/oauth/corp/callback"})
    process = subprocess.Popen(
        ["node", PROGRAM.name, given], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert any("ready" in line for line in process.stdout)
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.communicate()


async def walk(url: str) -> httpx.Response:
    """Sign in and agree on the vendor's pages, and return what Pilotis' callback answers."""
    async with httpx.AsyncClient(timeout=120) as browser:
        answer = await browser.get(url)
        while "/callback" not in str(answer.url.path):
            if answer.is_redirect:
                answer = await browser.get(urljoin(str(answer.url), answer.headers["location"]))
                continue
            assert answer.status_code == 200, answer.text
            action = re.search(r'action="([^"]+)"', answer.text)
            assert action, answer.text
            prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)
            assert prompt, answer.text
            form = {"prompt": prompt[1], **({"login": "grace", "password": "x"} if prompt[1] == "login" else {})}
            answer = await browser.post(urljoin(str(answer.url), action[1]), data=form)
        return answer


async def corp(provider: Provider, issuer: str, **options: object) -> Page:
    provider.settings = await provider.asked("PUT", "settings", {"login_redirect_uris": [PAGE]})
    body = {"client_id": "pilotis", "client_secret": SECRET, "options": {"issuer": issuer, "name": "Corp", **options}}
    await provider.asked("PUT", "social/CORP", body)
    return Page(provider, "corp")


async def test_a_member_signs_in_at_a_strict_issuer(provider: Provider, issuer: str):
    page = await corp(provider, issuer)
    came = await walk(await page.url())
    assert came.status_code == 303, came.text
    answer = await page.exchange(parameters(came.headers["location"])["code"])
    assert answer.status_code == 200, answer.text
    assert (answer.json()["provider"], answer.json()["nickname"]) == ("CORP", "Grace")
    again = parameters((await walk(await page.url())).headers["location"])["code"]
    assert (await page.exchange(again)).json()["member_id"] == answer.json()["member_id"]


@pytest.mark.parametrize("trusted", [True, False])
async def test_userinfo_and_amr_tell_what_the_issuer_has_verified(
    provider: Provider, club: Registered, issuer: str, trusted: bool
):
    page = await corp(provider, issuer, trust_email=trusted)
    code = parameters((await walk(await page.url())).headers["location"])["code"]
    token = (await page.exchange(code)).json()["access_token"]
    async with MemberBrowser(provider, "nobody") as browser:

        async def sign_in() -> str:
            browser.access_token = token
            return token

        browser.sign_in = sign_in  # type: ignore[method-assign]
        tokens = await signed_in(provider, club, browser, scope="openid email profile")
    async with plain_client(provider.url, Authorization=f"Bearer {tokens['access_token']}") as client:
        claims = (await client.get("/oauth/userinfo")).json()
    assert claims["name"] == "Grace"
    told = {"email": "grace@example.test", "email_verified": True} if trusted else {}
    assert {name: value for name, value in claims.items() if name.startswith("email")} == told
    from pilotis.kit.crypto import from_base64url

    payload = json.loads(from_base64url(tokens["id_token"].split(".")[1]) or b"")
    assert payload["amr"] == ["fed"]


async def test_an_issuer_that_cannot_be_reached_begins_nothing(provider: Provider, issuer: str):
    page = await corp(provider, issuer.replace("127.0.0.1", "localhost"))
    # The document names another issuer than the one asked for.
    assert (await page.ask()).json()["code"] == "PROVIDER_NOT_ENABLED"
    page = await corp(provider, "https://169.254.169.254")
    assert (await page.ask()).json()["code"] == "PROVIDER_NOT_ENABLED"
