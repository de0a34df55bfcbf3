"""What the console asks for is in the OpenAPI description: `visit` holds each request of each test against it."""

from playwright.async_api import Request

from tests.console.conftest import Opening, sign_in
from tests.console.described import undescribed
from tests.console.furnished import Furnished
from tests.console.in_use import screens_of
from tests.support import App, Server


async def test_the_screens_of_an_app_in_use_ask_for_much_that_is_described(
    server: Server, in_use: tuple[App, Furnished], visit: Opening
) -> None:
    app, content = in_use
    asked: set[str] = set()

    def note(request: Request) -> None:
        if "/v1/" in request.url:
            asked.add(f"{request.method} {request.url}")

    async with visit("about:blank") as page:
        page.on("request", note)
        await sign_in(page, server, "/profile")
        async for _ in screens_of(page, app, content):
            pass
    assert len(asked) > 40


def test_what_is_not_described_is_told_from_what_is() -> None:
    upload = "http://any/v1/uploads/tus/0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38?expires=1&signature=2"
    assert undescribed("HEAD", upload) == []
    assert undescribed("GET", "http://any/v1/apps?limit=1&offset=0") == []
    assert undescribed("GET", "http://any/v1/public/storages/files/any/path/a/b.png") == []
    assert undescribed("GET", "http://any/console") == []
    assert undescribed("GET", "http://any/v1/apps?limi=1") == ["The OpenAPI description has no limi in GET /v1/apps"]
    assert undescribed("POST", "http://any/v1/nowhere") == ["The OpenAPI description has no POST /v1/nowhere"]
    assert undescribed("HEAD", "http://any/v1/apps") == ["The OpenAPI description has no HEAD /v1/apps"]
