"""Interface, "Web storage (hosting)": storages, deploys, channels, promotion, rollback."""

import pytest

from tests.console import owner_of, set_limits, the_log, user_with
from tests.hosting.hostile import HOSTILE, many
from tests.hosting.sites import PAGES, new_site, sha256, visit, zipped
from tests.support import App, assert_error, plain_client


async def test_a_site_is_deployed_served_promoted_and_rolled_back(app: App):
    site = await new_site(app)
    first = await site.deploy(PAGES)
    deployment = first["deployment"]
    assert (deployment["version"], deployment["status"], deployment["source"]) == (1, "ready", "zip")
    assert first["production_deployment_id"] == deployment["id"]
    assert first["qa_deployment_id"] is None
    assert (deployment["file_count"], deployment["changes"]) == (5, {"added": 5, "changed": 0, "removed": 0})
    page = await site.get("/")
    assert (page.status_code, page.content) == (200, PAGES["index.html"])
    assert page.headers["content-type"] == "text/html; charset=utf-8"

    second = await site.deploy({**PAGES, "index.html": b"<title>Second</title>second"})
    assert second["deployment"]["changes"] == {"added": 0, "changed": 1, "removed": 0}
    assert (await site.get("/")).content == b"<title>Second</title>second"
    assert (await site.get("/", "--v1")).content == PAGES["index.html"]

    back = await site.promote(deployment["id"])
    assert (back["kind"], back["production_deployment_id"]) == ("rollback", deployment["id"])
    assert back["previous_deployment_id"] == second["deployment"]["id"]
    assert (await site.get("/")).content == PAGES["index.html"]
    forward = await site.promote()
    assert (forward["kind"], forward["production_deployment_id"]) == ("promote", second["deployment"]["id"])
    assert (await site.get("/")).content == b"<title>Second</title>second"
    actions = [entry["action"] for entry in await the_log(app, action="web_storage")]
    assert actions[:5] == [
        "web_storage.promote",
        "web_storage.rollback",
        "web_storage.deploy",
        "web_storage.deploy",
        "web_storage.create",
    ]


async def test_channels(app: App):
    site = await new_site(app, promote_mode="manual")
    first = await site.deploy({"index.html": b"one"})
    assert (first["production_deployment_id"], first["qa_deployment_id"]) == (None, first["deployment"]["id"])
    assert (await site.get("/")).status_code == 404
    qa = await site.get("/", "--qa")
    assert (qa.content, qa.headers["x-robots-tag"]) == (b"one", "noindex")
    assert (await site.get("/robots.txt", "--qa")).content == b"User-agent: *\nDisallow: /\n"
    promoted = await site.promote()
    assert promoted["kind"] == "promote"
    assert (await site.get("/")).content == b"one"
    second = await site.deploy({"index.html": b"two"}, target="qa")
    assert second["production_deployment_id"] == first["deployment"]["id"]
    assert ((await site.get("/")).content, (await site.get("/", "--qa")).content) == (b"one", b"two")
    same = await site.send("POST", "/deploy/incremental", json={}, params={"target": "qa"})
    assert (same.status_code, same.json()["unchanged"], same.json()["missing"]) == (200, True, [])
    assert same.json()["deployment"]["id"] == second["deployment"]["id"]
    listed = (await site.send("GET", "/deployments")).json()
    assert [one["version"] for one in listed["deployments"]] == [2, 1]
    assert listed["qa_deployment_id"] == second["deployment"]["id"]
    assert listed["production_deployment_id"] == first["deployment"]["id"]


async def test_the_same_files_make_no_deployment_but_move_the_pointer(app: App):
    site = await new_site(app)
    first = await site.deploy({"index.html": b"one"})
    second = await site.deploy({"index.html": b"two"})
    await site.promote(first["deployment"]["id"])
    again = await site.deploy({"index.html": b"two"}, status=200)
    assert (again["unchanged"], again["deployment"]["id"]) == (True, second["deployment"]["id"])
    assert (await site.get("/")).content == b"two"
    entries = await the_log(app, action="web_storage.deploy")
    assert [entry["details"]["version"] for entry in entries] == [2, 2, 1]
    await site.deploy({"index.html": b"two"}, status=200)
    assert await the_log(app, action="web_storage.deploy") == entries, "A deploy that changes nothing is recorded."


async def test_credentials(app: App, other_app: App):
    site = await new_site(app)
    async with app.client() as client:
        for method, path in [
            ("GET", "/v1/public/storages/webs"),
            ("POST", f"{site.path}/promote"),
            ("GET", f"{site.path}/deploy/manifest"),
        ]:
            assert_error(await client.request(method, path), 401, "SECRET_KEY_REQUIRED")
    async with app.client(other_app.secret_key) as client:
        assert_error(await client.get(f"{site.path}/deployments"), 401, "INVALID_SECRET_KEY")
    async with app.client(app.console["access_token"]) as client:
        assert_error(await client.get(f"{site.path}/deployments"), 401, "INVALID_SECRET_KEY")
    viewer = await user_with(app, "viewer")
    async with viewer.client(app) as console:
        assert (await console.get(f"/storages/webs/{site.id}")).status_code == 200
        assert_error(await console.patch(f"/storages/webs/{site.id}", json={"name": "x"}), 403, "ROLE_REQUIRED")


async def test_a_viewers_key_reads(app: App):
    site = await new_site(app)
    await site.deploy({"index.html": b"home"})
    user = await user_with(app, "editor")
    async with user.client(app) as console:
        key = (await console.post("/keys/secret", json={"name": "deploys"})).json()["key"]
    async with owner_of(app).client(app) as console:
        assert (await console.patch(f"/users/{user.user_id}", json={"role": "viewer"})).status_code == 200
    async with app.client(key) as client:
        for path in ("", "/deployments", "/deploy/manifest"):
            address = f"{site.path}{path}" if path else "/v1/public/storages/webs"
            assert (await client.get(address)).status_code == 200
        archive = {"file": ("a.zip", zipped({"index.html": b"x"}))}
        for refused in (
            await client.post("/v1/public/storages/webs", json={"name": "x"}),
            await client.post(f"{site.path}/promote"),
            await client.post(f"{site.path}/deploy", files=archive),
            await client.post(f"{site.path}/deploy/incremental", json={}),
            await client.post(f"{site.path}/deploy/presign", json={"hash": "0" * 64, "size": 1}),
        ):
            assert_error(refused, 403, "ROLE_REQUIRED")


async def test_archives_are_limited_by_the_hour(app: App):
    await set_limits(app, zip_deploys_per_hour=2)
    site, other = await new_site(app), await new_site(app)
    await site.deploy({"index.html": b"one"})
    await other.deploy({"index.html": b"two"})
    archive = {"file": ("a.zip", zipped({"index.html": b"three"}))}
    refused = await site.send("POST", "/deploy", files=archive)
    assert_error(refused, 429, "RATE_LIMITED")
    assert int(refused.headers["retry-after"]) > 0
    parts = [("file", ("index.html", b"three"))]
    assert (await site.send("POST", "/deploy/incremental", files=parts)).status_code == 201


async def test_many_missing_contents_are_told_in_parts(app: App):
    site = await new_site(app)
    upserts = [{"path": f"{number}.txt", "hash": f"{number:064x}", "size": 1} for number in range(1_001)]
    lacking = (await site.send("POST", "/deploy/incremental", json={"upserts": upserts})).json()
    assert (lacking["deployment"], len(lacking["missing"]), lacking["missing_count"]) == (None, 1_000, 1_001)
    assert (await site.send("GET", "/deployments")).json()["total_count"] == 0


async def test_an_incremental_deploy(app: App):
    site = await new_site(app)
    base = await site.deploy(PAGES)
    manifest = await site.send("GET", "/deploy/manifest")
    files = {one["path"]: one["hash"] for one in manifest.json()["files"]}
    assert files == {path: sha256(data) for path, data in PAGES.items()}
    cached = await site.send("GET", "/deploy/manifest", headers={"If-None-Match": manifest.headers["etag"]})
    assert cached.status_code == 304

    new = b"<title>New</title>new"
    request = {
        "base_deployment_id": base["deployment"]["id"],
        "upserts": [{"path": "new.html", "hash": sha256(new), "size": len(new)}],
        "deletes": ["about.html"],
    }
    lacking = (await site.send("POST", "/deploy/incremental", json=request)).json()
    assert (lacking["deployment"], lacking["missing_count"]) == (None, 1)
    (missing,) = lacking["missing"]
    assert (missing["path"], missing["hash"], missing["method"]) == ("new.html", sha256(new), "PUT")
    async with plain_client(app.server.url) as client:
        wrong = await client.put(missing["upload_url"], content=b"x" * len(new), headers=missing["headers"])
        assert_error(wrong, 400, "DIGEST_MISMATCH")
        changed = missing["upload_url"].replace(f"size={len(new)}", "size=1")
        assert_error(await client.put(changed, content=b"x"), 403, "UPLOAD_LINK_INVALID")
        for _ in range(2):
            sent = await client.put(missing["upload_url"], content=new, headers=missing["headers"])
            assert sent.json() == {"hash": sha256(new), "size": len(new)}
    done = await site.send("POST", "/deploy/incremental", json=request)
    assert done.status_code == 201, done.text
    assert done.json()["deployment"]["changes"] == {"added": 1, "changed": 0, "removed": 1}
    assert (await site.get("/new")).content == new
    assert (await site.get("/about", sec_fetch_mode="cors")).status_code == 404
    assert_error(await site.send("POST", "/deploy/incremental", json=request), 409, "BASE_DEPLOYMENT_CHANGED")
    # The address of the earlier version still has the earlier files.
    assert (await site.get("/about", "--v1")).content == PAGES["about.html"]


async def test_an_incremental_deploy_as_a_form(app: App):
    site = await new_site(app)
    await site.deploy({"index.html": b"one", "old.js": b"old"})
    parts = [
        ("manifest", (None, b'{"deletes": ["old.js"], "message": "tidy"}')),
        ("file", ("assets/a.js", b"new asset")),
    ]
    done = await site.send("POST", "/deploy/incremental", files=parts)
    assert done.status_code == 201, done.text
    assert done.json()["deployment"]["message"] == "tidy"
    assert (await site.get("/assets/a.js")).content == b"new asset"


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        ({"deletes": ["nothing"]}, 400, "UNKNOWN_PATH"),
        ({"deletes": ["index.html"]}, 400, "NO_FILES"),
        ({"upserts": [{"path": "../x", "hash": "0" * 64, "size": 1}]}, 400, "INVALID_PATH"),
        ({"upserts": [{"path": "x", "hash": "0" * 64, "size": 1}] * 2}, 400, "INVALID_PATH"),
        ({"upserts": [{"path": "x"}]}, 400, "VALIDATION_FAILED"),
        ({"upserts": [{"path": "x", "hash": sha256(b"one"), "size": 4}]}, 400, "SIZE_MISMATCH"),
        ({"upserts": [{"path": "index.html/x", "hash": sha256(b"one"), "size": 3}]}, 400, "INVALID_PATH"),
        ({"base_deployment_id": "00000000-0000-7000-8000-000000000000"}, 409, "BASE_DEPLOYMENT_CHANGED"),
    ],
)
async def test_incremental_deploys_that_make_no_sense(app: App, request_: dict, status: int, code: str):
    site = await new_site(app)
    await site.deploy({"index.html": b"one"})
    assert_error(await site.send("POST", "/deploy/incremental", json=request_), status, code)
    assert len((await site.send("GET", "/deployments")).json()["deployments"]) == 1


async def test_promotions_that_are_refused(app: App):
    site, other = await new_site(app), await new_site(app)
    assert_error(await site.send("POST", "/promote"), 409, "NO_READY_DEPLOYMENT")
    made = await other.deploy({"index.html": b"x"})
    body = {"deployment_id": made["deployment"]["id"]}
    assert_error(await site.send("POST", "/promote", json=body), 404, "DEPLOYMENT_NOT_FOUND")


@pytest.mark.share(0.34)
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_archive_leaves_nothing(app: App, name: str):
    make, code = HOSTILE[name]
    site = await new_site(app)
    refused = await site.send("POST", "/deploy", files={"file": ("a.zip", make())})
    assert assert_error(refused, 400, "INVALID_ZIP")["details"][0]["code"] == code
    assert (await site.send("GET", "/deployments")).json()["total_count"] == 0


async def test_an_archive_of_a_hundred_thousand_files_is_refused(app: App):
    site = await new_site(app)
    refused = await site.send("POST", "/deploy", files={"file": ("a.zip", many())})
    assert_error(refused, 413, "PAYLOAD_TOO_LARGE")
    assert (await site.send("GET", "/deployments")).json()["total_count"] == 0


async def test_settings_and_slugs(app: App, other_app: App):
    site = await new_site(app)
    await site.deploy({"index.html": b"home"})
    async with owner_of(app).client(app) as console:
        address = f"/storages/webs/{site.id}"
        moved = await console.patch(address, json={"slug": f"moved-{site.slug[-6:]}", "not_found_mode": "404"})
        assert moved.status_code == 200, moved.text
        assert (await site.get("/")).status_code == 404
        assert (await visit(app.server, f"{moved.json()['slug']}.localhost")).content == b"home"
        async with owner_of(other_app).client(other_app) as other:
            taken = await other.post("/storages/webs", json={"name": "x", "slug": site.slug})
            assert_error(taken, 409, "SLUG_TAKEN")
        assert_error(await console.patch(address, json={"slug": "www"}), 409, "SLUG_TAKEN")
        assert (await console.delete(address)).json()["id"] == site.id
    assert (await visit(app.server, f"{moved.json()['slug']}.localhost")).status_code == 404
