"""A load on credentials: they are made, used, revoked, and tried on every node."""

import asyncio
from typing import Any

from tests.cluster.checkers.history import Finding, Span
from tests.cluster.checkers.sessions import Use, check_refreshes, check_sessions
from tests.cluster.loads.base import Load, Reply
from tests.support import plain_client

_ME = "/v1/public/app-members/me"
_TRIED_AGAIN = 20
_KEY_SECONDS = 1.0


class SessionLoad(Load):
    """Guests refresh their tokens, and sign out or are banned; public keys are revoked."""

    workers = 1
    pause_seconds = 0.1

    async def prepare(self) -> None:
        app = self.place.app
        self._client, self._console = self.place.client(), self.place.console()
        self._direct = [plain_client(node.url) for node in self.place.cluster.nodes]
        self._table = await app.table({"text": "string"}, title="read by keys")
        self.revocations = 0

    async def begin(self) -> None:
        self._revoked: dict[str, Span] = {}
        self._uses: list[Use] = []
        self._refreshes: list[tuple[str, str]] = []
        await self._console.aclose()
        self._console = self.place.console()

    async def work(self, worker: int) -> None:
        await self.choice.choice([self._sign_out, self._ban, self._revoke_key])()

    async def check(self) -> list[Finding]:
        for credential in list(self._revoked)[-_TRIED_AGAIN:]:
            await self._try_everywhere(credential)
        return check_sessions(self._revoked, self._uses) + check_refreshes(self._refreshes)

    async def close(self) -> None:
        for client in (self._client, self._console, *self._direct):
            await client.aclose()

    async def _sign_out(self) -> None:
        guest = await self._guest()
        if guest is None:
            return
        access = (await self._refresh(guest) or guest)["access_token"]
        await self._try_everywhere(access)
        headers = {"Authorization": f"Bearer {access}"}
        reply = await self.place.send(self._client, "POST", "/v1/public/app-members/signout", headers=headers)
        await self._end(access, reply)

    async def _ban(self) -> None:
        guest = await self._guest()
        if guest is None:
            return
        access = guest["access_token"]
        await self._try_everywhere(access)
        path = f"/v1/apps/{self.place.app.app_id}/members/{guest['member_id']}"
        await self._end(access, await self.place.send(self._console, "PATCH", path, json={"is_active": False}))

    async def _revoke_key(self) -> None:
        path = f"/v1/apps/{self.place.app.app_id}/keys/public"
        made = await self.place.send(self._console, "POST", path, json={"name": "for a moment"})
        if not made.acknowledged:
            return
        key = made.body["key"]
        await self._try_everywhere(key)
        await self._end(key, await self.place.send(self._console, "DELETE", f"{path}/{made.body['key_id']}"))

    async def _end(self, credential: str, reply: Reply) -> None:
        if reply.acknowledged:
            self.revocations += 1
            # Nodes know public keys, and are told of changes (docs/console.md); sessions they look up.
            delay = _KEY_SECONDS if credential.startswith("pk_") else 0.0
            self._revoked[credential] = Span(reply.span.began, reply.span.ended + delay)
        await self._try_everywhere(credential)

    async def _guest(self) -> dict[str, Any] | None:
        reply = await self.place.send(self._client, "POST", "/v1/public/app-members")
        return reply.body if reply.acknowledged else None

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

    async def _try_everywhere(self, credential: str) -> None:
        await asyncio.gather(*(self._use(node, credential) for node in range(len(self._direct))))

    async def _use(self, node: int, credential: str) -> None:
        """Ask one node; one that is frozen or cut off is not waited for."""
        if credential.startswith("pk_"):
            path, headers = f"/v1/public/tables/{self._table}/data?limit=1", {"X-Public-Key": credential}
        else:
            path = _ME
            headers = {"X-Public-Key": self.place.app.public_key, "Authorization": f"Bearer {credential}"}
        reply = await self.place.send(self._direct[node], "GET", path, headers=headers, timeout=3)
        if reply.status:
            name = self.place.cluster.nodes[node].name
            self._uses.append(Use(credential, reply.span, reply.acknowledged, name))
