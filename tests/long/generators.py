"""Clients in other languages: each is generated, compiled and used against a server. `python -m tests.long clients`.

They take minutes, so `make test` checks the properties of the document on which they depend, in
`tests/http/test_openapi.py`, and clients in TypeScript and Python (`tests/clients`).
"""

import json
import os
import shutil
from pathlib import Path

import httpx
import pytest

from tests import shared
from tests.support import App
from tests.waiting import PATIENCE

FOLDER = Path(__file__).parent / "clients"
OPENAPI_GENERATOR = "7.23.0"
OAPI_CODEGEN = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
MODULE = {"git-host": "example.com", "git-user-id": "pilotis", "git-repo-id": "client"}
NPM = {"orval": "8.38.0", "typescript": "5.9.3", "@types/node": "20.19.0"}


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"there is no {', '.join(missing)}")


@pytest.fixture
def place(tmp_path: Path, app: App) -> Path:
    """A folder with the server's document."""
    (tmp_path / "openapi.json").write_bytes(httpx.get(f"{app.server.url}/openapi.json", timeout=PATIENCE).content)
    return tmp_path


@pytest.fixture
def environment(app: App) -> dict[str, str]:
    """What the programs are told: the server, the key, and a storage."""
    headers = {"Authorization": f"Bearer {app.console['access_token']}"}
    url = f"{app.server.url}/v1/apps/{app.app_id}/storages/files"
    storage = httpx.post(url, json={"name": "pictures"}, headers=headers, timeout=PATIENCE).json()["id"]
    return {"SERVER": app.server.url, "PUBLIC_KEY": app.public_key, "STORAGE": storage}


def run(*command: object, folder: Path, **environment: str) -> str:
    return shared.output([str(part) for part in command], folder, {**os.environ, **environment})


def generate(language: str, place: Path, *options: str) -> Path:
    """Run openapi-generator and return the folder of the client."""
    coordinates = f"org.openapitools:openapi-generator-cli:{OPENAPI_GENERATOR}"
    copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
    run("mvn", "-q", "-B", copy, f"-Dartifact={coordinates}", f"-DoutputDirectory={place}", folder=place)
    jar = place / f"openapi-generator-cli-{OPENAPI_GENERATOR}.jar"
    run("java", "-jar", jar, "generate", "-i", "openapi.json", "-g", language, "-o", "client", *options, folder=place)
    return place / "client"


def is_right(printed: str) -> bool:
    """Whether a program found the row that it looked for, both rows, its file and its member."""
    return bool(json.loads(printed.splitlines()[-1]) == ["cafe 4.5", 2, 4, True])


@needs("go", "java", "mvn")
def test_go(place: Path, environment: dict[str, str]) -> None:
    """openapi-generator's client for Go, with its default options."""
    client = generate("go", place, *(f"--{name}={value}" for name, value in MODULE.items()))
    shutil.rmtree(client / "test")  # tests of the generated code, which need a library
    (client / "program").mkdir()
    shutil.copy(FOLDER / "main.go", client / "program")
    # Everything that it needs is in Go's standard library.
    go = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    run("go", "vet", "./program", folder=client, **go)
    assert is_right(run("go", "run", "./program", folder=client, **go, **environment))


@needs("java", "mvn")
def test_java(place: Path, environment: dict[str, str]) -> None:
    """openapi-generator's client for Java, with the two options that docs/index.md names.

    Where a body is JSON or a form, it imports the form's class as well; and it sends an empty list for one that was
    left out, such as `$or`, which no row satisfies.
    """
    options = ["--global-property=skipFormModel=false", "--additional-properties=containerDefaultToNull=true"]
    client = generate("java", place, "--library=native", *options)
    shutil.copy(FOLDER / "Main.java", client / "src/main/java")
    classpath = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
    run("mvn", "-q", "-B", "-DskipTests", "compile", classpath, "-Dmdep.outputFile=classpath.txt", folder=client)
    path = f"target/classes:{(client / 'classpath.txt').read_text().strip()}"
    assert is_right(run("java", "-cp", path, "Main", folder=client, **environment))


@needs("go")
def test_oapi_codegen(place: Path, environment: dict[str, str]) -> None:
    """oapi-codegen's client for Go, with its default options."""
    (place / "bin").mkdir()
    run("go", "install", OAPI_CODEGEN, folder=place, GOBIN=str(place / "bin"))
    (place / "client").mkdir()
    options = ["-package", "pilotis", "-generate", "types,client", "-o", "client/client.go"]
    run(place / "bin" / "oapi-codegen", *options, "openapi.json", folder=place)
    (place / "program").mkdir()
    shutil.copy(FOLDER / "oapi.go", place / "program" / "main.go")
    run("go", "mod", "init", "example.com/pilotis", folder=place)
    run("go", "mod", "tidy", folder=place)
    run("go", "vet", "./program", folder=place)
    assert is_right(run("go", "run", "./program", folder=place, **environment))


@needs("node", "npm")
def test_orval(place: Path, environment: dict[str, str]) -> None:
    """orval's functions on `fetch`, compiled strictly."""
    (place / "package.json").write_text(json.dumps({"private": True, "type": "module", "devDependencies": NPM}))
    shared.install(["npm", "install", *shared.NPM], place)
    target = {"target": "./generated/pilotis.ts", "client": "fetch", "mode": "single"}
    settings = json.dumps({"pilotis": {"input": "./openapi.json", "output": target}})
    (place / "orval.config.js").write_text(f"export default {settings};")
    run("node_modules/.bin/orval", "--config", "orval.config.js", folder=place)
    shutil.copy(FOLDER / "orval.ts", place)
    strict = ["--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "nodenext", "--skipLibCheck"]
    run("node_modules/.bin/tsc", *strict, "--outDir", "compiled", "orval.ts", folder=place)
    assert is_right(run("node", "compiled/orval.js", folder=place, **environment))
