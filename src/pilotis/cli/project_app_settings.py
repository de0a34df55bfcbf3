"""The settings of an app that a project decides: `settings.yaml`. All that the file does not name stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


class AppSettings(Part):
    """Each setting that the file names is one thing, such as `accounts.sign_up`."""

    kind, place, word = "settings", FILE_NAME, "setting"

    def server(self) -> Definitions:
        """See `Part`."""
        found = dict[str, dict[str, Any]]()
        for section, wanted in self._sections().items():
            current = self._remote.ask("GET", f"{self._remote.path}/{_ROUTES[section][1]}")
            found |= {f"{section}.{key}": {"value": current[key]} for key in wanted if key in current}
        return found

    def files(self, server: Definitions) -> Definitions:  # noqa: ARG002 - it names what it decides
        """See `Part`."""
        return {
            f"{section}.{key}": {"value": value}
            for section, wanted in self._sections().items()
            for key, value in wanted.items()
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
        sections = self._sections()
        section, _, key = name.partition(".")
        sections[section] = {**sections[section], key: self.server()[name]["value"]}
        self._file.write_text(definitions.dump(sections), "utf-8")
        return self._file

    def remove(self, name: str) -> Path:
        """See `Part`: a setting that the file names and the app does not have."""
        sections = self._sections()
        section, _, key = name.partition(".")
        del sections[section][key]
        self._file.write_text(definitions.dump(sections), "utf-8")
        return self._file

    def apply(self, steps: Sequence[Step]) -> None:
        """See `Part`; a setting that the file does not name any more stays as it is."""
        sections = self._sections()
        for section in dict.fromkeys(step.title.partition(".")[0] for step in steps if step.kind != "drop"):
            method, route = _ROUTES[section]
            try:
                self._remote.ask(method, f"{self._remote.path}/{route}", sections[section])
            except RejectedError as error:
                raise CommandError(f"{self._file}: {error}") from None
