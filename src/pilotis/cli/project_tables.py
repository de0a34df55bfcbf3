"""The tables of a project: `tables/*.yaml`, each what the body of `POST /v1/public/tables` says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pilotis.cli import definitions
from pilotis.cli.project_base import Definitions
from pilotis.cli.project_part import AppOnServer, Part, new_file
from pilotis.cli.remote import RejectedError
from pilotis.kit.definition_plan import (
    Step,
    alone,
    canonical,
    in_order_of_dropping,
    references,
    without_references,
    written,
)
from pilotis.serve.errors import CommandError

_FIELDS = {"title", "was", "schema", "access_level", "unique", "rules"}


class Tables(Part):
    """The tables; one that is dropped is in the app's trash for a while."""

    kind, place, word = "tables", "tables", "table"

    def __init__(self, remote: AppOnServer, folder: Path) -> None:
        super().__init__(remote, folder)
        self._ids: dict[str, str] = {}
        self._server: Definitions = {}
        self._files: Definitions = {}
        self._places: dict[str, Path] = {}

    def server(self) -> Definitions:
        """See `Part`."""
        self._server = {}
        for table in self._public("GET", "")["tables"]:
            self._ids[table["title"]] = table["id"]
            rules = None
            if table.get("has_rules"):
                rules = self._remote.ask("GET", f"{self._remote.path}/tables/{table['id']}/rules")["rules"]
            self._server[table["title"]] = canonical({**table, "rules": rules})
        return self._server

    def files(self, server: Definitions) -> Definitions:  # noqa: ARG002 - a file leaves nothing out
        """See `Part`."""
        self._files, self._places, self.renamed = {}, {}, {}
        for file in sorted((self._folder / "tables").glob("*.y*ml")):
            definition = definitions.read(file)
            value, title = definition.value, definition.value.get("title")
            if unknown := value.keys() - _FIELDS:
                name = min(unknown)
                raise CommandError(f"{definition.place(name)}: a table has no field {name}.")
            if not isinstance(title, str) or not isinstance(value.get("access_level"), str):
                raise CommandError(f"{definition.place('title')}: a table has a title and an access_level.")
            if title in self._places:
                raise CommandError(f"{definition.place('title')}: {self._places[title]} has this title already.")
            try:
                self._files[title] = canonical(value)
            except ValueError as error:
                raise CommandError(f"{definition.place('schema')}: {error}") from None
            self._places[title] = file
            if isinstance(value.get("was"), str):
                self.renamed[title] = value["was"]
        return self._files

    def write(self, name: str) -> Path:
        """See `Part`."""
        folder = self._folder / "tables"
        folder.mkdir(parents=True, exist_ok=True)
        file = self._places.get(name) or new_file(folder, name)
        file.write_text(definitions.dump(written(self._server[name])), "utf-8")
        return file

    def remove(self, name: str) -> Path:
        """See `Part`."""
        self._places[name].unlink()
        return self._places[name]

    def apply(self, steps: Sequence[Step]) -> None:
        """See `Part`: what others refer to is created first, then changes come, then what is dropped."""
        created = [step.title for step in steps if step.kind == "create"]
        for title in created:
            self._at(title, partial(self._create, alone(self._files[title]) or self._files[title]))
        # Rules follow references of other tables, so all references come before.
        for title in created:
            if any(references(self._files[title])):
                closed = {**self._files[title], "rules": {}} if "rules" in self._files[title] else self._files[title]
                self._at(title, partial(self._change, title, closed))
        for title in created:
            if "rules" in self._files[title]:
                self._at(title, partial(self._change, title, self._files[title]))
        for step in steps:
            if step.kind == "change":
                self._at(step.title, partial(self._change, step.before or step.title, self._files[step.title]))
        self._drop([step.title for step in steps if step.kind == "drop"])

    def _drop(self, titles: Sequence[str]) -> None:
        """Drop tables, which may name each other."""
        dropped = in_order_of_dropping(titles, self._server)
        left = {title: self._server[title] for title in dropped}
        for title in dropped:
            # Rules may lead through any table, also back to their own.
            if "rules" in left[title]:
                left[title] = {**left[title], "rules": {}}
                self._change(title, left[title])
        for title in dropped:
            del left[title]
            # Those that are dropped later must not refer to it: tables may refer to each other.
            for other, definition in left.items():
                if columns := {name for name, target in references(definition) if target == title}:
                    left[other] = {**definition, "schema": without_references(definition, columns)}
                    self._change(other, left[other])
            self._public("DELETE", f"/{self._ids[title]}")

    def shown(self, step: Step) -> tuple[str, dict[str, Any]]:
        """See `Part`; of a table that changes, with a line for each column."""
        text, fields = super().shown(step)
        if step.kind == "change":
            fields["columns"] = list(self._columns(step))
            dropped = [column["name"] for column in fields["columns"] if column["kind"] == "dropped"]
            fields["drops"] = [f"{step.title}.{name}" for name in dropped]
            text += "".join(f"\n    {_column(column)}" for column in fields["columns"])
        return text, fields

    def _columns(self, step: Step) -> list[dict[str, Any]]:
        """Return what a schema would change of a table, column by column."""
        definition = self._files[step.title]
        # Those that this push creates do not exist yet.
        unknown = {name for name, target in references(definition) if target not in self._ids}
        schema = without_references(definition, unknown)
        body = {"title": definition["title"], "schema": schema, "access_level": definition["access_level"]}
        path = f"{self._remote.path}/tables/{self._ids[step.before or step.title]}/schema-preview"
        found: list[dict[str, Any]] = self._at(step.title, lambda: self._remote.ask("POST", path, body))["changes"]
        return found

    def _create(self, definition: dict[str, Any]) -> None:
        self._ids[definition["title"]] = self._public("POST", "", written(definition))["id"]

    def _change(self, title: str, definition: dict[str, Any]) -> None:
        """Replace the definition of the table with this title, which may change."""
        # What is absent would stay.
        self._public("PATCH", f"/{self._ids[title]}", {"rules": None, "unique": [], **written(definition)})
        self._ids[definition["title"]] = self._ids[title]

    def _at(self, title: str, call: Callable[[], Any]) -> Any:
        """Call the server; its error about a table names the table's file."""
        try:
            return call()
        except RejectedError as error:
            field = error.details[0]["field"] if error.details else "title"
            place = definitions.read(self._places[title]).place(field)
            raise CommandError(f"{place}: {error}") from None

    def _public(self, method: str, path: str, body: Any = None) -> Any:
        return self._remote.ask(method, f"/v1/public/tables{path}", body, **{"X-App-Id": self._remote.app_id})


def _column(column: dict[str, Any]) -> str:
    sign = {"added": "+", "dropped": "-", "changed": "~"}[column["kind"]]
    text = f"{sign} {column['name']}"
    if column["kind"] == "dropped" and column["rows"]:
        text += f": {column['rows']} rows have a value"
    if column["rows_that_do_not_fit"]:
        text += f": {column['rows_that_do_not_fit']} rows do not fit, which makes the change fail"
    return text
