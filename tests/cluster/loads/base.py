"""What all loads share: requests with an outcome, and windows of work that are checked when all is quiet."""

import asyncio
import json
import random
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import asyncpg
import httpx

from tests.cluster.checkers.history import Finding, Outcome, Span
from tests.cluster.cluster import Cluster
from tests.conftest import PASSWORD
from tests.support import App, plain_client
from tests.waiting import until

REQUEST_SECONDS = 40
_CONCLUSIVE = {503, 507}
"""Of an error on the server's side: the codes that say that nothing was changed (docs/errors.md)."""
_SAYS_NOTHING = {"OUTCOME_UNKNOWN", "IDEMPOTENCY_KEY_IN_USE"}


class Reply(NamedTuple):
    """An answer, what the client knows by it, and when."""

    status: int
    body: Any
    outcome: Outcome
    span: Span

    @property
    def acknowledged(self) -> bool:
        return self.outcome is Outcome.ACKNOWLEDGED

    @property
    def code(self) -> str:
        """The code of an error of Pilotis; empty for what the load balancer answers."""
        return str(self.body.get("code", "")) if isinstance(self.body, dict) else ""


class Place:
    """The cluster, an app on it, and what all loads have met. Loads of rows alone need no cluster, but any server."""

    def __init__(self, cluster: Cluster | None, app: App) -> None:
        self._cluster = cluster
        self.app = app
        self.outcomes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.seconds: list[float] = []
        self.last_acknowledged = 0.0
        self.longest_stop = 0.0
        self._changes: deque[float] = deque(maxlen=2000)

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None
        return self._cluster

    def first_after(self, moment: float) -> float:
        """Return when the first change after a moment was acknowledged; the last two thousand are known."""
        return next((at for at in self._changes if at > moment), asyncio.get_running_loop().time())

    def client(self, token: str | None = None) -> httpx.AsyncClient:
        """A client of the app, by the load balancer."""
        client = self.app.client(token)
        client.timeout = httpx.Timeout(REQUEST_SECONDS)
        return client

    async def sign_in(self) -> None:
        """Sign the app's owner in again, whose token is valid for an hour."""
        body = {"email": self.app.console["email"], "password": PASSWORD}
        async with plain_client(self.app.server.url) as client:
            self.app.console |= await self.insist(client, "POST", "/v1/auth/signin", json=body)

    def console(self) -> httpx.AsyncClient:
        """A client of the app's owner."""
        return plain_client(self.app.server.url, Authorization=f"Bearer {self.app.console['access_token']}")

    async def send(self, client: httpx.AsyncClient, method: str, path: str, **options: Any) -> Reply:
        """Send a request, and return what is known of it afterwards; never raises for what the cluster does."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            answer = await client.request(method, path, **options)
        except httpx.HTTPError as error:
            self.errors[type(error).__name__] += 1
            self.outcomes["unknown"] += 1
            return Reply(0, None, Outcome.UNKNOWN, Span(began, loop.time()))
        reply = _reply(answer, Span(began, loop.time()))
        self.outcomes[reply.outcome.value] += 1
        if reply.acknowledged:
            now = reply.span.ended
            self.seconds.append(now - began)
            if self.last_acknowledged:
                self.longest_stop = max(self.longest_stop, now - self.last_acknowledged)
            self.last_acknowledged = now
            if method != "GET":
                self._changes.append(now)
        else:
            self.errors[f"{reply.status} {reply.code}"] += 1
        return reply

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Count the time of the block, in which nobody works, as no stop of the cluster."""
        try:
            yield
        finally:
            self.last_acknowledged = 0.0

    async def insist(self, client: httpx.AsyncClient, method: str, path: str, **options: Any) -> Any:
        """Send a request that may be repeated until it is acknowledged, and return its body."""

        async def sent() -> tuple[Any] | None:
            reply = await self.send(client, method, path, **options)
            if reply.acknowledged:
                return (reply.body,)
            assert reply.status in {0, 409, 500, 502, 503, 504}, reply
            await asyncio.sleep(0.1)
            return None

        return (await until(sent))[0]

    async def fetch(self, statement: str, *arguments: Any) -> list[asyncpg.Record]:
        """Ask the primary directly, whatever happens to it."""

        async def asked() -> tuple[list[asyncpg.Record]] | None:
            try:
                connection = await asyncpg.connect(**self.cluster.postgres.primary.arguments)
            except (OSError, asyncpg.PostgresError):
                return None
            try:
                return (await connection.fetch(statement, *arguments),)
            except (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError):
                return None
            finally:
                connection.terminate()

        return list((await until(asked))[0])


class Load(ABC):
    """Clients of one kind. A campaign lets them work for a window, waits until they rest, and has it checked."""

    workers = 1
    pause_seconds = 0.05
    """Between two requests of a worker, at most."""

    def __init__(self, place: Place, choice: random.Random) -> None:
        self.place = place
        self.choice = choice

    @abstractmethod
    async def prepare(self) -> None:
        """Make what the load works on, while nothing is disturbed."""

    async def begin(self) -> None:
        """Begin a window; nothing is disturbed yet."""
        return

    @abstractmethod
    async def work(self, worker: int) -> None:
        """Do one thing."""

    @abstractmethod
    async def check(self) -> list[Finding]:
        """Check the window, once nothing is disturbed and nobody works any more."""

    async def close(self) -> None:
        """Close all clients."""
        return

    async def run(self, worker: int, stopped: asyncio.Event, calm: float) -> None:
        """Work until told to stop, with pauses that are `calm` times as long, and end what was begun."""
        while not stopped.is_set():
            await self.work(worker)
            await asyncio.sleep(calm * self.choice.uniform(0, self.pause_seconds))


def _reply(answer: httpx.Response, span: Span) -> Reply:
    try:
        body = json.loads(answer.content)
    except ValueError:
        body = None
    if answer.is_success:
        return Reply(answer.status_code, body, Outcome.ACKNOWLEDGED, span)
    code = body.get("code") if isinstance(body, dict) else None
    is_known = code is not None and code not in _SAYS_NOTHING
    is_refused = is_known and (answer.status_code < 500 or answer.status_code in _CONCLUSIVE)
    return Reply(answer.status_code, body, Outcome.REFUSED if is_refused else Outcome.UNKNOWN, span)
