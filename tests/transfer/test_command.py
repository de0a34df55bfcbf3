"""`pilotis table import` and `export`, beside a running server."""

import asyncio
import csv
import io
import json
import os
import pty
import random
import subprocess
import sys
import time
from pathlib import Path
from uuid import UUID

import pytest

from tests import forked
from tests.backstage import run_sql
from tests.support import App, Server
from tests.waiting import PATIENCE, until
from tests.whole import times

SCHEMA = {
    "text": "string",
    "number": "number",
    "whole": "int",
    "flag": "boolean",
    "at": "date",
    "key": "uuid",
    "object": "object",
    "list": "array",
    "secret": {"type": "string", "encrypted": True},
    "amount": {"type": "number", "encrypted": True},
}


def command(server: Server, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "pilotis", "table", *arguments, *server.place]


def run(app: App, *arguments: object, typed: bytes | None = None, status: int = 0) -> "subprocess.CompletedProcess":
    words = ["pilotis", "table", *map(str, arguments), *app.server.place, "--app", app.app_id]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    done = forked.run(*words, typed=typed or b"", environment=environment, timeout=5 * PATIENCE)
    assert done.returncode == status, done
    assert b"Traceback" not in done.stderr
    return done


def imported(app: App, *arguments: object, typed: bytes | None = None, status: int = 0) -> dict:
    return json.loads(run(app, "import", *arguments, "--json", typed=typed, status=status).stdout)


async def beside(function, *arguments, **options):
    return await asyncio.to_thread(lambda: function(*arguments, **options))


async def rows(app: App, table: str) -> list[dict]:
    async with app.client(app.secret_key) as client:
        answer = await client.get(f"/v1/public/tables/{table}/data", params={"limit": 1000})
    assert answer.status_code == 200, answer.text
    return [row["data"] for row in answer.json()["data"]]


def rejected_by(file: Path) -> list[str]:
    """The lines of the file beside."""
    return file.with_name(f"{file.name}.rejected.jsonl").read_text().splitlines()


def started(app: App, file: Path, table: str) -> "subprocess.Popen[bytes]":
    """Begin an import."""
    arguments = [*command(app.server, "import", str(file), "--table", table), "--app", app.app_id]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def under_way(app: App, process: "subprocess.Popen[bytes]", table: str, before: int | None = 0) -> None:
    """Wait until an import has come further, or is over."""
    while process.poll() is None and position(app, table) in {None, before}:
        time.sleep(0.01)


def value(kind: str, draw: random.Random):
    texts = ["", "\\N", "\\", "\\\\N", 'a "quoted", text', "two\r\nlines", "가나다", "=1+1", " x ", "null", "0", "\t"]
    return {
        "string": lambda: draw.choice(texts),
        "number": lambda: draw.choice([0, -1, 12345678901234567890, 1.5, 0.1, -2.75]),
        "int": lambda: draw.randrange(-(2**63), 2**63),
        "boolean": lambda: draw.random() < 0.5,
        "date": lambda: draw.choice(["2026-01-31", "2026-01-31T09:00:00+09:00", "1990-12-31T23:59:59.123Z"]),
        "uuid": lambda: str(UUID(int=draw.getrandbits(128))),
        "object": lambda: draw.choice([{}, {"a": {"b": [1, None, 'x,"y"']}}, {"": 0.10}]),
        "array": lambda: draw.choice([[], [1, [2, {"c": None}]], ["\n", "\\N"]]),
    }[kind]()


def random_row(draw: random.Random) -> dict:
    row = {}
    for name, definition in SCHEMA.items():
        kind = definition if isinstance(definition, str) else definition["type"]
        if (dice := draw.random()) < 0.7:
            row[name] = value(kind, draw)
        elif dice < 0.85:
            row[name] = None
    return row


@pytest.mark.parametrize("format_", ["csv", "jsonl"])
async def test_export_import_export_is_the_same(app: App, tmp_path: Path, format_: str):
    table = await app.table(SCHEMA)
    draw = random.Random(format_)
    made = [random_row(draw) for _ in range(300)]
    async with app.client() as client:
        answer = await client.post(f"/v1/public/tables/{table}/data/bulk", json={"data": made})
    assert answer.json()["success"] == 300, answer.text
    before = await rows(app, table)
    first, second = tmp_path / f"first.{format_}", tmp_path / f"second.{format_}"
    await beside(run, app, "export", "--table", table, "-o", first)
    copy = await app.table(SCHEMA)
    told = await beside(imported, app, first, "--table", copy)
    assert told == {"table_id": copy, "created": 300, "rejected": 0}
    await beside(run, app, "export", "--table", copy, "-o", second)
    assert second.read_bytes() == first.read_bytes()
    assert await rows(app, copy) == before
    async with app.client() as client:
        query = {"where": {"secret": before[0].get("secret")}}
        found = (await client.post(f"/v1/public/tables/{copy}/data/query", json=query)).json()
        assert found["total_count"] == sum(row.get("secret") == before[0].get("secret") for row in before)
    sealed_column = f"select count(__e{list(SCHEMA).index('secret') + 1})"
    hidden = await run_sql(app.server, f"{sealed_column} from app_{UUID(app.app_id).hex}.t_{UUID(copy).hex}")
    assert hidden == sum(row.get("secret") is not None for row in before)


async def test_json_lines_of_a_free_form_table(app: App, tmp_path: Path):
    table, copy = await app.table({}), await app.table({})
    for row in ({"any": 1.10, "_id": "mine"}, {}, {"id": [None], "with space": {"x": ""}}):
        await app.row(table, row)
    file = tmp_path / "rows.jsonl"
    await beside(run, app, "export", "--table", table, "-o", file)
    assert (await beside(imported, app, file, "--table", copy))["created"] == 3
    assert await rows(app, copy) == await rows(app, table)
    told = await beside(run, app, "export", "--table", table, "--format", "csv", status=1)
    assert b"JSON lines only" in told.stderr
    (tmp_path / "rows.csv").write_text("any,with space\n1,x\n,\n")
    await beside(imported, app, tmp_path / "rows.csv", "--table", copy)
    assert (await rows(app, copy))[3:] == [{"any": "1", "with space": "x"}, {}]


async def test_a_schema_is_guessed_or_given(app: App, tmp_path: Path):
    file = tmp_path / "places.csv"
    file.write_text(
        "id,Postal code,population,open,since,kind\n"
        "1,01234,1000,true,2026-01-31,a\n"
        "2,99999,,false,2026-02-01T00:00:00Z,\n"
    )
    told = await beside(imported, app, file, "--title", "Places")
    assert (told["created"], told["rejected"]) == (2, 0)
    async with app.client(app.secret_key) as client:
        table = (await client.get(f"/v1/public/tables/{told['table_id']}")).json()
    assert table["schema"] == {
        "id_": "int", "Postal_code": "string", "population": "int", "open": "boolean", "since": "date",
        "kind": "string",
    }  # fmt: skip
    assert (table["title"], table["access_level"]) == ("Places", "Creator")
    assert (await rows(app, told["table_id"]))[1] == {
        "id_": 2, "Postal_code": "99999", "open": False, "since": "2026-02-01T00:00:00Z",
    }  # fmt: skip

    lines = b'{"a": 1, "b c": [1]}\n{"a": 2.5}\n'
    given = ("-", "--title", "Given", "--schema", '{"a": "number", "b_c": "array"}', "--access-level", "Public")
    told = await beside(imported, app, *given, typed=lines)
    assert await rows(app, told["table_id"]) == [{"a": 1, "b_c": [1]}, {"a": 2.5}]
    told = await beside(imported, app, "-", "--title", "Guessed", typed=lines)
    async with app.client(app.secret_key) as client:
        table = (await client.get(f"/v1/public/tables/{told['table_id']}")).json()
    assert table["schema"] == {"a": "number", "b_c": "array"}
    assert await rows(app, told["table_id"]) == [{"a": 1, "b_c": [1]}, {"a": 2.5}]


async def test_bad_lines_go_to_a_file_and_do_not_stop_the_others(app: App, tmp_path: Path):
    table = await app.table({"name": {"type": "string", "required": True}, "age": "int"})
    file = tmp_path / "people.csv"
    file.write_bytes(
        b'name,age\nAda,36\nBob,old\n,5\nCy\n\nDan,7,8\n\xff,1\n"Eve\nII",x\n"Fay"z,1\nGus,9223372036854775808\nHal,1\n'
        b'"Ivy,1\nJon,2\n'
    )
    told = await beside(imported, app, file, "--table", table, status=1)
    assert (told["created"], told["rejected"]) == (3, 9)
    assert [row["name"] for row in await rows(app, table)] == ["Ada", "Hal", "Jon"]
    rejected = [json.loads(line) for line in rejected_by(file)]
    assert [(one["line"], one["code"]) for one in rejected] == [
        (3, "VALIDATION_FAILED"),
        (4, "VALIDATION_FAILED"),
        (5, "MALFORMED_RECORD"),
        (7, "MALFORMED_RECORD"),
        (8, "NOT_UTF8"),
        (9, "VALIDATION_FAILED"),
        (11, "MALFORMED_RECORD"),
        (12, "VALIDATION_FAILED"),
        (14, "MALFORMED_RECORD"),
    ]
    assert rejected[0]["text"] == "Bob,old\n"
    assert "age" in rejected[0]["message"]
    assert rejected[4]["text_base64"] == "/ywxCg=="
    assert (rejected[5]["last_line"], rejected[5]["text"]) == (10, '"Eve\nII",x\n')

    lines = b'{"name": "Kim"}\nnonsense\n[1]\n{"name": "Lea", "more": 1}\n{"name": 5}\n{"name": "Max", "age": 1.5}\n'
    told = await beside(imported, app, "-", "--table", table, "--rejected", tmp_path / "r", typed=lines, status=1)
    assert (told["created"], told["rejected"]) == (1, 5)
    codes = [json.loads(line)["code"] for line in (tmp_path / "r").read_text().splitlines()]
    assert codes == ["MALFORMED_RECORD", "MALFORMED_RECORD", "UNKNOWN_COLUMN", "VALIDATION_FAILED", "VALIDATION_FAILED"]


async def test_what_cannot_begin_is_refused_before_any_row(app: App, tmp_path: Path):
    table = await app.table({"name": "string"})
    cases = [
        ("name,other\nx,1\n", "not columns: other"),
        ("name,name\nx,1\n", "name twice"),
        ("name,\nx,1\n", "without a name"),
        ("", "must begin with a line"),
        ("\ufeffname\nx\n".encode("utf-16-le"), "UTF-16"),
    ]
    for number, (text, reason) in enumerate(cases):
        file = tmp_path / f"{number}.csv"
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        told = await beside(run, app, "import", file, "--table", table, status=1)
        assert reason in told.stderr.decode(), told
    usage = [
        ((tmp_path / "none.csv", "--table", table), "there is no file"),
        ((tmp_path / "0.csv",), "--table or --title"),
        ((tmp_path / "0.csv", "--table", table, "--title", "x"), "--table or --title"),
        ((tmp_path / "0.csv", "--title", "x", "--schema", "[]"), "schema is a JSON object"),
        ((tmp_path / "0.csv", "--table", table, "--schema", "{}"), "with --title"),
        ((tmp_path / "0.csv", "--table", table, "--format", "xml"), "one of csv, jsonl"),
        ((tmp_path / "0.csv", "--title", "x", "--access-level", "All"), "one of Creator"),
        ((tmp_path / "0.csv", "--table", table, "--delimiter", "xx"), "one character"),
    ]
    for arguments, reason in usage:
        told = await beside(run, app, "import", *arguments, status=2)
        assert reason in told.stderr.decode(), told
    told = await beside(run, app, "import", tmp_path / "0.csv", "--table", "No such", status=1)
    assert "no table No such" in told.stderr.decode()
    assert await rows(app, table) == []


async def test_other_delimiters(app: App, tmp_path: Path):
    table = await app.table({"a": "string", "b": "int"})
    (tmp_path / "x.csv").write_text('a;b\n"x;y";1\n')
    await beside(imported, app, tmp_path / "x.csv", "--table", table, "--delimiter", ";")
    (tmp_path / "y.csv").write_text("a\tb\nx,y\t2\n")
    await beside(imported, app, tmp_path / "y.csv", "--table", table, "--delimiter", "tab")
    assert await rows(app, table) == [{"a": "x;y", "b": 1}, {"a": "x,y", "b": 2}]


async def test_a_file_is_imported_once_unless_asked_for_again(app: App, tmp_path: Path):
    table = await app.table({"a": "int"})
    (tmp_path / "x.csv").write_text("a\n1\n")
    assert (await beside(imported, app, tmp_path / "x.csv", "--table", table))["created"] == 1
    told = await beside(run, app, "import", tmp_path / "x.csv", "--table", table)
    assert b"already imported into this table; --again" in told.stderr
    assert len(await rows(app, table)) == 1
    await beside(run, app, "import", tmp_path / "x.csv", "--table", table, "--again")
    assert len(await rows(app, table)) == 2


async def test_rows_with_their_creators(app: App, tmp_path: Path):
    table = await app.table({"text": "string"}, access_level="Creator")
    member = await app.member()
    await app.row(table, {"text": "mine"}, member["access_token"])
    for format_ in ("csv", "jsonl"):
        file = tmp_path / f"own.{format_}"
        await beside(run, app, "export", "--table", table, "--own-fields", "-o", file)
        copy = await app.table({"text": "string"}, access_level="Creator")
        await beside(imported, app, file, "--own-fields", "--table", copy)
        async with app.client(member["access_token"]) as client:
            answer = await client.get(f"/v1/public/tables/{copy}/data")
        assert [row["data"] for row in answer.json()["data"]] == [{"text": "mine"}]
    own = json.loads((tmp_path / "own.jsonl").read_text())
    assert set(own) == {"__id", "__creator", "__created_at", "__updated_at", "text"}
    assert own["__creator"] == member["member_id"]
    refused = await beside(run, app, "import", tmp_path / "own.csv", "--table", table, status=1)
    assert b"__creator" in refused.stderr


def at_a_terminal(arguments: list[str]) -> str:
    """Run a command with standard error at a terminal, and return what was written there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:
        pass  # how Linux tells the end of a terminal
    finally:
        os.close(ours)
    assert process.wait(PATIENCE) == 0, shown
    return shown.decode()


async def test_a_terminal_shows_how_far_it_is(app: App, tmp_path: Path):
    table = await app.table({"a": "int"})
    file = tmp_path / "x.csv"
    file.write_text("a\n" + "1\n" * 3000)
    arguments = [*command(app.server, "import", str(file), "--table", table), "--app", app.app_id]
    shown = await beside(at_a_terminal, arguments)
    assert "100%" in shown
    assert "3000 rows" in shown


def big_file(path: Path, count: int) -> int:
    """Write so many records, every hundredth of them bad, and return how many those are."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "text", "tags"])
        for number in range(count):
            bad = number % 100 == 50
            writer.writerow(["bad" if bad else number, f"text {number}\nof two lines, {'x' * 60}", f'["{number}"]'])
    return sum(number % 100 == 50 for number in range(count))


def killed_when_under_way(app: App, file: Path, table: str) -> int | None:
    """Run the import, kill it some time after it began; the exit status, or None if it was killed."""
    before = position(app, table)
    process = started(app, file, table)
    under_way(app, process, table, before)
    time.sleep(random.random() / 10)
    process.kill()
    process.communicate()
    return process.returncode if process.returncode >= 0 else None


def position(app: App, table: str) -> int | None:
    query = "select position from pilotis.imports where table_id = $1"
    return asyncio.run(run_sql(app.server, query, UUID(table)))


RECORDS = times(25_000, whole=100_000)


async def test_killed_again_and_again_it_loses_nothing_and_doubles_nothing(app: App, tmp_path: Path):
    table = await app.table({"number": "int", "text": "string", "tags": "array"})
    file = tmp_path / "big.csv"
    bad = await beside(big_file, file, RECORDS)
    kills = 0
    while kills < times(2, whole=4) and await beside(killed_when_under_way, app, file, table) is None:
        kills += 1
    assert kills >= 2, "the import was over before it could be killed"
    told = await beside(imported, app, file, "--table", table, status=1)
    assert (told["created"], told["rejected"]) == (RECORDS - bad, bad)
    assert told["resumed_after_line"] > 1
    name = f"app_{UUID(app.app_id).hex}.t_{UUID(table).hex}"
    query = f"select array[count(*), count(distinct number), min(number), max(number), sum(number)] from {name}"
    good = [number for number in range(RECORDS) if number % 100 != 50]
    assert await run_sql(app.server, query) == [len(good), len(good), 0, RECORDS - 1, sum(good)]
    async with app.client() as client:
        counted = await client.get(f"/v1/public/tables/{table}/data", params={"limit": 0})
    assert counted.json()["total_count"] == len(good)
    rejected = [json.loads(line) for line in rejected_by(file)]
    assert [one["line"] for one in rejected] == [2 + 2 * number for number in range(50, RECORDS, 100)]
    assert b"".join(one["text"].encode() for one in rejected).count(b"bad,") == bad


async def test_two_at_once_do_not_double_a_row(app: App, tmp_path: Path):
    table = await app.table({"number": "int", "text": "string", "tags": "array"})
    file = tmp_path / "big.csv"
    bad = await beside(big_file, file, 5000)
    both = [started(app, file, table) for _ in range(2)]
    outputs = [await beside(process.communicate) for process in both]
    assert sum(b"somebody else" in error for _, error in outputs) <= 1
    async with app.client() as client:
        counted = await client.get(f"/v1/public/tables/{table}/data", params={"limit": 0})
    assert counted.json()["total_count"] == 5000 - bad


async def test_a_changed_schema_in_the_middle_is_heeded(app: App, tmp_path: Path):
    table = await app.table({"number": "int", "text": "string", "tags": "array"})
    name = f"app_{UUID(app.app_id).hex}.t_{UUID(table).hex}"
    file = tmp_path / "big.csv"
    count = times(10_000, whole=20_000)
    bad = await beside(big_file, file, count)
    arguments = [*command(app.server, "import", "-", "--format", "csv", "--table", table), "--app", app.app_id]
    process = await asyncio.create_subprocess_exec(
        *arguments, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path
    )
    text = file.read_bytes()
    process.stdin.write(text[: len(text) // 2])
    await until(lambda: run_sql(app.server, f"select count(*) > 0 from {name}"))
    async with app.client() as client:
        column = {"name": "added", "data_type": "string", "default_value": "new"}
        assert (await client.post(f"/v1/public/tables/{table}/columns", json=column)).status_code == 201
    await process.communicate(text[len(text) // 2 :])
    assert process.returncode == 1
    total, added = await run_sql(app.server, f"select array[count(*), count(added)] from {name}")
    assert total == count - bad
    assert 0 < added < total


def peak_megabytes(arguments: list[str], out: Path) -> float:
    """Run a command and return the most memory that it had, in MB, as the kernel keeps it for the process."""
    peak = 0
    with out.open("wb") as file:
        process = subprocess.Popen(arguments, stdout=file, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max(peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
            time.sleep(0.005)
    assert process.returncode in {0, 1}
    return peak / 1024


async def test_memory_does_not_grow_with_the_file(app: App, tmp_path: Path):
    peaks = []
    for count in (times(2_000, whole=20_000), times(50_000, whole=200_000)):
        table = await app.table({"number": "int", "text": "string", "tags": "array"})
        file = tmp_path / f"{count}.csv"
        bad = await beside(big_file, file, count)
        started = time.perf_counter()
        to = ["--app", app.app_id, "--table", table]
        into = await beside(peak_megabytes, [*command(app.server, "import", str(file)), *to], tmp_path / "told")
        between = time.perf_counter()
        out = await beside(
            peak_megabytes, [*command(app.server, "export", "--format", "csv"), *to], tmp_path / "out.csv"
        )
        ended = time.perf_counter()
        print(f"{count} rows: {between - started:.1f} s in, {ended - between:.1f} s out, {into:.0f} and {out:.0f} MB")
        peaks.append((into, out))
        written = io.StringIO((tmp_path / "out.csv").read_text(), newline="")
        assert sum(1 for _ in csv.reader(written)) == 1 + count - bad
    (small_in, small_out), (large_in, large_out) = peaks
    assert large_in < small_in + 25
    assert large_out < small_out + 25


async def test_rules_are_shown_and_set(app: App, tmp_path: Path):
    await app.table({"name": "string"}, title="things")
    assert (await beside(run, app, "rules", "show", "things")).stdout == b"null\n"
    file = tmp_path / "rules.yaml"
    file.write_text("read: true\nupdate:\n  nme: x\n")
    wrong = await beside(run, app, "rules", "set", "things", file, status=1)
    assert b"rules.yaml:3: " in wrong.stderr
    assert b"nme" in wrong.stderr
    file.write_text("read: true\nupdate: {$creator: {$member: id}}\ncreate: true\n")
    done = await beside(run, app, "rules", "set", "things", file)
    assert b"may create every row" in done.stdout
    shown = (await beside(run, app, "rules", "show", "things")).stdout
    file.with_suffix(".json").write_bytes(shown)
    assert json.loads(shown) == {"read": True, "create": True, "update": {"$creator": {"$member": "id"}}}
    await beside(run, app, "rules", "set", "things", file.with_suffix(".json"))
    assert (await beside(run, app, "rules", "show", "things")).stdout == shown
    await beside(run, app, "rules", "set", "things", "--none")
    assert (await beside(run, app, "rules", "show", "things")).stdout == b"null\n"
    await beside(run, app, "rules", "show", "none", status=1)


async def test_unique_keys_are_listed_added_and_removed(app: App):
    table = await app.table({"email": "string", "state": "string"}, title="people")
    rows_ = [await app.row(table, {"email": email}) for email in ("a", "A")]
    assert (await beside(run, app, "unique", "list", "people")).stdout == b"The table has no unique keys.\n"
    done = await beside(run, app, "unique", "add", "people", "email", "--where", '{"state": "new"}', "--name", "fresh")
    assert done.stdout == b"The key fresh is made.\n"
    await beside(run, app, "unique", "add", table, "$creator", "state", "--nulls-equal")
    taken = await beside(run, app, "unique", "add", "people", "email", "--ignore-case", status=1)
    assert all(row["id"].encode() in taken.stderr for row in rows_)
    listed = json.loads((await beside(run, app, "unique", "list", "people", "--json")).stdout)
    assert [(key["name"], key["columns"], key["nulls"], key["state"]) for key in listed] == [
        ("fresh", ["email"], "distinct", "ready"),
        ("creator_state", ["$creator", "state"], "equal", "ready"),
    ]
    assert listed[0]["where"] == {"state": {"$eq": "new"}}
    assert (await beside(run, app, "unique", "remove", "people", "fresh")).stdout == b"The key fresh is removed.\n"
    await beside(run, app, "unique", "remove", "people", "fresh", status=1)
    await beside(run, app, "unique", "add", "people", "email", "--where", "[]", status=2)
    assert b"creator_state" in (await beside(run, app, "unique", "list", "people")).stdout


async def test_references_are_listed_set_and_removed(app: App):
    authors = await app.table({"slug": "string"}, title="authors", unique=[{"columns": ["slug"]}])
    ada = await app.row(authors, {"slug": "ada"})
    posts = await app.table({"author": "uuid", "by": "string"}, title="posts")
    post = await app.row(posts, {"author": ada["id"], "by": "eve"})
    assert (await beside(run, app, "references", "list")).stdout == b"No column refers to anything.\n"
    await beside(run, app, "references", "set", "posts", "author", "--to", "authors", "--on-delete", "cascade")
    refused = await beside(run, app, "references", "set", "posts", "by", "--to", "authors", "--key", "slug", status=1)
    assert post["id"].encode() in refused.stderr or b"1 row" in refused.stderr
    async with app.client() as client:
        await client.patch(f"/v1/public/tables/{posts}/data/{post['id']}", json={"data": {"by": "ada"}})
    await beside(run, app, "references", "set", posts, "by", "--to", authors, "--key", "slug")
    for wrong in (("--to", "authors", "--members"), (), ("--to", "authors", "--on-delete", "never")):
        await beside(run, app, "references", "set", "posts", "by", *wrong, status=2)
    listed = json.loads((await beside(run, app, "references", "list", "posts", "--json")).stdout)
    assert listed == [
        {"table": "posts", "column": "author", "refers_to": "authors by id", "on_delete": "cascade"},
        {"table": "posts", "column": "by", "refers_to": "authors by slug", "on_delete": "restrict"},
    ]
    await beside(run, app, "references", "remove", "posts", "by")
    assert b"slug" not in (await beside(run, app, "references", "list")).stdout
    await beside(run, app, "references", "list", "none", status=1)


TESTS = """
tests:
  - name: strangers see what is published
    action: list
    as: public
    expect: allowed
  - name: members may delete
    action: delete
    as: {}
    row_id: %s
    expect: allowed
  - action: create
    as: {id: me}
    data: {name: x}
    expect: allowed
"""


async def test_tests_of_rules_live_in_a_file(app: App, tmp_path: Path):
    table = await app.table({"name": "string"}, title="things")
    row = await app.row(table, {"name": "a"})
    file = tmp_path / "rules.yaml"
    file.write_text("read: true\ncreate: {$member: {is_guest: false}, name: {$ne: x}}\ndelete: {$member: {}}\n")
    await beside(run, app, "rules", "set", "things", file)
    tests = tmp_path / "tests.yaml"
    tests.write_text(TESTS % row["id"])
    done = await beside(run, app, "rules", "test", "things", tests, status=1)
    assert done.stdout.decode().splitlines() == [
        "passed  strangers see what is published",
        "passed  members may delete",
        "FAILED  create as a member: expected allowed, answered RULE_DENIED",
        '        no      name is not "x"',
        "        yes     the caller is not a guest",
        "3 tests, 1 failed.",
    ]
    assert len(await rows(app, table)) == 1
    tests.write_text("tests:\n  - {action: read, as: public, expect: allowed, rules: {read: {nme: 1}}}\n")
    done = await beside(run, app, "rules", "test", "things", tests, status=1)
    assert b"tests.yaml:2: " in done.stderr


async def test_a_file_is_imported_again_by_a_key(app: App, tmp_path: Path):
    file = tmp_path / "stock.csv"
    file.write_text("sku,stock\na,1\nb,2\n")
    made = await beside(imported, app, file, "--title", "stock")
    async with app.client(app.secret_key) as client:
        answer = await client.post(f"/v1/apps/{app.app_id}/tables/{made['table_id']}/unique", json={"columns": ["sku"]})
        assert answer.status_code == 201, answer.text
    file.write_text("sku,stock\nb,3\nc,4\n")
    done = await beside(imported, app, file, "--table", "stock", "--key", "sku")
    assert (done["created"], done["updated"]) == (1, 1)
    assert await rows(app, made["table_id"]) == [
        {"sku": "a", "stock": 1},
        {"sku": "b", "stock": 3},
        {"sku": "c", "stock": 4},
    ]
