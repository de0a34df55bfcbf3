"""Workflows: `pilotis login` and `pilotis workflows`, as a person runs them."""

import asyncio
import json
import stat
from itertools import pairwise
from pathlib import Path

import pytest

from pilotis.cli import definitions
from pilotis.serve.errors import CommandError
from tests.commands import run_beside
from tests.conftest import PASSWORD
from tests.functions.support import Functions
from tests.support import plain_client
from tests.waiting import until
from tests.workflows.support import Workflows

ORDER = """
name: order-received
description: Adds the tax
steps:
  - id: price
    step_type: function
    function_id: price
    input_mapping:
      total: $.input.total
  - id: is-large
    step_type: condition
    condition: {$.steps.price.output.total: {$gte: 100}}
    on_true: [invoice]
  - id: invoice
    step_type: merge
    input_mapping:
      amount: $.steps.price.output.total
      note: "no"
"""
PRICE = "export default (p) => { console.log('priced', p.total); return { total: p.total } }"

# Each list has the one before nine times.
BOMB = "a: &a [0,0,0,0,0,0,0,0,0]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n" for before, name in pairwise("abcdefg")
)


class Command:
    """The command line of a person with a home directory of its own."""

    def __init__(self, workflows: Workflows, home: Path) -> None:
        self.app = workflows.app
        self.home = home

    @property
    def credentials(self) -> Path:
        return self.home / "pilotis" / "credentials.json"

    async def run(self, *arguments: str, typed: str = "") -> tuple[int, str, str]:
        environment = {
            "PILOTIS_URL": self.app.server.url,
            "PILOTIS_APP": self.app.app_id,
            "XDG_CONFIG_HOME": str(self.home),
        }
        done = await run_beside(*arguments, typed=typed, folder=self.home, **environment)
        return done.returncode, done.stdout, done.stderr

    async def done(self, *arguments: str, typed: str = "") -> str:
        status, output, error = await self.run(*arguments, typed=typed)
        assert status == 0, output + error
        return output

    async def refused(self, *arguments: str, typed: str = "") -> str:
        status, _, error = await self.run(*arguments, typed=typed)
        assert status == 1
        assert "Traceback" not in error
        return error


async def signed_in(workflows: Workflows, home: Path) -> Command:
    """Return the command line of the app's owner, signed in."""
    made = Command(workflows, home)
    email = (await workflows.console.get("/v1/auth/me")).json()["email"]
    assert email in await made.done("login", "--email", email, typed=PASSWORD)
    return made


@pytest.fixture
async def command(workflows: Workflows, tmp_path: Path) -> Command:
    return await signed_in(workflows, tmp_path)


async def test_from_a_file_to_a_followed_execution(functions: Functions, workflows: Workflows, command: Command):
    await functions.made("price", PRICE)
    (command.home / "order.yaml").write_text(ORDER)
    assert await command.done("workflows", "deploy", "order.yaml") == "order-received version 1 is deployed.\n"
    shown = await command.done("workflows", "show", "order-received")
    assert "function_id: price" in shown
    (command.home / "again.yaml").write_text(shown)
    assert await command.done("workflows", "deploy", "again.yaml") == "order-received version 2 is deployed.\n"
    first, second = [
        json.loads(await command.done("workflows", "show", "order-received", "--version", number, "--json"))
        for number in ("1", "2")
    ]
    assert first["steps"] == second["steps"]
    assert first["steps"][2]["input_mapping"]["note"] == "no"
    output = await command.done("workflows", "run", "order-received", "--data", '{"total": 120}', "--follow")
    execution_id, *lines = output.splitlines()
    kinds = [line.split()[1] for line in lines]
    assert [kinds[0], kinds[-1]] == ["execution.created", "execution.completed"]
    assert any(line.endswith("price  priced 120") for line in lines), output
    assert lines[-1].endswith('{"amount": 120, "note": "no"}')
    assert (await command.done("workflows", "logs", "order-received")).splitlines() == lines
    assert (await command.done("workflows", "executions", "order-received")).startswith(f"{execution_id}  ")
    assert "version 2, last execution completed" in await command.done("workflows", "list")
    again = await command.done("workflows", "replay", "order-received", execution_id, "--follow", "--json")
    events = [json.loads(line) for line in again.splitlines()]
    assert (events[-1]["event"], events[-1]["output"]) == ("execution.completed", {"amount": 120, "note": "no"})
    await command.done("workflows", "delete", "order-received")
    assert "has no workflow order-received" in await command.refused("workflows", "run", "order-received")


async def test_a_trigger_url_is_printed_rotated_and_deleted(workflows: Workflows, command: Command):
    await workflows.made([{"step_type": "merge"}])
    url = (await command.done("workflows", "trigger", "flow")).strip()
    assert await command.done("workflows", "trigger", "flow") == f"{url}\n"
    rotated = (await command.done("workflows", "trigger", "flow", "--rotate", "--grace", "0")).strip()
    async with plain_client("") as client:
        assert (await client.post(url)).status_code == 404
        assert (await client.post(rotated)).status_code == 202
        assert await command.done("workflows", "pause", "flow") == "flow is inactive.\n"
        assert (await client.post(rotated)).status_code == 404
        assert await command.done("workflows", "resume", "flow") == "flow is active.\n"
        assert (await client.post(rotated)).status_code == 202
        assert "is deleted" in await command.done("workflows", "trigger", "flow", "--delete")
        assert (await client.post(rotated)).status_code == 404


async def test_an_agents_tools_are_shown_by_name(functions: Functions, workflows: Workflows, command: Command):
    await functions.made("price", PRICE)
    config = {"model": "small", "tools": [{"function_id": "price"}]}
    await workflows.made([{"step_type": "agent", "id": "ask", "config": config}])
    shown = await command.done("workflows", "show", "flow")
    assert "function_id: price" in shown
    (command.home / "again.yaml").write_text(shown)
    assert "version 2" in await command.done("workflows", "deploy", "again.yaml")


async def test_a_running_execution_is_shown_and_cancelled(functions: Functions, workflows: Workflows, command: Command):
    await functions.made("sleeps", "export default () => new Promise(done => setTimeout(done, 60_000))")
    workflow_id = await workflows.made([{"step_type": "function", "id": "a", "function_id": "sleeps"}], name="slow")
    execution_id = (await command.done("workflows", "run", "slow")).strip()
    await workflows.reached(workflow_id, execution_id, "running")

    async def begun() -> bool:
        return "step.started" in await command.done("workflows", "logs", "slow", execution_id)

    await until(begun)
    following = asyncio.create_task(command.run("workflows", "logs", "slow", "--follow"))
    assert await command.done("workflows", "cancel", "slow", execution_id) == f"{execution_id} is cancelled.\n"
    status, output, _ = await following
    assert status == 1
    assert output.splitlines()[-1].split()[1] == "execution.cancelled"
    assert "EXECUTION_FINISHED" in await command.refused("workflows", "cancel", "slow", execution_id)


async def test_an_error_names_the_line(workflows: Workflows, command: Command):
    (command.home / "bad.yaml").write_text(ORDER)
    for arguments in (["validate", "bad.yaml"], ["deploy", "bad.yaml"]):
        error = await command.refused("workflows", *arguments)
        assert error == "pilotis: bad.yaml:7: steps[0].function_id: the app has no function price.\n"
    (command.home / "bad.yaml").write_text("name: x\nsteps:\n  - step_type: merge\n    oder: 1\n")
    assert (await command.refused("workflows", "deploy", "bad.yaml")).startswith("pilotis: bad.yaml:4: ")
    (command.home / "bad.json").write_text(
        '{"name": "x",\n\t"steps": [\n\t\t{"step_type": "merge",\n\t\t"mode": "x"}]}'
    )
    assert (await command.refused("workflows", "deploy", "bad.json")).startswith("pilotis: bad.json:4: ")
    (command.home / "nightly.yaml").write_text("name: nightly\nschedule_cron: '@daily'\n")
    output = await command.done("workflows", "validate", "nightly.yaml")
    assert [line.split("T")[1] for line in output.splitlines()[1:]] == ["00:00:00.000Z"] * 5


async def test_a_session_is_private_renewed_and_ended(workflows: Workflows, command: Command):
    assert stat.S_IMODE(command.credentials.stat().st_mode) == 0o600
    stored = json.loads(command.credentials.read_text())
    url = command.app.server.url
    before = stored[url]["refresh_token"]
    stored[url]["access_token"] = "expired"
    command.credentials.write_text(json.dumps(stored))
    assert {await answer for answer in [command.done("workflows", "list"), command.done("workflows", "list")]} == {""}
    renewed = json.loads(command.credentials.read_text())[url]
    assert renewed["refresh_token"] != before
    await command.done("logout")
    assert "run `pilotis login" in await command.refused("workflows", "list")
    stored[url] = renewed | {"access_token": "expired"}
    command.credentials.write_text(json.dumps(stored))
    assert "The session has ended" in await command.refused("workflows", "list")
    assert "pilotis: " in await command.refused("login", "--email", "you@example.com", typed="wrong password")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: x\n\tsteps: []", "2: not valid YAML"),
        ("name: x\nname: y", "2: the field name is there twice"),
        ("name: !!python/object/apply:os.system [ls]", "1: the tag"),
        ("a: &a {b: 1}\nc:\n  <<: *a", "3: merge keys"),
        ("a: &a\n  - *a", "not valid YAML: found recursive|more than 50 levels"),
        ("- name: x", "1: a definition is expected"),
        ("", "1: a definition is expected"),
        ("[1]: 2", "1: a field's name is a text"),
        ("a: " + "[" * 2000, "1: nested too deep|not valid YAML"),
        (BOMB, "more than 50000 values"),
    ],
    ids=["tab", "twice", "tag", "merge", "recursive", "list", "empty", "key", "nested", "bomb"],
)
def test_what_is_no_definition(tmp_path: Path, text: str, problem: str):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(CommandError, match=problem):
        definitions.read(tmp_path / "a.yaml")


def test_values_are_those_of_json(tmp_path: Path):
    text = "a: [1, -2, 1.5, 1e3, true, ~, no, 2026-01-01, 0x10, '1', \"\\u00e9\"]\nb: &b {c: null}\nd: *b\n"
    (tmp_path / "a.yaml").write_text(text)
    value = definitions.read(tmp_path / "a.yaml").value
    assert value == {
        "a": [1, -2, 1.5, 1000.0, True, None, "no", "2026-01-01", "0x10", "1", "é"],
        "b": {"c": None},
        "d": {"c": None},
    }
    again = value | {"text": ["1e3", "null", "", "a: b", "# no", "two\nlines\n", "tab\t", " x ", "\x1b", "'", "@daily"]}
    (tmp_path / "b.yaml").write_text(definitions.dump(again))
    assert definitions.read(tmp_path / "b.yaml").value == again
    (tmp_path / "c.json").write_text(json.dumps(again))
    assert definitions.read(tmp_path / "c.json").value == again
