"""Classes J and L: files that would run in a browser, names that would leave their place, links that would mislead."""

import contextlib
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.test_files import PNG, complete, fixed, permit, put_at, send, storage, upload
from tests.backstage import run_sql
from tests.console import owner_of
from tests.support import App, Server, assert_error, plain_client
from tests.waiting import reserved_port

SCRIPT = (
    b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script><foreignObject><body/></foreignObject></svg>"
)

# Media types of files that browsers run or might; a type with a parameter is another spelling of the same.
RUNNABLE = [
    "text/html",
    "TEXT/HTML",
    "text/html;charset=utf-8",
    'text/html; x="image/png"',
    "text/html;image/png",
    "application/xhtml+xml",
    "application/xml",
    "text/xml",
    "text/xml;charset=utf-8",
    "text/xsl",
    "application/xslt+xml",
    "application/rdf+xml",
    "application/atom+xml",
    "application/rss+xml",
    "application/mathml+xml",
    "application/vnd.mozilla.xul+xml",
    "image/svg+xml;charset=utf-8",
    "image/svg+xml; x=y",
    "application/javascript",
    "text/javascript",
    "text/css",
    "text/vbscript",
    "application/x-shockwave-flash",
    "multipart/related; boundary=x",
    "message/rfc822",
    "multipart/x-mixed-replace; boundary=x",
    "application/octet-stream",
    "text/plain",
    "image/png;x=text/html",
]
EXTENSIONS = ["html", "htm", "svg", "svgz", "xht", "xhtml", "xml", "xsl", "xslt", "shtml", "mht", "js", "png"]


def assert_harmless(served: httpx.Response) -> None:
    assert served.headers["x-content-type-options"] == "nosniff"
    policy = served.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "sandbox" in policy.split("; ")
    assert "script-src" not in policy
    assert "allow-" not in policy
    assert "set-cookie" not in served.headers


@pytest.mark.share(0.34)
@pytest.mark.advisory("GHSA-hcj7-6gxh-24ww", "GHSA-v5hf-f4c3-m5rv", "GHSA-42ph-pf9q-cr72", "parse-server#10158")
@pytest.mark.parametrize("mime_type", RUNNABLE)
async def test_what_a_browser_might_run_is_saved_and_never_shown(app: App, mime_type: str):
    base = await storage(app)
    async with app.client() as client:
        body = {"file_name": "evil.html", "file_size": len(SCRIPT), "mime_type": mime_type}
        if (await client.post(f"{base}/presigned-url", json=body)).status_code == 400:
            # No media type at all (RFC 9110, section 8.3.1).
            assert mime_type in {"text/html;image/png", "image/png;x=text/html"}
            return
        item = await upload(client, base, SCRIPT, file_name="evil.html", mime_type=mime_type)
        at_path = await put_at(client, base, "evil/page.html", SCRIPT)
        for address in (item["url"], item["url"] + "?x=.png", item["url"] + "?download=0&inline=1"):
            for headers in ({}, {"Range": "bytes=0-9"}, {"Accept": "text/html"}, {"Sec-Fetch-Dest": "document"}):
                served = await client.get(address, headers=headers)
                assert served.headers["content-disposition"].startswith("attachment;")
                assert_harmless(served)
        assert_harmless(await client.get(at_path["url"]))
        assert_harmless(await client.head(item["url"]))


@pytest.mark.advisory("GHSA-hcj7-6gxh-24ww")
async def test_a_picture_that_holds_a_script_is_shown_in_a_sandbox(app: App):
    base = await storage(app)
    async with app.client() as client:
        for mime_type in ("image/svg+xml", "application/pdf"):
            item = await upload(client, base, SCRIPT, file_name=mime_type[-3:], mime_type=mime_type)
            assert_harmless(await client.get(item["url"]))
            not_modified = await client.get(item["url"], headers={"If-None-Match": "*"})
            assert_harmless(not_modified)


@pytest.mark.advisory("GHSA-vr5f-2r24-w5hc", "GHSA-v5hf-f4c3-m5rv")
@pytest.mark.parametrize("extension", EXTENSIONS)
async def test_the_name_says_nothing_about_the_type(app: App, extension: str):
    """A picture by its type with a page's name is served as what it was declared, and a page with a picture's too."""
    base = await storage(app)
    async with app.client() as client:
        for mime_type, shown in (("image/png", "inline"), ("text/html", "attachment")):
            item = await upload(client, base, SCRIPT, file_name=f"{shown}.{extension}", mime_type=mime_type)
            served = await client.get(item["url"])
            assert served.headers["content-type"] == mime_type
            assert served.headers["content-disposition"].startswith(shown)
            assert_harmless(served)
        permitted = await permit(client, base, SCRIPT, file_name=f"b.{extension}", mime_type="image/png")
        for other in ("text/html", "image/png;charset=utf-7", "image/PNG, text/html", "image/svg+xml"):
            assert_error(await send(permitted, SCRIPT, **{"Content-Type": other}), 400, "CONTENT_TYPE_MISMATCH")


@pytest.mark.advisory("GHSA-42ph-pf9q-cr72")
async def test_allowed_types_are_not_passed_by_a_parameter(app: App):
    base = await storage(app, allowed_mime_types=["image/png"])
    async with app.client() as client:
        for mime_type in (
            "text/html;image/png",
            "text/html; x=image/png",
            'text/html;"image/png"',
            "image/png,text/html",
            "image/pngx",
            "ximage/png",
            "image/*",
            "*/*",
            "image/png\n",
            " image/png",
        ):
            body = {"file_name": "a", "file_size": 1, "mime_type": mime_type}
            answer = await client.post(f"{base}/presigned-url", json=body)
            assert answer.status_code in {400, 415}, (mime_type, answer.text)


PLACES_ELSEWHERE = [
    "../evil",
    "a/../../evil",
    "..",
    "./a",
    "/etc/passwd",
    "//host/share",
    "\\\\host\\share",
    "..\\evil",
    "C:\\evil",
    "a\0.png",
    "a\r\nX-Evil: 1",
    "a\x7f",
    "a\u2028b",
    "\u202egnp.exe",
    "x" * 300,
    "",
]


@pytest.mark.advisory("GHSA-hm3f-q6rw-m6wh", "parse-server#10242")
async def test_no_name_leads_out_of_its_storage(app: App):
    base, other = await storage(app), await storage(app, name="other")
    async with app.client() as client:
        await upload(client, other, b"secret", file_name="secret")
        for name in PLACES_ELSEWHERE:
            body = {"file_name": name, "file_size": 1, "mime_type": "a/b"}
            for answer in (
                await client.post(f"{base}/presigned-url", json=body),
                await client.post(f"{base}/folders", json={"name": name}),
            ):
                assert_error(answer, 400, "VALIDATION_FAILED" if "\0" in name else "INVALID_PATH")
        storage_id, other_id = (address.rpartition("/")[2] for address in (base, other))
        for path in (
            "%2e%2e/secret",
            "..%2fsecret",
            "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
            "a/%2e%2e/%2e%2e/secret",
            f"..%2f{other_id}%2fsecret",
            "%2fetc%2fpasswd",
            "%5c%5chost%5cshare",
            "%00",
            "secret%00.png",
            "en/../../secret",
            "%c0%ae%c0%ae/secret",
        ):
            for address in (
                f"{base}/path/{path}",
                f"/files/{storage_id}/p/{path}",
                f"/files/{storage_id}/{other_id}/{path}",
            ):
                raw = httpx.URL(app.server.url).copy_with(raw_path=address.encode())
                answer = await client.get(raw)
                assert answer.status_code in {400, 404}, (address, answer.text)
                assert "secret" not in answer.text.replace(path, "")
            answer = await client.post(
                httpx.URL(app.server.url).copy_with(raw_path=f"{base}/presigned-url/path/{path}".encode()),
                json={"file_size": 1, "mime_type": "a/b"},
            )
            assert answer.status_code in {400, 404}, (path, answer.text)
    kept = await run_sql(app.server, "select array_agg(path) from pilotis.files where app_id = $1", app.app_id)
    assert kept == ["secret"]


@pytest.mark.advisory("CVE-2026-21858", "CVE-2026-21877")
async def test_a_body_is_what_its_route_takes_whatever_its_type_says(app: App):
    """JSON is never taken for a form, a form never for JSON, and no field of either names a file of the server."""
    base = await storage(app)
    forged = {"files": {"file": {"filepath": "/etc/passwd", "originalFilename": "a", "size": 1, "mimetype": "a/b"}}}
    form = (
        b'--x\r\nContent-Disposition: form-data; name="file_name"; filename="/etc/passwd"\r\n\r\na\r\n--x--\r\n',
        {"Content-Type": "multipart/form-data; boundary=x"},
    )
    async with app.client() as client:
        routes = [f"{base}/presigned-url", f"{base}/presigned-url/path/a", f"{base}/complete-upload", f"{base}/folders"]
        for path in routes:
            assert_error(await client.post(path, json=forged), 400, "VALIDATION_FAILED")
            assert_error(await client.post(path, content=form[0], headers=form[1]), 415, "UNSUPPORTED_MEDIA_TYPE")
            mixed = json.dumps(forged).encode()
            assert_error(await client.post(path, content=mixed, headers=form[1]), 415, "UNSUPPORTED_MEDIA_TYPE")
        permitted = await permit(client, base, form[0], mime_type="image/png")
        assert_error(await send(permitted, form[0], **form[1]), 400, "CONTENT_TYPE_MISMATCH")
        assert (await send(permitted, form[0])).status_code == 200
        item = (await complete(client, base, permitted)).json()
        assert (await client.get(item["url"])).content == form[0]


@pytest.mark.advisory("GHSA-3529-5m8x-rpv3", "CVE-2026-22794", "GHSA-vm5r-c87r-pf6x")
async def test_links_come_from_the_servers_own_address(app: App):
    """Not from what a request says of where it was sent: a stranger's link in an answer would be followed by others."""
    base = await storage(app)
    poisons = {
        "Host": "evil.example",
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Proto": "javascript",
        "X-Forwarded-Prefix": "/evil",
        "X-Forwarded-For": "203.0.113.9",
        "Forwarded": "host=evil.example;proto=https;for=203.0.113.9",
        "X-Original-URL": "/evil",
        "X-Rewrite-URL": "/evil",
        "Origin": "https://evil.example",
        "Referer": "https://evil.example/",
    }
    async with app.client() as client, owner_of(app).client(app) as console:
        for name, value in poisons.items():
            headers = {name: value}
            body = {"file_name": f"{name}.png", "file_size": len(PNG), "mime_type": "image/png"}
            answer = await client.post(f"{base}/presigned-url", json=body, headers=headers)
            assert answer.status_code == 200, answer.text
            permitted = answer.json()
            for url in (permitted["upload_url"], permitted["public_url"]):
                assert url.startswith(app.server.url + "/"), (name, url)
            assert (await send(permitted)).status_code == 200
            done = await client.post(f"{base}/complete-upload", json={"file_id": permitted["file_id"]}, headers=headers)
            assert done.json()["url"] == permitted["public_url"]
            listed = await client.get(f"{base}/items", headers=headers)
            signed = await client.post(
                f"{base}/items/{permitted['file_id']}/signed-url", json={"expires_seconds": 60}, headers=headers
            )
            assert signed.json()["url"].startswith(app.server.url + "/")
            invited = await console.post(
                "/invitations", json={"email": f"{name}@example.com", "role": "viewer"}, headers=headers
            )
            for one in (listed, invited, await client.get("/openapi.json", headers=headers)):
                assert one.status_code < 300, (name, one.text[:200])
                assert "evil.example" not in one.text


@pytest.mark.advisory("GHSA-3529-5m8x-rpv3", "CVE-2026-22794")
async def test_a_configured_address_is_the_only_one_in_links(tmp_path: Path):
    with contextlib.ExitStack() as cleanup:
        port = cleanup.enter_context(reserved_port())
        server = Server(tmp_path / "data", "--base-url", "https://api.example.com", "--port", str(port)).start()
        cleanup.callback(server.stop)
        assert f"https://api.example.com/setup#{server.setup_token}" in server.output
        async with plain_client(f"http://127.0.0.1:{port}") as client:
            user = {"email": "first@example.com", "password": "correct horse battery", "token": server.setup_token}
            token = (await client.post("/v1/auth/signup", json=user)).json()["access_token"]
            client.headers["Authorization"] = f"Bearer {token}"
            made = (await client.post("/v1/apps", json={"name": "a"})).json()
            client.headers["X-Public-Key"] = made["public_key"]
            storage_ = await client.post(f"/v1/apps/{made['app_id']}/storages/files", json={"name": "f"})
            path = f"/v1/public/storages/files/{storage_.json()['id']}/presigned-url"
            body = {"file_name": "a", "file_size": 1, "mime_type": "a/b"}
            for headers in ({}, {"Host": "evil.example"}, {"X-Forwarded-Host": "evil.example"}):
                permitted = (await client.post(path, json=body, headers=headers)).json()
                assert permitted["upload_url"].startswith("https://api.example.com/v1/uploads/")
                assert permitted["public_url"].startswith("https://api.example.com/files/")


@pytest.mark.advisory("parse-server#10237")
async def test_no_name_adds_a_header(app: App):
    """What cannot be refused in a name is encoded; line ends cannot be stored at all."""
    base = await storage(app)
    names = ['a";x="b', "a;b=c.png", "a%0d%0aX-Evil: 1", "é\u00a0x.png", "a'*'b", "x y", "a=b, c=d"]
    async with app.client() as client:
        for line_end in ("\r", "\n", "\r\n", "\x0b", "\x0c", "\x85", "\u2028", "\x00", "\x1b"):
            body = {"file_name": f"a{line_end}X-Evil: 1", "file_size": 1, "mime_type": "a/b"}
            answer = await client.post(f"{base}/presigned-url", json=body)
            assert answer.status_code == 400, answer.text
            body = {"file_name": "a", "file_size": 1, "mime_type": f"a/b{line_end}X-Evil: 1"}
            assert_error(await client.post(f"{base}/presigned-url", json=body), 400, "VALIDATION_FAILED")
        for name in names:
            item = await upload(client, base, file_name=name)
            served = await client.get(item["url"])
            assert "x-evil" not in served.headers
            header = served.headers["content-disposition"]
            assert header.isascii()
            assert header.isprintable()
            assert header.count('"') == 2


@pytest.mark.advisory("parse-server#10237")
async def test_no_header_of_a_request_adds_one_to_its_answer(app: App):
    async with plain_client(app.server.url) as client:
        for value in (b"abcdefgh\r\nX-Evil: 1", b"a" * 5000, b"\x00" * 10, "é".encode() * 10, b"<script>alert(1)"):
            try:
                answer = await client.get("/healthz", headers={b"X-Request-Id": value, b"Origin": b"null"})
            except (httpx.LocalProtocolError, ValueError):
                continue  # the client itself sends no such header
            assert "x-evil" not in answer.headers
            assert answer.headers["x-request-id"].encode() != value


@pytest.mark.advisory("GHSA-hwx8-q9cg-mqmc")
async def test_an_upload_that_is_not_completed_is_known_to_nobody(app: App, other_app: App):
    base, foreign = await storage(app), await storage(other_app)
    async with app.client() as client, other_app.client() as other:
        permitted = await permit(client, base)
        await send(permitted)
        for reader, where in ((client, base), (other, foreign)):
            assert (await reader.get(f"{where}/items")).json()["total_count"] == 0
            answer = await reader.delete(f"{where}/items/{permitted['file_id']}")
            assert_error(answer, 404, "FILE_NOT_FOUND")
            answer = await reader.post(f"{where}/items/{permitted['file_id']}/signed-url", json={})
            assert_error(answer, 404, "FILE_NOT_FOUND")
        body: dict[str, Any] = {"file_id": permitted["file_id"]}
        assert_error(await other.post(f"{foreign}/complete-upload", json=body), 404, "FILE_NOT_FOUND")
        assert_error(await other.post(f"{base}/complete-upload", json=body), 404, "STORAGE_NOT_FOUND")
        assert_error(await fixed(other, base, "a.png", overwrite=True), 404, "STORAGE_NOT_FOUND")
        assert (await complete(client, base, permitted)).status_code == 200
