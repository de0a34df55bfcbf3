"""Makes the tea shop and the programs that sign people in with it, and prints how to start them.

    python3 examples/sign-in-with/prepare.py --email you@example.com --password …

Needs Python 3.11 only. See README.md beside this file.
"""

import argparse
import contextlib
import functools
import http.server
import json
import shlex
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

COLUMNS = {"item": "string", "total": "number"}
PROGRAMS = {"Bookkeeper": 8095, "Tea letter": 8096}


class Pilotis:
    """The console's routes of a server, for one of its users."""

    def __init__(self, url: str, email: str, password: str) -> None:
        self.url = url
        self.headers = {"Content-Type": "application/json"}
        token = self.call("POST", "/v1/auth/signin", {"email": email, "password": password})["access_token"]
        self.headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request and return its answer; ends the program with the server's sentence if it is an error."""
        encoded = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, encoded, self.headers | headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            sys.exit(f"{method} {path}: {error.code} {json.load(error)['message']}")
        except OSError as error:
            sys.exit(f"{self.url} does not answer: {error}. Is Pilotis running there?")


def provider(pilotis: Pilotis) -> tuple[str, str, str]:
    """Make the tea shop: return its app's id, its public key, and the table of orders."""
    app = pilotis.call("POST", "/v1/apps", {"name": "Tea shop"})
    app_id, key = app["app_id"], app["public_key"]
    pilotis.call("PUT", f"/v1/apps/{app_id}/oauth/settings", {"is_provider": True})
    pilotis.call("PUT", f"/v1/apps/{app_id}/oauth/scopes/orders:read", {"title": "See your orders"})
    table = {"title": "orders", "schema": COLUMNS, "access_level": "Creator"}
    table_id = pilotis.call("POST", "/v1/public/tables", table, **{"X-Public-Key": key})["id"]
    source = {"event": "row.created", "table_id": table_id, "fields": list(COLUMNS), "member_from": "creator"}
    example = {"item": "tea", "total": 12.5}
    type_ = {"title": "Order created", "required_scope": "orders:read", "example": example, "source": source}
    pilotis.call("PUT", f"/v1/apps/{app_id}/event-types/order.created", type_)
    return app_id, key, table_id


def consumer(pilotis: Pilotis, provider_app_id: str, name: str, port: int) -> dict[str, str]:
    """Make a program's client at the shop, and its own app with a webhook; return the program's environment."""
    origin = f"http://127.0.0.1:{port}"
    client = {
        "name": name,
        "redirect_uris": [f"{origin}/callback"],
        "post_logout_redirect_uris": [f"{origin}/"],
        "backchannel_logout_uri": f"{origin}/backchannel",
        "scopes": ["openid", "profile", "orders:read"],
    }
    made = pilotis.call("POST", f"/v1/apps/{provider_app_id}/oauth/clients", client)
    webhook = {
        "url": f"{origin}/events",
        "event_types": ["order.created"],
        "provider_app_id": provider_app_id,
        "client_id": made["client_id"],
        "client_secret": made["client_secret"],
    }
    own_app_id = pilotis.call("POST", "/v1/apps", {"name": name})["app_id"]
    secret = pilotis.call("POST", f"/v1/apps/{own_app_id}/webhooks", webhook)["secret"]
    issuer = pilotis.call("GET", "/.well-known/openid-configuration")["issuer"]
    return {
        "ISSUER": issuer,
        "CLIENT_ID": made["client_id"],
        "CLIENT_SECRET": made["client_secret"],
        "WEBHOOK_SECRET": secret,
        "NAME": name,
        "PORT": str(port),
    }


def main() -> None:
    """Make everything, print how to go on, and serve the shop's page until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8090", help="where Pilotis is (default: %(default)s)")
    parser.add_argument("--email", required=True, help="a console user's e-mail address")
    parser.add_argument("--password", required=True, help="and password")
    parser.add_argument("--port", type=int, default=8094, help="port of the shop's page (default: %(default)s)")
    parser.add_argument("--ports", type=int, nargs=2, default=[*PROGRAMS.values()], help="ports of the two programs")
    arguments = parser.parse_args()

    url = arguments.url.rstrip("/")
    pilotis = Pilotis(url, arguments.email, arguments.password)
    app_id, key, table_id = provider(pilotis)
    print("Start each of these in a terminal of its own:")
    for name, port in zip(PROGRAMS, arguments.ports, strict=True):
        environment = consumer(pilotis, app_id, name, port)
        print(" ".join(f"{one}={shlex.quote(value)}" for one, value in environment.items()), "node bookkeeper.mjs")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=Path(__file__).parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), handler) as server:
        query = urllib.parse.urlencode({"api": url, "key": key, "table": table_id}, safe=":/")
        print(f"The shop is at http://127.0.0.1:{server.server_port}/shop.html?{query}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
