"""`pilotis pull`, `diff` and `push`: the tables of an app as files, over HTTP as a console user.

`tables/*.yaml` say what is to be, `.pilotis/base.json` what both sides were at the last pull or push. Rows, members,
files, keys and settings are never touched.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import click

from pilotis.cli import definitions
from pilotis.cli.login import SignedIn
from pilotis.cli.project_plan import (
    Step,
    alone,
    canonical,
    in_order_of_dropping,
    plan,
    references,
    without_references,
    written,
)
from pilotis.cli.remote import RejectedError, on_app
from pilotis.serve.errors import CommandError

_FIELDS = {"title", "was", "schema", "access_level", "unique", "rules"}


class AppTables(SignedIn):
    """The tables of an app on a server, as a console user."""

    def __init__(self, url: str, path: str) -> None:
        super().__init__(url, "")
        self._path = path
        self.app_id = unquote(path.rpartition("/")[2])
        self.ids: dict[str, str] = {}

    def read(self) -> dict[str, dict[str, Any]]:
        """Return the canonical definitions by title."""
        found = {}
        for table in self._public("GET", "")["tables"]:
            self.ids[table["title"]] = table["id"]
            rules = None
            if table.get("has_rules"):
                rules = self.ask("GET", f"{self._path}/tables/{table['id']}/rules")["rules"]
            found[table["title"]] = canonical({**table, "rules": rules})
        return found

    def create(self, definition: dict[str, Any]) -> None:
        """Create a table."""
        self.ids[definition["title"]] = self._public("POST", "", written(definition))["id"]

    def change(self, title: str, definition: dict[str, Any]) -> None:
        """Replace the definition of the table with this title, which may change."""
        # What is absent would stay.
        self._public("PATCH", f"/{self.ids[title]}", {"rules": None, "unique": [], **written(definition)})
        self.ids[definition["title"]] = self.ids[title]

    def drop(self, title: str) -> None:
        """Move a table into the trash."""
        self._public("DELETE", f"/{self.ids[title]}")

    def preview(self, title: str, definition: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what a schema would change of a table, column by column."""
        # Those that this push creates do not exist yet.
        unknown = {name for name, target in references(definition) if target not in self.ids}
        schema = without_references(definition, unknown)
        body = {"title": definition["title"], "schema": schema, "access_level": definition["access_level"]}
        found: list[dict[str, Any]] = self.ask("POST", f"{self._path}/tables/{self.ids[title]}/schema-preview", body)[
            "changes"
        ]
        return found

    def _public(self, method: str, path: str, body: Any = None) -> Any:
        return self.ask(method, f"/v1/public/tables{path}", body, **{"X-App-Id": self.app_id})


class Project(NamedTuple):
    """A folder with the definition of an app: where its files are, and what they say."""

    folder: Path
    tables: dict[str, dict[str, Any]]
    files: dict[str, Path]
    renamed: dict[str, str]
    base: dict[str, dict[str, Any]]


def read(folder: Path, app_id: str) -> Project:
    """Read a project; raises `CommandError`, with file and line, for what is wrong in a file."""
    tables, files, renamed = dict[str, dict[str, Any]](), dict[str, Path](), dict[str, str]()
    for file in sorted((folder / "tables").glob("*.y*ml")):
        definition = definitions.read(file)
        value, title = definition.value, definition.value.get("title")
        if unknown := value.keys() - _FIELDS:
            name = min(unknown)
            raise CommandError(f"{definition.place(name)}: a table has no field {name}.")
        if not isinstance(title, str) or not isinstance(value.get("access_level"), str):
            raise CommandError(f"{definition.place('title')}: a table has a title and an access_level.")
        if title in files:
            raise CommandError(f"{definition.place('title')}: {files[title]} has this title already.")
        try:
            tables[title] = canonical(value)
        except ValueError as error:
            raise CommandError(f"{definition.place('schema')}: {error}") from None
        files[title] = file
        if isinstance(value.get("was"), str):
            renamed[title] = value["was"]
    return Project(folder, tables, files, renamed, _base(folder, app_id))


def _base(folder: Path, app_id: str) -> dict[str, dict[str, Any]]:
    try:
        stored = json.loads((folder / ".pilotis" / "base.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    # That of another app says nothing about this one.
    found: dict[str, dict[str, Any]] = stored["tables"] if stored.get("app") == app_id else {}
    return found


def _keep_base(folder: Path, app_id: str, tables: dict[str, dict[str, Any]]) -> None:
    place = folder / ".pilotis"
    place.mkdir(exist_ok=True)
    # A base belongs to one copy of the project.
    (place / ".gitignore").write_text("*\n", "utf-8")
    (place / "base.json").write_text(json.dumps({"app": app_id, "tables": tables}, ensure_ascii=False), "utf-8")


_options = on_app(AppTables)
_folder = click.argument(
    "folder", type=click.Path(file_okay=False, path_type=Path), default=Path(), help="The project; by default `.`."
)


@click.command()
@_folder
@click.option("--force", is_flag=True, help="Overwrite files that have changed as well.")
@_options
def pull(remote: AppTables, folder: Path, force: bool) -> Iterator[tuple[str, Any]]:
    """Write the tables of an app into files, `tables/*.yaml`.

    Sign in with `pilotis login` first. A file that has changed since the last pull or push stays as it is; if the table
    has changed as well, nothing is written.
    """
    project, server = read(folder, remote.app_id), remote.read()
    steps = plan(project.tables, project.renamed, server, project.base)
    # A file without a base has an unknown history: it may be older or newer.
    clashes = [s.title for s in steps if s.kind == "conflict" or (s.kind == "change" and s.title not in project.base)]
    if clashes and not force:
        raise CommandError(
            f"{', '.join(clashes)}: the file and the table differ. See `pilotis diff`; --force overwrites."
        )
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    mine = {s.title for s in steps if s.kind in {"create", "change", "drop"}} if not force else set()
    for title, found in server.items():
        if title in mine or project.tables.get(title) == found:
            continue
        file = project.files.get(title) or _new_file(folder / "tables", title)
        file.write_text(definitions.dump(written(found)), "utf-8")
        yield f"Wrote {file}.", {"file": str(file), "title": title}
    for step in steps:
        if step.kind == "gone" or (force and step.kind == "conflict" and step.title not in server):
            file = project.files[step.title]
            file.unlink()
            yield f"Removed {file}.", {"file": str(file), "title": step.title}
    _keep_base(folder, remote.app_id, server if force else {**server, **_kept(project, mine)})


def _kept(project: Project, titles: set[str]) -> dict[str, dict[str, Any]]:
    return {title: project.base[title] for title in titles if title in project.base}


def _new_file(folder: Path, title: str) -> Path:
    name = re.sub(r"[^\w]+", "-", title.lower()).strip("-") or "table"
    file, number = folder / f"{name}.yaml", 1
    while file.exists():
        number += 1
        file = folder / f"{name}-{number}.yaml"
    return file


@click.command()
@_folder
@click.option("--check", is_flag=True, help="Fail if there is a difference.")
@_options
def diff(remote: AppTables, folder: Path, check: bool) -> Iterator[tuple[str, Any]]:
    """Show what `push` would change of an app."""
    project, server = read(folder, remote.app_id), remote.read()
    steps = plan(project.tables, project.renamed, server, project.base)
    yield from _shown(remote, project, steps)
    if check and any(step.kind != "left" for step in steps):
        raise CommandError("The files and the app differ.")


@click.command()
@_folder
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--allow-drop", is_flag=True, help="Drop tables and columns that the files no longer have.")
@_options
def push(remote: AppTables, folder: Path, yes: bool, allow_drop: bool) -> Iterator[tuple[str, Any]]:
    """Make the tables of an app what the files say, after showing what that changes.

    Tables that only the app has stay. What is dropped is in the app's trash for a while.
    """
    project, server = read(folder, remote.app_id), remote.read()
    steps = plan(project.tables, project.renamed, server, project.base)
    drops = list[str]()
    for text, fields in _shown(remote, project, steps):
        drops += fields["drops"]
        yield text, fields
    if clashes := [step.title for step in steps if step.kind == "conflict"]:
        raise CommandError(f"{', '.join(clashes)}: both sides have changed. Pull, or change the file.")
    if drops and not allow_drop:
        raise CommandError(f"This drops {', '.join(drops)}; --allow-drop permits it.")
    todo = [step for step in steps if step.kind in {"create", "change", "drop"}]
    if todo and not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("--yes applies the plan without asking.")
        click.confirm("Apply?", abort=True, err=True)
    _apply(remote, project, todo, server)
    now = remote.read()
    # What only the app has changed is as far from the base as before.
    stale = {step.title for step in steps if step.kind in {"newer", "gone"}}
    both = {title: now[title] for title in now if title in project.tables and title not in stale}
    _keep_base(folder, remote.app_id, {**both, **_kept(project, stale)})
    yield (f"Applied {len(todo)} changes." if todo else "There is nothing to change."), {"applied": len(todo)}


def _apply(remote: AppTables, project: Project, steps: list[Step], server: dict[str, dict[str, Any]]) -> None:
    """Create what others refer to first, then change, then drop."""
    created = [step.title for step in steps if step.kind == "create"]
    for title in created:
        _at(project, title, lambda title=title: remote.create(alone(project.tables[title]) or project.tables[title]))
    for title in created:
        if alone(project.tables[title]) is not None:
            _at(project, title, lambda title=title: remote.change(title, project.tables[title]))
    for step in steps:
        if step.kind == "change":
            _at(
                project,
                step.title,
                lambda step=step: remote.change(step.before or step.title, project.tables[step.title]),
            )
    dropped = in_order_of_dropping([step.title for step in steps if step.kind == "drop"], server)
    left = {title: server[title] for title in dropped}
    for title in dropped:
        del left[title]
        # Those that are dropped later must not refer to it: tables may refer to each other.
        for other, definition in left.items():
            columns = {name for name, target in references(definition) if target == title}
            if columns or title in json.dumps(definition.get("rules"), ensure_ascii=False):
                left[other] = {**definition, "schema": without_references(definition, columns), "rules": {}}
                remote.change(other, left[other])
        remote.drop(title)


def _at(project: Project, title: str, call: Any) -> None:
    """Call the server; its error about a table names the table's file."""
    try:
        call()
    except RejectedError as error:
        field = error.details[0]["field"] if error.details else "title"
        place = definitions.read(project.files[title]).place(field)
        raise CommandError(f"{place}: {error}") from None


def _shown(remote: AppTables, project: Project, steps: list[Step]) -> Iterator[tuple[str, Any]]:
    """Yield a line for each step, and one for each column that changes; `drops` names what would be lost."""
    for step in steps:
        fields: dict[str, Any] = {"table": step.title, "step": step.kind, "drops": []}
        match step.kind:
            case "create":
                text = f"+ {step.title}: create"
            case "drop":
                text, fields["drops"] = f"- {step.title}: drop", [step.title]
            case "left":
                text = f"  {step.title}: only the app has it; it stays"
            case "newer":
                text = f"  {step.title}: the app's is newer; `pilotis pull` fetches it"
            case "gone":
                text = f"  {step.title}: the app has dropped it; `pilotis pull` removes the file"
            case "conflict":
                text = f"! {step.title}: both sides have changed"
            case "change":
                text = f"~ {step.title}: " + (f"rename from {step.before}" if step.before else "change")
                fields["columns"] = _at_columns(remote, project, step)
                dropped = [column["name"] for column in fields["columns"] if column["kind"] == "dropped"]
                fields["drops"] = [f"{step.title}.{name}" for name in dropped]
                text += "".join(f"\n    {_column(column)}" for column in fields["columns"])
        yield text, fields


def _at_columns(remote: AppTables, project: Project, step: Step) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def ask() -> None:
        found.extend(remote.preview(step.before or step.title, project.tables[step.title]))

    _at(project, step.title, ask)
    return found


def _column(column: dict[str, Any]) -> str:
    sign = {"added": "+", "dropped": "-", "changed": "~"}[column["kind"]]
    text = f"{sign} {column['name']}"
    if column["kind"] == "dropped" and column["rows"]:
        text += f": {column['rows']} rows have a value"
    if column["rows_that_do_not_fit"]:
        text += f": {column['rows_that_do_not_fit']} rows do not fit, which makes the change fail"
    return text
