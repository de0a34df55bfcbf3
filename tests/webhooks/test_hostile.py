"""Receivers that misbehave: each delivery ends with its reason, others go on, and the server's memory stays flat."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.http.test_outgoing import ANSWERS
from tests.receiver import Answer, Received, Receiver
from tests.support import App, Server
from tests.waiting import until
from tests.webhooks.world import Webhook, console, create, status
from tests.whole import times

REDIRECTS = {
    "/itself": status(301, "Location: /itself"),
    "/inside": status(307, "Location: http://169.254.169.254/latest/meta-data"),
}
REASONS = {
    "/silent": {"TIMEOUT"},
    "/drip": {"TIMEOUT"},
    "/drip-head": {"TIMEOUT", "PROTOCOL"},
    "/interim": {"TIMEOUT"},
    "/reset": {"CONNECT"},
    "/reset-within": {"PROTOCOL"},
    "/header": {"PROTOCOL"},
    "/headers": {"PROTOCOL"},
    "/reason": {"PROTOCOL"},
    "/no-http": {"PROTOCOL"},
    "/two-lengths": {"PROTOCOL"},
    "/chunks": {"PROTOCOL"},
    "/itself": {"REDIRECT"},
    "/inside": {"REDIRECT"},
    # What follows the head of a 2xx changes nothing: the receiver has taken the delivery.
    "/endless": {None},
    "/bomb": {None},
    "/lying": {None},
    "/no-content": {None},
    "/cookie": {None},
}
"""For each path of the receiver, how an attempt there ends."""


async def delivered(webhook: Webhook) -> dict[str, Any]:
    """The webhook's only delivery, once it has ended."""
    (delivery,) = await webhook.ended()
    return delivery


async def test_each_misbehaviour_ends_with_its_reason_and_disturbs_nobody(app: App):
    table_id = await app.table({"n": "int"})
    async with Receiver.listening({**ANSWERS, **REDIRECTS}) as receiver:
        good = await create(app, receiver.url("/good"), ["row.created"])
        hostile = {}
        for path, reasons in REASONS.items():
            seconds = 1 if "TIMEOUT" in reasons else 30
            hostile[path] = await create(app, receiver.url(path), ["row.created"], timeout_seconds=seconds)
        await app.row(table_id, {"n": 1})
        assert (await delivered(good))["attempt_count"] == 1
        for path, webhook in hostile.items():
            delivery = await delivered(webhook)
            attempts = delivery["attempts"]
            assert {attempt["error"] for attempt in attempts} <= REASONS[path], (path, attempts)
            assert len(attempts) == (1 if REASONS[path] == {None} else 4), path
            assert delivery["status"] == ("succeeded" if REASONS[path] == {None} else "failed"), path
            for attempt in attempts:
                assert len((attempt["response_excerpt"] or "").encode()) <= 3 * 2048
        # All attempts of a delivery carry one key, and none of them carries a cookie.
        for path in REASONS:
            requests = [request for request in receiver.received if request.path == path]
            assert len({request.headers["idempotency-key"] for request in requests}) == 1
            assert not any("cookie" in request.headers for request in requests)


async def test_a_dead_receiver_is_a_failed_connection(app: App):
    async with Receiver.listening() as receiver:
        url = receiver.url()
    webhook = await create(app, url)
    result = await webhook.call("POST", "/test", json={})
    assert (result["success"], result["error"], result["status_code"]) == (False, "CONNECT", None)


async def test_only_certificates_of_the_host_itself_are_accepted(app: App, authority: Authority, tmp_path: Path):
    table_id = await app.table({"n": "int"})
    contexts = {
        None: authority.context("localhost"),
        "wrong host": authority.context("other.example"),
        "expired": authority.context("localhost", days=-1),
        "unknown": Authority(tmp_path).context("localhost"),
    }
    async with AsyncExitStack() as stack:
        receivers = {
            name: await stack.enter_async_context(Receiver.listening(tls=context)) for name, context in contexts.items()
        }
        webhooks = {
            name: await create(app, receiver.url(host="localhost"), ["row.created"])
            for name, receiver in receivers.items()
        }
        await app.row(table_id, {"n": 1})
        for name, webhook in webhooks.items():
            delivery = await delivered(webhook)
            assert {attempt["error"] for attempt in delivery["attempts"]} == ({None} if name is None else {"TLS"}), name
            assert bool(receivers[name].received) == (name is None)


def resident_bytes(server: Server) -> int:
    """The memory of the server's process (proc(5)). It has no other: one worker runs in the process itself."""
    assert server.process is not None
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


async def test_the_servers_memory_stays_flat(app: App):
    """Two rounds: what the first needs stays with the process; the second, four times as long, must not add to it."""
    paths = ["/endless", "/bomb", "/header", "/headers", "/reason"]
    async with Receiver.listening(ANSWERS) as receiver:
        webhooks = [await create(app, receiver.url(path)) for path in paths]

        async def round_of(tests: int) -> None:
            for _ in range(tests):
                await asyncio.gather(*(webhook.call("POST", "/test", json={}) for webhook in webhooks))
            receiver.received.clear()

        await round_of(times(5, whole=10))
        before = resident_bytes(app.server)
        await round_of(times(20, whole=40))
        assert resident_bytes(app.server) - before < 20_000_000


@pytest.mark.parametrize("text", [b"<script>alert(1)</script>", b"a\0b\xff", "\N{RIGHT-TO-LEFT OVERRIDE}evil".encode()])
async def test_what_a_receiver_answers_stays_text(app: App, receiver: Receiver, text: bytes):
    receiver.answers["/"] = status(500, "Content-Type: text/html", body=text)
    webhook = await create(app, receiver.url(), name="<b>orders</b>")
    result = await webhook.call("POST", "/test", json={})
    assert result["response_excerpt"] == text.decode(errors="replace").replace("\0", "\ufffd")
    async with console(app) as client:
        for path in ("/webhooks", f"/webhooks/{webhook.id}/logs"):
            answer = await client.get(path)
            assert answer.headers["content-type"] == "application/json"


async def hang(_: Received, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def create_rows(app: App, table_id: str, number: int) -> None:
    """Create rows by statements that each have one event a row."""
    async with app.client() as client:
        for start in range(0, number, 1000):
            body = {"data": [{"n": n} for n in range(start, min(start + 1000, number))]}
            answer = await client.post(f"/v1/public/tables/{table_id}/data/bulk", json=body)
            assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("answer", [hang, status(500)], ids=["silent", "failing"])
async def test_a_dead_receiver_with_many_pending_delays_no_other(
    app: App, other_app: App, receiver: Receiver, answer: Answer
):
    """Deliveries to other receivers arrive while 1,500 wait for one that takes none."""
    table_id, quiet = await app.table({"n": "int"}), await app.table({"n": "int"})
    theirs = await other_app.table({"n": "int"})
    receiver.answers["/dead"] = answer
    dead = await create(app, receiver.url("/dead"), ["row.created"], table_ids=[table_id], max_in_flight=32)
    await create_rows(app, table_id, 1500)
    await until(lambda: any(request.path == "/dead" for request in receiver.received))
    same = await create(app, receiver.url("/same"), ["row.created"], table_ids=[quiet])
    other = await create(other_app, receiver.url("/other"), ["row.created"], table_ids=[theirs])
    for number in range(20):
        await app.row(quiet, {"n": number})
        await other_app.row(theirs, {"n": number})
    for webhook in (same, other):
        deliveries = await webhook.ended(20)
        assert {(one["status"], one["attempt_count"]) for one in deliveries} == {("succeeded", 1)}
    assert (await dead.read())["pending_count"] > 1400
    # Otherwise they would keep the server busy during the tests that follow.
    await dead.change(is_active=False)
