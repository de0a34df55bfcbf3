"""`examples/invoices`, opened by its one command: an owner and a bookkeeper, a customer with a link, and a stranger."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, expect

from tests.accounts.authenticator import code, enrolled
from tests.examples.opened import Visitor, opened
from tests.support import App
from tests.test_project import Command, command  # noqa: F401 - a fixture

PASSWORD = "correct horse battery"
HOSTILE = "<img src=x onerror=\"document.title = 'owned'\">"


@pytest.fixture
def site(command: Command, app: App) -> Iterator[str]:  # noqa: F811
    with opened(command, app, "invoices") as running:
        assert "Filled samples with 12 rows." in running.output
        yield running.place("Site")


class Clerk(Visitor):
    async def sign_up(self, name: str) -> None:
        await self.page.get_by_label("Name").fill(name)
        await self.page.get_by_label("Password").fill(PASSWORD)
        await self.press("Sign up")

    async def shows(self, heading: str) -> None:
        await expect(self.page.get_by_role("heading", level=1)).to_have_text(heading)

    @property
    def rows(self) -> Any:
        return self.page.locator("tbody tr")


async def test_an_owner_and_a_bookkeeper_keep_the_books(browser: Browser, site: str) -> None:
    ada, bob = await Clerk.come(browser, site, 1200, 900), await Clerk.come(browser, site, 375, 812)
    await ada.page.goto(site)
    await ada.sign_up("ada")
    await ada.page.get_by_label("Name of a new organisation").fill("Press & Sons")
    await ada.press("Make an organisation")
    await expect(ada.page.get_by_text("12 invoices", exact=True)).to_be_visible()
    await expect(ada.page.locator(".tiles .sent strong")).to_have_text("€1,994.00")
    await ada.press("Invite a bookkeeper")
    invitation = ada.page.locator("#invitation")
    await expect(invitation).to_contain_text("/join/")

    # Eight at a time, in the order of two columns.
    await ada.page.get_by_label("Order").select_option("State, then amount")
    await expect(ada.rows.first).to_contain_text("Lookbook")
    await expect(ada.rows).to_have_count(8)
    await ada.page.evaluate("scrollTo(0, 0)")
    await ada.picture("invoices")
    await ada.press("Show more")
    await expect(ada.rows).to_have_count(12)
    await expect(ada.rows.last).to_contain_text("€420.00")
    await ada.page.get_by_label("Text").fill("miramar")
    await expect(ada.page.get_by_text("2 invoices", exact=True)).to_be_visible()
    await ada.page.get_by_label("From €").fill("1000")
    await expect(ada.page.get_by_text("1 invoice", exact=True)).to_be_visible()
    await expect(ada.rows).to_contain_text("Room numbers")

    await bob.page.goto(await invitation.text_content() or "")
    await bob.sign_up("bob")
    await bob.shows("Join Press & Sons")
    await bob.press("Join")
    await expect(bob.page.get_by_text("12 invoices", exact=True)).to_be_visible()
    await bob.picture("invoices-phone")
    assert await bob.page.evaluate("document.documentElement.scrollWidth") <= 375
    await bob.page.get_by_role("link", name="New invoice").click()
    await bob.page.get_by_label("Number").fill("2026-013")
    await bob.page.get_by_label("Subject").fill(HOSTILE)
    await bob.page.get_by_label("Customer").select_option("Casa Verde")
    await bob.page.get_by_label("What").fill("Label, gold foil")
    await bob.page.get_by_label("How many").fill("100")
    await expect(bob.page.get_by_label("Price in €")).to_have_value("0.38")
    await bob.press("Save")
    await bob.shows(HOSTILE)
    await ada.page.goto(bob.page.url)
    await ada.shows(HOSTILE)
    await expect(ada.page.locator("tfoot")).to_contain_text("€38.00")
    await bob.press("Send")
    await expect(ada.page.locator(".badge")).to_have_text("Sent")

    # Its customer has the link, and no account.
    customer = await Clerk.come(browser, site, 800, 900)
    await customer.page.goto(f"{site}/{await ada.page.get_by_role('link', name='The customer').get_attribute('href')}")
    await customer.shows(HOSTILE)
    await expect(customer.page.locator(".paper")).to_contain_text("Casa Verde")
    await customer.picture("invoices-paper")
    await expect(customer.page.get_by_role("button")).to_have_text(["Print"])

    # A payout takes an authenticator app.
    await expect(bob.page.get_by_role("link", name="Payouts")).to_be_visible()
    await ada.page.get_by_role("link", name="Payouts").click()
    await ada.page.get_by_label("To", exact=True).fill("Paper mill")
    await ada.page.get_by_label("IBAN").fill("DE89370400440532013000")
    await ada.page.get_by_label("Amount").fill("250")
    await ada.press("Pay out")
    await ada.page.get_by_label("Password").fill(PASSWORD)
    await ada.press("Set it up")
    await expect(ada.page.locator(".qr svg")).to_be_visible()
    secret = await ada.page.locator("code").text_content() or ""
    await ada.picture("invoices-totp")
    await ada.page.get_by_label("Code of your authenticator app").fill(code(secret))
    await ada.press("Confirm")
    await ada.press("Pay out")
    await expect(ada.page.locator(".list")).to_contain_text("Paper mill")
    await bob.page.get_by_role("link", name="Payouts").click()
    await expect(bob.page.locator(".list")).to_contain_text("€250.00")
    await expect(bob.page.get_by_role("button")).to_have_count(0)
    # From now on the sign-in asks for it.
    await ada.page.goto(f"{site}/#/")
    await ada.press("Sign out")
    await ada.press("I have an account")
    await ada.page.get_by_label("Name").fill("ada")
    await ada.page.get_by_label("Password").fill(PASSWORD)
    await ada.press("Sign in")
    await ada.shows("One more step")
    await ada.page.get_by_label("Code of your authenticator app").fill(code(secret, 1))
    await ada.press("Sign in")
    await ada.shows("Organisations")
    assert {await clerk.page.title() for clerk in (ada, bob, customer)} == {"Invoices"}
    for clerk in (ada, bob, customer):
        await clerk.leave()


async def test_a_stranger_sees_no_books(app: App, site: str) -> None:
    async with app.client() as client:

        async def call(who: str | None, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
            if who:
                headers["Authorization"] = f"Bearer {tokens[who]}"
            return await client.request(method, f"/v1/public/{path}", json=body, headers=headers)

        async def made(who: str, table: str, **data: Any) -> dict[str, Any]:
            answer = await call(who, "POST", f"tables/{table}/data", {"data": data})
            assert answer.status_code == 201, answer.text
            return dict(answer.json())

        tokens = {}
        for name in ("owner", "books", "reader", "stranger"):
            signed_up = await client.post(
                "/v1/public/app-members/signup", json={"login_id": name, "password": PASSWORD}
            )
            tokens[name] = signed_up.json()["access_token"]
        teams = {}
        for name in ("owner", "stranger"):
            teams[name] = (await call(name, "POST", "app-members/teams", {"name": name})).json()["team_id"]
        team = teams["owner"]
        for name, roles in (("books", ["bookkeeper"]), ("reader", [])):
            link = await call("owner", "POST", f"app-members/teams/{team}/invitations", {"link": True, "roles": roles})
            await call(name, "POST", "app-members/invitations/accept", {"token": link.json()["token"]})

        customer = (await made("books", "customers", team=team, name="Casa"))["id"]
        other = (await made("books", "customers", team=team, name="Not yours"))["id"]
        foreign = (await made("stranger", "customers", team=teams["stranger"], name="Elsewhere"))["id"]
        product = (await made("books", "products", team=team, name="Bag", cents=5))["id"]
        new = {
            "team": team,
            "seller": "owner",
            "customer": customer,
            "number": "1",
            "subject": "Bags",
            "issued": "2026-11-01",
            "due": "2026-12-01",
            "lines": [{"name": "Bag", "quantity": 2, "cents": 5}],
            "cents": 10,
        }
        sent = await made("books", "invoices", **new, state="sent")
        draft = await made("owner", "invoices", **new | {"number": "2"})

        async def seen(who: str | None, table: str, **headers: str) -> int:
            answer = await call(who, "POST", f"tables/{table}/data/query", {}, **headers)
            return answer.json()["total_count"] if answer.status_code == 200 else 0

        for table, many in (("customers", 2), ("products", 1), ("invoices", 2)):
            assert [await seen(who, table) for who in ("owner", "books", "reader")] == [many] * 3
            assert [await seen(who, table) for who in ("stranger", None)] == [table == "customers", 0]

        # The link shows one invoice and its customer, lists nothing, changes nothing, and a draft has none.
        by_link = {"X-Capability": f"invoice={sent['data']['secret']}"}
        shown = await call(None, "GET", f"tables/invoices/data/{sent['id']}?expand=customer", **by_link)
        assert "secret" not in shown.json()["data"]
        assert shown.json()["expanded"]["customer"]["data"]["name"] == "Casa"
        for method, path, body in (
            ("GET", f"tables/customers/data/{other}", None),
            ("GET", f"tables/invoices/data/{draft['id']}", None),
            ("POST", "tables/invoices/data/query", {}),
            ("POST", "tables/customers/data/query", {"where": {"name": "Casa"}}),
            ("PATCH", f"tables/invoices/data/{sent['id']}", {"data": {"state": "paid"}}),
            ("DELETE", f"tables/invoices/data/{sent['id']}", None),
        ):
            answer = await call(None, method, path, body, **by_link)
            assert answer.status_code in {401, 403, 404}, (method, path, answer.text)
        of_draft = {"X-Capability": f"invoice={draft['data']['secret']}"}
        assert (await call(None, "GET", f"tables/invoices/data/{draft['id']}", **of_draft)).status_code == 404
        for guessed in ("x" * 32, sent["data"]["secret"][:-1] + "_"):
            answer = await call(
                None, "GET", f"tables/invoices/data/{sent['id']}", **{"X-Capability": f"invoice={guessed}"}
            )
            assert answer.status_code == 404

        payout = {"team": team, "payee": "Mill", "iban": "DE89370400440532013000", "cents": 100}
        denied: list[tuple[str | None, str, str, Any]] = [
            # What was sent stays as it is, also for the owner; and nothing leads to another organisation.
            ("owner", "PATCH", f"tables/invoices/data/{sent['id']}", {"data": {"cents": 1}}),
            ("owner", "PATCH", f"tables/invoices/data/{sent['id']}", {"data": {"lines": [{}]}}),
            ("owner", "PATCH", f"tables/invoices/data/{sent['id']}", {"data": {"customer": other}}),
            ("owner", "PATCH", f"tables/invoices/data/{sent['id']}", {"data": {"state": "draft"}}),
            ("owner", "DELETE", f"tables/invoices/data/{sent['id']}", None),
            ("owner", "PATCH", f"tables/invoices/data/{draft['id']}", {"data": {"team": teams["stranger"]}}),
            ("owner", "PATCH", f"tables/invoices/data/{draft['id']}", {"data": {"secret": "y" * 32}}),
            ("stranger", "POST", "tables/invoices/data", {"data": {**new, "team": teams["stranger"], "number": "3"}}),
            ("books", "POST", "tables/invoices/data", {"data": {**new, "customer": foreign, "number": "3"}}),
            # A payout: an owner with one factor, and a bookkeeper.
            ("owner", "POST", "tables/payouts/data", {"data": payout}),
            ("books", "POST", "tables/payouts/data", {"data": payout}),
        ]
        for who in ("reader", "stranger", None):
            denied += [
                (who, "POST", "tables/customers/data", {"data": {"team": team, "name": "Mine"}}),
                (who, "PATCH", f"tables/customers/data/{customer}", {"data": {"name": "Mine"}}),
                (who, "PATCH", f"tables/products/data/{product}", {"data": {"cents": 1}}),
                (who, "POST", "tables/invoices/data", {"data": {**new, "number": "3"}}),
                (who, "PATCH", f"tables/invoices/data/{sent['id']}", {"data": {"state": "paid"}}),
                (who, "DELETE", f"tables/invoices/data/{draft['id']}", None),
                (who, "POST", "tables/payouts/data", {"data": payout}),
                (who, "POST", f"app-members/teams/{team}/invitations", {"link": True, "roles": ["bookkeeper"]}),
            ]
        for who, method, path, body in denied:
            answer = await call(who, method, path, body)
            assert answer.status_code in {400, 401, 403, 404}, (who, method, path, body, answer.text)
        changed = await call(
            "reader", "POST", "tables/invoices/data/update-where", {"all": True, "data": {"state": "paid"}}
        )
        assert changed.status_code == 403 or changed.json()["updated_count"] == 0

        for who in ("owner", "books"):
            await enrolled(app, tokens[who])
        forged = await call("owner", "POST", "tables/payouts/data", {"data": {**payout, "by": "books"}})
        assert forged.status_code == 403
        assert (await call("books", "POST", "tables/payouts/data", {"data": payout})).status_code == 403
        paid = await made("owner", "payouts", **payout)
        for who in ("owner", "books", "reader"):
            gone = await call(who, "DELETE", f"tables/payouts/data/{paid['id']}")
            assert (await seen(who, "payouts"), gone.status_code) == (1, 403)
        assert [await seen(who, "payouts") for who in ("stranger", None)] == [0, 0]
