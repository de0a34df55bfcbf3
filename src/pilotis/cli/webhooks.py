"""`pilotis webhook`: an app's webhooks, their deliveries, and forwarding events to a local program."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import click

from pilotis.cli.command import Outcome, Place, app_option, command, told

if TYPE_CHECKING:
    import msgspec

    from pilotis.cli.session import Session
    from pilotis.webhooks.feature import WebhooksFeature

Struct = TypeVar("Struct", bound="msgspec.Struct")

_ID = click.argument(
    "webhook_id", metavar="WEBHOOK", type=click.UUID, help="The webhook's id, as `webhook list` shows it."
)
_LISTED = ("id", "name", "url", "event_types", "status", "pending_count")
_LOGGED = ("id", "event_type", "status", "attempt_count", "status_code", "error", "created_at")


@click.group()
def webhook() -> None:
    """Create and inspect webhooks, and forward events to a local program."""


@command(webhook)
@click.argument("url", metavar="URL", help="The URL that receives the deliveries.")
@app_option()
@click.option("--event", "events", metavar="TYPE", multiple=True, default=["*"], help="An event type; can be repeated.")
@click.option("--table", "tables", type=click.UUID, metavar="ID", multiple=True, help="Only events of this table.")
@click.option("--name", default="", help="A display name.")
async def create(on: Session, url: str, app: UUID, events: tuple[str, ...], tables: tuple[UUID, ...], name: str) -> Any:
    """Create a webhook and print its secret, which is shown only once."""
    from pilotis.http.api.principals import OPERATOR
    from pilotis.kit.ids import uuid7
    from pilotis.webhooks.types import NewWebhook

    given = {"url": url, "event_types": list(events), "name": name, "table_ids": list(tables) or None}
    new = _checked(given, NewWebhook)
    created = await _feature(on).webhooks.create(await on.apps.by_id(app), OPERATOR, uuid7(), new)
    made = {"id": str(created.id), "url": created.url, "secret": created.secret}
    return Outcome(made, made, said=["The secret signs each delivery. Store it safely: it is not shown again."])


@command(webhook, none="The app has no webhooks.")
@app_option()
async def list_(on: Session, app: UUID) -> list[dict[str, Any]]:
    """List an app's webhooks."""
    from pilotis.http.api.schemas import Paging

    page = await _feature(on).webhooks.page(await on.apps.by_id(app), Paging(limit=1000))
    return [_fields(one, _LISTED) for one in page.data]


@command(webhook)
@_ID
@app_option()
async def show(on: Session, webhook_id: UUID, app: UUID) -> dict[str, Any]:
    """Show a webhook and the results of its deliveries."""
    details = await _feature(on).webhooks.details(await on.apps.by_id(app), webhook_id)
    found = _plain(details)
    stats: dict[str, Any] = found.pop("stats")
    return found | stats


@command(webhook)
@_ID
@app_option()
@click.option("--event", default="webhook.test", metavar="TYPE", help="The type whose example is sent.")
async def test(on: Session, webhook_id: UUID, app: UUID, event: str) -> Outcome:
    """Send an example now, from this machine. Exits with 1 if the receiver does not accept it."""
    from pilotis.http.api.principals import OPERATOR

    try:
        result = await _feature(on).deliveries.test(await on.apps.by_id(app), OPERATOR, webhook_id, event)
    finally:
        await on.floor.close_outgoing()
    found = _plain(result)
    answer = f"answered {found['status_code']}" if found["status_code"] else f"did not answer ({found['error']})"
    verdict = "accepted" if found["success"] else "did not accept"
    sentence = f"The receiver {verdict} the example: it {answer} after {found['duration_ms']} ms."
    return Outcome(found, found, int(not found["success"]), [sentence])


@command(webhook, none="The webhook has no deliveries.")
@_ID
@app_option()
@click.option("--status", type=click.Choice(["pending", "succeeded", "failed", "cancelled"]), help="Only these.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, help="Maximum number of deliveries. Default: 20.")
async def logs(on: Session, webhook_id: UUID, app: UUID, status: str | None, limit: int) -> list[dict[str, Any]]:
    """List deliveries, newest first."""
    from pilotis.webhooks.types import LogQuery

    query = _checked({"status": status, "limit": limit}, LogQuery)
    page = await _feature(on).deliveries.page(await on.apps.by_id(app), webhook_id, query)
    return [_fields(one, _LOGGED) for one in page.data]


@command(webhook)
@_ID
@click.argument(
    "delivery_id", metavar="DELIVERY", type=click.UUID, help="The delivery's id, as `webhook logs` shows it."
)
@app_option()
async def redeliver(on: Session, webhook_id: UUID, delivery_id: UUID, app: UUID) -> Outcome:
    """Send a delivery again."""
    from pilotis.http.api.principals import OPERATOR

    info = await on.apps.by_id(app)
    done = _fields(await _feature(on).deliveries.redeliver(info, OPERATOR, webhook_id, delivery_id), _LOGGED)
    return Outcome(done, done, said=["A running server sends it now; `pilotis webhook logs` shows the result."])


@command(webhook)
@_ID
@app_option()
@click.option("--since", type=click.DateTime(), required=True, metavar="TIME", help="In UTC, as 2026-01-31T09:30:00.")
@click.option("--all", "everything", is_flag=True, help="Also those that were delivered.")
async def recover(on: Session, webhook_id: UUID, app: UUID, since: datetime, everything: bool) -> Outcome:
    """Resend all deliveries that have failed since a time."""
    from datetime import UTC

    from pilotis.http.api.principals import OPERATOR
    from pilotis.webhooks.types import Recovery

    wanted = Recovery(since=since.replace(tzinfo=UTC), include_succeeded=everything)
    info = await on.apps.by_id(app)
    done = _plain(await _feature(on).deliveries.recover(info, OPERATOR, webhook_id, wanted))
    ahead = "A running server sends them now; `pilotis webhook logs` shows the results."
    return told(done, f"Deliveries to resend: {done['queued']}.", *([ahead] if done["queued"] else []))


@command(webhook, "rotate-secret")
@_ID
@app_option()
@click.option(
    "--overlap",
    type=click.IntRange(0, 2_592_000),
    default=86_400,
    help="Seconds during which the old secret signs too.",
)
async def rotate_secret(on: Session, webhook_id: UUID, app: UUID, overlap: int) -> Outcome:
    """Replace a webhook's secret and print it."""
    from pilotis.http.api.principals import OPERATOR

    info = await on.apps.by_id(app)
    done = _plain(await _feature(on).webhooks.rotate(info, OPERATOR, webhook_id, overlap))
    sentence = f"Deliveries are signed with the new secret, and for {overlap} seconds with the old one too."
    return Outcome(done, done, said=[f"{sentence} It is not shown again."])


@command(webhook)
@_ID
@app_option()
async def delete(on: Session, webhook_id: UUID, app: UUID) -> Outcome:
    """Delete a webhook and cancel its pending deliveries."""
    from pilotis.http.api.principals import OPERATOR

    await _feature(on).webhooks.delete(await on.apps.by_id(app), OPERATOR, webhook_id)
    return told(
        {"deleted": str(webhook_id)},
        f"The webhook {webhook_id} is deleted, and its pending deliveries are cancelled.",
    )


@command(webhook)
@app_option()
@click.option("--port", type=click.IntRange(1, 65_535), required=True, help="The local program's port.")
@click.option("--path", default="/", help="The path to call. Default: /.")
@click.option("--event", "events", metavar="TYPE", multiple=True, default=["*"], help="An event type; can be repeated.")
def listen(place: Place, app: UUID, port: int, path: str, events: tuple[str, ...]) -> None:
    """Forward an app's events to a local program until Ctrl-C, signed like any delivery."""

    async def work(on: Session) -> None:
        url = f"http://127.0.0.1:{port}{path}"

        def ready(created: Any) -> None:
            click.echo(f"Forwarding {', '.join(events)} to {url}. Ctrl-C ends it.")
            click.echo(f"Secret for now: {created.secret}")

        def report(event_type: str, event_id: UUID, outcome: Any) -> None:
            click.echo(f"{event_type}  {event_id}  {outcome.status_code or outcome.error}  {outcome.duration_ms} ms")

        await _feature(on).listener.run(await on.apps.by_id(app), url, events, ready, report)

    try:
        place.run(work)
    except KeyboardInterrupt:
        click.echo("The temporary webhook is deleted.")


def _feature(on: Session) -> WebhooksFeature:
    from pilotis.cli.events import register_types
    from pilotis.webhooks.feature import WebhooksFeature

    register_types(on)
    return on.features.get(WebhooksFeature)


def _checked(given: dict[str, Any], kind: type[Struct]) -> Struct:
    import msgspec

    from pilotis.kit.json import field_error
    from pilotis.serve.errors import CommandError

    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise CommandError(field_error(error, kind).text) from None


def _plain(value: Any) -> dict[str, Any]:
    from pilotis.kit import json

    plain: dict[str, Any] = json.decode(json.encode(value))
    return plain


def _fields(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    plain = _plain(value)
    return {name: plain[name] for name in names}
