"""The floors: who may import whom. Reads the imports themselves, at any depth of a file, type-checking ones too."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "pilotis"
FLOORS = {"http", "db", "blobs", "kit"}
# Packages that contain several parts; each of them is checked separately.
NESTED = {"data", "security"}
# What each floor may import besides itself and outside libraries. A module is named by its part.
BELOW = {
    "kit": set[str](),
    "blobs": {"kit"},
    "db": {"kit"},
    "http": {"kit", "limits"},
    "limits": set[str](),
    "settings": {"limits", "kit"},
    "tracing": {"kit", "db", "http", "blobs"},
    "security.master_key": {"kit", "settings"},
    "jobs": {"kit", "db", "http"},
    "events": {"kit", "db", "http", "jobs"},
    # What features are built on, and what they declare; only their `feature.py` and `tasks.py` may know of it.
    "floor": {
        "kit",
        "blobs",
        "db",
        "http",
        "jobs",
        "events",
        "limits",
        "settings",
        "security.master_key",
        "security.encryption",
        "security.rate_limits",
        "security.sessions",
    },
    # A floor that is a feature as well: it declares itself in a module above what it is made of.
    "events.feature": {"floor", "feature", "kit", "db", "jobs", "events"},
    "feature": {"floor", "kit", "http", "jobs", "events", "security.encryption"},
}
# Where the parts are put together and started: these may import anything.
ROOF = {"server", "serve", "backup", "cli", "__main__", "__init__"}
FEATURE_MAY = {"http", "db", "blobs", "kit", "limits", "jobs", "events"}
# Inside `data/`, from the bottom up: a part may import every module of a part below it, and nothing above.
DATA_LAYERS = [
    f"data.{part}"
    for part in (
        "tables",
        "keys",
        "where",
        "rules",
        "indexes",
        "rows",
        "query",
        "views",
        "realtime",
        "transfer",
        "trash",
    )
]
# Exceptions to "through its service or its types": modules without I/O that another feature computes with.
EXCEPTIONS = {
    "accounts.factors.errors",
    "accounts.passkeys.ceremony",
    "accounts.passkeys.errors",
    "apps.keys",
    "functions.webhook_form",
    "security.encryption.cipher",
    "security.encryption.secrets",
    "hosting.errors",
    "hosting.paths",
    "hosting.zips",
    "webhooks.errors",
    "webhooks.naming",
}
# Queries of the server itself, independent of tenants: whether the database answers, and its extensions.
WITHOUT_TENANT = {"server", "db.extensions"}
ACQUIRING = {"connection", "transaction", "statement", "fetch", "fetchrow", "fetchval", "execute", "executemany"}
# Services of another name: a part that is one module, and what calls functions.
SERVICES = {"functions.calls", "members.hooks", "security.authenticator", "security.rate_limits", "security.single_use"}

# How often a column may be read by its name, without a type (`untyped_fields`). It only gets less.
MAX_UNTYPED_FIELDS = 95
# Parts whose statements have columns that depend on a table and on what is asked for.
COMPILING = ("data.rows.", "data.query.")
# Others that do; what runs any statement.
HANDING_ON_ROWS = {"jobs.node.run"}


@cache
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


@cache
def edges() -> list[tuple[str, str]]:
    """Pairs of an importing and an imported module."""
    trees = modules()
    return [(name, target) for name, tree in trees.items() for target in imports(tree, set(trees))]


def part_of(name: str) -> str:
    """The part that a module belongs to: its first package, or the second within a package of several parts."""
    if name in BELOW:
        return name
    names = name.split(".")
    return ".".join(names[:2]) if names[0] in NESTED and len(names) > 1 else names[0]


@cache
def features() -> set[str]:
    return {part_of(name) for name in modules()} - FLOORS - ROOF - set(BELOW) - NESTED - {""}


def violations(pairs: list[tuple[str, str]], domains: set[str]) -> list[str]:
    """A sentence for every import that does not point down."""
    return [sentence for pair in pairs if (sentence := _violation(*pair, domains))]


def _violation(source: str, target: str, domains: set[str]) -> str | None:
    part, other = part_of(source), part_of(target)
    if part == other or part in ROOF:
        return None
    if other in ROOF:
        return f"{source} imports {target}: only the start of the program may."
    if part not in domains:
        return None if other in BELOW.get(part, set()) else f"{source} imports {target}: that is not below it."
    if other in FEATURE_MAY:
        return None
    if source.endswith((".feature", ".tasks")) and _may_register(source, target):
        return None
    if other not in domains:
        return f"{source} imports {target}: a feature takes settings as arguments."
    if part in DATA_LAYERS and other in DATA_LAYERS:
        is_below = DATA_LAYERS.index(other) < DATA_LAYERS.index(part)
        return None if is_below else f"{source} imports {target}: {other} is above {part}."
    if target.split(".")[-1] in {"service", "types"} or target in EXCEPTIONS | SERVICES:
        return None
    return f"{source} imports {target}: another feature is reached through its service or its types."


def _may_register(source: str, target: str) -> bool:
    """Whether the module in which a feature registers itself may import another for that purpose."""
    is_own = source.rpartition(".")[0] == target.split(".")[0]
    return target in {"floor", "feature"} or is_own or target.endswith(".feature")


def circle(pairs: list[tuple[str, str]]) -> list[str] | None:
    """A path of parts that comes back to its start, if there is one."""
    graph: dict[str, set[str]] = {}
    for source, target in pairs:
        part, other = part_of(source), part_of(target)
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


def module_circles(pairs: list[tuple[str, str]]) -> list[list[str]]:
    """The groups of modules that import each other, directly or through others (Tarjan, 1972).

    Imports for types count as well: whoever reads one module of a circle has to know them all.
    """
    graph: dict[str, list[str]] = {}
    for source, target in pairs:
        graph.setdefault(source, []).append(target)
        graph.setdefault(target, [])
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for target in graph[name]:
            if target not in order:
                visit(target)
            if target in stack:
                lowest[name] = min(lowest[name], lowest[target])
        if lowest[name] == order[name]:
            group = stack[stack.index(name) :]
            del stack[-len(group) :]
            if len(group) > 1 or name in graph[name]:
                found.append(sorted(group))

    for name in graph:
        if name not in order:
            visit(name)
    return found


def test_imports_point_down():
    assert violations(edges(), features()) == []


def test_the_exceptions_are_in_use_and_without_io():
    pairs = edges()
    across = {target for source, target in pairs if part_of(source) != part_of(target)}
    assert across >= EXCEPTIONS
    for name in EXCEPTIONS:
        reached = {target for source, target in pairs if source == name} - EXCEPTIONS
        assert all(part_of(target) in {"kit", "limits", part_of(name)} for target in reached), name
        assert not any(target.endswith((".store", ".service", ".endpoints")) for target in reached), name


def test_services_take_a_client_in_place_of_the_request():
    trees = modules()
    assert {name for name, tree in trees.items() if imports_call(tree) and not may_import_call(name)} == set()
    assert imports_call(trees["files.endpoints"])
    assert imports_call(ast.parse("if TYPE_CHECKING:\n    from pilotis.http.api.request import Call as Request"))
    assert imports_call(ast.parse("from pilotis.http.api import request"))
    assert not may_import_call("files.delivery")


def may_import_call(name: str) -> bool:
    """Whether a module belongs to HTTP, records its requests, or puts the parts together."""
    return part_of(name) in {"http", "tracing", *ROOF} or name.split(".")[-1] == "endpoints"


def imports_call(tree: ast.Module) -> bool:
    """Whether a module imports the HTTP request, or the whole module in which it is."""
    names = {
        (node.module, alias.name) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    } | {("", alias.name) for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found = {("pilotis.http.api.request", "Call"), ("pilotis.http.api", "request"), ("", "pilotis.http.api.request")}
    return bool(names & found)


def test_every_connection_is_acquired_for_a_tenant():
    """Of n competing apps, each gets its share of the pool only if every connection is assigned to a tenant."""
    unnamed = [
        f"{name}, line {call.lineno}: for whom is the connection? Name the app's id, CONSOLE or BACKGROUND."
        for name, tree in modules().items()
        if name not in {"db.pool", *WITHOUT_TENANT}
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _acquires(call) and not _names_tenant(call)
    ]
    assert unnamed == []


def _acquires(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in ACQUIRING:
        return False
    owner = function.value
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return name.strip("_") == "database"


def _names_tenant(call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    first = call.func.attr in {"connection", "transaction", "statement"} and call.args
    return bool(first) or any(keyword.arg == "tenant" for keyword in call.keywords)


def test_no_circle():
    assert circle(edges()) is None


def test_no_modules_import_each_other():
    assert module_circles(edges()) == []


def untyped_fields(tree: ast.Module) -> list[ast.Subscript]:
    """Where a module reads a column of a database's row by its name, of which mypy knows neither that nor its type."""
    rows = {"row"}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and _is_row(node.annotation, tree):
            rows.add(node.arg)
        elif isinstance(node, ast.Assign) and ".fetchrow(" in ast.unparse(node.value):
            rows.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id in rows
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    ]


def handing_on_rows(tree: ast.Module) -> list[str]:
    """The public functions of a module that take or answer rows as the database gives them."""
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and any(
            _is_row(annotation, tree)
            for annotation in (node.returns, *(one.annotation for one in (*node.args.args, *node.args.kwonlyargs)))
        )
    ]


def _is_row(annotation: ast.expr | None, tree: ast.Module) -> bool:
    """Whether an annotation names `asyncpg.Record`; several features have a record of their own."""
    if annotation is None:
        return False
    words = set(re.findall(r"[\w.]+", ast.unparse(annotation)))
    return "asyncpg.Record" in words or ("Record" in words and _imports_rows(tree))


@cache
def _imports_rows(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.ImportFrom) and node.module == "asyncpg" and "Record" in {one.name for one in node.names}
        for node in ast.walk(tree)
    )


def test_columns_are_read_from_records():
    """Stores answer typed records; what is left are statements whose columns depend on a table, and single columns."""
    counts = {name: len(found) for name, tree in modules().items() if (found := untyped_fields(tree))}
    assert sum(counts.values()) <= MAX_UNTYPED_FIELDS, sorted(counts.items(), key=lambda item: -item[1])


def test_only_what_compiles_statements_hands_on_rows():
    found = {
        f"{name}.{function}"
        for name, tree in modules().items()
        if not name.startswith(("db.", *COMPILING))
        for function in handing_on_rows(tree)
    }
    assert found == HANDING_ON_ROWS


def test_untyped_fields_are_found():
    tree = ast.parse(
        """
import asyncpg
from asyncpg import Record

def shown(upload: Record | None, other: dict[str, str]) -> str:
    return upload["name"] + other["name"]

async def named(connection: asyncpg.Connection) -> asyncpg.Record | None:
    item = await connection.fetchrow("select 1 as a")
    for row in await connection.fetch("select 1 as b"):
        print(row["b"], row[0])
    return item["a"]
"""
    )
    assert [ast.unparse(node) for node in untyped_fields(tree)] == ["item['a']", "upload['name']", "row['b']"]
    assert handing_on_rows(tree) == ["shown", "named"]


def test_inside_files_arrows_point_one_way():
    inside = [(name, target) for name, target in edges() if name.startswith("files.") and target.startswith("files.")]
    graph = {(files_part(name), files_part(target)) for name, target in inside}
    assert circle([(name, target) for name, target in graph if name != target]) is None


def files_part(name: str) -> str:
    """The part of `files/` that a module is in, or its own name where it stands beside them."""
    part = ".".join(name.split(".")[:2])
    return part.replace(".", "_")


def test_all_modules_are_seen():
    names = {source for source, _ in edges()}
    assert {"server", "http.api.application", "data.rows.service", "members.endpoints"} <= names


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("kit.json", "http.api.request"),
        ("db.pool", "data.rows.service"),
        ("http.api.authorize", "members.service"),
        ("http.api.authorize", "db.pool"),
        ("members.service", "data.tables.store"),
        ("data.where.operands", "data.rows.table"),
        ("data.indexes.service", "data.query.search.compiler"),
        ("data.rows.service", "settings"),
        ("data.rows.service", "server"),
        ("limits", "kit.json"),
        ("members.service", "floor"),
        ("members.feature", "data.tables.store"),
        ("floor", "members.service"),
    ],
)
def test_an_import_that_points_up_is_found(source: str, target: str):
    assert violations([(source, target)], {"data.rows", "data.tables", "data.where", "data.query", "members"})


def test_a_circle_is_found():
    pairs = [("members.service", "apps.service"), ("apps.keys", "users.types"), ("users.service", "members.types")]
    assert circle(pairs)


def test_modules_that_import_each_other_are_found():
    pairs = [("a.one", "a.two"), ("a.two", "b.three"), ("b.three", "a.one"), ("b.three", "c.four"), ("d.five", "a.one")]
    assert module_circles(pairs) == [["a.one", "a.two", "b.three"]]
    assert module_circles([*pairs, ("c.four", "d.five")]) == [["a.one", "a.two", "b.three", "c.four", "d.five"]]
    assert module_circles([pair for pair in pairs if pair[0] != "b.three"]) == []
    tree = ast.parse("if TYPE_CHECKING:\n    from pilotis.db.pool import Database\ndef late(): import pilotis.kit.json")
    assert list(imports(tree, {"db.pool", "kit.json"})) == ["db.pool", "kit.json"]


def test_no_folder_hides_a_module_of_the_same_name():
    root = SOURCE.parents[1]
    hidden = [str(path) for top in ("src", "tests", "bench") for path in (root / top).rglob("*.py")]
    assert [path for path in hidden if (Path(path).with_suffix("") / "__init__.py").exists()] == []


def test_no_timeout_takes_away_what_was_granted():
    """`asyncio.timeout` may cancel a caller in the turn in which a future grants it something: see `kit.granting`.

    A future, unlike a coroutine, is completed by others. What is waited for here must be a call, whose own code sees
    the cancellation.
    """
    found = []
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.AsyncWith) and any("timeout" in ast.dump(item.context_expr) for item in node.items):
                awaits = [part.value for part in ast.walk(node) if isinstance(part, ast.Await)]
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "asyncio.wait_for":
                awaits = node.args[:1]
            else:
                continue
            found += [f"{name}: {ast.unparse(value)}" for value in awaits if not isinstance(value, ast.Call)]
    # Answers of a sandbox, which ends with its caller: nothing that another caller could use.
    assert sorted(found) == ["functions.runtime.sandbox: loaded", "functions.runtime.sandbox: ready"]


def test_a_start_imports_no_library_that_few_servers_need():
    """Each would delay the start: they are imported when they are first used."""
    late = {
        "opentelemetry",
        "requests",
        "joserfc",
        "aiohttp",
        "yarl",
        "PIL",
        "markdown_it",
        "prometheus_client",
        "nacl",
        "jsonschema_rs",
        "email.headerregistry",
        "cryptography",
    }
    code = "import sys, pilotis.serve.worker, pilotis.serve.installation; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "uvicorn" in done.stdout.split()
    assert late & set(done.stdout.split()) == set()


def test_the_described_paths_are_short_and_their_files_exist():
    page = (SOURCE.parents[1] / "docs" / "design" / "architecture.md").read_text("utf-8")
    section = page.partition("## Four paths, file by file\n")[2].partition("\n## ")[0]
    paths = re.split(r"^\*\*.*\*\*$", section, flags=re.MULTILINE)[1:]
    assert len(paths) == 4
    for path in paths:
        named = set(re.findall(r"`([a-z_/0-9]+\.(?:py|ts))`", path))
        assert 5 <= len(named) <= 12, sorted(named)
        assert [name for name in named if not (SOURCE / name).is_file()] == []
