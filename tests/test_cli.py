"""The command `pilotis`, as a person or a script runs it."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import click
import httpx
import pytest
from click.testing import CliRunner

from pilotis import __version__
from pilotis.cli import doctor, doctor_database, doctor_machine, output, remote
from pilotis.cli.main import command
from pilotis.db import inspection
from pilotis.db.embedded import running_address
from pilotis.settings import Settings
from tests.commands import run, run_process
from tests.database import connection_to
from tests.support import Server, assert_error
from tests.waiting import PATIENCE, wait_until

PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("cli") / "data").start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory in which nothing runs."""
    directory = tmp_path_factory.mktemp("idle") / "data"
    done(run_process("init", "--data-dir", str(directory)))
    return directory


def done(process: "subprocess.CompletedProcess[str]") -> str:
    assert (process.returncode, process.stderr) == (0, ""), process
    return process.stdout


def refused(process: "subprocess.CompletedProcess[str]", status: int = 1) -> str:
    """Check that a command gave up with one sentence, and return it."""
    assert (process.returncode, process.stdout) == (status, ""), process
    assert "Traceback" not in process.stderr
    if status == 1:
        assert process.stderr.startswith("pilotis: ")
        assert len(process.stderr.splitlines()) == 1, process.stderr
    return process.stderr


def on(server: Server, *arguments: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a command beside the server."""
    return run(*arguments, *server.place, typed=typed)


def new_app(server: Server) -> dict[str, str]:
    return json.loads(done(on(server, "app", "create", "An app", "--json")))


def tables(server: Server, key: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{server.url}/v1/public/tables", headers={"X-Public-Key": key, **headers})


def sign_in(server: Server, email: str) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/auth/signin", json={"email": email, "password": PASSWORD})


def test_a_created_app_can_be_used_at_once(server):
    app = new_app(server)
    assert set(app) == {"app_id", "public_key", "secret_key"}
    assert tables(server, app["public_key"]).status_code == 200
    secret = {"Authorization": f"Bearer {app['secret_key']}"}
    assert tables(server, app["public_key"], **secret).status_code == 200
    wrong = {"Authorization": f"Bearer {app['secret_key'][:-1]}!"}
    assert tables(server, app["public_key"], **wrong).status_code == 401

    text = done(run_process("app", "create", "Other", *server.place))
    *fields, said = text.splitlines()
    assert [line.split()[0] for line in fields] == ["app_id", "public_key", "secret_key"]
    assert said == "Store the secret key safely: it is not shown again."


def test_apps_are_listed_with_their_public_keys(server):
    app = new_app(server)
    listed = json.loads(done(on(server, "app", "list", "--json")))
    (found,) = [one for one in listed if one["app_id"] == app["app_id"]]
    assert (found["name"], found["public_keys"], found["deleted_at"]) == ("An app", [app["public_key"]], None)
    lines = done(on(server, "app", "list")).splitlines()
    assert lines[0].split() == ["app_id", "name", "created_at", "deleted_at", "public_keys"]
    assert any(app["app_id"] in line and app["public_key"] in line for line in lines)
    assert "secret" not in json.dumps(listed)


@pytest.mark.parametrize("name", ["", "x" * 101])
def test_a_name_that_no_app_may_have_is_wrong_usage(server, name):
    assert "1 to 100 characters" in refused(on(server, "app", "create", name), 2)


def test_a_name_in_no_encoding_is_refused_in_a_sentence(server):
    refused(run_process("app", "create", "\udcff", *server.place))


def test_an_app_can_be_given_an_owner(server):
    done(on(server, "user", "create", "owner@example.com", "--password-stdin", typed=PASSWORD))
    app = json.loads(done(on(server, "app", "create", "Owned", "--owner", "Owner@example.com", "--json")))
    user = sign_in(server, "owner@example.com").json()
    bearer = {"Authorization": f"Bearer {user['access_token']}"}
    body = {"title": "t", "schema": {}, "access_level": "Public"}
    url = f"{server.url}/v1/public/tables"
    answer = httpx.post(url, json=body, headers=bearer | {"X-Public-Key": app["public_key"]})
    assert answer.status_code == 201, answer.text
    assert "no console user x@y" in refused(on(server, "app", "create", "App", "--owner", "x@y"))


def test_a_public_key_for_one_origin(server):
    app = new_app(server)
    arguments = ("key", "create", "--app", app["app_id"], "--name", "web", "--origin", "https://a.example")
    key = json.loads(done(on(server, *arguments, "--json")))
    assert tables(server, key["public_key"], Origin="https://a.example").status_code == 200
    assert tables(server, key["public_key"], Origin="https://b.example").status_code == 403
    listed = json.loads(done(on(server, "key", "list", "--app", app["app_id"], "--public", "--json")))
    assert [(one["name"], one["prefix"], one["allowed_origins"]) for one in listed] == [
        ("first", app["public_key"], []),
        ("web", key["public_key"], ["https://a.example"]),
    ]
    assert "An origin must be" in refused(on(server, *arguments[:-1], "https://a.example/path"), 2)
    assert "only public keys" in refused(on(server, *arguments, "--secret"), 2)


def test_a_secret_key_shows_its_beginning_and_its_last_use(server):
    app = new_app(server)
    key = json.loads(done(on(server, "key", "create", "--app", app["app_id"], "--secret", "--json")))
    secret = {"Authorization": f"Bearer {key['secret_key']}"}

    def listed() -> dict:
        found = json.loads(done(on(server, "key", "list", "--app", app["app_id"], "--secret", "--json")))
        return {one["key_id"]: one for one in found}[key["key_id"]]

    before = listed()
    assert before["last_used_at"] is None
    assert key["secret_key"].startswith(before["prefix"])
    assert len(before["prefix"]) < len(key["secret_key"]) / 2
    assert tables(server, app["public_key"], **secret).status_code == 200
    assert listed()["last_used_at"] >= before["created_at"]


@pytest.mark.parametrize("kind", ["public", "secret"])
def test_a_revoked_key_stops_working_at_once_and_only_once(server, kind):
    app = new_app(server)
    key = json.loads(done(on(server, "key", "create", "--app", app["app_id"], f"--{kind}", "--json")))

    def use() -> httpx.Response:
        if kind == "public":
            return tables(server, key["public_key"])
        return tables(server, app["public_key"], Authorization=f"Bearer {key['secret_key']}")

    assert use().status_code == 200
    told = done(on(server, "key", "revoke", key["key_id"], "--app", app["app_id"]))
    assert told == f"The {kind} key {key['key_id']} is revoked: requests with it are answered 401.\n"
    # A public key is remembered by the processes of the server; they are told, and within a second have heard.
    answer = use() if kind == "secret" else wait_until(lambda: (found := use()).status_code != 200 and found, 1)
    assert_error(answer, 401, f"INVALID_{kind.upper()}_KEY")
    again = refused(on(server, "key", "revoke", key["key_id"], "--app", app["app_id"]))
    assert "no active key with this id" in again
    assert key["key_id"] not in done(on(server, "key", "list", "--app", app["app_id"]))


def test_another_apps_key_is_not_revoked(server):
    app, other = new_app(server), new_app(server)
    (key, _) = json.loads(done(on(server, "key", "list", "--app", other["app_id"], "--json")))
    refused(on(server, "key", "revoke", key["key_id"], "--app", app["app_id"]))
    assert tables(server, other["public_key"]).status_code == 200


@pytest.mark.parametrize("arguments", [("key", "list"), ("key", "create"), ("doctor",)])
def test_an_unknown_app_is_told(server, arguments):
    assert "does not exist" in refused(on(server, *arguments, "--app", str(uuid4())))
    assert "Invalid value" in refused(on(server, *arguments, "--app", "x"), 2)


def test_a_console_user_can_sign_in(server):
    text = done(on(server, "user", "create", "New@Example.com", "--password-stdin", typed=PASSWORD + "\nmore\n"))
    assert "new@example.com" in text
    assert PASSWORD not in text
    assert sign_in(server, "new@example.com").status_code == 200
    again = on(server, "user", "create", "new@example.com", "--password-stdin", typed=PASSWORD)
    assert "A console user with this e-mail address already exists." in refused(again)
    short = on(server, "user", "create", "short@example.com", "--password-stdin", typed="x")
    assert "password" in refused(short).lower()
    assert "not an e-mail address" in refused(on(server, "user", "create", "nobody", "--password-stdin"), 2)
    assert "no terminal" in refused(on(server, "user", "create", "no@example.com"), 2)


def test_a_link_resets_a_forgotten_password(server):
    done(on(server, "user", "create", "forgot@example.com", "--password-stdin", typed=PASSWORD))
    text = done(on(server, "user", "reset", "Forgot@example.com", "--base-url", "https://api.example.com"))
    token = re.search(r"link +https://api\.example\.com/setup/reset#(\S+)", text)[1]
    body = {"token": token, "password": "battery staple"}
    assert httpx.post(f"{server.url}/v1/auth/password-reset", json=body).status_code == 200
    assert sign_in(server, "forgot@example.com").status_code == 401
    assert "console user does not exist" in refused(on(server, "user", "reset", "nobody@example.com"))
    # Without the flag the link leads to the server that runs on the data directory.
    text = done(on(server, "user", "reset", "forgot@example.com"))
    assert f"{server.url}/setup/reset#" in text
    assert "--base-url" not in text


def test_a_console_user_is_deactivated_and_activated(server):
    done(on(server, "user", "create", "leaving@example.com", "--password-stdin", typed=PASSWORD))
    told = done(on(server, "user", "deactivate", "Leaving@example.com"))
    assert "leaving@example.com is deactivated: it cannot sign in" in told
    assert "pilotis user activate leaving@example.com" in told
    assert sign_in(server, "leaving@example.com").status_code == 403
    assert "deactivated" in refused(on(server, "user", "reset", "leaving@example.com"))
    told = done(on(server, "user", "activate", "leaving@example.com"))
    assert told == "leaving@example.com is active, and can sign in.\n"
    assert json.loads(done(on(server, "user", "activate", "leaving@example.com", "--json")))["is_active"] is True
    assert sign_in(server, "leaving@example.com").status_code == 200
    assert "no console user" in refused(on(server, "user", "deactivate", "nobody@example.com"))
    done(on(server, "app", "create", "Kept", "--owner", "leaving@example.com"))
    assert "last active owner" in refused(on(server, "user", "deactivate", "leaving@example.com"))


def test_values_are_printed_as_people_read_them(capsys):
    output.record({"active": True, "own": False, "at": None, "name": "", "tags": [True], "of": {"n": 1, "is": False}})
    printed = [line.split(None, 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert printed == ["yes", "no", "-", "-", "yes", "n: 1, is: no"]


def test_a_password_is_asked_for_twice_and_not_shown(server):
    ours, theirs = pty.openpty()
    arguments = ["user", "create", "typed@example.com", *server.place]
    with subprocess.Popen(
        [sys.executable, "-m", "pilotis", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        shown = b""
        for _ in range(2):
            while not shown.endswith(b": "):
                shown += os.read(ours, 1024)
            os.write(ours, PASSWORD.encode() + b"\n")
            shown += os.read(ours, 1024)
        while process.poll() is None:
            try:
                shown += os.read(ours, 1024)
            except OSError:  # the other side is closed
                break
        assert process.wait(PATIENCE) == 0, shown
    os.close(ours)
    assert PASSWORD.encode() not in shown
    assert sign_in(server, "typed@example.com").status_code == 200


def test_without_a_server_a_command_starts_the_database_and_stops_it(idle):
    created = json.loads(done(run_process("app", "create", "Alone", "--json", "--data-dir", str(idle))))
    assert running_address(idle / "postgres") is None
    assert created["app_id"] in done(run("app", "list", "--data-dir", str(idle)))
    assert not (idle / "postgres" / "postmaster.pid").exists()


def test_commands_wait_for_each_other(idle):
    with ThreadPoolExecutor() as threads:
        names = [f"app {number}" for number in range(3)]
        for process in threads.map(lambda name: run_process("app", "create", name, "--data-dir", str(idle)), names):
            done(process)
    listed = done(run("app", "list", "--data-dir", str(idle)))
    assert all(name in listed for name in names)


@pytest.mark.embedded("commands create the database in the data directory")
def test_a_server_after_a_command_keeps_what_the_command_made(tmp_path):
    done(run("init", "--data-dir", str(tmp_path / "data")))
    app = json.loads(done(run("app", "create", "Early", "--json", "--data-dir", str(tmp_path / "data"))))
    running = Server(tmp_path / "data").start()
    try:
        assert "public key" not in running.output, "there is an app already"
        assert f"pilotis app list --data-dir {tmp_path / 'data'}" in running.output
        assert tables(running, app["public_key"]).status_code == 200
    finally:
        running.stop()


@pytest.mark.parametrize(
    "arguments",
    [("app", "list"), ("app", "create", "Shop"), ("migrate",), ("user", "create", "a@b.c", "--password-stdin")],
)
def test_a_mistyped_data_directory_is_not_created(tmp_path, arguments):
    refusal = refused(run(*arguments, "--data-dir", str(tmp_path / "none"), typed=PASSWORD))
    assert "There is no database in" in refusal
    assert not (tmp_path / "none").exists()


@pytest.mark.embedded("it makes a URL out of its address")
def test_the_database_can_be_given_by_url(server):
    address = running_address(server.data_dir / "postgres")
    url = f"postgresql://{address.user}@/{address.database}?host={address.host}&port={address.port}"
    assert "first app" in done(run("app", "list", "--database-url", url))
    assert "first app" in done(run("app", "list", PILOTIS_DATABASE_URL=url))
    unreachable = run("app", "list", "--database-url", "postgresql://x:sesame@127.0.0.1:1/x")
    assert "cannot be reached" in refused(unreachable)
    assert "sesame" not in unreachable.stderr


def test_init_says_which_migrations_it_applied_and_migrate_finds_none_left(tmp_path):
    first = done(run("init", "--data-dir", str(tmp_path / "data")))
    assert "Applied 0001_initial.sql." in first
    for command_name in ("init", "migrate"):
        assert done(run(command_name, "--data-dir", str(tmp_path / "data"))) == "The database is up to date.\n"


def test_the_doctor_finds_a_server_well(server):
    text = done(run_process("doctor", *server.place))
    assert "No index has been built automatically so far." in text
    # Not every machine can confine functions.
    lines = [line for line in text.splitlines() if "Functions in" not in line]
    assert {line.split()[0] for line in lines} == {"ok"}, text
    assert len(lines) == len(text.splitlines()) - 2
    for part in ("data directory", "free", "PostgreSQL 1", "pg_trgm", "clocks", "migration", "master key"):
        assert part in text


async def test_the_doctor_names_postgresqls_real_version(server):
    async with connection_to(server) as connection:
        version = await connection.fetchval("show server_version")
    assert "." in version
    assert f"it is PostgreSQL {version}.\n" in done(on(server, "doctor"))


@pytest.mark.advisory("CVE-2025-48757")
def test_the_doctor_lists_what_a_public_key_can_do(server):
    app = new_app(server)
    headers = {"X-Public-Key": app["public_key"]}
    for level in ("Public", "AppMember", "Creator"):
        body = {"title": f"of {level}", "schema": {}, "access_level": level}
        assert httpx.post(f"{server.url}/v1/public/tables", json=body, headers=headers).status_code == 201
    for name, access in (("open", "Public"), ("members", "AppMember"), ("closed", "Secret")):
        done(on(server, "storage", "create", name, "--app", app["app_id"], "--access", access))
    text = done(on(server, "doctor", "--app", app["app_id"]))
    for sentence in (
        "Storage open: the public key alone can upload files, delete every file and read every file.",
        "Storage members: any member, and so anyone who signs up, can upload files, delete every file and read",
        "Storage closed: the secret key alone can upload files, delete every file and read every file.",
        "the public key alone can create, change and drop tables",
        "by browsers on any site",
        "Anybody can sign up as a member with a password or as a guest.",
        "Table of Public (Public): the public key alone can read, write and delete every row.",
        "Table of AppMember (AppMember): any member, and so anyone who signs up, can read",
        "Table of Creator (Creator): a member can read, write and delete only its own rows.",
    ):
        assert sentence in text
    done(on(server, "key", "create", "--app", app["app_id"], "--origin", "https://a.example"))
    assert "for browsers on https://a.example" in done(on(server, "doctor", "--app", app["app_id"]))


DEAD_JOB = """
    insert into pilotis.jobs (app_id, job_id, queue, kind, payload, state, run_at, attempts, error, ended_at)
    values ($1, $2, 'none', 'test.work', '{}', 'dead', now(), 6, '{"code": "ERROR", "message": "no luck"}', now())
"""


async def test_dead_jobs_are_listed_and_retried(server):
    assert done(on(server, "jobs", "list")) == "There are no dead jobs.\n"
    app_id, job_id = uuid4(), uuid4()
    async with connection_to(server) as connection:
        await connection.execute(DEAD_JOB, app_id, job_id)
        try:
            (job,) = json.loads(done(on(server, "jobs", "list", "--json")))
            assert (job["app_id"], job["job_id"], job["attempts"]) == (str(app_id), str(job_id), 6)
            assert job["error"] == {"code": "ERROR", "message": "no luck"}
            assert f"{job_id}  test.work of app {app_id}: ERROR after 6 attempts" in done(on(server, "jobs", "list"))
            assert "1 jobs of test.work are dead" in done(on(server, "doctor"))

            assert "dead job does not exist" in refused(on(server, "jobs", "retry", str(uuid4())))
            told = done(on(server, "jobs", "retry", str(job_id)))
            assert told == f"The job {job_id} (test.work) is due again; a running server starts it now.\n"
            waiting = "select (state, attempts) = ('waiting', 0) from pilotis.jobs where job_id = $1"
            assert await connection.fetchval(waiting, job_id)
            refused(on(server, "jobs", "retry", str(job_id)))

            await connection.execute(
                "update pilotis.jobs set run_at = now() - interval '1 hour' where job_id = $1", job_id
            )
            assert "no server works on the queue none" in done(on(server, "doctor"))
        finally:
            await connection.execute("delete from pilotis.jobs where job_id = $1", job_id)


def problems(directory: Path, **settings: str) -> str:
    findings = doctor.examine(Settings(data_dir=str(directory), **settings), None)
    assert all((finding.fix is None) == (finding.level is doctor.Level.OK) for finding in findings)
    sentences = [f"{finding.sentence} {finding.fix}" for finding in findings if finding.level is not doctor.Level.OK]
    return "\n".join(sentence for sentence in sentences if not sentence.startswith("Functions in"))


@pytest.mark.embedded("the doctor is to find it in the data directory")
def test_the_doctor_changes_nothing_and_finds_what_is_wrong(server, tmp_path, monkeypatch):
    assert problems(server.data_dir) == ""
    server.data_dir.chmod(0o755)
    assert "has mode 0755; other users have access" in problems(server.data_dir)
    server.data_dir.chmod(0o700)
    assert "is not the one this database was set up with" in problems(server.data_dir, master_key="ab" * 32)
    monkeypatch.setitem(doctor_database.EXTENSIONS, "no_such_extension", "flying")
    assert "no_such_extension is not available; flying will be missing" in problems(server.data_dir)
    monkeypatch.setattr(doctor_machine, "LEAST_FREE_BYTES", 1 << 60)
    assert "are free on its disk" in problems(server.data_dir)
    monkeypatch.setattr(inspection.time, "time", lambda: 1e9)
    assert "synchronise them" in problems(server.data_dir)


def test_the_doctor_of_nothing_and_of_an_unreachable_database(tmp_path):
    nothing = run("doctor", "--data-dir", str(tmp_path / "none"))
    assert nothing.returncode == 1
    assert "There is no database in" in nothing.stdout
    assert not (tmp_path / "none").exists()
    away = run("doctor", "--data-dir", str(tmp_path), "--database-url", "postgresql://127.0.0.1:1/x")
    assert away.returncode == 1
    assert "problem  The database cannot be reached" in away.stdout


def test_every_wrong_setting_is_told_at_once_and_nothing_is_made(tmp_path):
    arguments = ("--port", "eighty", "--workers", "0", "--data-dir", str(tmp_path / "data"))
    errors = refused(run_process("serve", *arguments, PILOTIS_COLOUR="red", PILOTIS_LIMITS_ROW_BYTES="x"), 2)
    assert sorted(line.split()[1].rstrip(":") for line in errors.splitlines()) == sorted(
        ["--port", "--workers", "PILOTIS_COLOUR", "PILOTIS_LIMITS_ROW_BYTES"]
    )
    assert not (tmp_path / "data").exists()
    assert "--colour" in refused(run_process("serve", "--colour", "red"), 2)


def test_a_file_of_settings_can_be_named(tmp_path):
    file = tmp_path / "other.toml"
    file.write_text(f'data_dir = "{tmp_path / "none"}"\n')
    assert str(tmp_path / "none") in refused(run("app", "list", "--config", str(file)))
    assert "cannot be read" in refused(run("app", "list", "--config", str(tmp_path / "absent")), 2)


def test_a_data_directory_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    assert "cannot be made" in refused(run_process("serve", "--data-dir", str(tmp_path / "file" / "data")))


def test_the_version():
    assert done(run_process("--version")) == done(run("version")) == f"pilotis {__version__}\n"


def commands(one: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, one
    if isinstance(one, click.Group):
        context = click.Context(one)
        for name in one.list_commands(context):
            yield from commands(one.get_command(context, name), (*path, name))


@pytest.mark.share(0.2)
@pytest.mark.parametrize(("path", "one"), [pytest.param(*each, id=" ".join(each[0])) for each in commands(command)])
def test_every_command_explains_itself_and_takes_the_shared_options(path, one):
    assert one.help
    # What `types` prints is the text of a program; `dev` and `test` show what other programs print.
    if not isinstance(one, click.Group) and path not in {("version",), ("types",), ("dev",), ("test",)}:
        options = {option for parameter in one.params for option in parameter.opts}
        # These commands speak to a server by HTTP, from a machine that may have none of its settings.
        if path[0] in {"deploy", "deployments", "promote", "rollback"}:
            wanted = {"--url", "--storage"}
        elif path in {("functions", "init"), ("new",)}:
            wanted = set()
        elif path[0] in {"login", "logout"}:
            wanted = {"--url"}
        elif path[0] in {"branch", "functions", "workflows", "pull", "diff", "push"}:
            wanted = {"--url", "--app"}
        else:
            wanted = {"--data-dir", "--database-url", "--config"}
        assert wanted | {"--json"} <= options
    assert all(parameter.help for parameter in one.params if parameter.name != "help")


VALUES = {
    click.UUID: "0192f3c4-7d5e-7000-8000-000000000000",
    click.IntRange: "1",
    click.DateTime: "2026-01-01",
    click.Path: __file__,
}


def given_to(parameter: click.Parameter) -> list[str]:
    """The words that give the parameter a value."""
    kind = parameter.type
    value = kind.choices[0] if isinstance(kind, click.Choice) else VALUES.get(kind) or VALUES.get(type(kind), "x")
    return [*parameter.opts[:1], value] if isinstance(parameter, click.Option) else [value]


REQUIRING = [
    pytest.param(path, one, id=" ".join(path))
    for path, one in commands(command)
    if any(parameter.required for parameter in one.params)
]


@pytest.mark.share(0.2)
@pytest.mark.parametrize(("path", "one"), REQUIRING)
def test_a_command_names_what_it_was_not_given(path, one):
    """Without an option or argument that it requires, each command says which, and does nothing."""
    options = [option for option in one.params if option.required and isinstance(option, click.Option)]
    arguments = [argument for argument in one.params if argument.required and isinstance(argument, click.Argument)]
    for missing in [*options, *arguments]:
        # An argument is known by its place, so the ones behind it are missing too.
        before = arguments[: arguments.index(missing)] if missing in arguments else arguments
        given = [word for one in [*options, *before] if one is not missing for word in given_to(one)]
        variables = {name: None for name in os.environ if name.startswith("PILOTIS_")}
        result = CliRunner().invoke(command, [*path, *given], env=variables)
        assert (result.exit_code, result.stdout) == (2, ""), (result.stderr, result.exception)
        name = missing.opts[0] if missing in options else missing.make_metavar(click.Context(one))
        assert f"Missing {missing.param_type_name} '{name}'" in result.stderr


@pytest.mark.parametrize("words", ["functions logs greet", "deploy . --storage site --public-key pk_x"])
def test_a_command_without_a_secret_key_says_where_it_is_read(words):
    remote.secret_key.cache_clear()
    result = CliRunner().invoke(command, words.split(), env={"PILOTIS_SECRET_KEY": None})
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Set PILOTIS_SECRET_KEY to a secret key of the app." in result.stderr


def test_help_is_printed():
    assert "serve" in done(run("--help"))
    assert "--base-url" in done(run("serve", "--help"))


def test_openapi_prints_the_document_without_a_server(tmp_path):
    printed = subprocess.run(
        [sys.executable, "-m", "pilotis", "openapi", "--data-dir", str(tmp_path / "none")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    document = json.loads(printed.stdout)
    assert document["openapi"].startswith("3.1")
    assert "/v1/public/tables/{table_id}/data" in document["paths"]
    assert not (tmp_path / "none").exists()
