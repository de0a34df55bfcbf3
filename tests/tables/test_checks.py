"""Checks of values: bounds, lengths, choices and formats, whoever writes and however."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.console import owner_of
from tests.support import App, assert_error

CSV = {"Content-Type": "text/csv"}
CASES: list[tuple[str, dict[str, Any], list[Any], list[tuple[Any, str]]]] = [
    ("int", {"min": 1, "max": 5}, [1, 5], [(0, "BELOW_MIN"), (6, "ABOVE_MAX")]),
    ("number", {"min": -0.5, "max": 0.1}, [-0.5, 0.1], [(-0.51, "BELOW_MIN"), (0.10001, "ABOVE_MAX")]),
    (
        "date",
        {"min": "2026-01-01", "max": "2026-12-31T23:59:59Z"},
        ["2026-01-01T00:00:00Z", "2026-12-31"],
        [
            ("2025-12-31", "BELOW_MIN"),
            ("2027-01-01T00:00:00+00:00", "ABOVE_MAX"),
            ("2026-01-01T00:30:00+01:00", "BELOW_MIN"),
        ],
    ),
    ("string", {"min_length": 2, "max_length": 3}, ["é漢", "abc"], [("a", "TOO_SHORT"), ("abcd", "TOO_LONG")]),
    ("array", {"min_length": 1, "max_length": 2}, [[1], [1, 2]], [([], "TOO_SHORT"), ([1, 2, 3], "TOO_LONG")]),
    ("string", {"enum": ["open", "it's \\ done"]}, ["open", "it's \\ done"], [("Open", "NOT_IN_ENUM")]),
    ("int", {"enum": [1, 2]}, [2], [(3, "NOT_IN_ENUM")]),
    (
        "string",
        {"format": "email"},
        ["a@b.example"],
        [("a@b", "BAD_FORMAT"), ("a b@c.de", "BAD_FORMAT"), ("a@b.de\n", "BAD_FORMAT")],
    ),
    (
        "string",
        {"format": "url"},
        ["https://a.example/x?y#z", "http://[::1]:80"],
        [("ftp://a", "BAD_FORMAT"), ("https://", "BAD_FORMAT")],
    ),
    ("string", {"format": "slug"}, ["a-b-2"], [("A-b", "BAD_FORMAT"), ("-a", "BAD_FORMAT"), ("a--b", "BAD_FORMAT")]),
    ("string", {"format": "hostname"}, ["a.b-c.example"], [("-a.example", "BAD_FORMAT"), ("a_b", "BAD_FORMAT")]),
    ("string", {"format": "e164"}, ["+821012345678"], [("0101234", "BAD_FORMAT"), ("+0101", "BAD_FORMAT")]),
    ("string", {"format": "color"}, ["#1f7a8c", "#fff"], [("#12345", "BAD_FORMAT"), ("red", "BAD_FORMAT")]),
]


def rows(table: str) -> str:
    return f"/v1/public/tables/{table}/data"


@pytest.mark.share(0.34)
@pytest.mark.parametrize(("type_", "checks", "good", "bad"), CASES)
@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_value_keeps_its_checks(
    app: App, type_: str, checks: dict[str, Any], good: list[Any], bad: list[tuple[Any, str]], encrypted: bool
):
    table = await app.table({"x": {"type": type_, **checks, **({"encrypted": True} if encrypted else {})}})
    async with app.client() as client, app.client(app.secret_key) as own_side:
        for value in (*good, None):
            answer = await client.post(rows(table), json={"data": {"x": value}})
            assert answer.status_code == 201, answer.text
        row_id = answer.json()["id"]
        for value, code in bad:
            for caller in (client, own_side):
                answer = await caller.post(rows(table), json={"data": {"x": value}})
                (detail,) = assert_error(answer, 400, "VALIDATION_FAILED")["details"]
                assert (detail["field"], detail["code"]) == ("data.x", code)
            answer = await client.patch(f"{rows(table)}/{row_id}", json={"data": {"x": value}})
            assert assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]["code"] == code
        bulk = await client.post(rows(table), json={"data": [{"x": good[0]}, {"x": bad[0][0]}, {}]})
        assert [one["index"] for one in bulk.json()["failed"]] == [1]


async def test_operators_keep_checks(app: App):
    table = await app.table(
        {
            "n": {"type": "int", "min": 0, "max": 10},
            "tags": {"type": "array", "max_length": 2},
            "day": {"type": "date", "max": "2026-12-31"},
            "state": {"type": "string", "enum": ["a", "b"]},
            "other": "int",
        }
    )
    async with app.client() as client:
        made = await app.row(table, {"n": 5, "tags": [1], "day": "2026-01-01", "state": "a"})
        empty = await app.row(table, {"other": 1})
        path = f"{rows(table)}/{made['id']}"
        refused: list[tuple[dict[str, Any], str]] = [
            ({"n": {"$inc": 6}}, "ABOVE_MAX"),
            ({"n": {"$inc": -6}}, "BELOW_MIN"),
            ({"n": {"$max": 11}}, "ABOVE_MAX"),
            ({"tags": {"$push": [2, 3]}}, "TOO_LONG"),
            ({"day": {"$max": "2027-01-01"}}, "ABOVE_MAX"),
            ({"state": {"$max": "c"}}, "NOT_IN_ENUM"),
        ]
        for change, code in refused:
            answer = await client.patch(path, json={"data": change})
            (detail,) = assert_error(answer, 400, "VALIDATION_FAILED")["details"]
            assert (detail["field"], detail["code"]) == (f"data.{next(iter(change))}", code)
            many = await client.post(f"{rows(table)}/update-where", json={"data": change, "where": {"n": 5}})
            assert assert_error(many, 400, "VALIDATION_FAILED")["details"][0]["code"] == code
            operation = {"type": "update", "table_id": table, "doc_id": made["id"], "data": change}
            both = await client.post("/v1/public/transactions", json={"operations": [operation]})
            assert_error(both, 400, "VALIDATION_FAILED", failed_index=0)
        assert (await client.get(path)).json()["data"] == made["data"]
        # What an operator takes is no value of the column: 20 less than 5 is, from 5 on.
        for change in ({"n": {"$inc": 5}}, {"tags": {"$push": [2]}}, {"n": {"$min": 20}}, {"other": {"$inc": 1}}):
            assert (await client.patch(path, json={"data": change})).status_code == 200
        assert (
            await client.patch(f"{rows(table)}/{empty['id']}", json={"data": {"n": {"$inc": 1}}})
        ).status_code == 200


async def test_checks_are_added_validated_and_removed(app: App):
    title = f"checked {uuid4()}"
    table = await app.table({"n": "int", "s": {"type": "string", "max_length": 5}}, title=title)
    column = f"/v1/public/tables/{table}/columns/n"
    async with app.client() as client, owner_of(app).client(app) as console:
        ids = [(await app.row(table, {"n": n, "s": "x"}))["id"] for n in range(4)]
        body = assert_error(await client.patch(column, json={"min": 2, "validate": True}), 409, "ROWS_DO_NOT_FIT")
        assert [one["field"] for one in body["details"]] == sorted(ids[:2])
        assert (await client.patch(column, json={"min": 2, "max": 9})).status_code == 200
        # They hold for what is written from now on, and only for fields that are sent.
        assert_error(await client.post(rows(table), json={"data": {"n": 1}}), 400, "VALIDATION_FAILED")
        assert (await client.patch(f"{rows(table)}/{ids[0]}", json={"data": {"s": "y"}})).status_code == 200
        shown = (await client.get(f"/v1/public/tables/{table}")).json()["schema"]
        assert shown == {"n": {"type": "int", "min": 2, "max": 9}, "s": {"type": "string", "max_length": 5}}
        listed = (await client.get(f"/v1/public/tables/{table}/columns")).json()["columns"]
        assert [one.get("checks") for one in listed] == [{"min": 2, "max": 9}, {"max_length": 5}]
        # Absent checks stay, null removes one, also where the whole schema is sent.
        whole = {"title": title, "schema": {"n": {"type": "int", "max": None}, "s": "string"}, "access_level": "Public"}
        assert (await client.patch(f"/v1/public/tables/{table}", json=whole)).status_code == 200
        shown = (await client.get(f"/v1/public/tables/{table}")).json()["schema"]
        assert shown == {"n": {"type": "int", "min": 2}, "s": {"type": "string", "max_length": 5}}
        assert (await client.patch(column, json={"min": None})).status_code == 200
        assert (await client.post(rows(table), json={"data": {"n": 1}})).status_code == 201
        # An import tells which lines do not keep them.
        answer = await console.post(f"/tables/{table}/import", content="n,s\n1,short\n2,much too long\n", headers=CSV)
        assert (answer.json()["created"], answer.json()["rejected"]) == (1, 1), answer.text
        # They come back from the trash with their column.
        assert (await client.delete(f"/v1/public/tables/{table}/columns/s")).status_code == 200
        assert (await console.post(f"/trash/tables/{table}/columns/2/restore")).status_code == 200
        assert (await client.get(f"/v1/public/tables/{table}")).json()["schema"]["s"]["max_length"] == 5


@pytest.mark.parametrize(
    ("definition", "field"),
    [
        ({"type": "string", "min": 1}, "schema.x.min"),
        ({"type": "int", "max_length": 1}, "schema.x.max_length"),
        ({"type": "int", "min": 1.5}, "schema.x.min"),
        ({"type": "date", "max": "tomorrow"}, "schema.x.max"),
        ({"type": "boolean", "enum": [True]}, "schema.x.enum"),
        ({"type": "int", "enum": ["1"]}, "schema.x.enum"),
        ({"type": "string", "enum": []}, "schema.x.enum"),
        ({"type": "string", "enum": ["a"] * 201}, "schema.x.enum"),
        ({"type": "string", "format": "phone"}, "schema.x.format"),
        ({"type": "string", "min_length": -1}, "schema.x.min_length"),
        ({"type": "int", "min": 2, "max": 1}, "schema.x.min"),
        ({"type": "string", "min_length": 3, "max_length": 2}, "schema.x.min_length"),
        ({"type": "int", "min": 2, "default": 1}, "schema.x.default"),
    ],
)
async def test_what_is_no_check(app: App, definition: dict[str, Any], field: str):
    async with app.client() as client:
        body = {"title": f"x {uuid4()}", "schema": {"x": definition}, "access_level": "Public"}
        (detail,) = assert_error(await client.post("/v1/public/tables", json=body), 400, "VALIDATION_FAILED")["details"]
        assert detail["field"] == field
