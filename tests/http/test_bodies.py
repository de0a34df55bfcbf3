"""Bodies and replies other than JSON: forms, multipart, raw bytes, cookies, pages, redirects, error styles."""

import hashlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from pilotis.http.api.bodies import Form, Json, Raw
from pilotis.http.api.cookies import Cookie, CookiesWithPrefix, SetCookie
from pilotis.http.api.endpoint import Endpoints, get, post
from pilotis.http.api.incoming import Incoming
from pilotis.http.api.multipart import MAX_PARTS, Multipart
from pilotis.http.api.openapi import document
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.replies.page import Page
from pilotis.http.replies.redirect import Redirect
from pilotis.kit.errors import ForbiddenError
from tests.http.bare import application, serving
from tests.support import assert_error

OWN = "http://own.example"


class Sent(msgspec.Struct):
    name: str
    count: int = 0


class PartSeen(msgspec.Struct):
    name: str
    filename: str | None
    content_type: str | None
    size: int
    digest: str


def allowed_origin(request: Incoming) -> str | None:
    origin = request.header(b"origin")
    return origin if origin == "https://client.example" else None


class Everything(Endpoints, tag="Everything", error_styles={"/pages": "page", "/pages/token": "oauth"}):
    @post("/json", access=Access.OPEN, cors="none")
    async def json(self, call: Call, body: Json[Sent]) -> Sent:
        """Take JSON."""
        return body

    @post("/maybe", access=Access.OPEN)
    async def maybe(self, call: Call, body: Form[Sent] | None) -> Sent:
        """Take a form, or nothing."""
        return body or Sent("nothing")

    @post("/form", access=Access.OPEN, cors=allowed_origin)
    async def form(self, call: Call, body: Form[Sent]) -> Sent:
        """Take a form."""
        return body

    @post("/raw", access=Access.OPEN)
    async def raw(self, call: Call, body: Raw) -> list[int]:
        """Take bytes."""
        return [len(body)]

    @post("/parts", access=Access.OPEN)
    async def parts(self, call: Call, body: Multipart) -> list[PartSeen]:
        """Take parts, of which one named `passed over` is not read."""
        seen = []
        async for part in body:
            digest, size = hashlib.sha256(), 0
            if part.name != "passed over":
                async for piece in part:
                    digest.update(piece)
                    size += len(piece)
            seen.append(PartSeen(part.name, part.filename, part.content_type, size, digest.hexdigest()))
        return seen

    @post("/small", access=Access.OPEN)
    async def small(self, call: Call, body: Multipart) -> list[str]:
        """Take parts of at most 10 bytes."""
        return [(await part.read(10)).decode() async for part in body]

    @get("/cookies", access=Access.OPEN, origins="any")
    async def cookies(
        self,
        call: Call,
        session: Annotated[str | None, Cookie("__Host-session")],
        others: Annotated[dict[str, str], CookiesWithPrefix("__Host-op-")],
    ) -> dict[str, Any]:
        """Return the cookies."""
        return {"session": session, "others": others}

    @post("/own", access=Access.OPEN, origins="own")
    async def own(self, call: Call, session: Annotated[str | None, Cookie("__Host-session")]) -> list[str | None]:
        """Act on a cookie."""
        return [session]

    @get("/own", access=Access.OPEN, origins="own")
    async def read_own(self, call: Call, session: Annotated[str | None, Cookie("__Host-session")]) -> list[str | None]:
        """Read by a cookie."""
        return [session]

    @get("/pages/page", access=Access.OPEN)
    async def page(self, call: Call) -> Page:
        """Show a page."""
        cookie = SetCookie(name="__Host-session", value="abc", max_age=60)
        style = "p{color:red}"
        return Page(html=f"<style>{style}</style><p>é", styles=[style], form_action=["'self'"], cookies=[cookie])

    @post("/pages/go", access=Access.OPEN)
    async def go(self, call: Call) -> Redirect | Page:
        """Lead on."""
        return Redirect(location="https://client.example/?code=1")

    @post("/pages/token", access=Access.OPEN)
    async def token(self, call: Call, body: Form[Sent]) -> Sent:
        """Take a form."""
        return body

    @get("/pages/refused", access=Access.OPEN)
    async def refused(self, call: Call) -> Page:
        """Refuse."""
        raise ForbiddenError("<b>no</b>")


@pytest_asyncio.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with serving(application(Everything(), base_url=OWN)) as address, httpx.AsyncClient(base_url=address) as made:
        yield made


def multipart(*parts: tuple[str, bytes], boundary: str = "edge", end: str = "--") -> tuple[bytes, dict[str, str]]:
    body = b"".join(f"--{boundary}\r\n{head}\r\n\r\n".encode() + data + b"\r\n" for head, data in parts)
    return body + f"--{boundary}{end}\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


async def test_a_form(client: httpx.AsyncClient):
    answer = await client.post("/form", data={"name": "a b&é", "count": "7", "unknown": "x"})
    assert answer.json() == {"name": "a b&é", "count": 7}
    assert (await client.post("/form", data={"name": "null"})).json()["name"] == "null"
    assert (await client.post("/maybe")).json()["name"] == "nothing"


FORM = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"name=a&name=a", 400, "VALIDATION_FAILED"),
        (b"name=a&unknown=1&unknown=2", 400, "VALIDATION_FAILED"),
        (b"count=1", 400, "VALIDATION_FAILED"),
        (b"name=a&count=x", 400, "VALIDATION_FAILED"),
        (b"name=%00", 400, "VALIDATION_FAILED"),
        (b"name=%ff", 400, "MALFORMED_FORM"),
        (b"name=\xc3\xa9", 400, "MALFORMED_FORM"),
        (b"name=a" + b"&x=" * 1001, 400, "MALFORMED_FORM"),
        (b"name=" + b"a" * 65_536, 413, "PAYLOAD_TOO_LARGE"),
    ],
)
async def test_a_wrong_form(client: httpx.AsyncClient, body: bytes, status: int, code: str):
    assert_error(await client.post("/form", content=body, headers=FORM), status, code)


async def test_a_form_of_another_type(client: httpx.AsyncClient):
    assert_error(await client.post("/form", json={"name": "a"}), 415, "UNSUPPORTED_MEDIA_TYPE")


async def test_json_and_raw_bytes(client: httpx.AsyncClient):
    assert (await client.post("/json", json={"name": "a"})).json() == {"name": "a", "count": 0}
    assert_error(await client.post("/json", data={"name": "a"}), 415, "UNSUPPORTED_MEDIA_TYPE")
    assert (await client.post("/raw", content=b"\xff" * 100, headers={"Content-Type": "text/weird"})).json() == [100]
    assert_error(await client.post("/raw", content=b"a" * 20_000_000), 413, "PAYLOAD_TOO_LARGE")


async def test_parts_of_any_size(client: httpx.AsyncClient):
    large = b"\r\n--edg" * 100_000
    body, headers = multipart(
        ('Content-Disposition: form-data; name="file"; filename="é.zip"\r\nContent-Type: application/zip', large),
        ('content-disposition: form-data; name="passed over"', b"x" * 100_000),
        ('Content-Disposition: form-data; name="empty"', b""),
    )
    answer = await client.post("/parts", content=body, headers=headers)
    assert answer.json() == [
        {
            "name": "file",
            "filename": "é.zip",
            "content_type": "application/zip",
            "size": len(large),
            "digest": hashlib.sha256(large).hexdigest(),
        },
        {
            "name": "passed over",
            "filename": None,
            "content_type": None,
            "size": 0,
            "digest": hashlib.sha256().hexdigest(),
        },
        {"name": "empty", "filename": None, "content_type": None, "size": 0, "digest": hashlib.sha256().hexdigest()},
    ]


NOTHING = {"filename": None, "content_type": None, "size": 0, "digest": hashlib.sha256().hexdigest()}
PART = ('Content-Disposition: form-data; name="a"', b"1")


@pytest.mark.parametrize(
    "sent",
    [
        multipart(PART, end=""),
        multipart(("Content-Type: text/plain", b"1")),
        multipart(("Content-Disposition: attachment; name=a", b"1")),
        multipart(("Content-Disposition: form-data", b"1")),
        multipart(('Content-Disposition: form-data; name="a\0"', b"1")),
        multipart(*[PART] * (MAX_PARTS + 1)),
        multipart(("\r\n".join([PART[0], *[f"X-{index}: 1" for index in range(20)]]), b"1")),
        multipart((PART[0] + "\r\nX-Long: " + "x" * 10_000, b"1")),
        multipart(PART, boundary="b" * 300),
        (b"nothing of the kind", {"Content-Type": "multipart/form-data; boundary=edge"}),
        (b"", {"Content-Type": "multipart/form-data; boundary=edge"}),
        (b"--\r\n", {"Content-Type": "multipart/form-data"}),
    ],
)
async def test_wrong_parts(client: httpx.AsyncClient, sent: tuple[bytes, dict[str, str]]):
    answer = await client.post("/parts", content=sent[0], headers=sent[1])
    assert_error(answer, 400, "MALFORMED_MULTIPART")


async def test_parts_of_another_type_and_parts_that_are_too_large(client: httpx.AsyncClient):
    assert_error(await client.post("/parts", json={}), 415, "UNSUPPORTED_MEDIA_TYPE")
    body, headers = multipart(PART, (PART[0], b"x" * 11))
    assert_error(await client.post("/small", content=body, headers=headers), 413, "PAYLOAD_TOO_LARGE")
    body, headers = multipart(PART, (PART[0], b"x" * 10))
    assert (await client.post("/small", content=body, headers=headers)).json() == ["1", "x" * 10]


async def test_cookies_are_read_and_set(client: httpx.AsyncClient):
    header = {"Cookie": "session=s; op-1=a; op-2=b=c; other=x; session=second; broken"}
    answer = await client.get("/cookies", headers=header)
    assert answer.json() == {"session": "s", "others": {"__Host-op-1": "a", "__Host-op-2": "b=c"}}
    assert (await client.get("/cookies")).json() == {"session": None, "others": {}}
    page = await client.get("/pages/page")
    assert page.headers["set-cookie"] == "session=abc; Path=/; HttpOnly; SameSite=Lax; Max-Age=60"


async def test_cookies_by_https():
    everything = application(Everything(), base_url="https://own.example")
    async with serving(everything) as address, httpx.AsyncClient(base_url=address) as client:
        answer = await client.get("/cookies", headers={"Cookie": "session=plain; __Host-session=s; __Host-op-1=a"})
        assert answer.json() == {"session": "s", "others": {"__Host-op-1": "a"}}
        page = await client.get("/pages/page")
        assert page.headers["set-cookie"] == "__Host-session=abc; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure"


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {"Origin": OWN}, 200),
        ("POST", {"Origin": "https://evil.example"}, 403),
        ("POST", {"Origin": "null"}, 403),
        ("POST", {"Origin": OWN + ".evil.example"}, 403),
        ("POST", {}, 403),
        ("GET", {}, 200),
        ("GET", {"Sec-Fetch-Site": "same-origin"}, 200),
        ("GET", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("GET", {"Origin": "https://evil.example"}, 403),
    ],
)
async def test_a_route_with_cookies_asks_for_the_origin(
    client: httpx.AsyncClient, method: str, headers: dict[str, str], status: int
):
    answer = await client.request(method, "/own", headers=headers | {"Cookie": "session=s"})
    assert answer.status_code == status, answer.text


def test_a_route_with_cookies_must_name_its_origins():
    class Careless(Endpoints, tag="Careless"):
        @get("/careless", access=Access.OPEN)
        async def read(self, call: Call, session: Annotated[str | None, Cookie("__Host-session")]) -> None:
            """Read a cookie."""

    with pytest.raises(TypeError, match="origins"):
        Careless().table()


@pytest.mark.parametrize(
    "wrong", [{"value": "a;b"}, {"value": "a\r\nb"}, {"name": "a b"}, {"name": ""}, {"path": "/x"}, {"value": "é"}]
)
def test_a_cookie_that_a_browser_would_drop(wrong: dict[str, str]):
    with pytest.raises(ValueError, match="cookie"):
        SetCookie(**{"name": "__Host-a", "value": "b"} | wrong)


async def test_a_page_lets_in_only_what_it_names(client: httpx.AsyncClient):
    page = await client.get("/pages/page")
    policy = dict(directive.split(" ", 1) for directive in page.headers["content-security-policy"].split("; "))
    assert page.text.endswith("<p>é")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert policy["default-src"] == policy["script-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["style-src"].startswith("'sha256-")
    assert policy["form-action"] == "'self'"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"


async def test_a_redirect_is_a_303(client: httpx.AsyncClient):
    answer = await client.post("/pages/go")
    assert (answer.status_code, answer.headers["location"]) == (303, "https://client.example/?code=1")
    for location in ("https://a/\r\nX: 1", "https://a/é", "/a b"):
        with pytest.raises(ValueError, match="percent-encoded"):
            Redirect(location=location).reply()


async def test_errors_look_as_their_path_says(client: httpx.AsyncClient):
    missing, method = await client.get("/pages/nowhere"), await client.delete("/pages/page")
    refused, large = await client.get("/pages/refused"), await client.post("/pages/token", content=b"x" * 70_000)
    assert [answer.status_code for answer in (missing, method, refused, large)] == [404, 405, 403, 413]
    for page in (missing, method, refused):
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["x-request-id"] in page.text
    assert "<b>no</b>" not in refused.text
    assert "&lt;b&gt;no&lt;/b&gt;" in refused.text
    assert method.headers["allow"] == "GET, HEAD, OPTIONS"
    assert large.json()["error"] == "invalid_request"
    assert large.headers["cache-control"] == "no-store"
    below = await client.get("/pages/token/nowhere")
    assert set(below.json()) == {"error", "error_description"}
    assert_error(await client.get("/pagesnot"), 404, "NOT_FOUND")


async def test_whose_pages_may_read_an_answer(client: httpx.AsyncClient):
    for origin, allowed in (("https://client.example", "https://client.example"), ("https://evil.example", None)):
        headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        for answer in (
            await client.post("/form", data={"name": "a"}, headers=headers),
            await client.options("/form", headers=headers),
        ):
            assert answer.headers.get("access-control-allow-origin") == allowed
            assert answer.headers["vary"] == "origin"
        for answer in (
            await client.post("/json", json={"name": "a"}, headers=headers),
            await client.options("/json", headers=headers),
        ):
            assert "access-control-allow-origin" not in answer.headers
            assert "access-control-allow-headers" not in answer.headers
        assert (await client.post("/raw", headers=headers)).headers["access-control-allow-origin"] == "*"


def test_the_document_tells_bodies_and_answers():
    paths = document(Everything().table(), base_url=OWN, version="0")["paths"]
    contents = {path: next(iter(paths[path]["post"]["requestBody"]["content"])) for path in ("/form", "/parts", "/raw")}
    assert contents == {
        "/form": "application/x-www-form-urlencoded",
        "/parts": "multipart/form-data",
        "/raw": "application/octet-stream",
    }
    assert list(paths["/pages/page"]["get"]["responses"]["200"]["content"]) == ["text/html"]
    assert "303" not in paths["/pages/page"]["get"]["responses"]
