"""What the documentation says is so: its links lead somewhere, its commands run, their answers are the ones shown.

- The guides run in the order of docs/index.md on one server, started as the README says, with the first app and its
  first console user. A reader pastes; so does the test, with the printed values in place of the placeholders.
- A fenced block `sh test` is run, all those of a page in one shell, after the block `sh prelude` of
  docs/getting-started.md. A `json` block right after it is the answer; a text with `…` in it stands for any text
  of that form, and times in milliseconds are not compared. A block without an answer must not meet an error.
- In docs/where.md a block `json where` is a condition, and the line after it names the rows that it finds.
"""

import ast
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args
from urllib.parse import unquote

import httpx
import pytest

from pilotis.data.where.compiler import OPERATORS
from pilotis.functions.types import Scope
from tests import databases
from tests.support import App, Server
from tests.waiting import PATIENCE, reserved_port

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(ROOT)
    for folder, pattern in ((ROOT, "*.md"), (DOCS, "**/*.md"), (ROOT / "examples", "**/*.md"))
    for path in folder.glob(pattern)
)
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SEPARATOR = "\x1e"


class Block(NamedTuple):
    """A fenced block: its info string, what it holds, and the text up to the next block."""

    info: str
    text: str
    after: str


def blocks(page: Path) -> list[Block]:
    text = (ROOT / page).read_text("utf-8")
    found = list(FENCE.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)]
    return [Block(match[1].strip(), match[2], text[match.end() : end]) for match, end in zip(found, ends, strict=False)]


def prose(page: Path) -> str:
    return FENCE.sub("", (ROOT / page).read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ +(.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        linked = (ROOT / page).parent / path if path else ROOT / page
        if not linked.exists() or (anchor and anchor not in anchors(linked.resolve().relative_to(ROOT))):
            broken.append(target)
    assert not broken


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, pending = set(), [Path("README.md")]
    while pending:
        page = pending.pop()
        if page in reached:
            continue
        reached.add(page)
        for target in re.findall(r"\]\(([^)\s#]+\.md)", prose(page)):
            linked = ((ROOT / page).parent / target).resolve()
            if linked.is_relative_to(ROOT) and linked.exists():
                pending.append(linked.relative_to(ROOT))
    assert not set(PAGES) - reached


READING_ORDER = [
    "docs/index.md",
    *(f"docs/{name}" for name in re.findall(r"\((\S+)\.md\)", prose(Path("docs/index.md")))),
]
TESTED = sorted(
    (page for page in PAGES if any(block.info == "sh test" for block in blocks(page))),
    key=lambda page: READING_ORDER.index(str(page.with_suffix(""))),
)
STARTED = Path("docs/getting-started.md")


def block_of(page: Path, info: str) -> str:
    return next(block.text for block in blocks(page) if block.info == info)


class Reader:
    """Somebody who follows the guides beside a server that was just started, in a bash of each page's own."""

    def __init__(self, server: Server, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.printed = server.output

    def pasted(self, script: str) -> str:
        """Return the script with the values that the server printed in place of the placeholders."""
        for placeholder, pattern in (
            ("http://127.0.0.1:8090", r"http://[\d.]+:\d+"),
            ("APP=…", r"app id +(\S+)"),
            ("pk_…", r"pk_[\w-]+"),
            ("the part after #", r"setup#(\S+)"),
        ):
            found = re.search(pattern, self.printed)
            value = found[found.lastindex or 0]
            script = script.replace(placeholder, f"APP={value}" if placeholder == "APP=…" else value)
        assert "…" not in script, script
        return script

    async def run(self, script: str) -> tuple[int, str, str]:
        """Run a script after the prelude and return its status, its output and its errors."""
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-euo",
            "pipefail",
            "-c",
            "set +u\n" + self.pasted(block_of(STARTED, "sh prelude") + script),
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                # The server of a reader has its database in the working directory.
                "PILOTIS_DATA_DIR": str(self.server.data_dir),
                **databases.environment(self.server.data_dir),
            },
        )
        output, errors = await asyncio.wait_for(process.communicate(), 5 * PATIENCE)
        return process.returncode, output.decode(), errors.decode()


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """The reader of the README, who has started a server and become its first console user as the guide says."""
    directory = tmp_path_factory.mktemp("guides")
    with reserved_port() as metrics:
        server = Server(directory / "data", environment={"PILOTIS_METRICS_PORT": str(metrics)}).start()
        reader = Reader(server, directory)
        status, output, errors = asyncio.run(reader.run(block_of(STARTED, "sh signup")))
        assert status == 0, errors
        assert "access_token" in output, output
        yield reader
        server.stop()


def shape_of(shown: str) -> str:
    return ".*".join(re.escape(part) for part in shown.split("…"))


def exact(text: str) -> Any:
    """Decode JSON with its fractions as they are written: 9.90 is not 9.9 to a reader."""
    return json.loads(text, parse_float=str)


def same(shown: Any, real: Any, key: str = "") -> bool:
    """Tell whether a real answer is the one shown."""
    if key.endswith("_ms"):
        return re.fullmatch(r"\d+\.\d+", str(real)) is not None
    if isinstance(shown, dict):
        return (
            isinstance(real, dict)
            and list(shown) == list(real)
            and all(same(value, real[name], name) for name, value in shown.items())
        )
    if isinstance(shown, list):
        return isinstance(real, list) and len(shown) == len(real) and all(map(same, shown, real))
    if isinstance(shown, str) and "…" in shown:
        return isinstance(real, str) and re.fullmatch(shape_of(shown), real, re.DOTALL) is not None
    return type(shown) is type(real) and shown == real


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("bash")), reason="the guides' commands need curl and bash"
)
@pytest.mark.parametrize("page", TESTED, ids=str)
async def test_commands_run_and_answer_as_shown(page: Path, reader: Reader) -> None:
    numbered = list(enumerate(blocks(page)))
    commands = [(number, block) for number, block in numbered if block.info == "sh test"]
    status, output, errors = await reader.run("".join(f"{block.text}printf '\\x1e'\n" for _, block in commands))
    outputs = output.split(SEPARATOR)
    assert status == 0, f"{errors}\nin or after:\n{commands[len(outputs) - 1][1].text}"
    for (number, block), real in zip(commands, outputs, strict=False):
        following = numbered[number + 1][1] if number + 1 < len(numbered) else None
        if following and following.info == "json" and not block.after.strip():
            decoded, shown = exact(real), exact(following.text)
            assert same(shown, decoded), f"{block.text}answers\n{json.dumps(decoded, indent=2, ensure_ascii=False)}"
        else:
            assert '"request_id"' not in real, f"{block.text}answers\n{real}"


def test_the_readme_shows_what_a_first_start_prints(reader: Reader) -> None:
    shown = block_of(Path("README.md"), "text start")

    def form(text: str) -> str:
        """Return a text with whatever differs from start to start taken out of it."""
        for pattern in (r"127\.0\.0\.1:\d+", r"[0-9a-f]{8}-[0-9a-f-]{27}", r"pk_[\w-]+", r"setup#[\w-]+"):
            text = re.sub(pattern, "…", text)
        return text.strip()

    assert form(reader.printed) == form(shown)


def test_the_routes_told_of_are_there(server: Server) -> None:
    described = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    there = {
        f"{method.upper()} {re.sub(r'{[^}]*}', '{}', path)}"
        for path, methods in described.items()
        for method in methods
    }
    told = {
        f"{method} {re.sub(r':[^/]+', '{}', path)}"
        for page in PAGES
        for method, path in re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/v1/[^` ?]*)", (ROOT / page).read_text("utf-8"))
    }
    assert told
    assert not told - there


WHERE = Path("docs/where.md")


async def test_conditions_find_the_rows_they_are_said_to(app: App) -> None:
    page = blocks(WHERE)
    schema = json.loads(next(block.text for block in page if block.info == "json schema"))
    rows = json.loads(next(block.text for block in page if block.info == "json rows"))
    table = await app.table(schema)
    wrong, used = [], set()
    async with app.client() as client:
        made = await client.post(f"/v1/public/tables/{table}/data/bulk", json={"data": rows})
        assert made.json()["success"] == len(rows), made.text
        for block in page:
            if not block.info.startswith("json where"):
                continue
            used |= set(re.findall(r"\$\w+", block.text))
            body = {"where": json.loads(block.text), "order_by": "name"}
            answer = (await client.post(f"/v1/public/tables/{table}/data/query", json=body)).json()
            if block.info == "json where error":
                said, told = re.search(r"^Answers `(\w+)`", block.after, re.MULTILINE)[1], answer.get("code")
            else:
                said = re.search(r"^Finds (.*)\.$", block.after, re.MULTILINE)[1]
                told = ", ".join(row["data"]["name"] for row in answer["data"]) or "nothing"
            if said != told:
                wrong.append((block.text, said, told))
    assert not wrong
    assert {*OPERATORS, "$or", "$and", "$not"} <= used, "Every operator has an example."


def test_the_table_of_codes_is_the_one_of_the_error_classes() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "error_table.py"), "--check"])
    assert done.returncode == 0, "Run tools/error_table.py and commit docs/errors.md."


def test_the_table_of_events_is_what_the_features_declare():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "event_table.py"), "--check"])
    assert done.returncode == 0, "Run tools/event_table.py and commit docs/webhooks.md."


def test_every_code_in_details_is_explained() -> None:
    codes = set()
    for source in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"invalid", "Detail"}:
                place = 2 if node.func.id == "invalid" else 1
                codes |= {argument.value for argument in node.args[place:] if _is_code(argument)}
    page = (DOCS / "errors.md").read_text("utf-8")
    assert not {code for code in codes if f"`{code}`" not in page}


def _is_code(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and re.fullmatch(r"[A-Z]+(_[A-Z]+)*", str(node.value)) is not None


def test_the_dependencies_explained_are_the_ones_there_are() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [
        *project["project"]["dependencies"],
        *project["dependency-groups"]["dev"],
        *project["build-system"]["requires"],
    ]
    names = {re.match(r"[\w-]+", requirement)[0].lower() for requirement in wanted}
    page = (DOCS / "design" / "dependencies.md").read_text("utf-8")
    explained = {name.lower() for name in re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)}
    assert explained == names


@pytest.mark.parametrize(("page", "folder", "least"), [("oauth", "oauth/", 60), ("functions", "functions/", 40)])
def test_each_test_that_a_design_page_names_exists(page: str, folder: str, least: int) -> None:
    """A file without a folder is in that of the feature; a name without a file is in the file named before it."""
    file, seen = "", 0
    text = (DOCS / "design" / f"{page}.md").read_text("utf-8")
    for given_folder, given, name in re.findall(r"`((?:\w+/)*)(test_\w+\.py|\.\.\.)?(?:::(test_\w+))?`", text):
        if given:
            file = f"{given_folder or folder}{given}".removeprefix("tests/")
        if not (given or name):
            continue
        tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert not name or name in names, f"{file} has no {name}"
        seen += 1
    assert seen >= least


def test_the_scopes_of_functions_are_those_of_the_guide():
    table = (DOCS / "functions.md").read_text("utf-8").partition("| Scope | Permits |")[2].partition("\n\n")[0]
    listed = [scope for line in table.splitlines() for scope in re.findall(r"`([a-z]+:[a-z]+)`", line)]
    assert sorted(listed) == sorted(get_args(Scope))
