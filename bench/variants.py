"""Variants of a photograph of 12 megapixels: the first answer, which is made, and the second, which is kept.

    .venv/bin/python -m bench.variants [--rounds 15]

Every first answer is of another width, 400 pixels and a few more. The same is decoded beside it in a thread of this
process, as it would be without a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import asyncpg
import httpx
from PIL import Image

from bench.servers import Pilotis
from pilotis.files.images import imaging
from pilotis.files.recipes import Recipe, recipe

_SIZE = (4000, 3000)
_WIDTH = 400


def photograph() -> bytes:
    """Return a JPEG with soft shapes and some noise, of about 4 MB."""
    small = [Image.effect_noise((_SIZE[0] // 8, _SIZE[1] // 8), 80) for _ in range(3)]
    large = Image.merge("RGB", small).resize(_SIZE, Image.Resampling.BICUBIC)
    out = io.BytesIO()
    large.save(out, "JPEG", quality=88)
    return out.getvalue()


def link(pilotis: Pilotis, directory: Path, data: bytes) -> str:
    """Make a storage, upload the file, and return its link."""
    app_id = asyncio.run(_app_id(pilotis))
    command = [sys.executable, "-m", "pilotis", "storage", "create", "bench", "--app", app_id, "--json"]
    made = subprocess.run([*command, "--data-dir", str(directory / "data")], capture_output=True, check=True)
    base = f"/v1/public/storages/files/{json.loads(made.stdout)['storage_id']}"
    wanted = {"file_name": "photo.jpg", "file_size": len(data), "mime_type": "image/jpeg"}
    presigned = pilotis.post(f"{base}/presigned-url", wanted)
    httpx.put(presigned["upload_url"], content=data, headers=presigned["headers"], timeout=60).raise_for_status()
    url: str = pilotis.post(f"{base}/complete-upload", {"file_id": presigned["file_id"]})["url"]
    return url


async def _app_id(pilotis: Pilotis) -> str:
    connection = await asyncpg.connect(**pilotis.connect_arguments())
    try:
        return str(await connection.fetchval("select app_id from pilotis.apps"))
    finally:
        await connection.close()


def children_seconds(pilotis: Pilotis) -> float:
    """Return the processor time of the server's processes that have ended."""
    fields = Path(f"/proc/{pilotis.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def timed(work: Callable[[int], object], rounds: int) -> float:
    """Return the median of the milliseconds that the rounds take."""
    taken = []
    for number in range(rounds):
        begun = time.perf_counter()
        work(number)
        taken.append((time.perf_counter() - begun) * 1000)
    return median(taken)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.variants", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="variants of each format")
    rounds = parser.parse_args().rounds
    data = photograph()
    with tempfile.TemporaryDirectory(prefix="pilotis-bench-") as name:
        directory = Path(name)
        with Pilotis(directory) as pilotis, httpx.Client(timeout=60) as client:
            url = link(pilotis, directory, data)

            def read(format_: str, number: int) -> int:
                answer = client.get(url, params={"width": _WIDTH + number, "format": format_})
                return len(answer.raise_for_status().content)

            def make(wanted: Recipe, _: int) -> None:
                imaging.make(data, wanted)

            print(f"{len(data) / 1e6:.1f} MB JPEG of 12 megapixels\n")
            print("| format | first, ms | processor time, ms | kept, ms | decoding alone, ms | KB |")
            print("|---|---|---|---|---|---|")
            for format_ in ("jpeg", "webp", "avif"):
                wanted = recipe("image/jpeg", _WIDTH, None, None, format_, None)
                assert wanted is not None
                begun = children_seconds(pilotis)
                first = timed(partial(read, format_), rounds)
                processor = (children_seconds(pilotis) - begun) * 1000 / rounds
                kept = timed(partial(read, format_), rounds)
                alone = timed(partial(make, wanted), rounds)
                size = read(format_, 0) / 1000
                print(f"| {format_} | {first:.0f} | {processor:.0f} | {kept:.1f} | {alone:.0f} | {size:.0f} |")


if __name__ == "__main__":
    main()
