"""Makes the guestbook's table if there is none yet, then serves the page on a port of its own.

    python3 examples/guestbook/serve.py --url http://127.0.0.1:8090 --public-key pk_…

Needs Python 3.11 only. See README.md beside this file.
"""

import argparse
import contextlib
import functools
import http.server
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

TITLE = "Guestbook"
SCHEMA = {
    "name": {"type": "string", "required": True},
    "text": {"type": "string", "required": True},
    "guest": {"type": "string", "required": True, "description": "member_id of the guest, as its page says"},
}


def call(url: str, public_key: str, method: str, path: str, body: Any = None) -> Any:
    """Send a request and return its answer; ends the program with the server's sentence if it is an error."""
    headers = {"X-Public-Key": public_key, "Content-Type": "application/json"}
    encoded = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/v1/public{path}", encoded, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.code} {json.load(error)['message']}")
    except OSError as error:
        sys.exit(f"{url} does not answer: {error}. Is Pilotis running there?")


def table_id(url: str, public_key: str) -> str:
    """Return the id of the guestbook's table, which is made on first use; only signed-in members may use its rows."""
    for table in call(url, public_key, "GET", "/tables")["tables"]:
        if table["title"] == TITLE:
            return str(table["id"])
    body = {"title": TITLE, "schema": SCHEMA, "access_level": "AppMember"}
    return str(call(url, public_key, "POST", "/tables", body)["id"])


def main() -> None:
    """Make the table, print the link, serve the page until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8090", help="where Pilotis is (default: %(default)s)")
    parser.add_argument("--public-key", required=True, help="the app's public key, pk_…")
    parser.add_argument("--port", type=int, default=8099, help="port of the page (default: %(default)s, 0 for any)")
    arguments = parser.parse_args()

    url = arguments.url.rstrip("/")
    table = table_id(url, arguments.public_key)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=Path(__file__).parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), handler) as server:
        query = urllib.parse.urlencode({"api": url, "key": arguments.public_key, "table": table}, safe=":/")
        print(f"The guestbook is at http://127.0.0.1:{server.server_port}/?{query}\nCtrl-C stops it.", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
