"""Searches by place against a brute-force great circle in plain Python."""

import math
import random
from typing import Any

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import App
from tests.whole import times

RADIUS = 6_371_008.8
TOLERANCE = 0.5
"""Metres: what lies so near to an edge may be found or not."""

Place = tuple[float, float]
Vector = tuple[float, float, float]

# Where spheres go wrong: poles, the antimeridian, the equator.
LATITUDES = [-90, -89.99, -45, 0, 1e-7, 45, 89.99, 90]
LONGITUDES = [-180, -179.99, -90, 0, 1e-7, 90, 179.99, 180]
latitudes = st.one_of(st.sampled_from(LATITUDES), st.floats(-90, 90)).map(lambda degrees: round(float(degrees), 7))
longitudes = st.one_of(st.sampled_from(LONGITUDES), st.floats(-180, 180)).map(lambda degrees: round(float(degrees), 7))
places = st.tuples(latitudes, longitudes)


def points() -> list[Place]:
    generator = random.Random(7)
    spread = [(generator.uniform(-90, 90), generator.uniform(-180, 180)) for _ in range(400)]
    near_poles = [(sign * (90 - generator.expovariate(0.5)), generator.uniform(-180, 180)) for sign in (1, -1) * 40]
    near_date_line = [
        (generator.uniform(-80, 80), sign * (180 - generator.expovariate(1))) for sign in (1, -1) for _ in range(40)
    ]
    special = [(float(latitude), float(longitude)) for latitude in LATITUDES for longitude in LONGITUDES]
    return [place for place in spread + near_poles + near_date_line + special if abs(place[0]) <= 90]


def great_circle(a: Place, b: Place) -> float:
    """Vincenty's formula for a sphere: well conditioned at every distance."""
    (lat1, lon1), (lat2, lon2) = (map(math.radians, place) for place in (a, b))
    turn = lon2 - lon1
    y = math.hypot(
        math.cos(lat2) * math.sin(turn),
        math.cos(lat1) * math.sin(lat2) - math.sin(lat1) * math.cos(lat2) * math.cos(turn),
    )
    x = math.sin(lat1) * math.sin(lat2) + math.cos(lat1) * math.cos(lat2) * math.cos(turn)
    return RADIUS * math.atan2(y, x)


def vector(place: Place) -> Vector:
    latitude, longitude = map(math.radians, place)
    return (
        math.cos(latitude) * math.cos(longitude),
        math.cos(latitude) * math.sin(longitude),
        math.sin(latitude),
    )


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


class World:
    """A table of points on a real server, and the same points here."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.points = points()
        self.headers = {"X-Public-Key": app.public_key}
        schema = {"number": "int", "place": "object"}
        made = self._post("tables", {"title": "world", "schema": schema, "access_level": "Public"})
        self.table = made["id"]
        rows = [{"number": number, "place": at(place)} for number, place in enumerate(self.points)]
        assert self._post(f"tables/{self.table}/data/bulk", {"data": rows})["success"] == len(rows)

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        url = f"{self.app.server.url}/v1/public/{path}"
        answer = httpx.post(url, json=body, headers=self.headers, verify=False)
        assert answer.is_success, answer.text
        return answer.json()

    def find(self, **shape: Any) -> dict[int, float]:
        """Search; return the distances of the points found, by their numbers, nearest first."""
        answer = self._post("geo", {"table_id": self.table, "field": "place", "limit": 1000, **shape})
        found = {item["data"]["number"]: item["distance"] for item in answer["data"]}
        assert answer["total_count"] == len(found)
        assert list(found.values()) == sorted(found.values())
        return found


def at(place: Place) -> dict[str, float]:
    return {"latitude": place[0], "longitude": place[1]}


def few(test: Any) -> Any:
    allowed = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=times(10, whole=40), deadline=None, suppress_health_check=allowed)(test)


def test_near_and_circles_are_the_great_circle(app: App):
    world = World(app)

    @few
    @given(center=places, radius=st.floats(0, 2.1e7))
    def check(center: Place, radius: float) -> None:
        exact = {number: great_circle(center, place) for number, place in enumerate(world.points)}
        for shape in (
            {"near": {"center": at(center), "max_distance": radius}},
            {"within": {"center": at(center), "radius": radius}},
        ):
            found = world.find(**shape)
            assert all(abs(distance - exact[number]) < TOLERANCE for number, distance in found.items())
            assert {number for number, distance in exact.items() if distance < radius - TOLERANCE} <= set(found)
            assert all(exact[number] < radius + TOLERANCE for number in found)

    check()


def test_boxes_are_latitudes_and_longitudes(app: App):
    world = World(app)

    def inside(place: Place, south_west: Place, north_east: Place) -> bool:
        (south, west), (north, east) = south_west, north_east
        latitude, longitude = place
        if not south <= latitude <= north:
            return False
        turns = (longitude - 360, longitude, longitude + 360)
        east = east if west <= east else east + 360
        return abs(latitude) == 90 or any(west <= turn <= east for turn in turns)

    @few
    @given(a=places, b=places)
    def check(a: Place, b: Place) -> None:
        south_west, north_east = (min(a[0], b[0]), a[1]), (max(a[0], b[0]), b[1])
        found = world.find(within={"south_west": at(south_west), "north_east": at(north_east)})
        assert set(found) == {
            number for number, place in enumerate(world.points) if inside(place, south_west, north_east)
        }

    check()


@st.composite
def triangles(draw: st.DrawFn) -> list[Place]:
    """Three places within 80 degrees of a centre, not in a line."""
    center = vector(draw(places))
    corners = []
    for third in range(3):
        away = math.radians(draw(st.floats(1, 80)))
        turn = math.radians(120 * third + draw(st.floats(-50, 50)))
        helper = (1.0, 0.0, 0.0) if abs(center[0]) < 0.7 else (0.0, 1.0, 0.0)
        east = cross(center, helper)
        length = math.sqrt(dot(east, east))
        east = (east[0] / length, east[1] / length, east[2] / length)
        north = cross(center, east)
        x, y, z = (
            math.cos(away) * c + math.sin(away) * (math.cos(turn) * e + math.sin(turn) * n)
            for c, e, n in zip(center, east, north, strict=True)
        )
        corners.append((math.degrees(math.asin(max(-1, min(1, z)))), math.degrees(math.atan2(y, x))))
    return corners


def test_polygons_have_great_circles_for_sides(app: App):
    world = World(app)

    @few
    @given(corners=triangles(), backwards=st.booleans(), closed=st.booleans())
    def check(corners: list[Place], backwards: bool, closed: bool) -> None:
        a, b, c = (vector(corner) for corner in corners)
        normals = [cross(a, b), cross(b, c), cross(c, a)]
        if dot(a, normals[1]) < 0:
            normals = [(-x, -y, -z) for x, y, z in normals]
        ring = [*corners, corners[0]] if closed else corners
        found = world.find(polygon=[at(corner) for corner in (reversed(ring) if backwards else ring)])
        for number, place in enumerate(world.points):
            # The least distance inside a side, in sines; negative outside.
            depth = min(dot(vector(place), n) / math.sqrt(dot(n, n)) for n in normals)
            if abs(depth) * RADIUS > TOLERANCE:
                assert (number in found) == (depth > 0), (place, depth)

    check()


def test_geojson_says_the_same_as_a_list(app: App):
    world = World(app)

    @few
    @given(corners=triangles())
    def check(corners: list[Place]) -> None:
        ring = [[longitude, latitude] for latitude, longitude in [*corners, corners[0]]]
        geojson = {"type": "Polygon", "coordinates": [ring]}
        assert world.find(polygon=geojson) == world.find(polygon={"points": [at(corner) for corner in corners]})

    check()
