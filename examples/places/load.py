"""Loads the places of the system's time-zone table into Pilotis, then finds them by where they are.

    python3 examples/places/load.py --url http://127.0.0.1:8090 --public-key pk_…

Needs Python 3.11 only. See README.md beside this file.
"""

import argparse
import json
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ZONES = Path("/usr/share/zoneinfo/zone1970.tab")
TITLE = "Time zones"
SCHEMA = {"zone": {"type": "string", "required": True}, "countries": "array", "comment": "string", "place": "object"}
SEOUL = (37.5665, 126.978)
# From New Zealand to Tahiti: its west is east of its east, because the antimeridian is inside.
PACIFIC = {
    "south_west": {"latitude": -50, "longitude": 160},
    "north_east": {"latitude": 0, "longitude": -145},
}
# ISO 6709: degrees and minutes, perhaps seconds; two digits of degrees for a latitude, three for a longitude.
_PLACE = re.compile(r"([+-])(\d{2})(\d{2})(\d{2})?([+-])(\d{3})(\d{2})(\d{2})?")


def zones(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the places of a time-zone table as rows of `SCHEMA`."""
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        countries, place, zone, *comment = line.split("\t")
        row = {"zone": zone, "countries": countries.split(","), "place": coordinates(place)}
        yield row | ({"comment": comment[0]} if comment else {})


def coordinates(text: str) -> dict[str, float]:
    """Return the degrees of a place such as `-1247+04514` or `+404251-0740023`."""
    match = _PLACE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is no place.")
    return {"latitude": _degrees(match.groups()[:4]), "longitude": _degrees(match.groups()[4:])}


def _degrees(parts: tuple[str | None, ...]) -> float:
    sign, degrees, minutes, seconds = parts
    value = int(degrees or 0) + int(minutes or 0) / 60 + int(seconds or 0) / 3600
    return round(-value if sign == "-" else value, 6)


class Pilotis:
    """The public routes of one app."""

    def __init__(self, url: str, public_key: str) -> None:
        self._url = url
        self._headers = {"X-Public-Key": public_key, "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and return its answer; ends the program with the server's sentence if it is an error."""
        encoded = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/v1/public{path}", encoded, self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            sys.exit(f"{method} {path}: {error.code} {json.load(error)['message']}")
        except OSError as error:
            sys.exit(f"{method} {path}: {error}. Is Pilotis running, and is --url its address?")


def make_table(pilotis: Pilotis, rows: list[dict[str, Any]]) -> str:
    """Make the table, in place of an earlier run's, fill it, and return its id."""
    for table in pilotis.call("GET", "/tables")["tables"]:
        if table["title"] == TITLE:
            pilotis.call("DELETE", f"/tables/{table['id']}")
    body = {"title": TITLE, "schema": SCHEMA, "access_level": "Public"}
    table_id = str(pilotis.call("POST", "/tables", body)["id"])
    pilotis.call("POST", f"/tables/{table_id}/data/bulk", {"data": rows})
    return table_id


def ask(pilotis: Pilotis, table: str, question: str, body: dict[str, Any]) -> None:
    """Print a question and the zones that answer it, with their distances and the time it took."""
    started = time.perf_counter()
    answer = pilotis.call("POST", "/geo", {"table_id": table, "field": "place", **body})
    milliseconds = (time.perf_counter() - started) * 1000
    print(f"\n{question}")
    print(f"   {answer['total_count']} found in {milliseconds:.1f} ms")
    for row in answer["data"]:
        place = row["data"]["place"]
        at = f"{place['latitude']:>8.2f} {place['longitude']:>8.2f}"
        print(f"   {row['data']['zone']:<32} {at} {row['distance'] / 1000:>10,.1f} km")


def main() -> None:
    """Read, load, ask."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8090", help="where Pilotis is (default: %(default)s)")
    parser.add_argument("--public-key", required=True, help="the app's public key, pk_…")
    parser.add_argument("--zones", type=Path, default=ZONES, help="the time-zone table (default: %(default)s)")
    parser.add_argument("--latitude", type=float, default=SEOUL[0], help="of the point (default: %(default)s, Seoul)")
    parser.add_argument("--longitude", type=float, default=SEOUL[1], help="of the point (default: %(default)s)")
    arguments = parser.parse_args()

    pilotis = Pilotis(arguments.url, arguments.public_key)
    rows = list(zones(arguments.zones))
    table = make_table(pilotis, rows)
    print(f"Loaded {len(rows)} places.")
    center = {"latitude": arguments.latitude, "longitude": arguments.longitude}
    place = f"{arguments.latitude}, {arguments.longitude}"
    ask(pilotis, table, f"Which five zones are nearest to {place}?", {"near": {"center": center}, "limit": 5})
    ask(pilotis, table, "Which are in the South Pacific, on both sides of 180°?", {"within": PACIFIC, "limit": 1000})


if __name__ == "__main__":
    main()
