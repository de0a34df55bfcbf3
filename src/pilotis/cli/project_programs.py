"""The functions and workflows of a project: `functions/<name>/` and `workflows/*.yaml`, as an app has them or is to.

Variables of functions are not part of a project: their values are secret.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from pilotis.cli import definitions
from pilotis.cli.function_files import FILE_NAME, read_files, read_settings
from pilotis.cli.functions import upload
from pilotis.cli.project_base import Definitions
from pilotis.cli.project_part import AppOnServer, Part, new_file
from pilotis.cli.remote import RejectedError
from pilotis.cli.workflows import FIELDS, pages
from pilotis.functions.runtime.policy import Runtime
from pilotis.functions.sources import of_files
from pilotis.functions.types import DEFAULT_SCOPES
from pilotis.hosting.paths import check_file_path
from pilotis.kit.definition_plan import Step, named
from pilotis.kit.errors import PilotisError
from pilotis.serve.errors import CommandError
from pilotis.workflows.types import Step as WorkflowStep

_SETTINGS: dict[str, Any] = {
    "description": "",
    "invoke_access": "Public",
    "oauth_scope": None,
    "scopes": sorted(DEFAULT_SCOPES),
    "egress": {"mode": "none", "hosts": []},
}
"""The settings of a function that are usual."""
_OF_SERVER = ("timeout_seconds", "memory_mb")
"""Settings whose usual value is a limit of the app."""
_MAX_BYTES = 2**40  # The server knows the limit.


class Functions(Part):
    """`functions/<name>/`, with the name and the settings in `function.toml`."""

    kind, place, word, lost = "functions", "functions", "function", "its versions and variables"

    def __init__(self, remote: AppOnServer, folder: Path) -> None:
        super().__init__(remote, folder)
        self._ids: dict[str, str] = {}
        self._versions: dict[str, int | None] = {}
        self._settings: Definitions = {}
        self.stored: Definitions = {}
        """What `store` has stored."""

    def server(self) -> Definitions:
        """See `Part`; a definition is the settings and the digest of the files."""
        found = dict[str, dict[str, Any]]()
        for one in pages(self._remote, f"{self._remote.path}/functions"):
            name, path = one["name"], f"{self._remote.path}/functions/{one['id']}"
            self._ids[name], self._versions[name] = one["id"], one["active_version"]
            self._settings[name] = _settings(one)
            digest = None
            if one["active_version"] is not None:
                digest = self._remote.ask("GET", f"{path}/versions/{one['active_version']}")["sha256"]
            found[name] = {**self._settings[name], "sha256": digest}
        return found

    def folders(self) -> dict[str, Path]:
        """Return the folders of functions by their names; raises `CommandError` for two of one name."""
        found = dict[str, Path]()
        for file in sorted((self._folder / "functions").glob(f"*/{FILE_NAME}")):
            name = read_settings(file.parent)["name"]
            if name in found:
                raise CommandError(f"{file}: {found[name]} has the name {name} already.")
            found[name] = file.parent
        return found

    def files(self, server: Definitions) -> Definitions:
        """See `Part`."""
        return {
            name: _defined(folder, read_settings(folder), read_files(folder), server.get(name))
            for name, folder in self.folders().items()
        }

    def store(self, name: str) -> str:
        """Create or change a function as its files say, and return its new version; raises `CommandError`."""
        folder = self.folders()[name]
        settings, files = read_settings(folder), read_files(folder)
        try:
            if name not in self._ids:
                made = self._remote.ask("POST", f"{self._remote.path}/functions", settings)
                self._ids[name], self._settings[name] = made["id"], _settings(made)
            path = f"{self._remote.path}/functions/{self._ids[name]}"
            known = self._settings[name]
            definition = _defined(folder, settings, files, known)
            wanted = {field: definition[field] for field in known}
            if changes := {field: value for field, value in wanted.items() if known[field] != value}:
                self._settings[name] = _settings(self._remote.ask("PATCH", path, changes))
            body: dict[str, Any] = {"files": files}
            if "entrypoint" in settings:
                body["entrypoint"] = settings["entrypoint"]
            version = upload(self._remote, path, body)
            self.stored[name] = {**self._settings[name], "sha256": definition["sha256"]}
        except RejectedError as error:
            raise CommandError(f"{folder}: {error}") from None
        for warning in version["warnings"]:
            click.echo(f"Warning: {folder}: {warning}", err=True)
        return f"version {version['version']}"

    def write(self, name: str) -> Path:
        """See `Part`: the files of the active version; files that only the folder has stay if they are not deployed."""
        folder = self.folders().get(name, self._folder / "functions" / name)
        deployed = read_files(folder) if folder.exists() else {}
        folder.mkdir(parents=True, exist_ok=True)
        if (version := self._versions[name]) is not None:
            path = f"{self._remote.path}/functions/{self._ids[name]}/versions/{version}/source"
            files = self._remote.ask("GET", path)["files"]
            for gone in deployed.keys() - files.keys():
                (folder / gone).unlink()
            for file, text in files.items():
                check_file_path(file)
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_text(text, "utf-8")
        settings = {"name": name, **self._settings[name]}
        kept = {
            field: value for field, value in settings.items() if field not in _SETTINGS or value != _SETTINGS[field]
        }
        own = read_settings(folder) if (folder / FILE_NAME).exists() else {}
        for field in _OF_SERVER:
            if field not in own:
                del kept[field]
        if "entrypoint" in own:
            kept["entrypoint"] = own["entrypoint"]
        (folder / FILE_NAME).write_text(_toml(kept), "utf-8")
        return folder

    def apply(self, steps: Sequence[Step]) -> None:
        """See `Part`; a function that a workflow calls is not dropped."""
        for step in steps:
            if step.kind == "drop":
                self._remote.ask("DELETE", f"{self._remote.path}/functions/{self._ids.pop(step.title)}")
            else:
                self.store(step.title)

    def remove(self, name: str) -> Path:
        """See `Part`."""
        folder = self.folders()[name]
        shutil.rmtree(folder)
        return folder


class Workflows(Part):
    """`workflows/*.yaml`, which name functions by their names."""

    kind, place, word, lost = "workflows", "workflows", "workflow", "its executions"

    def __init__(self, remote: AppOnServer, folder: Path) -> None:
        super().__init__(remote, folder)
        self._ids: dict[str, str] = {}
        self._found: Definitions = {}

    def server(self) -> Definitions:
        """See `Part`."""
        found = list(pages(self._remote, f"{self._remote.path}/workflows"))
        names = {}
        if found:
            names = {one["id"]: one["name"] for one in pages(self._remote, f"{self._remote.path}/functions")}
        self._ids = {one["name"]: one["id"] for one in found}
        # The steps are not in the list.
        details = [self._remote.ask("GET", f"{self._remote.path}/workflows/{one['id']}") for one in found]
        self._found = {one["name"]: _workflow(one, names) for one in details}
        return self._found

    def files(self, server: Definitions) -> Definitions:  # noqa: ARG002 - needs only the files
        """See `Part`."""
        return {name: _workflow(definition.value, {}) for name, definition in self._definitions().items()}

    def _definitions(self) -> dict[str, definitions.Definition]:
        found = dict[str, definitions.Definition]()
        for file in sorted((self._folder / "workflows").glob("*.y*ml")):
            definition = definitions.read(file)
            name = definition.value.get("name")
            if not isinstance(name, str):
                raise CommandError(f"{file}:1: a workflow has a name.")
            if unknown := definition.value.keys() - FIELDS.keys():
                raise CommandError(f"{definition.place(min(unknown))}: a workflow has no field {min(unknown)}.")
            if name in found:
                raise CommandError(f"{definition.place('name')}: {found[name].file} has this name already.")
            found[name] = definition
        return found

    def store(self, name: str) -> str:
        """Create or change a workflow, and return what it is now; raises `CommandError`, which names the line."""
        definition = self._definitions()[name]
        path = f"{self._remote.path}/workflows"
        try:
            if name in self._ids:
                made = self._remote.ask("PUT", f"{path}/{self._ids[name]}", definition.value)
            else:
                made = self._remote.ask("POST", path, definition.value)
        except RejectedError as error:
            wrong = [f"{definition.place(one['field'])}: {one['message']}" for one in error.details]
            raise CommandError("\n".join(wrong) or f"{definition.file}: {error}") from None
        self._ids[name] = made["id"]
        return f"version {made['version']}"

    def write(self, name: str) -> Path:
        """See `Part`."""
        folder = self._folder / "workflows"
        folder.mkdir(parents=True, exist_ok=True)
        known = self._definitions().get(name)
        file = known.file if known else new_file(folder, name)
        fields = {field: value for field, value in self._found[name].items() if value != FIELDS[field]}
        # The steps come last, as the longest part.
        steps = fields.pop("steps", [])
        file.write_text(definitions.dump({**fields, "steps": steps}), "utf-8")
        return file

    def apply(self, steps: Sequence[Step]) -> None:
        """See `Part`."""
        for step in steps:
            if step.kind == "drop":
                self._remote.ask("DELETE", f"{self._remote.path}/workflows/{self._ids.pop(step.title)}")
            else:
                self.store(step.title)

    def remove(self, name: str) -> Path:
        """See `Part`."""
        file = self._definitions()[name].file
        file.unlink()
        return file


def _defined(
    folder: Path, settings: dict[str, Any], files: dict[str, str], server: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the definition of a function whose settings and files these are; raises `CommandError`."""
    if unknown := settings.keys() - {"name", "runtime", "entrypoint", *_SETTINGS, *_OF_SERVER}:
        raise CommandError(f"{folder / FILE_NAME}: a function has no setting {min(unknown)}.")
    usual = {name: (server or {}).get(name) for name in _OF_SERVER}
    if server is not None and server["runtime"] != settings["runtime"]:
        raise CommandError(f"{folder / FILE_NAME}: a function keeps its runtime, {server['runtime']}.")
    try:
        source = of_files(Runtime(settings["runtime"]), files, settings.get("entrypoint"), _MAX_BYTES)
    except ValueError:
        raise CommandError(f"{folder / FILE_NAME}: there is no runtime {settings['runtime']}.") from None
    except PilotisError as error:
        raise CommandError(f"{folder}: {error.text}") from None
    return {**_settings({**usual, **settings}), "sha256": source.sha256}


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return all settings of a function in a form in which equal ones are equal."""
    found = {**_SETTINGS, **{name: given[name] for name in _SETTINGS if name in given}}
    found["scopes"] = sorted(set(found["scopes"]))
    found["egress"] = {**_SETTINGS["egress"], **found["egress"]}
    return {"runtime": given["runtime"], **found, **{name: given.get(name) for name in _OF_SERVER}}


def _workflow(given: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    found = {field: given.get(field, default) for field, default in FIELDS.items()}
    try:
        # What a step leaves out is what it says with the usual value.
        steps: Any = msgspec.to_builtins(msgspec.convert(found["steps"], list[WorkflowStep]))
        found["steps"] = [named(step, names) for step in steps]
    except msgspec.ValidationError:
        pass  # The server names the line.
    return found


def _toml(values: dict[str, Any]) -> str:
    """Return settings as TOML: JSON's texts, numbers and lists are TOML's as well."""
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items() if name != "egress"]
    if egress := values.get("egress"):
        lines += ["", "[egress]", *(f"{name} = {json.dumps(value)}" for name, value in egress.items())]
    return "\n".join(lines) + "\n"
