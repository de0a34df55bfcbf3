"""What visitors of a site get: paths, caching, compression, previews, metadata, domains."""

import base64
import gzip
import json

import brotli
import httpx

from tests.backstage import run_sql
from tests.console import owner_of, second_node
from tests.hosting.sites import PAGES, Site, new_site, visit
from tests.name_server import name_server
from tests.services import Node
from tests.support import App, assert_error
from tests.waiting import until

VARYING = {"x-request-id", "date"}
SCRIPT = PAGES["assets/app-3f9Ad2c1.js"]


async def compressed(site: Site, path: str, encoding: str):
    """The answer once the background has compressed the file."""

    async def encoded():
        answer = await site.get(path, accept_encoding=encoding)
        return answer if answer.headers.get("content-encoding") == encoding else None

    return await until(encoded)


async def test_caching_conditions_and_ranges(app: App):
    site = await new_site(app)
    await site.deploy(PAGES)
    page = await site.get("/")
    assert page.headers["cache-control"] == "public, max-age=0, must-revalidate"
    assert page.headers["x-content-type-options"] == "nosniff"
    script = await site.get("/assets/app-3f9Ad2c1.js")
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    same = await site.get("/assets/app-3f9Ad2c1.js", if_none_match=f'"other", W/{script.headers["etag"]}')
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", script.headers["etag"])
    part = await site.get("/assets/app-3f9Ad2c1.js", range="bytes=2-5")
    assert (part.status_code, part.content) == (206, SCRIPT[2:6])
    assert part.headers["content-range"] == f"bytes 2-5/{len(SCRIPT)}"
    assert (await site.get("/style.css", range="bytes=999-")).status_code == 416
    head = await site.get("/style.css", method="HEAD")
    assert (head.content, head.headers["content-length"]) == (b"", str(len(PAGES["style.css"])))
    posted = await site.get("/style.css", method="POST")
    assert (posted.status_code, posted.headers["allow"]) == (405, "GET, HEAD")


async def test_compressed_forms_have_validators_of_their_own(app: App):
    site = await new_site(app)
    await site.deploy(PAGES)
    path = "/assets/app-3f9Ad2c1.js"
    smallest = await compressed(site, path, "br")
    assert smallest.headers["vary"] == "accept-encoding"
    zipped = await compressed(site, path, "gzip")
    plain = await site.get(path)
    assert plain.content == SCRIPT
    assert len({answer.headers["etag"] for answer in (smallest, zipped, plain)}) == 3
    # httpx decodes gzip itself, and brotli where it is installed.
    assert SCRIPT in {smallest.content, brotli.decompress(smallest.content) if smallest.content != SCRIPT else SCRIPT}
    assert SCRIPT in {zipped.content, gzip.decompress(zipped.content) if zipped.content != SCRIPT else SCRIPT}


async def test_every_path_of_a_sites_host_is_the_sites(app: App):
    site = await new_site(app)
    await site.deploy({"index.html": b"home", "404.html": b"lost"})
    for path in ("/v1/public/tables", "/healthz", "/openapi.json", "/missing", "/../etc/passwd", "/%00"):
        answer = await site.get(path)
        assert answer.status_code == 404, path
        assert b"openapi" not in answer.content
    assert (await site.get("/missing")).content == b"lost"
    assert (await site.get("/missing")).headers["cache-control"] == "no-store"
    assert (await visit(app.server, "nobody-has-this.localhost", "/healthz")).status_code == 404
    assert (await visit(app.server, f"{site.slug.upper()}.LOCALHOST.")).content == b"home"


async def test_a_single_page_application(app: App):
    site = await new_site(app)
    await site.deploy({"index.html": b"<!doctype html><title>App</title>", "app.js": b"x"})
    assert (await site.get("/deep/link", accept="text/html")).status_code == 200
    assert (await site.get("/missing.js", accept="*/*")).status_code == 404
    assert (await site.get("/deep/link", sec_fetch_mode="cors")).status_code == 404


async def test_metadata_is_in_every_answer_at_once(app: App):
    site = await new_site(app)
    await site.deploy({"index.html": b"<!doctype html><head><title>App</title></head>"})
    path = f"{site.path}/page-metas"
    async with app.client() as client:
        for title in ("First", 'Second "><script>alert(1)</script>'):
            written = await client.put(path, json={"path": "/posts/42/", "title": title, "image": "/a.png"})
            assert written.status_code == 200, written.text
            assert written.json()["path"] == "/posts/42"
            page = await site.get("/posts/42", sec_fetch_mode="cors")
            assert page.status_code == 200
            assert title.replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;") in page.text
            assert "<title>App</title>" not in page.text
            assert "<script>" not in page.text
            assert f'content="{site.storage["url"]}/posts/42"' in page.text
        assert (await site.get("/posts/42", if_none_match=page.headers["etag"])).status_code == 304
        assert "<title>App</title>" in (await site.get("/posts/43")).text
        for wrong in ("javascript:alert(1)", "//evil.example/a.png", "data:text/html,x"):
            assert_error(await client.put(path, json={"path": "/x", "image": wrong}), 400, "VALIDATION_FAILED")
        twice = {"pages": [{"path": "/a"}, {"path": "/a/"}]}
        assert_error(await client.post(f"{path}/batch", json=twice), 400, "DUPLICATE_PATH")
        many = {"pages": [{"path": f"/{number}"} for number in range(101)]}
        assert_error(await client.post(f"{path}/batch", json=many), 400, "VALIDATION_FAILED")
        assert (await client.post(f"{path}/batch", json={"pages": []})).json()["total"] == 0
        batch = await client.post(f"{path}/batch", json={"pages": [{"path": "/b", "title": "B"}, {"path": "/c"}]})
        assert batch.json()["success"] == 2
        listed = (await client.get(path, params={"limit": 2})).json()
        assert ([one["path"] for one in listed["pages"]], listed["total_count"]) == (["/b", "/c"], 3)
        assert (await client.get(f"{path}/get", params={"path": "/b"})).json()["title"] == "B"
        assert (await client.delete(path, params={"path": "/b"})).json()["path"] == "/b"
        assert_error(await client.get(f"{path}/get", params={"path": "/b"}), 404, "PAGE_META_NOT_FOUND")
        sitemap = (await site.get("/sitemap.xml")).text
        assert f"<loc>{site.storage['url']}/posts/42</loc>" in sitemap
        assert (await client.delete(f"{path}/all")).json()["deleted_count"] == 2
    assert "<title>App</title>" in (await site.get("/posts/42")).text


async def test_what_is_cached_changes_with_the_site(app: App):
    site = await new_site(app)
    first = await site.deploy({"index.html": b"<!doctype html><title>one</title>", "style.css": b"one"})
    preview = {"suffix": "--v1"}

    async def twice(path: str = "/", **options: str):
        """The second of two equal answers, which is a cached one."""
        before, after = [await site.get(path, **options) for _ in range(2)]
        assert before.status_code == after.status_code
        assert before.content == after.content or after.status_code >= 400, "A page about an error names the request."
        ids = [{name: value for name, value in one.headers.items() if name not in VARYING} for one in (before, after)]
        assert ids[0] == ids[1]
        return after

    old = await twice()
    assert (await twice("/?a=1")).content == old.content
    assert (await twice(if_none_match=old.headers["etag"])).status_code == 304
    assert (await twice(method="HEAD")).content == b""
    assert (await twice(range="bytes=0-1")).content == b"<!"
    assert (await twice("/style.css", if_range='"x"', range="bytes=0-1")).content == b"one"
    await site.deploy({"index.html": b"<!doctype html><title>two</title>", "_headers": b"/*\n  X-Site: second\n"})
    new = await twice(if_none_match=old.headers["etag"])
    assert (new.status_code, new.headers["x-site"]) == (200, "second")
    assert (await twice("/style.css", sec_fetch_mode="no-cors")).status_code == 404
    await site.promote(first["deployment"]["id"])
    assert (await twice()).content == old.content
    async with app.client() as client:
        await client.put(f"{site.path}/page-metas", json={"path": "/", "title": "Shared"})
        shared = await twice()
        assert b"<title>Shared</title>" in shared.content
        tag = shared.headers["etag"]
        for known, status in (
            (tag, 304),
            (f'"other", W/{tag}', 304),
            ("*", 304),
            ('"other"', 200),
            (f"{tag[:-1]}-br", 200),
        ):
            answer = await twice(if_none_match=known)
            assert (answer.status_code, answer.headers["etag"]) == (status, tag), known
        assert (await twice(method="HEAD")).headers["content-length"] == str(len(shared.content))
        assert (await twice(range="bytes=0-8")).content == b"<!doctype"
        await client.delete(f"{site.path}/page-metas", params={"path": "/"})
        assert (await twice()).content == old.content
    async with owner_of(app).client(app) as console:
        assert (await twice(**preview)).status_code == 200
        await console.patch(f"/storages/webs/{site.id}", json={"qa_password": "let me in"})
        assert (await site.get(**preview)).status_code == 401
        await console.delete(f"/storages/webs/{site.id}")
    assert (await site.get()).status_code == 404


async def test_a_file_is_not_sent_again_once_it_is_compressed(app: App):
    site = await new_site(app)
    await site.deploy(PAGES)
    path = "/assets/app-3f9Ad2c1.js"
    plain = await site.get(path)
    zipped = await compressed(site, path, "gzip")
    for known, encodings, status in (
        (plain, "br, gzip", 304),
        (zipped, "br, gzip", 304),
        (zipped, "br", 200),
        (plain, "identity", 304),
    ):
        tag = known.headers["etag"]
        again = await site.get(path, if_none_match=tag, accept_encoding=encodings)
        assert (again.status_code, again.headers["etag"] == tag) == (status, status == 304), encodings


async def test_redirects_and_headers_of_a_site(app: App):
    site = await new_site(app)
    made = await site.deploy(
        {
            "index.html": b"home",
            "_redirects": b"/old/* /new/:splat 301\nbad\n",
            "_headers": b"/*\n  X-Frame-Options: DENY\n  X-Robots-Tag: all\n",
        }
    )
    assert [warning["code"] for warning in made["deployment"]["warnings"]] == ["INVALID_REDIRECT"]
    moved = await site.get("/old/a?b=1")
    assert (moved.status_code, moved.headers["location"]) == (301, "/new/a?b=1")
    assert (await site.get("/")).headers["x-frame-options"] == "DENY"
    assert (await site.get("/", "--v1")).headers.get_list("x-robots-tag") == ["noindex"]


async def test_previews_ask_for_a_password(app: App):
    site = await new_site(app)
    await site.deploy({"index.html": b"home"})
    async with owner_of(app).client(app) as console:
        changed = await console.patch(f"/storages/webs/{site.id}", json={"qa_password": "let me in"})
        assert changed.json()["has_qa_password"] is True
    assert (await site.get("/")).content == b"home"
    asked = await site.get("/", "--v1")
    assert (asked.status_code, asked.headers["www-authenticate"][:5]) == (401, "Basic")
    for password, status in (("wrong", 401), ("let me in", 200), ("let me in", 200)):
        token = base64.b64encode(f"anybody:{password}".encode()).decode()
        assert (await site.get("/", "--v1", authorization=f"Basic {token}")).status_code == status


async def test_an_old_asset_is_preserved(app: App):
    site = await new_site(app)
    old = {"assets/a-0123abcd.js": b"old", "assets/b-0123abcd.js": b"old"}
    await site.deploy({"index.html": b"one", **old, "plain.js": b"old"})
    await site.deploy({"index.html": b"two", "assets/a-4567cdef.js": b"new"})
    assert (await site.get("/assets/a-0123abcd.js")).content == b"old"
    aged = "update pilotis.web_deployments set production_until = now() - interval '7 days 1 minute' where app_id = $1"
    await run_sql(app.server, f"{aged} and production_until is not null", app.app_id)
    assert (await site.get("/assets/b-0123abcd.js")).status_code == 404
    assert (await site.get("/plain.js")).status_code == 404
    assert (await site.get("/assets/a-0123abcd.js", "--v2")).status_code == 404


async def test_a_domain_is_served_once_it_is_verified(app: App):
    site = await new_site(app)
    await site.deploy({"index.html": b"home"})
    hostname = f"www.{site.slug}.example"
    async with owner_of(app).client(app) as console:
        added = await console.post(f"/storages/webs/{site.id}/domains", json={"hostname": hostname.upper() + "."})
        assert added.status_code == 201, added.text
        assert added.json()["txt_name"] == f"_pilotis-challenge.{hostname}"
        for wrong in ("localhost", "a.localhost", "192.0.2.1", "x", "a b.example"):
            refused = await console.post(f"/storages/webs/{site.id}/domains", json={"hostname": wrong})
            assert_error(refused, 400, "VALIDATION_FAILED")
        async with app.client() as client:
            assert_error(await client.get("/v1/sites/ask", params={"domain": hostname}), 404, "SITE_NOT_FOUND")
            own = f"{site.slug}.localhost"
            assert (await client.get("/v1/sites/ask", params={"domain": own})).json() == {"domain": own}
            statement = "update pilotis.web_domains set verified_at = now() where hostname = $1"
            await run_sql(app.server, statement, hostname)
            await run_sql(app.server, "select pg_notify('pilotis', 'site:domains')")
            await until(lambda: served(app, hostname))
            assert (await client.get("/v1/sites/ask", params={"domain": hostname})).status_code == 200
        assert (await console.delete(f"/storages/webs/{site.id}/domains/{hostname}")).status_code == 200


async def test_the_script_of_the_sign_in_knows_the_app_unless_the_site_has_its_own(app: App):
    site = await new_site(app)
    await site.deploy({"index.html": b"home"})
    script = await site.get("/sdk/v1/account.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    known = {"url": app.server.url, "key": app.public_key}
    begin, _, rest = script.text.partition(";\n")
    assert json.loads(begin.removeprefix("var pilotisAccount=")) == known
    async with app.client() as client:
        assert rest == (await client.get("/sdk/v1/account.js")).text
        assert (await site.get("/sdk/v1/pilotis.js")).status_code == 404
    # A key that may not be used from there is not told.
    async with owner_of(app).client(app) as console:
        (key,) = (await console.get("/keys/public")).json()["data"]
        elsewhere = {"allowed_origins": ["https://elsewhere.example"]}
        assert (await console.patch(f"/keys/public/{key['key_id']}", json=elsewhere)).status_code == 200
    await site.deploy({"index.html": b"again"})
    assert '"key":null' in (await site.get("/sdk/v1/account.js")).text
    await site.deploy({"index.html": b"home", "sdk/v1/account.js": b"own"})
    assert (await site.get("/sdk/v1/account.js")).content == b"own"


async def test_a_domain_leads_password_managers_to_the_account_page(app: App):
    """Only a verified domain, unless the site says otherwise, and where members have passwords."""
    path, navigation = "/.well-known/change-password", {"sec_fetch_mode": "navigate", "accept": "text/html"}
    site = await new_site(app, not_found_mode="spa")
    await site.deploy({"index.html": b"home"})
    hostname = f"www.{site.slug}.example"
    async with owner_of(app).client(app) as console:
        await console.post(f"/storages/webs/{site.id}/domains", json={"hostname": hostname})
        assert (await visit(app.server, hostname, path)).headers.get("location") is None
        await run_sql(app.server, "update pilotis.web_domains set verified_at = now() where hostname = $1", hostname)
        await run_sql(app.server, "select pg_notify('pilotis', 'site:domains')")
        await until(lambda: served(app, hostname))
        for method in ("GET", "HEAD"):
            moved = await visit(app.server, hostname, path, method, **navigation)
            assert moved.status_code == 302
            assert moved.headers["location"] == f"{app.server.url}/account/{app.app_id}/account?part=password"
        for suffix in ("", "--qa"):
            assert (await site.get(path, suffix, **navigation)).status_code == 404
        # By it a password manager learns whether answers mean what they say (W3C).
        probe = "/.well-known/resource-that-should-not-exist-whose-status-code-should-not-be-200"
        assert (await visit(app.server, hostname, probe, **navigation)).status_code == 404
        assert (await visit(app.server, hostname, "/anything", **navigation)).content == b"home"
        settings = {"methods": {"password": False}}
        assert (await console.patch("/account-settings", json=settings)).status_code == 200

        async def is_gone() -> bool:
            return (await visit(app.server, hostname, path)).status_code == 404

        await until(is_gone)
        await console.patch("/account-settings", json={"methods": {"password": True}})
        await site.deploy({"index.html": b"home", "_redirects": f"{path} /settings 303\n".encode()})

        async def is_own() -> bool:
            return (await visit(app.server, hostname, path)).headers.get("location") == "/settings"

        await until(is_own)
        assert (await console.delete(f"/storages/webs/{site.id}/domains/{hostname}")).status_code == 200


async def test_a_txt_record_proves_a_domain(app: App, other_app: App):
    site, other = await new_site(app), await new_site(other_app)
    await site.deploy({"index.html": b"mine"})
    hostname = f"shop.{site.slug}.example"
    records: dict[str, str] = {}
    async with (
        name_server(records) as address,
        second_node(app.server, dns_servers=[address]) as node,
        node_client(node, app) as console,
        node_client(node, other_app) as rival,
    ):
        domains, rivals = f"/storages/webs/{site.id}/domains", f"/storages/webs/{other.id}/domains"
        added = (await console.post(domains, json={"hostname": hostname})).json()
        also = (await rival.post(rivals, json={"hostname": hostname})).json()
        assert added["txt_value"] != also["txt_value"]
        assert_error(await console.post(f"{domains}/{hostname}/verify"), 409, "DOMAIN_NOT_VERIFIED")
        records[added["txt_name"]] = "something else"
        assert_error(await console.post(f"{domains}/{hostname}/verify"), 409, "DOMAIN_NOT_VERIFIED")
        assert (await visit(app.server, hostname)).content != b"mine"
        records[added["txt_name"]] = added["txt_value"]
        assert_error(await rival.post(f"{rivals}/{hostname}/verify"), 409, "DOMAIN_NOT_VERIFIED")
        verified = await console.post(f"{domains}/{hostname}/verify")
        assert verified.status_code == 200, verified.text
        assert verified.json()["is_verified"] is True
        await until(lambda: shows(app, hostname, b"mine"))
        # Who has moved the name to another site proves it there once the first has let it go.
        records[added["txt_name"]] = also["txt_value"]
        assert_error(await rival.post(f"{rivals}/{hostname}/verify"), 409, "DOMAIN_TAKEN")
        assert (await console.delete(f"{domains}/{hostname}")).status_code == 200
        assert (await rival.post(f"{rivals}/{hostname}/verify")).status_code == 200
        await until(lambda: shows(app, hostname, b"mine", is_shown=False))


def node_client(node: Node, app: App) -> httpx.AsyncClient:
    """A client of the console's routes of an app, answered by a node of this process."""
    headers = {"Authorization": f"Bearer {app.console['access_token']}"}
    base = f"http://node/v1/apps/{app.app_id}"
    return httpx.AsyncClient(transport=httpx.ASGITransport(node.application), base_url=base, headers=headers)


async def shows(app: App, hostname: str, text: bytes, *, is_shown: bool = True) -> bool:
    return ((await visit(app.server, hostname)).content == text) is is_shown


async def served(app: App, hostname: str) -> bool:
    return (await visit(app.server, hostname)).content == b"home"


async def test_a_host_that_is_no_name_is_not_found(app: App):
    for host in ("x" * 300 + ".localhost", "a..localhost", "--qa.localhost", f"{'y' * 20_000}.localhost"):
        assert (await visit(app.server, host)).status_code == 404
