"""`examples/sign-in-with` in a real browser: a shop, and two programs on origins of their own that sign in with it."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests import shared
from tests.chromium import chromium, keep_picture
from tests.conftest import PASSWORD as CONSOLE_PASSWORD
from tests.oauth.browsing import PASSWORD
from tests.support import Server
from tests.waiting import PATIENCE, reserved_port, until

pytestmark = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="there is no node with npm, which the programs need"
)
FOLDER = Path(__file__).parents[2] / "examples" / "sign-in-with"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its libraries."""
    folder = tmp_path_factory.mktemp("sign-in-with")
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    return shared.install_npm(folder)


@pytest.fixture
def started(folder: Path, signing: tuple[Server, dict[str, str]]) -> Iterator[list[str]]:
    """The addresses of the shop and of the two programs, which run."""
    with contextlib.ExitStack() as stack:
        ports = [str(stack.enter_context(reserved_port())) for _ in range(2)]
        server = signing[0]
        options = [
            "--url",
            server.url,
            "--email",
            "first@example.com",
            "--password",
            CONSOLE_PASSWORD,
            "--port",
            "0",
            "--ports",
            *ports,
        ]

        def run(command: list[str], **environment: str) -> "subprocess.Popen[str]":
            variables = {"PATH": os.environ["PATH"], **environment}
            process = stack.enter_context(
                subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=variables)
            )
            stack.callback(process.kill)
            return process

        preparing = run([sys.executable, "-u", "prepare.py", *options])
        assert preparing.stdout is not None
        _, *commands = [preparing.stdout.readline() for _ in range(3)]
        shop = re.search(r"http://\S+", preparing.stdout.readline())
        assert shop is not None
        addresses = [shop[0]]
        for command in commands:
            *variables, program, file = shlex.split(command)
            process = run([program, file], **dict(variable.split("=", 1) for variable in variables))
            assert process.stdout is not None
            address = re.search(r"http://\S+", process.stdout.readline())
            assert address is not None
            addresses.append(address[0])
        yield addresses


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A real browser, in place of the one that follows redirects over HTTP."""
    async with chromium() as running:
        yield running


@pytest.fixture
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    made = await browser.new_context(locale="en-GB", viewport={"width": 1280, "height": 900})
    made.set_default_timeout(PATIENCE * 1000)
    yield made
    await made.close()


async def order(shop: Page, item: str) -> None:
    await shop.get_by_label("What would you like?").fill(item)
    await shop.get_by_role("button", name="Order").click()
    await expect(shop.get_by_role("status")).to_have_text(f"Ordered: {item}.")


async def picture(page: Page, name: str) -> None:
    """Keep what a person sees, wide and narrow, light and dark."""
    for width in (1280, 390):
        for scheme in ("light", "dark"):
            await page.set_viewport_size({"width": width, "height": 900})
            await page.emulate_media(color_scheme=scheme)
            await keep_picture(page, f"sign-in-with-{name}-{width}-{scheme}")


async def shows(program: Page, *items: str) -> None:
    """Wait until a program shows these orders and no others."""

    async def look() -> bool:
        await program.reload()
        return await program.locator("ol li span").all_inner_texts() == list(items)

    await until(look)


async def test_a_customer_connects_two_programs_and_leaves_them(context: BrowserContext, started: list[str]):
    shop, books, letter = [await context.new_page() for _ in range(3)]
    await shop.goto(started[0])
    await shop.get_by_label("Name").fill("ada")
    await shop.get_by_label("Password").fill(PASSWORD)
    await picture(shop, "shop-signin")
    await shop.get_by_role("button", name="Become a customer").click()
    await order(shop, "first tea")

    # Sign in and consent at the shop's own page; read the name.
    await books.goto(started[1])
    await picture(books, "books-out")
    await books.get_by_role("link", name="Sign in with the tea shop").click()
    await books.fill("#login", "ada")
    await books.fill("#password", PASSWORD)
    await books.click("form[data-form=sign-in] button")
    await expect(books.locator("#scopes")).to_contain_text("See your orders")
    await books.click("#allow")
    await books.wait_for_url(started[1])
    await expect(books.locator("#name")).to_have_text("ada")
    await expect(books.get_by_role("status")).to_have_text("We have not been told of any order yet.")

    # Receive an event.
    await order(shop, "<b>green</b> tea")
    await shows(books, "<b>green</b> tea")
    await picture(books, "books")

    # The second program needs no password, and has its own consent.
    await letter.goto(started[2])
    await letter.get_by_role("link", name="Sign in with the tea shop").click()
    await letter.click("#allow")
    await letter.wait_for_url(started[2])
    await order(shop, "black tea")
    await shows(books, "<b>green</b> tea", "black tea")
    await shows(letter, "black tea")
    await expect(shop.locator("#connections li")).to_have_count(2)
    await picture(shop, "shop")

    # Disconnect the first: it receives no more. The second's event shows that the order has been dispatched.
    line = shop.locator("#connections li", has_text="Bookkeeper")
    await line.get_by_role("button", name="Disconnect").click()
    await expect(shop.get_by_role("status")).to_have_text("Bookkeeper is disconnected.")
    await order(shop, "white tea")
    await shows(letter, "black tea", "white tea")
    # A disconnected program is notified that its session has ended.
    await expect_signed_out(books)

    # Connect it again, and log out everywhere: the other program is signed out as well.
    await books.get_by_role("link", name="Sign in with the tea shop").click()
    await books.click("#allow")
    await books.wait_for_url(started[1])
    await shows(books, "<b>green</b> tea", "black tea")
    await books.get_by_role("button", name="Log out everywhere").click()
    await books.wait_for_url(started[1])
    await expect_signed_out(books)
    await expect_signed_out(letter)
    await letter.get_by_role("link", name="Sign in with the tea shop").click()
    await expect(letter.locator("#login")).to_be_visible()


async def expect_signed_out(program: Page) -> None:
    async def look() -> bool:
        await program.reload()
        return await program.get_by_role("link", name="Sign in with the tea shop").count() == 1

    await until(look)


async def test_a_program_takes_nothing_that_is_forged(started: list[str]):
    _, books, _ = started
    async with httpx.AsyncClient(base_url=books) as client:
        assert (await client.post("/events", content=b'{"type": "order.created"}')).status_code == 401
        assert (await client.post("/backchannel", data={"logout_token": "a.b.c"})).status_code == 400
        assert (await client.get("/callback?code=x&state=y")).status_code == 400
