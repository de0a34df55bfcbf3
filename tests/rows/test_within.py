"""Places in conditions over HTTP: `$within` finds what the geo route finds, beside other conditions and orders."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.test_rules import manager, rows, save
from tests.support import App, assert_error

SHAPES: dict[str, dict[str, Any]] = {
    "circle": {"center": {"latitude": 35.16, "longitude": 129.16}, "radius": 1500},
    "everywhere": {"center": {"latitude": 0, "longitude": 0}, "radius": 3e7},
    "box": {
        "south_west": {"latitude": 35.1, "longitude": 129.1},
        "north_east": {"latitude": 35.2, "longitude": 129.2},
    },
    "across 180°": {
        "south_west": {"latitude": -20, "longitude": 170},
        "north_east": {"latitude": -10, "longitude": -170},
    },
    "triangle": {
        "polygon": [
            {"latitude": 35, "longitude": 129},
            {"latitude": 36, "longitude": 129},
            {"latitude": 35, "longitude": 130},
        ]
    },
    "geojson": {
        "polygon": {"type": "Polygon", "coordinates": [[[129, 35], [130, 35], [130, 36], [129, 36], [129, 35]]]}
    },
}
PLACES = [(35.16, 129.16), (35.17, 129.17), (35.9, 129.9), (-15, 179), (-15, -179), (0, 0)]


async def places(app: App) -> str:
    schema = {"name": "string", "at": "object", "inner": "object", "n": "int"}
    table = await app.table(schema)
    data: list[dict[str, Any]] = [
        {"name": f"place {n}", "at": at, "inner": {"at": at}, "n": n}
        for n, (latitude, longitude) in enumerate(PLACES)
        for at in [{"latitude": latitude, "longitude": longitude}]
    ]
    data += [{"name": "no place", "at": {"x": 1}}, {"name": "nowhere"}]
    async with app.client() as client:
        assert (await client.post(rows(table), json={"data": data})).status_code == 201
    return table


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_condition_finds_what_the_geo_route_finds(app: App, shape: str):
    table = await places(app)
    given = SHAPES[shape]
    near = {"polygon": given["polygon"]} if "polygon" in given else {"within": given}
    async with app.client() as client:
        geo = await client.post("/v1/public/geo", json={"table_id": table, "field": "at", **near})
        assert geo.status_code == 200, geo.text
        expected = sorted(one["data"]["n"] for one in geo.json()["data"])
        assert expected
        for field in ("at", "inner.at"):
            where = {field: {"$within": given}}
            found = (await client.post(f"{rows(table)}/query", json={"where": where, "order_by": "n"})).json()
            assert [one["data"]["n"] for one in found["data"]] == expected
            assert found["total_count"] == len(expected)
        negated = {"where": {"at": {"$not": {"$within": given}}}}
        total = (await client.post(f"{rows(table)}/query", json=negated)).json()["total_count"]
        assert total == len(PLACES) + 2 - len(expected)


async def test_places_go_with_words_other_conditions_orders_and_changes(app: App):
    table = await places(app)
    box = {"at": {"$within": SHAPES["box"]}}
    async with app.client() as client:
        asked = {
            "where": {**box, "n": {"$gte": 1}},
            "order_by": [{"column": "n", "direction": "desc"}],
            "cursor": "first",
        }
        found = (await client.post(f"{rows(table)}/query", json=asked)).json()
        assert [one["data"]["n"] for one in found["data"]] == [1]
        words = {"table_id": table, "query": "place", "fields": ["name"], "where": box}
        assert (await client.post("/v1/public/search", json=words)).json()["total_count"] == 2
        change = {"where": box, "data": {"name": "changed"}}
        assert (await client.post(f"{rows(table)}/update-where", json=change)).json()["updated_count"] == 2
        gone = await client.post(f"{rows(table)}/delete-where", json={"where": {"$or": [box, {"n": 2}]}})
        assert gone.json()["deleted_count"] == 3
        free = await app.table({})
        await app.row(free, {"spot": {"latitude": 1, "longitude": 1}})
        where = {"spot": {"$within": {"center": {"latitude": 1, "longitude": 1}, "radius": 0}}}
        assert (await client.post(f"{rows(free)}/query", json={"where": where})).json()["total_count"] == 1


async def test_what_is_no_place(app: App):
    table = await places(app)
    ring = [{"latitude": n / 100, "longitude": (n * n % 97) / 10} for n in range(1001)]
    center = {"latitude": 0, "longitude": 0}
    async with app.client() as client:
        for given, field in (
            ({"center": center}, "where.at.$within"),
            ({"center": {"latitude": 91, "longitude": 0}, "radius": 1}, "where.at.$within.center.latitude"),
            ({"radius": "x", "center": center}, "where.at.$within.radius"),
            ({"polygon": ring}, "where.at.$within.polygon"),
            ({"polygon": ring[:2]}, "where.at.$within.polygon"),
            ({}, "where.at.$within"),
            ([1], "where.at.$within"),
            (None, "where.at.$within"),
            ({"polygon": ring[:3], "center": center}, "where.at.$within.polygon"),
        ):
            body = {"where": {"at": {"$within": given}}}
            refused = assert_error(await client.post(f"{rows(table)}/query", json=body), 400, "VALIDATION_FAILED")
            assert refused["details"][0]["field"] == field, given
        place = {"$within": SHAPES["circle"]}
        for where, code in (
            ({"n": place}, "INVALID_OPERATOR"),
            ({"$or": [{"at": place}] * 6}, "WHERE_TOO_COMPLEX"),
        ):
            assert_error(await client.post(f"{rows(table)}/query", json={"where": where}), 400, code)
        pipeline = {"table_id": table, "pipeline": [{"$match": {"at": place}}]}
        assert_error(await client.post("/v1/public/aggregate", json=pipeline), 400, "INVALID_OPERATOR")


async def test_rules_name_no_places(app: App):
    table = await places(app)
    async with manager(app) as own_side:
        answer = await own_side.put(
            f"/tables/{table}/rules", json={"rules": {"read": {"at": {"$within": SHAPES["box"]}}}}
        )
        assert_error(answer, 400, "INVALID_OPERATOR")
    await save(app, table, {"read": {"n": {"$lt": 2}}})
    async with app.client() as client:
        where = {"where": {"at": {"$within": SHAPES["everywhere"]}}}
        assert (await client.post(f"{rows(table)}/query", json=where)).json()["total_count"] == 2
