"""`@pilotis/client`: the committed file is a build of `clients/js`, and works in Node.js, Deno and Chromium."""

import asyncio
import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pilotis import __version__
from pilotis.http.reference.sdk import client_versions
from tests import shared
from tests.clients.test_clients import NEEDS_NODE, environment_of, run
from tests.commands import run_process
from tests.functions.support import Functions
from tests.realtime.test_channels import declare
from tests.support import App

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "clients" / "js"
PRODUCT = ROOT / "src" / "pilotis"
FILES = PRODUCT / "http" / "reference" / "client"
CASES = json.loads((Path(__file__).parent / "cases.json").read_text())
MAX_BYTES = 13_000
MAX_ACCOUNT_BYTES = 2_000
ORDERS = {
    "number": "string",
    "customer": {"type": "string", "required": True},
    "amount": "number",
    "state": "string",
    "due": "date",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of `clients/js` with its tools."""
    folder = tmp_path_factory.mktemp("client") / "js"
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    return shared.install_npm(folder)


async def given(app: App, language: str) -> dict[str, Any]:
    """What the runners of the cases are told."""
    title, people = f"orders {language} {uuid4()}", f"people {language} {uuid4()}"
    unique = [{"columns": ["number"]}]
    schema = ORDERS | {"by": {"type": "uuid", "references": {"table": people}}}
    body = {"title": title, "schema": schema, "access_level": "Public", "unique": unique}
    async with app.client() as client:
        other = {"title": people, "schema": {"name": "string"}, "access_level": "Public"}
        assert (await client.post("/v1/public/tables", json=other)).status_code == 201
        assert (await client.post("/v1/public/tables", json=body)).status_code == 201
    saved = {"orders": title, "people": people, "storage": environment_of(app)["STORAGE"]}
    return {"cases": CASES, "saved": saved, "url": app.server.url, "publicKey": app.public_key}


@NEEDS_NODE
def test_the_committed_files_are_a_build(project: Path):
    run("npm", "run", "--silent", "build", folder=project)
    version = json.loads((SOURCE / "package.json").read_text())["version"]
    for name in ("pilotis.js", "pilotis.d.ts", "account.js"):
        built, committed = (project / "dist" / name).read_bytes(), (FILES / version / name).read_bytes()
        assert built == committed, f"run `npm run serve` in clients/js: {name} is out of date"
    # What functions have of it, and their types.
    harness = (PRODUCT / "functions" / "runtime" / "harness.ts").read_text()
    assert (project / "dist" / "inside.js").read_text() in harness
    types = (PRODUCT / "cli" / "templates" / "javascript" / "client.d.ts").read_text().partition("\n")[2]
    assert types == (SOURCE / "src" / "types.ts").read_text()


def test_the_client_is_small():
    for version in client_versions():
        assert len(gzip.compress((FILES / version / "account.js").read_bytes())) <= MAX_ACCOUNT_BYTES
        assert len(gzip.compress((FILES / version / "pilotis.js").read_bytes())) <= MAX_BYTES


def test_the_versions_that_work_together():
    """Each released client is in the table of the guide with the server of today; the rest of it is in `faults.mjs`
    (older) and `live.mjs` (newer).
    """
    _, _, text = (ROOT / "docs" / "client.md").read_text().partition("\n## Versions\n")
    rows = re.findall(r"^\| (\d\S*) \| ([^|]+) \|", text.partition("\n## ")[0], re.MULTILINE)
    server = __version__.rpartition(".")[0]
    for version in client_versions():
        client = version.rpartition(".")[0]
        assert (client, server) in rows
        assert {told.split()[0] for one, told in rows if one == client} >= {"older", "newer"}
    python = (ROOT / "clients" / "python" / "src" / "pilotis_client" / "__init__.py").read_text()
    assert f'__version__ = "{client_versions()[0].rpartition(".")[0]}.' in python


def test_the_lock_file_names_no_registry():
    lock = json.loads((SOURCE / "package-lock.json").read_text())
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
    assert "dependencies" not in lock["packages"][""]


@NEEDS_NODE
async def test_the_cases_in_node(app: App, tmp_path: Path):
    told = json.dumps(await given(app, "node"))
    client = FILES / client_versions()[0] / "pilotis.js"
    shutil.copy(client, tmp_path / "pilotis.mjs")
    runner = Path(__file__).parent / "cases.mjs"
    environment = {"GIVEN": told, "CLIENT": str(tmp_path / "pilotis.mjs")}
    printed = await asyncio.to_thread(run, "node", runner, folder=tmp_path, **environment)
    assert json.loads(printed) == [case["name"] for case in CASES]


TABLES: dict[str, dict[str, Any]] = {
    "orders": {
        "number": {"type": "string", "unique": True},
        "customer": {"type": "string", "required": True},
        "amount": "number",
        "state": {"type": "string", "enum": ["open", "paid"], "default": "open"},
        "due": "date",
        "address": "object",
        "note": {"type": "string", "encrypted": True},
    },
    "lines": {"order": {"type": "uuid", "references": {"table": "orders"}}, "qty": {"type": "int", "required": True}},
    # No identifiers, words of both languages, and as many columns as there may be.
    "이름 · 1": {"가격": "int", "größe": "number", "class": "string", "import": "boolean", "ª": "array"},
    "class": {f"column_{number}": "array" for number in range(200)},
    "quotes \" \\ ` ${x} '": {},
    "1 2 3": {"None": "string"},
}


@pytest.fixture
async def typed(app: App) -> App:
    """An app with tables whose names and columns are hard to write down."""
    async with app.client() as client:
        for title, schema in TABLES.items():
            body = {"title": title, "schema": schema, "access_level": "Public"}
            answer = await client.post("/v1/public/tables", json=body)
            assert answer.status_code == 201, answer.text
    return app


def written(app: App, file: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return run_process(
        "types", "--url", app.server.url, "--key", app.public_key, "--output", str(file), *options, cwd=file.parent
    )


@NEEDS_NODE
def test_types_of_an_app_in_typescript(typed: App, project: Path):
    assert written(typed, project / "app.ts").returncode == 0
    shutil.copy(Path(__file__).parent / "client-types.ts", project)
    declared = FILES / client_versions()[0] / "pilotis.d.ts"
    settings = {
        "extends": "./tsconfig.json",
        "compilerOptions": {"paths": {"@pilotis/client": [str(declared)]}, "allowImportingTsExtensions": False},
        "include": ["client-types.ts"],
    }
    (project / "tsconfig.types.json").write_text(json.dumps(settings))
    run("node_modules/.bin/tsc", "-p", "tsconfig.types.json", folder=project)


def test_types_of_an_app_in_python(typed: App, tmp_path: Path):
    module = tmp_path / "app_types.py"
    assert written(typed, module, "--lang", "python").returncode == 0
    program = tmp_path / "program.py"
    program.write_text(
        "from app_types import NewOrders, Orders\n\n"
        'new: NewOrders = {"customer": "Ada", "state": "paid"}\n'
        'row: Orders = {"amount": 1.5, "due": None}\n'
        'lost: NewOrders = {"customer": "Ada", "state": "lost"}  # type: ignore[typeddict-item]\n'
        'none: NewOrders = {"amount": 1.5}  # type: ignore[typeddict-item]\n'
    )
    run(sys.executable, program, folder=tmp_path)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", "--cache-dir", "cache"]
    run(*mypy, program, folder=tmp_path, MYPYPATH=str(tmp_path))


def test_types_are_checked_and_followed(typed: App, tmp_path: Path):
    file = tmp_path / "types.ts"
    assert "is out of date" in written(typed, file, "--check").stderr
    assert written(typed, file).returncode == 0
    checked = written(typed, file, "--check")
    assert (checked.returncode, checked.stderr) == (0, "")
    file.write_text("older")
    assert written(typed, file, "--check").returncode == 1
    assert file.read_text() == "older"
    assert "need --output" in run_process("types", "--key", "pk_", "--watch").stderr


@NEEDS_NODE
async def test_bad_weather(app: App, tmp_path: Path):
    told = await given(app, "faults")
    async with app.client() as client:
        for title, schema in (
            ("numbers", {"whole": "int", "part": "number", "text": "string"}),
            ("names", dict.fromkeys(("then", "constructor", "toString", "where"), "string")),
        ):
            body = {"title": title, "schema": schema, "access_level": "Public"}
            assert (await client.post("/v1/public/tables", json=body)).status_code == 201
            told["saved"][title] = title
    shutil.copy(FILES / client_versions()[0] / "pilotis.js", tmp_path / "pilotis.mjs")
    environment = {"GIVEN": json.dumps(told | {"cases": []}), "CLIENT": str(tmp_path / "pilotis.mjs")}
    printed = await asyncio.to_thread(run, "node", Path(__file__).parent / "faults.mjs", folder=tmp_path, **environment)
    assert printed.splitlines()[-1] == "16 checks"


@NEEDS_NODE
async def test_live_lists_and_channels(app: App, tmp_path: Path):
    told = await given(app, "live")
    room = {"pattern": "room:{room}", "listen": True, "send": True, "presence": True}
    kept = {"pattern": "kept:{room}", "listen": True, "send": True, "keep": {"messages": 10, "seconds": 60}}
    assert (await declare(app, room, kept)).status_code == 200
    async with app.client() as client:
        body = {"title": "closed", "schema": {"customer": "string"}, "access_level": "AppMember"}
        assert (await client.post("/v1/public/tables", json=body)).status_code == 201
    told["saved"]["closed"] = "closed"
    shutil.copy(FILES / client_versions()[0] / "pilotis.js", tmp_path / "pilotis.mjs")
    environment = {"GIVEN": json.dumps(told | {"cases": []}), "CLIENT": str(tmp_path / "pilotis.mjs")}
    printed = await asyncio.to_thread(run, "node", Path(__file__).parent / "live.mjs", folder=tmp_path, **environment)
    assert printed.splitlines()[-1] == "9 checks"


@pytest.mark.share(0.34, of="other runtimes")
async def test_the_cases_in_a_function(app: App, functions: Functions):
    """`ctx.api` has the interface of the client, as far as a function needs it."""
    own = {"rows", "transaction", "batch"}
    cases = [case for case in CASES if {step.get("do", [[None]])[0][0] for step in case["steps"]} <= own]
    assert len(cases) == 3
    runner = (Path(__file__).parent / "cases.mjs").read_text()
    head, printing = runner.index("function filled("), "console.log(JSON.stringify(passed));"
    assert printing in runner
    source = (
        "const isApiError = (error, code) => error instanceof ApiError && error.code === code;\n"
        "const url = null, publicKey = null;\n"
        "export default async ({ cases, saved: given }, ctx) => {\n"
        f"const createClient = () => ctx.api;\n{runner[head:].replace(printing, 'return passed;')}}}\n"
    )
    await functions.made("cases", source, timeout_seconds=30)
    told = await given(app, "function")
    # Inside, a title is looked up before the route is called, which then has an id.
    cases = json.loads(json.dumps(cases).replace("INVALID_ID", "TABLE_NOT_FOUND"))
    called = (await functions.call("cases", {"cases": cases, "saved": told["saved"]})).json()
    assert called["success"], called["error"]
    assert called["result"] == [case["name"] for case in cases]
    live = "export default (_, ctx) => ctx.api.rows('x').live(() => {}, 0);"
    await functions.made("live", live)
    assert "Functions have no live lists" in (await functions.call("live", {})).json()["error"]


@pytest.mark.share(0.34, of="other runtimes")
@NEEDS_NODE
async def test_the_cases_in_a_bare_runtime(app: App, tmp_path: Path):
    """As React Native's: without crypto, storage, locks, document, and what is new of `AbortSignal`."""
    given_ = json.dumps(await given(app, "bare"))
    shutil.copy(FILES / client_versions()[0] / "pilotis.js", tmp_path / "pilotis.mjs")
    shutil.copy(Path(__file__).parent / "cases.mjs", tmp_path)
    runner = Path(__file__).parent / "bare.mjs"
    environment = {"GIVEN": given_, "CLIENT": str(tmp_path / "pilotis.mjs"), "CASES": str(tmp_path / "cases.mjs")}
    command = ["node", "--experimental-vm-modules", "--no-warnings", runner]
    printed = await asyncio.to_thread(run, *command, folder=tmp_path, **environment)
    assert json.loads(printed) == [case["name"] for case in CASES]


@pytest.mark.share(0.34, of="other runtimes")
async def test_the_cases_in_deno(app: App, tmp_path: Path):
    """By the file that the server serves."""
    import deno

    told = json.dumps(await given(app, "deno"))
    runner = Path(__file__).parent / "cases.mjs"
    environment = {"GIVEN": told, "CLIENT": f"{app.server.url}/sdk/v1/pilotis.js", "DENO_DIR": str(tmp_path / "deno")}
    command = [deno.find_deno_bin(), "run", "--no-lock", "--no-config", "--allow-env", "--allow-net", "--allow-import"]
    printed = await asyncio.to_thread(run, *command, runner, folder=tmp_path, **environment)
    assert json.loads(printed) == [case["name"] for case in CASES]
