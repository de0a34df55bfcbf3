"""`pilotis event-type` and `pilotis event`: an app's own event types, and publishing events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from pilotis.cli.command import Outcome, app_option, command, told

if TYPE_CHECKING:
    from pilotis.cli.session import Session
    from pilotis.integrations.feature import IntegrationsFeature
    from pilotis.integrations.types import EventTypeDefinition


@click.group()
def event_type() -> None:
    """Declare an app's own event types."""


@click.group()
def event() -> None:
    """Publish events of an app's own types."""


@command(event_type, "set")
@click.argument("name", metavar="TYPE", help="The event type, such as order.paid.")
@app_option()
@click.option("--title", default="", help="A readable title.")
@click.option("--scope", help="The scope that consumers must have.")
@click.option("--example", metavar="JSON", help="An example of the data.")
@click.option(
    "--source", metavar="JSON", help='Derive the event from rows: {"event", "table_id", "fields", "member_from"}.'
)
async def set_(
    on: Session, name: str, app: UUID, title: str, scope: str | None, example: str | None, source: str | None
) -> Outcome:
    """Declare an event type, or replace it."""
    from pilotis.http.api.principals import OPERATOR

    body = _body(title, scope, example, source)
    info = await on.apps.by_id(app)
    declared, is_new = await _feature(on).types.put(info, OPERATOR, name, body)
    done = {"event_type": declared.event_type, "version": declared.version, "new": is_new}
    verb = "declared" if done["new"] else "replaced"
    return told(done, f"The event type {name} is {verb}; its version is {done['version']}.")


@command(event_type, none="The app has declared no event type.")
@app_option()
async def list_(on: Session, app: UUID) -> list[dict[str, Any]]:
    """List the event types that an app has declared."""
    await on.apps.by_id(app)
    return [
        {
            "event_type": one.event_type,
            "title": one.title,
            "scope": one.required_scope,
            "derived": one.source is not None,
        }
        for one in await _feature(on).types.all(app)
    ]


@command(event_type)
@click.argument("name", metavar="TYPE", help="The event type, such as order.paid.")
@app_option()
async def delete(on: Session, name: str, app: UUID) -> Outcome:
    """Delete an event type."""
    from pilotis.http.api.principals import OPERATOR

    await _feature(on).types.delete(await on.apps.by_id(app), OPERATOR, name)
    return told({"deleted": name}, f"The event type {name} is deleted.")


@command(event)
@click.argument("type_", metavar="TYPE", help="The event type, such as order.paid.")
@app_option()
@click.option("--data", metavar="JSON", default="{}", help="The data, an object.")
@click.option("--key", help="An idempotency key: later events with the same key are ignored.")
async def publish(on: Session, type_: str, app: UUID, data: str, key: str | None) -> Outcome:
    """Publish an event of a type that the app has declared."""
    import msgspec

    from pilotis.http.api.principals import OPERATOR
    from pilotis.integrations.types import OneEvent
    from pilotis.kit.ids import uuid7

    one = OneEvent(event_type=type_, data=msgspec.Raw(_json(data, "--data")), idempotency_key=key)
    await on.apps.by_id(app)
    (published,) = await _feature(on).publishing.publish(app, OPERATOR, [one], [uuid7()])
    done: dict[str, Any] = msgspec.to_builtins(published)
    before = "had already been published with this key; nothing was sent" if done["duplicate"] else "is published"
    return told(done, f"The event {done['id']} of type {type_} {before}.")


def register_types(on: Session) -> None:
    """Register the event types of all features, as a server does."""
    from pilotis.server import FEATURES

    catalogue = on.floor.events.catalogue
    for type_ in (one for kind in FEATURES for one in on.features.get(kind).event_types):
        if catalogue.get(type_.name) is None:
            catalogue.register(type_)


def _feature(on: Session) -> IntegrationsFeature:
    from pilotis.integrations.feature import IntegrationsFeature

    register_types(on)
    return on.features.get(IntegrationsFeature)


def _body(title: str, scope: str | None, example: str | None, source: str | None) -> EventTypeDefinition:
    import msgspec

    from pilotis.integrations.types import EventTypeDefinition
    from pilotis.kit import json
    from pilotis.serve.errors import CommandError

    given: dict[str, Any] = {"title": title, "required_scope": scope}
    given |= {"example": json.decode(_json(example, "--example"))} if example else {}
    given |= {"source": json.decode(_json(source, "--source"))} if source else {}
    try:
        return msgspec.convert(given, EventTypeDefinition)
    except msgspec.ValidationError as error:
        raise CommandError(str(error)) from None


def _json(text: str, option: str) -> bytes:
    import msgspec

    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise click.BadParameter("a JSON object is expected", param_hint=option) from None
    return text.strip().encode()
