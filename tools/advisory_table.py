"""Writes the tables of docs/design/threats.md: published vulnerabilities, and the tests that cover them.

.venv/bin/python tools/advisory_table.py            writes
.venv/bin/python tools/advisory_table.py --check    exits 1 if the table is not what it would write
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.security.references import CLASSES, REFERENCES, WITHOUT_A_PLACE  # noqa: E402

from tools.pages import rewrite  # noqa: E402

PAGE = ROOT / "docs" / "design" / "threats.md"
BEGIN, END = "<!-- table of references: begin -->", "<!-- table of references: end -->"


def marked_tests() -> dict[str, list[str]]:
    """Return for each reference the tests that are marked with it, as `file::test`."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, references in _marks(ast.parse(path.read_text("utf-8"))):
            for reference in references:
                found.setdefault(reference, []).append(f"{path.relative_to(ROOT / 'tests').as_posix()}::{name}")
    return found


def _marks(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or not node.name.startswith("test_"):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.advisory":
                yield node.name, [ast.literal_eval(argument) for argument in decorator.args]


def table() -> str:
    """Return the table in Markdown, class by class, and the references that nothing corresponds to."""
    tests = marked_tests()
    lines = []
    for class_, title in CLASSES.items():
        lines += [f"\n### {class_}: {title}\n", "| Reference | Vulnerability | Tests |", "|---|---|---|"]
        for known in REFERENCES:
            if known.class_ == class_:
                places = ", ".join(f"`{place}`" for place in tests.get(known.reference, []))
                lines.append(f"| {known.reference} | {known.meaning} | {places} |")
    lines += ["\n### Not applicable\n", "| Reference | Reason |", "|---|---|"]
    lines += [f"| {reference} | {why} |" for reference, why in WITHOUT_A_PLACE.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(rewrite(PAGE, BEGIN, END, f"{table()}\n"))
