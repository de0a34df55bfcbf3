"""`pilotis-client`: both sides do what the cases of `cases.json` say, and what a bad network needs."""

import asyncio
import inspect
import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import httpx
import pytest

from tests.clients.test_client import CASES, given
from tests.console import set_limits
from tests.mail.world import PASSWORD
from tests.realtime.test_channels import declare
from tests.security.test_accounts import guessed
from tests.support import App
from tests.waiting import PATIENCE

FOLDER = Path(__file__).parents[2] / "clients" / "python"
sys.path.append(str(FOLDER / "src"))

from pilotis_client import ApiError, AsyncClient, ChannelEvent, Client, MemoryStorage, RowReference, inc  # noqa: E402

# How many arguments of a method are positional; an object after them has options by name.
POSITIONAL = {"signUp": 0, "signIn": 0, "promote": 0, "get": 1, "page": 0, "search": 1, "upload": 1, "list": 0}


def at(value: Any, path: str) -> Any:
    for name in path.split("."):
        if name == "length":
            value = len(value)
        elif isinstance(value, list):
            value = value[int(name)]
        elif isinstance(value, dict):
            value = value.get(name)
        else:
            value = getattr(value, name) if hasattr(value, name) else value.more[name]
    return value


def filled(value: Any, saved: dict[str, Any]) -> Any:
    if isinstance(value, str) and value.startswith("$") and value[1:].partition(".")[0] in saved:
        return at(saved, value[1:])
    if isinstance(value, dict):
        if value.keys() == {"$ref"}:
            return RowReference(value["$ref"])
        return {name: filled(item, saved) for name, item in value.items()}
    return [filled(item, saved) for item in value] if isinstance(value, list) else value


def snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


async def waited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def called(client: Any, step: dict[str, Any], saved: dict[str, Any]) -> Any:
    """The result of a step, whether the client is synchronous or not."""
    value, calls = client, filled(step["do"], saved)
    for name, *values in calls:
        if name == "collect":
            return [row async for row in value] if hasattr(value, "__aiter__") else list(value)
        if "operations" in step:

            def collect(operations: Any) -> None:
                for kind, *rest in filled(step["operations"], saved):
                    getattr(operations, kind)(*rest)

            values = [collect]
        options: dict[str, Any] = {}
        is_update_of_member = name == "update" and calls[0][0] == "members"
        positional = 0 if is_update_of_member else POSITIONAL.get(name, len(values))
        if len(values) > positional and isinstance(values[-1], dict):
            options = {snake(option): item for option, item in values[-1].items()}
            values = values[:-1]
        part = getattr(value, snake(name))
        value = await waited(part(*values, **options)) if callable(part) else part
    return value


async def until_shown(shown: Any, step: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Read what a live row shows until it is what the step says."""
    async with asyncio.timeout(PATIENCE):
        while True:
            row = await waited(anext(shown) if hasattr(shown, "__anext__") else next(shown))
            if row is step["is"] if "is" in step else row and all(at(row, path) == it for path, it in wanted.items()):
                return


async def run_cases(make: Any, told: dict[str, Any]) -> None:
    for case in CASES:
        saved = {**told["saved"], "login": f"python {uuid4()}"}
        client = make()
        for number, step in enumerate(case["steps"], 1):
            place = f"{case['name']}, step {number}"
            if "live" in step:
                (_, table), (_, row_id) = filled(step["do"], saved)
                saved[step["live"]] = client.rows(table).live_row(row_id)
                continue
            if "until" in step:
                await until_shown(saved[step["until"]], step, filled(step.get("expect", {}), saved))
                continue
            if "error" in step:
                with pytest.raises(ApiError) as raised:
                    await called(client, step, saved)
                assert raised.value.code == step["error"], place
                continue
            found = await called(client, step, saved)
            if "is" in step:
                assert found == step["is"], place
            if "text" in step:
                assert found.decode() == step["text"], place
            for path, wanted in step.get("expect", {}).items():
                assert at(found, path) == filled(wanted, saved), f"{place}: {path}"
            if "save" in step:
                saved[step["save"]] = found
        await waited(client.close())


async def test_the_cases_asynchronously(app: App):
    told = await given(app, "async")
    await run_cases(lambda: AsyncClient(app.server.url, public_key=app.public_key), told)


async def test_the_cases_synchronously(app: App):
    told = await given(app, "sync")
    make = lambda: Client(app.server.url, public_key=app.public_key)  # noqa: E731
    await asyncio.to_thread(lambda: asyncio.run(run_cases(make, told)))


def test_the_synchronous_client_is_the_asynchronous_one():
    done = subprocess.run([sys.executable, FOLDER / "generate.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_needs_httpx_alone():
    """In an environment without anything else, and all of it is typed."""
    imported = {
        name.split(".")[0]
        for file in (FOLDER / "src").rglob("*.py")
        for name in re.findall(r"^\s*(?:import|from) ([\w.]+)", file.read_text(), re.MULTILINE)
    }
    assert imported - sys.stdlib_module_names == {"httpx", "pilotis_client"}
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file=", FOLDER / "src"]
    done = subprocess.run(mypy, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


class Weather(httpx.AsyncHTTPTransport):
    """Loses the answers of some requests, or answers something else."""

    def __init__(self, *faults: str | int | None) -> None:
        super().__init__()
        self.faults, self.sent = list(faults), list[str]()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request.url.path)
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, int):
            return httpx.Response(fault, headers={"Retry-After": "0"}, json={"code": "UNAVAILABLE", "message": "Busy."})
        response = await super().handle_async_request(request)
        if fault == "lose":
            await response.aread()
            raise httpx.ReadError("cut")
        return response


def weather(app: App, *faults: str | int | None) -> tuple[AsyncClient, Weather]:
    transport = Weather(*faults)
    return AsyncClient(app.server.url, public_key=app.public_key, transport=transport), transport


async def test_what_got_no_answer_happens_once(app: App):
    table = await app.table({"n": "int"})
    client, _ = weather(app, "lose", "lose", None, "lose", "lose", "lose")
    async with client:
        rows = client.rows(table)
        row = await rows.create({"n": 1})
        assert await rows.all().count() == 1
        assert (await rows.update(row, {"n": inc(1)})).data == {"n": 2}
        await client.transaction(lambda t: t.update(table, row.id, {"n": inc(1)}))
        await rows.delete(row.id)
        assert await rows.all().count() == 0


async def test_changes_are_told_also_after_a_lost_connection(app: App):
    table = await app.table({"n": "int", "state": "string"})
    row = await app.row(table, {"n": 1, "state": "open"})

    class Cut(httpx.AsyncHTTPTransport):
        """Keeps the streams that were opened, so that they can be cut."""

        streams: ClassVar[list[httpx.Response]] = []

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await super().handle_async_request(request)
            if request.url.path.endswith("/realtime"):
                self.streams.append(response)
            return response

    async with AsyncClient(app.server.url, public_key=app.public_key, transport=Cut()) as client:
        rows = client.rows(table)
        live = rows.where(state="open").live()
        assert (await anext(live)).type == "reset"
        await rows.update(row["id"], {"n": 2})
        change = await anext(live)
        assert (change.type, change.row.data["n"]) == ("update", 2)
        await Cut.streams[0].aclose()
        await rows.update(row["id"], {"state": "done"})
        change = await anext(live)
        assert (change.type, change.id, change.row) == ("leave", row["id"], None)
        assert len(Cut.streams) == 2
        await live.aclose()
        with pytest.raises(ApiError, match="UNKNOWN_COLUMN"):
            await anext(rows.where(none=1).live())
        with pytest.raises(ApiError, match="CHANNEL_DENIED"):
            await client.channel("none").send("x")

    def listen() -> str:
        with Client(app.server.url, public_key=app.public_key) as client:
            return next(client.rows(table).all().live()).type

    assert await asyncio.to_thread(listen) == "reset"


async def test_lists_that_stay_true(app: App):
    table = await app.table({"n": "int", "state": "string"})
    rows = [await app.row(table, {"n": n, "state": "open"}) for n in (1, 2, 3)]

    async def until_shown(lists: Any, wanted: tuple[list[int], int]) -> None:
        async with asyncio.timeout(PATIENCE):
            async for page in lists:
                if ([row.data["n"] for row in page.rows], page.total) == wanted:
                    return

    async with AsyncClient(app.server.url, public_key=app.public_key) as client:
        opened = client.rows(table).where(state="open")
        every, newest = opened.live_rows(), opened.order_by("n", "desc").limit(2).live_rows()
        await until_shown(every, ([1, 2, 3], 3))
        await until_shown(newest, ([3, 2], 3))
        await client.rows(table).update(rows[1]["id"], {"n": 9})
        await until_shown(every, ([1, 9, 3], 3))
        await until_shown(newest, ([9, 3], 3))
        await client.rows(table).create({"n": 0, "state": "open"})
        await client.rows(table).delete(rows[0]["id"])
        await client.rows(table).update(rows[2]["id"], {"state": "done"})
        await until_shown(every, ([9, 0], 2))
        await until_shown(newest, ([9, 0], 2))
        for lists in (every, newest):
            await lists.aclose()


async def test_a_channel_and_who_is_there(app: App):
    room = {"pattern": "room:{room}", "listen": True, "send": True, "presence": True}
    assert (await declare(app, room)).status_code == 200
    async with (
        AsyncClient(app.server.url, public_key=app.public_key) as client,
        AsyncClient(app.server.url, public_key=app.public_key) as other,
        asyncio.timeout(PATIENCE),
    ):
        listening = client.channel("room:1").listen()
        assert (await anext(listening)) == ChannelEvent("presence", present=[], count=0)
        present = other.channel("room:1").listen({"at": 1})
        first = await anext(present)
        told = await anext(listening)
        assert (told.type, told.count, [one["state"] for one in told.present]) == ("presence", 1, [{"at": 1}])
        assert first.type == "presence"
        sent = await other.channel("room:1").send("stroke", {"x": 1})
        message = await anext(listening)
        assert (message.type, message.event, message.payload, message.id) == ("message", "stroke", {"x": 1}, sent)
        await present.aclose()
        assert (await anext(listening)).count == 0
        await listening.aclose()
        with pytest.raises(ApiError, match="CHANNEL_DENIED"):
            await anext(client.channel("none").listen())


async def test_a_server_of_an_older_version(app: App):
    """A route that it lacks is told apart from what is not there, and from a path that the caller has chosen."""
    table = await app.table({"n": "int"})

    class Older(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            request.url = request.url.copy_with(path=request.url.path.replace("/query", "/no-such-route"))
            return await super().handle_async_request(request)

    async with AsyncClient(app.server.url, public_key=app.public_key, transport=Older()) as client:
        with pytest.raises(ApiError, match=r"of version .* has no POST /v1/public/tables/.*/data/query") as raised:
            await client.rows(table).all().run()
        assert raised.value.code == "NOT_SUPPORTED_BY_SERVER"
        with pytest.raises(ApiError, match="ROW_NOT_FOUND"):
            await client.rows(table).get(str(uuid4()))
        with pytest.raises(ApiError, match=r"^NOT_FOUND"):
            await client.request("GET", "/v1/public/mistyped")


async def test_a_program_beside_the_server_acts_for_its_caller(app: App):
    async with (
        AsyncClient(app.server.url, public_key=app.public_key) as member,
        AsyncClient(app.server.url, public_key=app.public_key) as program,
    ):
        session = await member.members.guest()
        headers = {"Authorization": f"Bearer {session['access_token']}"}
        found = await program.request("GET", "/v1/public/app-members/me", headers=headers)
        assert found["member_id"] == session["member_id"]
        with pytest.raises(ApiError, match="INVALID_TOKEN"):
            await program.request("GET", "/v1/public/app-members/me", headers={"Authorization": "Bearer wrong"})


async def test_a_busy_server_is_asked_again_but_not_for_ever(app: App):
    client, transport = weather(app, 503, 429, 502)
    async with client:
        await client.stats()
        assert len(transport.sent) == 4
        transport.faults = [503] * 9
        with pytest.raises(ApiError, match="UNAVAILABLE"):
            await client.stats()
        assert len(transport.sent) == 8
    with Client("http://127.0.0.1:9", public_key="pk_", retries=0) as nobody, pytest.raises(ApiError, match="NETWORK"):
        nobody.stats()


async def test_a_session_is_renewed_once_and_survives_a_lost_pair(app: App):
    await set_limits(app, refresh_retry_seconds=0)
    storage = MemoryStorage()
    transport = Weather()
    async with AsyncClient(app.server.url, public_key=app.public_key, storage=storage, transport=transport) as client:
        guest = await client.members.guest()
        client.members.set_session({**guest, "access_token": "x.y.z"})
        transport.sent.clear()
        transport.faults = ["lose"]
        members = await asyncio.gather(*(client.members.me() for _ in range(10)))
        assert {member["member_id"] for member in members} == {guest["member_id"]}
        # Once without an answer, and once with the same pair.
        assert transport.sent.count("/v1/auth/re-issue") == 2
        session = client.members.session()
        await client.members.sign_out()
        client.members.set_session(session)
        with pytest.raises(ApiError, match="SESSION_ENDED"):
            await client.members.me()
        assert client.members.session() is None


async def test_a_device_of_a_member_needs_no_puzzle_while_others_guess(app: App):
    """The tokens of those who have signed in before are sent along, and outlive the session."""
    storage = MemoryStorage()
    people = ["ada", "bob"]
    async with AsyncClient(app.server.url, public_key=app.public_key, storage=storage) as client:
        for name in people:
            await client.members.sign_up(login_id=name, password=PASSWORD)
            await client.members.sign_in(login_id=name, password=PASSWORD)
            await client.members.sign_out()
        for name in people:
            await guessed(app, name)
        async with AsyncClient(app.server.url, public_key=app.public_key) as elsewhere:
            with pytest.raises(ApiError, match="CHALLENGE_REQUIRED"):
                await elsewhere.members.sign_in(login_id="ada", password=PASSWORD)
        for name in people:
            assert (await client.members.sign_in(login_id=name, password=PASSWORD))["member_id"]
    with Client(app.server.url, public_key=app.public_key, storage=storage) as same:
        assert same.members.sign_in(login_id="ada", password=PASSWORD)["member_id"]
    kept = json.loads(storage.get(f"pilotis:{app.public_key}:devices") or "{}")
    assert len(kept) == 2
    assert "ada" not in json.dumps(kept)


async def test_a_large_file_is_sent_in_parts_and_goes_on(app: App, tmp_path: Path):
    from tests.acceptance.test_files import storage

    place = (await storage(app)).rpartition("/")[2]
    file = tmp_path / "film.bin"
    file.write_bytes(bytes(at % 251 for at in range(20 << 20)))
    client, transport = weather(app, None, None, "lose")
    seen: list[float] = []
    async with client:
        item = await client.files(place).upload(
            file, type="video/mp4", on_progress=lambda sent, total: seen.append(sent / total)
        )
    assert (item["name"], item["size"], item["mime_type"]) == ("film.bin", 20 << 20, "video/mp4")
    assert (seen[-1], seen) == (1, sorted(seen))
    # The second part had arrived, though its answer had not: the server said so, and it was not sent again.
    assert len(transport.sent) == 1 + 3 + 1 + 1


async def test_numbers_can_be_exact(app: App):
    table = await app.table({"n": "number"})
    with Client(app.server.url, public_key=app.public_key, parse_float=Decimal) as client:
        row = await asyncio.to_thread(client.rows(table).create, {"n": Decimal("1.5")})
    assert row.data == {"n": Decimal("1.5")}
