"""`deployment.*` events, from a deploy to a webhook's receiver."""

import json
import zlib

from tests.hosting.sites import new_site, zipped
from tests.receiver import Receiver
from tests.support import App
from tests.waiting import until
from tests.webhooks.world import create, events


async def test_a_webhook_hears_of_deployments(app: App):
    async with Receiver.listening() as receiver:
        await create(app, receiver.url(), ["deployment.*"])
        site = await new_site(app)
        first = (await site.deploy({"index.html": b"one"}))["deployment"]
        second = (await site.deploy({"index.html": b"two"}, target="qa"))["deployment"]
        await site.promote(second["id"])
        await site.promote(first["id"])
        await until(lambda: len(receiver.received) >= 5)
        heard = sorted(events(receiver), key=lambda event: event["id"])
        assert sorted(event["type"] for event in heard) == ["deployment.promoted"] * 3 + ["deployment.ready"] * 2
        promoted = {
            (event["data"]["kind"], event["data"]["deployment"]["version"], event["data"]["previous_id"])
            for event in heard
            if event["type"] == "deployment.promoted"
        }
        assert promoted == {
            ("deploy", 1, None),
            ("promote", 2, first["id"]),
            ("rollback", 1, second["id"]),
        }
        assert {event["data"]["storage_id"] for event in heard} == {site.id}
        assert {event["data"]["channel"] for event in heard if "kind" in event["data"]} == {"production"}
        subject = f"webs/{site.id}/deployments/{second['id']}"
        (ready,) = [event for event in heard if event["type"] == "deployment.ready" and event["subject"] == subject]
        assert ready["data"]["deployment"] == second
        assert ready["actor"]["kind"] == "secret_key"


async def test_a_webhook_hears_of_an_archive_that_fails_in_the_background(app: App):
    async with Receiver.listening() as receiver:
        await create(app, receiver.url(), ["deployment.*"])
        site = await new_site(app)
        page = b"<p>the bytes of this page are damaged</p>"
        archive = bytearray(zipped({f"{number}.txt": b"x" for number in range(5_001)} | {"index.html": page}))
        deflated = zlib.compress(page, wbits=-15)
        at = archive.index(deflated)
        archive[at + len(deflated) - 1] ^= 0xFF
        sent = await site.send("POST", "/deploy", files={"file": ("site.zip", bytes(archive))})
        assert sent.status_code == 202, sent.text
        await until(lambda: receiver.received)
        (event,) = [json.loads(request.body) for request in receiver.received]
        assert event["type"] == "deployment.failed"
        assert event["data"]["storage_id"] == site.id
        failed = event["data"]["deployment"]
        assert (failed["id"], failed["status"]) == (sent.json()["deployment"]["id"], "failed")
        assert failed["error"]["code"] == "INVALID_ZIP"
        assert failed["error"]["details"][0] == {
            "field": "index.html",
            "code": "DAMAGED",
            "message": "Its bytes are damaged.",
        }
        listed = (await site.send("GET", "/deployments")).json()
        assert (listed["production_deployment_id"], listed["deployments"][0]["status"]) == (None, "failed")
