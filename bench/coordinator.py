"""Two databases side by side: `python -m bench.coordinator PLAIN_URL OTHER_URL [--rounds 5] [--seconds 3]`.

Meant for a plain PostgreSQL and the coordinator of a Citus cluster. Both databases must be empty. Each gets a
Pilotis of its own with the same rows; the cases run on both in turn, and what counts is the median of the rounds'
ratios, the second database's rate to the first one's.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

from bench import data, load
from bench.load import Requests
from bench.servers import Pilotis

_BULK = 1000


class Side:
    """A Pilotis on one of the databases, with a filled table."""

    def __init__(self, pilotis: Pilotis, rows: int) -> None:
        self._pilotis = pilotis
        table = {"title": "measured", "schema": data.SCHEMA, "access_level": "Public"}
        self._path = f"/v1/public/tables/{pilotis.post('/v1/public/tables', table)['id']}/data"
        self._ids: list[str] = []
        for start in range(0, rows, _BULK):
            batch = [data.row(number) for number in range(start, min(start + _BULK, rows))]
            self._ids += [item["id"] for item in pilotis.post(f"{self._path}/bulk", {"data": batch})["created"]]

    def cases(self) -> dict[str, Requests]:
        """Return the requests of each case, those that write last."""
        creates = [data.text({"data": data.row(number)}) for number in range(_BULK)]
        changes = [data.text({"data": {"age": number % 90, "city": "Bern"}}) for number in range(_BULK)]
        return {
            "row by id": Requests("GET", [(f"{self._path}/{row_id}", "") for row_id in self._ids]),
            "list of 20": Requests("GET", [(self._path, "")]),
            "create": Requests("POST", [(self._path, body) for body in creates]),
            "change": Requests(
                "PATCH", [(f"{self._path}/{row_id}", body) for row_id, body in zip(self._ids, changes, strict=False)]
            ),
        }

    def rate(self, requests: Requests, file: Path, seconds: float, connections: int) -> load.Result:
        """Send a case's requests for a while."""
        headers = self._pilotis.headers
        return load.run(self._pilotis.url, requests.method, requests.write(file), headers, seconds, connections)


def main() -> None:
    """Run the cases and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.coordinator", description=__doc__)
    parser.add_argument("plain", help="URL of an empty database of a plain PostgreSQL")
    parser.add_argument("other", help="URL of an empty database that is compared with it")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one run")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs of each case")
    parser.add_argument("--rows", type=int, default=10_000, help="rows in the table at the start")
    parser.add_argument("--connections", type=int, default=32, help="clients at a time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pilotis-bench-") as name:
        directory = Path(name)
        with Pilotis(directory, options.plain, "plain") as plain, Pilotis(directory, options.other, "other") as other:
            sides = [Side(server, options.rows) for server in (plain, other)]
            print(f"{'':12} {'plain /s':>10} {'p50 ms':>8} {'other /s':>10} {'p50 ms':>8} {'ratio':>7}")
            for case in sides[0].cases():
                rounds = []
                for _ in range(1 + options.rounds):
                    pair = [
                        side.rate(side.cases()[case], directory / "requests", options.seconds, options.connections)
                        for side in sides
                    ]
                    rounds.append(pair)
                _print(case, rounds[1:])


def _print(case: str, rounds: list[list[load.Result]]) -> None:
    shown = [
        f"{median(one.rate for one in side):>10.0f} {median(one.p50_ms for one in side):>8.2f}"
        for side in zip(*rounds, strict=True)
    ]
    ratio = median(other.rate / plain.rate for plain, other in rounds)
    print(f"{case:12} {' '.join(shown)} {ratio:>7.2f}", flush=True)


if __name__ == "__main__":
    main()
