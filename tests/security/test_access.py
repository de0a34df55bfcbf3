"""Kinds of access that no route of the table asks for yet, on routes of our own over real services."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx
import pytest
import pytest_asyncio

from pilotis.http.api.authorize import authorizer
from pilotis.http.api.endpoint import Endpoints, get
from pilotis.http.api.principals import Access, Credential, Role, console, public
from pilotis.http.api.request import Call
from pilotis.security.feature import SecurityFeature
from tests.console import owner_of
from tests.http.bare import NobodyKnown, application, serving
from tests.services import stale_node
from tests.support import App, Server, assert_error


class Routes(Endpoints, tag="Routes"):
    @get("/apps/:app_id/editor", access=console(Role.EDITOR, secret_key=True))
    async def editor(self, call: Call, app_id: UUID) -> list[Any]:
        """Ask for an editor."""
        return [call.principal.kind, call.app.app_id]

    @get("/apps/:app_id/owner", access=console(Role.OWNER, secret_key=True))
    async def owner(self, call: Call, app_id: UUID) -> list[Any]:
        """Ask for an owner."""
        return [call.principal.kind, call.app.app_id]

    @get("/apps/:app_id/people", access=console(Role.VIEWER))
    async def people(self, call: Call, app_id: UUID) -> list[Any]:
        """Ask for a console user."""
        return [call.principal.kind, call.app.app_id]

    @get("/public", access=public(scope="rows:read"))
    async def public(self, call: Call) -> list[Any]:
        """Ask for the public key."""
        return [call.principal.kind, call.app.app_id]


@pytest_asyncio.fixture
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        stale_node(server) as services,
        serving(application(Routes(), authenticator=services.features.get(SecurityFeature).authentication)) as address,
        httpx.AsyncClient(base_url=address) as made,
    ):
        yield made


async def test_a_secret_key_alone_on_console_routes_that_say_so(client: httpx.AsyncClient, app: App, other_app: App):
    key = {"Authorization": f"Bearer {app.secret_key}"}
    answer = await client.get(f"/apps/{app.app_id}/editor", headers=key)
    assert answer.json() == ["secret_key", app.app_id]
    # A key acts at most as an editor.
    assert_error(await client.get(f"/apps/{app.app_id}/owner", headers=key), 403, "ROLE_REQUIRED")
    assert_error(await client.get(f"/apps/{app.app_id}/people", headers=key), 401, "INVALID_TOKEN")
    for wrong in (other_app.secret_key, app.secret_key[:-1], app.secret_key + "x", "sk_", "sk_\xe9"):
        headers = {"Authorization": f"Bearer {wrong}".encode("latin-1")}
        assert_error(await client.get(f"/apps/{app.app_id}/editor", headers=headers), 401, "INVALID_SECRET_KEY")
    assert_error(await client.get(f"/apps/{UUID(int=1)}/editor", headers=key), 401, "INVALID_SECRET_KEY")
    assert_error(await client.get(f"/apps/{app.app_id}/editor"), 401, "TOKEN_REQUIRED")


async def test_a_console_token_with_an_app_id_acts_as_its_user(client: httpx.AsyncClient, app: App):
    user = owner_of(app)
    headers = {"Authorization": f"Bearer {user.access_token}", "X-App-Id": app.app_id}
    assert (await client.get("/public", headers=headers)).json() == ["console_user", app.app_id]
    # With a public key it is the key that names the app.
    named = {"Authorization": headers["Authorization"], "X-Public-Key": app.public_key, "X-App-Id": str(UUID(int=1))}
    assert (await client.get("/public", headers=named)).json() == ["console_user", app.app_id]
    assert_error(await client.get("/public", headers={"X-App-Id": app.app_id}), 401, "TOKEN_REQUIRED")


@pytest.mark.parametrize(
    "access",
    [
        Access(any_of=(frozenset({Credential.FUNCTION}),)),
        Access(any_of=(frozenset({Credential.OAUTH_CLIENT}),)),
        Access(any_of=(frozenset({Credential.OAUTH_TOKEN}),)),
        console(Role.VIEWER),
    ],
)
def test_a_route_that_no_request_can_satisfy_fails_at_the_start(access: Access):
    class Odd(Endpoints, tag="Odd"):
        @get("/odd", access=access)
        async def odd(self, call: Call) -> None:
            """Require an unknown credential, or a role on an app that is not in the path."""

    (endpoint,) = Odd().table()
    with pytest.raises(TypeError):
        authorizer(endpoint, NobodyKnown())
