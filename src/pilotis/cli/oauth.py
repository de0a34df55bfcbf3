"""`pilotis oauth`: signing keys, scopes and clients, and a check of the provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from pilotis.cli.command import Outcome, Place, app_option, command, told

if TYPE_CHECKING:
    from pilotis.cli.session import Session
    from pilotis.oauth.clients import Clients
    from pilotis.oauth.keys import SigningKeys

_ALL = 1000
_SHOWN = ("client_id", "client_secret", "name", "client_type", "grant_types", "redirect_uris", "scopes", "is_active")
_NOT_SHOWN_AGAIN = "Store the secret safely: it is not shown again."
_NO_PROVIDER = (
    "The app is no provider yet, so the client gets no tokens: set is_provider, in the console or by the API."
)


@click.group()
def oauth() -> None:
    """Manage the OAuth provider."""


@oauth.group()
def keys() -> None:
    """Create, rotate and list the keys that sign OAuth tokens."""


@command(keys)
async def create(on: Session) -> Outcome:
    """Create the first key. Running servers sign with it immediately."""
    made = _fields(await _keys(on).create())
    return Outcome(made, [f"The key {made['kid']} signs OAuth tokens from now on."])


@command(keys)
@click.option(
    "--now",
    is_flag=True,
    help="After a theft: the new key signs immediately, and all tokens signed with the old one become invalid.",
)
async def rotate(on: Session, now: bool) -> Outcome:
    """Rotate the key. The new one signs after ten minutes; the old one verifies tokens for one more day."""
    made = _fields(await _keys(on).rotate(at_once=now))
    return Outcome(made, [f"The key {made['kid']} signs OAuth tokens from {made['signs_from']} on."])


@command(keys, none="There is no key; `pilotis oauth keys create` creates one.")
async def list_(on: Session) -> list[dict[str, Any]]:
    """List the keys: the one that signs, the next one, and those that still verify."""
    return [_fields(found) for found in await _keys(on).all()]


@command(keys)
async def export(on: Session) -> Outcome:
    """Print the public key set as JSON, like `/.well-known/jwks.json`."""
    from pilotis.kit import json

    found = (await _keys(on).current()).key_set()
    return Outcome(found, [json.encode(found).decode()])


@command(oauth)
@click.option("--url", help="The provider's address. Default: base_url.")
def check(place: Place, url: str | None) -> Outcome:
    """Check a running provider as its clients reach it: discovery, keys, https and the proxy."""
    from pilotis.cli.oauth_check import findings

    address = url or place.settings.base_url
    if address is None:
        raise click.UsageError("Give the provider's address with --url, or set base_url.")
    if not address.startswith(("http://", "https://")):
        raise click.UsageError("The address must begin with https:// or http://.")
    found = list(findings(address.rstrip("/")))
    lines = [f"ok    {one.name}" if one.is_good else f"FAIL  {one.name}: {one.advice}" for one in found]
    return Outcome([one._asdict() for one in found], lines, status=0 if all(one.is_good for one in found) else 1)


@oauth.group()
def scope() -> None:
    """Set, list and delete the scopes that an app offers."""


@command(scope, "set")
@click.argument("name", help="The scope's name, such as orders:read.")
@app_option()
@click.option("--title", required=True, help="What members read of it.")
@click.option("--description", default="", help="More about it, for members.")
@click.option("--default", "is_default", is_flag=True, help="Granted to clients that ask for no scope.")
@click.option("--required", "is_required", is_flag=True, help="No member can decline it.")
async def set_(
    on: Session, name: str, app: UUID, title: str, description: str, is_default: bool, is_required: bool
) -> Outcome:
    """Offer a scope, or change what it means."""
    from pilotis.http.api.principals import OPERATOR
    from pilotis.oauth.types import ApiScopeChange

    await on.apps.by_id(app)
    change = ApiScopeChange(title, description, is_default, is_required)
    made = _fields(await _clients(on).put_scope(app, OPERATOR, name, change))
    return told(made, f"Clients of the app may ask for {name}; members read: {made['title']}.")


@command(scope, "list", none="The app offers no scopes of its own.")
@app_option()
async def list_scopes(on: Session, app: UUID) -> list[dict[str, Any]]:
    """List the app's own scopes."""
    from pilotis.http.api.schemas import Paging

    page = await _clients(on).scopes(await on.apps.by_id(app), Paging(limit=_ALL))
    return [_fields(found) for found in page.data]


@command(scope, "delete")
@click.argument("name", help="The scope's name, such as orders:read.")
@app_option()
async def delete_scope(on: Session, name: str, app: UUID) -> Outcome:
    """Withdraw a scope that no client may ask for."""
    from pilotis.http.api.principals import OPERATOR

    await _clients(on).delete_scope(app, OPERATOR, name)
    return Outcome({"name": name}, [f"The app no longer offers {name}."])


@oauth.group()
def client() -> None:
    """Register, change and delete the programs that may sign members in."""


_REDIRECTS = click.option("--redirect-uri", metavar="URI", multiple=True, help="Where members return to; repeatable.")
_SCOPES = click.option("--scope", "scopes", metavar="NAME", multiple=True, help="What it may ask for; repeatable.")


@command(client, "create")
@app_option()
@click.option("--name", required=True, help="What members see.")
@_REDIRECTS
@_SCOPES
@click.option("--public", is_flag=True, help="Without a secret, such as an app on a phone or a page.")
@click.option("--own", is_flag=True, help="Acts for itself (client_credentials), and signs nobody in.")
async def create_client(
    on: Session,
    app: UUID,
    name: str,
    redirect_uri: tuple[str, ...],
    scopes: tuple[str, ...],
    public: bool,
    own: bool,
) -> Outcome:
    """Register a client and print it. Its secret is shown only once."""
    from pilotis.http.api.principals import OPERATOR
    from pilotis.oauth.registry import find_client
    from pilotis.oauth.types import NewClient

    await on.apps.by_id(app)
    new = NewClient(name, redirect_uris=list(redirect_uri), scopes=list(scopes) or ([] if own else ["openid"]))
    if public:
        new.token_endpoint_auth_method = "none"  # noqa: S105 - a name
    if own:
        new.grant_types = ["client_credentials"]
    made = _fields(await _clients(on).create(app, OPERATOR, new, source="cli"))
    known = await find_client(on.database, made["client_id"])
    is_provider = known is not None and known.provider.is_provider
    said = [_NOT_SHOWN_AGAIN] if made.get("client_secret") else []
    return Outcome(made, _shown(made), said=said if is_provider else [*said, _NO_PROVIDER])


@command(client, "list", none="The app has no clients.")
@app_option()
async def list_clients(on: Session, app: UUID) -> list[dict[str, Any]]:
    """List the app's clients, the oldest first."""
    from pilotis.http.api.schemas import Paging

    page = await _clients(on).page(await on.apps.by_id(app), Paging(limit=_ALL))
    shown = ("client_id", "name", "client_type", "is_active", "source", "last_used_at")
    return [{name: getattr(found, name) for name in shown} for found in page.data]


@command(client, "show")
@click.argument("client_id", help="The client's id.")
@app_option()
async def show_client(on: Session, client_id: str, app: UUID) -> dict[str, Any]:
    """Show a client."""
    return _fields(await _clients(on).read(app, client_id))


@command(client, "update")
@click.argument("client_id", help="The client's id.")
@app_option()
@click.option("--name", help="What members see.")
@_REDIRECTS
@_SCOPES
@click.option("--active/--inactive", "is_active", default=None, help="Whether it may be used.")
async def update_client(
    on: Session,
    client_id: str,
    app: UUID,
    name: str | None,
    redirect_uri: tuple[str, ...],
    scopes: tuple[str, ...],
    is_active: bool | None,
) -> Outcome:
    """Change a client; lists that are given replace the ones it has."""
    from msgspec import UNSET

    from pilotis.http.api.principals import OPERATOR
    from pilotis.oauth.types import ClientChange

    change = ClientChange(
        name=name or UNSET,
        redirect_uris=list(redirect_uri) or UNSET,
        scopes=list(scopes) or UNSET,
        is_active=UNSET if is_active is None else is_active,
    )
    changed = _fields(await _clients(on).change(app, OPERATOR, client_id, change))
    return Outcome(changed, _shown(changed), said=["The client is changed."])


@command(client, "rotate-secret")
@click.argument("client_id", help="The client's id.")
@app_option()
@click.option("--now", is_flag=True, help="After a leak: the secret before is void at once, not after a day.")
async def rotate_secret(on: Session, client_id: str, app: UUID, now: bool) -> Outcome:
    """Replace a client's secret and print the new one."""
    from pilotis.http.api.principals import OPERATOR

    made = _fields(await _clients(on).regenerate_secret(app, OPERATOR, client_id, 0 if now else 86_400))
    until = made["previous_secret_expires_at"]
    before = f"The previous secret is valid until {until}." if until else "The previous secret is no longer valid."
    return Outcome(made, _shown(made), said=[_NOT_SHOWN_AGAIN, before])


@command(client, "delete")
@click.argument("client_id", help="The client's id.")
@app_option()
async def delete_client(on: Session, client_id: str, app: UUID) -> Outcome:
    """Delete a client: its tokens are void at once."""
    from pilotis.http.api.principals import OPERATOR

    await _clients(on).delete(app, OPERATOR, client_id)
    return Outcome({"client_id": client_id}, [f"The client {client_id} is deleted, and its tokens are void."])


def _clients(on: Session) -> Clients:
    from pilotis.oauth.feature import OAuthFeature

    return on.features.get(OAuthFeature).clients


def _fields(found: Any) -> dict[str, Any]:
    from msgspec.structs import asdict

    return asdict(found)


def _shown(client: dict[str, Any]) -> dict[str, Any]:
    return {name: client[name] for name in _SHOWN if name in client}


def _keys(on: Session) -> SigningKeys:
    from pilotis.oauth.feature import OAuthFeature

    return on.features.get(OAuthFeature).keys
