"""Domain events go to a client only while the member that they are about consents to it."""

import json
from typing import Any
from uuid import uuid4

import pytest

from tests.backstage import claims_of
from tests.conftest import new_app
from tests.oauth.browsing import Browser, Provider, Registered, signed_in
from tests.receiver import Receiver
from tests.support import App, Server
from tests.waiting import until
from tests.webhooks.test_integrations import declare, publish
from tests.webhooks.world import Webhook, console, create, refused, status


async def test_a_client_is_told_only_of_members_that_consent(
    provider: Provider, browser: Browser, signing: tuple[object, dict[str, str]]
):
    app = provider.app
    await provider.scope("orders:read", title="See your orders")
    await declare(app, required_scope="orders:read")
    client = await provider.client(scopes=["openid", "orders:read"])
    ada = claims_of(await browser.sign_in())["sub"]
    eve = (await app.member("eve"))["member_id"]
    async with Receiver.listening() as receiver:
        # One delivery at a time, so that they come in the order of the events.
        values = {"client_id": client.client_id, "max_in_flight": 1}
        await create(app, f"http://127.0.0.1:{receiver.port}/", ["order.created"], **values)

        async def told(number: int) -> list[str]:
            """Publish one event about each member and one about no member; return the members of which the client is
            notified."""
            receiver.received.clear()
            for member_id in (ada, eve, None):
                body = {"event_type": "order.created", "data": {"n": number}}
                answer = await publish(app, {**body, **({"member_id": member_id} if member_id else {})})
                assert answer.status_code == 201, answer.text
            # The event about no member is always delivered, and it is the last.
            await until(lambda: any("member_id" not in one or one["member_id"] is None for one in heard()))
            return sorted(one["member_id"] for one in heard() if one.get("member_id"))

        def heard() -> list[dict[str, object]]:
            return [json.loads(request.body) for request in receiver.received]

        assert await told(1) == []
        await signed_in(provider, client, browser, scope="openid")
        assert await told(2) == []
        await signed_in(provider, client, browser, scope="openid orders:read")
        assert await told(3) == [ada]
        path = "/v1/account/oauth/connections"
        async with app.client(browser.access_token) as member:
            (found,) = (await member.get(path)).json()["data"]
            assert (await member.delete(f"{path}/{found['consent_id']}")).status_code == 200
        assert await told(4) == []


async def test_a_webhook_names_an_active_client_of_its_own_app(provider: Provider):
    client = await provider.client()
    await provider.asked("PUT", f"clients/{client.client_id}", {"is_active": False})
    await refused(provider.app, 403, "CLIENT_NOT_LINKED", client_id=client.client_id)


@pytest.fixture
def consumer(signing: tuple[Server, dict[str, str]]) -> App:
    """A fresh app of the same server, which is no provider."""
    return new_app(*signing)


@pytest.fixture
async def shop(provider: Provider) -> Registered:
    """A client that may ask for orders, of a provider that declares `order.created`."""
    await provider.scope("orders:read", title="See your orders")
    await declare(provider.app, required_scope="orders:read")
    return await provider.client(scopes=["openid", "orders:read"])


def consuming(provider: Provider, client: Registered) -> dict[str, Any]:
    """What a webhook in a consumer app says of its client."""
    return {
        "provider_app_id": provider.app.app_id,
        "client_id": client.client_id,
        "client_secret": client.secret,
        "max_in_flight": 1,
    }


async def order(provider: Provider, member_id: str | None = None) -> str:
    """Publish an event, about a member or about none, and return its id."""
    body = {"event_type": "order.created", "data": {"total": 5}, **({"member_id": member_id} if member_id else {})}
    answer = await publish(provider.app, body)
    assert answer.status_code == 201, answer.text
    event_id: str = answer.json()["id"]
    return event_id


async def heard(provider: Provider, receiver: Receiver, *member_ids: str) -> list[str]:
    """Publish an event about each member and one about none; return the members of which the receiver is notified."""
    events = {await order(provider, member_id): member_id for member_id in member_ids}
    last = await order(provider)
    await until(lambda: any(json.loads(request.body)["id"] == last for request in receiver.received))
    told = [json.loads(request.body)["id"] for request in receiver.received]
    return [member_id for event_id, member_id in events.items() if event_id in told]


async def disconnect(provider: Provider, browser: Browser) -> None:
    """End the browser's only connection, as its member."""
    path = "/v1/account/oauth/connections"
    async with provider.app.client(browser.access_token) as member:
        (found,) = (await member.get(path)).json()["data"]
        assert (await member.delete(f"{path}/{found['consent_id']}")).status_code == 200


async def test_a_webhook_in_another_app_is_told_of_members_that_consent(
    provider: Provider, browser: Browser, consumer: App, shop: Registered
):
    ada = claims_of(await browser.sign_in())["sub"]
    eve = (await provider.app.member("eve"))["member_id"]
    async with Receiver.listening() as receiver:
        webhook = await create(consumer, receiver.url(), ["order.*"], **consuming(provider, shop))
        assert webhook.created["provider_app_id"] == provider.app.app_id
        assert "client_secret" not in webhook.created
        assert await heard(provider, receiver, ada, eve) == []
        await signed_in(provider, shop, browser, scope="openid")
        assert await heard(provider, receiver, ada, eve) == []
        await signed_in(provider, shop, browser, scope="openid orders:read")
        assert await heard(provider, receiver, ada, eve) == [ada]
        await disconnect(provider, browser)
        assert await heard(provider, receiver, ada, eve) == []
        # Neither its own app's events, nor built-in ones of the provider.
        await declare(consumer, required_scope=None)
        assert (await publish(consumer, {"event_type": "order.created", "data": {}})).status_code == 201
        await provider.app.member("zoe")
        await heard(provider, receiver)
        bodies = [json.loads(request.body) for request in receiver.received]
        assert {body["app_id"] for body in bodies} == {provider.app.app_id}
        assert {body["type"] for body in bodies} == {"order.created"}
        # Who has published is the provider's own affair.
        assert {body["actor"]["id"] for body in bodies} == {None}


async def test_a_pending_delivery_ends_when_the_consent_ends_and_its_body_is_shown_no_more(
    provider: Provider, browser: Browser, consumer: App, shop: Registered
):
    await signed_in(provider, shop, browser, scope="openid orders:read")
    ada = claims_of(browser.access_token or await browser.sign_in())["sub"]
    async with Receiver.listening({"/": status(503, "Retry-After: 1")}) as receiver:
        webhook = await create(consumer, receiver.url(), ["order.created"], **consuming(provider, shop))
        event_id = await order(provider, ada)
        await until(lambda: receiver.received)
        (pending,) = await webhook.logs()
        assert ada in (await webhook.call("GET", f"/logs/{pending['id']}"))["request"]["body"]
        await disconnect(provider, browser)
        attempts = len(receiver.received)
        (ended,) = await webhook.ended()
        assert (ended["event_id"], ended["status"], ended["error"]) == (event_id, "cancelled", "CONSENT_WITHDRAWN")
        # At most the attempt that had begun before.
        assert len(receiver.received) <= attempts + 1
        assert (await webhook.call("GET", f"/logs/{pending['id']}"))["request"]["body"] is None
        await webhook.call("POST", f"/logs/{pending['id']}/redeliver")
        (again,) = await webhook.ended()
        assert again["error"] == "CONSENT_WITHDRAWN"


async def test_the_secret_links_a_client_to_one_app_until_the_provider_unlinks_it(
    provider: Provider, consumer: App, shop: Registered, signing: tuple[Server, dict[str, str]]
):
    values = {**consuming(provider, shop), "event_types": ["order.created"]}
    without = {name: value for name, value in values.items() if name != "client_secret"}
    other_provider = await Provider(new_app(*signing)).start()
    for wrong in (
        without,
        {**values, "client_secret": "cs_wrong"},
        {**values, "client_id": (await provider.client()).client_id},
        {**values, "client_id": None},
        {**values, "client_id": (await other_provider.client()).client_id},
        {**values, "provider_app_id": other_provider.app.app_id},
        {**values, "provider_app_id": str(uuid4())},
    ):
        await refused(consumer, 403, "CLIENT_NOT_LINKED", **{**wrong, "url": "http://127.0.0.1:9/"})
    client = await provider.asked("GET", f"clients/{shop.client_id}")
    assert client["consumer_app_id"] is None
    async with Receiver.listening() as receiver:
        webhook = await create(consumer, receiver.url(), ["order.created"], **consuming(provider, shop))
        # From now on the link is enough, and the secret is of no use to another app.
        await create(
            consumer,
            receiver.url("/second"),
            ["order.created"],
            **{n: v for n, v in without.items() if n != "event_types"},
        )
        stranger = new_app(*signing)
        await refused(stranger, 403, "CLIENT_NOT_LINKED", **{**values, "url": receiver.url()})
        assert (await provider.asked("GET", f"clients/{shop.client_id}"))["consumer_app_id"] == consumer.app_id
        await heard(provider, receiver)
        await provider.asked("PUT", f"clients/{shop.client_id}", {"consumer_app_id": None})
        receiver.received.clear()
        own = await create(provider.app, receiver.url("/own"), ["order.created"])
        await order(provider)
        await own.ended()
        assert {request.path for request in receiver.received} == {"/own"}
        assert len(await webhook.logs()) == 1
        # Nor can the provider link its client to an app that did not prove to own it.
        async with console(provider.app) as owner:
            body = {"consumer_app_id": consumer.app_id}
            assert (await owner.put(f"/oauth/clients/{shop.client_id}", json=body)).status_code == 400


@pytest.mark.parametrize("types", [["*"], ["row.*"], ["row.created"], ["order.created", "member.created"], ["x.y"]])
async def test_a_consumer_names_types_of_the_provider_alone(
    provider: Provider, consumer: App, shop: Registered, types: list[str]
):
    """So that no table of the provider emits events because of it."""
    values = {**consuming(provider, shop), "url": "http://127.0.0.1:9/", "event_types": types}
    await refused(consumer, 400, "UNKNOWN_EVENT_TYPE", **values)


async def test_a_webhook_moves_between_its_own_app_and_a_provider(provider: Provider, consumer: App, shop: Registered):
    await declare(consumer, required_scope=None)
    async with Receiver.listening() as receiver:
        webhook = await create(consumer, receiver.url(), ["order.created"])
        await publish(consumer, {"event_type": "order.created", "data": {}})
        await webhook.ended()
        values = {name: value for name, value in consuming(provider, shop).items() if name != "max_in_flight"}
        await webhook.change(**values)
        # Its own app's events no longer come, the provider's do; and back.
        await publish(consumer, {"event_type": "order.created", "data": {}})
        await heard(provider, receiver)
        await webhook.change(provider_app_id=None, client_id=None)
        await order(provider)
        await publish(consumer, {"event_type": "order.created", "data": {}})
        await webhook.ended(3)
        apps = [json.loads(request.body)["app_id"] for request in receiver.received]
        assert apps == [consumer.app_id, provider.app.app_id, consumer.app_id]
        await delete(webhook)
        await order(provider)


async def delete(webhook: Webhook) -> None:
    assert (await webhook.answer("DELETE")).status_code == 200
