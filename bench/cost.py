"""`python -m bench.cost`: how long the most expensive requests delay others and block the event loop, and how much
memory they use.

Requests of many shapes, each as large as its route takes, are sent with the public key of one app, while another
process reads a row of a second app over and over. The shapes that delayed it most are varied and sent again. Then
many bodies and answers are held in flight at once, and the server's resident memory is watched.

At last each of 26 kinds of request, as large as its route takes, is sent to a server in a thread of this process, and
the longest step of its event loop is printed in milliseconds of processor time; see `bench.steps`. With `--steps` this
is all that is done, in less than a minute. Options: `--steps`, `--seconds` of the search, `--seed`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import random
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_double
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx

from bench.servers import Pilotis
from bench.steps import Request, measure

_QUERY_BYTES, _ROWS_BYTES = 250_000, 10_000_000
_NUMBERS = ["1", "1.5", "0.000001", "1e300", "9" * 300]
_SHORT = [*_NUMBERS, '"a"', '"a,[{"', '"\\u0041"', '"\\\\\\""', "null", "[]", "{}", '"$a"']
# A body of ten megabytes is taken only where its values are few, so these are long.
_LONG = ["9" * 900, "0." + "9" * 900, '"' + "a" * 10_000 + '"', '"' + "\\u0041" * 1500 + '"', '"' + '\\"' * 5000 + '"']
_VALUES = [*_SHORT, *_LONG]


# Values to repeat, and their share of the largest body, so that a route accepts it and does as much work as possible.
_TAKEN = {
    "project": ("1.5", 0.7),
    "group": ("1.5", 0.7),
    "match": ('{"s":"' + "a" * 2200 + '"}', 0.85),
    "in": ('"' + "a" * 220 + '"', 0.85),
    "where": ('{"s":"' + "a" * 2200 + '"}', 0.85),
    "equal": ('"' + "a" * 40 + '"', 0.9),
    "delete": ('"' + "a" * 40 + '"', 0.9),
    "geojson": ("", 0.7),
    "ring": (",".join(f'{{"latitude":{n % 2},"longitude":{n // 2}}}' for n in range(3)), 0.9),
    "search": ('"s"', 0.0),
    "custom data": ('"' + "a" * 40 + '"', 0.24),
    "create": ("9" * 900, 0.1),
    "create free": ("9" * 900, 0.1),
}


class Shape(NamedTuple):
    """A body to be: the route, and what is repeated, in how many lists, as a list or an object."""

    route: str
    value: str
    depth: int
    is_object: bool
    part: float
    """Of the largest body that the route takes."""
    rows: int = 1
    """How many rows or operations, where the route takes several."""


class Found(NamedTuple):
    """The result of a request: its status, its seconds, and the longest concurrent wait of another app."""

    shape: Shape
    status: int
    seconds: float
    delay: float


def _definition(schema: dict[str, str]) -> dict[str, Any]:
    return {"title": f"table {time.monotonic_ns()}", "schema": schema, "access_level": "Public"}


class Attacked:
    """The tables of the app that attacks, and the bodies of its routes."""

    def __init__(self, server: Pilotis) -> None:
        self._server = server
        self.url = server.url
        schema = {"a": "int", "s": "string", "o": "object", "l": "array", "n": "number"}
        self.table = server.post("/v1/public/tables", _definition(schema))["id"]
        self.free = server.post("/v1/public/tables", _definition({}))["id"]
        for table in (self.table, self.free):
            server.post(f"/v1/public/tables/{table}/data", {"data": [{"a": number} for number in range(200)]})
        guest = server.post("/v1/public/app-members", None)
        self.member = {"Authorization": f"Bearer {guest['access_token']}"}

    def routes(self) -> dict[str, tuple[str, str, int]]:
        """Return each route's method and path, its body around `#`, and the largest body that it accepts. Text between
        two `@` is repeated.
        """
        data, about = f"/v1/public/tables/{self.table}/data", f'"table_id":"{self.table}"'
        free = f"/v1/public/tables/{self.free}/data"
        create = f'{{"type":"create",{about},"data":{{"l":[#]}}}}'
        operations = f'{{"operations":[@{create}@]}}'
        aggregate = "POST /v1/public/aggregate"
        return {
            "project": (
                aggregate,
                f'{{{about},"pipeline":[{{"$project":{{"x":#}}}}]}}',
                _QUERY_BYTES,
            ),
            "group": (aggregate, f'{{{about},"pipeline":[{{"$group":{{"_id":#}}}}]}}', _QUERY_BYTES),
            "match": (
                aggregate,
                f'{{{about},"pipeline":[{{"$match":{{"$or":[#]}}}}]}}',
                _QUERY_BYTES,
            ),
            "in": (f"POST {data}/query", '{"where":{"l":{"$in":[#]}}}', _QUERY_BYTES),
            "where": (f"POST {data}/query", '{"where":{"$or":[#]}}', _QUERY_BYTES),
            "equal": (f"POST {data}/query", '{"where":{"o":#}}', _QUERY_BYTES),
            "delete": (f"POST {data}/delete-where", '{"where":{"o":{"x":#}}}', _QUERY_BYTES),
            "ring": ("POST /v1/public/geo", f'{{{about},"field":"o","polygon":[#]}}', _QUERY_BYTES),
            "geojson": (
                "POST /v1/public/geo",
                f'{{{about},"field":"o","polygon":{{"type":"Polygon","coordinates":[[#]]}}}}',
                _QUERY_BYTES,
            ),
            "search": ("POST /v1/public/search", f'{{{about},"query":"a","fields":[#]}}', _QUERY_BYTES),
            "custom data": ("PATCH /v1/public/app-members/me/custom-data", '{"custom_data":{"a":#}}', _QUERY_BYTES),
            "create": (f"POST {data}", '{"data":{"l":[#]}}', _ROWS_BYTES),
            "create free": (f"POST {free}", '{"data":{"a":#}}', _ROWS_BYTES),
            "bulk": (f"POST {data}/bulk", '{"data":[@{"l":[#]}@]}', _ROWS_BYTES),
            "bulk free": (f"POST {free}/bulk", '{"data":[@{"a":#}@]}', _ROWS_BYTES),
            "batch": ("POST /v1/public/batch", operations, _ROWS_BYTES),
            "transaction": ("POST /v1/public/transactions", operations, _ROWS_BYTES),
        }

    def request(self, shape: Shape, routes: dict[str, tuple[str, str, int]]) -> Request:
        """Return the request of a shape."""
        line, body, most = routes[shape.route]
        head, item, tail = body.split("@") if "@" in body else ("", body, "")
        rows = shape.rows if tail else 1
        filled = item.replace("#", _filled(shape, int(most * shape.part) // rows - len(item) - 1))
        headers = {**self._server.headers, "Content-Type": "application/json"}
        if shape.route == "custom data":
            headers |= self.member
        return Request(line, head + ",".join([filled] * rows) + tail, headers)

    def send(
        self, shape: Shape, routes: dict[str, tuple[str, str, int]], address: str = "127.0.0.1"
    ) -> tuple[int, float]:
        """Send the request of a shape from a loopback address.

        Return its status, 0 for none, and how long the answer took.
        """
        line, content, headers = self.request(shape, routes)
        method, path = line.split(" ")
        begun = time.perf_counter()
        transport = httpx.HTTPTransport(local_address=address)
        with contextlib.suppress(httpx.HTTPError), httpx.Client(transport=transport, timeout=120) as client:
            answer = client.request(method, self._server.url + path, content=content, headers=headers)
            return answer.status_code, time.perf_counter() - begun
        return 0, time.perf_counter() - begun


def _filled(shape: Shape, size: int) -> str:
    """Return a value, repeated until it has the size, in lists."""
    if shape.route == "geojson":
        return ",".join(f"[{n % 360 * 0.01:.5f},{n % 17 * 0.1:.5f}]" for n in range(max(3, size // 18)))
    if shape.is_object:
        count = max(1, size // (len(shape.value) + 9))
        inner = "{" + ",".join(f'"k{number}":{shape.value}' for number in range(count)) + "}"
    else:
        inner = ",".join([shape.value] * max(1, size // (len(shape.value) + 1)))
        inner = inner if shape.route in {"in", "where", "match", "ring", "search", "create", "bulk"} else f"[{inner}]"
    return "[" * shape.depth + inner + "]" * shape.depth


def _any_shape(chance: random.Random, routes: list[str]) -> Shape:
    return Shape(
        chance.choice(routes),
        chance.choice(_VALUES),
        chance.choice([0, 0, 1, 9, 18, 55]),
        chance.random() < 0.3,
        chance.choice([1.0, 1.0, 0.5, 0.1]),
        chance.choice([1, 10, 500]),
    )


def _varied(chance: random.Random, shape: Shape, routes: list[str]) -> Shape:
    other = _any_shape(chance, routes)
    field = chance.choice(Shape._fields)
    return shape._replace(**{field: getattr(other, field)})


def _probe(url: str, path: str, headers: dict[str, str], slowest: Synchronized[float]) -> None:
    """Read a row over and over, and keep the longest time that it took, in seconds."""
    with httpx.Client(base_url=url, headers=headers, timeout=120) as client:
        while True:
            begun = time.perf_counter()
            client.get(path).raise_for_status()
            slowest.value = max(slowest.value, time.perf_counter() - begun)
            time.sleep(0.002)


def search(attacked: Attacked, slowest: Synchronized[float], seconds: float, seed: int) -> list[Found]:
    """Search for the most expensive requests; return all attempts, starting with the one that delayed others most."""
    chance, routes = random.Random(seed), attacked.routes()
    names = list(routes)
    found: list[Found] = []
    deadline = time.monotonic() + seconds
    # Each route with what is costliest to decode, then at random, then near the worst.
    waiting = [Shape(name, value, 0, False, 1.0, 10) for value in ("1.5", *_LONG) for name in names]
    chance.shuffle(waiting)
    while time.monotonic() < deadline:
        if waiting:
            shape = waiting.pop()
        elif found and chance.random() < 0.5:
            shape = _varied(chance, chance.choice(sorted(found, key=lambda one: -one.delay)[:5]).shape, names)
        else:
            shape = _any_shape(chance, names)
        slowest.value = 0.0
        status, took = attacked.send(shape, routes)
        time.sleep(0.05)
        found.append(Found(shape, status, took, slowest.value))
    return sorted(found, key=lambda one: -one.delay)


@contextlib.contextmanager
def _opened(url: str, count: int, head: str) -> Iterator[list[socket.socket]]:
    address = urlsplit(url)
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((address.hostname, address.port))
            connection.sendall(head.encode())
            connections.append(connection)
        yield connections


def _held(server: Pilotis, count: int, head: str, start: bytes, seconds: float) -> Counter[str]:
    """Hold connections open that send, or take, a little; return what they were answered."""
    statuses: Counter[str] = Counter()
    with _opened(server.url, count, head) as connections:
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(start)
        time.sleep(seconds)
        for connection in connections:
            connection.setblocking(False)
            try:
                first = connection.recv(64)
                statuses[first.split(b" ")[1].decode() if first.startswith(b"HTTP") else "cut"] += 1
            except BlockingIOError:
                statuses["waiting"] += 1
            except OSError:
                statuses["cut"] += 1
    return statuses


def memory(server: Pilotis, attacked: Attacked) -> list[tuple[str, float, str]]:
    """Return for each attack on memory its name, the growth of the resident set in MB at its peak, and the answers."""
    routes = attacked.routes()
    key = server.headers["X-Public-Key"]
    data = f"/v1/public/tables/{attacked.table}/data"

    def at_once(count: int, shape: Shape) -> Callable[[], Counter[str]]:
        def attack() -> Counter[str]:
            # From an address each, or the bound for one address would refuse most of them.
            addresses = [f"127.0.1.{number + 1}" for number in range(count)]
            with ThreadPoolExecutor(count) as threads:
                sent = [threads.submit(attacked.send, shape, routes, address) for address in addresses]
                return Counter(str(one.result()[0]) for one in sent)

        return attack

    # In a separate table, so that its page has the intended size whatever rows the search has created.
    pages = server.post("/v1/public/tables", _definition({"s": "string"}))["id"]
    for _ in range(3):
        server.post(f"/v1/public/tables/{pages}/data/bulk", {"data": [{"s": "x" * 900_000}] * 10})
    text = '"' + "x" * 10_000 + '"'
    head = f"Host: a\r\nX-Public-Key: {key}\r\nContent-Type: application/json\r\n"
    trickled = f"POST {data} HTTP/1.1\r\n{head}Content-Length: 10000000\r\n\r\n"
    reading = f"GET /v1/public/tables/{pages}/data?limit=1000 HTTP/1.1\r\n{head}\r\n"
    attacks: list[tuple[str, Callable[[], Counter[str]]]] = [
        ("six bodies of 10 MB, eleven rows of texts each", at_once(6, Shape("bulk", text, 0, False, 1.0, 11))),
        ("six bodies of 2 MB, a million values each", at_once(6, Shape("bulk", "1", 0, False, 0.19, 11))),
        ("six bodies of 10 MB, too many values", at_once(6, Shape("create", "1", 0, False, 1.0))),
        ("twenty changes of custom_data of 60 kB", at_once(20, Shape("custom data", text, 0, False, 0.24))),
        ("twenty changes of custom_data, too large", at_once(20, Shape("custom data", text, 0, False, 1.0))),
        ("twelve readers who take nothing", lambda: _held(server, 12, reading, b"", 5)),
        ("forty bodies that trickle in", lambda: _held(server, 40, trickled, b'{"data":', 5)),
    ]
    told = []
    for name, attack in attacks:
        before = server.memory()["Rss"]
        server.reset_peak()
        answers = attack()
        shown = ", ".join(f"{status}: {count}" for status, count in sorted(answers.items()))
        told.append((name, server.peak() - before, shown))
        time.sleep(2)
    return told


def _kinds(attacked: Attacked, app_id: str, table: str, headers: dict[str, str]) -> dict[str, Request]:
    """Return the 26 kinds of request whose steps are measured.

    Nine of them read and change the table, which gets rows of 13 MB here, with the headers of its app's owner.
    """
    routes = attacked.routes()
    kinds = {}
    for name in routes:
        value, part = _TAKEN.get(name, ("9" * 900, 0.9))
        kinds[name] = attacked.request(Shape(name, value, 0, False, part, 10), routes)
    rows, url = f"/v1/public/tables/{table}/data", attacked.url
    page = json.dumps({"data": [{"s": "x " * 6500} for _ in range(100)]})
    headers = {**headers, "Content-Type": "application/json"}
    for _ in range(10):
        httpx.post(f"{url}{rows}/bulk", content=page, headers=headers, timeout=60).raise_for_status()
    large = httpx.post(f"{url}{rows}", json={"data": {"s": "x " * 450_000}}, headers=headers, timeout=60)
    row = f"{rows}/{large.raise_for_status().json()['id']}"
    of_app = f"/v1/apps/{app_id}/tables/{table}"
    lines = "".join(json.dumps({"s": "x " * 400}) + "\n" for _ in range(10_000))
    columns = {f"column_{number}": {"type": "string", "default": "x" * 100} for number in range(200)}
    definition = {"title": "t", "schema": columns, "access_level": "Public"}
    pipeline = {"table_id": table, "pipeline": [{"$limit": 1000}, {"$project": {"s": 1}}]}
    return kinds | {
        "page of 13 MB": Request(f"GET {rows}?limit=1000", None, headers),
        "query of 13 MB": Request(f"POST {rows}/query", '{"limit":1000,"where":{"s":{"$ne":""}}}', headers),
        "row of 0.9 MB": Request(f"GET {row}", None, headers),
        "change of 9 MB": Request(f"PATCH {row}", json.dumps({"data": {"s": "y " * 450_000}}), headers),
        "pipeline's 13 MB": Request("POST /v1/public/aggregate", json.dumps(pipeline), headers),
        "export as CSV": Request(f"GET {of_app}/export?format=csv", None, headers),
        "export as JSON": Request(f"GET {of_app}/export?format=jsonl", None, headers),
        "import of 8 MB": Request(f"POST {of_app}/import?format=jsonl", lines, headers),
        "200 columns": Request(f"POST {of_app}/schema-preview", json.dumps(definition), headers),
    }


def _print_steps(server: Pilotis, kinds: dict[str, Request]) -> None:
    for step in measure(server, kinds):
        print(f"{step.seconds * 1000:6.1f} ms step  {step.status}  {step.kind}")


def main() -> None:
    """Run the search, the memory attacks and the measurement of steps, and print the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.cost", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the search")
    parser.add_argument("--steps", action="store_true", help="print the steps of the event loop alone")
    parser.add_argument("--seed", type=int, default=1, help="of the search's choices")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pilotis-cost-") as name, Pilotis(Path(name)) as server:
        attacked = Attacked(server)
        app_id, neighbour = server.owned_app()
        made = httpx.post(
            f"{server.url}/v1/public/tables", json=_definition({"a": "int", "s": "string"}), headers=neighbour
        )
        table = made.json()["id"]
        path = f"/v1/public/tables/{table}/data"
        row = httpx.post(server.url + path, json={"data": {"a": 1}}, headers=neighbour).json()["id"]
        if options.steps:
            _print_steps(server, _kinds(attacked, app_id, table, neighbour))
            return
        slowest = multiprocessing.Value(c_double, 0.0)
        probe = multiprocessing.Process(
            target=_probe, args=(server.url, f"{path}/{row}", neighbour, slowest), daemon=True
        )
        probe.start()
        idle = []
        for _ in range(20):
            slowest.value = 0.0
            time.sleep(0.25)
            idle.append(slowest.value)
        print(
            f"Without an attack the slowest of a quarter second: median {median(idle) * 1000:.0f} ms, "
            f"longest {max(idle) * 1000:.0f} ms"
        )
        found = search(attacked, slowest, options.seconds, options.seed)
        probe.terminate()
        print(f"{len(found)} requests tried, statuses {dict(Counter(one.status for one in found))}")
        for one in found[:8]:
            shape = one.shape._replace(value=one.shape.value[:12])
            print(f"{one.delay * 1000:6.0f} ms delay  {one.seconds:6.2f} s  {one.status}  {shape}")
        for attack, megabytes, answers in memory(server, attacked):
            print(f"{megabytes:6.0f} MB  {attack}: {answers}")
        _print_steps(server, _kinds(attacked, app_id, table, neighbour))


if __name__ == "__main__":
    main()
