"""`pilotis plan` and `pilotis usage`: sets of limits and quotas of the server, and what apps have used."""

from __future__ import annotations

import csv
import io
import re
import tomllib
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from pilotis.cli.command import Outcome, Place, command
from pilotis.serve.errors import CommandError

if TYPE_CHECKING:
    from pilotis.cli.session import Session

_MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


@click.group()
def plan() -> None:
    """Set plans, which are named limits and monthly quotas; `pilotis app plan` gives one to an app."""


@command(plan, name="set")
@click.argument("name", help="The plan's name.")
@click.argument("file", metavar="FILE", help="TOML file with [limits] and [quotas].")
def set_(place: Place, name: str, file: str) -> Outcome:
    """Create or replace a plan, also for the apps that have it."""
    try:
        with Path(file).open("rb") as opened:
            definition = tomllib.load(opened)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} is not valid TOML: {error}.") from None

    async def work(on: Session) -> Any:
        return await _plans(on).put(name, definition)

    made = place.run(work)
    return Outcome(msgspec.to_builtins(made), [f"The plan {name} is set for {made.apps} apps."])


@command(plan, name="list", none="There are no plans.")
async def list_(on: Session) -> list[dict[str, Any]]:
    """List plans with their limits and quotas."""
    return [
        {
            "name": one.name,
            "apps": one.apps,
            "limits": one.limits,
            "quotas": {name: msgspec.to_builtins(quota) for name, quota in one.quotas.items()},
        }
        for one in await _plans(on).all()
    ]


@command()
@click.option("--month", metavar="YYYY-MM", help="The month, in UTC. Default: this one.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
def usage(place: Place, month: str | None, as_csv: bool) -> Outcome:
    """Print what each app has used in a month; the bytes of rows and files are those of now."""
    from pilotis.kit.clock import now

    if month is not None and not _MONTH.fullmatch(month):
        raise click.BadParameter("a month is expected, such as 2026-01", param_hint="--month")
    first = now().date().replace(day=1) if month is None else date.fromisoformat(f"{month}-01")

    async def work(on: Session) -> Any:
        return await _plans(on).month(first)

    rows = [msgspec.to_builtins(one) for one in place.run(work)]
    if as_csv:
        return Outcome(rows, [_csv(rows)] if rows else [])
    text = [f"{one['name']}  " + "  ".join(f"{key} {one[key]}" for key in list(one)[3:]) for one in rows]
    return Outcome(rows, text or ["There are no apps."])


def _csv(rows: list[dict[str, Any]]) -> str:
    written = io.StringIO()
    # A spreadsheet takes a name that begins with = for a formula (CWE-1236).
    safe = [{**row, "name": f"'{row['name']}" if row["name"][:1] in "=+-@\t\r" else row["name"]} for row in rows]
    table = csv.DictWriter(written, fieldnames=list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(safe)
    return written.getvalue().rstrip("\n")


def _plans(on: Session) -> Any:
    from pilotis.plans.feature import PlansFeature

    return on.features.get(PlansFeature).plans
