"""`pilotis pull`, `diff` and `push`: tables, storages, functions and more of an app as files, as a console user.

The files say what is to be, `.pilotis/base.json` what both sides were at the last pull or push. Rows, members, files,
keys and variables are never touched.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from pilotis.cli import project_base
from pilotis.cli.project_app_settings import AppSettings
from pilotis.cli.project_base import Definitions
from pilotis.cli.project_channels import Channels
from pilotis.cli.project_part import AppOnServer, Part
from pilotis.cli.project_programs import Functions, Workflows
from pilotis.cli.project_storages import Storages
from pilotis.cli.project_tables import Tables
from pilotis.cli.remote import on_app
from pilotis.kit.definition_plan import Step
from pilotis.serve.errors import CommandError


class Compared(NamedTuple):
    """A part of a project, both of its sides, what they were, and what makes the app what the files say."""

    part: Part
    files: Definitions
    server: Definitions
    base: Definitions
    steps: list[Step]

    def of(self, *kinds: str) -> list[Step]:
        """Return the steps of these kinds."""
        return [step for step in self.steps if step.kind in kinds]


PARTS: tuple[type[Part], ...] = (Tables, Storages, Channels, AppSettings, Functions, Workflows)
"""In the order in which they are created: each may name things of those before."""


def parts_of(remote: AppOnServer, folder: Path) -> list[Part]:
    """Return the parts of a project in their order."""
    return [part(remote, folder) for part in PARTS]


def compare(remote: AppOnServer, folder: Path, parts: Sequence[Part]) -> list[Compared]:
    """Read a project and its app; raises `CommandError`, with file and line, for what is wrong in a file."""
    bases, compared = project_base.read(folder, remote.app_id), list[Compared]()
    for part in parts:
        server, base = part.server(), bases.get(part.kind, {})
        files = part.files(server)
        compared.append(Compared(part, files, server, base, part.steps(files, server, base)))
    return compared


def apply(compared: Sequence[Compared]) -> int:
    """Make the app what the files say, and return how many changes that were."""
    for one in compared:
        one.part.apply(one.of("create", "change"))
    for one in reversed(compared):
        one.part.apply(one.of("drop"))
    return sum(len(one.of("create", "change", "drop")) for one in compared)


def keep_base(remote: AppOnServer, folder: Path, compared: Sequence[Compared]) -> None:
    """Store what both sides are after a push."""
    kept = {}
    for one in compared:
        now = one.part.server() if one.of("create", "change", "drop") else one.server
        # What only the app has changed is as far from the base as before.
        stale = {step.title for step in one.of("newer", "gone", "conflict")}
        both = {title: now[title] for title in now if title in one.files and title not in stale}
        kept[one.part.kind] = {**both, **_kept(one.base, stale)}
    project_base.keep(folder, remote.app_id, kept)


def _kept(base: Definitions, titles: set[str]) -> Definitions:
    return {title: base[title] for title in titles if title in base}


_options = on_app(AppOnServer)
_folder = click.argument(
    "folder", type=click.Path(file_okay=False, path_type=Path), default=Path(), help="The project; by default `.`."
)


@click.command()
@_folder
@click.option("--force", is_flag=True, help="Overwrite files that have changed as well.")
@_options
def pull(remote: AppOnServer, folder: Path, force: bool) -> Iterator[tuple[str, Any]]:
    """Write the tables, storages, channels, functions and workflows of an app into files.

    Sign in with `pilotis login` first. A file that has changed since the last pull or push stays as it is; if the app
    has changed as well, nothing is written.
    """
    compared = compare(remote, folder, parts_of(remote, folder))
    # A file without a base has an unknown history: it may be older or newer.
    clashes = [
        step.title
        for one in compared
        for step in one.steps
        if step.kind == "conflict" or (step.kind == "change" and step.title not in one.base)
    ]
    if clashes and not force:
        raise CommandError(
            f"{', '.join(clashes)}: the file and the app differ. See `pilotis diff`; --force overwrites."
        )
    folder.mkdir(parents=True, exist_ok=True)
    kept = {}
    for one in compared:
        yield from _pulled(one, force)
        mine = {step.title for step in one.of("create", "change", "drop")}
        kept[one.part.kind] = one.server if force else {**one.server, **_kept(one.base, mine)}
    project_base.keep(folder, remote.app_id, kept)


def _pulled(one: Compared, force: bool) -> Iterator[tuple[str, Any]]:
    mine = {step.title for step in one.of("create", "change", "drop")} if not force else set()
    for title, found in one.server.items():
        if title not in mine and one.files.get(title) != found:
            file = one.part.write(title)
            yield f"Wrote {file}.", {"file": str(file), "title": title}
    for step in one.steps:
        if step.kind == "gone" or (force and step.kind == "conflict" and step.title not in one.server):
            file = one.part.remove(step.title)
            yield f"Removed {file}.", {"file": str(file), "title": step.title}


@click.command()
@_folder
@click.option("--check", is_flag=True, help="Fail if there is a difference.")
@_options
def diff(remote: AppOnServer, folder: Path, check: bool) -> Iterator[tuple[str, Any]]:
    """Show what `push` would change of an app."""
    compared = compare(remote, folder, parts_of(remote, folder))
    for one in compared:
        yield from map(one.part.shown, one.steps)
    if check and any(step.kind != "left" for one in compared for step in one.steps):
        raise CommandError("The files and the app differ.")


@click.command()
@_folder
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--allow-drop", is_flag=True, help="Drop what the files no longer have.")
@_options
def push(remote: AppOnServer, folder: Path, yes: bool, allow_drop: bool) -> Iterator[tuple[str, Any]]:
    """Make the tables, storages, channels, functions and workflows of an app what the files say, after showing a plan.

    What only the app has stays. Tables and columns that are dropped are in the app's trash for a while.
    """
    compared = compare(remote, folder, parts_of(remote, folder))
    drops = list[str]()
    for one in compared:
        for text, fields in map(one.part.shown, one.steps):
            drops += fields["drops"]
            yield text, fields
    require_possible(compared, drops if not allow_drop else [])
    if any(one.of("create", "change", "drop") for one in compared) and not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("--yes applies the plan without asking.")
        click.confirm("Apply?", abort=True, err=True)
    count = apply(compared)
    keep_base(remote, folder, compared)
    yield (f"Applied {count} changes." if count else "There is nothing to change."), {"applied": count}


def require_possible(compared: Sequence[Compared], drops: Sequence[str]) -> None:
    """Raise `CommandError` for what both sides have changed, and for what would be dropped without permission."""
    if clashes := [step.title for one in compared for step in one.of("conflict")]:
        raise CommandError(f"{', '.join(clashes)}: both sides have changed. Pull, or change the file.")
    if drops:
        raise CommandError(f"This drops {', '.join(drops)}; --allow-drop permits it.")
