"""The modules themselves: what the pure ones do, their types, and what they may not use."""

import json
import os
import re
import shutil
from pathlib import Path

import deno
import pytest
from tools import console_types

from tests.console.conftest import Opening
from tests.shared import check_once, output
from tests.support import Server

STATIC = Path(__file__).parents[2] / "src" / "pilotis" / "console" / "static"
TOOLS = Path(__file__).parents[2] / "tools" / "javascript"
# What the programs that check the modules read.
READ = [
    *(path for path in STATIC.parents[1].rglob("*.js")),
    *(Path(__file__).parent / "modules").rglob("*.js"),
    *(path for path in TOOLS.iterdir() if path.is_file()),
]
NEEDS_NPM = pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")


def test_the_pure_modules(tmp_path: Path) -> None:
    """Deno runs `tests/console/modules`: what needs no page is tested without a browser."""
    options = ["--no-config", "--no-lock", "--no-remote", "--allow-read", "--location", "http://localhost/console/"]
    environment = {**os.environ, "DENO_DIR": str(tmp_path), "DENO_NO_UPDATE_CHECK": "1", "TZ": "Europe/Berlin"}
    output([deno.find_deno_bin(), "test", *options, "."], Path(__file__).parent / "modules", environment)


def test_no_code_makes_markup_out_of_text() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|\beval\(|new Function|document\.write"
    )
    own = [path for path in STATIC.rglob("*.js") if "vendor" not in path.parts]
    assert len(own) > 15
    assert [path.name for path in own if forbidden.search(path.read_text("utf-8"))] == []


def test_what_one_sheet_says_of_a_class_no_other_one_does() -> None:
    """Two screens that mean different things by one name would be drawn with the styles of both."""
    sheets: dict[str, set[str]] = {}
    for path in STATIC.glob("styles/*.css"):
        rules = re.sub(r"/\*.*?\*/", "", path.read_text("utf-8"), flags=re.DOTALL)
        rules = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*\s*\}", "", rules)
        for selectors in re.findall(r"([^{}]+)\{[^{}]*\}", rules):
            for selector in map(str.strip, selectors.split(",")):
                if re.fullmatch(r"\.[\w-]+", selector):
                    sheets.setdefault(selector, set()).add(path.name)
    assert len(sheets) > 100
    assert {selector: names for selector, names in sheets.items() if len(names) > 1} == {}


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


@NEEDS_NPM
def test_the_modules_are_formatted() -> None:
    check_once("format", READ, lambda: output(["sh", TOOLS / "format.sh", "--check"], TOOLS))


def test_the_types_of_answers_are_those_of_the_document() -> None:
    assert console_types.FILE.read_text("utf-8") == console_types.types(), "Run tools/console_types.py."


@NEEDS_NPM
def test_the_types_hold() -> None:
    """The modules are checked by their JSDoc types, strictly; and what they load names all that it depends on."""
    check_once("types", READ, lambda: output(["sh", TOOLS / "run.sh", "node", TOOLS / "check.js"], TOOLS))


async def test_scripts_come_from_the_consoles_own_paths(server: Server, visit: Opening) -> None:
    """Other paths of this host may serve what users stored."""
    host = server.url.partition("://")[2]
    async with visit(f"{server.url}/console/sign-in") as page:
        answer = await page.request.get(f"{server.url}/console/sign-in")
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert {policy[name] for name in ("script-src", "style-src", "font-src")} == {f"{host}/console/assets/"}
        # A file of the console that its policy forbade would be an error in the browser's log, which fails the test.
        await page.locator("h1").wait_for()


NEWER = json.loads(Path(__file__).with_name("newer_features.json").read_text("utf-8"))
LOADED = [STATIC, STATIC.parents[1] / "http" / "reference", STATIC.parents[1] / "oauth" / "flow"]
# What nobody misses where it is missing, or what something stands in for (`state/exact.js`); phones drop no folders.
STANDS_IN = {
    *("autocapitalize", "contain: style", "rawJSON", "scrollbar-width"),
    *(f"cursor: {name}" for name in ("col-resize", "default", "not-allowed", "pointer", "progress")),
    *("resize", "webkitGetAsEntry", "webkitRelativePath"),
}
# Names of the console's own that something newer has too.
OWN_NAMES = {
    "Metadata", "actions", "bytes", "conditions", "delay", "drop", "hand", "icon", "image", "lock", "login", "memory",
    "preferences", "revoke", "share", "silent", "states", "stats", "take", "transfer", "try", "variant", "when", "zip",
}  # fmt: skip
SYNTAX = {
    "regular_expressions.modifier": r"\(\?[ims]*(-[ims]+)?:(?<!\(\?:)",
    "regular_expressions.lookbehind_assertion": r"\(\?<[!=]",
    "statements.import.import_attributes": r"^import\b[^;]*\bwith\s*\{",
    "statements.import.defer": r"^import\s+defer\b",
    "statements.using": r"\busing\s+\w+\s*=",
    "classes.static.initialization_blocks": r"\bstatic\s*\{",
    "operators.await.top_level": r"^(export )?((const|let|var) .*= *\(?)?await ",
}


def used(kind: str, pattern: str, text: str) -> set[str]:
    """The newer features of a kind that a text names."""
    return {found for found in re.findall(pattern, text, re.MULTILINE) if found in NEWER[kind]}


def newer_in_script(text: str) -> set[str]:
    text = re.sub(r"/\*.*?\*/|(?<![:\"'`\\/])//[^\n]*", "", text, flags=re.DOTALL)
    syntax = {
        name for name, pattern in SYNTAX.items() if name in NEWER["syntax"] and re.search(pattern, text, re.MULTILINE)
    }
    names = used("members", r"\.([A-Za-z_$][\w$]*)", text) | used("globals", r"(?<![\w$.\"'])([A-Z][\w$]*)\b", text)
    tags = " ".join(re.findall(r"<[a-z]\w*(\s[^<>]*)", text))
    return (
        syntax
        | names
        | used("members", r"(?<![\w$.\"'-])([a-z]\w*)\(", text)
        | used("attributes", r"\s([a-z-]+)=", tags)
    )


def newer_in_style(text: str) -> set[str]:
    text = re.sub(r"/\*.*?\*/|\"[^\"]*\"", "", text, flags=re.DOTALL)
    found = used("selectors", r":([a-z-]+)", text) | used("at_rules", r"@([a-z-]+)", text)
    for block in re.findall(r"\{([^{}]*)\}", text):
        for name, value in re.findall(r"(?:^|;)\s*(-?[a-z][a-z-]*)\s*:\s*([^;]*)", block):
            prefixed = f"-webkit-{name}:" in block
            found |= {name} if name in NEWER["properties"] and not prefixed else set()
            found |= {f"{name}: {word}" for word in re.findall(r"[a-z-]+", value)} & set(NEWER["values"])
            found |= used("functions", r"([a-z-]+)\(", value)
    return found


def test_nothing_is_newer_than_the_supported_browsers() -> None:
    """By MDN's data; what the console cannot do without is asked for at its start, in `theme.js`."""
    files = [path for folder in LOADED for path in folder.rglob("*") if "vendor" not in path.parts]
    found = {
        path.name: (newer_in_style if path.suffix == ".css" else newer_in_script)(path.read_text("utf-8"))
        for path in files
        if path.suffix in {".css", ".js", ".html"}
    }
    assert len(found) > 60
    allowed = STANDS_IN | OWN_NAMES
    assert {name: names - allowed for name, names in found.items() if names - allowed} == {}
    # Each of them is used.
    assert allowed == set().union(*found.values())


def test_the_check_for_newer_features_finds_them() -> None:
    assert newer_in_script("if (page.checkVisibility()) requestIdleCallback(() => {}); // Iterator") == {
        *("checkVisibility", "requestIdleCallback")
    }
    assert newer_in_script('import data from "./data.json" with { type: "json" };\nnew URLPattern();') == {
        *("statements.import.import_attributes", "URLPattern")
    }
    assert newer_in_script("html`<button command='close' class=${all}>`; /(?i:a)(?:b)/") == {
        *("command", "regular_expressions.modifier")
    }
    assert newer_in_style("a { user-select: none; field-sizing: content; color: light-dark(red, blue) }") == {
        *("user-select", "field-sizing", "light-dark")
    }
    assert newer_in_style("a { -webkit-user-select: none; user-select: none }\n::details-content { width: 1px }") == {
        "details-content"
    }


def test_the_supported_browsers_are_named_alike() -> None:
    browsers = NEWER["browsers"]
    for page in ("README.md", "docs/console.md", "src/pilotis/console/static/index.html"):
        text = " ".join((STATIC.parents[3] / page).read_text("utf-8").split())
        for name, version in browsers.items():
            assert re.search(rf"\b{name} {version}\b", text), (page, name)
