"""Rules of file storages over HTTP: who may list, read, upload, replace and delete which files."""

from __future__ import annotations

import ast
import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx

import pilotis
from pilotis.apps.feature import AppsFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.files.feature import FilesFeature
from pilotis.files.types import ItemQuery, NewFixedUpload
from pilotis.http.api.principals import AppMember, MemberInfo
from pilotis.server import endpoint_table
from tests.acceptance.test_files import PNG, complete, fixed, permit, put_at, send, storage, upload
from tests.console import owner_of, second_node
from tests.rules.test_rules import OWN, SIGNED_IN, findings, manager, rows
from tests.support import App, assert_error

MY_FOLDER = {"segment.0": {"$member": "id"}}


def same(rule: Any, **others: Any) -> dict[str, Any]:
    return {"read": rule, "create": rule, "update": rule, "delete": rule, **others}


async def ruled(app: App, rules: dict[str, Any], **settings: Any) -> str:
    """Make a storage with rules and return the address of its public routes."""
    return await storage(app, rules=rules, **settings)


async def save(app: App, base: str, rules: dict[str, Any] | None) -> httpx.Response:
    async with manager(app) as side:
        return await side.put(f"/storages/files/{base.rpartition('/')[2]}/rules", json={"rules": rules})


async def paths(client: httpx.AsyncClient, base: str, **query: Any) -> list[str]:
    answer = await client.get(f"{base}/items", params=query)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["total_count"] == len(body["files"])
    return [item["path"] for item in body["files"]]


async def test_members_keep_their_files_in_a_folder_of_their_own(app: App):
    base = await ruled(app, same(MY_FOLDER))
    ada, eve = await app.member("ada"), await app.member("eve")
    async with app.client(ada["access_token"]) as member, app.client(eve["access_token"]) as other:
        mine = f"{ada['member_id']}/photos/a.png"
        item = await put_at(member, base, mine)
        assert item["path"] == mine
        body = {"file_size": len(PNG), "mime_type": "image/png"}
        for client, place in ((member, "a.png"), (member, f"{eve['member_id']}/a.png"), (other, mine)):
            denied = await client.post(f"{base}/presigned-url/path/{place}", json=body)
            assert_error(denied, 403, "RULE_DENIED")
        assert mine in await paths(member, base)
        assert await paths(other, base) == []
        for client, status in ((member, 200), (other, 404)):
            assert (await client.get(item["url"])).status_code == status
            assert (await client.get(f"{base}/path/{mine}")).status_code == status
            signed = await client.post(f"{base}/items/{item['id']}/signed-url", json={})
            assert signed.status_code == status
            if status == 200:
                async with httpx.AsyncClient(verify=False) as anybody:
                    assert (await anybody.get(signed.json()["url"])).content == PNG
        async with app.client() as nobody:
            assert_error(await nobody.get(item["url"]), 401, "MEMBER_TOKEN_REQUIRED")
            assert_error(await nobody.get(f"{base}/items"), 401, "MEMBER_TOKEN_REQUIRED")
        assert_error(await other.delete(f"{base}/items/{item['id']}"), 404, "FILE_NOT_FOUND")
        assert (await member.delete(f"{base}/items/{item['id']}")).status_code == 200
        async with app.client(app.secret_key) as side:
            assert (await upload(side, base))["path"] == "a.png"
            assert len(await paths(side, base)) == 3


async def test_who_may_read_the_row_may_read_its_file(app: App):
    documents = await app.table({"file": "uuid", "name": "string"}, title="documents")
    seats = await app.table({"document": "uuid", "member": "string"}, title="seats")
    seated = {"$exists": {"table": "seats", "where": {"document": {"$row": "id"}, "member": {"$member": "id"}}}}
    of_row = {"$exists": {"table": "documents", "where": {"file": {"$row": "id"}, **seated}}}
    base = await ruled(app, {"read": {"$or": [of_row, OWN]}, "create": SIGNED_IN, "delete": of_row})
    ada, eve = await app.member("ada"), await app.member("eve")
    async with app.client(ada["access_token"]) as author, app.client(eve["access_token"]) as reader:
        item = await upload(author, base)
        document = await app.row(documents, {"file": item["id"], "name": "d"})
        assert await paths(author, base) == ["a.png"]
        assert await paths(reader, base) == []
        assert_error(await reader.get(item["url"]), 404, "FILE_NOT_FOUND")
        assert_error(await author.delete(f"{base}/items/{item['id']}"), 403, "RULE_DENIED")
        seat = await app.row(seats, {"document": document["id"], "member": eve["member_id"]})
        assert await paths(reader, base) == ["a.png"]
        assert (await reader.get(item["url"])).content == PNG
        # Withdrawn, and gone with the next request.
        async with app.client(app.secret_key) as side:
            await side.delete(f"{rows(seats)}/{seat['id']}")
            assert_error(await reader.get(item["url"]), 404, "FILE_NOT_FOUND")
            assert await paths(reader, base) == []
            for path in (f"/v1/public/tables/{seats}", f"/v1/public/tables/{documents}/columns/file"):
                assert_error(await side.delete(path), 409, "USED_IN_RULE")
                assert_error(await reader.delete(path), 403, "SCHEMA_LOCKED")
            assert (await save(app, base, None)).status_code == 200
            assert (await side.delete(f"/v1/public/tables/{seats}")).status_code == 200


async def test_a_picture_has_a_link_and_no_catalogue(app: App):
    base = await ruled(app, {"list": None, "read": True, "create": SIGNED_IN, "update": OWN, "delete": OWN})
    ada, eve = (await app.member("ada"))["access_token"], (await app.member("eve"))["access_token"]
    async with app.client(ada) as member, app.client(eve) as other, app.client() as nobody:
        item = await put_at(member, base, "faces/a.png")
        served = await nobody.get(item["url"])
        assert served.content == PNG
        assert served.headers["cache-control"] == "public, max-age=0, must-revalidate"
        assert (await nobody.get(f"{base}/path/faces/a.png")).json()["id"] == item["id"]
        for query in ({}, {"search": "a"}, {"parent_id": item["parent_id"]}):
            assert_error(await nobody.get(f"{base}/items", params=query), 403, "RULE_DENIED")
        assert_error(await nobody.get(f"{base}/path/faces"), 403, "RULE_DENIED")
        assert_error(await fixed(other, base, "faces/a.png", overwrite=True), 403, "RULE_DENIED")
        # One that is not to be replaced is created, and its path is taken.
        assert_error(await fixed(other, base, "faces/a.png"), 409, "PATH_TAKEN")
        assert_error(await fixed(nobody, base, "faces/a.png"), 401, "MEMBER_TOKEN_REQUIRED")
        assert_error(await other.delete(f"{base}/items/{item['id']}"), 403, "RULE_DENIED")
        assert (await put_at(member, base, "faces/a.png", b"new"))["version"] == 2


async def test_a_storage_with_levels_may_be_read_and_not_listed(app: App):
    base = await storage(app, list_access="Secret")
    async with app.client() as nobody, app.client(app.secret_key) as side, owner_of(app).client(app) as console:
        item = await put_at(nobody, base, "faces/a.png")
        assert (await nobody.get(item["url"])).content == PNG
        assert (await nobody.get(f"{base}/path/faces/a.png")).status_code == 200
        assert_error(await nobody.get(f"{base}/items"), 401, "SECRET_KEY_REQUIRED")
        assert_error(await nobody.get(f"{base}/path/faces"), 401, "SECRET_KEY_REQUIRED")
        assert await paths(side, base) == ["faces", "faces/a.png"]
        address = f"/storages/files/{base.rpartition('/')[2]}"
        wide = await console.patch(address, json={"list_access": "Public", "read_access": "AppMember"})
        assert assert_error(wide, 400, "VALIDATION_FAILED")["details"][0]["field"] == "list_access"
        assert (await console.patch(address, json={"list_access": None})).json()["list_access"] is None
        assert await paths(nobody, base) == ["faces", "faces/a.png"]


async def test_what_is_hidden_is_like_what_is_missing(app: App):
    """No code, and no folder, tells that there is a file."""
    base = await ruled(app, {**same(MY_FOLDER), "create": SIGNED_IN})
    ada, eve = await app.member("ada"), await app.member("eve")
    async with app.client(ada["access_token"]) as member, app.client(eve["access_token"]) as other:
        item = await put_at(member, base, f"{ada['member_id']}/a.png")
        folder = item["parent_id"]
        assert await paths(member, base, parent_id=folder) == [item["path"]]
        for hidden, missing in ((folder, str(uuid4())), (item["id"], str(uuid4()))):
            answers = [
                (await other.get(f"{base}/items", params={"parent_id": one})).json()["code"]
                for one in (hidden, missing)
            ]
            assert answers == ["FOLDER_NOT_FOUND"] * 2
            for method, path in (("DELETE", "items/{}"), ("POST", "items/{}/signed-url")):
                body = {} if method == "POST" else None
                for one in (hidden, missing):
                    answer = await other.request(method, f"{base}/{path.format(one)}", json=body)
                    assert_error(answer, 404, "FILE_NOT_FOUND")
        for one in (item["id"], str(uuid4())):
            assert_error(await complete(other, base, {"file_id": one}), 404, "FILE_NOT_FOUND")
        for path in (ada["member_id"], str(uuid4()), item["path"], f"{ada['member_id']}/none.png"):
            assert_error(await other.get(f"{base}/path/{path}"), 404, "FILE_NOT_FOUND")
        # Who may not create there does not learn that the path is taken.
        await save(app, base, same(MY_FOLDER))
        assert_error(await fixed(other, base, item["path"], overwrite=True), 403, "RULE_DENIED")
        assert_error(await fixed(other, base, item["path"]), 403, "RULE_DENIED")


async def test_an_upload_is_judged_again_when_it_is_completed_and_frees_its_room(app: App):
    base = await ruled(app, same(SIGNED_IN), quota_bytes=3 * len(PNG))
    ada = (await app.member("ada"))["access_token"]
    async with app.client(ada) as member, app.client() as nobody, owner_of(app).client(app) as console:
        permitted = [await permit(member, base, file_name=f"{at}.png") for at in range(2)]
        for one in permitted:
            assert (await send(one)).status_code == 200
        assert_error(await complete(nobody, base, permitted[0]), 401, "MEMBER_TOKEN_REQUIRED")
        await save(app, base, {**same(SIGNED_IN), "create": {"size": {"$lt": 5}}})
        assert_error(await complete(member, base, permitted[0]), 403, "RULE_DENIED")
        seen = (await console.get(f"/storages/files/{base.rpartition('/')[2]}")).json()
        assert (seen["reserved_bytes"], seen["used_bytes"]) == (len(PNG), 0)
        assert_error(await complete(member, base, permitted[0]), 404, "FILE_NOT_FOUND")
        await save(app, base, same(SIGNED_IN))
        done = await complete(member, base, permitted[1])
        assert (await complete(member, base, permitted[1])).json() == done.json()


async def test_resumable_uploads_are_judged_like_others(app: App):
    base = await ruled(app, {"create": {**SIGNED_IN, "mime_type": "image/png", "folder": "in"}})
    token = (await app.member("ada"))["access_token"]

    def headers(**metadata: str) -> dict[str, str]:
        pairs = (f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in metadata.items())
        return {"Tus-Resumable": "1.0.0", "Upload-Length": "3", "Upload-Metadata": ",".join(pairs)}

    async with app.client(token) as member, app.client() as nobody:
        good = headers(path="in/a.png", filetype="image/png")
        assert_error(await nobody.post(f"{base}/tus", headers=good), 401, "MEMBER_TOKEN_REQUIRED")
        for wrong in (headers(path="a.png", filetype="image/png"), headers(path="in/a.png", filetype="text/html")):
            assert_error(await member.post(f"{base}/tus", headers=wrong), 403, "RULE_DENIED")
        assert (await member.post(f"{base}/tus", headers=good)).status_code == 201


async def test_folders_are_judged_and_deleted_whole_or_not_at_all(app: App):
    """A folder is a file of its path with the size 0 and no type; one item that may not go keeps all."""
    rules = {**same(True), "create": {"segment.0": "in"}, "delete": {"$not": {"mime_type": "image/png"}}}
    base = await ruled(app, rules)
    async with app.client() as client, app.client(app.secret_key) as side:
        assert_error(await client.post(f"{base}/folders", json={"name": "in"}), 403, "RULE_DENIED")
        top = (await side.post(f"{base}/folders", json={"name": "in"})).json()
        assert_error(await side.post(f"{base}/folders", json={"name": "in"}), 409, "PATH_TAKEN")
        made = await client.post(f"{base}/folders", json={"name": "deep", "parent_id": top["id"]})
        assert made.status_code == 201
        for path, mime_type in (("in/deep/a.png", "image/png"), ("in/deep/b.txt", "text/plain")):
            permitted = (await fixed(client, base, path, mime_type=mime_type)).json()
            await send(permitted)
            assert (await complete(client, base, permitted)).status_code == 200
        address = f"{base}/items/{top['id']}"
        assert_error(await client.delete(address, params={"recursive": "true"}), 403, "RULE_DENIED")
        assert len(await paths(client, base)) == 4
        await save(app, base, {**rules, "delete": True})
        assert (await client.delete(address, params={"recursive": "true"})).status_code == 200
        assert await paths(client, base) == []


async def test_rules_follow_the_tables_that_they_name(app: App):
    """A statement of before a change of such a table is made again, inside of a transaction too."""
    seats = await app.table({"team": "string", "member": "string"}, title="seats")
    seated = {"$exists": {"table": "seats", "where": {"team": {"$row": "segment.0"}, "member": {"$member": "id"}}}}
    base = await ruled(app, same(seated))
    ada = await app.member("ada")
    await app.row(seats, {"team": "red", "member": ada["member_id"]})
    async with app.client(ada["access_token"]) as member, owner_of(app).client(app) as console:
        await put_at(member, base, "red/a.png")
        for name, new in (("team", "group"), ("group", "band")):
            address = f"/tables/{seats}/columns/{name}/rename"
            assert (await console.post(address, json={"name": new})).status_code == 200
            if new == "group":
                assert await paths(member, base) == ["red/a.png"]
            else:
                await put_at(member, base, "red/b.png")
        async with manager(app) as side:
            shown = (await side.get(f"/storages/files/{base.rpartition('/')[2]}/rules")).json()
        assert shown["rules"]["read"]["$exists"]["where"]["band"] == {"$row": "segment.0"}


async def test_a_node_that_has_not_heard_of_a_change_makes_its_statements_again(app: App):
    """Outside of a transaction and in one, which goes on after the statement that failed."""
    seats = await app.table({"team": "string", "member": "string"}, title="seats")
    seated = {"$exists": {"table": "seats", "where": {"team": {"$row": "segment.0"}, "member": {"$member": "id"}}}}
    base = await ruled(app, same(seated))
    ada = await app.member("ada")
    await app.row(seats, {"team": "red", "member": ada["member_id"]})
    async with app.client(ada["access_token"]) as member:
        await put_at(member, base, "red/a.png")
    storage_id = UUID(base.rpartition("/")[2])
    async with second_node(app.server, listening=False) as node, owner_of(app).client(app) as console:
        info = await node.made.get(AppsFeature).apps.by_id(UUID(app.app_id))
        caller = AppMember(info, MemberInfo(ada["member_id"], uuid4(), is_guest=False))
        tables, files = node.made.get(TablesFeature).tables, node.made.get(FilesFeature).files
        for name, new in (("team", "group"), ("group", "band")):
            assert name in (await tables.current(info.app_id, UUID(seats))).by_name
            address = f"/tables/{seats}/columns/{name}/rename"
            assert (await console.post(address, json={"name": new})).status_code == 200
            if new == "group":
                assert (await files.listing.page(info, caller, storage_id, ItemQuery())).total_count == 1
            else:
                wanted = NewFixedUpload(file_size=1, mime_type="image/png")
                await files.uploads.presign_path(info, caller, storage_id, "red/b.png", wanted)


async def test_a_list_of_files_is_compared_with_so_many_rows(app: App):
    seats = await app.table({"team": "string"}, title="seats")
    base = await ruled(app, {"read": {"$exists": {"table": "seats", "where": {"team": {"$row": "path"}}}}})
    async with app.client(app.secret_key) as side, app.client() as client:
        await put_at(side, base, "7")
        for start in range(0, 10_000, 1000):
            new = {"data": [{"team": str(start + number)} for number in range(1000)]}
            assert (await side.post(rows(seats), json=new)).status_code == 201
        assert await paths(client, base) == ["7"]
        await app.row(seats, {"team": "one more"})
        assert_error(await client.get(f"{base}/items"), 400, "RESULT_TOO_LARGE")


async def test_a_rule_of_files_that_makes_no_sense(app: App):
    await app.table({"team": "string", "n": "number"}, title="seats")
    base = await storage(app)

    def exists(where: dict[str, Any]) -> dict[str, Any]:
        return {"$exists": {"table": "seats", "where": where}}

    two = exists({"team": {"$row": "segment.0"}, "$or": [{"team": {"$row": "name"}}]})
    deep: dict[str, Any] = {"team": "x"}
    for _ in range(4):
        deep = exists(deep)
    for rules, code, place in (
        ({"read": {"owner": "x"}}, "UNKNOWN_COLUMN", "rules.read.owner"),
        ({"read": {"segment.8": "x"}}, "UNKNOWN_COLUMN", "rules.read.segment.8"),
        ({"read": {}}, "RULE_EMPTY", "rules.read"),
        ({"read": False}, "INVALID_RULE", "rules.read"),
        ({"columns": {"name": {"read": None}}}, "VALIDATION_FAILED", "rules.columns"),
        ({"read": {"$member": {"custom_data.x": 1}}}, "MEMBER_WRITES_THIS", "rules.read.$member.custom_data.x"),
        ({"read": exists({"n": {"$row": "name"}})}, "OPERAND_TYPE", "rules.read.$exists.where.n"),
        ({"read": {"$exists": {"table": "none", "where": {}}}}, "UNKNOWN_TABLE", "rules.read.$exists.table"),
        ({"read": two}, "INVALID_OPERAND", "rules.read.$exists"),
        ({"list": {"$or": [{"name": "x"}, two]}}, "INVALID_OPERAND", "rules.list.$or[1].$exists"),
        ({"read": {"$use": "d"}, "define": {"d": two}}, "INVALID_OPERAND", "rules.define.d.$exists"),
        ({"read": deep}, "RULE_TOO_COMPLEX", None),
        ({"read": {"name": "x" * 33_000}}, "RULE_TOO_COMPLEX", "rules"),
        ({"read": {"name": {"$matches": "x"}}}, "INVALID_OPERATOR", "rules.read.name.$matches"),
        ({"read": {"$new": {"name": "x"}}}, "INVALID_OPERAND", "rules.read.$new"),
    ):
        error = assert_error(await save(app, base, rules), 400, code)
        assert place is None or error["details"][0]["field"] == place, rules
    # Where lists are closed, one file is judged at a time, and any form is fine.
    assert (await save(app, base, {"list": None, "read": two})).status_code == 200
    address = f"/v1/apps/{app.app_id}/storages/files/{base.rpartition('/')[2]}/rules"
    async with app.client() as nobody:
        assert_error(await nobody.put(address, json={"rules": None}), 401, "TOKEN_REQUIRED")


async def test_rules_of_files_are_kept_beside_the_settings(app: App):
    base = await storage(app, read_access="AppMember", delete_access="Creator")
    address = f"/storages/files/{base.rpartition('/')[2]}"
    async with owner_of(app).client(app) as console, app.client() as nobody:
        seen = (await console.get(address)).json()
        rules = (await console.get(f"{address}/rules")).json()
        assert (rules["rules"], rules["level_rules"]["read"]) == (None, SIGNED_IN)
        assert (rules["level_rules"]["delete"], rules["level_rules"]["create"]) == (OWN, True)
        with_rules = (await console.patch(address, json={"rules": same(True)})).json()
        assert with_rules == seen | {"has_rules": True, "updated_at": with_rules["updated_at"]}
        assert await paths(nobody, base) == []
        saved = (await console.get(f"{address}/rules")).json()
        assert saved["rules"]["read"] is True
        assert {one["code"] for one in saved["warnings"]} == {"OPEN_TO_ALL"}
        old = {"rules": None, "expected_updated_at": "2020-01-01T00:00:00Z"}
        assert_error(await console.put(f"{address}/rules", json=old), 409, "PRECONDITION_FAILED")
        changed = await console.patch(address, json={"upload_access": "Secret", "name": "other"})
        assert (changed.json()["upload_access"], changed.json()["has_rules"]) == ("Secret", True)
        assert (await permit(nobody, base))["method"] == "PUT"
        new = {"rules": None, "expected_updated_at": saved["updated_at"]}
        assert (await console.put(f"{address}/rules", json=new)).status_code == 200
        assert_error(await nobody.get(f"{base}/items"), 401, "MEMBER_TOKEN_REQUIRED")
        refused = await nobody.post(
            f"{base}/presigned-url", json={"file_name": "a", "file_size": 1, "mime_type": "a/b"}
        )
        assert_error(refused, 401, "SECRET_KEY_REQUIRED")


async def test_exposure_tells_what_rules_of_files_leave_open(app: App):
    await app.table({"team": "string", "member": "string"}, title="seats")
    seated = {"$exists": {"table": "seats", "where": {"team": {"$row": "segment.0"}, "member": {"$member": "id"}}}}
    await ruled(app, {"read": seated, "create": SIGNED_IN}, name="team")
    await ruled(app, {"read": {"mime_type": "image/png"}, "create": True, "delete": True}, name="wall")
    found = await findings(app)
    promotion = "Table seats: anyone who signs up can create its rows, which give rights in storage team."
    assert ("high", "SELF_PROMOTION", promotion) in found
    assert ("none", "STORAGE", "Storage team: its rules give nothing to the public key alone.") in found
    assert ("high", "STORAGE", "Storage wall: by its rules the public key alone can delete some files.") in found
    assert ("medium", "STORAGE", "Storage wall: by its rules the public key alone can create files.") in found
    assert ("low", "STORAGE", "Storage wall: by its rules the public key alone can read some files.") in found
    assert len([one for one in found if "Storage wall" in one[2]]) == 3


SIGNED = "The URL is signed, and is given to those who may upload; what has come is judged when it is completed."
OWN_SIDE = "Only console users with the role editor come here, who pass all rules."
ROUTES: dict[str, tuple[dict[str, Any] | None, tuple[int, str]] | str] = {
    "POST /v1/public/storages/files/:storage_id/presigned-url": (
        {"file_name": "x.png", "file_size": 1, "mime_type": "image/png"},
        (403, "RULE_DENIED"),
    ),
    "POST /v1/public/storages/files/:storage_id/presigned-url/path/*path": (
        {"file_size": 1, "mime_type": "image/png", "overwrite": True},
        (403, "RULE_DENIED"),
    ),
    "POST /v1/public/storages/files/:storage_id/complete-upload": ({}, (403, "RULE_DENIED")),
    "GET /v1/public/storages/files/:storage_id/items": (None, (403, "RULE_DENIED")),
    "POST /v1/public/storages/files/:storage_id/folders": ({"name": "x"}, (403, "RULE_DENIED")),
    "DELETE /v1/public/storages/files/:storage_id/items/:file_id": (None, (403, "RULE_DENIED")),
    "GET /v1/public/storages/files/:storage_id/path/*path": (None, (403, "RULE_DENIED")),
    "POST /v1/public/storages/files/:storage_id/items/:file_id/signed-url": ({}, (403, "RULE_DENIED")),
    "POST /v1/public/storages/files/:storage_id/tus": (None, (403, "RULE_DENIED")),
    "GET /files/:storage_id/:file_id/:name": (None, (403, "RULE_DENIED")),
    "GET /files/:storage_id/p/*path": (None, (403, "RULE_DENIED")),
    "PUT /v1/uploads/:upload_id": SIGNED,
    "GET /v1/uploads/tus/:upload_id": SIGNED,
    "PATCH /v1/uploads/tus/:upload_id": SIGNED,
    "DELETE /v1/uploads/tus/:upload_id": SIGNED,
    "OPTIONS /v1/public/storages/files/:storage_id/tus": "It tells what the server can.",
    "OPTIONS /v1/uploads/tus/:upload_id": "It tells what the server can.",
    "PUT /v1/uploads/sites/:app_id": "It is about sites.",
    "PATCH /v1/apps/:app_id/storages/files/:storage_id/items/:file_id": OWN_SIDE,
}


async def test_every_file_route_asks(app: App):
    """Under rules that give nothing, each route refuses a member what it shows and does under others."""
    tags = {"File storage", "File transfer", "Resumable uploads"}
    known = {f"{one.method} {one.path}" for one in endpoint_table() if one.tag in tags or ":file_id" in one.path}
    assert known == set(ROUTES)
    base = await storage(app)
    ada = await app.member("ada")
    async with app.client(ada["access_token"]) as member:
        item = await put_at(member, base, "in/a.png")
        assert (await save(app, base, {})).status_code == 200
        places = {":storage_id": base.rpartition("/")[2], ":file_id": item["id"], ":name": "a.png", "*path": "in/a.png"}
        metadata = f"filename {base64.b64encode(b'x').decode()},filetype {base64.b64encode(b'image/png').decode()}"
        tus = {"Tus-Resumable": "1.0.0", "Upload-Length": "1", "Upload-Metadata": metadata}
        for route, asked in ROUTES.items():
            if isinstance(asked, str):
                continue
            method, path = route.split(" ")
            for place, value in places.items():
                path = path.replace(place, value)
            body, (status, code) = asked
            body = {"file_id": str(uuid4())} if path.endswith("complete-upload") else body
            for query in ({}, {"width": "10"}) if path.startswith("/files") else ({},):
                extra = tus if path.endswith("/tus") else {}
                answer = await member.request(method, path, json=body, params=query, headers=extra)
                assert_error(answer, status, code)


READERS = {"item", "item_at", "lock_item_at", "folder", "page", "tree", "linked_files"}
WRITERS = {"insert_folder", "insert_file", "replace_content", "delete_items", "move"}
BATCHES = {"_by_id", "_by_path", "_inserts", "_completions"}
DOORS = {"_ruling", "rules_of", "access", "allow", "listed", "_upload_limit", "usable_accesses", "_send"}
# Functions whose statements on files ask nobody, and why that is right.
WITHOUT_DOOR = {
    "rule_tests.FileRuleTests._items": "An editor tries rules: the file is what they are to judge.",
    "listing.Listing.folder": "The folder that the same request has just created, when it is repeated.",
    "listing.Listing.move": OWN_SIDE,
    "uploads.service.Uploads.__init__": "It makes what the functions below use.",
    "uploads.service._path_in": "Its caller asks about the path that it returns.",
    "uploads.service._make_folders": "Folders on the way to a file need no rule; its caller asks about the file.",
    "delivery.Delivery.__init__": "It makes what the functions below use.",
}


def runs_statement(part: ast.Attribute) -> bool:
    return (ast.unparse(part.value) == "store" and part.attr in READERS | WRITERS) or part.attr in BATCHES


def functions_with_statements() -> Iterator[tuple[str, bool]]:
    """Each function of `files` that runs a statement on files, and whether it names a door."""
    files = Path(pilotis.__file__).parent / "files"
    for path in sorted(files.rglob("*.py")):
        module = ".".join(path.relative_to(files).with_suffix("").parts)
        if module.endswith("store") or module in {"cleaning", "tasks"}:
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            prefix = f"{module}.{node.name}" if isinstance(node, ast.ClassDef) else module
            for one in node.body if isinstance(node, ast.ClassDef) else [node]:
                if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                inside = [part for part in ast.walk(one) if isinstance(part, ast.Attribute)]
                if any(map(runs_statement, inside)):
                    names = {part.id for part in ast.walk(one) if isinstance(part, ast.Name)}
                    names |= {part.arg for part in ast.walk(one) if isinstance(part, ast.arg)}
                    yield f"{prefix}.{one.name}", bool(DOORS & (names | {part.attr for part in inside}))


def test_every_statement_on_files_asks_what_the_caller_may_do():
    found = dict(functions_with_statements())
    assert len(found) > 10
    assert [name for name, asks in found.items() if not asks and name not in WITHOUT_DOOR] == []
    assert [name for name in WITHOUT_DOOR if name not in found] == [], "These make no statements any more."
