"""The recipes of docs/rules.md: each is saved, and then tried by those whom it is about."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.test_files import put_at
from tests.rules.test_file_rules import paths, ruled
from tests.rules.test_rules import listed, manager, rows, save
from tests.support import App, assert_error

GUIDE = (Path(__file__).parents[2] / "docs/rules.md").read_text("utf-8")
ClientOf = Callable[..., httpx.AsyncClient]
BLOCK = re.compile(r"^```json table\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
async def client_of(app: App) -> AsyncIterator[ClientOf]:
    """Return clients of the app by their tokens, and close them after the test."""
    async with AsyncExitStack() as opened:

        def client(token: str | None = None) -> httpx.AsyncClient:
            made = app.client(token)
            opened.push_async_callback(made.aclose)
            return made

        yield client


async def recipe(app: App, heading: str) -> dict[str, str]:
    """Create the tables of a recipe, and return their ids by title."""
    section = GUIDE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    tables: dict[str, str] = {}
    async with app.client(app.secret_key) as own_side:
        for text in BLOCK.findall(section):
            body = json.loads(text)
            if known := tables.get(body["title"]):
                answer = await own_side.patch(f"/v1/public/tables/{known}", json=body)
            else:
                answer = await own_side.post("/v1/public/tables", json=body)
            assert answer.is_success, answer.text
            tables[body["title"]] = answer.json()["id"]
    assert tables
    return tables


async def people(app: App, client_of: ClientOf, **facts: dict[str, Any]) -> list[tuple[httpx.AsyncClient, str]]:
    """Return clients of new members with these facts, and their ids."""
    found = []
    async with manager(app) as side:
        for name, given in facts.items():
            member = await app.member(name)
            if given:
                answer = await side.patch(f"/members/{member['member_id']}", json=given)
                assert answer.status_code == 200, answer.text
            found.append((client_of(member["access_token"]), member["member_id"]))
    return found


async def made(client: httpx.AsyncClient, table: str, **data: Any) -> str:
    answer = await client.post(rows(table), json={"data": data})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def denied(client: httpx.AsyncClient, table: str, **data: Any) -> None:
    assert_error(await client.post(rows(table), json={"data": data}), 403, "RULE_DENIED")


async def changed(client: httpx.AsyncClient, table: str, row: str, **data: Any) -> httpx.Response:
    return await client.patch(f"{rows(table)}/{row}", json={"data": data})


async def deleted(client: httpx.AsyncClient, table: str, row: str) -> httpx.Response:
    return await client.delete(f"{rows(table)}/{row}")


async def test_a_club(app: App, client_of: ClientOf):
    tables = await recipe(app, "A club")
    posts, comments = tables.values()
    (editor, _), (ada, _), (eve, _) = await people(app, client_of, editor={"roles": ["editor"]}, ada={}, eve={})
    nobody, guest = client_of(), client_of((await app.guest())["access_token"])
    post = await made(editor, posts, text="post")
    await denied(ada, posts, text="x")
    assert_error(await changed(ada, posts, post, text="x"), 403, "RULE_DENIED")
    assert await listed(nobody, posts, "text") == ["post"]
    comment = await made(ada, comments, post=post, text="comment")
    await denied(ada, comments, text="nowhere")
    await denied(guest, comments, post=post, text="x")
    assert await listed(nobody, comments, "text") == ["comment"]
    for other in (eve, editor):
        assert_error(await deleted(other, comments, comment), 403, "RULE_DENIED")
    assert_error(await changed(ada, comments, comment, text="x"), 403, "RULE_DENIED")
    assert (await deleted(ada, comments, comment)).status_code == 200


async def test_a_public_blog(app: App, client_of: ClientOf):
    (articles,) = (await recipe(app, "Public blog")).values()
    (ada, _), (eve, _) = await people(app, client_of, ada={"roles": ["author"]}, eve={})
    draft = await made(ada, articles, text="draft", state="draft")
    public = await made(ada, articles, text="public", state="published")
    await denied(eve, articles, text="x")
    assert await listed(eve, articles, "text") == ["public"] == await listed(client_of(), articles, "text")
    assert await listed(ada, articles, "text") == ["draft", "public"]
    assert_error(await changed(eve, articles, public, text="x"), 403, "RULE_DENIED")
    assert_error(await deleted(ada, articles, public), 403, "RULE_DENIED")
    assert (await deleted(ada, articles, draft)).status_code == 200


async def test_shared_notes(app: App, client_of: ClientOf):
    tables = await recipe(app, "Shared notes")
    notes, shares = tables["notes"], tables["shares"]
    (ada, _), (eve, eve_id), (mallory, mallory_id) = await people(app, client_of, ada={}, eve={}, mallory={})
    note = await made(ada, notes, text="note")
    assert await listed(eve, notes, "text") == []
    await denied(mallory, shares, note=note, member=mallory_id)
    share = await made(ada, shares, note=note, member=eve_id)
    assert await listed(eve, notes, "text") == ["note"]
    assert await listed(mallory, notes, "text") == [] == await listed(mallory, shares, "note")
    assert_error(await changed(eve, notes, note, text="x"), 403, "RULE_DENIED")
    await denied(eve, shares, note=note, member=mallory_id)
    assert (await deleted(ada, shares, share)).status_code == 200
    assert await listed(eve, notes, "text") == []


async def test_teams(app: App, client_of: ClientOf):
    tables = await recipe(app, "Teams")
    teams, seats, documents = tables.values()
    (ada, ada_id), (eve, eve_id) = await people(app, client_of, ada={}, eve={})
    team = await made(ada, teams, name="red")
    await denied(eve, seats, team=team, member=eve_id)
    await denied(ada, documents, team=team, text="no seat yet")
    await made(ada, seats, team=team, member=ada_id)
    document = await made(ada, documents, team=team, text="plan")
    assert await listed(eve, documents, "text") == []
    seat = await made(ada, seats, team=team, member=eve_id)
    assert (await changed(eve, documents, document, text="new")).status_code == 200
    elsewhere = await made(eve, teams, name="blue")
    assert_error(await changed(ada, documents, document, team=elsewhere), 403, "RULE_DENIED")
    assert (await deleted(ada, seats, seat)).status_code == 200
    assert_error(await changed(eve, documents, document, text="x"), 404, "ROW_NOT_FOUND")


async def test_several_customers(app: App, client_of: ClientOf):
    (orders,) = (await recipe(app, "Several customers")).values()
    facts: Any = {"ada": {"claims": {"org": "acme"}}, "bob": {"claims": {"org": "bolt"}}, "eve": {}}
    (ada, _), (bob, _), (eve, _) = await people(app, client_of, **facts)
    order = await made(ada, orders, org="acme", total=1)
    await made(client_of(app.secret_key), orders, total=2)
    await denied(bob, orders, org="acme", total=1)
    assert await listed(bob, orders, "total") == []
    assert_error(await eve.get(rows(orders)), 403, "RULE_DENIED")
    assert await listed(ada, orders, "total") == [1]
    assert_error(await changed(ada, orders, order, org="bolt"), 403, "RULE_DENIED")


async def test_moderation(app: App, client_of: ClientOf):
    (posts,) = (await recipe(app, "Moderation")).values()
    (ada, _), (eve, _), (judge, _) = await people(app, client_of, ada={}, eve={}, judge={"roles": ["moderator"]})
    await denied(ada, posts, text="x", state="approved")
    post = await made(ada, posts, text="post", state="pending")
    assert await listed(eve, posts, "text") == []
    assert (await changed(ada, posts, post, text="better")).status_code == 200
    assert_error(await changed(ada, posts, post, state="approved"), 403, "COLUMN_READ_ONLY")
    assert (await changed(judge, posts, post, state="approved")).status_code == 200
    assert await listed(eve, posts, "text") == ["better"]
    assert_error(await changed(ada, posts, post, text="x"), 403, "RULE_DENIED")


async def test_a_drop_box(app: App, client_of: ClientOf):
    (messages,) = (await recipe(app, "Drop box")).values()
    nobody, (ada, _) = client_of(), (await people(app, client_of, ada={}))[0]
    row = await made(nobody, messages, text="hello", **{"from": "me"})
    for client in (nobody, ada):
        assert_error(await client.get(rows(messages)), 403, "RULE_DENIED")
        assert_error(await client.get(f"{rows(messages)}/{row}"), 403, "RULE_DENIED")
    assert await listed(client_of(app.secret_key), messages, "text") == ["hello"]


async def test_votes(app: App, client_of: ClientOf):
    (votes,) = (await recipe(app, "Votes")).values()
    (ada, _), (eve, _) = await people(app, client_of, ada={}, eve={})
    vote = await made(ada, votes, poll="lunch", choice="soup")
    twice = await ada.post(rows(votes), json={"data": {"poll": "lunch", "choice": "cake"}})
    assert_error(twice, 409, "UNIQUE_VIOLATION")
    await made(ada, votes, poll="dinner", choice="cake")
    await made(eve, votes, poll="lunch", choice="cake")
    assert_error(await changed(ada, votes, vote, choice="cake"), 403, "RULE_DENIED")
    answer = await eve.get(f"{rows(votes)}/{vote}")
    assert "created_by" not in answer.json()
    assert sorted(await listed(client_of(), votes, "choice")) == ["cake", "cake", "soup"]


async def test_private_profiles(app: App, client_of: ClientOf):
    tables = await recipe(app, "Private profiles")
    (profiles,) = tables.values()
    (ada, _), (eve, _) = await people(app, client_of, ada={}, eve={})
    assert_error(await ada.post(rows(profiles), json={"data": {"plan": "gold"}}), 403, "COLUMN_READ_ONLY")
    profile = await made(ada, profiles, name="Ada", address="Main Street")
    for client, address in ((ada, "Main Street"), (eve, None), (client_of(), None)):
        assert await listed(client, profiles) == ["Ada"]
        assert await listed(client, profiles, "address") == [address]
    assert_error(await changed(ada, profiles, profile, plan="gold"), 403, "COLUMN_READ_ONLY")
    assert_error(await changed(eve, profiles, profile, name="x"), 403, "RULE_DENIED")


async def test_shared_trails(app: App, client_of: ClientOf):
    tables = await recipe(app, "Shared trails")
    authors, trails, waypoints = tables.values()
    (ada, ada_id), (eve, eve_id) = await people(app, client_of, ada={}, eve={})
    author, other = await made(ada, authors, member=ada_id), await made(eve, authors, member=eve_id)
    assert_error(await eve.post(rows(trails), json={"data": {"author": author}}), 403, "RULE_DENIED")
    trail = await made(ada, trails, author=author, state="draft")
    point = await made(ada, waypoints, trail=trail, name="Start")
    assert await listed(eve, waypoints) == []
    assert (await changed(ada, trails, trail, state="shared")).status_code == 200
    assert await listed(eve, waypoints) == await listed(client_of(), waypoints) == ["Start"]
    assert_error(await changed(eve, waypoints, point, name="x"), 403, "RULE_DENIED")
    assert_error(await changed(eve, authors, other, member=ada_id), 403, "RULE_DENIED")
    assert_error(await changed(ada, trails, trail, author=other), 403, "RULE_DENIED")
    assert (await changed(ada, waypoints, point, name="Y")).status_code == 200


async def test_only_the_apps_own_side_gives_a_table_rules(app: App, client_of: ClientOf):
    body: Any = {"title": "t", "schema": {"name": "string"}, "access_level": "Public", "rules": {"read": {"name": "x"}}}
    (ada, _), *_ = await people(app, client_of, ada={})
    for client in (client_of(), ada):
        assert_error(await client.post("/v1/public/tables", json=body), 403, "RULES_NEED_EDITOR")
        assert_error(await client.post("/v1/public/tables", json=body | {"rules": None}), 403, "RULES_NEED_EDITOR")
    open_ = await app.table({"name": "string"}, title="open")
    change = body | {"title": "open"}
    assert_error(await ada.patch(f"/v1/public/tables/{open_}", json=change), 403, "RULES_NEED_EDITOR")
    own_side = client_of(app.secret_key)
    wrong = body | {"rules": {"read": {"nme": "x"}}}
    error = assert_error(await own_side.post("/v1/public/tables", json=wrong), 400, "UNKNOWN_COLUMN")
    assert error["details"][0]["field"] == "rules.read.nme"
    assert len((await own_side.get("/v1/public/tables")).json()["tables"]) == 1
    # A column that comes with the rules, and one that goes while they need it.
    named = change | {"schema": {"name": "string", "state": "string"}, "rules": {"read": {"state": "on"}}}
    assert (await own_side.patch(f"/v1/public/tables/{open_}", json=named)).status_code == 200
    assert (await own_side.patch(f"/v1/public/tables/{open_}", json=change)).status_code == 200
    named = {name: value for name, value in change.items() if name != "rules"} | {"schema": {"other": "string"}}
    assert_error(await own_side.patch(f"/v1/public/tables/{open_}", json=named), 409, "USED_IN_RULE")
    await save(app, open_, None)
    assert (await own_side.patch(f"/v1/public/tables/{open_}", json=named)).status_code == 200


async def test_rules_of_files(app: App, client_of: ClientOf):
    section = GUIDE.split("\n## Files\n")[1].split("\n## ")[0]
    documents = re.findall(r"^```json storage\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    folder, of_row, picture = map(json.loads, documents)
    (ada, ada_id), (eve, _) = await people(app, client_of, ada={}, eve={})
    table = await app.table({"file": "uuid", "owner": "string"}, title="documents")
    base = await ruled(app, folder)
    await put_at(ada, base, f"{ada_id}/a.png")
    assert (await paths(ada, base), await paths(eve, base)) == ([f"{ada_id}/a.png"], [])
    base = await ruled(app, of_row, max_file_size=1_000_000)
    item = await put_at(ada, base, "a.png")
    assert await paths(ada, base) == []
    await app.row(table, {"file": item["id"], "owner": ada_id})
    assert (await paths(ada, base), await paths(eve, base)) == (["a.png"], [])
    base = await ruled(app, picture, max_file_size=1_000_000, quota_bytes=1_000_000)
    item = await put_at(ada, base, "a.png")
    assert (await eve.get(item["url"])).status_code == 200
    assert_error(await eve.get(f"{base}/items"), 403, "RULE_DENIED")
    shared = re.search(r"^```json rules\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert shared
    linked = await app.table({"secret": "string"})
    await save(app, linked, json.loads(shared[1]))
