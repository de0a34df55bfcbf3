"""Clients' logos: who uploads them, what of the upload is served, and where members see it."""

import asyncio
import io
from collections.abc import AsyncIterator

import httpx
import pytest
from PIL import Image

from tests.backstage import run_sql
from tests.conftest import new_app
from tests.console import owner_of
from tests.oauth.browsing import Browser, Pkce, Provider, Registered
from tests.support import Server, assert_error, plain_client

SCRIPT = b"<script>alert(document.domain)</script>"


def picture(format_: str = "PNG", size: tuple[int, int] = (600, 300), mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    Image.new(mode, size, "teal").save(out, format_)
    return out.getvalue()


@pytest.fixture
async def console(provider: Provider) -> AsyncIterator[httpx.AsyncClient]:
    """The app's owner."""
    async with owner_of(provider.app).client(provider.app) as client:
        yield client


async def put(console: httpx.AsyncClient, client: Registered, data: bytes) -> httpx.Response:
    return await console.put(f"/oauth/clients/{client.client_id}/logo", content=data)


async def served(url: str) -> httpx.Response:
    async with plain_client(url.partition("/v1")[0]) as anyone:
        return await anyone.get(url)


@pytest.mark.parametrize(("format_", "mode"), [("PNG", "RGBA"), ("JPEG", "RGB"), ("GIF", "P"), ("WEBP", "RGB")])
async def test_a_logo_is_encoded_again_and_served_from_the_servers_own_address(
    provider: Provider, club: Registered, console: httpx.AsyncClient, format_: str, mode: str
):
    answer = await put(console, club, picture(format_, mode=mode) + SCRIPT)
    assert answer.status_code == 200, answer.text
    url = answer.json()["logo_url"]
    assert url.startswith(f"{provider.url}/v1/public/oauth/clients/{club.client_id}/logo?v=")
    found = await served(url)
    assert (found.status_code, found.headers["content-type"]) == (200, "image/webp")
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert found.headers["cache-control"] == "public, max-age=300"
    assert SCRIPT not in found.content
    with Image.open(io.BytesIO(found.content)) as image:
        assert (image.format, image.size) == ("WEBP", (256, 128))


async def test_members_see_the_logo_wherever_they_see_the_client(
    provider: Provider, club: Registered, console: httpx.AsyncClient, browser: Browser
):
    url = (await put(console, club, picture())).json()["logo_url"]
    request_id = await browser.begin(provider.authorize_url(club, Pkce()))
    async with plain_client(provider.url) as anyone:
        options = (await anyone.get(f"/v1/public/oauth/clients/{club.client_id}/login-options")).json()
    assert options["client"]["logo_url"] == url
    await browser.sign_in()
    assert (await browser.consent("info", request_id)).json()["client"]["logo_url"] == url
    await browser.consent("approve", request_id)
    bearer = {"Authorization": f"Bearer {browser.access_token}"}
    (connection,) = (await browser.http.get("/v1/account/oauth/connections", headers=bearer)).json()["data"]
    assert connection["client"]["logo_url"] == url
    (listed,) = [one for one in (await console.get("/oauth/clients")).json()["data"] if not one["first_party"]]
    assert listed["logo_url"] == url


async def test_a_logo_is_replaced_and_deleted(club: Registered, console: httpx.AsyncClient):
    first = (await put(console, club, picture())).json()["logo_url"]
    # A logo is no part of the metadata that a PUT of the client replaces.
    assert (await console.put(f"/oauth/clients/{club.client_id}", json={"name": "Tea"})).json()["logo_url"] == first
    second = (await put(console, club, picture(size=(64, 64)))).json()["logo_url"]
    assert second != first
    with Image.open(io.BytesIO((await served(first)).content)) as image:
        assert image.size == (64, 64)
    gone = await console.delete(f"/oauth/clients/{club.client_id}/logo")
    assert gone.json()["id"] == club.client_id
    assert (await console.get(f"/oauth/clients/{club.client_id}")).json()["logo_url"] is None
    assert_error(await served(second), 404, "OAUTH_LOGO_NOT_FOUND")
    assert_error(await console.delete(f"/oauth/clients/{club.client_id}/logo"), 404, "OAUTH_LOGO_NOT_FOUND")


async def test_of_uploads_at_once_one_is_served_whole(club: Registered, console: httpx.AsyncClient):
    sizes = [(side, side) for side in (16, 32, 48)]
    answers = await asyncio.gather(*(put(console, club, picture(size=size)) for size in sizes))
    assert {answer.status_code for answer in answers} == {200}
    url = (await console.get(f"/oauth/clients/{club.client_id}")).json()["logo_url"]
    assert url in {answer.json()["logo_url"] for answer in answers}
    found = await served(url)
    with Image.open(io.BytesIO(found.content)) as image:
        assert image.size in sizes


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg'>" + SCRIPT + b"</svg>",
        picture()[:60],
        b"\x89PNG\r\n\x1a\n" + SCRIPT,
        b"RIFF\0\0\0\0WEBP" + bytes(100),
        picture("TIFF"),
        picture("BMP"),
        picture(size=(9000, 9000), mode="1"),
    ],
    ids=["empty", "svg", "cut", "script", "webp", "tiff", "bmp", "81 megapixels"],
)
async def test_what_is_no_image_is_refused(club: Registered, console: httpx.AsyncClient, data: bytes):
    assert_error(await put(console, club, data), 400, "INVALID_LOGO")
    assert (await console.get(f"/oauth/clients/{club.client_id}")).json()["logo_url"] is None


async def test_a_logo_has_a_largest_size(club: Registered, console: httpx.AsyncClient):
    assert_error(await put(console, club, picture() + bytes(1_000_000)), 413, "PAYLOAD_TOO_LARGE")


async def test_a_logo_belongs_to_a_client_of_the_app_that_somebody_has_registered(
    provider: Provider, club: Registered, console: httpx.AsyncClient, signing: tuple[Server, dict[str, str]]
):
    other = new_app(*signing)
    async with owner_of(other).client(other) as stranger:
        assert_error(await put(stranger, club, picture()), 404, "OAUTH_CLIENT_NOT_FOUND")
        assert (await put(console, club, picture())).status_code == 200
        assert_error(await stranger.delete(f"/oauth/clients/{club.client_id}/logo"), 404, "OAUTH_LOGO_NOT_FOUND")
    dynamic = "update pilotis.oauth_clients set is_dynamic = true where client_id = $1"
    await run_sql(provider.app.server, dynamic, club.client_id)
    assert_error(await put(console, club, picture()), 409, "OAUTH_CLIENT_DYNAMIC")
    for name in ("x", "cl_", f"{club.client_id}%00", "https%3A%2F%2Fclub.example%2Fc", "%FF"):
        answer = await served(f"{provider.url}/v1/public/oauth/clients/{name}/logo")
        assert answer.status_code in {400, 404}, name


async def test_a_logo_ends_with_its_client_and_its_app(
    provider: Provider, club: Registered, console: httpx.AsyncClient
):
    tea = await provider.client(name="Tea")
    urls = [(await put(console, one, picture())).json()["logo_url"] for one in (club, tea)]
    assert (await console.delete(f"/oauth/clients/{club.client_id}")).status_code == 200
    assert (await served(urls[0])).status_code == 404
    rows = "select count(*) from pilotis.oauth_logos where client_id = $1"
    assert await run_sql(provider.app.server, rows, club.client_id) == 0
    assert (await served(urls[1])).status_code == 200
    assert (await console.delete("")).status_code == 200
    assert (await served(urls[1])).status_code == 404
