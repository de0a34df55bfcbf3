"""A load on sessions: guests come, refresh their tokens, sign out, and try what they had on every node."""

import asyncio

from tests.cluster.checkers.history import Finding, Span
from tests.cluster.checkers.sessions import Use, check_refreshes, check_sessions
from tests.cluster.loads.base import Load
from tests.support import plain_client

_ME = "/v1/public/app-members/me"


class SessionLoad(Load):
    """Each guest lives for a few requests; what it used is tried afterwards, on each node directly."""

    workers = 1
    pause_seconds = 0.1

    async def prepare(self) -> None:
        self._client = self.place.client()
        self._direct = [
            plain_client(node.url, **{"X-Public-Key": self.place.app.public_key}) for node in self.place.cluster.nodes
        ]
        self.revocations = 0

    async def begin(self) -> None:
        self._revoked: dict[str, Span] = {}
        self._uses: list[Use] = []
        self._refreshes: list[tuple[str, str]] = []

    async def work(self, worker: int) -> None:
        guest = await self.place.send(self._client, "POST", "/v1/public/app-members")
        if not guest.acknowledged:
            return
        await asyncio.gather(*(self._use(node, guest.body["access_token"]) for node in range(len(self._direct))))
        tokens = await self._refresh(guest.body) or guest.body
        access = tokens["access_token"]
        await self._use(0, access)
        headers = {"Authorization": f"Bearer {access}"}
        reply = await self.place.send(self._client, "POST", "/v1/public/app-members/signout", headers=headers)
        if reply.acknowledged:
            self.revocations += 1
            self._revoked[access] = reply.span
        await asyncio.gather(*(self._use(node, access) for node in range(len(self._direct))))

    async def check(self) -> list[Finding]:
        for access in list(self._revoked)[-20:]:
            for node in range(len(self._direct)):
                await self._use(node, access)
        return check_sessions(self._revoked, self._uses) + check_refreshes(self._refreshes)

    async def close(self) -> None:
        for client in (self._client, *self._direct):
            await client.aclose()

    async def _refresh(self, tokens: dict[str, str]) -> dict[str, str] | None:
        """Refresh twice, as a client that lost the answer; the second answer has the same successor."""
        headers = {"Authorization": f"Bearer {tokens['refresh_token']}"}
        newest = None
        for _ in range(2):
            reply = await self.place.send(self._client, "POST", "/v1/auth/re-issue", headers=headers)
            if reply.acknowledged:
                newest = reply.body
                self._refreshes.append((tokens["refresh_token"], reply.body["refresh_token"]))
        return newest

    async def _use(self, node: int, access: str) -> None:
        """Ask one node; one that is frozen or cut off is not waited for."""
        headers = {"Authorization": f"Bearer {access}"}
        reply = await self.place.send(self._direct[node], "GET", _ME, headers=headers, timeout=3)
        if reply.status:
            name = self.place.cluster.nodes[node].name
            self._uses.append(Use(access, reply.span, reply.acknowledged, name))
