"""`python -m bench.disk DIRECTORY`: the latency of one app's requests while another app's uploads fill a small disk.

DIRECTORY is on a separate small file system, which this fills as far as Pilotis allows; with root, as
`mount -t tmpfs -o size=600m tmpfs DIRECTORY` makes one. The first app uploads to a storage without a quota until it is
refused, and goes on trying. The second one reads, creates and deletes rows, and deletes and uploads a small file.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from collections import Counter
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import httpx

from bench.servers import Pilotis

_CLIENTS = 8
_MIB = 1 << 20
_FILE_BYTES = 4 * _MIB
_SECONDS = 10.0
_LARGEST_DISK = 8 << 30
# A small disk has small reserves: the defaults are for one that holds what an app needs.
_RESERVES = {
    "PILOTIS_UPLOAD_RESERVE_BYTES": str(160 * _MIB),
    "PILOTIS_UPLOAD_RESERVE_PERCENT": "100",
    "PILOTIS_WRITE_RESERVE_BYTES": str(80 * _MIB),
}


class Uploader:
    """Uploads files to a storage until stopped; counts the statuses of the first step, and the bytes."""

    def __init__(self, url: str, headers: dict[str, str], storage_id: str) -> None:
        self._url, self._headers = url, headers
        self._base = f"/v1/public/storages/files/{storage_id}"
        self.statuses: Counter[int] = Counter()
        self.bytes = 0

    async def run(self, full: Event, ended: Event) -> None:
        """Upload with many clients until `ended` is set; sets `full` once an upload is refused for lack of room."""
        await asyncio.gather(*(self._run(number, full, ended) for number in range(_CLIENTS)))

    async def _run(self, client_number: int, full: Event, ended: Event) -> None:
        data = bytearray(os.urandom(_FILE_BYTES))
        async with httpx.AsyncClient(base_url=self._url, headers=self._headers, timeout=60) as client:
            number = 0
            while not ended.is_set():
                number += 1
                # Equal files of an app take the room of one.
                data[:16] = f"{client_number:8}{number:8}".encode()
                await self._upload(client, f"{client_number}-{number}", bytes(data))
                if self.statuses[507]:
                    full.set()

    async def _upload(self, client: httpx.AsyncClient, name: str, data: bytes) -> None:
        body = {"file_name": name, "file_size": len(data), "mime_type": "image/png"}
        answer = await client.post(f"{self._base}/presigned-url", json=body)
        self.statuses[answer.status_code] += 1
        if answer.is_success:
            permitted = answer.json()
            sent = await client.put(permitted["upload_url"], content=data, headers=permitted["headers"])
            if sent.is_success:
                await client.post(f"{self._base}/complete-upload", json={"file_id": permitted["file_id"]})
                self.bytes += len(data)


class Victim:
    """What the second app does, over and over; notes the seconds of each kind of request, and what was refused."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._client = httpx.AsyncClient(base_url=url, headers=headers, timeout=60)
        self._rows = ""
        self.seconds: dict[str, list[float]] = {}
        self.refused: Counter[str] = Counter()

    async def start(self) -> None:
        """Make a table with a row."""
        body = {"title": "bench", "schema": {"text": "string"}, "access_level": "Public"}
        answer = await self._client.post("/v1/public/tables", json=body)
        self._rows = f"/v1/public/tables/{answer.raise_for_status().json()['id']}/data"

    async def run(self, seconds: float) -> None:
        """Create, read, list and delete a row, again and again."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            made = await self._timed("create a row", "POST", self._rows, json={"data": {"text": "bench"}})
            await self._timed("list rows", "GET", self._rows, params={"limit": 5})
            if made.is_success:
                path = f"{self._rows}/{made.json()['id']}"
                await self._timed("read a row", "GET", path)
                await self._timed("delete a row", "DELETE", path)

    async def _timed(self, what: str, method: str, path: str, **given: Any) -> httpx.Response:
        started = time.monotonic()
        answer = await self._client.request(method, path, **given)
        self.seconds.setdefault(what, []).append(time.monotonic() - started)
        if not answer.is_success:
            self.refused[f"{what}: {answer.status_code}"] += 1
        return answer

    def report(self, when: str) -> None:
        """Print medians and worst times since the last report."""
        for what, seconds in self.seconds.items():
            middle, worst = statistics.median(seconds) * 1000, max(seconds) * 1000
            print(f"{when:26} {what:14} {len(seconds):6} requests, median {middle:6.1f} ms, worst {worst:7.1f} ms")
        if self.refused:
            print(f"{when:26} refused: {dict(self.refused)}")
        self.seconds, self.refused = {}, Counter()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _open_storage(pilotis: Pilotis) -> tuple[dict[str, str], str]:
    """Make an app with a storage that has no quota; return the headers of its clients, and the storage's id."""
    app_id, owner = pilotis.owned_app()
    answer = httpx.post(
        f"{pilotis.url}/v1/apps/{app_id}/storages/files",
        json={"name": "open", "quota_bytes": None},
        headers={"Authorization": owner["Authorization"]},
    )
    return {"X-Public-Key": owner["X-Public-Key"]}, answer.raise_for_status().json()["id"]


def _upload_until(uploader: Uploader, full: Event, ended: Event) -> None:
    """Upload in a separate process, and print the results."""
    asyncio.run(uploader.run(full, ended))
    print(f"{uploader.bytes / _MIB:.0f} MiB uploaded, first steps by status {dict(uploader.statuses)}")


async def _measure(pilotis: Pilotis, place: Path, headers: dict[str, str], storage_id: str) -> None:
    full, ended = multiprocessing.Event(), multiprocessing.Event()
    uploader = Uploader(pilotis.url, headers, storage_id)
    process = multiprocessing.Process(target=_upload_until, args=(uploader, full, ended))
    victim = Victim(pilotis.url, pilotis.headers)
    await victim.start()
    await victim.run(_SECONDS)
    victim.report("alone")
    process.start()
    while process.is_alive() and not full.is_set():
        await victim.run(0.5)
    victim.report("while the disk fills")
    await victim.run(_SECONDS)
    victim.report("while uploads are refused")
    ended.set()
    process.join()
    await victim.close()
    free = shutil.disk_usage(place).free
    reserve = int(_RESERVES["PILOTIS_UPLOAD_RESERVE_BYTES"]) / _MIB
    print(f"{free / _MIB:.0f} MiB free in the end; uploads stop at {reserve:.0f}")


def main() -> None:
    """Measure on the disk that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    directory: Path = parser.parse_args().directory
    if shutil.disk_usage(directory).total > _LARGEST_DISK:
        parser.error("this disk is large, and would be filled: name a directory on a small one of its own")
    os.environ.update(_RESERVES)
    with tempfile.TemporaryDirectory(dir=directory) as place, Pilotis(Path(place)) as pilotis:
        asyncio.run(_measure(pilotis, Path(place), *_open_storage(pilotis)))


if __name__ == "__main__":
    main()
