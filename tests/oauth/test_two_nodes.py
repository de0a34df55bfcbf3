"""Two servers on one database: a flow that begins on one ends on the other, and a race over both has one winner."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import pytest

from tests import databases, forked
from tests.backstage import claims_of
from tests.conftest import first_console_user, new_app
from tests.oauth.browsing import CALLBACK, PASSWORD, Browser, Pkce, Provider, landed, signed_in
from tests.oauth.test_dpop import proof_for, sent
from tests.receiver import Receiver
from tests.support import Server, plain_client
from tests.waiting import until

MASTER_KEY = {"PILOTIS_MASTER_KEY": "ab" * 32}


class Nodes(NamedTuple):
    """Two servers with the address of the first, and their first console user."""

    one: Server
    two: Server
    owner: dict[str, str]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Two nodes with a signing key in the database."""
    place = tmp_path_factory.mktemp("nodes")
    one = Server(place / "one", environment=MASTER_KEY).start()
    owner = first_console_user(one)
    address = url_of(databases.address(one.data_dir))
    two = Server(
        place / "two", "--database-url", address, environment={**MASTER_KEY, "PILOTIS_BASE_URL": one.url}
    ).start()
    keys(one, "create")
    yield Nodes(one, two, owner)
    two.stop()
    one.stop()


def url_of(address: dict[str, Any]) -> str:
    """The URL of a database; that of an embedded one leads to its socket."""
    if "dsn" in address:
        return str(address["dsn"])
    query = urlencode({"host": address["host"], "port": address["port"]})
    return f"postgresql://{address['user']}@/{address['database']}?{query}"


@pytest.fixture
async def provider(nodes: Nodes) -> Provider:
    made = await Provider(new_app(nodes.one, nodes.owner)).start()
    await made.app.member("ada", PASSWORD)
    return made


@pytest.fixture
async def elsewhere(provider: Provider, nodes: Nodes) -> Provider:
    """The same app, asked on the other node."""
    other = Provider(provider.app)
    other.url, other.settings = nodes.two.url, provider.settings
    return other


@pytest.fixture
async def browser(provider: Provider) -> AsyncIterator[Browser]:
    async with Browser(provider, "ada") as made:
        yield made


def keys(server: Server, *arguments: str) -> None:
    words = ["pilotis", "oauth", "keys", *arguments, *server.place]
    done = forked.run(*words, environment={**os.environ, **MASTER_KEY})
    assert done.returncode == 0, done.stderr


def published(url: str) -> list[str]:
    return [key["kid"] for key in httpx.get(f"{url}/.well-known/jwks.json").json()["keys"]]


async def test_a_flow_begins_on_one_node_and_ends_on_the_other(
    nodes: Nodes, provider: Provider, elsewhere: Provider, browser: Browser
):
    client = await provider.client(scopes=["openid", "offline_access"])
    pkce = Pkce()
    pushed = await provider.post(
        "par",
        client,
        response_type="code",
        redirect_uri=CALLBACK,
        scope="openid offline_access",
        code_challenge=pkce.challenge,
        code_challenge_method="S256",
    )
    query = httpx.QueryParams({"client_id": client.client_id, "request_uri": pushed.json()["request_uri"]})
    request_id = await browser.begin(f"{nodes.two.url}/oauth/authorize?{query}")
    await browser.sign_in()
    browser.http.base_url = httpx.URL(nodes.two.url)
    assert (await browser.consent("info", request_id)).status_code == 200
    browser.http.base_url = httpx.URL(nodes.one.url)
    back = landed((await browser.consent("approve", request_id)).json()["redirect_to"])
    form = {"grant_type": "authorization_code", "redirect_uri": CALLBACK, "code_verifier": pkce.verifier}
    tokens = await elsewhere.token(client, code=back["code"], **form)
    assert claims_of(tokens["id_token"])["iss"] == back["iss"] == provider.url
    tokens = await provider.token(client, grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    told = await elsewhere.post("introspect", client, token=tokens["access_token"])
    assert told.json()["active"] is True
    # The browser is signed in on both.
    again = await browser.visit(elsewhere.authorize_url(client, Pkce(), prompt="none"))
    assert "code=" in again.headers["location"]
    assert (await provider.post("revoke", client, token=tokens["access_token"])).status_code == 200
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    async with plain_client(nodes.two.url) as caller:
        assert (await caller.get("/oauth/userinfo", headers=bearer)).status_code == 401


async def test_of_20_redemptions_over_both_nodes_one_wins(provider: Provider, elsewhere: Provider, browser: Browser):
    client, pkce = await provider.client(), Pkce()
    code = (await browser.approve(provider.authorize_url(client, pkce)))["code"]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": pkce.verifier}
    answers = await asyncio.gather(*((provider, elsewhere)[i % 2].post("token", client, **form) for i in range(20)))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 400: 19}
    won = next(answer.json() for answer in answers if answer.status_code == 200)
    told = await provider.post("introspect", client, token=won["access_token"])
    assert told.json() == {"active": False}, "A code that was used twice left its tokens."


async def test_20_refreshes_over_both_nodes_have_one_successor(
    provider: Provider, elsewhere: Provider, browser: Browser
):
    client = await provider.client(token_endpoint_auth_method="none", scopes=["openid", "offline_access"])
    tokens = await signed_in(provider, client, browser, scope="openid offline_access")
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    answers = await asyncio.gather(*((provider, elsewhere)[i % 2].post("token", client, **form) for i in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["refresh_token"] for answer in answers}) == 1


async def test_of_20_approvals_over_both_nodes_one_counts(nodes: Nodes, provider: Provider, browser: Browser):
    client = await provider.client()
    request_id = await browser.begin(provider.authorize_url(client, Pkce()))
    await browser.sign_in()
    headers = {"Authorization": f"Bearer {browser.access_token}", **browser.origin}
    urls = [f"{(nodes.one, nodes.two)[i % 2].url}/v1/oauth/consent/approve" for i in range(20)]
    sent = (browser.http.post(url, json={"request_id": request_id}, headers=headers) for url in urls)
    answers = await asyncio.gather(*sent)
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 19}


async def test_a_proof_is_good_on_one_node_alone(nodes: Nodes, provider: Provider, elsewhere: Provider):
    robot = await provider.client(grant_types=["client_credentials"], redirect_uris=[], scopes=[])
    proof = proof_for(provider, "/oauth/token")
    form = {"grant_type": "client_credentials"}
    answers = await asyncio.gather(*(sent((provider, elsewhere)[i % 2], robot, form, proof) for i in range(10)))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 400: 9}


async def test_signing_out_on_one_node_is_known_on_the_other_and_told_once(
    nodes: Nodes, provider: Provider, elsewhere: Provider, browser: Browser
):
    async with Receiver.listening() as receiver:
        client = await provider.client(backchannel_logout_uri=receiver.url("/logout"))
        tokens = await signed_in(provider, client, browser)
        async with plain_client(nodes.two.url) as caller:
            headers = {
                "X-Public-Key": provider.app.public_key,
                "Authorization": f"Bearer {browser.access_token}",
            }
            assert (await caller.post("/v1/public/app-members/signout", headers=headers)).status_code == 200
        told = await provider.post("introspect", client, token=tokens["access_token"])
        assert told.json() == {"active": False}
        await until(lambda: receiver.received)
        silent = await browser.visit(elsewhere.authorize_url(client, Pkce(), prompt="none"))
        assert landed(silent.headers["location"])["error"] == "login_required"
        assert len(receiver.received) == 1


async def test_both_nodes_see_a_rotated_key(nodes: Nodes, provider: Provider, elsewhere: Provider):
    robot = await provider.client(grant_types=["client_credentials"], redirect_uris=[], scopes=[])
    old = (await provider.token(robot, grant_type="client_credentials"))["access_token"]
    before = published(nodes.one.url)
    keys(nodes.one, "rotate")
    # The new key is published by both before it signs.
    await until(lambda: all(len(published(node.url)) == 2 for node in (nodes.one, nodes.two)))
    assert published(nodes.one.url) == published(nodes.two.url)
    keys(nodes.one, "rotate", "--now")
    await until(lambda: all(not set(before) & set(published(node.url)) for node in (nodes.one, nodes.two)))
    (kid,) = published(nodes.two.url)
    for issued, asked in ((provider, elsewhere), (elsewhere, provider)):
        new = (await issued.token(robot, grant_type="client_credentials"))["access_token"]
        told = await asked.post("introspect", robot, token=new)
        assert told.json()["active"] is True
        told = await asked.post("introspect", robot, token=old)
        assert told.json() == {"active": False}, kid
