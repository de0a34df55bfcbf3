"""Used DPoP proofs after a crash of PostgreSQL: they are forgotten, and none of them is accepted again.

PostgreSQL empties unlogged tables when it recovers from a crash; the tests empty them as it does. They have a server of
their own, as an epoch is all apps'.
"""

from collections.abc import Iterator

import httpx
import pytest

from pilotis.kit import rs256
from tests.backstage import run_sql
from tests.conftest import first_console_user, new_app
from tests.oauth.browsing import Provider, Registered
from tests.oauth.test_dpop import proof_for, sent
from tests.support import Server

pytestmark = pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
FORM = {"grant_type": "client_credentials"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, str]]]:
    """Two workers with a signing key."""
    key = rs256.generate().pem().decode()
    place = tmp_path_factory.mktemp("epochs") / "data"
    running = Server(place, "--workers", "2", environment={"OAUTH_RSA_PRIVATE_KEY_PEM": key}).start()
    yield running, first_console_user(running)
    running.stop()


@pytest.fixture
async def provider(own: tuple[Server, dict[str, str]]) -> Provider:
    return await Provider(new_app(*own)).start()


@pytest.fixture
async def robot(provider: Provider) -> Registered:
    return await provider.client(grant_types=["client_credentials"], redirect_uris=[], scopes=[])


async def crash(server: Server) -> None:
    await run_sql(server, "truncate pilotis.oauth_used_proofs, pilotis.oauth_proof_epochs")


async def settle(server: Server) -> None:
    await run_sql(server, "update pilotis.oauth_proof_epochs set began_at = began_at - interval '3 minutes'")


def refused(answer: httpx.Response, error: str) -> str:
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"] == error
    return answer.headers["dpop-nonce"]


async def accepted(provider: Provider, robot: Registered, nonce: str) -> None:
    """A proof with the newest nonce is good, whichever worker gets it and has heard of the epoch or not."""
    for _ in range(8):
        proof = proof_for(provider, "/oauth/token", claims={"nonce": nonce})
        answer = await sent(provider, robot, FORM, proof)
        if answer.status_code == 400:
            nonce = refused(answer, "use_dpop_nonce")
            proof = proof_for(provider, "/oauth/token", claims={"nonce": nonce})
            answer = await sent(provider, robot, FORM, proof)
        assert answer.status_code == 200, answer.text


async def test_the_tables_do_not_wait_for_the_disk(own: tuple[Server, dict[str, str]]):
    for table in ("oauth_used_proofs", "oauth_proof_epochs"):
        query = "select relpersistence::text from pg_class where oid = $1::text::regclass"
        assert await run_sql(own[0], query, f"pilotis.{table}") == "u"


async def test_no_proof_from_before_a_crash_is_accepted_again(provider: Provider, robot: Registered):
    server = provider.app.server
    await settle(server)
    plain = proof_for(provider, "/oauth/token")
    first = await sent(provider, robot, FORM, plain)
    if first.status_code == 400:  # A worker that had not heard of the epoch.
        plain = proof_for(provider, "/oauth/token", claims={"nonce": refused(first, "use_dpop_nonce")})
        first = await sent(provider, robot, FORM, plain)
    assert first.status_code == 200, first.text
    with_nonce = proof_for(provider, "/oauth/token", claims={"nonce": first.headers["dpop-nonce"]})
    assert (await sent(provider, robot, FORM, with_nonce)).status_code == 200
    refused(await sent(provider, robot, FORM, with_nonce), "invalid_dpop_proof")

    await crash(server)
    for proof in (plain, with_nonce):
        for _ in range(6):
            refused(await sent(provider, robot, FORM, proof), "use_dpop_nonce")
    nonce = refused(await sent(provider, robot, FORM, proof_for(provider, "/oauth/token")), "use_dpop_nonce")
    await accepted(provider, robot, nonce)


async def test_after_two_minutes_proofs_need_no_nonce(provider: Provider, robot: Registered):
    server = provider.app.server
    await crash(server)
    refused(await sent(provider, robot, FORM, proof_for(provider, "/oauth/token")), "use_dpop_nonce")
    await settle(server)
    for _ in range(4):
        answer = await sent(provider, robot, FORM, proof_for(provider, "/oauth/token"))
        assert answer.status_code == 200, answer.text
