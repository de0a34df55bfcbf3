"""A fulfilment program: is told of new orders by a webhook, packs each once, and marks it as shipped.

    SECRET=whsec_… SECRET_KEY=sk_… python3 examples/orders/fulfil.py --public-key pk_…

Needs Python 3.11 only. See README.md beside this file.
"""

import argparse
import base64
import contextlib
import hmac
import http.server
import json
import os
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

MAX_BODY_BYTES = 1_000_000
MAX_AGE_SECONDS = 300


def is_genuine(body: bytes, headers: Mapping[str, str], secret: str) -> bool:
    """Whether a delivery was signed with the secret within the last five minutes (Standard Webhooks)."""
    moment, event_id = headers.get("webhook-timestamp", ""), headers.get("webhook-id", "")
    if not moment.isdigit() or abs(time.time() - int(moment)) > MAX_AGE_SECONDS:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.digest(key, f"{event_id}.{moment}.".encode() + body, "sha256")
    expected = b"v1," + base64.b64encode(mac)
    # While a secret is being replaced there are two signatures, separated by a blank.
    given = headers.get("webhook-signature", "").encode("latin-1").split()
    return any(hmac.compare_digest(signature, expected) for signature in given)


class Inbox:
    """The deliveries that were taken, in a file: what is in there survives a crash, and is in there once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._arrived = threading.Event()
        with self._database() as database:
            database.execute(
                "create table if not exists inbox (key text primary key, event text, packed int default 0)"
            )

    def take(self, key: str, event: bytes) -> bool:
        """Store an event under its key; False if it is there already."""
        with self._database() as database:
            taken = database.execute("insert or ignore into inbox (key, event) values (?, ?)", (key, event.decode()))
        self._arrived.set()
        return taken.rowcount == 1

    def next(self) -> tuple[str, str]:
        """Wait for an event that is not packed yet, and return its key and text."""
        while True:
            self._arrived.clear()
            with self._database() as database:
                row: tuple[str, str] | None = database.execute(
                    "select key, event from inbox where not packed order by key limit 1"
                ).fetchone()
            if row:
                return row
            self._arrived.wait()

    def done(self, key: str) -> None:
        """Note that an event's order was packed."""
        with self._database() as database:
            database.execute("update inbox set packed = 1 where key = ?", (key,))

    @contextlib.contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, timeout=60)
        try:
            with connection:
                yield connection
        finally:
            connection.close()


class Warehouse:
    """Packs orders and marks them in the shop's table, as a server of the app does: with its secret key."""

    def __init__(self, url: str, public_key: str, secret_key: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {
            "X-Public-Key": public_key,
            "Authorization": f"Bearer {secret_key}",
            "Content-Type": "application/json",
        }

    def work(self, inbox: Inbox) -> None:
        """Pack what the inbox holds, for ever."""
        while True:
            key, text = inbox.next()
            data = json.loads(text)["data"]
            order = data["row"]["data"]
            try:
                self._mark(data["table_id"], data["row"]["id"], "shipped")
            except OSError as error:
                # Nobody answers, or not well: the order stays in the inbox.
                print(f"cannot mark an order: {error}", flush=True)
                time.sleep(1)
                continue
            print(f"packed {order['quantity']} × {order['item']}", flush=True)
            inbox.done(key)

    def _mark(self, table_id: str, order_id: str, status: str) -> None:
        body = json.dumps({"data": {"status": status}}).encode()
        path = f"{self._url}/v1/public/tables/{table_id}/data/{order_id}"
        request = urllib.request.Request(path, body, self._headers, method="PATCH")
        try:
            urllib.request.urlopen(request, timeout=60).close()
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            # The order was deleted meanwhile.


def handler(inbox: Inbox, secret: str) -> type[http.server.BaseHTTPRequestHandler]:
    """Return what answers deliveries."""

    class Deliveries(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            if length > MAX_BODY_BYTES:
                self.close_connection = True
                self._answer(413)
                return
            body = self.rfile.read(length)
            if not is_genuine(body, self.headers, secret):
                self._answer(401)
                return
            if json.loads(body)["type"] != "row.created" or json.loads(body).get("test"):
                self._answer(204)
                return
            # Only stored here; packing takes longer than Pilotis waits for an answer.
            is_new = inbox.take(self.headers["Idempotency-Key"], body)
            print("order received" if is_new else "order known already", flush=True)
            self._answer(204)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's
            """Say nothing: what matters is printed above."""

    return Deliveries


def main() -> None:
    """Receive deliveries until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8090", help="where Pilotis is (default: %(default)s)")
    parser.add_argument("--public-key", required=True, help="the app's public key, pk_…")
    parser.add_argument("--port", type=int, default=8097, help="port to receive on (default: %(default)s, 0 for any)")
    parser.add_argument("--inbox", type=Path, default=Path("orders.sqlite"), help="file (default: %(default)s)")
    arguments = parser.parse_args()

    inbox = Inbox(arguments.inbox)
    warehouse = Warehouse(arguments.url, arguments.public_key, os.environ["SECRET_KEY"])
    threading.Thread(target=warehouse.work, args=[inbox], daemon=True).start()
    deliveries = handler(inbox, os.environ["SECRET"])
    with http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), deliveries) as server:
        print(f"Deliveries are received at http://127.0.0.1:{server.server_port}/\nCtrl-C stops it.", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
