"""Kills the server again and again during uploads, whole ones and resumable ones; then compares database and store.

    PYTHONPATH=src python -m tests.files.crash [--uploads 200] [--seed 1]

What must hold afterwards: every acknowledged file is there, whole; nothing else is listed but what was sent, whole;
each listed file has its bytes, and all bytes belong to a file or to an upload that is still under way.
"""

import argparse
import asyncio
import hashlib
import random
import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from pilotis.files.cleaning import Reconciliation
from tests.acceptance.tus import TUS, creation
from tests.backstage import run_sql
from tests.conftest import first_console_user, new_app
from tests.console import owner_of, second_node
from tests.support import App, Server, plain_client

CONCURRENT_UPLOADS = 6
FIXED_PATHS = 4
LARGEST = 300_000
MAX_ANSWERS = 20


@dataclass
class Outcome:
    """What the uploaders know: contents sent and acknowledged by path, and how often the server was killed."""

    sent: dict[str, set[bytes]] = field(default_factory=dict)
    acknowledged: dict[str, bytes] = field(default_factory=dict)
    completed: int = 0
    pieces: int = 0
    broken_off: int = 0
    kills: int = 0


class Crash:
    """One run: uploaders, and a task that kills processes."""

    def __init__(self, directory: Path, uploads: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.server = Server(directory / "data")
        self.uploads = uploads
        self.begun = 0
        self.outcome = Outcome()
        self.up, self.enough = asyncio.Event(), asyncio.Event()
        self.answers_to_kill = 0
        self.locks = [asyncio.Lock() for _ in range(FIXED_PATHS)]

    async def run(self) -> Outcome:
        """Upload and kill, then verify; raises `AssertionError` with what is wrong."""
        await asyncio.to_thread(self.server.start)
        try:
            self.app = new_app(self.server, first_console_user(self.server))
            async with owner_of(self.app).client(self.app) as console:
                made = await console.post("/storages/files", json={"name": "crash"})
            self.base = f"/v1/public/storages/files/{made.json()['id']}"
            self.up.set()
            uploading = asyncio.gather(*(self._upload_many() for _ in range(CONCURRENT_UPLOADS)))
            killing = asyncio.create_task(self._kill_often(uploading))
            await asyncio.wait([uploading, killing], return_when=asyncio.FIRST_EXCEPTION)
            await asyncio.gather(uploading, killing)
            await self._verify()
        finally:
            if self.server.process.poll() is None:
                await asyncio.to_thread(self.server.stop)
        return self.outcome

    async def _kill_often(self, uploading: asyncio.Future[Any]) -> None:
        uploading.add_done_callback(lambda _: self.enough.set())
        while not uploading.done():
            # So many answers, not so much time: at any pace something is done and something is cut off.
            self.answers_to_kill = self.random.randrange(1, MAX_ANSWERS)
            self.enough.clear()
            await self.enough.wait()
            await asyncio.sleep(self.random.uniform(0, 0.02))
            await self._kill()

    async def _kill(self) -> None:
        self.up.clear()
        await asyncio.to_thread(self.server.kill)
        self.outcome.kills += 1
        await asyncio.to_thread(self.server.start)
        # A killed process holds no lease: nothing has to wait for its end.
        await run_sql(self.server, "update pilotis.uploads set lease_until = now() where draft is not null")
        self.up.set()

    async def _upload_many(self) -> None:
        while self.begun < self.uploads:
            self.begun += 1
            data = self._content()
            number = self.random.randrange(FIXED_PATHS * 2)
            if number < FIXED_PATHS:
                # One writer a path at a time, so that the last acknowledged content is the one to find.
                async with self.locks[number]:
                    await self._upload(f"fixed/{number}", data)
            else:
                await self._upload(f"new/{self.begun}", data)

    def _content(self) -> bytes:
        """Mostly something new; now and then what others send too, or what is large enough to go past the parser."""
        kind = self.random.random()
        if kind < 0.2:
            return bytes(50_000 + self.random.randrange(3))
        return self.random.randbytes(self.random.randrange(4 << 20, 8 << 20) if kind < 0.35 else self._small())

    def _small(self) -> int:
        return self.random.randrange(1, LARGEST)

    async def _upload(self, path: str, data: bytes) -> None:
        self.outcome.sent.setdefault(path, set()).add(data)
        file_id = await (self._send_in_pieces if self.random.random() < 0.5 else self._send_at_once)(path, data)
        if file_id is None:
            self.outcome.broken_off += 1
            return
        done = await self._until_answered("POST", f"{self.base}/complete-upload", json={"file_id": file_id})
        assert done.status_code == 200, done.text
        assert done.json()["sha256"] == hashlib.sha256(data).hexdigest()
        self.outcome.acknowledged[path] = data
        self.outcome.completed += 1

    async def _send_in_pieces(self, path: str, data: bytes) -> str:
        """Send a file by tus, and go on after each kill from where the server says; return the file's id."""
        headers = creation(len(data), path=path, overwrite="true", filetype="application/zip")
        created = await self._until_answered("POST", f"{self.base}/tus", headers=headers)
        assert created.status_code == 201, created.text
        address, come = httpx.URL(created.headers["location"]).raw_path.decode(), 0
        while True:
            asked = await self._until_answered("HEAD", address, headers=TUS)
            if asked.status_code == 423:
                continue
            offset = int(asked.headers["upload-offset"])
            assert offset >= come, f"{path}: {come} bytes were acknowledged, {offset} are there"
            if offset == len(data):
                return created.headers["upload-file-id"]
            piece = data[offset : offset + max(self._small(), len(data) // 8)]
            kind = {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
            sent = await self._until_answered("PATCH", address, content=piece, headers=TUS | kind)
            assert sent.status_code in {204, 409, 423}, sent.text
            if sent.status_code == 204:
                come = int(sent.headers["upload-offset"])
                self.outcome.pieces += 1

    async def _send_at_once(self, path: str, data: bytes) -> str | None:
        """Send a file by a presigned URL; return its id, or None for one that was broken off."""
        wanted = {"file_size": len(data), "mime_type": "application/zip", "overwrite": True}
        permitted = await self._until_answered("POST", f"{self.base}/presigned-url/path/{path}", json=wanted)
        assert permitted.status_code == 200, permitted.text
        address = httpx.URL(permitted.json()["upload_url"]).raw_path.decode()
        sent = await self._until_answered("PUT", address, content=data, headers=permitted.json()["headers"])
        if sent.status_code == 409 and sent.json()["code"] == "UPLOAD_IN_PROGRESS":
            # The one that was killed has its lease for a minute: give it up, as a client would who does not wait.
            return None
        assert sent.status_code == 200 or sent.json()["code"] == "UPLOAD_ALREADY_RECEIVED", sent.text
        file_id: str = permitted.json()["file_id"]
        return file_id

    async def _until_answered(self, method: str, address: str, **options: Any) -> httpx.Response:
        while True:
            await self.up.wait()
            headers = {"X-Public-Key": self.app.public_key, **options.pop("headers", {})}
            try:
                async with plain_client(self.server.url) as client:
                    answer = await client.request(method, address, headers=headers, **options)
                if answer.status_code != 503:
                    self.answers_to_kill -= 1
                    if self.answers_to_kill <= 0:
                        self.enough.set()
                    return answer
            except httpx.TransportError:
                pass
            options["headers"] = headers
            await asyncio.sleep(0.01)

    async def _verify(self) -> None:
        listed = await self._listed()
        for path, data in self.outcome.acknowledged.items():
            assert path in listed, f"{path} was acknowledged and is not listed"
            if path.startswith("new/"):
                assert listed[path] == data, f"{path} is not what was acknowledged"
        for path, data in listed.items():
            assert data in self.outcome.sent[path], f"{path} holds what nobody sent"
        found = await reconciled(self.server)
        assert not found.missing, f"without bytes: {found.missing}"
        assert not found.orphans, f"bytes of nobody: {found.orphans}"

    async def _listed(self) -> dict[str, bytes]:
        contents = {}
        async with App.client(self.app) as client:
            page = (await client.get(f"{self.base}/items", params={"limit": "1000"})).json()
            assert page["total_count"] == len(page["files"])
            for item in page["files"]:
                if item["type"] == "file":
                    served = await client.get(httpx.URL(item["url"]).raw_path.decode())
                    assert hashlib.sha256(served.content).hexdigest() == item["sha256"], f"{item['path']} is not whole"
                    contents[item["path"]] = served.content
        return contents


async def reconciled(server: Server) -> Reconciliation:
    """Compare database and object store, however young."""
    async with second_node(server, listening=False) as node:
        return await node.services.files.cleaning.reconcile(timedelta(0), apply=False)


def main() -> None:
    """Run once and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--uploads", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        outcome = asyncio.run(Crash(Path(directory), given.uploads, given.seed).run())
    print(
        f"{given.uploads} uploads, {outcome.kills} kills: {outcome.completed} acknowledged and whole"
        f" ({outcome.pieces} pieces of resumable ones),"
        f" {outcome.broken_off} broken off, nothing half-written, nothing without bytes, no bytes of nobody"
    )


if __name__ == "__main__":
    main()
