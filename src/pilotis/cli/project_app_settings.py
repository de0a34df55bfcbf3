"""The settings of an app that a project decides: `settings.yaml`. All that the file does not name stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pilotis.cli import definitions
from pilotis.cli.project_base import Definitions
from pilotis.cli.project_part import Part
from pilotis.cli.remote import RejectedError
from pilotis.kit.definition_plan import Step
from pilotis.serve.errors import CommandError

FILE_NAME = "settings.yaml"
_ROUTES = {
    "accounts": ("PATCH", "account-settings"),
    "oauth": ("PUT", "oauth/settings"),
    "teams": ("PUT", "team-settings"),
    "profiles": ("PUT", "profiles"),
}
"""How each section is changed, below the address of the app; GET reads it."""
_WITH_PARTS = {"accounts.theme", "accounts.methods", "accounts.hooks", "accounts.challenge", "accounts.urls"}
"""The settings each part of which is one thing."""


class AppSettings(Part):
    """Each setting that the file names is one thing, such as `accounts.sign_up` or `accounts.theme.accent`."""

    kind, place, word = "settings", FILE_NAME, "setting"

    def server(self) -> Definitions:
        """See `Part`."""
        found = dict[str, dict[str, Any]]()
        for section, wanted in self._sections().items():
            current = self._remote.ask("GET", f"{self._remote.path}/{_ROUTES[section][1]}")
            for name in _named(section, wanted):
                value = _at(current, name.split(".")[1:])
                found |= {} if value is _MISSING else {name: {"value": value}}
        return found

    def files(self, server: Definitions) -> Definitions:  # noqa: ARG002 - it names what it decides
        """See `Part`."""
        return {
            name: {"value": _at(wanted, name.split(".")[1:])}
            for section, wanted in self._sections().items()
            for name in _named(section, wanted)
        }

    @property
    def _file(self) -> Path:
        return self._folder / FILE_NAME

    def _sections(self) -> dict[str, dict[str, Any]]:
        if not self._file.exists():
            return {}
        definition = definitions.read(self._file)
        for name, section in definition.value.items():
            if name not in _ROUTES:
                raise CommandError(f"{definition.place(name)}: {name} is not one of {', '.join(_ROUTES)}.")
            if not isinstance(section, Mapping):
                raise CommandError(f"{definition.place(name)}: {name} has names and values.")
        return dict(definition.value)

    def write(self, name: str) -> Path:
        """See `Part`."""
        value = self.server()[name]["value"]
        return self._rewrite(name, lambda place, key: place | {key: value})

    def remove(self, name: str) -> Path:
        """See `Part`: a setting that the file names and the app does not have."""
        return self._rewrite(name, lambda place, key: {one: place[one] for one in place if one != key})

    def _rewrite(self, name: str, change: Callable[[dict[str, Any], str], dict[str, Any]]) -> Path:
        def changed(place: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
            key, *rest = path
            return {**place, key: changed(place[key], rest)} if rest else change(dict(place), key)

        self._file.write_text(definitions.dump(changed(self._sections(), name.split("."))), "utf-8")
        return self._file

    def apply(self, steps: Sequence[Step]) -> None:
        """See `Part`; a setting that the file does not name any more stays as it is."""
        sections = self._sections()
        for section in dict.fromkeys(step.title.partition(".")[0] for step in steps if step.kind != "drop"):
            method, route = _ROUTES[section]
            current = self._remote.ask("GET", f"{self._remote.path}/{route}")
            body = {key: _completed(f"{section}.{key}", current, value) for key, value in sections[section].items()}
            try:
                self._remote.ask(method, f"{self._remote.path}/{route}", body)
            except RejectedError as error:
                raise CommandError(f"{self._file}: {error}") from None


_MISSING = object()


def _named(section: str, wanted: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of what a section of the file decides."""
    for key, value in wanted.items():
        name = f"{section}.{key}"
        if name in _WITH_PARTS and isinstance(value, Mapping):
            yield from (f"{name}.{part}" for part in value)
        else:
            yield name


def _at(values: Any, path: Sequence[str]) -> Any:
    """Return the value at a path, or `_MISSING`."""
    for key in path:
        if not isinstance(values, Mapping) or key not in values:
            return _MISSING
        values = values[key]
    return values


def _completed(name: str, current: Mapping[str, Any], wanted: Any) -> Any:
    """Return a setting as a file wants it; parts of a theme, which is replaced, stay if the file does not name them."""
    if name != "accounts.theme" or not isinstance(wanted, Mapping):
        return wanted
    return {**current[name.partition(".")[2]], **wanted}
