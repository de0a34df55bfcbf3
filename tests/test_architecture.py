"""The floors: who may import whom. Reads the imports themselves, at any depth of a file, type-checking ones too."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "pilotis"
FLOORS = {"http", "db", "blobs", "kit"}
# What each floor may import besides itself and outside libraries. A module is named by its first part.
BELOW = {
    "kit": set[str](),
    "blobs": {"kit"},
    "db": {"kit"},
    "http": {"kit", "limits"},
    "limits": set[str](),
    "settings": {"limits"},
    "master_key": {"kit", "settings"},
    "maintenance": {"kit", "db"},
}
# Where the parts are put together and started: these may import anything.
ROOF = {"server", "serve", "cli", "__main__", "__init__"}
FEATURE_MAY = {"http", "db", "blobs", "kit", "limits"}
# Exceptions to "through its service or its types": modules without I/O that another feature computes with.
EXCEPTIONS = {
    "apps.keys",
    "encryption.cipher",
    "tables.ddl",
    "tables.schema",
    "tables.sealing",
    "tables.values",
}

# Parts of a feature's service that have a module of their own.
SERVICES = {"tables.built", "tables.columns"}


def modules() -> dict[str, ast.Module]:
    """Every module's syntax tree by its name within the package, such as `rows.service`."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = ast.parse(path.read_text("utf-8"))
    return found


def imports(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """The package's modules that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"relative import in line {node.lineno}"
            if node.module == "pilotis":
                yield from (alias.name for alias in node.names if not alias.name.startswith("__"))
            elif node.module and node.module.startswith("pilotis."):
                base = node.module.removeprefix("pilotis.")
                for alias in node.names:
                    full = f"{base}.{alias.name}"
                    yield full if full in known else base
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("pilotis."):
                    yield alias.name.removeprefix("pilotis.")


def edges() -> list[tuple[str, str]]:
    """Pairs of an importing and an imported module."""
    trees = modules()
    return [(name, target) for name, tree in trees.items() for target in imports(tree, set(trees))]


def features() -> set[str]:
    named = {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    return named - FLOORS - ROOF


def violations(pairs: list[tuple[str, str]], domains: set[str]) -> list[str]:
    """A sentence for every import that does not point down."""
    return [sentence for pair in pairs if (sentence := _violation(*pair, domains))]


def _violation(source: str, target: str, domains: set[str]) -> str | None:
    part, other = source.split(".")[0], target.split(".")[0]
    if part == other or part in ROOF:
        return None
    if other in ROOF:
        return f"{source} imports {target}: only the start of the program may."
    if part not in domains:
        return None if other in BELOW.get(part, set()) else f"{source} imports {target}: that is not below it."
    if other in FEATURE_MAY:
        return None
    if other not in domains:
        return f"{source} imports {target}: a feature takes settings as arguments."
    if target.split(".")[-1] in {"service", "types"} or target in EXCEPTIONS | SERVICES:
        return None
    return f"{source} imports {target}: another feature is reached through its service or its types."


def circle(pairs: list[tuple[str, str]]) -> list[str] | None:
    """A path of parts that comes back to its start, if there is one."""
    graph: dict[str, set[str]] = {}
    for source, target in pairs:
        part, other = source.split(".")[0], target.split(".")[0]
        if part != other and part not in ROOF:
            graph.setdefault(part, set()).add(other)
    for start in graph:
        pending = [[start]]
        seen = set()
        while pending:
            path = pending.pop()
            for following in graph.get(path[-1], ()):
                if following == start:
                    return [*path, start]
                if following not in seen:
                    seen.add(following)
                    pending.append([*path, following])
    return None


def test_imports_point_down():
    assert violations(edges(), features()) == []


def test_the_exceptions_are_in_use_and_without_io():
    pairs = edges()
    across = {target for source, target in pairs if source.split(".")[0] != target.split(".")[0]}
    assert across >= EXCEPTIONS
    for name in EXCEPTIONS:
        reached = {target for source, target in pairs if source == name} - EXCEPTIONS
        assert all(target.split(".")[0] in {"kit", "limits", name.split(".")[0]} for target in reached), name
        assert not any(target.endswith((".store", ".service", ".endpoints")) for target in reached), name


def test_no_circle():
    assert circle(edges()) is None


def test_all_modules_are_seen():
    names = {source for source, _ in edges()}
    assert {"server", "http.application", "rows.service", "members.endpoints"} <= names


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("kit.json", "http.call"),
        ("db.pool", "rows.service"),
        ("http.gate", "members.service"),
        ("http.gate", "db.pool"),
        ("rows.service", "tables.store"),
        ("rows.service", "settings"),
        ("rows.service", "server"),
        ("limits", "kit.json"),
    ],
)
def test_an_import_that_points_up_is_found(source: str, target: str):
    assert violations([(source, target)], {"rows", "tables", "members"})


def test_a_circle_is_found():
    assert circle([("rows.service", "tables.service"), ("tables.ddl", "apps.types"), ("apps.service", "rows.types")])
