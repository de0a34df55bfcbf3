"""`python -m bench.ranking`: ranked and highlighted searches of one word, of 700 matches each, on 100,000 texts.

It waits until the words are stored and their index is built, then runs rounds with `--connections`. Processor time is
that of one search: of all of Pilotis' processes, and of PostgreSQL's among them.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from pathlib import Path
from statistics import median

import httpx

from bench import data, load
from bench.load import Requests
from bench.processes import processor_seconds
from bench.servers import Pilotis

_WORDS, _WORDS_A_TEXT, _BATCH_SIZE = 3000, 21, 1000
_PATH = "/v1/public/search"
_FAST_SECONDS, _WAIT_SECONDS = 0.02, 600


def _words(chance: random.Random) -> list[str]:
    syllables = [first + second for first in "bdfgklmnprst" for second in "aeiou"]
    return ["".join(chance.choices(syllables, k=chance.randint(2, 4))) for _ in range(_WORDS)]


def _fill(pilotis: Pilotis, words: list[str], texts: int, chance: random.Random) -> str:
    made = {"title": "texts", "schema": {"body": "string"}, "access_level": "Public"}
    table: str = pilotis.post("/v1/public/tables", made)["id"]
    for _ in range(0, texts, _BATCH_SIZE):
        rows = [{"body": " ".join(chance.choices(words, k=_WORDS_A_TEXT))} for _ in range(_BATCH_SIZE)]
        pilotis.post(f"/v1/public/tables/{table}/data/bulk", {"data": rows})
    return table


def _wait(pilotis: Pilotis, bodies: list[str]) -> None:
    """Search until ten searches in a row are quick: slow ones ask for the index, which the background makes."""
    deadline, quick = time.monotonic() + _WAIT_SECONDS, 0
    headers = {**pilotis.headers, "Content-Type": "application/json"}
    with httpx.Client(base_url=pilotis.url, headers=headers, timeout=60) as client:
        while quick < 10:
            if time.monotonic() > deadline:
                raise RuntimeError("The index did not appear.")
            begun = time.perf_counter()
            answer = client.post(_PATH, content=bodies[quick])
            quick = quick + 1 if answer.is_success and time.perf_counter() - begun < _FAST_SECONDS else 0
            if not quick:
                time.sleep(1)


def main() -> None:
    """Fill, wait, and print the rounds' medians."""
    parser = argparse.ArgumentParser(prog="python -m bench.ranking", description=__doc__)
    parser.add_argument("--texts", type=int, default=100_000, help="rows in the table")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one run")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    chance = random.Random(5)
    words = _words(chance)
    with (
        tempfile.TemporaryDirectory(prefix="pilotis-ranking-") as name,
        Pilotis(Path(name), workers=options.workers) as pilotis,
    ):
        table = _fill(pilotis, words, options.texts, chance)
        bodies = [data.text({"table_id": table, "query": word, "fields": ["body"]}) for word in words]
        _wait(pilotis, bodies)
        file = Requests("POST", [(_PATH, body) for body in bodies]).write(Path(name) / "requests")
        headers = {**pilotis.headers, "Content-Type": "application/json"}
        pids = [pilotis.pid]
        print(f"load average at the start: {os.getloadavg()[0]:.1f}")
        runs = []
        for _ in range(options.rounds):
            begun = processor_seconds(pids)
            result = load.run(pilotis.url, "POST", file, headers, options.seconds, options.connections)
            taken = processor_seconds(pids) - begun
            both = (taken.total, taken.postgres)
            runs.append((result.rate, *(seconds * 1000 / result.requests for seconds in both), result.p99_ms))
        rate, whole, theirs, p99 = (median(values) for values in zip(*runs, strict=True))
        print(f"{rate:.0f} a second, p99 {p99:.0f} ms, {whole:.2f} ms of processor time, PostgreSQL's {theirs:.2f}")


if __name__ == "__main__":
    main()
