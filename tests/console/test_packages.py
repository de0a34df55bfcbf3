"""Debian's package index comes in through the browser, and is found, filtered, edited and taken out again there.

3,000 packages; `DEBIAN_PACKAGES=100000 pytest -s tests/console/test_packages.py` takes all of this machine's, and
prints how long each step took.
"""

import csv
import io
import itertools
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Page, expect

from tests.console.conftest import Opening, sign_in
from tests.console.rows import cell, stored
from tests.support import App, Server
from tests.waiting import until

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "packages"))

import debian_index  # found beside the example's program, as that finds it

MOST = int(os.environ.get("DEBIAN_PACKAGES", "3000"))
# A file names its columns as the index does; the table has other names.
COLUMNS = {
    "Package": "name",
    "Version": "version",
    "Architecture": "architecture",
    "Section": "section",
    "Maintainer": "maintainer",
    "Description": "description",
    "Size": "size",
}
PATIENCE_MS = 600_000


def packages() -> list[dict[str, Any]]:
    """This machine's packages; where it has no index, as many that look like them."""
    found = itertools.chain.from_iterable(map(debian_index.packages, debian_index.indices()))
    return list(itertools.islice(found, MOST)) or [
        {
            "name": f"library-{number}",
            "version": f"1.{number % 9}-1",
            "architecture": "all",
            "section": ["libs", "python", "games"][number % 3],
            "maintainer": "Ada Grey <ada@example.org>",
            "description": f'reads, writes and "folds" format {number}',
            "size": 1000 + number,
        }
        for number in range(MOST)
    ]


def written(rows: list[dict[str, Any]]) -> bytes:
    """A CSV file of the packages, two of whose lines do not fit."""
    file = io.StringIO()
    lines = csv.writer(file)
    lines.writerow([*COLUMNS, "Filename"])
    for number, row in enumerate(rows):
        size = "many" if number in {7, len(rows) - 3} else row.get("size", "")
        lines.writerow([*(row.get(name, "") for name in list(COLUMNS.values())[:-1]), size, "pool/main"])
    return file.getvalue().encode()


@contextmanager
def timed(step: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    print(f"{step:34} {time.monotonic() - begun:6.1f} s")


async def condition(page: Page, column: str, operator: str, value: str) -> None:
    """Add a condition to the filter."""
    await page.get_by_role("button", name="Filter", exact=True).click()
    await page.get_by_label("Column", exact=True).select_option(column)
    await page.get_by_label("Condition").select_option(label=operator)
    await page.get_by_label("Value").fill(value)
    await page.get_by_role("button", name="Apply").click()


async def test_packages_come_in_are_found_edited_and_taken_out(
    server: Server, app: App, visit: Opening, tmp_path: Path
) -> None:
    rows = packages()
    section = rows[1]["section"]
    chosen = [row for row in rows if row.get("section") == section]
    (tmp_path / "packages.csv").write_bytes(written(rows))
    schema = {name: kind for name, kind in debian_index.SCHEMA.items() if name in COLUMNS.values()}
    table_id = await app.table(schema, title="packages")
    print(f"\n{len(rows):,} packages, {(tmp_path / 'packages.csv').stat().st_size / 1e6:.1f} MB")
    async with visit("about:blank", width=1440, accept_downloads=True) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await page.get_by_role("button", name="Import").first.click()
        dialog = page.get_by_role("dialog")
        await dialog.locator("input[type=file]").set_input_files(tmp_path / "packages.csv")
        # Names that differ only in their case are found; the others are chosen.
        await expect(dialog.get_by_label("Column for Version")).to_have_value("version")
        await expect(dialog.get_by_label("Column for Package")).to_have_value("")
        await dialog.get_by_label("Column for Package").select_option("name")
        with timed("import"):
            await dialog.get_by_role("button", name="Import rows").click()
            await expect(dialog.get_by_text(f"{len(rows) - 2:,} rows created.")).to_be_visible(timeout=PATIENCE_MS)
        await expect(dialog.get_by_text("2 lines were skipped.")).to_be_visible()
        with timed("two rejected lines corrected"):
            for place in (7, len(rows) - 3):
                price = dialog.locator("tbody tr").nth(0 if place == 7 else 1).get_by_role("textbox").last
                await expect(price).to_have_value("many")
                await price.fill(str(rows[place]["size"]))
            await dialog.get_by_role("button", name="Import 2 corrected lines").click()
            await expect(dialog.get_by_text(f"{len(rows):,} rows created.")).to_be_visible()
        await dialog.get_by_role("button", name="Done").click()
        await expect(page.get_by_text(f"{len(rows):,} rows", exact=True)).to_be_visible()

        last = rows[-4]
        with timed("the end is scrolled to"):
            await cell(page, 1, 1).click()
            await page.keyboard.press("Control+ArrowDown")
            await expect(cell(page, len(rows), 1)).not_to_be_empty()
        with timed("a package is searched"):
            await page.get_by_role("searchbox", name="Search").fill(last["name"])
            await expect(page.get_by_text("best match first", exact=True)).to_be_visible()
            await expect(page.get_by_role("gridcell").get_by_text(last["name"], exact=True).first).to_be_visible()
        await page.get_by_role("searchbox", name="Search").fill("")
        await expect(page.get_by_text(f"{len(rows):,} rows", exact=True)).to_be_visible()
        with timed(f"rows of {section} are filtered"):
            await condition(page, "section", "is", section)
            await expect(page.get_by_text(f"{len(chosen):,} rows found", exact=True)).to_be_visible()
        with timed("a cell is edited, and undone"):
            before = await cell(page, 1, 2).inner_text()
            await cell(page, 1, 2).click()
            await page.keyboard.type("9.9-edited")
            await page.keyboard.press("Enter")

            async def edited() -> bool:
                return len(await stored(app, table_id, version="9.9-edited")) == 1

            await until(edited)
            await page.keyboard.press("Control+z")
            await expect(cell(page, 1, 2)).to_have_text(before)
        with timed(f"{len(chosen):,} rows are exported"):
            await page.get_by_role("button", name="Export").click()
            async with page.expect_download(timeout=PATIENCE_MS) as download:
                await page.get_by_role("dialog").get_by_role("button", name="Export", exact=True).click()
            content = (await (await download.value).path()).read_text("utf-8")
    exported = list(csv.DictReader(io.StringIO(content)))
    assert sorted((row["name"], row["version"], row["size"]) for row in exported) == sorted(
        (row["name"], row["version"], str(row.get("size", ""))) for row in chosen
    )
