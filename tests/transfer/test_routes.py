"""Imports and exports of console users."""

import asyncio
import contextlib
import csv
import io
import json
import os
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from tests.backstage import run_sql
from tests.console import database_of, invite, owner_of, sign_up, user_with
from tests.support import App, assert_error
from tests.waiting import until
from tests.whole import times

SCHEMA = {"number": "int", "text": "string", "secret": {"type": "string", "encrypted": True}}


async def everything(app: App, table: str) -> list[dict]:
    async with app.client(app.secret_key) as client:
        return [row["data"] for row in (await client.get(f"/v1/public/tables/{table}/data")).json()["data"]]


async def test_in_and_out(app: App):
    table = await app.table(SCHEMA)
    async with owner_of(app).client(app) as console:
        lines = b'{"number":1,"secret":"s"}\n{"number":"x"}\n{"number":2,"text":null}\n'
        answer = await console.post(f"/tables/{table}/import", content=lines)
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert (told["created"], told["rejected"], told["table_id"]) == (2, 1, table)
        assert [(one["line"], one["code"]) for one in told["rejections"]] == [(2, "VALIDATION_FAILED")]
        text = b"number,text,secret\r\n3,\xea\xb0\x80,t\r\n"
        answer = await console.post(f"/tables/{table}/import", content=text, headers={"Content-Type": "text/csv"})
        assert answer.json()["created"] == 1, answer.text

        out = await console.get(f"/tables/{table}/export")
        assert out.headers["content-type"] == "application/jsonl"
        assert [json.loads(line) for line in out.text.splitlines()] == await everything(app, table)
        assert out.text.splitlines()[0] == '{"number":1,"secret":"s"}'
        out = await console.get(f"/tables/{table}/export?format=csv")
        assert out.content.decode() == "number,text,secret\r\n1,,s\r\n2,\\N,\r\n3,가,t\r\n"
        assert out.headers["content-type"].startswith("text/csv")
        assert out.headers["content-disposition"].endswith('.csv"')
        log = (await console.get("/audit-log")).json()["data"]
    assert [entry["action"] for entry in log[:4]] == ["table.export"] * 2 + ["table.import"] * 2
    assert log[3]["details"] == {"created": 2, "rejected": 1}


@pytest.mark.advisory("GHSA-vc89-5g3r-cmhh")
async def test_a_viewer_gets_no_encrypted_values_and_imports_nothing(app: App):
    table = await app.table(SCHEMA)
    await app.row(table, {"number": 1, "secret": "needle"})
    invited = await invite(app, "viewer")
    token = invited["url"].partition("#")[2] if "url" in invited else invited["token"]
    viewer = (await sign_up(app.server, invited["email"], token)).json()
    headers = {"Authorization": f"Bearer {viewer['access_token']}"}
    async with httpx.AsyncClient(base_url=f"{app.server.url}/v1/apps/{app.app_id}", headers=headers) as client:
        assert (await client.get(f"tables/{table}/export")).text == '{"number":1}\n'
        assert (await client.get(f"tables/{table}/export?format=csv")).text == "number,text\r\n1,\r\n"
        assert_error(await client.post(f"tables/{table}/import", content=b"{}"), 403, "ROLE_REQUIRED")


@pytest.mark.parametrize(
    ("query", "body", "status", "code"),
    [
        ("?format=csv", b"", 400, "NO_HEADER"),
        ("?format=csv", b"other\n1\n", 400, "UNKNOWN_COLUMN"),
        ("?format=csv", b"number,number\n1,1\n", 400, "VALIDATION_FAILED"),
        ("?format=csv&delimiter=ab", b"", 400, "VALIDATION_FAILED"),
        ("?key=%00", b"", 400, "VALIDATION_FAILED"),
        ("?format=csv&delimiter=%22", b"", 400, "VALIDATION_FAILED"),
        ("?format=xml", b"", 400, "VALIDATION_FAILED"),
        ("?key=", b"", 400, "VALIDATION_FAILED"),
        ("", "\ufeff{}".encode("utf-16-le"), 400, "NOT_UTF8"),
    ],
)
async def test_wrong_imports(app: App, query: str, body: bytes, status: int, code: str):
    table = await app.table(SCHEMA)
    async with owner_of(app).client(app) as console:
        answer = await console.post(f"/tables/{table}/import{query}", content=body)
        assert_error(answer, status, code)


async def test_no_such_table(app: App, other_app: App):
    table = await other_app.table(SCHEMA)
    async with owner_of(app).client(app) as console:
        assert_error(await console.post(f"/tables/{table}/import", content=b"{}"), 404, "TABLE_NOT_FOUND")
        assert_error(await console.get(f"/tables/{table}/export"), 404, "TABLE_NOT_FOUND")
        free = await app.table({})
        assert_error(await console.get(f"/tables/{free}/export?format=csv"), 400, "FREE_FORM_CSV")
    assert await everything(other_app, table) == []


async def test_a_broken_off_import_goes_on_under_its_key(app: App):
    table = await app.table(SCHEMA)
    lines = [b'{"number":%d,"text":"%b"}\n' % (number, b"x" * 100) for number in range(5000)]

    async def breaking_off():
        for line in lines[:3500]:
            yield line
        await until(has_three_batches)
        raise ConnectionError

    async def has_three_batches() -> bool:
        return len(await everything_counted(app, table)) == 3000

    async with owner_of(app).client(app) as console:
        with pytest.raises(ConnectionError):
            await console.post(f"/tables/{table}/import?key=mine", content=breaking_off())
        answer = await console.post(f"/tables/{table}/import?key=mine", content=b"".join(lines))
        assert answer.status_code == 200, answer.text
        assert (answer.json()["created"], answer.json()["resumed_at_line"]) == (5000, 3000)
        assert sorted(await everything_counted(app, table)) == list(range(5000))
        again = await console.post(f"/tables/{table}/import?key=mine", content=b"".join(lines))
        assert (again.json()["created"], again.json()["was_finished"]) == (5000, True)
        assert len(await everything_counted(app, table)) == 5000
        other = await console.post(f"/tables/{table}/import?key=other&format=csv", content=b"number\n")
        assert other.status_code == 200
        await run_sql(app.server, "update pilotis.imports set finished_at = null where key = 'other'")
        mixed = await console.post(f"/tables/{table}/import?key=other", content=b"")
        assert_error(mixed, 409, "IMPORT_FORMAT")


async def everything_counted(app: App, table: str) -> list[int]:
    query = f"select array_agg(number) from app_{UUID(app.app_id).hex}.t_{UUID(table).hex}"
    return await run_sql(app.server, query) or []


async def test_an_export_is_one_moment(app: App):
    table = await app.table(SCHEMA)
    lines = b"".join(b'{"number":%d,"text":"%b"}\n' % (number, b"x" * 1000) for number in range(20_000))
    async with owner_of(app).client(app) as console:
        assert (await console.post(f"/tables/{table}/import", content=lines)).json()["created"] == 20_000
        async with console.stream("GET", f"/tables/{table}/export") as answer:
            received = answer.aiter_bytes()
            got = await anext(received)
            async with app.client() as client:
                await client.post(f"/v1/public/tables/{table}/data/delete-where", json={"all": True})
            assert await everything_counted(app, table) == []
            got += b"".join([chunk async for chunk in received])
    assert got == lines


async def test_an_export_that_nobody_takes_ends(app: App):
    table = await app.table(SCHEMA)
    lines = b"".join(b'{"number":%d,"text":"%b"}\n' % (number, b"x" * 1000) for number in range(20_000))
    # Readers alone: autovacuum may hold a lock of its own on a table that was just filled.
    locks = "select count(*) from pg_locks where relation = $1::regclass and granted and mode = 'AccessShareLock'"
    name = f"app_{UUID(app.app_id).hex}.t_{UUID(table).hex}"
    async with owner_of(app).client(app) as console:
        assert (await console.post(f"/tables/{table}/import", content=lines)).json()["created"] == 20_000
        async with console.stream("GET", f"/tables/{table}/export") as answer:
            # Kept: a forgotten iterator closes the connection.
            received = answer.aiter_bytes()
            await anext(received)
            assert await run_sql(app.server, locks, name) >= 1
        head = await console.head(f"/tables/{table}/export")
        assert (head.status_code, head.content) == (200, b"")

    async def let_go() -> bool:
        return await run_sql(app.server, locks, name) == 0

    await until(let_go)


async def test_slow_exports_of_one_app_do_not_keep_another_from_its_own(app: App, other_app: App):
    """An app has two at once; those beyond are told to come back, by the status and the header as everywhere else."""
    lines = b"".join(b'{"number":%d,"text":"%b"}\n' % (number, b"x" * 1000) for number in range(20_000))
    table, other_table = await app.table(SCHEMA), await other_app.table(SCHEMA)
    async with (
        owner_of(app).client(app) as console,
        owner_of(other_app).client(other_app) as other,
        contextlib.AsyncExitStack() as readers,
    ):
        assert (await console.post(f"/tables/{table}/import", content=lines)).json()["created"] == 20_000
        slow = []
        for _ in range(4):
            answer = await readers.enter_async_context(console.stream("GET", f"/tables/{table}/export"))
            # Kept: a forgotten iterator closes the connection.
            slow.append((answer, answer.aiter_bytes()))
            first = await anext(slow[-1][1])
        assert [answer.status_code for answer, _ in slow] == [200, 200, 503, 503]
        assert json.loads(first)["code"] == "EXPORTS_BUSY"
        assert int(slow[-1][0].headers["retry-after"]) > 0
        for _ in range(3):
            assert (await other.get(f"/tables/{other_table}/export")).status_code == 200

    async def may_again() -> bool:
        async with owner_of(app).client(app) as client:
            return (await client.get(f"/tables/{table}/export")).status_code == 200

    await until(may_again)


def resident_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1024


# 50 megabytes, in a whole run 100.
LINES = times(12_500, whole=25_000)


async def test_the_servers_memory_does_not_grow_with_the_body(app: App):
    table = await app.table(SCHEMA)
    pid = app.server.process.pid
    line = b'{"number":1,"text":"%b"}\n' % os.urandom(2000).hex().encode()
    peak = 0.0

    async def body():
        nonlocal peak
        for number in range(LINES // 250):
            yield line * 250
            peak = max(peak, resident_megabytes(pid))
            if number % 10 == 0:
                await asyncio.sleep(0)

    async with owner_of(app).client(app) as console:
        await console.post(f"/tables/{table}/import", content=line * 2000)
        before = resident_megabytes(pid)
        answer = await console.post(f"/tables/{table}/import", content=body())
        assert answer.json()["created"] == LINES, answer.text
        async with console.stream("GET", f"/tables/{table}/export") as out:
            size = 0
            async for chunk in out.aiter_bytes():
                size += len(chunk)
                peak = max(peak, resident_megabytes(pid))
    assert size == (LINES + 2_000) * len(line)
    print(f"{size / 1e6:.0f} MB in and out: {before:.0f} MB before, at most {peak:.0f} MB")
    assert peak < before + 40


async def test_formulas_are_neutralised_on_request(app: App):
    table = await app.table({"text": "string", "number": "number"})
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "plain", "a=1", "'=1", ""]
    for text in texts:
        await app.row(table, {"text": text, "number": -5})
    url = f"{app.server.url}/v1/apps/{app.app_id}/tables/{table}/export?format=csv"
    headers = {"Authorization": f"Bearer {app.console['access_token']}"}
    async with app.client() as client:
        plain, harmless = [
            list(csv.reader(io.StringIO((await client.get(url + more, headers=headers)).text, newline="")))[1:]
            for more in ("", "&neutralise_formulas=true")
        ]
    assert [row[0] for row in plain] == [text or "\\" for text in texts]
    assert [row[0] for row in harmless] == [*(f"'{text}" for text in texts[:8]), *texts[8:-1], "\\"]
    assert {row[1] for row in plain} == {row[1] for row in harmless} == {"-5"}


async def test_the_position_of_an_import_is_read_by_its_key(app: App):
    table = await app.table(SCHEMA)
    content = b'{"number":1}\n{"number":"x"}\n{"number":2}\n'
    async with owner_of(app).client(app) as console:
        assert_error(await console.get(f"/tables/{table}/imports/mine"), 404, "IMPORT_NOT_FOUND")
        await console.post(f"/tables/{table}/import?key=mine", content=content)
        told = (await console.get(f"/tables/{table}/imports/mine")).json()
        other = await app.table({"number": "int"})
        assert_error(await console.get(f"/tables/{other}/imports/mine"), 404, "IMPORT_NOT_FOUND")
    assert told == {
        "table_id": table,
        "key": "mine",
        "created": 2,
        "rejected": 1,
        "line": 3,
        "position": len(content),
        "finished": True,
    }


async def test_the_position_moves_while_the_file_arrives(app: App):
    table = await app.table({"number": "int"})
    more = asyncio.Event()

    async def content():
        yield b'{"number":1}\n' * 1000 + b'{"number":2}\n'
        await more.wait()
        yield b'{"number":3}\n'

    async with owner_of(app).client(app) as console:
        sending = asyncio.create_task(console.post(f"/tables/{table}/import?key=slow", content=content()))

        async def begun() -> bool:
            told = await console.get(f"/tables/{table}/imports/slow")
            return told.status_code == 200 and told.json()["created"] == 1000

        await until(begun)
        assert (await console.get(f"/tables/{table}/imports/slow")).json()["finished"] is False
        more.set()
        assert (await sending).json()["created"] == 1002
        assert (await console.get(f"/tables/{table}/imports/slow")).json()["finished"] is True


async def linked(app: App, token: str, table: str, **wanted: object) -> httpx.Response:
    """Create a link to an export and follow it, as a browser does: without a header."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient() as client:
        base = f"{app.server.url}/v1/apps/{app.app_id}/tables/{table}"
        made = await client.post(f"{base}/export-link", json=wanted, headers=headers)
        assert made.status_code == 200, made.text
        return await client.get(made.json()["url"])


async def test_a_link_exports_once_what_its_user_may_read(app: App):
    table = await app.table(SCHEMA, title='Zahlen/"2026" 사진')
    await app.row(table, {"number": 1, "secret": "needle"})
    owner = owner_of(app)
    out = await linked(app, owner.access_token, table, format="csv")
    assert (out.status_code, out.text) == (200, "number,text,secret\r\n1,,needle\r\n")
    # RFC 6266, section 4.3: the name that a browser saves it by.
    name = "filename=\"Zahlen_2026_ __.csv\"; filename*=UTF-8''Zahlen_2026_%20%EC%82%AC%EC%A7%84.csv"
    assert out.headers["content-disposition"] == f"attachment; {name}"
    async with httpx.AsyncClient() as client:
        assert_error(await client.get(str(out.url)), 404, "EXPORT_LINK_INVALID")
    viewer = await user_with(app, "viewer")
    assert (await linked(app, viewer.access_token, table)).text == '{"number":1}\n'
    async with owner.client(app) as console:
        (entry, *_) = (await console.get("/audit-log?action=table.export")).json()["data"]
    assert (entry["actor_id"], entry["target"]) == (viewer.user_id, table)


async def test_a_link_ends_with_its_users_access_and_its_minute(app: App):
    table = await app.table(SCHEMA)
    viewer, editor = await user_with(app, "viewer"), await user_with(app, "editor")
    async with owner_of(app).client(app) as console, httpx.AsyncClient() as client:
        links = []
        for user in (viewer, editor, owner_of(app)):
            headers = {"Authorization": f"Bearer {user.access_token}"}
            base = f"{app.server.url}/v1/apps/{app.app_id}/tables/{table}"
            links.append((await client.post(f"{base}/export-link", json={}, headers=headers)).json()["url"])
        await app.row(table, {"number": 1, "secret": "needle"})
        assert (await console.delete(f"/users/{viewer.user_id}")).status_code == 200
        assert (await console.patch(f"/users/{editor.user_id}", json={"role": "viewer"})).status_code == 200
        assert_error(await client.get(links[0]), 404, "EXPORT_LINK_INVALID")
        assert (await client.get(links[1])).text == '{"number":1}\n'
        async with database_of(app.server) as connection:
            await connection.execute(
                "update pilotis.single_use set expires_at = now() where app_id = $1 and used_at is null",
                UUID(app.app_id),
            )
        assert_error(await client.get(links[2]), 404, "EXPORT_LINK_INVALID")
        for wrong in ("x", "ex_", "ex_AAAA", links[2].rpartition("/")[2][:-1]):
            assert_error(await client.get(f"{app.server.url}/v1/exports/{wrong}"), 404, "EXPORT_LINK_INVALID")
