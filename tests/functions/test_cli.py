"""Functions, section 11: `pilotis functions`."""

import ast
import asyncio
import os
import sys
from pathlib import Path

import httpx
import msgspec
import pytest
from click.testing import CliRunner

from pilotis import cli as templates
from pilotis.cli.main import command
from pilotis.data.rows.types import Page as RowPageQuery
from pilotis.data.rows.types import Query
from pilotis.files.types import ItemQuery
from pilotis.functions.runtime.policy import tools
from pilotis.members.administration.types import MemberChange, MemberQuery
from tests.commands import run_beside
from tests.functions.support import Functions
from tests.waiting import PATIENCE, until

JSON = {"Content-Type": "application/json"}


def environment_of(functions: Functions) -> dict[str, str]:
    app = functions.app
    return {
        **os.environ,
        "PILOTIS_URL": app.server.url,
        "PILOTIS_SECRET_KEY": app.secret_key,
    }


async def pilotis(functions: Functions, place: Path, *arguments: str, typed: str = "") -> tuple[int, str, str]:
    app = functions.app
    environment = {"PILOTIS_URL": app.server.url, "PILOTIS_SECRET_KEY": app.secret_key}
    done = await run_beside("functions", *arguments, typed=typed, folder=place, **environment)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("python", [False, True], ids=["typescript", "python"])
async def test_from_init_to_a_called_function(functions: Functions, tmp_path: Path, python: bool):
    options = ["--python"] if python else []
    assert (await pilotis(functions, tmp_path, "init", "greet", *options))[0] == 0
    tested = [sys.executable, "-m", "unittest"] if python else [str(tools().deno), "test", "--no-check", "--quiet"]
    process = await asyncio.create_subprocess_exec(*tested, cwd=tmp_path / "greet")
    assert await process.wait() == 0
    status, output, error = await pilotis(functions, tmp_path, "dev", "greet", "--once", "--data", '{"name": "Ada"}')
    assert (status, output) == (0, '"Hello, Ada!"\n'), error
    assert "called by secret_key" in error
    assert (await pilotis(functions, tmp_path, "invoke", "greet"))[0] == 1  # only a draft so far
    status, output, error = await pilotis(functions, tmp_path, "deploy", "greet")
    assert (status, output) == (0, "greet version 1 is active.\n"), error
    status, output, _ = await pilotis(functions, tmp_path, "invoke", "greet", "--data", '{"name": "Bob"}')
    assert (status, output) == (0, '"Hello, Bob!"\n')
    assert await functions.value("greet", {}) == "Hello, world!"
    status, output, _ = await pilotis(functions, tmp_path, "env", "set", "greet", "TOKEN", typed="a secret\n")
    assert (status, output) == (0, "TOKEN is set.\n")
    assert (await pilotis(functions, tmp_path, "env", "list", "greet"))[1].startswith("TOKEN ")
    assert "a secret" not in (await pilotis(functions, tmp_path, "env", "list", "greet"))[1]

    async def logged() -> bool:
        return "called by secret_key" in (await pilotis(functions, tmp_path, "logs", "greet"))[1]

    assert await until(logged)


# What the declarations offer, by their name in each language, and what the routes take.
OFFERED: list[tuple[str, str, type[msgspec.Struct]]] = [
    ("RowQuery", "Rows.query", Query),
    ("RowRange", "Rows.list", RowPageQuery),
    ("MemberQuery", "Members.list", MemberQuery),
    ("FileQuery", "Files.list", ItemQuery),
]
WITHOUT_EFFECT = {"select"}


async def test_the_declarations_offer_what_the_routes_take(tmp_path: Path):
    """`functions init` writes types for editors: each field that they offer is one of the route's, and the reverse."""
    done = CliRunner().invoke(command, ["functions", "init", str(tmp_path / "greet")])
    assert done.exit_code == 0, done.output
    lines = [
        f"import type {{ Context, {', '.join(name for name, _, _ in OFFERED)}, MemberChange }} from './pilotis.d.ts';"
    ]
    for name, struct in [*((name, struct) for name, _, struct in OFFERED), ("MemberChange", MemberChange)]:
        fields = ", ".join(f"{field}: true" for field in sorted(taken(struct)))
        lines.append(f"const all{name}: Record<keyof {name}, true> = {{ {fields} }};")
    lines += [
        "export default async (ctx: Context) => {",
        "  const query = { where: { a: { $gt: 1 } }, order_by: 'a', order_direction: 'desc', limit: 1 } as const;",
        "  const { data, total_count } = await ctx.api.rows('t').query(query);",
        "  for await (const row of ctx.api.rows('t').where({ a: { $gt: 1 } }).orderBy('a')) row.data;",
        "  await ctx.api.transaction((t) => t.update('t', t.create('t', { a: 1 }), { a: { $inc: 1 } }));",
        "  // @ts-expect-error: a call ends, and with it a list",
        "  ctx.api.rows('t').live(() => {});",
        "  // @ts-expect-error: the server takes order_by",
        "  await ctx.api.rows('t').query({ sort: 'a' });",
        "  return [data[0]!.created_at.length + total_count, allRowRange, allRowQuery, allMemberQuery, allFileQuery];",
        "};",
        "void allMemberChange;",
    ]
    (tmp_path / "greet" / "check.ts").write_text("\n".join(lines))
    process = await asyncio.create_subprocess_exec(
        *(str(tools().deno), "check", "--quiet", "check.ts", "index.ts"),
        cwd=tmp_path / "greet",
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


def test_the_declarations_in_python_offer_what_the_routes_take():
    source = (Path(templates.__file__).parent / "templates" / "python" / "pilotis.pyi").read_text()
    methods = {
        f"{one.name}.{method.name}": method
        for one in ast.parse(source).body
        if isinstance(one, ast.ClassDef)
        for method in one.body
        if isinstance(method, ast.FunctionDef)
    }
    for _, method, struct in OFFERED:
        assert {argument.arg for argument in methods[method].args.kwonlyargs} == taken(struct)


def taken(struct: type[msgspec.Struct]) -> set[str]:
    return set(struct.__struct_fields__) - WITHOUT_EFFECT


async def answered(url: str, size: str) -> bytes:
    """The status that a request gets whose length is no number of bytes, and whose connection stays open."""
    place = httpx.URL(url)
    reader, writer = await asyncio.open_connection(place.host, place.port)
    lines = ["POST /greet HTTP/1.1", f"Host: {place.host}:{place.port}", "Content-Type: application/json"]
    writer.write("\r\n".join([*lines, f"Content-Length: {size}", "", ""]).encode())
    async with asyncio.timeout(PATIENCE):
        status = (await reader.readline()).split()[1]
    writer.close()
    return status


async def test_the_draft_answers_on_this_machine_while_it_is_written(functions: Functions, tmp_path: Path):
    assert (await pilotis(functions, tmp_path, "init", "greet"))[0] == 0
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-m", "pilotis", "functions", "dev", "greet", "--port", "0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment_of(functions),
        cwd=tmp_path,
    )
    assert process.stdout
    assert process.stderr
    try:
        async with asyncio.timeout(PATIENCE):
            url = (await process.stderr.readline()).decode().removeprefix("Calls: ").strip()
            assert url.endswith("/greet")
            # The result of the first call: the draft is stored.
            assert await process.stdout.readline() == b'"Hello, world!"\n'
        async with httpx.AsyncClient() as client:
            answer = await client.post(url, json={"name": "Ada"})
            assert (answer.status_code, answer.json()["result"]) == (200, "Hello, Ada!")
            (tmp_path / "greet" / "index.ts").write_text("export default () => 'changed';")

            async def is_changed() -> bool:
                return (await client.post(url, json={})).json()["result"] == "changed"

            assert await until(is_changed)
            assert (await client.post(url, json={}, headers={"Host": "evil.example"})).status_code == 403
            assert (await client.post(url, content=b"{}", headers={"Content-Type": "text/plain"})).status_code == 415
            assert (await client.post(url, content=b"{", headers=JSON)).status_code == 400
            for size in ("-1", "+2", "1_0", "many"):
                assert await answered(url, size) == b"400"
            assert (await client.post(f"{url}s", json={})).status_code == 404
            assert (await client.get(url)).status_code == 501
    finally:
        process.kill()
        await process.communicate()


async def test_the_log_is_followed_as_it_grows(functions: Functions, tmp_path: Path):
    source = "export default ({ word }, ctx) => { ctx.log.warn(word); ctx.log.debug('quiet'); };"
    function_id = await functions.made("speaks", source)

    async def said(word: str) -> None:
        body = {"payload": {"word": word}}
        answer = await functions.console.post(f"{functions.base}/{function_id}/invoke", json=body)
        assert answer.json()["success"]

    await said("first")

    async def is_recorded() -> bool:
        return "first" in (await pilotis(functions, tmp_path, "logs", "speaks"))[1]

    assert await until(is_recorded)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-m", "pilotis", "functions", "logs", "speaks", "--follow", "--level", "warn"),
        stdout=asyncio.subprocess.PIPE,
        env=environment_of(functions),
    )
    assert process.stdout
    try:
        lines = []
        for word in ("first", "second", "third"):
            if word != "first":
                await said(word)
            async with asyncio.timeout(PATIENCE):
                lines.append((await process.stdout.readline()).decode().split())
        assert [line[1:] for line in lines] == [["warn", "first"], ["warn", "second"], ["warn", "third"]]
    finally:
        process.kill()
        await process.wait()


async def test_f11_a_log_line_commands_no_terminal_and_looks_like_no_other(functions: Functions, tmp_path: Path):
    await functions.made(
        "speaks", r"export default () => { console.log('a\u001b[2J\nerror  b'); throw new Error('\u009b2J') };"
    )
    status, _, error = await pilotis(functions, tmp_path, "invoke", "speaks")
    assert status == 1
    assert r"info   a\x1b[2J\nerror  b" in error.splitlines()
    assert r"error: FUNCTION_ERROR: \x9b2J" in error.splitlines()


async def test_a_source_that_does_not_load_is_told_with_its_place(functions: Functions, tmp_path: Path):
    await pilotis(functions, tmp_path, "init", "bad")
    (tmp_path / "bad" / "index.ts").write_text("export default (")
    status, _, error = await pilotis(functions, tmp_path, "deploy", "bad")
    assert status == 1
    assert "SOURCE_INVALID" in error
    assert "index.ts" in error


@pytest.mark.parametrize("given", [{}, {"PILOTIS_SECRET_KEY": "sk_AAIJI6hAcPuq3e37"}], ids=["missing", "incomplete"])
async def test_without_a_terminal_a_key_that_is_none_is_an_error(given: dict[str, str], tmp_path: Path):
    environment = {name: value for name, value in os.environ.items() if name != "PILOTIS_SECRET_KEY"} | given
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pilotis", "functions", "logs", "greet"),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd=tmp_path,
    )
    _, error = await process.communicate()
    assert process.returncode == 2
    assert (b"The secret key is incomplete" if given else b"PILOTIS_SECRET_KEY") in error


async def test_a_rejected_key_creates_no_function(functions: Functions, tmp_path: Path):
    await pilotis(functions, tmp_path, "init", "greet")
    app = functions.app
    wrong = f"{app.secret_key[:-4]}AAAA"
    assert wrong != app.secret_key
    environment = {**os.environ, "PILOTIS_URL": app.server.url}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pilotis", "functions", "deploy", "greet"),
        stderr=asyncio.subprocess.PIPE,
        env={**environment, "PILOTIS_SECRET_KEY": wrong},
        cwd=tmp_path,
    )
    _, error = await process.communicate()
    assert process.returncode == 1
    assert error.count(b"SECRET_KEY") + error.count(b"TOKEN") == 1, error
