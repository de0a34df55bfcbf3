"""A server that signs OAuth tokens, and a provider on it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from pilotis.kit import rs256
from tests.conftest import first_console_user, new_app
from tests.oauth.browsing import PASSWORD, Browser, Provider, Registered
from tests.support import Server


@pytest.fixture(scope="session")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, str]]]:
    """A server with a signing key, and its first console user."""
    key = rs256.generate().pem().decode()
    place = tmp_path_factory.mktemp("signing") / "data"
    running = Server(place, environment={"OAUTH_RSA_PRIVATE_KEY_PEM": key}).start()
    yield running, first_console_user(running)
    running.stop()
    running.assert_no_failure()


@pytest.fixture
async def provider(signing: tuple[Server, dict[str, str]]) -> Provider:
    """A fresh app that is a provider, with the member `ada`."""
    made = await Provider(new_app(*signing)).start()
    await made.app.member("ada", PASSWORD)
    return made


@pytest.fixture
async def club(provider: Provider) -> Registered:
    """A confidential client."""
    return await provider.client(scopes=["openid", "profile", "email", "offline_access"])


@pytest.fixture
async def browser(provider: Provider) -> AsyncIterator[Browser]:
    """Ada's browser."""
    async with Browser(provider, "ada") as made:
        yield made
