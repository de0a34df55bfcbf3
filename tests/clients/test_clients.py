"""Clients that others' tools generate from the OpenAPI document: they compile, strictly, and work against a server."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests import shared
from tests.support import App
from tests.waiting import PATIENCE
from tests.whole import sample

FOLDER = Path(__file__).parent
NEEDS_NODE = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="there is no Node.js with npm, which the generators need"
)


def run(*command: object, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=20 * PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment_of(app: App) -> dict[str, str]:
    """What the programs are told: the server, the key, and a storage that they upload to."""
    headers = {"Authorization": f"Bearer {app.console['access_token']}"}
    url = f"{app.server.url}/v1/apps/{app.app_id}/storages/files"
    storage = httpx.post(url, json={"name": "pictures"}, headers=headers).json()["id"]
    return {"SERVER": app.server.url, "PUBLIC_KEY": app.public_key, "STORAGE": storage}


# The same document, read by generators of two languages.
LANGUAGES = sample(("typescript", "python"), 0.5)


def of(language: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Leave a test to the long run where it is the other language's turn."""
    return pytest.mark.whole if language not in LANGUAGES else lambda test: test


# What the programs use.
USED = ("/v1/public/tables", "/v1/public/aggregate", "/v1/public/geo", "/v1/public/transactions")
USED += ("/v1/public/storages/files/{storage_id}", "/v1/public/app-members/sign")
REFERENCE = re.compile(r'"#/components/(\w+)/([^"]+)"')


def describe(app: App, folder: Path) -> None:
    """Store the OpenAPI document; as a rule with a part of the routes, and with what these refer to."""
    document = httpx.get(f"{app.server.url}/openapi.json").json()
    paths = document["paths"]
    chosen = set(sample((path for path in paths if not path.startswith(USED)), 0.3))
    document["paths"] = {path: paths[path] for path in paths if path in chosen or path.startswith(USED)}
    components = document["components"]
    needed: set[tuple[str, str]] = set()
    pending = REFERENCE.findall(json.dumps(document["paths"]))
    while pending:
        kind, name = pending.pop()
        if (kind, name) not in needed:
            needed.add((kind, name))
            pending += REFERENCE.findall(json.dumps(components[kind][name]))
    for kind in {kind for kind, _ in needed}:
        components[kind] = {name: one for name, one in components[kind].items() if (kind, name) in needed}
    (folder / "openapi.json").write_text(json.dumps(document))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the generators and the programs that use their clients."""
    folder = tmp_path_factory.mktemp("clients")
    for name in ("package.json", "package-lock.json", "tsconfig.json", "typed.ts", "sdk.ts"):
        shutil.copy(FOLDER / name, folder)
    return shared.install_npm(folder, copied=True)


@of("typescript")
@NEEDS_NODE
def test_typescript_clients_compile_and_work(project: Path, app: App) -> None:
    """openapi-typescript and @hey-api/openapi-ts; the mistakes in typed.ts must not compile."""
    describe(app, project)
    run("node_modules/.bin/openapi-typescript", "openapi.json", "-o", "generated/schema.ts", folder=project)
    generator = ["node_modules/.bin/openapi-ts", "-i", "openapi.json", "-o", "generated/sdk"]
    run(*generator, "-c", "@hey-api/client-fetch", "--silent", folder=project)
    run("node_modules/.bin/tsc", "-p", ".", folder=project)
    environment = environment_of(app)
    typed = run("node", "compiled/typed.js", folder=project, **environment)
    assert json.loads(typed) == [["cafe 4.5"], 3.75, 2, 2, 3, 4, True]
    sdk = run("node", "compiled/sdk.js", folder=project, **environment)
    assert json.loads(sdk) == [["cafe 4.5"], 3.75, 2, 4, True]


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of an environment with openapi-python-client and what its clients need."""
    lock = FOLDER / "requirements.lock"

    def make(folder: Path) -> None:
        run(sys.executable, "-m", "venv", "venv", folder=folder)
        pip = [folder / "venv" / "bin" / "python", "-m", "pip", "install", *shared.PIP]
        shared.install([*pip, "--require-hashes", "-r", lock], folder)

    return shared.kept("client-generator", sys.version + sys.executable + lock.read_text(), make) / "venv/bin/python"


@of("python")
def test_a_python_client_compiles_and_works(python: Path, tmp_path: Path, app: App) -> None:
    """openapi-python-client: without a warning, strict by mypy."""
    describe(app, tmp_path)
    for name in ("python.yml", "program.py"):
        shutil.copy(FOLDER / name, tmp_path)
    generate = ["generate", "--path", "openapi.json", "--config", "python.yml", "--meta", "none", "--fail-on-warning"]
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    command = [python.parent / "openapi-python-client", *generate, "--output-path", "pilotis_client"]
    assert "WARNING" not in run(*command, folder=tmp_path, PATH=path)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", "cache", "--python-executable", python]
    # The generator's own code is not strict; what a program sees of it is.
    run(*mypy, "--follow-imports", "silent", "program.py", folder=tmp_path)
    import_all = (
        "import importlib, pkgutil, pilotis_client as client\n"
        "for module in pkgutil.walk_packages(client.__path__, 'pilotis_client.'): importlib.import_module(module.name)"
    )
    run(python, "-W", "error", "-c", import_all, folder=tmp_path)
    environment = environment_of(app)
    assert json.loads(run(python, "program.py", folder=tmp_path, **environment)) == [["cafe 4.5"], 2, 4, True]


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((FOLDER / "package-lock.json").read_text())
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
    wanted = lock["packages"][""]["devDependencies"]
    assert [version for version in wanted.values() if not version[0].isdigit()] == []
