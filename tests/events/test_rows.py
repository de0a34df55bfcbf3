"""Events of rows: written by the statement that changes them; without targets the statement's text is unchanged."""

import asyncio
import re
import time
from uuid import UUID

import asyncpg
import pytest

from pilotis.data.rows.statements import Statements
from pilotis.data.tables import ddl
from pilotis.data.tables.schema import AccessLevel, Column, ColumnType, TableSchema
from pilotis.db.migrations import all_migrations
from pilotis.db.topics import Topic
from pilotis.events import store
from pilotis.events.fanout import LEFT_SECONDS, LEFT_TO_OTHERS, DueOutbox, FanOut, OutboxSource
from pilotis.events.feature import EventsFeature
from pilotis.events.service import register_outbox
from pilotis.kit.ids import uuid7
from pilotis.settings import Settings
from tests.console import owner_of
from tests.database import DEFAULTS, connect, connection_to
from tests.events.listening import Recorder, listening_node, target
from tests.services import Node, address
from tests.support import App, Server
from tests.waiting import PATIENCE, until
from tests.whole import times

TABLE = TableSchema(
    UUID(int=1),
    UUID(int=2),
    "orders",
    AccessLevel.PUBLIC,
    3,
    (Column(1, "item", ColumnType.STRING), Column(2, "paid", ColumnType.BOOLEAN)),
)


def test_statements_of_a_table_that_emits_nothing_have_no_trace_of_events():
    statements = Statements(TABLE)
    texts = [statements.insert, statements.delete("true"), statements.update(TABLE.columns, "true", [])]
    assert not any("__events" in text or "__actor" in text or "before" in text for text in texts)
    assert " ".join(statements.insert.split()) == (
        "with written as ( insert into app_00000000000000000000000000000001.t_00000000000000000000000000000002 "
        '(__id, __creator, __extra, "item", "paid", __created_at, __updated_at, "__v3") '
        'select r.__id, r.__creator, r.__extra, r."item", r."paid", now(), now(), null '
        "from json_to_recordset($1) as r(__id uuid, __creator text, __extra jsonb, "
        '"item" text collate "C", "paid" boolean) returning __created_at ), '
        "counted as ( insert into app_00000000000000000000000000000001.__row_counts as stored (table_id, slot, rows) "
        "select '00000000-0000-0000-0000-000000000002'::uuid, pg_backend_pid(), count(*) from written "
        "having count(*) > 0 on conflict (table_id, slot) do update set rows = stored.rows + excluded.rows ) "
        "select __created_at from written limit 1"
    )


async def test_each_operation_tells_what_it_did(app: App, node: Node, recorder: Recorder):
    table_id = await app.table({"item": "string", "n": "int", "secret": {"type": "string", "encrypted": True}})
    await node.services.events.listen(target(app))
    row = await app.row(table_id, {"item": "tea", "n": 1, "secret": "hush"})
    async with app.client() as client:
        path = f"/v1/public/tables/{table_id}/data/{row['id']}"
        changed = (await client.patch(path, json={"data": {"n": {"$inc": 4}, "item": 'c"of\\fee'}})).json()
        assert (await client.delete(path)).status_code == 200
    await until(lambda: len(recorder.events) == 3)
    created, updated, deleted = recorder.data()
    assert recorder.types() == ["row.created", "row.updated", "row.deleted"]
    assert created["row"] == {**row, "data": {"item": "tea", "n": 1}}
    assert created["omitted"] == ["secret"]
    assert created["table_id"] == table_id
    assert updated["row"] == {**changed, "data": {"item": 'c"of\\fee', "n": 5}}
    assert updated["previous"] == created["row"]
    assert sorted(updated["changed"]) == ["item", "n"]
    assert deleted["row"] == updated["row"]
    assert {event.subject for event in recorder.events} == {f"tables/{table_id}/rows/{row['id']}"}
    assert {event.actor_kind for event in recorder.events} == {"public"}
    assert "hush" not in str(recorder.events)


async def test_the_actor_is_who_made_the_change_also_of_creates_that_share_a_statement(
    app: App, node: Node, recorder: Recorder
):
    table_id = await app.table({"n": "int"}, "AppMember")
    await node.services.events.listen(target(app, ["row.created"], [table_id]))
    members = [await app.member(f"member {number}") for number in range(5)]
    made = await asyncio.gather(
        *(app.row(table_id, {"n": n}, members[n % 5]["access_token"]) for n in range(50)),
        app.row(table_id, {"n": 99}, app.secret_key),
    )
    await until(lambda: len(recorder.events) == 51)
    numbers = {row["id"]: row["data"]["n"] for row in made}
    for event in recorder.events:
        number = numbers[event.subject.rpartition("/")[2]]
        expected = ("secret_key", None) if number == 99 else ("member", members[number % 5]["member_id"])
        assert (event.actor_kind, event.actor_id if number != 99 else None) == expected


async def test_batches_transactions_and_bulk_tell_too_and_what_rolls_back_tells_nothing(
    app: App, node: Node, recorder: Recorder
):
    table_id = await app.table({"n": "int"}, title='quote\'s "title" \\ here')
    await node.services.events.listen(target(app))
    create = {"type": "create", "table_id": table_id, "data": {"n": 1}}
    missing = {"type": "delete", "table_id": table_id, "doc_id": str(uuid7())}
    async with app.client() as client:
        await client.post("/v1/public/batch", json={"operations": [create, missing]})
        await client.post("/v1/public/transactions", json={"operations": [create, create]})
        failed = await client.post("/v1/public/transactions", json={"operations": [create, missing]})
        assert failed.status_code == 404
        await client.post(f"/v1/public/tables/{table_id}/data/bulk", json={"data": [{"n": 2}, {"n": "x"}, {"n": 3}]})
        await client.post(f"/v1/public/tables/{table_id}/data/delete-where", json={"where": {"n": {"$gte": 2}}})
    await until(lambda: len(recorder.events) >= 7)
    await node.services.events.listen(target(app, ["row.deleted"]))
    assert sorted(recorder.types()) == ["row.created"] * 5 + ["row.deleted"] * 2
    assert {data["table_title"] for data in recorder.data()} == {'quote\'s "title" \\ here'}


async def test_an_update_of_many_rows_tells_of_each_or_of_all(app: App, node: Node, recorder: Recorder):
    table_id = await app.table({"n": "int", "secret": {"type": "string", "encrypted": True}})
    async with app.client() as client:
        path = f"/v1/public/tables/{table_id}/data"
        await client.post(f"{path}/bulk", json={"data": [{"n": n, "secret": "hush"} for n in range(3)]})
        await node.services.events.listen(target(app, ["row.updated"]))
        change = {"where": {"n": {"$gte": 1}}, "data": {"n": {"$inc": 10}}}
        assert (await client.post(f"{path}/update-where", json=change)).json() == {"updated_count": 2}
        await until(lambda: len(recorder.events) == 2)
        told = sorted((data["previous"]["data"]["n"], data["row"]["data"]["n"]) for data in recorder.data())
        assert told == [(1, 11), (2, 12)]
        assert all(data["changed"] == ["n"] for data in recorder.data())
        assert "hush" not in str(recorder.events)
        await client.post(f"{path}/bulk", json={"data": [{"n": n} for n in range(1000)]})
        recorder.events.clear()
        await client.post(f"{path}/update-where", json={"all": True, "data": {"n": 0}})
        await until(lambda: recorder.events)
    assert recorder.types() == ["rows.changed"]
    assert (recorder.data()[0]["operation"], recorder.data()[0]["count"]) == ("updated", 1003)


async def test_a_statement_over_many_rows_tells_of_all_by_one_event(app: App, node: Node, recorder: Recorder):
    table_id = await app.table({"n": "int"})
    async with app.client() as client:
        for _ in range(2):
            rows = [{"n": n} for n in range(600)]
            assert (
                await client.post(f"/v1/public/tables/{table_id}/data/bulk", json={"data": rows})
            ).status_code == 201
        await node.services.events.listen(target(app, ["row.deleted"]))
        await client.post(f"/v1/public/tables/{table_id}/data/delete-where", json={"all": True})
    await until(lambda: recorder.events)
    assert recorder.types() == ["rows.changed"]
    assert recorder.data()[0]["operation"] == "deleted"
    assert recorder.data()[0]["count"] == 1200


async def test_a_table_that_is_made_later_is_listened_to_by_who_wants_all(app: App, node: Node, recorder: Recorder):
    await node.services.events.listen(target(app, ["row.created"]))
    table_id = await app.table({"n": "int"})
    await app.row(table_id, {"n": 1})
    await until(lambda: recorder.events)
    assert recorder.data()[0]["row"]["data"] == {"n": 1}


async def test_only_the_tables_that_are_named_emit(app: App, node: Node, recorder: Recorder, server: Server):
    heard, unheard = await app.table({"n": "int"}), await app.table({"n": "int"})
    await node.services.events.listen(target(app, ["row.created"], [heard]))
    await app.row(unheard, {"n": 1})
    await app.row(heard, {"n": 2})
    await until(lambda: recorder.events)
    assert [data["table_id"] for data in recorder.data()] == [heard]
    connection = await connect(server)
    emits = await connection.fetch("select table_id, emits from pilotis.tables where app_id = $1", UUID(app.app_id))
    assert {str(row["table_id"]): row["emits"] for row in emits} == {heard: ["created"], unheard: []}
    await connection.close()


async def test_a_table_that_nobody_listens_to_any_longer_emits_no_more(app: App, node: Node, server: Server):
    table_id = await app.table({"n": "int"})
    listener = target(app)
    await node.services.events.listen(listener)
    await node.services.events.unlisten(listener.app_id, listener.kind, listener.target_id)
    await node.services.events.disable_unused()
    await app.row(table_id, {"n": 1})
    connection = await connect(server)
    assert await connection.fetchval("select emits from pilotis.tables where table_id = $1", UUID(table_id)) == []
    assert await connection.fetchval(f"select count(*) from {store.outbox(UUID(app.app_id))}") == 0
    await connection.close()


async def test_previous_is_the_row_before_each_change_also_of_changes_that_race(
    app: App, node: Node, recorder: Recorder
):
    table_id = await app.table({"n": "int"})
    row = await app.row(table_id, {"n": 0})
    await node.services.events.listen(target(app, ["row.updated"]))

    async def increment() -> None:
        async with app.client() as client:
            for _ in range(25):
                body = {"data": {"n": {"$inc": 1}}}
                assert (await client.patch(f"/v1/public/tables/{table_id}/data/{row['id']}", json=body)).is_success

    await asyncio.gather(*(increment() for _ in range(8)))
    await until(lambda: len(recorder.events) == 200)
    steps = [(data["previous"]["data"]["n"], data["row"]["data"]["n"]) for data in recorder.data()]
    assert sorted(steps) == [(n, n + 1) for n in range(200)]


class Writers:
    """Clients that create rows until they are stopped; `after` has those that were begun once `armed` was set."""

    def __init__(self, app: App, table_id: str) -> None:
        self.app = app
        self.table_id = table_id
        self.begun, self.armed, self.stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.after: set[str] = set()

    async def write(self) -> None:
        async with self.app.client() as client:
            while not self.stop.is_set():
                is_after = self.armed.is_set()
                answer = await client.post(f"/v1/public/tables/{self.table_id}/data", json={"data": {"n": 1}})
                assert answer.status_code == 201, answer.text
                self.begun.set()
                if is_after:
                    self.after.add(answer.json()["id"])


@pytest.mark.parametrize("_", range(times(1, whole=20)))
async def test_no_write_after_the_arming_is_missed(app: App, node: Node, recorder: Recorder, _: int):
    """Fifty writers write while a table's events are enabled, twenty times: every later change is reported."""
    writers = Writers(app, await app.table({"n": "int"}))
    tasks = [asyncio.create_task(writers.write()) for _ in range(50)]
    await writers.begun.wait()
    await node.services.events.listen(target(app, ["row.created"], [writers.table_id]))
    writers.armed.set()
    await until(lambda: len(writers.after) >= 50)
    writers.stop.set()
    await asyncio.gather(*tasks)
    await until(lambda: writers.after <= {data["row"]["id"] for data in recorder.data()})


async def test_what_cannot_be_taken_is_set_aside_and_holds_up_nothing(
    app: App, node: Node, recorder: Recorder, server: Server
):
    table_id = await app.table({"n": "int"})
    await node.services.events.listen(target(app, ["row.created"]))
    recorder.failing.add(0)
    for number in range(4):
        await app.row(table_id, {"n": number})
    await until(lambda: {data["row"]["data"]["n"] for data in recorder.data()} == {1, 2, 3})
    connection = await connect(server)
    tries = "select tries from pilotis.events where app_id = $1 and dispatched_at is null"

    async def given_up() -> bool:
        node.made.get(EventsFeature).fan_out.schedule(UUID(app.app_id))
        return await connection.fetchval(tries, UUID(app.app_id)) == 3

    await until(given_up)
    await connection.close()


async def test_events_of_a_dead_writer_are_handed_out_by_another(
    app: App, node: Node, recorder: Recorder, server: Server
):
    """The writer's node knows nothing of the target here, as if it had died before its fan-out."""
    table_id = await app.table({"n": "int"})
    await node.services.events.listen(target(app, ["row.created"]))
    connection = await connect(server)
    # An outbox is checked once when it is created.
    due = "select due_at <= now() from pilotis.outboxes where app_id = $1"
    await until(lambda: is_false(connection, due, UUID(app.app_id)))
    await write_unnoticed(connection, app, table_id)
    async with connection.transaction():
        await store.make_outboxes_due(connection)
    await until(lambda: recorder.events)
    await connection.close()


async def test_an_app_that_waits_for_a_lock_delays_no_other(
    app: App, other_app: App, node: Node, recorder: Recorder, server: Server
):
    tables = {one.app_id: await one.table({"n": "int"}) for one in (app, other_app)}
    for one in (app, other_app):
        await node.services.events.listen(target(one, ["row.created"]))
    waiting = "select count(*) from pg_locks where not granted and relation = $1::text::regclass"
    outbox = store.outbox(UUID(app.app_id))
    connection, watching = await connect(server), await connect(server)
    async with connection.transaction():
        await connection.execute(f"lock table {outbox} in access exclusive mode")
        node.made.get(EventsFeature).fan_out.schedule(UUID(app.app_id))
        await until(lambda: watching.fetchval(waiting, outbox))
        await other_app.row(tables[other_app.app_id], {"n": 2})
        await until(lambda: recorder.data())
        assert await watching.fetchval(waiting, outbox)
        assert [data["row"]["data"]["n"] for data in recorder.data()] == [2]
    await app.row(tables[app.app_id], {"n": 1})
    await until(lambda: {data["row"]["data"]["n"] for data in recorder.data()} == {1, 2})
    await connection.close()
    await watching.close()


async def test_a_due_outbox_whose_target_is_unknown_here_is_left_to_others_at_once(app: App, node: Node):
    table_id = await app.table({"n": "int"})
    await node.services.events.listen(target(app, ["row.created"], [table_id]))
    announced: list[UUID] = []
    ignorant = FanOut(node.database, node.services.events.catalogue, announced.append)
    later = "update pilotis.outboxes set due_at = now() + interval '1 hour' where app_id = $1"
    await node.database.execute(later, UUID(app.app_id))
    assert await ignorant.dispatch(UUID(app.app_id)) == LEFT_TO_OTHERS
    # Sooner than it would be looked at anyway: who knows the kind may not have been listening.
    soon = f"select due_at < now() + interval '{LEFT_SECONDS} seconds' from pilotis.outboxes where app_id = $1"
    assert await node.database.fetchval(soon, UUID(app.app_id))
    await ignorant.start()
    await OutboxSource(node.database, ignorant).run(DueOutbox(UUID(app.app_id)))
    await until(lambda: announced == [UUID(app.app_id)])
    await ignorant.stop()


async def is_false(connection: asyncpg.Connection, query: str, *arguments: object) -> bool:
    return await connection.fetchval(query, *arguments) is False


async def write_unnoticed(connection: asyncpg.Connection, app: App, table_id: str) -> None:
    await connection.execute(
        f"""
        insert into {store.outbox(UUID(app.app_id))} (type, table_id, actor_kind, data)
        values ('row.created', $1, 'public', '{{}}')
        """,
        UUID(table_id),
    )


async def test_processes_that_do_not_know_a_kind_of_target_do_not_call_each_other_for_ever(app: App, server: Server):
    """The running server and another one know nothing of the kind: the events stay, and it is quiet."""
    settings = Settings(data_dir=str(server.data_dir), limits=DEFAULTS, statement_seconds=PATIENCE, stop_seconds=1)
    node = Node(settings, address(server), server.url)
    await node.start()
    announced: list[str] = []
    node.services.control.subscribe(Topic.EVENTS, announced.append, lambda: None)
    try:
        table_id = await app.table({"n": "int"})
        started = time.monotonic()
        await node.services.events.listen(target(app, ["row.created"]))
        await app.row(table_id, {"n": 1})
        await until(lambda: app.app_id in announced)
        await asyncio.sleep(1)
        assert announced.count(app.app_id) <= 2 + (time.monotonic() - started) // LEFT_SECONDS
        outbox = store.outbox(UUID(app.app_id))
        assert await node.database.fetchval(f"select count(*) from {outbox}") == 1
    finally:
        await node.stop()


async def test_events_that_no_process_could_dispatch_reach_one_that_starts_later(
    app: App, recorder: Recorder, server: Server
):
    """No process that supports the target kind is listening when others announce work."""
    settings = Settings(data_dir=str(server.data_dir), limits=DEFAULTS, statement_seconds=PATIENCE, stop_seconds=1)
    ignorant = Node(settings, address(server), server.url)
    await ignorant.start()
    announced: list[str] = []
    ignorant.services.control.subscribe(Topic.EVENTS, announced.append, lambda: None)
    try:
        table_id = await app.table({"n": "int"})
        await ignorant.services.events.listen(target(app, ["row.created"]))
        await app.row(table_id, {"n": 1})
        await until(lambda: app.app_id in announced)
    finally:
        await ignorant.stop()
    async with listening_node(server, recorder):
        await until(lambda: recorder.types() == ["row.created"])


async def test_who_creates_an_apps_outbox_keeps_others_from_creating_it_too(app: App, node: Node):
    """A table is created while another one of the app is armed; both would create the outbox."""
    app_id = UUID(app.app_id)
    async with node.services.database.transaction(app_id) as connection:
        await node.services.events.store_target(connection, target(app))
    blocked = "select exists (select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid)))"
    async with connection_to(app.server) as connection:
        async with connection.transaction():
            await register_outbox(connection, app_id)
            await connection.execute(ddl.create_outbox(app_id))
            creating = asyncio.create_task(app.table({"n": "int"}))
            await until(lambda: connection.fetchval(blocked))
        emits = "select emits from pilotis.tables where table_id = $1"
        assert await connection.fetchval(emits, UUID(await creating))


async def test_row_events_have_their_request_also_in_an_outbox_of_an_older_version(
    app: App, node: Node, recorder: Recorder
):
    table_id = await app.table({"n": "int", "text": "string"})
    await node.services.events.listen(target(app, ["row.*"], [table_id]))
    (migration,) = (one for one in all_migrations() if one.name == "0050_requests_context.sql")
    loop = re.search(r"^do .*?^\$\$;", migration.sql, re.MULTILINE | re.DOTALL)[0]
    async with connection_to(app.server) as connection:
        await connection.execute(f"alter table {store.outbox(UUID(app.app_id))} drop column request_id")
        await connection.execute(loop)
    large = [{"n": n, "text": "x" * 20_000} for n in range(10)]
    path = f"/v1/public/tables/{table_id}/data"
    async with app.client() as client:
        row = (await client.post(path, json={"data": {"n": 1}}, headers={"X-Request-Id": "one-create"})).json()
        # Large bodies are read in threads.
        await client.post(f"{path}/bulk", json={"data": large}, headers={"X-Request-Id": "many-creates"})
        change = {"data": {"text": "y" * 200_000}}
        await client.patch(f"{path}/{row['id']}", json=change, headers={"X-Request-Id": "an-update"})
        await client.delete(f"{path}/{row['id']}", headers={"X-Request-Id": "a-deletion"})
    expected = ["a-deletion", "an-update", *["many-creates"] * len(large), "one-create"]
    await until(lambda: sorted(event.request_id or "" for event in recorder.events) == expected)


async def test_rows_that_are_created_at_once_under_a_rule_have_their_own_causes(
    app: App, node: Node, recorder: Recorder
):
    table_id = await app.table({"team": "string"})
    await node.services.events.listen(target(app, ["row.*"], [table_id]))
    rule = {"$creator": {"$member": "id"}, "team": {"$ne": {"$member": "claims.org"}}}
    owner = owner_of(app)
    async with owner.client(app) as console:
        answer = await console.put(f"/tables/{table_id}/rules", json={"rules": {"create": rule}})
        assert answer.status_code == 200, answer.text
        members = [await app.member(name) for name in ("ada", "eve", "sam", "kim")]
        for member in members:
            answer = await console.patch(f"/members/{member['member_id']}", json={"claims": {"org": "red"}})
            assert answer.status_code == 200, answer.text
    path, expected = f"/v1/public/tables/{table_id}/data", dict[str, str]()
    for turn in range(2):

        async def create(number: int, turn: int = turn) -> None:
            name = f"turn-{turn}-{number}"
            async with app.client(members[number]["access_token"]) as client:
                answer = await client.post(path, json={"data": {"team": "x"}}, headers={"X-Request-Id": name})
            expected[answer.json()["id"]] = name

        await asyncio.gather(*map(create, range(len(members))))
    await until(lambda: len(recorder.events) == len(expected))
    assert sorted(event.request_id or "" for event in recorder.events) == sorted(expected.values())
