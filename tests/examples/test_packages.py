"""`examples/packages` against a real server: its answers are compared with plain Python over the same packages."""

import gzip
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import App

PROGRAM = Path(__file__).parents[2] / "examples" / "packages" / "load.py"
sys.path.insert(0, str(PROGRAM.parent))

import debian_index  # noqa: E402 - found beside the program, as the program itself finds it

Package = dict[str, Any]

EXCERPT = """\
Package: tiny-game
Version: 1.0-1
Architecture: all
Maintainer: Debian Games Team <games@example.org>
Installed-Size: 12
Description: Small game
 of which this line goes on
Section: games
Size: 1050
Tag: role::program, use::gameplaying,
 works-with::image

Package: python3-große
Version: 2:3.4~rc1-1
Architecture: amd64
Maintainer: Ada <ada@example.org>
Homepage: https://example.org/
Description: HTTP server for ΑΒΓ
Section: math
Installed-Size: 4000
Size: 600000000

Package: huge-doc
Version: 1
Architecture: amd64
Maintainer: Debian Games Team <games@example.org>
Description: Manual
Section: games
Size: 9007199254740993
"""


def has_tags(package: Package, *tags: str) -> bool:
    return set(tags) <= set(package.get("tags", []))


def is_database(package: Package) -> bool:
    return package.get("section") == "database" or any(
        has_tags(package, tag) for tag in ("suite::postgresql", "suite::sqlite")
    )


# What each question asks for, said once more in Python.
ANSWERS: list[Callable[[Package], bool]] = [
    lambda p: p.get("section") == "games",
    lambda p: p["name"].startswith("python3-"),
    lambda p: "Debian Games Team" in p["maintainer"] and p["size"] > 500_000_000,
    lambda p: p.get("section") in {"math", "science"},
    lambda p: re.search(r"\b(web|http) server\b", p.get("description", ""), re.IGNORECASE) is not None,
    lambda p: "homepage" not in p,
    lambda p: 1000 <= p["size"] <= 1100,
    lambda p: p["name"].endswith("-doc") and p["architecture"] != "all",
    lambda p: has_tags(p, "role::program", "use::editing", "works-with::image"),
    lambda p: (
        is_database(p) and p.get("section") not in {"libs", "libdevel", "oldlibs"} and not p["name"].startswith("lib")
    ),
]


def run(app: App, *arguments: str) -> str:
    command = [sys.executable, str(PROGRAM), "--url", app.server.url, "--public-key", app.public_key, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def found(output: str) -> list[int]:
    return [int(count.replace(",", "")) for count in re.findall(r"^ +([\d,]+) found in ", output, re.MULTILINE)]


def test_reads_stanzas_with_continuation_lines_and_absent_fields(tmp_path: Path) -> None:
    index = tmp_path / "x_Packages.gz"
    index.write_bytes(gzip.compress(EXCERPT.encode()))
    first, second, third = debian_index.packages(index)
    assert first["description"] == "Small game\nof which this line goes on"
    assert first["tags"] == ["role::program", "use::gameplaying", "works-with::image"]
    assert second["name"] == "python3-große"
    assert second["homepage"] == "https://example.org/"
    assert third["size"] == 9007199254740993
    assert not {"homepage", "tags", "installed_size"} & third.keys()


async def test_answers_questions_about_an_excerpt(app: App, tmp_path: Path) -> None:
    index = tmp_path / "x_Packages"
    index.write_text(EXCERPT)
    run(app, "--index", str(index))
    output = run(app, "--index", str(index))

    packages = list(debian_index.packages(index))
    assert found(output) == [sum(map(answer, packages)) for answer in ANSWERS]
    assert "huge-doc                         9,007,199,254,740,993\n" in output
    async with app.client() as client:
        tables = (await client.get("/v1/public/tables")).json()["tables"]
        assert [table["title"] for table in tables] == ["Debian packages"]  # the second run's
        rows = (await client.get(f"/v1/public/tables/{tables[0]['id']}/data")).json()
    assert [row["data"] for row in rows["data"]] == packages


@pytest.mark.skipif(not debian_index.indices(), reason="no package index here; `apt-get update` fetches one")
def test_answers_questions_about_this_machine_s_own_index(app: App) -> None:
    packages = [package for index in debian_index.indices() for package in debian_index.packages(index)]
    output = run(app)
    assert f"Loaded {len(packages):,} rows in " in output
    assert found(output) == [sum(map(answer, packages)) for answer in ANSWERS]
    games = sorted((p["size"] for p in packages if p.get("section") == "games"), reverse=True)
    shown = re.findall(r"^ +\S+ +([\d,]+)$", output.partition("\n2. ")[0], re.MULTILINE)
    assert [int(size.replace(",", "")) for size in shown] == games[:10]
