"""Archive and import of one app: `python -m bench.archive [--rows 100000] [--rounds 3]`.

A server is set up in a new data directory, and rows of ten columns are imported. Then the commands run as a user types
them; the time to start one, which `pilotis app list` takes, is shown beside them.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

NAMES = ("name", "city", "plan", "email", "note", "age", "visits", "score", "joined", "active")
TYPES = ("string", "string", "string", "string", "string", "int", "int", "number", "date", "boolean")


def pilotis(place: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pilotis", *arguments, "--data-dir", str(place)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def write_rows(path: Path, rows: int) -> None:
    draw = random.Random(1)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(NAMES)
        for number in range(rows):
            name, city, day = draw.randrange(10**9), draw.randrange(1000), draw.randint(1, 28)
            out.writerow(
                [
                    f"person {name}",
                    f"city {city}",
                    draw.choice(["free", "small", "large"]),
                    f"person.{name}@example.com",
                    f"Came by way of {city} and stayed for {day} days.",
                    draw.randint(18, 90),
                    number,
                    draw.randint(0, 10**7) / 100,
                    f"2024-05-{day:02}T12:30:{number % 60:02}Z",
                    "true" if number % 2 else "false",
                ]
            )


def timed(place: Path, *arguments: str) -> tuple[float, str]:
    begun = time.perf_counter()
    output = pilotis(place, *arguments)
    return time.perf_counter() - begun, output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place, rows, archive = Path(folder) / "data", Path(folder) / "rows.csv", Path(folder) / "app.pilotis"
        pilotis(place, "init")
        app = json.loads(pilotis(place, "app", "create", "bench", "--json"))["app_id"]
        write_rows(rows, options.rows)
        schema = json.dumps(dict(zip(NAMES, TYPES, strict=True)))
        pilotis(place, "table", "import", str(rows), "--app", app, "--title", "people", "--schema", schema)
        started, exported, imported = [], [], []
        for _ in range(options.rounds):
            started.append(timed(place, "app", "list")[0])
            archive.unlink(missing_ok=True)
            exported.append(timed(place, "app", "export", app, "--to", str(archive))[0])
            imported.append(timed(place, "app", "import", str(archive), "--as", "copy")[0])
        print(f"{options.rows} rows of {len(NAMES)} columns, {archive.stat().st_size / 1e6:.1f} MB; seconds, medians")
        for what, seconds in (("a command alone", started), ("export", exported), ("import", imported)):
            print(f"  {what:16} {median(seconds):6.2f}  ({min(seconds):.2f} to {max(seconds):.2f})")


if __name__ == "__main__":
    main()
