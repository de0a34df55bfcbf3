"""The modules themselves: their types, what they may not use, and the same texts in each language."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.console.conftest import Opening
from tests.shared import NPM, install, make_once
from tests.support import Server

STATIC = Path(__file__).parents[2] / "src" / "pilotis" / "console" / "static"
TYPESCRIPT = "typescript@5.9.3"
SHAPE = """async (paths) => {
    const shape = (value) => typeof value === "function" ? `takes ${value.length}`
        : typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shape(one)]))
        : "text";
    const modules = await Promise.all(paths.map((path) => import(path)));
    return modules.map((module) => JSON.stringify(shape(module.default)));
}"""


async def test_each_language_has_the_same_texts(server: Server, visit: Opening) -> None:
    async with visit(f"{server.url}/console/sign-in") as page:
        source = await page.locator("script[src$='/main.js']").get_attribute("src")
        base = source.rpartition("/")[0]
        english, korean = await page.evaluate(SHAPE, [f"{base}/strings/en.js", f"{base}/strings/ko.js"])
    assert english == korean


def test_no_code_makes_markup_out_of_text() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|\beval\(|new Function|document\.write"
    )
    own = [path for path in STATIC.rglob("*.js") if "vendor" not in path.parts]
    assert len(own) > 15
    assert [path.name for path in own if forbidden.search(path.read_text("utf-8"))] == []


def test_nothing_is_used_that_webkit_lacks() -> None:
    """WebKit positions nothing within a table row, and runs no callback when idle.

    Below a top-level `await` it gives out modules that have not run yet (WebKit bug 242740), unless no module imports
    the one that waits.
    """
    rows = re.compile(r"(^|[\s,>}])tr[^{},]*\{[^}]*position: *(relative|absolute)")
    waits = re.compile(r"^(export )?((const|let|var) .*= *\(?)?await ", re.MULTILINE)
    own = [path for path in STATIC.rglob("*.js") if "vendor" not in path.parts]
    assert [path.name for path in own if waits.search(path.read_text("utf-8"))] == []
    assert [path.name for path in own if "requestIdleCallback" in path.read_text("utf-8")] == []
    # On a phone a row is no table row any more.
    wide = [
        re.sub(r"@media \(max-width: 640px\) \{\n.*?\n\}", "", path.read_text("utf-8"), flags=re.DOTALL)
        for path in STATIC.glob("styles/*.css")
    ]
    assert len(wide) > 3
    assert [rows.search(text) for text in wide if rows.search(text)] == []


def test_colours_stand_in_one_place() -> None:
    literal = re.compile(r"#[0-9a-f]{3,8}\b|rgb\(")
    for path in STATIC.glob("styles/*.css"):
        if path.name != "tokens.css":
            text = re.sub(r"url\([^)]*\)", "", path.read_text("utf-8"))
            assert not literal.search(text), path.name


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_the_types_hold(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The modules are checked by their JSDoc types, strictly."""

    def fetch(folder: Path) -> None:
        install(["npm", "install", *NPM, "--prefix", folder, TYPESCRIPT], folder)

    compiler = make_once(tmp_path_factory, "typescript", fetch) / "node_modules" / "typescript" / "bin" / "tsc"
    options = {
        "allowJs": True,
        "checkJs": True,
        "strict": True,
        "noEmit": True,
        "target": "es2023",
        "module": "esnext",
        "moduleResolution": "bundler",
        "lib": ["es2023", "dom", "dom.iterable"],
    }
    project = tmp_path / "tsconfig.json"
    project.write_text(
        json.dumps({"compilerOptions": options, "include": [f"{STATIC}/**/*.js"], "exclude": [f"{STATIC}/vendor"]})
    )
    done = subprocess.run(["node", compiler, "-p", project], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


async def test_scripts_come_from_the_consoles_own_paths(server: Server, visit: Opening) -> None:
    """Other paths of this host may serve what users stored."""
    host = server.url.partition("://")[2]
    async with visit(f"{server.url}/console/sign-in") as page:
        answer = await page.request.get(f"{server.url}/console/sign-in")
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert {policy[name] for name in ("script-src", "style-src", "font-src")} == {f"{host}/console/assets/"}
        # A file of the console that its policy forbade would be an error in the browser's log, which fails the test.
        await page.locator("h1").wait_for()
