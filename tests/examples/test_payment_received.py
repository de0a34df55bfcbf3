"""`examples/workflows/payment-received`: deliveries signed and checked by Stripe's own library."""

import json
import time
from typing import Any

import httpx
import pytest
import stripe

from tests.acceptance.test_files import storage
from tests.examples.examples import WORKFLOWS, deployed
from tests.functions.support import Functions
from tests.support import App, assert_error, plain_client
from tests.workflows.support import Workflows, statuses
from tests.workflows.test_cli import signed_in

pytestmark = pytest.mark.usefixtures("sandboxes")
EXAMPLE = WORKFLOWS / "payment-received"
SECRET = "whsec_the_secret_of_the_endpoint"


def event(event_id: str, order: str = "A-17", amount: int = 1350, kind: str = "checkout.session.completed") -> str:
    session = {"id": "cs_test", "object": "checkout.session", "client_reference_id": order, "amount_total": amount}
    return json.dumps({"id": event_id, "object": "event", "type": kind, "data": {"object": session}})


def header(payload: str, secret: str = SECRET, age: int = 0) -> str:
    """The signature as the library computes it."""
    moment = int(time.time()) - age
    return f"t={moment},v1={stripe.WebhookSignature._compute_signature(f'{moment}.{payload}', secret)}"


def accepted_by_stripe(payload: str, signature: str) -> bool:
    """What the service's own library says of a delivery."""
    try:
        stripe.Webhook.construct_event(payload, signature, SECRET)
    except (stripe.SignatureVerificationError, ValueError):
        return False
    return True


async def sent(url: str, payload: str, signature: str) -> httpx.Response:
    async with plain_client("") as client:
        headers = {"Stripe-Signature": signature, "Content-Type": "application/json"}
        return await client.post(url, content=payload.encode(), headers=headers)


async def rows(app: App, table_id: str) -> list[dict[str, Any]]:
    async with app.client() as client:
        return [row["data"] for row in (await client.get(f"/v1/public/tables/{table_id}/data")).json()["data"]]


async def test_a_payment_runs_its_order_through_four_steps_once(app: App, tmp_path):
    functions, workflows = Functions(app), Workflows(app)
    columns = {"number": "string", "item": "string", "total": "int", "status": "string"}
    orders = await app.table(columns, title="orders")
    shipments = await app.table({"order_number": "string", "key": "string"}, title="shipments")
    for number in ("A-17", "A-18"):
        await app.row(orders, {"number": number, "item": "tea", "total": 1350, "status": "open"})
    await deployed(functions, EXAMPLE / "verify-payment", {"SIGNING_SECRET": SECRET})
    await deployed(functions, EXAMPLE / "mark-paid", {})
    await deployed(functions, EXAMPLE / "plan-shipment", {})
    await deployed(functions, EXAMPLE / "store-receipt", {"STORAGE": (await storage(app)).rpartition("/")[2]})
    command = await signed_in(workflows, tmp_path)
    assert "version 1" in await command.done("workflows", "deploy", str(EXAMPLE / "workflow.yaml"))
    (workflow,) = (await workflows.console.get(workflows.base)).json()["data"]
    place = f"{workflows.base}/{workflow['id']}"
    made = await workflows.console.post(f"{place}/trigger", json={"dedupe": {"path": "$.id"}})
    url = made.json()["trigger_url"]

    payment = event("evt_1")
    signature = header(payment)
    assert accepted_by_stripe(payment, signature)
    answer = await sent(url, payment, signature)
    assert answer.status_code == 202, answer.text
    execution = await workflows.reached(workflow["id"], answer.json()["execution_id"])
    assert execution["status"] == "completed", execution
    assert list(statuses(execution).values()) == ["completed"] * 5
    assert {row["number"]: row["status"] for row in await rows(app, orders)} == {"A-17": "paid", "A-18": "open"}
    assert [row["order_number"] for row in await rows(app, shipments)] == ["A-17"]
    async with app.client() as client:
        receipt = await client.get(execution["output"]["url"])
    assert receipt.text == "Receipt for order A-17\ntea: 13.50 EUR\n"

    again = await sent(url, payment, header(payment))
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    # What the library rejects, the function rejects, and the other way round.
    forged, late, other = event("evt_2"), event("evt_3"), event("evt_4", "A-18")
    for payload, wrong in (
        (forged, header(forged, "whsec_guessed")),
        (late, header(late, age=3600)),
        (other, header(event("evt_4", "A-18", 1))),
        (other, "t=,v1="),
        (other, header(other).replace("v1=", "v0=")),
        (other, "v1=" + header(other).rpartition("=")[2]),
        (other, ""),
    ):
        assert not accepted_by_stripe(payload, wrong)
        assert_error(await sent(url, payload, wrong), 400, "TRIGGER_REJECTED")
    replaced = header(other, "whsec_next") + "," + header(other).rpartition(",")[2]
    assert accepted_by_stripe(other, replaced)
    accepted = await sent(url, other, replaced)
    assert accepted.status_code == 202, accepted.text
    await workflows.reached(workflow["id"], accepted.json()["execution_id"], "completed")

    refund = event("evt_5", kind="charge.refunded")
    answer = await sent(url, refund, header(refund))
    ended = await workflows.reached(workflow["id"], answer.json()["execution_id"])
    assert (ended["status"], statuses(ended)["paid"]) == ("completed", "skipped")
    assert len(await rows(app, shipments)) == 2
    await functions.console.aclose()
    await workflows.console.aclose()
