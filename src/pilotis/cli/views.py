"""`pilotis views`: the saved pipelines of an app, shown, set from files, called and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from pilotis.cli.command import Outcome, Place, app_option, command, told
from pilotis.kit import json

if TYPE_CHECKING:
    from pilotis.cli.session import Session


@click.group()
def views() -> None:
    """Show, set, call and delete an app's views: saved pipelines with parameters."""


@command(views, none="The app has no views.")
@app_option()
async def list_(on: Session, app: UUID) -> list[dict[str, Any]]:
    """List an app's views."""
    from pilotis.cli import saved_views

    found = await saved_views.all_of(on, await on.apps.by_id(app))
    return [
        {"name": one.name, "table": one.table, "run_as": one.run_as, "cache_seconds": one.cache_seconds}
        for one in found
    ]


@command(views)
@click.argument("name", metavar="[NAME]", required=False, help="The view's name. Default: all views.")
@app_option()
def show(place: Place, name: str | None, app: UUID) -> Outcome:
    """Print a view, or all of them, in YAML, as `views set` reads it."""
    from pilotis.cli import definitions, saved_views

    async def work(on: Session) -> dict[str, Any]:
        info = await on.apps.by_id(app)
        if name is not None:
            return saved_views.definition(await saved_views.named(on, info, name))
        return {"views": [saved_views.definition(one) for one in await saved_views.all_of(on, info)]}

    found = place.run(work)
    return Outcome(found, definitions.dump(found).splitlines())


@command(views, "set")
@click.argument("file", type=click.Path(path_type=Path), help="One view, or several under `views`, in YAML or JSON.")
@app_option()
async def set_(on: Session, file: Path, app: UUID) -> Outcome:
    """Create or replace views by their names, as a file defines them. `table_id` may be the table's title."""
    from pilotis.cli import definitions, saved_views

    given = definitions.read(file)
    saved = await saved_views.save(on, await on.apps.by_id(app), given)
    return told({"saved": saved}, *(f"The view {name} is saved." for name in saved))


@command(views)
@click.argument("name", metavar="NAME", help="The view's name.")
@app_option()
@click.option(
    "--param",
    "params",
    metavar="NAME=VALUE",
    multiple=True,
    help="A parameter, as in a URL; can be repeated.",
)
async def call(on: Session, name: str, app: UUID, params: tuple[str, ...]) -> Outcome:
    """Call a view as the app, and print the documents that come out, one a line."""
    from pilotis.cli import saved_views

    answer = await saved_views.called(on, await on.apps.by_id(app), name, params)
    lines = [json.encode(one).decode() for one in answer["data"]]
    return Outcome(answer, lines, said=[] if lines else ["It answers no documents."])


@command(views)
@click.argument("name", metavar="NAME", help="The view's name.")
@app_option()
async def delete(on: Session, name: str, app: UUID) -> Outcome:
    """Delete a view."""
    from pilotis.cli import saved_views

    await saved_views.delete(on, await on.apps.by_id(app), name)
    return told({"deleted": name}, f"The view {name} is deleted.")
