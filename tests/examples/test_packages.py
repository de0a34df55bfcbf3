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
from tests.waiting import PATIENCE

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

Package: python3-django
Version: 3:3.2.19-1
Architecture: all
Maintainer: Ada <ada@example.org>
Description: Web framework
Section: python
Installed-Size: 20000
Size: 3000000

Package: postgresql
Version: 15
Architecture: all
Maintainer: Bob <bob@example.org>
Description: object-relational SQL database
Section: games
Installed-Size: 40
Size: 2000

Package: gimp
Version: 2.10
Architecture: amd64
Maintainer: Bob <bob@example.org>
Description: Image editor
Section: graphics
Size: 5000000

Package: imagemagick
Version: 8
Architecture: amd64
Maintainer: Bob <bob@example.org>
Description: image editors of the command-line
Section: graphics
Installed-Size: 300
Size: 4000000

Package: kolor
Version: 8
Architecture: amd64
Maintainer: Bob <bob@example.org>
Description: command line image viewer for KDE
Section: graphics
Size: 4000000
"""


def has_tags(package: Package, *tags: str) -> bool:
    return set(tags) <= set(package.get("tags", []))


def is_database(package: Package) -> bool:
    return package.get("section") == "database" or any(
        has_tags(package, tag) for tag in ("suite::postgresql", "suite::sqlite")
    )


# The expected answer to each query, computed in Python.
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


def answers(output: str, number: int) -> list[str]:
    """Return the lines of the answer to an advanced question."""
    shown = re.search(rf"^{number}\. .*?answered in [\d.]+ ms\n(.*?)(?:\n\n|\Z)", output, re.MULTILINE | re.DOTALL)
    return [line.strip() for line in shown[1].splitlines()]


def totals(packages: list[Package], by: str, amount: Callable[[Package], int]) -> list[int]:
    sums: dict[str, int] = {}
    for package in packages:
        if by in package:
            sums[package[by]] = sums.get(package[by], 0) + amount(package)
    return sorted(sums.values(), reverse=True)[:10]


def shown_totals(lines: list[str]) -> list[int]:
    return [int(line.rpartition(" ")[2].replace(",", "")) for line in lines]


def check_advanced(output: str, packages: list[Package]) -> None:
    names = {package["name"] for package in packages}
    beginning = sorted(name for name in names if name.startswith("python3-dj"))
    suggested = answers(output, 11)
    assert suggested[: len(beginning)] == beginning[:5]
    assert set(answers(output, 12)) <= names
    for number, words in ((13, ("image", "editor")), (14, ("command line", "image"))):
        total, *lines = answers(output, number)
        # Words on their own; of the first query's last, its beginning will do.
        ends = r"" if number == 13 else r"\b"
        texts = [re.sub(r"\W+", " ", package.get("description", "")).lower() for package in packages]
        patterns = [rf"\b{words[0]}\b", rf"\b{words[1]}{ends}"]
        found = [text for text in texts if all(re.search(pattern, text) for pattern in patterns)]
        found = [text for text in found if number == 13 or not re.search(r"\bkde\b", text)]
        assert total == f"{len(found):,} in all"
        assert len(lines) == min(5, len(found))
        assert all("<mark>" in line for line in lines)
    assert shown_totals(answers(output, 15)) == totals(packages, "section", lambda p: p.get("installed_size", 0))
    assert shown_totals(answers(output, 16)) == totals(packages, "maintainer", lambda _: 1)


def run(app: App, *arguments: str) -> str:
    command = [sys.executable, str(PROGRAM), "--url", app.server.url, "--public-key", app.public_key, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def found(output: str) -> list[int]:
    return [int(count.replace(",", "")) for count in re.findall(r"^ +([\d,]+) found in ", output, re.MULTILINE)]


def test_reads_stanzas_with_continuation_lines_and_absent_fields(tmp_path: Path) -> None:
    index = tmp_path / "x_Packages.gz"
    index.write_bytes(gzip.compress(EXCERPT.encode()))
    first, second, third, *_ = debian_index.packages(index)
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
    check_advanced(output, packages)
    assert answers(output, 11) == ["python3-django"]
    assert answers(output, 12) == ["postgresql"]
    assert answers(output, 13)[1].startswith("gimp ")
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
    check_advanced(output, packages)
    assert any("postgresql" in name for name in answers(output, 12))
    games = sorted((p["size"] for p in packages if p.get("section") == "games"), reverse=True)
    shown = re.findall(r"^ +\S+ +([\d,]+)$", output.partition("\n2. ")[0], re.MULTILINE)
    assert [int(size.replace(",", "")) for size in shown] == games[:10]
