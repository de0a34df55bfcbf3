"""HTTPS by the server itself, compared with plain HTTP: `python -m bench.https [--seconds 3] [--rounds 5]`.

Two servers with one worker each, the same data, and wrk on kept-alive connections, which decrypts on the same machine.
Every round asks both, one after the other. `rate` is the ratio of the best rounds' requests a second, `processor` that
of the least processor time of the server for a request: the first counts what the client needs, too. The best rounds,
because requests that arrive together share statements: on a busy machine a slower client makes each of them dearer.

- `row`: a row by its id; `list`: 20 rows; `create`: a row; 32 connections.
- `file`: a file of 5 MB of a site, 4 connections.
- `handshake`: a connection with a request each, 200 of them one after the other.
"""

from __future__ import annotations

import argparse
import http.client
import os
import ssl
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.certificates import Authority

from bench import load
from bench.hosting import Site
from bench.load import Requests
from bench.servers import Pilotis

_CONNECTIONS = 32
_LARGE = 5_000_000
_HANDSHAKES = 200


class Case(NamedTuple):
    """What is asked of one of the two servers."""

    url: str
    requests: Requests
    headers: dict[str, str]
    connections: int


def cases(pilotis: Pilotis) -> dict[str, Case]:
    """Return the cases of a server, which gets their data."""
    body = {"title": "measured", "schema": {"text": {"type": "string"}}, "access_level": "Public"}
    path = f"/v1/public/tables/{pilotis.post('/v1/public/tables', body)['id']}/data"
    ids = [pilotis.post(path, {"data": {"text": f"row {number}"}})["id"] for number in range(200)]
    headers = pilotis.headers
    site = Site(pilotis)
    site.deploy({"large.bin": os.urandom(_LARGE)})
    writing = {**headers, "Content-Type": "application/json"}
    return {
        "row": Case(pilotis.url, Requests("GET", [(f"{path}/{one}", "") for one in ids]), headers, _CONNECTIONS),
        "list": Case(pilotis.url, Requests("GET", [(f"{path}?limit=20", "")]), headers, _CONNECTIONS),
        "create": Case(pilotis.url, Requests("POST", [(path, '{"data": {"text": "x"}}')]), writing, _CONNECTIONS),
        "file": Case(pilotis.url, Requests("GET", [("/large.bin", "")]), {"Host": site.host}, 4),
    }


def handshakes(url: str) -> float:
    """Return how many connections with a request each are served in a second."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    parts = urlsplit(url)
    begun = time.perf_counter()
    for _ in range(_HANDSHAKES):
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(parts.netloc, context=context)
        else:
            connection = http.client.HTTPConnection(parts.netloc)  # type: ignore[assignment]
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        connection.close()
    return _HANDSHAKES / (time.perf_counter() - begun)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        certificate = Authority(directory).certificate("127.0.0.1", "*.localhost")
        with Pilotis(directory) as plain, Pilotis(directory, name="https", certificate=certificate) as encrypted:
            found = cases(plain), cases(encrypted)
            for case in found[0]:
                rates: tuple[list[float], list[float]] = [], []
                costs: tuple[list[float], list[float]] = [], []
                for _ in range(options.rounds):
                    for place, pilotis in enumerate((plain, encrypted)):
                        url, requests, headers, connections = found[place][case]
                        file = requests.write(directory / "requests")
                        before = pilotis.processor_seconds()
                        result = load.run(url, requests.method, file, headers, options.seconds, connections)
                        rates[place].append(result.rate)
                        costs[place].append((pilotis.processor_seconds() - before) / result.requests)
                print(
                    f"{case:10} rate {max(rates[1]) / max(rates[0]):.2f}  "
                    f"processor {min(costs[1]) / min(costs[0]):.2f}  "
                    f"{max(rates[1]):,.0f} requests a second by HTTPS",
                    flush=True,
                )
            for pilotis in (plain, encrypted):
                before = pilotis.processor_seconds()
                rate_of = handshakes(pilotis.url)
                each = (pilotis.processor_seconds() - before) / _HANDSHAKES * 1e6
                print(
                    f"handshake  {urlsplit(pilotis.url).scheme:5} {rate_of:,.0f} a second, {each:,.0f} µs of the server"
                )


if __name__ == "__main__":
    main()
