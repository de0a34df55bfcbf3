"""The writing requests of every route, made from the examples of the reference, and sent sixteen at once."""

import asyncio
import random
import time
from collections import defaultdict
from typing import Any, NamedTuple

import httpx
import msgspec

from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.example import Example
from pilotis.http.reference.samples import VARIABLE, request_of
from tests.http.example_world import World
from tests.http.test_examples import EXAMPLES, FILES
from tests.support import Server

AT_ONCE = 16
_SAFE = {"GET", "HEAD", "OPTIONS"}


class Wanted(NamedTuple):
    """A request as httpx sends it."""

    operation: str
    method: str
    url: str
    headers: dict[str, str]
    content: dict[str, Any]


class Got(NamedTuple):
    """An answer: its status, how long it took, and the beginning of its body."""

    operation: str
    status: int
    seconds: float
    text: str


def families() -> dict[str, list[tuple[Endpoint, Example]]]:
    """The writing routes by tag, those that delete last."""
    found = defaultdict(list)
    for endpoint, example in sorted(EXAMPLES, key=lambda one: one[0].method == "DELETE"):
        # A stream would stay open.
        if endpoint.method not in _SAFE and endpoint.media_type != "text/event-stream":
            found[endpoint.tag].append((endpoint, example))
    return dict(found)


def prepared(server: Server, console: dict[str, str], routes: list[tuple[Endpoint, Example]]) -> list[Wanted]:
    """The requests about one app; an example that cannot share it has an app of its own."""
    world, wanted = World(server, dict(console)), []
    for endpoint, example in routes:
        try:
            world.prepare(example.operation)
            wanted.append(_wanted(world, server, endpoint, example))
        except AssertionError:
            world = World(server, dict(console))
            world.prepare(example.operation)
            wanted.append(_wanted(world, server, endpoint, example))
    return wanted


def _wanted(world: World, server: Server, endpoint: Endpoint, example: Example) -> Wanted:
    request = request_of(endpoint, example, server.url)
    values = {name: world.value(name) for name in request.variables}
    headers = _filled(request.headers, values)
    content: dict[str, Any] = {}
    if request.body is not msgspec.UNSET:
        content["json"] = _filled(request.body, values)
    elif request.content is not None:
        content["content"] = _filled(request.content, values)
    elif request.file is not None:
        content["files"] = {"file": (request.file, FILES[request.file])}
    elif request.upload is not None:
        content["content"] = FILES[request.upload]
    return Wanted(example.operation, request.method, _filled(request.url, values), headers, content)


def _filled(value: Any, values: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(item, values) for name, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    return VARIABLE.sub(lambda match: values[match[1]], value) if isinstance(value, str) else value


async def send(client: httpx.AsyncClient, wanted: Wanted) -> Got:
    begun = time.perf_counter()
    answer = await client.request(wanted.method, wanted.url, headers=wanted.headers, **wanted.content)
    return Got(wanted.operation, answer.status_code, time.perf_counter() - begun, answer.text[:200])


async def at_once(client: httpx.AsyncClient, wanted: list[Wanted]) -> list[Got]:
    return await asyncio.gather(*(send(client, one) for one in wanted))


def mixtures(wanted: list[Wanted], chance: random.Random, rounds: int) -> list[list[Wanted]]:
    """Rounds of requests that contradict each other; in the last ones what they are about is deleted meanwhile."""
    keeping = [one for one in wanted if one.method != "DELETE"]
    mixed = [chance.choices(keeping, k=AT_ONCE) for _ in range(rounds)]
    for deleting in [one for one in wanted if one.method == "DELETE"]:
        mixed.append(chance.choices(keeping, k=AT_ONCE - 2) + [deleting] * 2)
        chance.shuffle(mixed[-1])
    return mixed
