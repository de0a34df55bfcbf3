"""The file storages of a project: `storages.yaml`, a list of what the body of `POST …/storages/files` says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pilotis.cli import definitions
from pilotis.cli.project_base import Definitions
from pilotis.cli.project_part import AppOnServer, Part
from pilotis.cli.remote import RejectedError
from pilotis.kit.definition_plan import Step
from pilotis.serve.errors import CommandError

FILE_NAME = "storages.yaml"
_USUAL: dict[str, Any] = {
    "upload_access": "Public",
    "delete_access": "Public",
    "read_access": "Public",
    "list_access": None,
    "allowed_mime_types": [],
    "max_file_size": None,
    "rules": None,
}
_OF_SERVER = "quota_bytes"
"""A setting whose usual value is a limit of the app: where the file leaves it out, it stays as it is."""
_PAGE_SIZE = 100


class Storages(Part):
    """Each storage is one thing, with its rules. Its files are not part of a project."""

    kind, place, word = "storages", FILE_NAME, "storage"

    def __init__(self, remote: AppOnServer, folder: Path) -> None:
        super().__init__(remote, folder)
        self._ids: dict[str, str] = {}
        self._server: Definitions = {}

    def server(self) -> Definitions:
        """See `Part`."""
        self._server, with_quota = {}, {one.get("name") for one in self._listed() if _OF_SERVER in one}
        for storage in self._pages():
            self._ids[storage["name"]] = storage["id"]
            rules = None
            if storage.get("has_rules"):
                rules = self._remote.ask("GET", f"{self._path}/{storage['id']}/rules")["rules"]
            if storage["name"] not in with_quota:
                del storage[_OF_SERVER]
            self._server[storage["name"]] = _canonical({**storage, "rules": rules})
        return self._server

    def files(self, server: Definitions) -> Definitions:  # noqa: ARG002 - it names the quotas that it decides
        """See `Part`."""
        found = dict[str, dict[str, Any]]()
        for number, one in enumerate(self._listed()):
            name = one["name"]
            if name in found:
                raise CommandError(f"{self._place(f'storages[{number}].name')}: there is a storage {name} already.")
            found[name] = _canonical(one)
        return found

    def steps(self, files: Definitions, server: Definitions, base: Definitions) -> list[Step]:
        """See `Part`; a quota that the file names no longer says nothing about who has changed the storage."""
        unnamed = {name for name, found in server.items() if _OF_SERVER not in found}
        known = {
            name: {key: value for key, value in found.items() if key != _OF_SERVER or name not in unnamed}
            for name, found in base.items()
        }
        return super().steps(files, server, known)

    def write(self, name: str) -> Path:
        """See `Part`."""
        written = {key: value for key, value in self._server[name].items() if value != _USUAL.get(key, ...)}
        storages = {one["name"]: one for one in self._listed()}
        self._store({**storages, name: written})
        return self._file

    def remove(self, name: str) -> Path:
        """See `Part`."""
        self._store({one["name"]: one for one in self._listed() if one["name"] != name})
        return self._file

    def apply(self, steps: Sequence[Step]) -> None:
        """See `Part`; a storage that has files is not dropped."""
        wanted = self.files({}) if any(step.kind != "drop" for step in steps) else {}
        for step in steps:
            if step.kind == "create":
                self._ids[step.title] = self._ask(step.title, "POST", self._path, wanted[step.title])["id"]
            elif step.kind == "change":
                self._ask(step.title, "PATCH", f"{self._path}/{self._ids[step.title]}", wanted[step.title])
            else:
                self._ask(step.title, "DELETE", f"{self._path}/{self._ids.pop(step.title)}")

    @property
    def _path(self) -> str:
        return f"{self._remote.path}/storages/files"

    @property
    def _file(self) -> Path:
        return self._folder / FILE_NAME

    def _pages(self) -> Iterator[dict[str, Any]]:
        offset = 0
        while page := self._remote.ask("GET", f"{self._path}?limit={_PAGE_SIZE}&offset={offset}")["storages"]:
            yield from page
            offset += len(page)

    def _definition(self) -> definitions.Definition:
        definition = definitions.read(self._file)
        if definition.value.keys() != {"storages"} or not isinstance(definition.value["storages"], list):
            raise CommandError(f"{self._file}:1: say `storages:`, and a list of storages below it.")
        return definition

    def _listed(self) -> list[dict[str, Any]]:
        """Return the storages of the file; raises `CommandError`, with the line, for what is none."""
        found: list[dict[str, Any]] = self._definition().value["storages"] if self._file.exists() else []
        for number, one in enumerate(found):
            place = f"storages[{number}]"
            if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
                raise CommandError(f"{self._place(place)}: a storage has a name.")
            if unknown := one.keys() - {"name", _OF_SERVER, *_USUAL}:
                raise CommandError(f"{self._place(f'{place}.{min(unknown)}')}: a storage has no field {min(unknown)}.")
        return found

    def _store(self, storages: Mapping[str, dict[str, Any]]) -> None:
        if storages:
            self._file.write_text(definitions.dump({"storages": list(storages.values())}), "utf-8")
        else:
            self._file.unlink()

    def _place(self, field: str) -> str:
        return self._definition().place(field)

    def _ask(self, name: str, method: str, path: str, body: Any = None) -> Any:
        """Call the server; its error about a storage names the line."""
        try:
            return self._remote.ask(method, path, body)
        except RejectedError as error:
            names = [one["name"] for one in self._listed()]
            if name not in names:
                raise CommandError(f"storage {name}: {error}") from None
            field = error.details[0]["field"] if error.details else "name"
            raise CommandError(f"{self._place(f'storages[{names.index(name)}].{field}')}: {error}") from None


def _canonical(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a storage in the form in which two that say the same are equal."""
    found = {"name": given["name"], **{key: given.get(key, usual) for key, usual in _USUAL.items()}}
    return {**found, _OF_SERVER: given[_OF_SERVER]} if _OF_SERVER in given else found
