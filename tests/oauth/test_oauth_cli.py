"""`pilotis oauth scope|client`, beside a running server."""

import json
import re

from tests.commands import run
from tests.oauth.browsing import Provider, Registered
from tests.support import App


def pilotis(provider: Provider, *arguments: str, status: int = 0) -> str:
    return on_app(provider.app, *arguments, status=status)


def on_app(app: App, *arguments: str, status: int = 0) -> str:
    place = [*app.server.place, "--app", app.app_id]
    done = run("oauth", *arguments, *place)
    assert done.returncode == status, done
    return done.stdout + done.stderr


async def test_a_client_of_an_app_that_is_no_provider_is_told(provider: Provider, other_app: App):
    create = ("client", "create", "--name", "Robot", "--own")
    assert "set is_provider" in on_app(other_app, *create)
    assert "is_provider" not in pilotis(provider, *create)


async def test_scopes_and_clients_are_managed_on_the_command_line(provider: Provider):
    said = pilotis(provider, "scope", "set", "orders:read", "--title", "See your orders")
    assert said == "Clients of the app may ask for orders:read; members read: See your orders.\n"
    assert "orders:read" in pilotis(provider, "scope", "list")
    made = json.loads(
        pilotis(provider, "client", "create", "--name", "Robot", "--own", "--scope", "orders:read", "--json")
    )
    assert made["source"] == "cli"
    client = Registered(made["client_id"], made["client_secret"])
    assert (await provider.token(client, grant_type="client_credentials"))["scope"] == "orders:read"
    assert made["client_id"] in pilotis(provider, "client", "list")
    assert made["client_secret"] not in pilotis(provider, "client", "show", made["client_id"])
    new = json.loads(pilotis(provider, "client", "rotate-secret", made["client_id"], "--now", "--json"))
    await provider.token(client, 401, grant_type="client_credentials")
    client = Registered(made["client_id"], new["client_secret"])
    assert await provider.token(client, grant_type="client_credentials")
    said = pilotis(provider, "client", "rotate-secret", made["client_id"])
    assert "not shown again" in said
    assert "The previous secret is valid until" in said
    said = pilotis(provider, "client", "update", made["client_id"], "--inactive", "--name", "Old robot")
    assert re.search(r"^name +Old robot$", said, re.MULTILINE)
    assert said.endswith("The client is changed.\n")
    await provider.token(client, 401, grant_type="client_credentials")
    assert "Old robot" in pilotis(provider, "client", "show", made["client_id"])
    pilotis(provider, "scope", "delete", "orders:read", status=1)
    pilotis(provider, "client", "delete", made["client_id"])
    pilotis(provider, "scope", "delete", "orders:read")
    assert "no scopes" in pilotis(provider, "scope", "list")
