"""Functions, section 8 and acceptance case 2: packages of npm and PyPI, built once, and none needed from then on."""

import json
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from pilotis.functions.errors import SourceInvalidError
from pilotis.functions.packages import MAX_UNPACKED, requirements
from pilotis.functions.runtime.build import MAX_BUNDLE
from tests.conftest import first_console_user, new_app
from tests.functions.registry import registry
from tests.functions.support import Functions
from tests.support import Server
from tests.waiting import until
from tests.whole import WHOLE

LOOPBACK = "127.0.0.0/8"


def environment(url: str) -> dict[str, str]:
    """That of a server with a registry of this test."""
    return {
        "PILOTIS_EGRESS_NETWORKS": LOOPBACK,
        "PILOTIS_FUNCTIONS_NPM_REGISTRY": f"{url}/",
        "PILOTIS_FUNCTIONS_PYPI_INDEX": f"{url}/simple/",
    }


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the packages that the registry has fetched."""
    return tmp_path_factory.mktemp("registry")


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory, cached: Path) -> Iterator[Server]:
    """A server with a registry of this test."""
    with registry(cached) as url:
        running = Server(tmp_path_factory.mktemp("server") / "data", environment=environment(url)).start()
        try:
            yield running
        finally:
            running.stop()


@pytest.fixture(scope="module")
def owner(registered: Server) -> dict[str, str]:
    return first_console_user(registered)


@pytest.fixture
async def functions(registered: Server, owner: dict[str, str]) -> AsyncIterator[Functions]:
    made = Functions(new_app(registered, owner))
    yield made
    await made.console.aclose()


async def built(functions: Functions, function_id: str, answer: httpx.Response) -> dict:
    """Wait until a version is built, and return it."""
    assert answer.status_code in (201, 202), answer.text
    path = f"{functions.base}/{function_id}/versions/{answer.json()['version']}"
    version = answer.json()

    async def ended() -> bool:
        nonlocal version
        version = (await functions.console.get(path)).json()
        return version["status"] in ("ready", "failed")

    assert await until(ended), version
    return version


JAVASCRIPT = """
import { z } from "npm:zod@3";
import { addDays, format } from "date-fns";
import { SignJWT, jwtVerify } from "jose";
const Order = z.object({ quantity: z.number().int().positive() });
export default async (payload, ctx) => {
  const key = new TextEncoder().encode("0123456789abcdef0123456789abcdef");
  const token = await new SignJWT({ n: 1 }).setProtectedHeader({ alg: "HS256" }).sign(key);
  return { ok: Order.safeParse(payload).success, day: format(addDays(new Date(2024, 1, 28), 2), "yyyy-MM-dd"),
    n: (await jwtVerify(token, key)).payload.n };
};
"""
MANIFEST = json.dumps({"dependencies": {"date-fns": "^4", "jose": "^5"}})
PYTHON = """
import httpx, pydantic
class Order(pydantic.BaseModel):
    quantity: pydantic.PositiveInt
def handler(payload, ctx):
    try:
        return {"quantity": Order(**payload).quantity, "url": str(httpx.URL("http://example.com/a").join("b"))}
    except pydantic.ValidationError as error:
        return {"errors": error.error_count()}
"""


async def test_npm_packages_are_bundled_once_and_work_without_a_network(functions: Functions):
    function_id = await functions.create("order")
    files = {"index.js": JAVASCRIPT, "package.json": MANIFEST}
    answer = await functions.deploy(function_id, files)
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")
    assert (await functions.call("order", {})).json()["code"] == "FUNCTION_NOT_DEPLOYED"
    version = await built(functions, function_id, answer)
    assert version["status"] == "ready", (version["error"], version["build_log"][-3000:])
    assert {one["name"] for one in version["packages"]} == {"zod", "date-fns", "jose"}
    assert version["is_active"]
    assert await functions.value("order", {"quantity": 2}) == {"ok": True, "day": "2024-03-01", "n": 1}
    assert (await functions.value("order", {"quantity": -2}))["ok"] is False
    # The same files again are built already, for the draft as well.
    assert (await functions.deploy(function_id, files)).status_code == 201
    draft = await functions.console.put(f"{functions.base}/{function_id}/draft", json={"files": files})
    assert draft.status_code == 200, draft.text
    called = await functions.console.post(
        f"{functions.base}/{function_id}/invoke", json={"version": "draft", "payload": {"quantity": 1}}
    )
    assert called.json()["result"]["ok"] is True, called.text


async def test_pypi_packages_are_installed_from_wheels_and_read_only(functions: Functions):
    function_id = await functions.create("order", "python")
    files = {"main.py": PYTHON, "requirements.txt": "pydantic>=2  # checks\nhttpx\n"}
    version = await built(functions, function_id, await functions.deploy(function_id, files))
    assert version["status"] == "ready", (version["error"], version["build_log"][-3000:])
    assert {"pydantic", "httpx"} <= {one["name"] for one in version["packages"]}
    assert "Successfully installed" in version["build_log"]
    assert await functions.value("order", {"quantity": 2}) == {"quantity": 2, "url": "http://example.com/b"}
    assert await functions.value("order", {"quantity": 0}) == {"errors": 1}
    again = {**files, "main.py": "def handler(p, c):\n    open('/packages/x', 'w')"}
    assert (await functions.deploy(function_id, again)).status_code == 201
    result = await functions.result("order", {})
    assert "Read-only file system" in result["error"], result


async def test_a_bundle_has_a_size(functions: Functions):
    function_id = await functions.create("large")
    source = """
        import { z } from "npm:zod@3";
        import { TEXT } from "./text.js";
        export default () => [TEXT.length, z.string().safeParse("").success];"""

    async def bundle(length: int) -> dict:
        files = {"index.js": source, "text.js": f"export const TEXT = '{'x' * length}';"}
        version = await built(functions, function_id, await functions.deploy(function_id, files))
        assert version["source_bytes"] == sum(map(len, files.values()))
        return version

    small = await bundle(1_000_000)
    most = MAX_BUNDLE - (small["bundle_bytes"] - 1_000_000)
    assert MAX_BUNDLE == 5 * 1024 * 1024
    length = most if WHOLE else 1_000_000
    if WHOLE:
        largest = await bundle(most)
        assert (largest["status"], largest["bundle_bytes"]) == ("ready", MAX_BUNDLE), largest["error"]
    assert await functions.value("large") == [length, True]
    larger = await bundle(most + 1)
    assert (larger["status"], larger["error"]) == ("failed", "The packages have more than 5 MB.")
    assert await functions.value("large") == [length, True]


SIZE = "import os, padded\ndef handler(p, c): return os.path.getsize(os.path.dirname(padded.__file__) + '/zeros')"


def wheel(folder: Path, version: str, length: int) -> None:
    """Put a wheel with a file of zeros of a length into the registry."""
    info = f"padded-{version}.dist-info"
    files = {
        "padded/__init__.py": b"",
        "padded/zeros": bytes(length),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: padded\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]).encode()
    with zipfile.ZipFile(folder / f"padded-{version}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


async def test_python_packages_have_a_size_unpacked(functions: Functions, cached: Path):
    function_id = await functions.create("large", "python")

    async def install(version: str, length: int) -> dict:
        wheel(cached, version, length)
        files = {"main.py": SIZE, "requirements.txt": f"padded=={version}"}
        return await built(functions, function_id, await functions.deploy(function_id, files))

    # In a whole run as many digits in the list of the files as at the limit.
    length = 100_000_000 if WHOLE else 1_000_000
    ready = await install("1.0", length)
    assert ready["status"] == "ready", (ready["error"], ready["build_log"][-2000:])
    assert ready["bundle_bytes"] < 1_000_000
    (place,) = (one for one in (functions.app.server.data_dir / "functions" / "packages").iterdir() if _has(one))
    most = MAX_UNPACKED - sum(one.stat().st_size for one in place.rglob("*") if one.is_file()) + length
    assert MAX_UNPACKED == 100 * 1024 * 1024
    if WHOLE:
        length = most
        assert (await install("2.0", length))["status"] == "ready"
    assert await functions.value("large") == length
    larger = await install("3.0", most + (1 if WHOLE else 1000))
    assert larger["status"] == "failed"
    assert larger["error"].startswith("SOURCE_INVALID: The packages have more than 100 MB")
    assert await functions.value("large") == length


def _has(folder: Path) -> bool:
    return (folder / "padded").is_dir()


async def test_what_is_built_works_without_its_registry(tmp_path: Path, cached: Path):
    with registry(cached) as url:
        server = Server(tmp_path / "data", environment=environment(url)).start()
        functions = Functions(new_app(server, first_console_user(server)))
        wheel(cached, "0.1", 10)
        packed = {"index.js": "import { z } from 'npm:zod@3'; export default (p) => z.number().parse(p.quantity);"}
        wheels = {"main.py": SIZE, "requirements.txt": "padded==0.1"}
        made = {}
        for name, files in (("javascript", packed), ("python", wheels)):
            made[name] = await functions.create(f"of-{name}", name)
            version = await built(functions, made[name], await functions.deploy(made[name], files))
            assert version["status"] == "ready", (version["error"], version["build_log"][-3000:])
    try:
        # Another process, so nothing is warm.
        server.stop()
        server.start()
        await functions.console.aclose()
        functions = Functions(functions.app)
        assert await functions.value("of-javascript", {"quantity": 2}) == 2
        assert await functions.value("of-python") == 10
        assert (await functions.deploy(made["javascript"], packed)).status_code == 201
        assert (await functions.deploy(made["python"], wheels | {"more.py": ""})).status_code == 201
        await functions.made("plain", "export default () => 1;")
        assert await functions.value("plain") == 1
        other = {"index.js": "import 'npm:zod@3.22'; export default () => 1"}
        version = await built(functions, made["javascript"], await functions.deploy(made["javascript"], other))
        assert version["status"] == "failed"
        assert await functions.value("of-javascript", {"quantity": 2}) == 2
    finally:
        await functions.console.aclose()
        server.stop()


async def test_a_build_that_a_newer_version_overtook_does_not_become_active(functions: Functions):
    function_id = await functions.made("order", "def handler(p, c): return 1", "python")
    files = {"main.py": PYTHON, "requirements.txt": "pydantic>=2\nhttpx\n"}
    slow = await functions.deploy(function_id, files)
    assert (await functions.deploy(function_id, "def handler(p, c): return 3")).json()["is_active"]
    answer = await functions.console.post(f"{functions.base}/{function_id}/versions/1/activate")
    assert answer.status_code == 200, answer.text
    version = await built(functions, function_id, slow)
    assert (version["status"], version["is_active"]) == ("ready", False)
    assert await functions.value("order") == 1


@pytest.mark.parametrize(
    ("runtime", "files", "text"),
    [
        (
            "javascript",
            {"index.js": "import 'npm:@example/not-there-at-all'; export default () => 1"},
            "not-there-at-all",
        ),
        ("python", {"main.py": "def handler(p, c): pass", "requirements.txt": "pydantic==0.0.0.1"}, "pydantic"),
    ],
    ids=["javascript", "python"],
)
async def test_packages_that_are_not_there_fail_the_build_and_leave_the_active_version(
    functions: Functions, runtime: str, files: dict[str, str], text: str
):
    working = {"javascript": "export default () => 1", "python": "def handler(p, c): return 1"}[runtime]
    function_id = await functions.made("kept", working, runtime)
    version = await built(functions, function_id, await functions.deploy(function_id, files))
    assert version["status"] == "failed"
    assert text in version["build_log"]
    assert not version["is_active"]
    assert await functions.value("kept") == 1
    draft = await functions.console.put(f"{functions.base}/{function_id}/draft", json={"files": files})
    assert (draft.status_code, draft.json()["code"]) == (400, "SOURCE_INVALID")


async def test_f17_install_scripts_do_not_run_and_nothing_but_a_registry_is_asked(functions: Functions):
    javascript, python = await functions.create("js"), await functions.create("py", "python")
    for manifest in (
        {"dependencies": {"a": "https://example.com/a.tgz"}},
        {"dependencies": {"a": "git+ssh://git@example.com/a.git"}},
        {"dependencies": {"a": "file:../../etc"}},
        {"dependencies": {"a": "someone/repository"}},
        {"dependencies": {"a": 1}},
        {"dependencies": []},
        [],
    ):
        files = {"index.js": "import 'npm:zod'; export default () => 1", "package.json": json.dumps(manifest)}
        answer = await functions.deploy(javascript, files)
        assert (answer.status_code, answer.json()["code"]) == (400, "SOURCE_INVALID"), manifest
    scripts = {"scripts": {"install": "touch /tmp/ran", "postinstall": "false"}, "dependencies": {"zod": "^3"}}
    source = """import { z } from "zod";
        export default () => { try { Deno.statSync("/tmp/ran"); return true } catch { return !z } };"""
    version = await built(
        functions,
        javascript,
        await functions.deploy(javascript, {"index.js": source, "package.json": json.dumps(scripts)}),
    )
    assert version["status"] == "ready", (version["error"], version["build_log"][-3000:])
    assert await functions.value("js") is False
    for line in WRONG:
        answer = await functions.deploy(python, {"main.py": "def handler(p, c): pass", "requirements.txt": line})
        assert (answer.status_code, answer.json()["code"]) == (400, "SOURCE_INVALID"), line


WRONG = [
    "a @ https://example.com/a.whl",
    "https://example.com/a.whl",
    "git+https://example.com/a.git",
    "-r /etc/passwd",
    "--index-url https://example.com/",
    "--extra-index-url=https://example.com/",
    "-e .",
    "./a.whl",
    "/tmp/a.whl",
    "a --global-option=x",
    "a; python_version > '3' --index-url https://example.com/",
    "a==1 \\\n --trusted-host example.com",
    "$HOME",
    "a" + "==1" * 5000 + "!",
]


@pytest.mark.parametrize("line", WRONG[:-1])
def test_f17_a_requirement_is_a_name_with_versions(line: str):
    with pytest.raises(SourceInvalidError):
        requirements(line.encode())


def test_requirements_as_tools_write_them_are_read():
    text = b"""
# by a tool
pydantic[email]==2.9.1 \\
    --hash=sha256:00ff \\
    --hash=sha256:11ee
httpx >=0.27, <1 ; python_version >= "3.8"
a-b_c.d~=1.0 # why
"""
    assert [line.split()[0] for line in requirements(text)] == ["pydantic[email]==2.9.1", "httpx", "a-b_c.d~=1.0"]
