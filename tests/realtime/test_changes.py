"""What a stream tells of changed rows."""

from __future__ import annotations

from tests.realtime.listening import deleted, listening, patched
from tests.support import App

TASKS = {"title": "string", "state": "string", "priority": "int"}


async def test_a_condition_is_told_what_comes_changes_and_goes(app: App):
    table = await app.table(TASKS)
    old = await app.row(table, {"title": "old", "state": "closed"})
    async with (
        app.client() as client,
        listening(
            client,
            {"id": "open", "table_id": table, "where": {"state": "open"}},
            {"id": "urgent", "table_id": table, "where": {"state": "open", "priority": {"$gt": 5}}},
        ) as told,
    ):
        row = await app.row(table, {"title": "tea", "state": "open", "priority": 1})
        assert await told.change() == ("open", "create", {"title": "tea", "state": "open", "priority": 1})
        await patched(app, table, row, priority=9)
        changes = sorted([await told.change(), await told.change()])
        assert [change[:2] for change in changes] == [("open", "update"), ("urgent", "enter")]
        await patched(app, table, old, state="open")
        assert (await told.change())[:2] == ("open", "enter")
        await patched(app, table, row, state="closed")
        assert sorted([await told.change(), await told.change()]) == [("open", "leave", None), ("urgent", "leave", None)]
        await deleted(app, table, row)
        await deleted(app, table, old)
        assert await told.change() == ("open", "delete", None)
        await app.row(table, {"title": "end", "state": "open"})
        assert (await told.change())[2]["title"] == "end"


async def test_statements_of_tables_that_nobody_listens_to_have_no_log(app: App):
    pass
