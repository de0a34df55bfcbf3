"""`pilotis new`, `dev` and `test`: a project as files that runs on the developer's machine."""

import os
import re
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests import cluster_template, forked
from tests.commands import run
from tests.functions.support import require_sandboxes
from tests.support import GENEROUS, App
from tests.test_project import Command, command  # noqa: F401 - a fixture
from tests.waiting import PATIENCE, is_running, wait_until

NEEDS_NODE = pytest.mark.skipif(not shutil.which("node"), reason="there is no Node.js, which runs the project's tests")
pytestmark = pytest.mark.embedded("a project has a server of its own")


def create(folder: Path, *options: str) -> Path:
    """A new project, whose server starts on a copy of a database."""
    done = run("new", str(folder), *options)
    assert done.returncode == 0, done.stderr
    cluster_template.copy_to(folder / ".pilotis" / "data", {})
    return folder


class Running:
    """`pilotis dev` of a project."""

    def __init__(self, project: Path, *arguments: str, **environment: str) -> None:
        self.project = project
        self.file = project.parent / f"{project.name}.dev"
        home = {"XDG_CONFIG_HOME": str(project.parent / "config")}
        with self.file.open("w") as output:
            self.program = forked.Program(
                *["pilotis", "dev", "--port", "0", "--site-port", "0", *arguments],
                environment={**os.environ, **GENEROUS, **home, **environment},
                folder=project,
                stdout=output,
                stderr=output,
            )
        self.said("Ctrl-C ends all of it.")

    @property
    def output(self) -> str:
        return self.file.read_text()

    def said(self, text: str) -> str:
        """Wait for a line with a text, and return it."""
        wait_until(lambda: text in self.output or self.program.poll() is not None)
        assert text in self.output, self.output
        return next(line for line in self.output.splitlines() if text in line)

    def place(self, name: str) -> str:
        found = re.search(rf"^  {name} +(.*)$", self.output, re.MULTILINE)
        assert found, self.output
        return found[1]

    def stop(self, number: int = signal.SIGINT) -> int:
        self.program.send_signal(number)
        return self.program.wait(PATIENCE)


def dev_fails(project: Path, *arguments: str) -> str:
    """What `pilotis dev` prints, which cannot start."""
    done = forked.run("pilotis", "dev", *arguments, folder=project)
    assert done.returncode != 0
    return done.stderr


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The project of the template without a build."""
    require_sandboxes()
    started = Running(create(tmp_path_factory.mktemp("dev") / "shop"))
    yield started
    assert started.stop() == 0


@pytest_asyncio.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    made = await browser.new_page()
    made.set_default_timeout(PATIENCE * 1000)
    yield made
    await made.close()


def invoke(running: Running) -> str:
    answer = httpx.post(
        f"{running.place('Server')}/v1/public/functions/greet/invoke",
        headers={"X-Public-Key": running.place("Public key")},
        json={"payload": {"name": "Ada"}},
    )
    return answer.json()["result"]


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


async def test_a_page_shows_rows_and_what_is_saved(running: Running, page: Page):
    await page.goto(running.place("Site"))
    await expect(page.get_by_text("This row is from seed/notes.jsonl.")).to_be_visible()
    await page.get_by_role("button", name="Go on as a guest").click()
    await page.get_by_placeholder("What is to be done?").fill("Sweep <b>")
    await page.get_by_role("button", name="Add").click()
    note = page.get_by_role("listitem").filter(has_text="Sweep <b>")
    async with page.expect_response(lambda response: response.request.method == "PATCH"):
        await note.get_by_role("checkbox").check()
    # Another tab has it as well.
    await page.reload()
    await expect(note.get_by_role("checkbox")).to_be_checked()
    # Notes of others stay as they are, and the page says why.
    await page.get_by_role("listitem").filter(has_text="Change a file").get_by_role("checkbox").click()
    await expect(page.get_by_role("alert")).not_to_be_empty()
    edit(running.project / "functions" / "greet" / "index.ts", "Hello,", "Good morning,")
    running.said("greet: version 2")
    await page.get_by_role("button", name="Call a function").click()
    await expect(page.get_by_text("Good morning, Ada!")).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_placeholder("Name").fill("ada")
    await page.get_by_placeholder("Password").fill("correct horse battery")
    await page.get_by_role("button", name="Sign up").click()
    await expect(page.get_by_placeholder("What is to be done?")).to_be_visible()


def test_files_that_are_wrong_leave_the_last_good_state(running: Running):
    function = running.project / "functions" / "greet" / "index.ts"
    good = function.read_text()
    was = invoke(running)
    function.write_text("export default (")
    running.said("greet: SOURCE_INVALID")
    assert invoke(running) == was
    table = running.project / "tables" / "notes.yaml"
    text = table.read_text()
    table.write_text(text + "color: red\n")
    running.said("notes.yaml:12: a table has no field color.")
    table.write_text(text.replace("  done: boolean", "  done: boolean\n  due: date"))
    running.said("+ due")
    types = running.project / "pilotis-types.ts"
    wait_until(lambda: "due?:" in types.read_text())
    function.write_text(good.replace("ello", "i").replace("Good morning", "Hi"))
    wait_until(lambda: invoke(running) == "Hi, Ada!")


def test_functions_come_and_go(running: Running):
    more = running.project / "functions" / "more"
    shutil.copytree(running.project / "functions" / "greet", more)
    (more / "function.toml").write_text('name = "more"\nruntime = "javascript"\ninvoke_access = "Secret"\n')
    running.said("more: version")
    shutil.rmtree(more)
    running.said("- function more: drop")
    (running.project / "workflows").mkdir()
    flow = "name: daily\nsteps:\n  - {id: hello, step_type: function, function_id: greet}\n"
    (running.project / "workflows" / "daily.yaml").write_text(flow)
    running.said("+ workflow daily: create")
    # It has told what both sides are: a push finds nothing to do.
    home = {"XDG_CONFIG_HOME": str(running.project.parent / "config"), "PILOTIS_URL": running.place("Server")}
    app_id = running.place("Console").rpartition("/")[2]
    checked = run("diff", "--check", folder=running.project, PILOTIS_APP=app_id, **home)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_the_mailbox_and_the_console_are_told(running: Running):
    server = running.place("Server")
    email, password = running.place("Sign in").split(", ")
    signed_in = httpx.post(f"{server}/v1/auth/signin", json={"email": email, "password": password})
    assert signed_in.status_code == 200
    assert httpx.get(running.place("Mailbox")).status_code == 200
    app_id = running.place("Console").rpartition("/")[2]
    headers = {"Authorization": f"Bearer {signed_in.json()['access_token']}"}
    assert httpx.get(f"{server}/v1/apps/{app_id}/mail", headers=headers).json()["data"] == []
    private = running.project / ".pilotis"
    assert (private / ".gitignore").read_text() == "*\n"
    assert (private / "local.json").stat().st_mode & 0o077 == 0


def test_the_site_serves_its_folder_alone(running: Running):
    site = running.place("Site")
    told = httpx.get(f"{site}/pilotis-dev.json").json()
    assert told == {"url": running.place("Server"), "publicKey": running.place("Public key")}
    host, port = httpx.URL(site).host, httpx.URL(site).port
    for path in ("/../.pilotis/local.json", "/%2e%2e/.pilotis/local.json", "//etc/passwd"):
        # A client of HTTP would tidy the path.
        with socket.create_connection((host, port)) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert b"404" in connection.recv(100)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, id="SIGTERM", marks=pytest.mark.whole),
        pytest.param(signal.SIGHUP, id="SIGHUP", marks=pytest.mark.whole),
    ],
)
def test_all_that_was_started_ends(tmp_path: Path, number: int, request: pytest.FixtureRequest):
    project = create(tmp_path / "shop")
    # A site whose server has children, one of which ignores that it is to end.
    (project / "site.sh").write_text("trap '' TERM\nsleep 1000 &\necho $! $$ > pids\nwait\n")
    (project / ".pilotis.toml").write_text("[dev]\ncommand = \"sh -c 'sh site.sh & wait'\"\n")
    shutil.rmtree(project / "functions")
    running = Running(project)
    request.addfinalizer(running.stop)
    pids = [
        int(pid) for pid in wait_until(lambda: (project / "pids").exists() and (project / "pids").read_text().split())
    ]
    server = int((project / ".pilotis" / "data" / "pilotis.address").read_text().split()[0])
    assert all(is_running(pid) for pid in [*pids, server])
    assert "is already served at" in dev_fails(project, "--port", "0")
    assert running.stop(number) == 0
    wait_until(lambda: not any(is_running(pid) for pid in [*pids, server]))


def test_folders_that_are_removed(tmp_path: Path):
    running = Running(create(tmp_path / "shop"))
    shutil.rmtree(running.project / "tables")
    running.said("- notes: drop")
    # The server still writes into it.
    wait_until(lambda: shutil.rmtree(running.project, ignore_errors=True) or not running.project.exists())
    assert running.program.wait(PATIENCE) == 1
    assert f"{running.project} is not there any more." in running.output
    assert "Traceback" not in running.output


@NEEDS_NODE
def test_the_projects_tests(running: Running):
    home = {"XDG_CONFIG_HOME": str(running.project.parent / "config")}
    project = running.project
    done = run("test", folder=project, **home)
    # The function greets otherwise by now.
    assert done.returncode == 1
    program = "import os, sys; print({name for name in os.environ if 'PILOTIS' in name}); sys.exit(7)"
    assert run("test", "--", "python3", "-c", program, folder=project, **home).returncode == 7
    # Their app is deleted, and the project's is not.
    server = running.place("Server")
    email, password = running.place("Sign in").split(", ")
    user = httpx.post(f"{server}/v1/auth/signin", json={"email": email, "password": password}).json()
    apps = httpx.get(f"{server}/v1/apps", headers={"Authorization": f"Bearer {user['access_token']}"}).json()["data"]
    assert [app["name"] for app in apps if app["deleted_at"] is None] == ["shop"]
    assert "cannot be started" in run("test", "--", "no-such-program", folder=project, **home).stderr
    (project / "seed" / "notes.jsonl").write_text('{"text": "good"}\n{"text": 5}\n')
    assert "notes.jsonl:2: " in run("test", "--", "true", folder=project, **home).stderr


async def test_an_app_elsewhere_is_followed(command: Command, app: App):  # noqa: F811
    project = command.home / "project"
    assert run("new", str(project)).returncode == 0
    environment = {"XDG_CONFIG_HOME": str(command.home / "config"), "PILOTIS_APP": app.app_id}
    assert "--yes permits that" in dev_fails(project, "--url", "https://api.example.com")
    running = Running(project, "--url", app.server.url, **environment)
    async with app.client() as client:
        assert (await client.get("/v1/public/tables/notes/data")).json()["total_count"] == 2
        # Without permission nothing of the app's is dropped.
        (project / "tables" / "notes.yaml").unlink()
        running.said("This drops notes; --allow-drop permits it.")
        assert (await client.get("/v1/public/tables/notes")).status_code == 200
    assert not (project / ".pilotis" / "data").exists()
    assert running.stop() == 0


def test_a_folder_with_files_is_left_alone(tmp_path: Path):
    (tmp_path / "shop").mkdir()
    assert run("new", str(tmp_path / "shop"), "--json").returncode == 0
    (tmp_path / "shop" / "README.md").write_text("mine")
    assert "is there already" in run("new", str(tmp_path / "shop")).stderr
    assert (tmp_path / "shop" / "README.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("secret_key = 'sk'", "must not hold a secret key"),
        ("color = 'red'", "color is not one of"),
        ("[dev]\nrun = 'x'", "[dev] has a command"),
        ("test = 'x'", "[test] has a command"),
        ('[test]\ncommand = "\'"', "[test] command"),
        ("[", "not valid TOML"),
    ],
)
def test_settings_that_are_wrong(tmp_path: Path, text: str, complaint: str):
    (tmp_path / ".pilotis.toml").write_text(text)
    for name in ("dev", "test"):
        assert complaint in run(name, folder=tmp_path).stderr
