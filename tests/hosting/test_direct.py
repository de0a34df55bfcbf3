"""Contents of sites that go straight to an S3 store."""

import httpx

from tests.files.nodes import s3_node
from tests.hosting.sites import new_site, sha256
from tests.support import App, assert_error


async def test_contents_go_straight_to_the_store(app: App, s3_url: str):
    site = await new_site(app)
    page, script = b"<!doctype html><title>Direct</title>", b"console.log('direct')\n" * 50_000
    async with s3_node(app.server, s3_url) as node:
        headers = {"X-Public-Key": app.public_key, "Authorization": f"Bearer {app.secret_key}"}
        transport = httpx.ASGITransport(node.hosts)
        async with httpx.AsyncClient(transport=transport, base_url="http://node", headers=headers) as client:
            request = {
                "upserts": [
                    {"path": "index.html", "hash": sha256(page), "size": len(page)},
                    {"path": "assets/app.js", "hash": sha256(script), "size": len(script)},
                ]
            }
            lacking = (await client.post(f"{site.path}/deploy/incremental", json=request)).json()
            assert [one["path"] for one in lacking["missing"]] == ["assets/app.js", "index.html"]
            wanted = {"files": [{"hash": sha256(page), "size": len(page)}]}
            (presigned,) = (await client.post(f"{site.path}/deploy/presign", json=wanted)).json()["uploads"]
            assert presigned["exists"] is False
            async with httpx.AsyncClient() as anybody:
                for one, data in zip(lacking["missing"], (script, page), strict=True):
                    assert one["upload_url"].startswith(httpx.URL(s3_url).params["endpoint"]), one["upload_url"]
                    # The signature binds the length and the digest, so the store itself refuses other bytes.
                    wrong = await anybody.put(one["upload_url"], content=data + b"x", headers=one["headers"])
                    assert wrong.status_code in {400, 403}
                    other = await anybody.put(one["upload_url"], content=data[::-1], headers=one["headers"])
                    assert other.status_code in {400, 403}
                    right = await anybody.put(one["upload_url"], content=data, headers=one["headers"])
                    assert right.status_code == 200, right.text
            done = await client.post(f"{site.path}/deploy/incremental", json=request)
            assert done.status_code == 201, done.text
            assert done.json()["deployment"]["uploaded_size"] == len(page) + len(script)
            host = {"Host": f"{site.slug}.localhost"}
            assert (await client.get("/", headers=host)).content == page
            assert (await client.get("/assets/app.js", headers=host)).content == script
            part = await client.get("/assets/app.js", headers={**host, "Range": "bytes=1000000-1000005"})
            assert (part.status_code, part.content) == (206, script[1_000_000:1_000_006])
            again = (await client.post(f"{site.path}/deploy/presign", json=wanted)).json()["uploads"]
            assert again == [{"hash": sha256(page), "size": len(page), "exists": True}]
            other_size = {"files": [{"hash": sha256(page), "size": 1}]}
            refused = await client.post(f"{site.path}/deploy/presign", json=other_size)
            assert_error(refused, 400, "SIZE_MISMATCH")
