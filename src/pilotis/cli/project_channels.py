"""The channels of a project: `channels.yaml`, a list of patterns in which the first that matches a name decides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pilotis.cli import definitions
from pilotis.cli.project_base import Definitions
from pilotis.cli.project_part import Part
from pilotis.cli.remote import RejectedError
from pilotis.kit.definition_plan import Step
from pilotis.serve.errors import CommandError

FILE_NAME = "channels.yaml"


class Channels(Part):
    """All channels of an app are one thing: their order means something."""

    kind, place, word = "channels", FILE_NAME, "channels"

    def server(self) -> Definitions:
        """See `Part`."""
        return _all(self._remote.ask("GET", f"{self._remote.path}/channels"))

    def files(self, server: Definitions) -> Definitions:  # noqa: ARG002 - the file leaves nothing out
        """See `Part`."""
        if not self._file.exists():
            return {}
        value = definitions.read(self._file).value
        patterns = value.get("channels")
        if (
            value.keys() - {"channels"}
            or not isinstance(patterns, list)
            or not all(isinstance(one, dict) for one in patterns)
        ):
            raise CommandError(f"{self._file}:1: say `channels:`, and a list of patterns below it.")
        return _all(value)

    @property
    def _file(self) -> Path:
        return self._folder / FILE_NAME

    def write(self, name: str) -> Path:
        """See `Part`."""
        self._file.write_text(definitions.dump(self.server()[name]), "utf-8")
        return self._file

    def remove(self, name: str) -> Path:  # noqa: ARG002 - there is one
        """See `Part`."""
        self._file.unlink()
        return self._file

    def apply(self, steps: Sequence[Step]) -> None:
        """See `Part`."""
        for step in steps:
            body = {"channels": []} if step.kind == "drop" else self.files({})[step.title]
            try:
                self._remote.ask("PUT", f"{self._remote.path}/channels", body)
            except RejectedError as error:
                raise CommandError(f"{self._file}: {error}") from None


def _all(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the patterns as one definition, in which usual values are absent; nothing without a pattern."""
    patterns = [{key: value for key, value in one.items() if value not in (None, False)} for one in found["channels"]]
    return {FILE_NAME: {"channels": patterns}} if patterns else {}
