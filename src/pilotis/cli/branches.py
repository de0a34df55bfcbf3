"""`pilotis branch`: copies of an app for previews, over HTTP as a console user."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from pilotis.cli.login import SignedIn
from pilotis.cli.remote import on_app
from pilotis.serve.errors import CommandError

_LOOK_SECONDS = 0.5
_AMOUNT = click.Choice(["none", "all"])
_SIGNS = {"create": "+", "change": "~", "drop": "-", "conflict": "!"}
_STAYS = {
    "left": "only the app has it; it stays",
    "newer": "the app's is newer; it stays",
    "gone": "the app has dropped it; it stays so",
}
_options = on_app(SignedIn)
_name = click.argument("name", help="The branch's name.")


@click.group()
def branch() -> None:
    """Create branches of an app for previews, compare them with it, and merge them.

    Sign in with `pilotis login` first. The app is named by --app or PILOTIS_APP.
    """


@branch.command()
@_name
@click.option("--rows", type=_AMOUNT, default="none", help="Whether to copy the rows of tables.")
@click.option("--members", type=_AMOUNT, default="none", help="Whether to copy members; takes an owner.")
@click.option("--files", type=_AMOUNT, default="none", help="Whether to copy files and sites.")
@click.option("--days", type=click.IntRange(1, 90), default=14, help="Days after which it is deleted; 14.")
@_options
def create(remote: SignedIn, name: str, rows: str, members: str, files: str, days: int) -> Iterator[tuple[str, Any]]:
    """Create a branch, wait until it is ready, and print its id and its public key."""
    body = {"name": name, "rows": rows, "members": members, "files": files, "days": days}
    made = remote.ask("POST", "/branches", body)
    while made["state"] == "creating":
        time.sleep(_LOOK_SECONDS)
        made = remote.ask("GET", f"/branches/{made['branch_id']}")
    if made["state"] == "failed":
        raise CommandError(f"The branch could not be created: {made['error']}")
    text = f"app_id      {made['branch_id']}\npublic_key  {made['public_key']}\nexpires_at  {made['expires_at']}"
    yield text, made


@branch.command("list")
@_options
def list_(remote: SignedIn) -> Iterator[tuple[str, Any]]:
    """List branches."""
    for one in _all(remote):
        state = one["state"] if one["error"] is None else f"{one['state']}: {one['error']}"
        yield f"{one['name']}  {one['branch_id']}  {state}  until {one['expires_at']}", one


@branch.command()
@_name
@_options
def delete(remote: SignedIn, name: str) -> Iterator[tuple[str, Any]]:
    """Delete a branch. An owner can restore it for 7 days."""
    found = _find(remote, name)
    remote.ask("DELETE", f"/branches/{found['branch_id']}")
    yield f"Deleted {name}.", {"branch_id": found["branch_id"]}


@branch.command()
@_name
@click.option("--check", is_flag=True, help="Fail if a merge would change the app.")
@_options
def diff(remote: SignedIn, name: str, check: bool) -> Iterator[tuple[str, Any]]:
    """Show what a merge would change of the app."""
    found = remote.ask("GET", f"/branches/{_find(remote, name)['branch_id']}/diff")["differences"]
    yield from map(_shown, found)
    if check and any(one["step"] in _SIGNS for one in found):
        raise CommandError("The branch and the app differ.")


@branch.command()
@_name
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--allow-drop", is_flag=True, help="Drop what the branch no longer has.")
@click.option("--theirs", is_flag=True, help="Let the branch win where both have changed.")
@_options
def merge(remote: SignedIn, name: str, yes: bool, allow_drop: bool, theirs: bool) -> Iterator[tuple[str, Any]]:
    """Apply the definitions of a branch to the app, after showing them. Rows are never merged."""
    path = f"/branches/{_find(remote, name)['branch_id']}"
    found = remote.ask("GET", f"{path}/diff")
    yield from map(_shown, found["differences"])
    drops = [one["title"] for one in found["differences"] if one["step"] == "drop"]
    if drops and not allow_drop:
        click.echo(f"{', '.join(drops)}: not dropped without --allow-drop.", err=True)
    if any(one["step"] in _SIGNS for one in found["differences"]) and not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("--yes merges without asking.")
        click.confirm("Merge?", abort=True, err=True)
    body = {"digest": found["digest"], "drops": allow_drop, "theirs": theirs}
    merged = remote.ask("POST", f"{path}/merge", body)
    yield merged["message"], {"applied": len(merged["applied"])}


def _shown(one: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    name = f"{one['part']} {one['title']}"
    if one["step"] in _STAYS:
        return f"  {name}: {_STAYS[one['step']]}", one
    text = "both have changed" if one["step"] == "conflict" else one["step"]
    lines = [f"{_SIGNS[one['step']]} {name}: {text}"]
    for column in one["columns"]:
        told = f"    {column['kind']} {column['name']}"
        if column["kind"] == "dropped" and column["rows"]:
            told += f": {column['rows']} rows have a value"
        if column["rows_that_do_not_fit"]:
            told += f": {column['rows_that_do_not_fit']} rows do not fit, which makes the merge fail"
        lines.append(told)
    return "\n".join(lines), one


def _all(remote: SignedIn) -> list[dict[str, Any]]:
    found = list[dict[str, Any]]()
    while True:
        page = remote.ask("GET", f"/branches?limit=100&offset={len(found)}")
        found += page["data"]
        if not page["data"] or len(found) >= page["total_count"]:
            return found


def _find(remote: SignedIn, name: str) -> dict[str, Any]:
    for one in _all(remote):
        if one["name"] == name:
            return one
    raise CommandError(f"The app has no branch {name}.")
