"""Policies of real apps, each with a small schema of its own, and with callers that are allowed and denied.

Those that are tested beside the feature that they need, or by an app of `examples/`, stand there alone:

- a trail shared by a link, with its comments: `tests/rules/test_capabilities.py`, `tests/examples/test_trails.py`
- a row two references away from its author: `tests/rules/test_guide.py`
- a folder with the member's own id: `tests/rules/test_file_rules.py`
- a scene that is read by its key and not listed: `tests/rules/test_capabilities.py`,
  `tests/examples/test_whiteboard.py`
- a blog with usernames, favourites and a feed: `tests/examples/test_conduit.py`
- rooms by role, and invitations by a link: `tests/examples/test_chat.py`
- invoices in two orders, with a page by a link, and payouts at a second factor: `tests/examples/test_invoices.py`
- notes in a column that customers do not see, and files of tickets: `tests/examples/test_helpdesk.py`
- notes that the writer shares, reviewed posts, one vote a member: `tests/rules/test_guide.py`
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.acceptance.test_files import PNG, upload
from tests.conftest import new_app
from tests.rules.test_file_rules import ruled as ruled_storage
from tests.rules.test_rules import OWN, SIGNED_IN, listed, rows, save
from tests.support import App, Server, assert_error

ME: dict[str, Any] = {"$member": "id"}
NOBODY = "0198a000-0000-7000-8000-000000000000"


@dataclass
class Place:
    """One app for all policies: its own side, three members and a visitor."""

    app: App
    side: httpx.AsyncClient
    ada: httpx.AsyncClient
    bob: httpx.AsyncClient
    eve: httpx.AsyncClient
    visitor: httpx.AsyncClient
    ids: dict[str, str]

    async def table(
        self, title: str, rules: dict[str, Any] | None = None, unique: str | None = None, **schema: Any
    ) -> str:
        """Create a table by the app's own side; rules that name other tables are saved once these are there."""
        body = {"title": title, "schema": schema, "access_level": "Public"}
        body |= {} if rules is None else {"rules": rules}
        body |= {} if unique is None else {"unique": [{"columns": [unique]}]}
        answer = await self.side.post("/v1/public/tables", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def everybody(self, table: str, field: str = "name") -> dict[str, list[Any]]:
        """Return what each caller's list of a table has in a column, sorted."""
        found = {}
        for name in ("ada", "bob", "eve", "visitor"):
            client: httpx.AsyncClient = getattr(self, name)
            answer = await client.get(rows(table))
            found[name] = sorted(await listed(client, table, field)) if answer.is_success else []
        return found


@pytest.fixture(scope="module")
async def place(server: Server, console: dict[str, str]) -> AsyncIterator[Place]:
    app = new_app(server, console)
    async with AsyncExitStack() as stack:
        people = {name: await app.member(name) for name in ("ada", "bob", "eve")}
        tokens = [app.secret_key, *(person["access_token"] for person in people.values()), None]
        clients = [await stack.enter_async_context(app.client(token)) for token in tokens]
        yield Place(app, *clients, {name: person["member_id"] for name, person in people.items()})


def to(table: str, **more: Any) -> dict[str, Any]:
    return {"type": "uuid", "references": {"table": table}, **more}


def seat(table: str, **where: Any) -> dict[str, Any]:
    return {"$exists": {"table": table, "where": where}}


async def made(client: httpx.AsyncClient, table: str, **data: Any) -> str:
    answer = await client.post(rows(table), json={"data": data})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def changed(client: httpx.AsyncClient, table: str, row: str, **data: Any) -> httpx.Response:
    return await client.patch(f"{rows(table)}/{row}", json={"data": data})


async def deleted(client: httpx.AsyncClient, table: str, row: str) -> httpx.Response:
    return await client.delete(f"{rows(table)}/{row}")


async def denied(client: httpx.AsyncClient, table: str, **data: Any) -> None:
    answer = await client.post(rows(table), json={"data": data})
    # A row that the caller may not read is one that there is not, also for what refers to it.
    codes = {"MEMBER_TOKEN_REQUIRED", "RULE_DENIED", "REFERENCE_NOT_FOUND"}
    assert answer.status_code in {400, 401, 403}, answer.text
    assert answer.json()["code"] in codes, answer.text


async def test_of_a_notification_its_reader_changes_whether_it_is_seen(place: Place):
    closed: dict[str, Any] = {name: {"update": None} for name in ("name", "reader")}
    mine = {"reader": ME}
    notes = await place.table(
        "notifications",
        {"read": mine, "update": mine, "delete": mine, "columns": closed},
        name="string", reader="string", seen={"type": "boolean", "default": False},
    )  # fmt: skip
    first, second = [await made(place.side, notes, name=name, reader=place.ids["ada"]) for name in ("a", "b")]
    other = await made(place.side, notes, name="c", reader=place.ids["bob"])
    assert await place.everybody(notes) == {"ada": ["a", "b"], "bob": ["c"], "eve": [], "visitor": []}
    assert (await changed(place.ada, notes, first, seen=True)).json()["data"]["seen"] is True
    for data in ({"name": "x"}, {"reader": place.ids["eve"]}, {"seen": False, "name": "x"}):
        assert_error(await changed(place.ada, notes, first, **data), 403, "COLUMN_READ_ONLY")
    for client in (place.eve, place.visitor):
        assert (await changed(client, notes, first, seen=False)).status_code in {401, 403, 404}
        await denied(client, notes, name="x", reader=place.ids["ada"])
    await denied(place.ada, notes, name="x", reader=place.ids["ada"])
    # All at once, which are hers alone.
    all_seen = await place.ada.post(f"{rows(notes)}/update-where", json={"all": True, "data": {"seen": True}})
    assert all_seen.json()["updated_count"] == 2, all_seen.text
    swept = await place.eve.post(f"{rows(notes)}/delete-where", json={"all": True})
    assert swept.json()["deleted_count"] == 0
    seen = [(await place.side.get(f"{rows(notes)}/{row}")).json()["data"]["seen"] for row in (first, second, other)]
    assert seen == [True, True, False]


async def test_an_owner_removes_all_but_the_primary_owner(place: Place):
    accounts = await place.table("accounts", name="string", primary_owner="string")
    people = await place.table("account_users", account=to("accounts"), member="string", role="string")
    owns = seat("account_users", account={"$row": "account"}, member=ME, role="owner")
    not_first = seat("accounts", id={"$row": "account"}, primary_owner={"$ne": {"$row": "member"}})
    mine = seat("account_users", account={"$row": "account"}, member=ME)
    await save(place.app, accounts, {"read": seat("account_users", account={"$row": "id"}, member=ME)})
    await save(
        place.app,
        people,
        {
            "read": mine,
            "create": owns,
            "update": {"$and": [owns, not_first]},
            "delete": {"$and": [{"$or": [owns, {"member": ME}]}, not_first]},
            "columns": {"account": {"update": None}, "member": {"update": None}},
        },
    )
    ids = place.ids
    ours = await made(place.side, accounts, name="ours", primary_owner=ids["ada"])
    theirs = await made(place.side, accounts, name="theirs", primary_owner=ids["eve"])
    first = await made(place.side, people, account=ours, member=ids["ada"], role="owner")
    await made(place.side, people, account=theirs, member=ids["eve"], role="owner")
    second = await made(place.ada, people, account=ours, member=ids["bob"], role="owner")
    assert await place.everybody(accounts) == {"ada": ["ours"], "bob": ["ours"], "eve": ["theirs"], "visitor": []}
    # Another owner takes the primary one neither out nor down; nor does it itself.
    for client in (place.bob, place.ada):
        assert_error(await deleted(client, people, first), 403, "RULE_DENIED")
        assert_error(await changed(client, people, first, role="member"), 403, "RULE_DENIED")
    assert_error(await changed(place.bob, people, second, member=ids["ada"]), 403, "COLUMN_READ_ONLY")
    # An owner of another account seats nobody here, itself least of all.
    await denied(place.eve, people, account=ours, member=ids["eve"], role="owner")
    assert_error(await deleted(place.eve, people, second), 404, "ROW_NOT_FOUND")
    assert (await changed(place.ada, people, second, role="member")).status_code == 200
    for role in ("owner", "member"):
        assert_error(await changed(place.bob, people, second, role=role), 403, "RULE_DENIED")
    guest = await made(place.ada, people, account=ours, member=ids["eve"], role="member")
    assert_error(await deleted(place.eve, people, second), 403, "RULE_DENIED")
    assert (await deleted(place.eve, people, guest)).status_code == 200
    # With one call for all of them, the primary owner stays as well.
    swept = await place.ada.post(f"{rows(people)}/delete-where", json={"where": {"account": ours}})
    assert swept.json()["deleted_count"] == 1
    assert await listed(place.ada, people, "member") == [ids["ada"]]


async def test_permissions_are_in_a_table_of_roles(place: Place):
    roles = await place.table("user_roles", {"read": {"member": ME}}, member="string", role="string")
    granted = await place.table("role_permissions", {"read": SIGNED_IN}, role="string", permission="string")

    def may(permission: str) -> dict[str, Any]:
        held = seat("user_roles", member=ME, role={"$row": "role"})
        return seat("role_permissions", permission=permission, **held)

    channels = await place.table(
        "slack_channels",
        {"read": SIGNED_IN, "create": {"$and": [OWN, SIGNED_IN]}, "delete": {"$or": [OWN, may("channels.delete")]}},
        name="string",
    )
    messages = await place.table(
        "slack_messages",
        {"read": SIGNED_IN, "create": {"author": ME}, "delete": {"$or": [{"author": ME}, may("messages.delete")]}},
        name="string", author="string",
    )  # fmt: skip
    await made(place.side, roles, member=place.ids["bob"], role="moderator")
    for role, permission in (
        ("admin", "channels.delete"),
        ("admin", "messages.delete"),
        ("moderator", "messages.delete"),
    ):
        await made(place.side, granted, role=role, permission=permission)
    channel = await made(place.ada, channels, name="general")
    first, second, third = [await made(place.ada, messages, name=n, author=place.ids["ada"]) for n in "abc"]
    for client, table, row in (
        (place.eve, messages, first),
        (place.eve, channels, channel),
        (place.bob, channels, channel),
    ):
        assert_error(await deleted(client, table, row), 403, "RULE_DENIED")
    # Nobody appoints itself.
    await denied(place.eve, roles, member=place.ids["eve"], role="admin")
    await denied(place.bob, granted, role="moderator", permission="channels.delete")
    await denied(place.visitor, messages, name="x", author=place.ids["ada"])
    await denied(place.eve, messages, name="x", author=place.ids["ada"])
    assert (await deleted(place.bob, messages, first)).status_code == 200
    assert (await deleted(place.ada, messages, second)).status_code == 200
    # What a role may changes with the next request.
    more = await made(place.side, granted, role="moderator", permission="channels.delete")
    assert (await deleted(place.bob, channels, channel)).status_code == 200
    assert (await deleted(place.side, granted, more)).status_code == 200
    await place.side.post(f"{rows(roles)}/delete-where", json={"all": True})
    assert_error(await deleted(place.bob, messages, third), 403, "RULE_DENIED")


async def test_a_project_and_its_first_membership_are_made_in_one_transaction(place: Place):
    projects = await place.table("projects", name="string")
    seats = await place.table("project_members", project=to("projects"), member="string", admin="boolean")
    admin = seat("project_members", project={"$row": "project"}, member=ME, admin=True)
    own = seat("projects", id={"$row": "project"}, **OWN)
    seated = seat("project_members", project={"$row": "id"}, member=ME)
    await save(place.app, projects, {"read": {"$or": [OWN, seated]}, "create": SIGNED_IN})
    await save(
        place.app,
        seats,
        {
            "read": {"$or": [{"member": ME}, admin]},
            "create": {"$or": [admin, {"$and": [own, {"member": ME, "admin": True}]}]},
            "delete": admin,
        },
    )

    def both(name: str, member: str) -> dict[str, Any]:
        seated = {"project": {"$ref": 0}, "member": place.ids[member], "admin": True}
        create = [(projects, {"name": name}), (seats, seated)]
        return {"operations": [{"type": "create", "table_id": table, "data": data} for table, data in create]}

    done = await place.ada.post("/v1/public/transactions", json=both("ours", "ada"))
    assert done.status_code == 200, done.text
    project = done.json()["results"][0]["id"]
    # For somebody else it fails as a whole.
    failed = await place.eve.post("/v1/public/transactions", json=both("hers", "bob"))
    assert_error(failed, 403, "RULE_DENIED", failed_index=1)
    for client in (place.eve, place.bob, place.visitor):
        await denied(client, seats, project=project, member=place.ids["eve"], admin=True)
    assert await place.everybody(projects) == {"ada": ["ours"], "bob": [], "eve": [], "visitor": []}
    row = await made(place.ada, seats, project=project, member=place.ids["bob"], admin=False)
    assert (await place.everybody(projects))["bob"] == ["ours"]
    # One that is seated and reads the project seats nobody, and gives itself no more.
    await denied(place.bob, seats, project=project, member=place.ids["eve"], admin=False)
    await denied(place.bob, seats, project=project, member=place.ids["bob"], admin=True)
    assert_error(await deleted(place.bob, seats, row), 403, "RULE_DENIED")
    assert (await deleted(place.ada, seats, row)).status_code == 200
    assert (await place.everybody(projects))["bob"] == []


async def test_readers_and_writers_are_in_arrays(place: Place):
    reads, writes = {"readers": {"$arrayContains": ME}}, {"writers": {"$arrayContains": ME}}
    public = {"readers": {"$arrayContains": "*"}}
    documents = await place.table(
        "signed_documents",
        {
            "read": {"$or": [OWN, reads, writes, public]},
            "create": SIGNED_IN,
            "update": {"$or": [OWN, writes]},
            "delete": OWN,
            # A rule of a column knows the caller and not the row: the app's own side changes who reads and writes.
            "columns": {"readers": {"update": None}, "writers": {"update": None}},
        },
        name="string", readers="array", writers="array",
    )  # fmt: skip
    bob, eve = place.ids["bob"], place.ids["eve"]
    row = await made(place.ada, documents, name="contract", readers=[eve], writers=[bob])
    await made(place.ada, documents, name="open", readers=["*"], writers=[])
    await made(place.ada, documents, name="private")
    await made(place.ada, documents, name="nested", readers=[[eve], {"id": eve}, f"{eve} "])
    assert await place.everybody(documents) == {
        "ada": ["contract", "nested", "open", "private"],
        "bob": ["contract", "open"],
        "eve": ["contract", "open"],
        # Nobody has no id that an array could have.
        "visitor": ["open"],
    }
    assert (await changed(place.bob, documents, row, name="contract 2")).status_code == 200
    assert_error(await changed(place.eve, documents, row, name="x"), 403, "RULE_DENIED")
    for data in ({"writers": [eve]}, {"writers": {"$push": [eve]}}, {"readers": []}):
        for client in (place.bob, place.eve):
            assert_error(await changed(client, documents, row, **data), 403, "COLUMN_READ_ONLY")
    assert_error(await deleted(place.bob, documents, row), 403, "RULE_DENIED")
    assert (await place.visitor.patch(f"{rows(documents)}/{row}", json={"data": {"name": "x"}})).status_code in {
        401,
        404,
    }
    assert (await changed(place.side, documents, row, readers=[], writers=[eve])).status_code == 200
    found = await place.everybody(documents)
    assert (found["bob"], found["eve"]) == (["open"], ["contract 2", "open"])


async def test_measurements_belong_to_who_watches_the_system(place: Place):
    watched = {"users": {"$arrayContains": ME}}
    systems = await place.table("systems", {"read": watched}, name="string", users="array")
    stats = await place.table("system_stats", name="string", system=to("systems"), cpu="number")
    await save(place.app, stats, {"read": {"system.users": {"$arrayContains": ME}}})
    one = await made(place.side, systems, name="one", users=[place.ids["ada"], place.ids["bob"]])
    two = await made(place.side, systems, name="two", users=[place.ids["eve"]])
    for name, system, cpu in (("a", one, 10), ("b", one, 30), ("c", two, 80)):
        await made(place.side, stats, name=name, system=system, cpu=cpu)
    await made(place.side, stats, name="lost", cpu=100)
    assert await place.everybody(stats) == {"ada": ["a", "b"], "bob": ["a", "b"], "eve": ["c"], "visitor": []}
    # Sums and counts are of these rows alone, and so is what the condition names.
    pipeline = {"table_id": stats, "pipeline": [{"$group": {"_id": "$system", "most": {"$max": "$cpu"}}}]}
    for client, expected in ((place.ada, [(one, 30)]), (place.eve, [(two, 80)])):
        answer = await client.post("/v1/public/aggregate", json=pipeline)
        assert [(group["_id"], group["most"]) for group in answer.json()["data"]] == expected, answer.text
    counted = await place.ada.post(
        f"{rows(systems)}/query", json={"counts": {"stats": {"from": "system_stats.system"}}}
    )
    assert [row["counts"] for row in counted.json()["data"]] == [{"stats": 2}], counted.text
    query = {"where": {"system": two}}
    assert (await place.ada.post(f"{rows(stats)}/query", json=query)).json()["total_count"] == 0
    for client in (place.ada, place.visitor):
        await denied(client, stats, system=one, cpu=0)
        await denied(client, systems, name="x", users=[place.ids["ada"]])
    assert_error(await changed(place.eve, systems, one, users=[place.ids["eve"]]), 403, "RULE_DENIED")
    assert (await changed(place.side, systems, one, users=[place.ids["eve"]])).status_code == 200
    assert await place.everybody(stats) == {"ada": [], "bob": [], "eve": ["a", "b", "c"], "visitor": []}


async def test_a_picture_of_a_message_is_seen_where_its_chat_is_shared(place: Place):
    chats = await place.table("chats", {"read": {"$or": [OWN, {"sharing": "public"}]}, "create": SIGNED_IN,
                                        "update": OWN}, name="string", sharing="string")  # fmt: skip
    messages = await place.table("chat_messages", name="string", chat=to("chats"), picture="uuid")
    shared = {"$or": [{"chat.$creator": ME}, {"chat.sharing": "public"}]}
    await save(place.app, messages, {"read": shared, "create": {"chat.$creator": ME}})
    # Of who wrote the message: else a message with the id of another's picture would open it.
    theirs = {"$creator": {"$row": "$creator"}, "chat.sharing": "public"}
    public = {"$or": [OWN, seat("chat_messages", picture={"$row": "id"}, **theirs)]}
    rules = {"list": None, "read": public, "create": SIGNED_IN, "delete": OWN}
    files = await ruled_storage(place.app, rules, name="pictures")
    picture = await upload(place.ada, files)
    chat = await made(place.ada, chats, name="chat", sharing="private")
    await made(place.ada, messages, name="look", chat=chat, picture=picture["id"])
    everybody = (place.ada, place.eve, place.visitor)

    async def seen() -> list[bool]:
        answers = [await client.get(picture["url"]) for client in everybody]
        assert all(answer.content == PNG or answer.status_code in {401, 403, 404} for answer in answers)
        return [answer.status_code == 200 for answer in answers]

    assert await seen() == [True, False, False]
    await denied(place.eve, messages, chat=chat, picture=picture["id"])
    trap = await made(place.eve, chats, name="trap", sharing="public")
    await made(place.eve, messages, name="trap", chat=trap, picture=picture["id"])
    assert await seen() == [True, False, False]
    assert (await changed(place.ada, chats, chat, sharing="public")).status_code == 200
    assert await seen() == [True, True, True]
    assert (await place.everybody(messages))["visitor"] == ["look", "trap"]
    assert_error(await place.bob.delete(f"{files}/items/{picture['id']}"), 403, "RULE_DENIED")
    assert_error(await place.bob.get(f"{files}/items"), 403, "RULE_DENIED")
    assert (await changed(place.ada, chats, chat, sharing="private")).status_code == 200
    assert await seen() == [True, False, False]


async def test_way_points_follow_trails_lists_and_their_shares(place: Place):
    """Six questions, three deep: who made the trail and its lists, whom they are shared with, and what is public."""
    actors = await place.table("actors", {"create": {"member": ME}, "read": True}, member="string")
    trails = await place.table("hikes", name="string", author=to("actors"), public="boolean")
    lists = await place.table("hike_lists", author=to("actors"), public="boolean")
    members = await place.table("hikes_of_lists", hike=to("hikes"), list=to("hike_lists"))
    hike_shares = await place.table("hike_shares", hike=to("hikes"), actor=to("actors"))
    list_shares = await place.table("list_shares", list=to("hike_lists"), actor=to("actors"))
    points = await place.table("hike_points", name="string", hike=to("hikes"))
    mine = seat("actors", id={"$row": "author"}, member=ME)
    shared_list = seat("list_shares", list={"$row": "id"}, **{"actor.member": ME})
    open_list = seat("hike_lists", id={"$row": "list"}, **{"$or": [{"public": True}, mine, shared_list]})
    readable = {"$or": [
        {"hike.public": True},
        {"hike.author.member": ME},
        seat("hike_shares", hike={"$row": "hike"}, **{"actor.member": ME}),
        seat("hikes_of_lists", hike={"$row": "hike"}, **open_list),
    ]}  # fmt: skip
    await save(place.app, points, {"read": readable, "create": {"hike.author.member": ME}})
    ada, bob, eve = [await made(getattr(place, name), actors, member=place.ids[name]) for name in ("ada", "bob", "eve")]
    public = await made(place.side, trails, name="public", author=ada, public=True)
    private = await made(place.side, trails, name="private", author=ada, public=False)
    listed_one = await made(place.side, trails, name="listed", author=ada, public=False)
    collection = await made(place.side, lists, author=bob, public=False)
    await made(place.side, members, hike=listed_one, list=collection)
    for name, hike in (("a", public), ("b", private), ("c", listed_one)):
        await made(place.side, points, name=name, hike=hike)
    # The author all of them; who made the list those in it; everybody what is public.
    assert await place.everybody(points) == {"ada": ["a", "b", "c"], "bob": ["a", "c"], "eve": ["a"], "visitor": ["a"]}
    await made(place.side, list_shares, list=collection, actor=ada)
    assert (await place.everybody(points))["eve"] == ["a"]
    share = await made(place.side, list_shares, list=collection, actor=eve)
    assert (await place.everybody(points))["eve"] == ["a", "c"]
    await made(place.side, hike_shares, hike=private, actor=eve)
    assert (await place.everybody(points))["eve"] == ["a", "b", "c"]
    assert (await deleted(place.side, list_shares, share)).status_code == 200
    assert (await place.everybody(points))["eve"] == ["a", "b"]
    assert (await changed(place.side, lists, collection, public=True)).status_code == 200
    assert await place.everybody(points) == {
        "ada": ["a", "b", "c"], "bob": ["a", "c"], "eve": ["a", "b", "c"], "visitor": ["a", "c"]
    }  # fmt: skip
    # What one may read, one may not add to; and nobody is an actor in the name of another.
    await denied(place.eve, points, name="x", hike=private)
    await denied(place.eve, actors, member=place.ids["ada"])


async def test_rows_three_references_below_an_organisation_are_its_members(place: Place):
    organisations = await place.table("organisations", {"read": {"$member": {}}}, name="string")
    seats = await place.table(
        "organisation_members", {"read": {"member": ME}}, organisation=to("organisations"), member="string"
    )
    boards = await place.table("boards", organisation=to("organisations"), name="string")
    schemas = await place.table("schemas", board=to("boards"), name="string")
    versions = await place.table("versions", schema=to("schemas"), name="string")
    seated = seat("organisation_members", organisation={"$row": "organisation"}, member=ME)
    of_board = seat("boards", id={"$row": "board"}, **seated)
    await save(place.app, boards, {"read": seated, "create": seated, "update": seated})
    await save(place.app, schemas, {"read": of_board, "create": of_board, "update": of_board})
    of_schema = seat("schemas", id={"$row": "schema"}, **of_board)
    await save(place.app, versions, {"read": of_schema, "create": of_schema, "update": of_schema})
    made_by: dict[str, tuple[str, str]] = {}
    for name in ("ada", "eve"):
        client: httpx.AsyncClient = getattr(place, name)
        organisation = await made(place.side, organisations, name=name)
        await made(place.side, seats, organisation=organisation, member=place.ids[name])
        board = await made(client, boards, organisation=organisation, name=name)
        schema = await made(client, schemas, board=board, name=name)
        made_by[name] = schema, await made(client, versions, schema=schema, name=name)
    assert await place.everybody(versions) == {"ada": ["ada"], "bob": [], "eve": ["eve"], "visitor": []}
    hers, version = made_by["ada"]
    own, _ = made_by["eve"]
    for client in (place.eve, place.bob, place.visitor):
        await denied(client, versions, schema=hers, name="x")
        assert (await changed(client, versions, version, name="x")).status_code in {401, 403, 404}
    # Nor is her version moved below another's organisation, where its members would read it.
    moved = await changed(place.ada, versions, version, schema=own)
    assert moved.status_code in {400, 403}, moved.text
    assert (await changed(place.ada, versions, version, name="ada")).status_code == 200


async def test_an_invitation_is_read_by_its_link_until_it_expires(place: Place):
    link = {"token": {"$capability": "invitation"}, "expires_at": {"$gt": {"$now": 0}}}
    invitations = await place.table(
        "account_invitations",
        {"list": OWN, "read": {"$or": [OWN, link]}, "create": SIGNED_IN, "delete": OWN},
        name="string", token={"type": "string", "default": {"$secret": True}}, expires_at="date",
    )  # fmt: skip
    texts = {}
    for name, hours in (("valid", 1), ("expired", -1)):
        until = (datetime.now(UTC) + timedelta(hours=hours)).isoformat()
        row = await made(place.ada, invitations, name=name, expires_at=until)
        texts[row] = (await place.side.get(f"{rows(invitations)}/{row}")).json()["data"]["token"]
    valid, expired = texts

    async def opened(row: str, text: str) -> int:
        async with place.app.client(None, **{"X-Capability": f"invitation={text}"}) as guest:
            assert (await guest.get(rows(invitations))).status_code in {401, 403}
            return (await guest.get(f"{rows(invitations)}/{row}")).status_code

    assert await opened(valid, texts[valid]) == 200
    # Past its time, by the text of another, by a guess.
    assert [await opened(expired, texts[expired]), await opened(valid, texts[expired])] == [404, 404]
    assert await opened(valid, "x" * 32) == 404
    assert_error(await deleted(place.eve, invitations, valid), 404, "ROW_NOT_FOUND")
    assert (await deleted(place.ada, invitations, valid)).status_code == 200
    assert await opened(valid, texts[valid]) == 404


async def test_a_payment_service_writes_by_its_own_ids(place: Place):
    stripe_id: dict[str, Any] = {"type": "string", "required": True}
    products = await place.table("products", unique="stripe_id", stripe_id=stripe_id, name="string", active="boolean")
    by_id = {"type": "string", "references": {"table": "products", "key": "stripe_id"}}
    prices = await place.table("prices", unique="stripe_id", stripe_id=stripe_id, product=by_id, cents="int")
    subscriptions = await place.table(
        "subscriptions", {"read": {"member": ME}}, name="string", member="string", state="string"
    )
    await save(place.app, products, {"read": {"active": True}})
    await save(place.app, prices, {"read": {"product.active": True}})

    async def arrives(client: httpx.AsyncClient, table: str, **data: Any) -> httpx.Response:
        return await client.post(f"{rows(table)}/upsert", json={"key": "stripe_id", "data": data})

    # A price that arrives before its product is refused, and comes again; an event that comes twice changes nothing.
    early = await arrives(place.side, prices, stripe_id="price_1", product="prod_1", cents=900)
    assert_error(early, 400, "REFERENCE_NOT_FOUND")
    told = [await arrives(place.side, products, stripe_id="prod_1", name="Pro", active=True) for _ in range(2)]
    assert [(one.status_code, one.json()["created"]) for one in told] == [(201, True), (200, False)]
    assert (await arrives(place.side, prices, stripe_id="price_1", product="prod_1", cents=900)).status_code == 201
    await made(place.side, subscriptions, name="ada's", member=place.ids["ada"], state="active")
    shown = await place.visitor.post(f"{rows(prices)}/query", json={"expand": ["product"]})
    assert [row["expanded"]["product"]["data"]["name"] for row in shown.json()["data"]] == ["Pro"], shown.text
    assert await place.everybody(subscriptions) == {"ada": ["ada's"], "bob": [], "eve": [], "visitor": []}
    for client in (place.ada, place.visitor):
        for table, data in ((products, {"stripe_id": "prod_1", "name": "x"}), (prices, {"stripe_id": "x", "cents": 1})):
            answer = await arrives(client, table, **data)
            assert answer.status_code in {401, 403}, answer.text
        await denied(client, subscriptions, member=place.ids["ada"], state="active")
    # What is taken from sale is gone for buyers, with its prices.
    assert (await arrives(place.side, products, stripe_id="prod_1", active=False)).json()["created"] is False
    assert await listed(place.visitor, products) == await listed(place.visitor, prices) == []
    assert_error(await place.visitor.get(f"{rows(products)}/by/stripe_id/prod_1"), 404, "ROW_NOT_FOUND")
