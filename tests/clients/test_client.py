"""`@pilotis/client`: the committed file is a build of `clients/js`, and works in Node.js, Deno and Chromium."""

import asyncio
import gzip
import json
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pilotis.http.reference.sdk import client_versions
from tests import shared
from tests.clients.test_clients import NEEDS_NODE, environment_of, run
from tests.support import App

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "clients" / "js"
FILES = ROOT / "src" / "pilotis" / "http" / "reference" / "client"
CASES = json.loads((Path(__file__).parent / "cases.json").read_text())
MAX_BYTES = 12_000
ORDERS = {
    "number": "string",
    "customer": {"type": "string", "required": True},
    "amount": "number",
    "state": "string",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of `clients/js` with its tools."""
    folder = tmp_path_factory.mktemp("client") / "js"
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    shared.install(["npm", "ci", *shared.NPM], folder)
    return folder


async def given(app: App, language: str) -> dict[str, Any]:
    """What the runners of the cases are told."""
    title = f"orders {language} {uuid4()}"
    unique = [{"columns": ["number"]}]
    body = {"title": title, "schema": ORDERS, "access_level": "Public", "unique": unique}
    async with app.client() as client:
        assert (await client.post("/v1/public/tables", json=body)).status_code == 201
    saved = {"orders": title, "storage": environment_of(app)["STORAGE"]}
    return {"cases": CASES, "saved": saved, "url": app.server.url, "publicKey": app.public_key}


@NEEDS_NODE
def test_the_committed_files_are_a_build(project: Path):
    run("npm", "run", "--silent", "build", folder=project)
    version = json.loads((SOURCE / "package.json").read_text())["version"]
    for name in ("pilotis.js", "pilotis.d.ts"):
        built, committed = (project / "dist" / name).read_bytes(), (FILES / version / name).read_bytes()
        assert built == committed, f"run `npm run serve` in clients/js: {name} is out of date"


def test_the_client_is_small():
    for version in client_versions():
        assert len(gzip.compress((FILES / version / "pilotis.js").read_bytes())) <= MAX_BYTES


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


async def test_the_cases_in_deno(app: App, tmp_path: Path):
    """By the file that the server serves."""
    import deno

    told = json.dumps(await given(app, "deno"))
    runner = Path(__file__).parent / "cases.mjs"
    environment = {"GIVEN": told, "CLIENT": f"{app.server.url}/sdk/v1/pilotis.js", "DENO_DIR": str(tmp_path / "deno")}
    command = [deno.find_deno_bin(), "run", "--no-lock", "--no-config", "--allow-env", "--allow-net", "--allow-import"]
    printed = await asyncio.to_thread(run, *command, runner, folder=tmp_path, **environment)
    assert json.loads(printed) == [case["name"] for case in CASES]
