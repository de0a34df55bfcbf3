"""`examples/places` against a real server: its answers are compared with plain Python over the same places."""

import math
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from tests.support import App
from tests.waiting import PATIENCE

PROGRAM = Path(__file__).parents[2] / "examples" / "places" / "load.py"
_spec = spec_from_file_location("places_load", PROGRAM)
places = module_from_spec(_spec)
_spec.loader.exec_module(places)

TABLE = """\
# A comment
KR\t+3733+12658\tAsia/Seoul
JP,AU\t+353916+1394441\tAsia/Tokyo\tmost of it
FJ\t-1808+17825\tPacific/Fiji
TO\t-210800-1751200\tPacific/Tongatapu
NZ\t-3652+17446\tPacific/Auckland
CL\t-2709-10926\tPacific/Easter
"""


def kilometres(a: dict[str, float], b: dict[str, float]) -> float:
    """The haversine formula on a sphere of the mean radius."""
    north, other = math.radians(a["latitude"]), math.radians(b["latitude"])
    east = math.radians(b["longitude"] - a["longitude"])
    h = math.sin((other - north) / 2) ** 2 + math.cos(north) * math.cos(other) * math.sin(east / 2) ** 2
    return 2 * 6371.0088 * math.asin(math.sqrt(h))


def run(app: App, *arguments: str) -> list[list[tuple[str, float]]]:
    """Return each answer as pairs of zone and kilometres."""
    command = [sys.executable, str(PROGRAM), "--url", app.server.url, "--public-key", app.public_key, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    _, *answers = re.split(r"^ +\d+ found in [\d.]+ ms$", done.stdout, flags=re.MULTILINE)
    shown = re.compile(r"^ +(\S+) .* ([\d,.]+) km$", re.MULTILINE)
    return [[(zone, float(far.replace(",", ""))) for zone, far in shown.findall(answer)] for answer in answers]


def check(path: Path, near: list[tuple[str, float]], pacific: list[tuple[str, float]]) -> None:
    rows = list(places.zones(path))
    seoul = {"latitude": places.SEOUL[0], "longitude": places.SEOUL[1]}
    expected = sorted((kilometres(seoul, row["place"]), row["zone"]) for row in rows)[:5]
    assert [zone for zone, _ in near] == [zone for _, zone in expected]
    assert [far for _, far in near] == pytest.approx([far for far, _ in expected], abs=0.06)
    inside = {
        row["zone"]
        for row in rows
        if -50 <= row["place"]["latitude"] <= 0
        and (row["place"]["longitude"] >= 160 or row["place"]["longitude"] <= -145)
    }
    assert {zone for zone, _ in pacific} == inside
    assert len(pacific) == len(inside)


def test_places_are_read_in_degrees():
    assert places.coordinates("-1247+04514") == {"latitude": -12.783333, "longitude": 45.233333}
    assert places.coordinates("+404251-0740023") == {"latitude": 40.714167, "longitude": -74.006389}


def test_finds_places_of_an_excerpt(app: App, tmp_path: Path):
    table = tmp_path / "zones.tab"
    table.write_text(TABLE)
    run(app, "--zones", str(table))
    near, pacific = run(app, "--zones", str(table))
    check(table, near, pacific)
    assert {zone for zone, _ in pacific} == {"Pacific/Fiji", "Pacific/Tongatapu", "Pacific/Auckland"}


@pytest.mark.skipif(not places.ZONES.exists(), reason="this machine has no time-zone table")
def test_finds_places_of_this_machine_s_own_table(app: App):
    near, pacific = run(app)
    check(places.ZONES, near, pacific)
    assert near[0][0] == "Asia/Seoul"
    assert {"Pacific/Apia", "Pacific/Fiji"} <= {zone for zone, _ in pacific}
