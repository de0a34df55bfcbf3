"""Rows of a table in the tests of the console, and cells of the grid."""

from typing import Any

from playwright.async_api import Page

from tests.support import App
from tests.waiting import until

SCHEMA = {
    "name": {"type": "string", "required": True},
    "price": "number",
    "stock": "int",
    "sold": "boolean",
    "since": "date",
    "secret": {"type": "string", "encrypted": True},
    "extras": "object",
}


async def fill(app: App, rows: list[dict[str, Any]]) -> str:
    table_id = await app.table(SCHEMA, title="things")
    async with app.client(app.secret_key) as client:
        for start in range(0, len(rows), 1000):
            made = await client.post(
                f"/v1/public/tables/{table_id}/data/bulk", json={"data": rows[start : start + 1000]}
            )
            assert made.status_code == 201, made.text
    return table_id


async def stored(app: App, table_id: str, **where: Any) -> list[dict[str, Any]]:
    async with app.client(app.secret_key) as client:
        body = {"where": where} if where else {}
        found = await client.post(f"/v1/public/tables/{table_id}/data/query", json=body)
    return [row["data"] for row in found.json()["data"]]


async def until_stored(app: App, table_id: str, column: str, values: list[Any]) -> None:
    """Wait until the rows have these values in a column."""

    async def are_stored() -> bool:
        return [row.get(column) for row in await stored(app, table_id)] == values

    await until(are_stored)


async def has_field(app: App, table_id: str, column: str) -> bool:
    return any(column in row for row in await stored(app, table_id))


def cell(page: Page, row: int, column: int):
    """A cell by its place: rows and columns count from 1, without headers."""
    return page.locator(f"[role=row][aria-rowindex='{row + 1}'] [role=gridcell][aria-colindex='{column + 1}']")
