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
    await expect(ada.rows.nth(2)).to_contain_text("Room numbers")
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


PAYOUT = {"payee": "Mill", "iban": "DE89370400440532013000", "cents": 100}


class Firm:
    """An organisation with one of each role, and a stranger with one of its own."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.tokens: dict[str, str] = {}
        self.team = self.elsewhere = ""
        self.ids: dict[str, str] = {}
        self.secrets: dict[str, str] = {}

    async def call(self, who: str | None, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        if who:
            headers["Authorization"] = f"Bearer {self.tokens[who]}"
        return await self.client.request(method, f"/v1/public/{path}", json=body, headers=headers)

    async def make(self, key: str, who: str, table: str, **data: Any) -> None:
        answer = await self.call(who, "POST", f"tables/{table}/data", {"data": data})
        assert answer.status_code == 201, answer.text
        self.ids[key] = answer.json()["id"]
        self.secrets[key] = answer.json()["data"].get("secret", "")

    async def seen(self, who: str | None, table: str) -> int:
        answer = await self.call(who, "POST", f"tables/{table}/data/query", {})
        return int(answer.json()["total_count"]) if answer.status_code == 200 else 0

    async def open(self) -> None:
        for name in ("owner", "books", "reader", "stranger"):
            body = {"login_id": name, "password": PASSWORD}
            self.tokens[name] = (await self.call(None, "POST", "app-members/signup", body)).json()["access_token"]
        made = [await self.call(who, "POST", "app-members/teams", {"name": who}) for who in ("owner", "stranger")]
        self.team, self.elsewhere = (one.json()["team_id"] for one in made)
        for name, roles in (("books", ["bookkeeper"]), ("reader", [])):
            invited = {"link": True, "roles": roles}
            link = await self.call("owner", "POST", f"app-members/teams/{self.team}/invitations", invited)
            await self.call(name, "POST", "app-members/invitations/accept", {"token": link.json()["token"]})
        await self.make("customer", "books", "customers", team=self.team, name="Casa")
        await self.make("other", "books", "customers", team=self.team, name="Not yours")
        await self.make("foreign", "stranger", "customers", team=self.elsewhere, name="Elsewhere")
        await self.make("product", "books", "products", team=self.team, name="Bag", cents=5)
        await self.make("sent", "books", "invoices", **self.invoice("1", state="sent"))
        await self.make("draft", "owner", "invoices", **self.invoice("2"))

    def invoice(self, number: str, **more: Any) -> dict[str, Any]:
        dates = {"issued": "2026-11-01", "due": "2026-12-01"}
        line = {"name": "Bag", "quantity": 2, "cents": 5}
        names = {"team": self.team, "seller": "owner", "customer": self.ids["customer"], "subject": "Bags"}
        return {**names, **dates, "number": number, "lines": [line], "cents": 10, **more}

    def path(self, table: str, key: str) -> str:
        return f"tables/{table}/data/{self.ids[key]}"


async def test_a_stranger_sees_no_books(app: App, site: str) -> None:
    async with app.client() as client:
        firm = Firm(client)
        await firm.open()
        for table, many in (("customers", 2), ("products", 1), ("invoices", 2)):
            assert [await firm.seen(who, table) for who in ("owner", "books", "reader")] == [many] * 3
            assert [await firm.seen(who, table) for who in ("stranger", None)] == [table == "customers", 0]
        await only_its_invoice(firm)
        await nobody_writes_what_is_not_its(firm)
        for who in ("owner", "books"):
            await enrolled(app, firm.tokens[who])
        await only_owners_pay_out(firm)


async def only_its_invoice(firm: Firm) -> None:
    """The link shows one invoice and its customer, lists nothing, changes nothing, and a draft has none."""
    link = {"X-Capability": f"invoice={firm.secrets['sent']}"}
    shown = await firm.call(None, "GET", f"{firm.path('invoices', 'sent')}?expand=customer", **link)
    assert "secret" not in shown.json()["data"]
    assert shown.json()["expanded"]["customer"]["data"]["name"] == "Casa"
    for method, path, body in (
        ("GET", firm.path("customers", "other"), None),
        ("GET", firm.path("invoices", "draft"), None),
        ("POST", "tables/invoices/data/query", {}),
        ("POST", "tables/customers/data/query", {"where": {"name": "Casa"}}),
        ("PATCH", firm.path("invoices", "sent"), {"data": {"state": "paid"}}),
        ("DELETE", firm.path("invoices", "sent"), None),
    ):
        answer = await firm.call(None, method, path, body, **link)
        assert answer.status_code in {401, 403, 404}, (method, path, answer.text)
    for key, text in (("draft", firm.secrets["draft"]), ("sent", "x" * 32), ("sent", firm.secrets["sent"][:-1] + "_")):
        answer = await firm.call(None, "GET", firm.path("invoices", key), **{"X-Capability": f"invoice={text}"})
        assert answer.status_code == 404


async def nobody_writes_what_is_not_its(firm: Firm) -> None:
    sent, draft = firm.path("invoices", "sent"), firm.path("invoices", "draft")
    payout = {"data": {"team": firm.team, **PAYOUT}}
    denied: list[tuple[str | None, str, str, Any]] = [
        # What was sent stays as it is, also for the owner; and nothing leads to another organisation.
        ("owner", "PATCH", sent, {"data": {"cents": 1}}),
        ("owner", "PATCH", sent, {"data": {"lines": [{}]}}),
        ("owner", "PATCH", sent, {"data": {"customer": firm.ids["other"]}}),
        ("owner", "PATCH", sent, {"data": {"state": "draft"}}),
        ("owner", "DELETE", sent, None),
        ("owner", "PATCH", draft, {"data": {"team": firm.elsewhere}}),
        ("owner", "PATCH", draft, {"data": {"secret": "y" * 32}}),
        ("owner", "PATCH", draft, {"data": {"customer": firm.ids["foreign"]}}),
        ("stranger", "POST", "tables/invoices/data", {"data": firm.invoice("3", team=firm.elsewhere)}),
        ("books", "POST", "tables/invoices/data", {"data": firm.invoice("3", customer=firm.ids["foreign"])}),
        # A payout: an owner with one factor, and a bookkeeper.
        ("owner", "POST", "tables/payouts/data", payout),
        ("books", "POST", "tables/payouts/data", payout),
    ]
    for who in ("reader", "stranger", None):
        denied += [
            (who, "POST", "tables/customers/data", {"data": {"team": firm.team, "name": "Mine"}}),
            (who, "PATCH", firm.path("customers", "customer"), {"data": {"name": "Mine"}}),
            (who, "PATCH", firm.path("products", "product"), {"data": {"cents": 1}}),
            (who, "POST", "tables/invoices/data", {"data": firm.invoice("3")}),
            (who, "PATCH", sent, {"data": {"state": "paid"}}),
            (who, "DELETE", draft, None),
            (who, "POST", "tables/payouts/data", payout),
            (who, "POST", f"app-members/teams/{firm.team}/invitations", {"link": True, "roles": ["bookkeeper"]}),
        ]
    for who, method, path, body in denied:
        answer = await firm.call(who, method, path, body)
        assert answer.status_code in {400, 401, 403, 404}, (who, method, path, body, answer.text)
    everything = {"all": True, "data": {"state": "paid"}}
    changed = await firm.call("reader", "POST", "tables/invoices/data/update-where", everything)
    assert changed.status_code == 403 or changed.json()["updated_count"] == 0


async def only_owners_pay_out(firm: Firm) -> None:
    """With a second factor, an owner pays out in its own name, and a bookkeeper does not."""
    payout = {"team": firm.team, **PAYOUT}
    for who, data in (("owner", {**payout, "by": "books"}), ("books", payout)):
        assert (await firm.call(who, "POST", "tables/payouts/data", {"data": data})).status_code == 403
    await firm.make("payout", "owner", "payouts", **payout)
    for who in ("owner", "books", "reader"):
        gone = await firm.call(who, "DELETE", firm.path("payouts", "payout"))
        assert (await firm.seen(who, "payouts"), gone.status_code) == (1, 403)
    assert [await firm.seen(who, "payouts") for who in ("stranger", None)] == [0, 0]
