"""The stored words of searched columns: same answers, updated by every write, deleted with their texts."""

import asyncio
import random
import unicodedata
import uuid

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilotis.data.query.search.compiler import MAX_RANKED, MAX_SCORED
from pilotis.data.query.search.types import AutocompleteRequest, SearchRequest
from pilotis.data.rows.statements import Statements
from pilotis.data.tables import vectors
from pilotis.data.tables.schema import AccessLevel, TableSchema, VectorState, numbered, parse_schema
from pilotis.data.tables.types import ColumnChange, NewColumn, TableDefinition
from pilotis.http.api.principals import OPERATOR
from pilotis.kit.ids import uuid7
from pilotis.limits import Limits
from tests.background import paused
from tests.conftest import first_console_user, new_app
from tests.database import connection_to
from tests.rows.index_world import World, with_limits
from tests.services import CLIENT
from tests.support import Server
from tests.waiting import until
from tests.whole import sample, times

SCHEMA = {"title": "string", "note": "string", "n": "int"}
# More than are scored, and more than are ranked.
MANY, ROWS = 3400, 1200
# Few words, so that many rows tie; with scripts that set no spaces, accents, and words that begin with others.
WORDS = ["harbour", "harbours", "line", "lines", "Café", "éclair", "東京都", "京都大学", "手机", "iphone手机"]
WORDS += [
    "대한민국",
    "한국",
    "서울",
    "コーヒー",
    "喫茶店",
    "well-known",
    "x",
    "ｆｕｌｌ",
    "ß",
    "42",
    "user@example.com",
]
QUERIES = [
    *WORDS,
    "harb",
    "東京",
    "京",
    "민국",
    "コー",
    '"line harbour"',
    "line -lines",
    "cafe eclair",
    "nothing at all",
]
QUERIES += [
    "harbuor",
    "everywhere",
    "every",
    'everywhere "line harbour"',
    "手",
    "well known",
    "everywhere -x",
    "mostly",
]
# The last ones find more than are ranked, or than are scored.
ASKED = [*sample(QUERIES[:-2], 0.2), "everywhere", "mostly"]


def note(picked: random.Random) -> str:
    words = ["everywhere", "mostly"] if picked.random() < 0.6 else ["everywhere"]
    return " ".join([*words, *picked.choices(WORDS, k=picked.randint(0, 4))])


def texts(picked: random.Random, number: int) -> dict[str, object]:
    return {"title": " ".join(picked.choices(WORDS, k=picked.randint(0, 3))), "note": note(picked), "n": number}


class Texts(World):
    """A table of texts in many scripts."""

    async def answer(self, query, fields=("note",), limit=1000, offset=0):
        request = SearchRequest(str(self.table_id), query, list(fields), limit, offset)
        return msgspec.json.decode(await self.services.search.search(self.principal, request))

    async def answers(self, fields=("note",)):
        found = {query: await self.answer(query, fields) for query in ASKED}
        found["a page"] = await self.answer("harbour", fields, 7, 13)
        found["beyond the end"] = await self.answer("harbour", fields, 20, 5000)
        return found

    async def ask(self, *fields):
        """Search often enough for an index on each of these fields."""
        for _ in range(3):
            await self.answer("harbour", fields)

    async def column(self, name="note"):
        self.services.tables.forget((await self.table()).schema)
        return (await self.table()).schema.by_name[name]

    async def stored(self):
        """Return the physical columns of words that the table has."""
        rows = await self.services.database.fetch(
            "select attname from pg_attribute where attrelid = $1::regclass and attname ~ '^__w' and not attisdropped",
            (await self.table()).schema.physical,
        )
        return {row[0] for row in rows}

    async def wrong(self):
        """Return the number of rows whose stored words are not those of their text."""
        physical = (await self.table()).schema.physical
        return await self.sql(f"select count(*) from {physical} where __w2 is distinct from pilotis.search_words(note)")

    async def create(self, **data):
        raw = msgspec.Raw(msgspec.json.encode(data))
        return msgspec.json.decode(await self.services.rows.create(self.principal, self.table_id, raw))["id"]

    async def update(self, row_id, **data):
        raw = msgspec.Raw(msgspec.json.encode(data))
        await self.services.rows.update(self.principal, self.table_id, row_id, raw)


async def make(world, title="texts", rows=ROWS):
    definition = TableDefinition(f"{title} {uuid7()}", SCHEMA, AccessLevel.PUBLIC)
    made = Texts(world.services, world.principal, await world.services.tables.create(world.app, OPERATOR, definition))
    picked = random.Random(1)
    for start in range(0, rows, 1000):
        batch = [texts(picked, number) for number in range(start, min(start + 1000, rows))]
        await world.services.rows.create_many(world.principal, made.table_id, msgspec.Raw(msgspec.json.encode(batch)))
    return made


@pytest.fixture
async def table(world):
    return await make(world)


async def test_answers_are_the_same_with_and_without_stored_words(world):
    table = await make(world, rows=MANY)
    before = [await table.answers(fields) for fields in (("note",), ("title", "note"))]
    assert before[0]["everywhere"]["total_count"] == MANY > MAX_SCORED
    assert any(MAX_RANKED < answer["total_count"] <= MAX_SCORED for answer in before[0].values())
    assert all(before[0][query]["data"] for query in ASKED if query != "nothing at all")
    await table.ask("title", "note")
    await table.run_once()
    assert await table.stored() == {"__w1", "__w2"}
    assert (await table.column()).vector is VectorState.STORED
    for fields, answers in zip((("note",), ("title", "note")), before, strict=True):
        after = await table.answers(fields)
        for query, answer in answers.items():
            assert after[query] == answer, query


async def test_half_of_the_fields_stored_gives_the_same_answers_too(table):
    before = await table.answers(("title", "note"))
    await table.services.index_uses.flush()
    await table.sql("delete from pilotis.index_uses where table_id = $1 and use = 'text:1'", table.table_id)
    await table.ask("note")
    await table.run_once()
    assert await table.stored() == {"__w2"}
    assert await table.answers(("title", "note")) == before


async def test_completions_are_the_same(table):
    def complete(query):
        return table.services.search.autocomplete(
            table.principal, AutocompleteRequest(str(table.table_id), query, "title")
        )

    before = [(await complete(query)).suggestions for query in ASKED]
    await table.ask("title")
    await table.run_once()
    assert await table.stored() == {"__w1"}
    assert [(await complete(query)).suggestions for query in ASKED] == before


SPOKEN = st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=6).map(" ".join)


@settings(max_examples=times(6, whole=30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=st.lists(SPOKEN, min_size=1, max_size=8), query=st.sampled_from(WORDS) | SPOKEN, seed=st.randoms())
async def test_any_texts_are_found_and_ranked_as_if_nothing_were_stored(pair, written, query, seed):
    plain, stored = pair
    query = query.replace("\0", "")[:200]
    for table in pair:
        await table.sql(f"delete from {(await table.table()).schema.physical}")
    ids = [str(uuid7()) for _ in written]
    for table in pair:
        prepared = await table.table()
        await prepared.insert_many(
            [
                msgspec.json.encode({"__id": row_id, "note": clean(text), "title": None, "n": None})
                for row_id, text in zip(ids, written, strict=True)
            ]
        )
        changed = msgspec.Raw(msgspec.json.encode({"note": clean(written[0][::-1])}))
        await table.services.rows.update(table.principal, table.table_id, ids[0], changed)
    assert await stored.wrong() == 0
    found = [shown(await table.answer(query)) for table in (plain, stored)]
    assert found[0] == found[1]


def clean(text):
    return unicodedata.normalize("NFC", text.replace("\0", ""))


def shown(answer):
    rows = [(row["id"], row["data"], row["score"], row["highlights"]) for row in answer["data"]]
    return rows, answer["total_count"]


@pytest.fixture
async def pair(world):
    plain, stored = await make(world, "plain", 1000), await make(world, "stored", 1000)
    await stored.ask("note")
    await stored.run_once()
    assert await stored.stored() == {"__w2"}
    return plain, stored


async def test_every_way_of_writing_keeps_the_words(table):
    await table.ask("note")
    await table.run_once()
    rows, principal, table_id = table.services.rows, table.principal, table.table_id
    created = await table.create(note="brandnew 東京", n=1)
    assert (await table.answer("brandnew"))["total_count"] == 1
    await table.update(created, note="rewritten")
    assert (await table.answer("brandnew"))["total_count"] == 0
    assert [row["id"] for row in (await table.answer("rewritten"))["data"]] == [created]
    await table.update(created, n={"$inc": 1})
    await table.update(created, title="untouched words")
    assert (await table.answer("rewritten"))["total_count"] == 1
    await table.update(created, note=None)
    assert (await table.answer("rewritten"))["total_count"] == 0
    many = [{"note": f"several {number}"} for number in range(5)]
    await rows.create_many(principal, table_id, msgspec.Raw(msgspec.json.encode(many)))
    assert (await table.answer("several"))["total_count"] == 5
    await rows.delete(principal, table_id, created)
    assert await table.wrong() == 0


async def test_statements_say_nothing_of_words_where_nobody_searches(table):
    before = Statements((await table.table()).schema)
    texts_before = before.insert, before.update(before._table.columns, "true", [])
    await table.ask("title")
    await table.run_once()
    schema = (await table.table()).schema
    unsearched = [column for column in schema.columns if column.name != "title"]
    assert "__w" not in "".join(texts_before)
    assert "search_words" not in "".join(texts_before)
    assert "__w" not in Statements(schema).update(unsearched, "true", [])
    assert "__w1" in Statements(schema).insert


def test_the_statements_of_a_table_that_nobody_searches():
    columns = tuple(numbered(parse_schema(SCHEMA, Limits()), 1))
    searched = tuple(msgspec.structs.replace(column, vector=VectorState.FILLING) for column in columns[:1])
    made = [
        TableSchema(uuid.UUID(int=1), uuid.UUID(int=2), "t", AccessLevel.PUBLIC, 1, some)
        for some in (columns, searched + columns[1:])
    ]
    plain, armed = (Statements(schema).insert for schema in made)
    assert armed != plain
    assert armed.replace(', "__w1"', "").replace(', pilotis.search_words(r."title")', "") == plain


async def test_writers_never_wait_for_the_words_and_lose_none(table, monkeypatch):
    monkeypatch.setattr(vectors, "_BATCH", 50)
    await table.ask("note")
    filling = asyncio.create_task(table.run_once())
    written = []

    async def write(number):
        while not filling.done():
            row_id = await table.create(note=f"meanwhile {number} harbour")
            await table.update(row_id, note=f"changed {number}")
            written.append(row_id)

    await asyncio.gather(*map(write, range(4)))
    await filling
    assert written
    assert await table.wrong() == 0
    assert (await table.column()).vector is VectorState.STORED
    assert (await table.answer("changed", limit=0))["total_count"] == len(written)


async def test_searches_are_right_while_the_words_are_being_stored(table, monkeypatch):
    before = await table.answers()
    await table.ask("note")
    fill_batch = vectors._fill_batch
    half, go_on = asyncio.Event(), asyncio.Event()

    async def held(*arguments):
        filled = await fill_batch(*arguments)
        half.set()
        await go_on.wait()
        return filled

    monkeypatch.setattr(vectors, "_fill_batch", held)
    filling = asyncio.create_task(table.run_once())
    await half.wait()
    assert await table.wrong() > 0
    assert await table.answers() == before
    # A reader that took the words for stored would be right as well.
    await table.sql("update pilotis.columns set vector = 'stored' where table_id = $1 and number = 2", table.table_id)
    assert (await table.column()).vector is VectorState.STORED
    assert await table.answers() == before
    await table.sql("update pilotis.columns set vector = 'filling' where table_id = $1 and number = 2", table.table_id)
    go_on.set()
    await filling
    assert await table.wrong() == 0
    assert await table.answers() == before


async def test_a_fill_that_ended_half_way_goes_on_at_the_next_run(table, monkeypatch):
    await table.ask("note")
    await table.services.index_uses.flush()
    fill_batch = vectors._fill_batch

    async def stuck(*arguments):
        filled = await fill_batch(*arguments)
        await asyncio.Event().wait()
        return filled

    monkeypatch.setattr(vectors, "_fill_batch", stuck)
    filling = asyncio.create_task(table.run_once())
    physical = (await table.table()).schema.physical

    async def begun():
        if await table.stored():
            return await table.sql(f"select count(__w2) from {physical}")
        return 0

    filled = await until(begun)
    filling.cancel()
    await asyncio.gather(filling, return_exceptions=True)
    assert 0 < filled < ROWS
    assert (await table.column()).vector is VectorState.FILLING
    monkeypatch.undo()
    await table.ask("note")
    await table.run_once()
    assert await table.wrong() == 0
    assert (await table.column()).vector is VectorState.STORED
    assert len(await table.ready()) == 1


@pytest.mark.parametrize("column_migration_rows", [100, 100_000])
async def test_encrypting_a_column_drops_its_words(server, table, column_migration_rows):
    async with connection_to(server) as connection, paused(connection, "columns.migrate"):
        await drops_its_words(table, column_migration_rows)


async def drops_its_words(table, column_migration_rows):
    await table.ask("title", "note")
    await table.run_once()
    app = msgspec.structs.replace(
        table.app, limits=msgspec.structs.replace(table.app.limits, column_migration_rows=column_migration_rows)
    )
    change = ColumnChange(encrypted=True)
    in_background = await table.services.tables.change_column(app, OPERATOR, table.table_id, "note", change)
    assert in_background == (column_migration_rows == 100)
    # They are deleted immediately, although the texts themselves may be encrypted in the background.
    assert await table.stored() == {"__w1"}
    assert (await table.column()).vector is None
    if in_background:
        # Until then the column is searched, and gets no words again.
        await table.ask("note")
        await table.run_once()
        assert await table.stored() == {"__w1"}
        assert (await table.answer("everywhere"))["total_count"] == ROWS


@pytest.mark.without_citus("it reads the table's file, which is on another node")
async def test_no_word_of_an_encrypted_column_is_left_in_the_tables_file(table):
    await table.create(note="needleinhaystack once")
    await table.ask("note")
    await table.run_once()
    needle = b"needleinhaystack"
    physical = (await table.table()).schema.physical
    in_file = f"select position($1::bytea in pg_read_binary_file(pg_relation_filepath('{physical}'))) > 0"
    await table.sql("checkpoint")
    assert await table.sql(in_file, needle)
    await table.services.tables.change_column(table.app, OPERATOR, table.table_id, "note", ColumnChange(encrypted=True))
    await table.sql("checkpoint")
    assert not await table.sql(in_file, needle)


async def test_another_type_and_the_trash_drop_the_words(table):
    await table.ask("title", "note")
    await table.run_once()
    tables, app, table_id = table.services.tables, table.app, table.table_id
    before = await table.answer("harbour", ["note"])
    await tables.drop_column(app, OPERATOR, table_id, "note")
    await table.sql(f"update {(await table.table()).schema.physical} set title = '[]'")
    await tables.change_column(app, OPERATOR, table_id, "title", ColumnChange(data_type="array"))
    assert await table.stored() == set()
    assert await table.physical() == set()
    # A new column of the same name is another one, and what comes out of the trash is searched as before.
    await tables.add_column(app, OPERATOR, table_id, NewColumn("other", "string"))
    await table.services.trash.restore_column(app, OPERATOR, table_id, 2)
    again = await table.answer("harbour", ["note"])
    assert [row["id"] for row in again["data"]] == [row["id"] for row in before["data"]]
    await table.ask("note")
    await table.run_once()
    assert await table.stored() == {"__w2"}
    assert await table.wrong() == 0


async def test_words_go_with_the_index_that_nobody_uses(table):
    await table.ask("note")
    await table.run_once()
    await table.sql("update pilotis.indexes set idle = '29 days' where table_id = $1", table.table_id)
    await table.run_once()
    assert await table.stored() == set()
    assert (await table.column()).vector is None
    await table.create(note="after that")
    assert (await table.answer("that"))["total_count"] == 1


async def test_words_go_with_an_index_beyond_the_budget(table):
    await table.ask("note")
    await table.run_once(with_limits(table, index_percent=1))
    (index,) = await table.indexes()
    assert (index.state, index.error) == ("failed", "The table's indexes together would be too large.")
    assert await table.stored() == set()


async def test_a_transaction_and_a_batch_keep_the_words(table):
    await table.ask("note")
    await table.run_once()
    first = await table.create(note="one")
    for atomic, words in ((True, "atomically"), (False, "separately")):
        operations = [
            {"type": "update", "doc_id": first, "data": {"note": f"{words} changed"}},
            {"type": "create", "data": {"note": f"{words} made"}},
        ]
        run = table.services.batches.transaction if atomic else table.services.batches.batch
        sent = [msgspec.Raw(msgspec.json.encode(one | {"table_id": str(table.table_id)})) for one in operations]
        await run(table.principal, CLIENT, sent)
        assert (await table.answer(words))["total_count"] == 2
    assert await table.wrong() == 0


async def test_what_an_update_computes_is_immutable(table):
    # Citus allows nothing else on columns in an update.
    assert await table.sql("select provolatile = 'i' from pg_proc where proname = 'search_words'")


async def test_a_node_killed_while_it_stores_words_leaves_them_to_the_next(tmp_path):
    server = Server(tmp_path / "data", environment={"PILOTIS_LIMITS_INDEX_ROWS": "1000"}).start()
    try:
        app = new_app(server, first_console_user(server))
        table = await app.table({"note": "string", "n": "int"})
        picked = random.Random(2)
        rows = [{"note": " ".join(picked.choices(WORDS, k=20)), "n": number} for number in range(8_000)]
        physical = f"app_{uuid.UUID(app.app_id).hex}.t_{uuid.UUID(table).hex}"

        async def search(client):
            body = {"table_id": table, "query": "harbours 京都大学", "limit": 100}
            found = (await client.post("/v1/public/search", json=body)).json()
            return found["data"], found["total_count"]

        async with app.client() as client:
            for start in range(0, len(rows), 1000):
                answer = await client.post(
                    f"/v1/public/tables/{table}/data/bulk", json={"data": rows[start : start + 1000]}
                )
                assert answer.status_code == 201, answer.text
            *_, before = [await search(client) for _ in range(3)]
        async with connection_to(server) as connection:

            async def filled():
                if await connection.fetchval("select vector is null from pilotis.columns where name = 'note'"):
                    return 0
                return await connection.fetchval(f"select count(__w1) from {physical}")

            stored = await until(filled)
            server.kill()
            connection.terminate()
        assert 0 < stored < len(rows)
        server.start()
        async with connection_to(server) as connection:
            await until(
                lambda: connection.fetchval("select vector = 'stored' from pilotis.columns where name = 'note'")
            )
            wrong = f"select count(*) from {physical} where __w1 is distinct from pilotis.search_words(note)"
            assert await connection.fetchval(wrong) == 0
        async with app.client() as client:
            assert await search(client) == before
    finally:
        server.stop()
