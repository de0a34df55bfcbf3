"""`pilotis pull`, `diff` and `push`: the tables, functions and workflows of an app as files."""

import json
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pilotis.cli import definitions
from pilotis.kit.definition_plan import Step, canonical, in_order_of_dropping, plan, written
from tests.commands import run_beside
from tests.conftest import PASSWORD
from tests.functions.support import Functions
from tests.support import App, plain_client

PEOPLE = """
title: people
access_level: AppMember
schema:
  name: {type: string, required: true, unique: true}
  boss: {type: uuid, references: {table: people}}
  team: {type: uuid, references: {table: teams, on_delete: cascade}}
rules:
  list: {$member: {}}
  read: {$exists: {table: teams, where: {id: {$row: team}, open: true, lead.name: Ada}}}
"""
TEAMS = """
title: teams
access_level: Public
schema:
  name: string
  open: bool
  lead: {type: uuid, references: {table: people}}
"""


def table(title: str, **columns: Any) -> dict[str, Any]:
    return canonical({"title": title, "schema": columns, "access_level": "Public"})


A, B, C = table("t"), table("t", x="int"), table("t", y="int")


@pytest.mark.parametrize(
    ("file", "server", "base", "kind"),
    [
        (A, None, None, "create"),
        (A, A, None, None),
        (A, B, None, "change"),
        (A, B, B, "change"),
        (A, B, A, "newer"),
        (A, B, C, "conflict"),
        (A, None, A, "gone"),
        (A, None, B, "conflict"),
        (None, A, None, "left"),
        (None, A, A, "drop"),
        (None, A, B, "conflict"),
        (A, A, B, None),
    ],
)
def test_who_has_changed_a_table(file, server, base, kind):
    named = [{} if one is None else {"t": one} for one in (file, server, base)]
    files, *others = named
    assert plan(files, {}, *others) == ([] if kind is None else [Step(kind, "t")])


def test_a_file_may_rename_a_table():
    files, server = {"new": table("new", x="int")}, {"old": table("old", x="int")}
    assert plan(files, {"new": "old"}, server, server) == [Step("change", "new", "old")]
    # Once it is done, what the title was says nothing.
    assert plan(files, {"new": "old"}, files, files) == []


def test_definitions_that_say_the_same_are_equal():
    short = {"title": "t", "access_level": "Public", "schema": {"a": "bool", "b": {"type": "string", "unique": True}}}
    long = {
        "title": "t",
        "access_level": "Public",
        "schema": {"a": {"type": "boolean", "required": False}, "b": "string"},
        "unique": [{"name": "b", "columns": ["b"], "ignore_case": False, "nulls": "distinct", "where": None}],
        "rules": None,
        "create_time": "2026-01-01",
    }
    assert canonical(short) == canonical(long)
    assert canonical(written(canonical(short))) == canonical(short)
    assert written(canonical(short))["unique"] == [{"columns": ["b"]}]


def test_a_table_is_dropped_before_those_to_which_it_refers():
    refers = {"type": "uuid", "references": {"table": "b"}}
    server = {"a": table("a", r=refers), "b": table("b"), "c": table("c", r={**refers, "references": {"table": "a"}})}
    assert in_order_of_dropping(["b", "a", "c"], server) == ["c", "a", "b"]


class Command:
    """The command line of the app's owner, signed in, in a project."""

    def __init__(self, app: App, home: Path) -> None:
        self.app, self.home = app, home
        self.tables = home / "tables"

    async def run(self, *arguments: str, typed: str = "") -> tuple[int, str, str]:
        environment = {
            "PILOTIS_URL": self.app.server.url,
            "PILOTIS_APP": self.app.app_id,
            "XDG_CONFIG_HOME": str(self.home / "config"),
        }
        done = await run_beside(*arguments, typed=typed, folder=self.home, **environment)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    async def done(self, *arguments: str, typed: str = "") -> str:
        status, output, error = await self.run(*arguments, typed=typed)
        assert status == 0, output + error
        return output

    async def fails(self, *arguments: str) -> str:
        status, _, error = await self.run(*arguments)
        assert status != 0
        return error

    def edit(self, name: str, old: str, new: str) -> None:
        file = self.tables / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))


@pytest.fixture
async def command(app: App, tmp_path: Path) -> Command:
    made = Command(app, tmp_path)
    headers = {"Authorization": f"Bearer {app.console['access_token']}"}
    async with plain_client(f"{app.server.url}/v1", **headers) as console:
        email = (await console.get("/auth/me")).json()["email"]
    await made.done("login", "--email", email, typed=PASSWORD)
    made.tables.mkdir()
    return made


async def definition(app: App, title: str) -> dict[str, Any]:
    async with app.client() as client:
        answer = await client.get(f"/v1/public/tables/{title}")
    return answer.json() if answer.status_code == 200 else {}


async def test_from_files_to_an_app_and_back(command: Command, app: App):
    (command.tables / "people.yaml").write_text(PEOPLE)
    (command.tables / "teams.yaml").write_text(TEAMS)
    assert "+ people: create" in await command.done("diff")
    assert "--yes" in await command.fails("push")
    # They refer to each other, and each to itself.
    assert "Applied 2 changes." in await command.done("push", "--yes")
    people = await definition(app, "people")
    assert people["has_rules"]
    assert people["schema"]["boss"]["references"]["table"] == "people"
    assert "There is nothing to change." in await command.done("push")
    await command.done("diff", "--check")
    # A second copy of the project.
    other = Command(app, command.home / "copy")
    other.home.mkdir()
    (other.home / "config").symlink_to(command.home / "config")
    await other.done("pull")
    assert {file.name for file in other.tables.iterdir()} == {"people.yaml", "teams.yaml"}
    for file in other.tables.iterdir():
        assert canonical(definitions.read(file).value) == canonical(definitions.read(command.tables / file.name).value)
    await other.done("diff", "--check")


async def test_changes_of_both_sides(command: Command, app: App):
    (command.tables / "teams.yaml").write_text(TEAMS.replace("  lead: {type: uuid, references: {table: people}}\n", ""))
    await command.done("push", "--yes")
    table_id = (await definition(app, "teams"))["id"]
    async with app.client() as client:
        await client.post(f"/v1/public/tables/{table_id}/data", json={"data": {"name": "red"}})
        await client.post(f"/v1/public/tables/{table_id}/columns", json={"name": "color", "data_type": "string"})
    # The app alone has changed: push leaves it, pull fetches it.
    assert "the app's is newer" in await command.done("push", "--yes")
    assert "color" in (await definition(app, "teams"))["schema"]
    assert "There is nothing to change." in await command.done("push")
    assert "Wrote" in await command.done("pull")
    assert "color: string" in (command.tables / "teams.yaml").read_text()
    # What does not fit, or would be lost, is said before.
    command.edit("teams.yaml", "name: string", "name: int")
    assert "~ name: 1 rows do not fit" in await command.done("diff")
    error = await command.fails("push", "--yes")
    assert "tables/teams.yaml:" in error
    command.edit("teams.yaml", "name: int", "name: string")
    command.edit("teams.yaml", "  color: string\n", "")
    assert "This drops teams.color" in await command.fails("push", "--yes")
    async with app.client() as client:
        await client.post(f"/v1/public/tables/{table_id}/columns", json={"name": "size", "data_type": "int"})
    assert "both sides have changed" in await command.fails("push", "--yes", "--allow-drop")
    assert "--force" in await command.fails("pull")
    assert "color: string" not in (command.tables / "teams.yaml").read_text()
    await command.done("pull", "--force")
    assert "size: int" in (command.tables / "teams.yaml").read_text()
    command.edit("teams.yaml", "title: teams", "title: groups\nwas: teams")
    assert "rename from teams" in await command.done("push", "--yes")
    assert (await definition(app, "groups"))["id"] == table_id


async def test_drops_and_strangers(command: Command, app: App):
    strange = await app.table({"x": "int"})
    for name in ("people", "teams"):
        (command.tables / f"{name}.yaml").write_text(PEOPLE if name == "people" else TEAMS)
    await command.done("push", "--yes")
    for file in command.tables.iterdir():
        file.unlink()
    assert "This drops people, teams" in await command.fails("push", "--yes")
    # They refer to each other.
    await command.done("push", "--yes", "--allow-drop")
    assert [await definition(app, title) for title in ("people", "teams")] == [{}, {}]
    assert (await definition(app, strange))["id"] == strange
    (command.tables / "teams.yaml").write_text("title: teams\naccess_level: Public\nschema: {name: string}\n")
    await command.done("push", "--yes")
    # Another one drops the table in the console.
    async with app.client() as client:
        assert (await client.delete("/v1/public/tables/teams")).status_code == 200
    assert "the app has dropped it" in await command.done("push", "--yes")
    assert await definition(app, "teams") == {}
    assert "Removed" in await command.done("pull")
    assert not (command.tables / "teams.yaml").exists()


GREET = "export default async (payload) => `Hello, ${payload.name}!`;\n"
WORKFLOW = """
name: daily report
schedule_cron: 30 2 * * *
steps:
  - {id: hello, step_type: function, function_id: greet, on_error: stop}
"""


def write_function(folder: Path, name: str = "greet", source: str = GREET, settings: str = "") -> Path:
    """A function with its test, which is not deployed."""
    place = folder / "functions" / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "function.toml").write_text(f'name = "{name}"\nruntime = "javascript"\n{settings}')
    (place / "index.js").write_text(source)
    (place / "index.test.js").write_text("unfinished")
    return place


async def test_functions_and_workflows(command: Command, app: App, functions: Functions):
    place = write_function(command.home, settings='invoke_access = "Secret"\n[egress]\nmode = "none"\n')
    (command.home / "workflows").mkdir()
    (command.home / "workflows" / "daily.yaml").write_text(WORKFLOW)
    planned = await command.done("diff")
    assert "+ function greet: create" in planned
    assert "+ workflow daily report: create" in planned
    assert "Applied 2 changes." in await command.done("push", "--yes")
    assert (await functions.call("greet", {"name": "Ada"}, app.secret_key)).json()["result"] == "Hello, Ada!"
    await command.done("diff", "--check")
    # Settings alone, the source alone.
    (place / "function.toml").write_text('name = "greet"\nruntime = "javascript"\ntimeout_seconds = 2\n')
    assert "~ function greet: change" in await command.done("push", "--yes")
    assert (await functions.call("greet", {"name": "Bea"})).json()["result"] == "Hello, Bea!"
    (place / "index.js").write_text(GREET.replace("Hello", "Hi"))
    await command.done("push", "--yes")
    assert (await functions.call("greet", {"name": "Bea"})).json()["result"] == "Hi, Bea!"
    assert "There is nothing to change." in await command.done("push", "--yes")
    # A second copy of the project, in which all is as in the first.
    other = Command(app, command.home / "copy")
    other.home.mkdir()
    (other.home / "config").symlink_to(command.home / "config")
    await other.done("pull")
    assert (other.home / "functions" / "greet" / "index.js").read_text() == GREET.replace("Hello", "Hi")
    assert not (other.home / "functions" / "greet" / "index.test.js").exists()
    assert definitions.read(other.home / "workflows" / "daily-report.yaml").value["steps"][0]["function_id"] == "greet"
    await other.done("diff", "--check")
    # Another one deploys: push leaves it, and both sides are a conflict.
    found = (await functions.console.get(functions.base)).json()["data"][0]
    assert (await functions.deploy(found["id"], {"index.js": GREET.replace("Hello", "Ho"), "more.js": ""})).is_success
    assert "the app's is newer" in await command.done("push", "--yes")
    (place / "index.js").write_text(GREET.replace("Hello", "Hey"))
    assert "both sides have changed" in await command.fails("push", "--yes")
    assert "--force" in await command.fails("pull")
    await command.done("pull", "--force")
    assert "Ho," in (place / "index.js").read_text()
    assert (place / "more.js").exists()
    assert (place / "index.test.js").exists()
    await command.done("diff", "--check")


async def test_functions_and_workflows_that_are_dropped(command: Command, app: App, functions: Functions):
    await functions.made("theirs", GREET)
    place = write_function(command.home)
    (command.home / "workflows").mkdir()
    workflow = command.home / "workflows" / "daily.yaml"
    workflow.write_text(WORKFLOW)
    await command.done("push", "--yes")
    shutil.rmtree(place)
    # The workflow calls it.
    assert "This drops greet" in await command.fails("push", "--yes")
    assert "FUNCTION_IN_USE" in await command.fails("push", "--yes", "--allow-drop")
    workflow.unlink()
    output = await command.done("push", "--yes", "--allow-drop")
    assert "- function greet: drop, with its versions and variables: they cannot be restored" in output
    assert [one["name"] for one in (await functions.console.get(functions.base)).json()["data"]] == ["theirs"]
    assert "There is nothing to change." in await command.done("push", "--yes")


async def test_wrong_functions_and_workflows_are_named_with_their_place(command: Command, functions: Functions):
    place = write_function(command.home)
    await command.done("push", "--yes")
    (place / "index.js").write_text("export default () => {")
    error = await command.fails("push", "--yes")
    assert "functions/greet: SOURCE_INVALID" in error
    # The last good state stays.
    assert (await functions.call("greet", {"name": "Ada"})).json()["result"] == "Hello, Ada!"
    (place / "index.js").unlink()
    assert "functions/greet has no files to deploy" in await command.fails("diff")
    write_function(command.home, settings='timeout = "1"\n')
    assert "a function has no setting timeout" in await command.fails("push", "--yes")
    (place / "function.toml").write_text('name = "greet"\nruntime = "python"\n')
    assert "a function keeps its runtime, javascript" in await command.fails("diff")
    write_function(command.home)
    other = write_function(command.home, "other")
    (other / "function.toml").write_text('name = "other"\nruntime = "cobol"\n')
    assert "there is no runtime cobol" in await command.fails("diff")
    shutil.rmtree(other)
    write_function(command.home, "twice", settings="").joinpath("function.toml").write_text(
        'name = "greet"\nruntime = "javascript"\n'
    )
    assert "has the name greet already" in await command.fails("diff")
    shutil.rmtree(command.home / "functions" / "twice")
    (command.home / "workflows").mkdir()
    (command.home / "workflows" / "bad.yaml").write_text(WORKFLOW.replace("greet", "nobody"))
    assert "workflows/bad.yaml:5: " in await command.fails("push", "--yes")
    (command.home / "workflows" / "bad.yaml").write_text(WORKFLOW + "color: red\n")
    assert "workflows/bad.yaml:6: a workflow has no field color." in await command.fails("push", "--yes")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("title: t\naccess_level: Public\nschema: {a: 5}", "schema.a must be a type"),
        ("title: t\naccess_level: Public\ncolumns: {}", "bad.yaml:3: a table has no field columns"),
        ("title: t\nschema: {}", "a table has a title and an access_level"),
        ("title: [t\n", "bad.yaml:"),
        ("title: t\naccess_level: Public\nunique: [a]\n", "unique must be a list of keys"),
        ("title: t\naccess_level: Public\nschema:\n  a: text\n", "bad.yaml:"),
    ],
)
async def test_a_wrong_file_is_named_with_its_line(command: Command, app: App, text: str, complaint: str):
    (command.tables / "bad.yaml").write_text(text)
    assert complaint in await command.fails("push", "--yes")
    async with app.client() as client:
        assert (await client.get("/v1/public/tables")).json()["tables"] == []


async def test_it_prints_json(command: Command):
    (command.tables / "t.yaml").write_text(f"title: t{uuid4()}\naccess_level: Public\nschema: {{}}\n")
    lines = [json.loads(line) for line in (await command.done("push", "--yes", "--json")).splitlines()]
    assert [line.get("step") for line in lines] == ["create", None]
    assert lines[-1] == {"applied": 1}


async def test_channels(command: Command, app: App):
    file = command.home / "channels.yaml"
    text = "channels:\n- pattern: room:{room}\n  listen: true\n  send: {$member: {}}\n- {pattern: news, listen: true}\n"
    file.write_text(text)
    assert "+ channels.yaml: create" in await command.done("diff")
    await command.done("push", "--yes")
    headers = {"Authorization": f"Bearer {app.console['access_token']}"}
    async with plain_client(f"{app.server.url}/v1/apps/{app.app_id}", **headers) as console:
        declared = (await console.get("/channels")).json()["channels"]
        assert [one["pattern"] for one in declared] == ["room:{room}", "news"]
        await command.done("diff", "--check")
        # Their order means something.
        await console.put("/channels", json={"channels": declared[::-1]})
        assert "channels.yaml: the app's is newer" in await command.done("diff")
        await command.done("pull")
        assert [one["pattern"] for one in definitions.read(file).value["channels"]] == ["news", "room:{room}"]
        for wrong in ("channels: 1\n", "rooms: []\n", "channels: [1]\n"):
            file.write_text(wrong)
            assert "channels.yaml:1: say `channels:`" in await command.fails("push", "--yes")
        file.write_text(text.replace("true", "sometimes", 1))
        assert "channels.yaml: " in await command.fails("push", "--yes")
        file.unlink()
        assert "--allow-drop" in await command.fails("push", "--yes")
        await command.done("push", "--yes", "--allow-drop")
        assert (await console.get("/channels")).json() == {"channels": []}


async def test_settings(command: Command, app: App):
    file = command.home / "settings.yaml"
    pages = "oauth: {login_redirect_uris: ['https://desk.example.com/']}\n"
    file.write_text(f"accounts: {{sign_up: closed}}\nteams: {{members_create: true}}\n{pages}")
    output = await command.done("push", "--yes")
    assert "~ setting accounts.sign_up: change" in output
    assert "~ setting teams.members_create: change" in output
    headers = {"Authorization": f"Bearer {app.console['access_token']}"}
    async with plain_client(f"{app.server.url}/v1/apps/{app.app_id}", **headers) as console:
        assert (await console.get("/account-settings")).json()["sign_up"] == "closed"
        assert (await console.get("/team-settings")).json() == {"members_create": True}
        assert (await console.get("/oauth/settings")).json()["login_redirect_uris"] == ["https://desk.example.com/"]
        await command.done("diff", "--check")
        # What the file does not name is nobody's here.
        await console.patch("/account-settings", json={"second_factor": "optional"})
        await command.done("diff", "--check")
        await console.put("/team-settings", json={"members_create": False})
        assert "setting teams.members_create: the app's is newer" in await command.done("diff")
        await command.done("pull")
        assert definitions.read(file).value["teams"] == {"members_create": False}
        # Of a setting with parts the file decides those that it names.
        await console.patch("/account-settings", json={"theme": {"accent": "#1c6a5b", "radius": 6}})
        file.write_text("accounts: {theme: {accent: '#7a1fa2', texts: {en: {footer: Desk Ltd}}}}\n")
        output = await command.done("push", "--yes")
        assert "~ setting accounts.theme.accent: change" in output
        assert "~ setting accounts.theme.texts: change" in output
        theme = (await console.get("/account-settings")).json()["theme"]
        assert (theme["accent"], theme["radius"], theme["texts"]) == ("#7a1fa2", 6, {"en": {"footer": "Desk Ltd"}})
        await console.patch("/account-settings", json={"theme": {**theme, "mode": "dark", "accent": "#ffd400"}})
        assert "setting accounts.theme.accent: the app's is newer" in await command.done("diff")
        await command.done("pull")
        assert definitions.read(file).value["accounts"]["theme"] == {"accent": "#ffd400", "texts": theme["texts"]}
        await command.done("diff", "--check")
    for wrong, complaint in (
        ("colors: {}\n", "settings.yaml:1: colors is not one of accounts"),
        ("teams: true\n", "settings.yaml:1: teams has names"),
        ("accounts: {sign_up: sometimes}\n", "settings.yaml: "),
        ("accounts: {sign_ups: open}\n", "settings.yaml: "),
        ("accounts: {theme: {accent: '#14213d'}}\n", "The nearest colour that has it is"),
    ):
        file.write_text(wrong)
        assert complaint in await command.fails("push", "--yes")


async def test_storages(command: Command, app: App):
    file = command.home / "storages.yaml"
    (command.tables / "teams.yaml").write_text(TEAMS.replace("\n  lead: {type: uuid, references: {table: people}}", ""))
    text = """
storages:
- name: pictures
  upload_access: AppMember
  allowed_mime_types: [image/*]
- name: papers
  quota_bytes: null
  rules:
    read: {$exists: {table: teams, where: {id: {$row: segment.0}, open: true}}}
"""
    file.write_text(text)
    assert "+ storage papers: create" in await command.done("diff")
    await command.done("push", "--yes")
    await command.done("diff", "--check")
    headers = {"Authorization": f"Bearer {app.console['access_token']}"}
    async with plain_client(f"{app.server.url}/v1/apps/{app.app_id}/storages", **headers) as console:
        first, second = (await console.get("/files")).json()["storages"]
        assert (first["upload_access"], first["quota_bytes"] is None, second["quota_bytes"]) == (
            "AppMember",
            False,
            None,
        )
        # A quota that the file does not name is the server's.
        await console.patch(f"/files/{first['id']}", json={"quota_bytes": 1000})
        await command.done("diff", "--check")
        await console.patch(f"/files/{first['id']}", json={"max_file_size": 10})
        await console.put(f"/files/{second['id']}/rules", json={"rules": {"read": True}})
        assert "storage papers: the app's is newer" in await command.done("diff")
        await command.done("pull")
        pulled = definitions.read(file).value["storages"]
        assert pulled[0] == {
            "name": "pictures",
            "upload_access": "AppMember",
            "allowed_mime_types": ["image/*"],
            "max_file_size": 10,
        }
        assert pulled[1] == {"name": "papers", "quota_bytes": None, "rules": {"read": True}}
        # What an app has and no file is written beside the others.
        await console.post("/files", json={"name": "loose"})
        await command.done("pull")
        assert [one["name"] for one in definitions.read(file).value["storages"]] == ["pictures", "papers", "loose"]
        # Rules go with the file's, and a table that they name is dropped after them.
        file.write_text(text.replace("AppMember", "Secret"))
        assert "- storage loose: drop" in await command.done("diff")
        assert "--allow-drop" in await command.fails("push", "--yes")
        await command.done("push", "--yes", "--allow-drop")
        changed = {one["name"]: one for one in (await console.get("/files")).json()["storages"]}
        assert changed.keys() == {"pictures", "papers"}
        assert (changed["pictures"]["upload_access"], changed["pictures"]["max_file_size"]) == ("Secret", None)
        for wrong, complaint in (
            ("storages: 1\n", "storages.yaml:1: say `storages:`"),
            ("storages: [1]\n", "storages.yaml:1: a storage has a name."),
            ("storages:\n- name: a\n  colour: red\n", "storages.yaml:3: a storage has no field colour."),
            ("storages:\n- name: a\n- name: a\n", "storages.yaml:3: there is a storage a already."),
            ("storages:\n- name: a\n  read_access: All\n", "storages.yaml:"),
            ("storages:\n- name: b\n- name: a\n  rules: {read: {colour: 1}}\n", "storages.yaml:4: "),
        ):
            file.write_text(wrong)
            assert complaint in await command.fails("push", "--yes", "--allow-drop"), complaint
        # One that has a file stays.
        async with app.client(app.secret_key) as client:
            sent = {"file_name": "a.txt", "file_size": 1, "mime_type": "image/png"}
            storage = "/v1/public/storages/files/pictures"
            permit = (await client.post(f"{storage}/presigned-url", json=sent)).json()
            await client.put(permit["upload_url"], content=b"x", headers=permit["headers"])
            done = await client.post(f"{storage}/complete-upload", json={"file_id": permit["file_id"]})
            assert done.status_code == 200, done.text
        file.unlink()
        shutil.rmtree(command.tables)
        assert "storage pictures: " in await command.fails("push", "--yes", "--allow-drop")
