"""Writes the table of error codes into docs/errors.md, from the error classes themselves.

.venv/bin/python tools/error_table.py            writes
.venv/bin/python tools/error_table.py --check    exits 1 if the table is not what it would write
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

import pilotis
from pilotis.kit.errors import PilotisError

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tools.pages import rewrite  # noqa: E402

PAGE = ROOT / "docs" / "errors.md"
BEGIN, END = "<!-- table of codes: begin -->", "<!-- table of codes: end -->"


def error_classes() -> list[type[PilotisError]]:
    """Return every error class of the package, by status and code."""
    for module in pkgutil.walk_packages(pilotis.__path__, "pilotis."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found, pending = set(), [PilotisError]
    while pending:
        found.add(class_ := pending.pop())
        pending += class_.__subclasses__()
    return sorted(found, key=lambda class_: (class_.status, class_.code, class_.__name__, class_.__module__))


def meaning(class_: type[PilotisError]) -> str:
    """Return a class's first sentence without the status and the code it begins with."""
    if class_ is PilotisError:
        return "something went wrong in the server; its log tells more under the request's id."
    first = " ".join((class_.__doc__ or "").partition("\n\n")[0].split())
    return first.partition(": ")[2] or first


def table() -> str:
    """Return the table in Markdown; classes that share a code share a line."""
    meanings: dict[tuple[int, str], list[str]] = {}
    for class_ in error_classes():
        known = meanings.setdefault((class_.status, class_.code), [])
        # A class that only refines another one, such as a busy table, says the same code for the same reason.
        if "code" in vars(class_) and meaning(class_) not in known:
            known.append(meaning(class_))
    lines = ["| Status | Code | When |", "|---|---|---|"]
    for (status, code), sentences in meanings.items():
        text = " Or: ".join(sentence[:1].upper() + sentence[1:] for sentence in sentences)
        lines.append(f"| {status} | `{code}` | {text.replace('|', chr(92) + '|')} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(rewrite(PAGE, BEGIN, END, table()))
