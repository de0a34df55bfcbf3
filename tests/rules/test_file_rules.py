"""Rules of file storages over HTTP: who may list, read, upload, replace and delete which files."""

from __future__ import annotations

from typing import Any

import httpx

from tests.acceptance.test_files import PNG, put_at, storage, upload
from tests.rules.test_rules import OWN, SIGNED_IN, manager, rows
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
