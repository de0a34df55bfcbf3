"""Lists under rules that show few rows, or many: the same pages, orders, counts and cursors."""

from __future__ import annotations

from typing import Any

from tests.rules.test_rules import rows, save
from tests.support import App

ME: dict[str, Any] = {"$member": "id"}
SEATED = {"$exists": {"table": "seats", "where": {"team": {"$row": "team"}, "member": ME}}}


async def test_lists_are_the_same_up_to_a_thousand_rows_and_beyond(app: App):
    seats = await app.table({"team": "string", "member": "string"}, title="seats")
    table = await app.table({"n": "int", "team": "string", "tags": "object"})
    few, many = await app.member("few"), await app.member("many")
    async with app.client(app.secret_key) as side:
        for member, teams in ((few, ["few"]), (many, ["few", "one"])):
            data = [{"team": team, "member": member["member_id"]} for team in teams]
            assert (await side.post(rows(seats), json={"data": data})).status_code == 201
        # 1,000 rows are found before they are sorted, and the member with the other team sees 1,003.
        new = [{"n": (number * 7) % 1000, "team": "few"} for number in range(1000)]
        new += [{"n": 500, "team": "one"}] * 3 + [{"n": number, "team": "closed"} for number in range(50)]
        for start in range(0, len(new), 500):
            answer = await side.post(rows(table), json={"data": new[start : start + 500]})
            assert answer.status_code == 201, answer.text
        await save(app, table, {"read": {"$or": [{"team": "open"}, SEATED]}})
        orders: list[dict[str, Any]] = [
            {},
            {"order_direction": "desc"},
            {"order_by": "n"},
            {"order_by": [{"column": "n", "direction": "desc"}, {"column": "team"}]},
            {"order_by": "tags.none"},
        ]
        for member, teams in ((few, {"few"}), (many, {"few", "one"})):
            async with app.client(member["access_token"]) as client:
                for order in orders:

                    async def pages(client: Any = client, order: Any = order, **more: Any) -> dict[str, Any]:
                        answer = await client.post(f"{rows(table)}/query", json={**order, "limit": 100, **more})
                        assert answer.status_code == 200, answer.text
                        return answer.json()

                    where = {"where": {"team": {"$in": sorted(teams)}}}
                    whole = await pages(side, limit=1000, **where)
                    rest = await pages(side, limit=100, offset=1000, **where)
                    expected = [row["data"] for row in [*whole["data"], *rest["data"]]]
                    assert len(expected) == (1003 if "one" in teams else 1000)
                    for offset in (0, 150, 950, 1000):
                        page = await pages(offset=offset)
                        assert page["total_count"] == len(expected), order
                        assert [row["data"] for row in page["data"]] == expected[offset : offset + 100], (order, offset)
                    narrow = await pages(where={"n": {"$lt": 10}}, count=False)
                    assert narrow["total_count"] is None
                    assert [row["data"] for row in narrow["data"]] == [row for row in expected if row["n"] < 10]
                    found: list[Any] = []
                    cursor: str | None = "first"
                    while cursor is not None:
                        page = await pages(cursor=cursor, limit=300, count=True)
                        assert page["total_count"] == len(expected)
                        found += [row["data"] for row in page["data"]]
                        cursor = page["next_cursor"]
                    assert found == expected, order
