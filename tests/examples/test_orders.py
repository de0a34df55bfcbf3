"""`examples/orders` against a real server: each order is packed once, whatever is repeated, forged or killed."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from pilotis.kit.ids import uuid7
from pilotis.webhooks.signatures import new_secret, signature_headers, signing_key
from tests.support import App, plain_client
from tests.waiting import PATIENCE, reserved_port, until
from tests.webhooks.world import Webhook, create

FOLDER = Path(__file__).parents[2] / "examples" / "orders"


async def shop(app: App, *words: str) -> str:
    """Run the shop's program and return what it prints."""
    options = ["--url", app.server.url, "--public-key", app.public_key]
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, FOLDER / "shop.py", *options, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Fulfilment:
    """The fulfilment program, and what it prints, over all its runs."""

    def __init__(self, app: App, folder: Path, port: int) -> None:
        self.app = app
        self.folder = folder
        self.port = port
        self.secret = ""
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def printed(self) -> list[str]:
        return (self.folder / "printed").read_text().splitlines()

    async def start(self) -> None:
        """Start it and wait until it receives."""
        self._run()

        async def receives() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.printed
            try:
                async with plain_client(self.url) as client:
                    return (await client.post("/", content=b"{}")).status_code == 401
            except httpx.TransportError:
                return False

        await until(receives)

    def _run(self) -> None:
        options = ["--url", self.app.server.url, "--public-key", self.app.public_key]
        with (self.folder / "printed").open("ab") as printed:
            self.process = subprocess.Popen(
                [sys.executable, FOLDER / "fulfil.py", *options, "--port", str(self.port), "--inbox", "inbox.sqlite"],
                cwd=self.folder,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env={**os.environ, "SECRET": self.secret, "SECRET_KEY": self.app.secret_key},
            )

    async def end(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        await asyncio.to_thread(self.process.wait, PATIENCE)


@asynccontextmanager
async def fulfilment(app: App, folder: Path) -> AsyncIterator[Fulfilment]:
    with reserved_port() as port:
        program = Fulfilment(app, folder, port)
        try:
            yield program
        finally:
            if program.process is not None and program.process.poll() is None:
                await program.end(signal.SIGKILL)


async def shipped(app: App, table_id: str) -> list[str]:
    """The shop's orders, once all are shipped."""

    async def look() -> list[str] | None:
        orders = [line.split(maxsplit=1)[1] for line in (await shop(app, "list", table_id)).splitlines()]
        return orders if all(order.endswith("shipped") for order in orders) else None

    return [re.sub(r" +", " ", order) for order in await until(look)]


async def test_orders_are_packed_once_each(app: App, tmp_path: Path):
    table_id = await shop(app, "table")
    async with fulfilment(app, tmp_path) as program:
        webhook = await create(app, program.url, ["row.created"], table_ids=[table_id])
        program.secret = webhook.secret
        await program.start()
        for number in range(5):
            await shop(app, "order", table_id, f"tea {number}", str(number + 1))
        orders = await shipped(app, table_id)
        assert sorted(orders) == [f"{number + 1} × tea {number} shipped" for number in range(5)]
        # An answer that was lost makes Pilotis repeat; so does a console user.
        for delivery in await webhook.ended(5):
            await webhook.call("POST", f"/logs/{delivery['id']}/redeliver")
        await until(lambda: program.printed.count("order known already") == 5)
        assert sorted(line for line in program.printed if line.startswith("packed")) == [
            f"packed {number + 1} × tea {number}" for number in range(5)
        ]
        # A test of the webhook packs nothing.
        assert (await webhook.call("POST", "/test", json={"event_type": "row.created"}))["status_code"] == 204
        assert program.printed.count("order received") == 5


async def test_what_was_not_signed_is_refused(app: App, tmp_path: Path):
    async with fulfilment(app, tmp_path) as program:
        program.secret = new_secret()
        await program.start()
        body = b'{"type": "row.created", "data": {}}'
        now = int(time.time())
        forged = [
            {},
            signature_headers(str(uuid7()), body, [signing_key(new_secret())], now),
            # Signed well, but long ago.
            signature_headers(str(uuid7()), body, [signing_key(program.secret)], now - 600),
        ]
        async with plain_client(program.url) as client:
            for headers in forged:
                assert (await client.post("/", content=body, headers=headers)).status_code == 401
        assert "order received" not in program.printed


async def test_orders_that_come_while_it_is_dead_are_packed_once_it_is_back(app: App, tmp_path: Path):
    table_id = await shop(app, "table")
    async with fulfilment(app, tmp_path) as program:
        webhook = await create(app, program.url, ["row.created"], table_ids=[table_id])
        program.secret = webhook.secret
        await program.start()
        await shop(app, "order", table_id, "tea")
        await program.end(signal.SIGKILL)
        await shop(app, "order", table_id, "coffee")

        async def tried() -> bool:
            return all(one["attempt_count"] for one in await webhook.logs()) and len(await webhook.logs()) == 2

        await until(tried)
        await program.start()
        # Without waiting for the schedule, as a console user would.
        await recovered(webhook)
        assert sorted(await shipped(app, table_id)) == ["1 × coffee shipped", "1 × tea shipped"]


async def recovered(webhook: Webhook) -> None:
    """Send again what has not arrived."""
    for delivery in await webhook.logs(status="pending"):
        await webhook.call("POST", f"/logs/{delivery['id']}/redeliver")
