"""A load on files and sites: uploads by way of the object store, and deployments that visitors look at meanwhile."""

import asyncio
import hashlib
import itertools
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx

from pilotis.hosting.sites import VALID_SECONDS
from tests.cluster.checkers.history import Finding, Outcome, Span
from tests.cluster.checkers.states import Deployment, check_files, check_site
from tests.cluster.loads.base import Load
from tests.hosting.sites import new_site, zipped
from tests.support import plain_client

_STALE_SECONDS = VALID_SECONDS + 1.0
_KEPT = 20
_PATHS = {"index.html": "/", "a.txt": "/a.txt", "b.txt": "/b.txt"}


class FilesLoad(Load):
    """Worker 0 uploads, worker 1 deploys, worker 2 visits."""

    workers = 3
    pause_seconds = 0.3

    async def prepare(self) -> None:
        app = self.place.app
        self._client, self._owner = self.place.client(), self.place.client(app.secret_key)
        async with self.place.console() as console:
            path = f"/v1/apps/{app.app_id}/storages/files"
            answer = await console.post(path, json={"name": "files", "quota_bytes": 2**34})
            assert answer.status_code == 201, answer.text
        self._storage = f"/v1/public/storages/files/{answer.json()['id']}"
        self._store = plain_client("http://127.0.0.1")
        self._site = await new_site(app)
        self._visitor = plain_client(app.server.url)
        self._numbers = itertools.count()
        self._deployments: list[Deployment] = []
        self.uploaded = self.deployed = self.visits = 0
        while not self._deployments or self._deployments[-1].outcome is not Outcome.ACKNOWLEDGED:
            await self._deploy()

    async def begin(self) -> None:
        self._uploads: dict[str, tuple[str, Outcome]] = {}
        self._urls: dict[str, str] = {}
        self._reads: list[tuple[Span, Mapping[str, bytes]]] = []
        # The pointer is at one of the last that may have been made.
        made = [one for one in self._deployments if one.outcome is not Outcome.REFUSED]
        self._deployments = made[-_KEPT:]

    async def work(self, worker: int) -> None:
        if worker == 0:
            await self._upload()
        elif worker == 1:
            await self._deploy()
            await asyncio.sleep(1)
        else:
            await self._visit()

    async def check(self) -> list[Finding]:
        digests: dict[str, str | None] = {}
        for name, url in self._urls.items():
            path = urlsplit(url).path
            reply = await self.place.send(self._visitor, "GET", path)
            while reply.status in {0, 502, 503}:
                await asyncio.sleep(0.2)
                reply = await self.place.send(self._visitor, "GET", path)
            answer = await self._visitor.get(path) if reply.acknowledged else None
            digests[name] = hashlib.sha256(answer.content).hexdigest() if answer else None
        self.uploaded += sum(digest is not None for digest in digests.values())
        await self._visit()
        return check_files(self._uploads, digests) + check_site(self._deployments, self._reads)

    async def close(self) -> None:
        for client in (self._client, self._owner, self._store, self._visitor):
            await client.aclose()

    async def _upload(self) -> None:
        name = f"file-{next(self._numbers)}.bin"
        data = self.choice.randbytes(self.choice.randint(1, 100_000))
        digest = hashlib.sha256(data).hexdigest()
        body = {"file_name": name, "file_size": len(data), "mime_type": "application/octet-stream"}
        asked = await self.place.send(self._client, "POST", f"{self._storage}/presigned-url", json=body)
        if not asked.acknowledged:
            return
        try:
            await self._store.put(asked.body["upload_url"], content=data, headers=asked.body["headers"], timeout=20)
        except httpx.HTTPError:
            # It may be there all the same: the server finds out.
            self.place.errors["upload"] += 1
        body = {"file_id": asked.body["file_id"]}
        reply = await self.place.send(self._client, "POST", f"{self._storage}/complete-upload", json=body)
        # Pilotis goes on copying after an answer that it takes too long (docs/files.md).
        outcome = Outcome.UNKNOWN if reply.code == "UPLOAD_FINISHING" else reply.outcome
        self._uploads[name] = digest, outcome
        self._urls[name] = asked.body["public_url"]

    async def _deploy(self) -> None:
        number = next(self._numbers)
        files = {path: f"{path} of {number}".encode() for path in _PATHS}
        archive = {"file": ("site.zip", zipped(files), "application/zip")}
        reply = await self.place.send(self._owner, "POST", f"{self._site.path}/deploy", files=archive)
        pages = {_PATHS[path]: data for path, data in files.items()}
        self._deployments.append(Deployment(reply.span, pages, reply.outcome))
        self.deployed += reply.acknowledged

    async def _visit(self) -> None:
        """Look at one page of the site; every answer is of one deployment that was current then."""
        path = self.choice.choice(list(_PATHS.values()))
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            answer = await self._visitor.get(path, headers={"Host": f"{self._site.slug}.localhost"})
        except httpx.HTTPError:
            return
        if answer.status_code == 200:
            self.visits += 1
            # A node that hears of no deployment looks for one so often (docs/hosting.md).
            self._reads.append((Span(began - _STALE_SECONDS, loop.time()), {path: answer.content}))
