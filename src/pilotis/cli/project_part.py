"""What the parts of a project have in common: tables, storages, functions and more, in files and on a server."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

from pilotis.cli.login import SignedIn
from pilotis.cli.project_base import Definitions
from pilotis.kit.definition_plan import Step, plan


class AppOnServer(SignedIn):
    """An app on a server, as a console user. `path` is that of its routes, such as `/v1/apps/ID`."""

    def __init__(self, url: str, path: str) -> None:
        super().__init__(url, "")
        self.url, self.path = url, path
        self.app_id = unquote(path.rpartition("/")[2])


class Part(ABC):
    """Things of one kind in a project: what the files say, what the app has, and how one becomes the other.

    A definition is canonical: two that say the same are equal.
    """

    kind: ClassVar[str]
    """The name in `base.json`."""
    place: ClassVar[str]
    """The folder or file of a project that has them."""
    word: ClassVar[str]
    """One of them, in sentences."""
    lost: ClassVar[str] = ""
    """What is lost with one that is dropped, as it cannot be restored."""

    def __init__(self, remote: AppOnServer, folder: Path) -> None:
        """`folder` is that of the project."""
        self._remote, self._folder = remote, folder
        self.renamed: dict[str, str] = {}

    @abstractmethod
    def server(self) -> Definitions:
        """Return what the app has."""

    @abstractmethod
    def files(self, server: Definitions) -> Definitions:
        """Return what the files say; raises `CommandError`, with the place, for what is wrong in one.

        What a file leaves out is as it is on the server.
        """

    @abstractmethod
    def write(self, name: str) -> Path:
        """Write what the app has into files, and return their place."""

    @abstractmethod
    def remove(self, name: str) -> Path:
        """Remove the files of one, and return their place."""

    @abstractmethod
    def apply(self, steps: Sequence[Step]) -> None:
        """Create, change and drop; raises `CommandError`, with the place, for what the server rejects."""

    def steps(self, files: Definitions, server: Definitions, base: Definitions) -> list[Step]:
        """Return what makes the app what the files say."""
        return plan(files, self.renamed, server, base)

    def shown(self, step: Step) -> tuple[str, dict[str, Any]]:
        """Return a step as a text and as fields, of which `drops` names what would be lost."""
        drops = [step.title] if step.kind == "drop" else []
        name = step.title if self.word in {"table", "channels"} else f"{self.word} {step.title}"
        lost = f", with {self.lost}: they cannot be restored" if self.lost else ""
        text = {
            "create": f"+ {name}: create",
            "drop": f"- {name}: drop{lost}",
            "left": f"  {name}: only the app has it; it stays",
            "newer": f"  {name}: the app's is newer; `pilotis pull` fetches it",
            "gone": f"  {name}: the app has dropped it; `pilotis pull` removes the file",
            "conflict": f"! {name}: both sides have changed",
            "change": f"~ {name}: " + (f"rename from {step.before}" if step.before else "change"),
        }[step.kind]
        return text, {self.word: step.title, "step": step.kind, "drops": drops}


def new_file(folder: Path, title: str) -> Path:
    """Return a path in a folder for a definition, whose title may be any text."""
    name = re.sub(r"[^\w]+", "-", title.lower()).strip("-") or "unnamed"
    file, number = folder / f"{name}.yaml", 1
    while file.exists():
        number += 1
        file = folder / f"{name}-{number}.yaml"
    return file
