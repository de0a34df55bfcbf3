"""`pilotis workflows`: deploy workflows from files, run and follow them, over HTTP as a console user."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

import click

from pilotis.cli import definitions
from pilotis.cli.login import SignedIn
from pilotis.cli.remote import RejectedError, Remote, json_data, on_app
from pilotis.kit.clock import rfc3339
from pilotis.kit.definition_plan import named
from pilotis.serve.errors import CommandError

_PAGE_SIZE = 100
FIELDS: dict[str, Any] = {
    "name": None,
    "description": "",
    "execution_type": "sequential",
    "schedule_cron": None,
    "schedule_timezone": None,
    "timeout_seconds": 0,
    "max_retries": 0,
    "max_concurrency": 0,
    "on_overlap": "allow",
    "initial_input": {},
    "is_active": True,
    "steps": [],
}
"""The fields of a definition, with the values that are left out of a file."""

_options = on_app(SignedIn)
_name = click.argument("name", help="The workflow's name.")
_execution = click.argument("execution", type=click.UUID, help="The execution's id.")
_file = click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The definition, as YAML or JSON."
)


@click.group()
def workflows() -> None:
    """Deploy workflows from files, run them, and follow their executions.

    Sign in with `pilotis login` first. The app is named by --app or PILOTIS_APP.
    """


@workflows.command("list")
@_options
def list_(remote: SignedIn) -> Iterator[tuple[str, Any]]:
    """List workflows with their version, their next run and how the last execution ended."""
    for one in pages(remote, "/workflows"):
        last = one["last_execution"]
        words = [
            f"version {one['version']}",
            *([] if one["is_active"] else ["inactive"]),
            *([f"next run {one['next_run_at']}"] if one["next_run_at"] else []),
            f"last execution {last['status']}" if last else "never run",
        ]
        yield f"{one['name']}  {', '.join(words)}", one


@workflows.command()
@_name
@click.option("--version", type=click.IntRange(1), help="An earlier version; by default the current one.")
@_options
def show(remote: SignedIn, name: str, version: int | None) -> Iterator[tuple[str, Any]]:
    """Print a workflow's definition as YAML, for a file that can be deployed."""
    found = _find(remote, name)
    if version is not None:
        found = remote.ask("GET", f"{_path(found)}/versions/{version}")
    names = {one["id"]: one["name"] for one in remote.ask("GET", "/functions?limit=1000")["data"]}
    fields = {field: found[field] for field, default in FIELDS.items() if found[field] != default}
    if fields.get("steps"):
        # The steps come last, as the longest part.
        fields["steps"] = [named(step, names) for step in fields["steps"]]
    yield definitions.dump(fields).rstrip(), found


@workflows.command()
@_file
@_options
def validate(remote: SignedIn, file: Path) -> Iterator[tuple[str, Any]]:
    """Check a definition without storing it, and print when its schedule would be due."""
    definition = definitions.read(file)
    found = remote.ask("POST", "/workflows/validate", definition.value)
    _warn(found["warnings"])
    if not found["is_valid"]:
        raise _invalid(definition, found["errors"])
    yield "\n".join([f"{file} is valid.", *(f"next run {moment}" for moment in found["next_runs"])]), found


@workflows.command()
@_file
@_options
def deploy(remote: SignedIn, file: Path) -> Iterator[tuple[str, Any]]:
    """Create a workflow from a file, or store the file as a new version of the workflow of its name."""
    definition = definitions.read(file)
    checked = remote.ask("POST", "/workflows/validate", definition.value)
    if not checked["is_valid"]:
        raise _invalid(definition, checked["errors"])
    name = definition.value["name"]
    known = next((one for one in pages(remote, "/workflows") if one["name"] == name), None)
    try:
        if known is None:
            made = remote.ask("POST", "/workflows", definition.value, **_key())
        else:
            made = remote.ask("PUT", _path(known), definition.value)
    except RejectedError as error:
        raise _invalid(definition, error.details) if error.details else error from None
    yield f"{name} version {made['version']} is deployed.", made
    _warn(checked["warnings"])


@workflows.command()
@_name
@click.option("--data", help="The input as JSON, or @FILE; by default the workflow's initial input.")
@click.option("--follow", is_flag=True, help="Wait for the end; the status is 1 unless the execution completes.")
@_options
def run(remote: SignedIn, name: str, data: str | None, follow: bool) -> Iterator[tuple[str, Any]]:
    """Start an execution, and print its id."""
    found = _find(remote, name)
    body = {} if data is None else {"input": json_data(data)}
    started = remote.ask("POST", f"{_path(found)}/execute", body, **_key())
    yield started["execution_id"], started
    if follow:
        yield from _follow(remote, _path(found), started["execution_id"])


@workflows.command()
@_name
@click.option(
    "--status",
    type=click.Choice(["pending", "running", "completed", "failed", "cancelled", "timeout"]),
    help="Executions of this status alone.",
)
@click.option("--limit", type=click.IntRange(1, 100), default=20, help="How many are printed; 20 by default.")
@_options
def executions(remote: SignedIn, name: str, status: str | None, limit: int) -> Iterator[tuple[str, Any]]:
    """List the newest executions of a workflow."""
    query = urlencode({"limit": limit, **({"status": status} if status else {})})
    for one in remote.ask("GET", f"{_path(_find(remote, name))}/executions?{query}")["data"]:
        took = "" if one["duration"] is None else f"  {one['duration']:.0f} ms"
        error = f"  {one['error']['code']}" if one["error"] else ""
        yield f"{one['id']}  {one['created_at']}  {one['trigger']['type']}  {one['status']}{took}{error}", one


@workflows.command()
@_name
@click.argument("execution", type=click.UUID, required=False, help="The execution's id; by default the newest.")
@click.option("--follow", is_flag=True, help="Wait for the end; the status is 1 unless the execution completes.")
@_options
def logs(remote: SignedIn, name: str, execution: UUID | None, follow: bool) -> Iterator[tuple[str, Any]]:
    """Print what has happened in an execution: its steps, and the lines that their functions logged."""
    path = _path(_find(remote, name))
    if execution is None:
        newest = remote.ask("GET", f"{path}/executions?limit=1")["data"]
        if not newest:
            raise CommandError(f"{name} has never run.")
        execution = newest[0]["id"]
    yield from _follow(remote, path, str(execution), to_end=follow)


@workflows.command()
@_name
@_execution
@_options
def cancel(remote: SignedIn, name: str, execution: UUID) -> Iterator[tuple[str, Any]]:
    """Cancel an execution; a function that runs is stopped."""
    ended = remote.ask("POST", f"{_path(_find(remote, name))}/executions/{execution}/cancel")
    yield f"{execution} is {ended['status']}.", ended


@workflows.command()
@_name
@_execution
@click.option("--from-failed-step", is_flag=True, help="Continue from the step that failed, not from the start.")
@click.option("--current", is_flag=True, help="Run by the current version, not by that of the execution.")
@click.option("--follow", is_flag=True, help="Wait for the end; the status is 1 unless the execution completes.")
@_options
def replay(
    remote: SignedIn, name: str, execution: UUID, from_failed_step: bool, current: bool, follow: bool
) -> Iterator[tuple[str, Any]]:
    """Start an execution with the input of one that has ended, and print its id."""
    path = _path(_find(remote, name))
    body = {
        "from": "failed_step" if from_failed_step else "start",
        "version": "current" if current else "same",
    }
    started = remote.ask("POST", f"{path}/executions/{execution}/replay", body)
    yield started["execution_id"], started
    if follow:
        yield from _follow(remote, path, started["execution_id"])


@workflows.command()
@_name
@_options
def delete(remote: SignedIn, name: str) -> Iterator[tuple[str, Any]]:
    """Delete a workflow; its executions are cancelled."""
    yield f"{name} is deleted.", remote.ask("DELETE", _path(_find(remote, name)))


@workflows.command()
@_name
@click.option("--rotate", is_flag=True, help="Replace the URL; the one before works for --grace seconds.")
@click.option("--grace", type=click.IntRange(0, 604_800), default=86_400, show_default=True, help="Used by --rotate.")
@click.option("--delete", "is_deleted", is_flag=True, help="Delete the URL, which ends at once.")
@_options
def trigger(remote: SignedIn, name: str, *, rotate: bool, grace: int, is_deleted: bool) -> Iterator[tuple[str, Any]]:
    """Print a workflow's trigger URL; it is created if there is none.

    Whoever knows the URL can start the workflow.
    """
    if rotate and is_deleted:
        raise CommandError("--rotate or --delete, not both.")
    place = f"{_path(_find(remote, name))}/trigger"
    if is_deleted:
        yield f"The trigger URL of {name} is deleted.", remote.ask("DELETE", place)
        return
    if rotate:
        found = remote.ask("POST", f"{place}/rotate", {"grace_seconds": grace})
    else:
        try:
            found = remote.ask("GET", place)
        except RejectedError as error:
            if error.code != "TRIGGER_NOT_FOUND":
                raise
            found = remote.ask("POST", place, {}, **_key())
    yield found["trigger_url"], found


@workflows.command()
@_name
@_options
def pause(remote: SignedIn, name: str) -> Iterator[tuple[str, Any]]:
    """Stop a workflow from being started by requests, its schedule or its trigger URL; what runs continues."""
    yield f"{name} is inactive.", remote.ask("PATCH", _path(_find(remote, name)), {"is_active": False})


@workflows.command()
@_name
@_options
def resume(remote: SignedIn, name: str) -> Iterator[tuple[str, Any]]:
    """Let a paused workflow be started again."""
    changed = remote.ask("PATCH", _path(_find(remote, name)), {"is_active": True})
    following = f"; its next run is {changed['next_run_at']}" if changed["next_run_at"] else ""
    yield f"{name} is active{following}.", changed


def pages(remote: Remote, path: str) -> Iterator[dict[str, Any]]:
    """Yield all things of a list of the API."""
    offset = 0
    while page := remote.ask("GET", f"{path}?limit={_PAGE_SIZE}&offset={offset}")["data"]:
        yield from page
        offset += len(page)


def _find(remote: SignedIn, name: str) -> dict[str, Any]:
    for one in pages(remote, "/workflows"):
        if one["name"] == name:
            return one
    raise CommandError(f"The app has no workflow {name}; `pilotis workflows deploy` creates it.")


def _path(workflow: dict[str, Any]) -> str:
    return f"/workflows/{workflow['id']}"


def _key() -> dict[str, str]:
    """Return a header by which a request that is sent again after a lost connection has its effect once."""
    return {"Idempotency-Key": str(uuid4())}


def _invalid(definition: definitions.Definition, errors: list[dict[str, Any]]) -> CommandError:
    return CommandError("\n".join(f"{definition.place(one['field'])}: {one['message']}" for one in errors))


def _warn(warnings: list[str]) -> None:
    for warning in warnings:
        click.echo(f"Warning: {warning}", err=True)


def _follow(remote: SignedIn, path: str, execution_id: str, *, to_end: bool = True) -> Iterator[tuple[str, Any]]:
    """Yield the events of an execution from its start, to its end or to what has happened by now."""
    place = f"{path}/executions/{execution_id}"
    now = None if to_end else _last_event(remote, place)
    for kind, event_id, data in remote.events(f"{place}/stream", "0"):
        if kind == "end":
            if to_end and data["status"] != "completed":
                sys.exit(1)
            return
        yield _text(kind, data), {"event": kind, **data}
        if now is not None and event_id is not None and int(event_id) >= now:
            return


def _last_event(remote: SignedIn, place: str) -> int:
    for kind, event_id, _ in remote.events(f"{place}/stream"):
        if kind == "snapshot" and event_id is not None:
            return int(event_id)
    return 0


def _text(kind: str, data: dict[str, Any]) -> str:
    """Return an event as text; empty for one that says nothing."""
    if kind == "snapshot":
        # The events of an execution that ended a day ago are gone; its steps are not.
        return "\n".join(
            [
                *(_line(one["started_at"], f"step.{one['status']}", one) for one in data["steps"]),
                _line(data["finished_at"] or data["created_at"], f"execution.{data['status']}", data),
            ]
        )
    if "type" not in data:
        return ""
    moment, step = data["timestamp"], data.get("step") or {}
    if kind == "step.log":
        return "\n".join(
            f"{rfc3339(datetime.fromtimestamp(seconds, UTC))}  {level:20}  {step['step_id']}  {line}"
            for seconds, level, line in data["lines"] or []
        )
    return _line(moment, kind, step or data)


def _line(moment: str | None, kind: str, told: dict[str, Any]) -> str:
    parts = [moment or "", f"{kind:20}", told.get("step_id") or ""]
    if told.get("duration") is not None:
        parts.append(f"{told['duration']:.0f} ms")
    if error := told.get("error"):
        parts.append(f"{error['code']}: {error['message']}")
    elif kind == "execution.completed":
        parts.append(json.dumps(told.get("output"), ensure_ascii=False))
    return "  ".join(part for part in parts if part).rstrip()
