"""Interface: Advanced data routes, geo."""

from typing import Any

import httpx
import pytest

from tests.acceptance.test_search import fill
from tests.support import App, assert_error

CITIES = {
    "Ghent": (51.0543, 3.7174),
    "Brussels": (50.8503, 4.3517),
    "Paris": (48.8566, 2.3522),
    "Suva": (-18.1416, 178.4419),
    "Apia": (-13.8333, -171.7667),
    "Quito": (-0.1807, -78.4678),
    "Alert": (82.5018, -62.3481),
    "Nagurskoye": (80.8, 47.6),
    "North Pole": (90, 12),
    "South Pole": (-90, 0),
}


def at(latitude: float, longitude: float) -> dict[str, float]:
    return {"latitude": latitude, "longitude": longitude}


async def geo(app: App, table: str, token: str | None = None, **shape: Any) -> httpx.Response:
    async with app.client(token) as client:
        return await client.post("/v1/public/geo", json={"table_id": table, "field": "place", **shape})


async def names(app: App, table: str, **shape: Any) -> list[str]:
    answer = await geo(app, table, **shape)
    assert answer.status_code == 200, answer.text
    items = answer.json()["data"]
    assert [item["distance"] for item in items] == sorted(item["distance"] for item in items)
    assert answer.json()["total_count"] == len(items)
    return [item["data"]["name"] for item in items]


@pytest.fixture
async def cities(app: App) -> str:
    table = await app.table({"name": "string", "place": "object", "secret": {"type": "object", "encrypted": True}})
    rows: list[dict[str, Any]] = [{"name": name, "place": at(*place)} for name, place in CITIES.items()]
    no_points = [{"latitude": 91, "longitude": 0}, {"latitude": "51", "longitude": "3"}, {}, {"latitude": 51}]
    no_points += [{"latitude": 51, "longitude": 1e300}, {"latitude": None, "longitude": 3}]
    await fill(app, table, [*rows, {"name": "nowhere"}, *({"name": "nowhere", "place": place} for place in no_points)])
    return table


async def test_near_with_distances(app: App, cities: str):
    answer = await geo(app, cities, near={"center": at(51.0543, 3.7174), "max_distance": 300_000}, limit=10)
    items = answer.json()["data"]
    assert set(items[0]) == {"id", "data", "created_at", "updated_at", "distance"}
    assert [item["data"]["name"] for item in items] == ["Ghent", "Brussels", "Paris"]
    assert [item["distance"] for item in items] == pytest.approx([0, 49_900, 263_000], rel=0.01)


async def test_near_without_a_distance_is_everything(app: App, cities: str):
    found = await names(app, cities, near={"center": at(0, 0)})
    assert sorted(found) == sorted(CITIES)


async def test_near_pages(app: App, cities: str):
    first = await geo(app, cities, near={"center": at(51, 4)}, limit=2)
    second = await geo(app, cities, near={"center": at(51, 4)}, limit=2, offset=2)
    assert [len(page.json()["data"]) for page in (first, second)] == [2, 2]
    assert first.json()["total_count"] == second.json()["total_count"] == len(CITIES)
    assert (await geo(app, cities, near={"center": at(51, 4)}, limit=0)).json() == {"data": [], "total_count": 10}


@pytest.mark.share(0.34)
@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ({"near": {"center": at(-16, 180), "max_distance": 1_200_000}}, ["Suva", "Apia"]),
        ({"near": {"center": at(-16, -180), "max_distance": 1_200_000}}, ["Suva", "Apia"]),
        ({"near": {"center": at(90, 0), "max_distance": 1_100_000}}, ["North Pole", "Alert", "Nagurskoye"]),
        ({"near": {"center": at(90, 77), "max_distance": 0}}, ["North Pole"]),
        ({"near": {"center": at(0, 0), "max_distance": 1e300}}, None),
        ({"within": {"center": at(51, 4), "radius": 40_000}}, ["Ghent", "Brussels"]),
        ({"within": {"south_west": at(50, 3), "north_east": at(52, 5)}}, ["Ghent", "Brussels"]),
        ({"within": {"south_west": at(-20, 170), "north_east": at(-10, -170)}}, ["Suva", "Apia"]),
        ({"within": {"south_west": at(-20, -170), "north_east": at(10, 170)}}, ["Quito"]),
        ({"within": {"south_west": at(85, 100), "north_east": at(90, 110)}}, ["North Pole"]),
        ({"within": {"south_west": at(80, -180), "north_east": at(90, 180)}}, ["North Pole", "Alert", "Nagurskoye"]),
        ({"within": {"south_west": at(-90, -180), "north_east": at(90, 180)}}, None),
        ({"polygon": {"points": [at(50, 3), at(52, 3), at(52, 5), at(50, 5)]}}, ["Ghent", "Brussels"]),
        ({"polygon": [at(50, 5), at(52, 5), at(52, 3), at(50, 3), at(50, 5)]}, ["Ghent", "Brussels"]),
        ({"polygon": [at(-20, 170), at(-10, 170), at(-10, -170), at(-20, -170)]}, ["Suva", "Apia"]),
        ({"polygon": [at(79, 0), at(79, 120), at(79, -120)]}, ["North Pole"]),
        ({"polygon": [at(60, 0), at(60, 120), at(60, -120)]}, ["North Pole", "Alert", "Nagurskoye"]),
    ],
)
async def test_shapes_also_across_the_antimeridian_and_at_the_poles(
    app: App, cities: str, shape: dict[str, Any], found: list[str] | None
):
    assert sorted(await names(app, cities, **shape)) == sorted(found if found is not None else CITIES)


def ring(south: float, west: float, north: float, east: float) -> list[list[float]]:
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


async def test_geojson_with_holes_and_several_polygons(app: App, cities: str):
    belgium, brussels, paris = ring(50, 3, 52, 5), ring(50.7, 4.2, 51, 4.5), ring(48, 2, 49, 3)
    hollow = {"type": "Polygon", "coordinates": [belgium, brussels]}
    assert await names(app, cities, polygon=hollow) == ["Ghent"]
    several = {"type": "MultiPolygon", "coordinates": [[belgium, brussels], [paris]]}
    assert sorted(await names(app, cities, polygon=several)) == ["Ghent", "Paris"]


async def test_a_ring_that_crosses_itself_holds_what_it_goes_around(app: App, cities: str):
    bow_tie = [at(50, 3), at(52, 5), at(50, 5), at(52, 3)]
    assert sorted(await names(app, cities, polygon=bow_tie)) == ["Brussels", "Ghent"]
    between_the_wings = [at(50.5, 2.9), at(51.5, 3.3), at(50.5, 3.3), at(51.5, 2.9)]
    assert await names(app, cities, polygon=between_the_wings) == []
    twice_around = [at(50, 3), at(52, 3), at(52, 5), at(50, 5)] * 2
    assert sorted(await names(app, cities, polygon=twice_around)) == ["Brussels", "Ghent"]


async def test_a_polygon_of_ten_thousand_points(app: App, cities: str):
    """In GeoJSON, with five decimals, a metre: with names for each number they would be larger than a shape may be."""
    ring = [[3 + index / 10_000, 51 + 0.009 * (index % 2) + index / 10_000] for index in range(5000)]
    ring += [[4.9 - index / 10_000, 50.2 + index / 50_000] for index in range(5000)]
    ring = [[round(longitude, 5), round(latitude, 5)] for longitude, latitude in ring]
    answer = await geo(app, cities, polygon={"type": "Polygon", "coordinates": [ring]})
    assert answer.status_code == 200, answer.text
    too_many = {"type": "Polygon", "coordinates": [[*ring, [0, 0]]]}
    assert_error(await geo(app, cities, polygon=too_many), 400, "VALIDATION_FAILED")


async def test_columns_may_have_any_name(app: App):
    names = ["place", "chord", "whole", "item", "nearest", "found", "total_count"]
    table = await app.table(dict.fromkeys(names, "object"))
    await app.row(table, dict.fromkeys(names, at(51, 4)))
    for name in names:
        assert (await geo(app, table, near={"center": at(51, 4)}, field=name)).json()["total_count"] == 1


async def test_free_form_fields(app: App):
    table = await app.table({})
    await fill(app, table, [{"place": at(51, 4)}, {"place": "here"}, {"at": {"my place": at(51, 4)}}])
    near = {"center": at(51, 4), "max_distance": 10}
    assert (await geo(app, table, near=near)).json()["total_count"] == 1
    assert (await geo(app, table, near=near, field="at.my place")).json()["total_count"] == 1


@pytest.mark.share(0.34)
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"near": {"center": at(0, 0)}, "within": {"center": at(0, 0), "radius": 1}},
        {"near": {"center": at(0, 0)}, "polygon": [at(0, 0), at(0, 1), at(1, 0)]},
        {"near": {}},
        {"near": {"center": at(91, 0)}},
        {"near": {"center": at(0, 181)}},
        {"near": {"center": at(0, 0), "max_distance": -1}},
        {"near": {"center": {"latitude": "0", "longitude": 0}}},
        {"near": {"center": [0, 0]}},
        {"within": {}},
        {"within": {"center": at(0, 0)}},
        {"within": {"center": at(0, 0), "radius": -1}},
        {"within": {"south_west": at(0, 0)}},
        {"within": {"south_west": at(10, 0), "north_east": at(0, 10)}},
        {"within": {"south_west": at(0, 0), "north_east": at(10, 10), "radius": 5}},
        {"polygon": []},
        {"polygon": "all"},
        {"polygon": {"points": [at(0, 0), at(0, 1)]}},
        {"polygon": [at(0, 0), at(0, 1), at(0, 0)]},
        {"polygon": [[0, 0], [0, 1], [1, 0]]},
        {"polygon": [at(0, 0), at(0, 1), {"latitude": 1}]},
        {"polygon": [at(0, 0), at(0, 120), at(0, -120)]},
        {"polygon": {"type": "Point", "coordinates": [0, 0]}},
        {"polygon": {"type": "Polygon", "coordinates": []}},
        {"polygon": {"type": "Polygon", "coordinates": [[[0, 0], [0, 100], [1, 0]]]}},
        {"polygon": {"type": "MultiPolygon", "coordinates": []}},
        {"near": {"center": at(0, 0)}, "limit": -1},
        {"near": {"center": at(0, 0)}, "field": "name"},
    ],
)
async def test_bad_requests(app: App, cities: str, shape: dict[str, Any]):
    assert_error(await geo(app, cities, **shape), 400, "VALIDATION_FAILED")


async def test_numbers_that_are_none(app: App, cities: str):
    async with app.client() as client:
        for number in ("NaN", "Infinity", "1e400"):
            body = (
                f'{{"table_id": "{cities}", "field": "place", "near": {{"center": {{"latitude": {number}, '
                '"longitude": 0}}}'
            )
            answer = await client.post("/v1/public/geo", content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code == 400, answer.text


async def test_fields_that_hold_no_points(app: App, cities: str):
    near = {"center": at(0, 0)}
    assert_error(await geo(app, cities, near=near, field="nothing"), 400, "UNKNOWN_COLUMN")
    assert_error(await geo(app, cities, near=near, field='place" is not null --'), 400, "UNKNOWN_COLUMN")
    assert_error(await geo(app, cities, near=near, field="secret"), 400, "ENCRYPTED_COLUMN_NOT_QUERYABLE")


async def test_members_find_their_own_rows_only(app: App):
    ada, bob = await app.member("ada"), await app.member("bob")
    table = await app.table({"place": "object"}, "Creator")
    await app.row(table, {"place": at(51, 4)}, ada["access_token"])
    near = {"center": at(51, 4)}
    assert (await geo(app, table, ada["access_token"], near=near)).json()["total_count"] == 1
    assert (await geo(app, table, bob["access_token"], near=near)).json() == {"data": [], "total_count": 0}
    assert_error(await geo(app, table, near=near), 401, "MEMBER_TOKEN_REQUIRED")


WORLD = ring(-85, -180, 85, 180)


@pytest.mark.parametrize(
    "polygon",
    [
        {"type": "Polygon", "coordinates": [WORLD]},
        {"type": "Polygon", "coordinates": [WORLD[::-1]]},
        {"type": "MultiPolygon", "coordinates": [[ring(50, 3, 52, 5)], [WORLD]]},
        {"type": "Polygon", "coordinates": [ring(-80, -170, 80, 170)]},
        [at(-80, -170), at(-80, 170), at(80, 170), at(80, -170)],
        [at(-60, -130), at(-60, 130), at(80, 130), at(80, -130)],
        [at(-10, 0), at(-10, 120), at(-10, -120), at(90, 0)],
    ],
)
async def test_a_polygon_over_more_than_half_the_earth_is_refused(app: App, cities: str, polygon: Any):
    body = assert_error(await geo(app, cities, polygon=polygon), 400, "VALIDATION_FAILED")
    assert "less than half of the Earth" in body["message"]


async def test_a_tall_polygon_across_the_antimeridian_is_no_such(app: App, cities: str):
    pacific = [at(-60, 170), at(-60, -170), at(60, -170), at(60, 170)]
    assert sorted(await names(app, cities, polygon=pacific)) == ["Apia", "Suva"]
