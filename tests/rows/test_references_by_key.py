"""References to unique keys over HTTP: rows are named by their slugs, numbers and ids of other systems."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from tests.console import owner_of
from tests.rows.test_references import assert_missing, create, total
from tests.rules.test_rules import rows, save
from tests.support import App, assert_error


def by_key(table: str, key: str, on_delete: str = "restrict", type_: str = "string", **more: Any) -> dict[str, Any]:
    return {"type": type_, "references": {"table": table, "key": key, "on_delete": on_delete}, **more}


async def shop(app: App, on_delete: str = "restrict", **of_price: str) -> tuple[str, str, str]:
    """Products with a unique `sku` and a unique number, prices that refer to them; and the products' title."""
    title = f"products {uuid4().hex[:8]}"
    schema = {"sku": {"type": "string", "unique": True, "normalize": ["trim"]}, "nr": "int", "name": "string"}
    unique = [{"columns": ["sku"]}, {"columns": ["nr"]}]
    products = await app.table(schema, title=title, unique=unique)
    prices = await app.table(
        {"amount": "int", "product": by_key(title, "sku", on_delete)}, title=f"prices {uuid4().hex[:8]}", **of_price
    )
    return products, prices, title


async def test_every_way_to_write_asks_for_the_key(app: App):
    products, prices, _ = await shop(app)
    async with app.client() as client, owner_of(app).client(app) as console:
        await create(client, products, sku="cup", nr=1)
        assert_missing(await client.post(rows(prices), json={"data": {"product": "pot"}}), "data.product")
        price = await create(client, prices, amount=5, product=" cup ")
        assert (await client.get(f"{rows(prices)}/{price}")).json()["data"]["product"] == "cup"
        await create(client, prices, amount=5, product=None)
        bulk = (await client.post(rows(prices), json={"data": [{"product": "cup"}, {"product": "pot"}]})).json()
        assert [(one["index"], one["code"]) for one in bulk["failed"]] == [(1, "REFERENCE_NOT_FOUND")]
        assert_missing(await client.patch(f"{rows(prices)}/{price}", json={"data": {"product": "x"}}), "data.product")
        assert (await client.patch(f"{rows(prices)}/{price}", json={"data": {"product": "cup"}})).status_code == 200
        # What an operator makes of the value is looked up as well.
        greater = await client.patch(f"{rows(prices)}/{price}", json={"data": {"product": {"$max": "zzz"}}})
        assert_missing(greater, "data.product")
        change = {"where": {"amount": 5}, "data": {"product": "x"}}
        assert_missing(await client.post(f"{rows(prices)}/update-where", json=change), "data.product")
        operation = {"type": "create", "table_id": prices, "data": {"product": "x"}}
        answer = await client.post("/v1/public/transactions", json={"operations": [operation]})
        assert_missing(answer, "operations[0].data.product", failed_index=0)
        lines = "amount,product\n1,cup\n2,pot\n"
        done = await console.post(f"/tables/{prices}/import", content=lines, headers={"Content-Type": "text/csv"})
        assert (done.json()["created"], done.json()["rejected"]) == (1, 1)
        assert await total(client, prices) == 4


async def test_a_referenced_value_neither_goes_nor_changes(app: App):
    products, prices, _ = await shop(app)
    async with app.client() as client, app.client(app.secret_key) as own_side:
        cup = await create(client, products, sku="cup", nr=1)
        await create(client, prices, product="cup")
        path = f"{rows(products)}/{cup}"
        refused = assert_error(await own_side.delete(path), 409, "ROW_REFERENCED")
        assert (refused["column"], refused["count"]) == ("product", 1)
        assert_error(await client.patch(path, json={"data": {"sku": "mug"}}), 409, "ROW_REFERENCED")
        change = {"all": True, "data": {"sku": "mug"}}
        assert_error(await client.post(f"{rows(products)}/update-where", json=change), 409, "ROW_REFERENCED")
        assert (await client.patch(path, json={"data": {"name": "Cup", "sku": "cup"}})).status_code == 200


async def test_deletions_go_along_by_the_key(app: App):
    for on_delete, left in (("cascade", []), ("set_null", [None, None])):
        products, prices, _ = await shop(app, on_delete)
        async with app.client() as client:
            cup = await create(client, products, sku="cup", nr=1)
            await create(client, products, sku="pot", nr=2)
            for product in ("cup", "cup", "pot"):
                await create(client, prices, product=product)
            change = await client.patch(f"{rows(products)}/{cup}", json={"data": {"sku": "mug"}})
            assert_error(change, 409, "ROW_REFERENCED")
            assert (await client.delete(f"{rows(products)}/{cup}")).status_code == 200
            found = (await client.get(rows(prices))).json()["data"]
            assert [one["data"]["product"] for one in found] == [*left, "pot"]
            assert await total(client, prices) == len(left) + 1


async def test_related_rows_are_found_by_the_key(app: App):
    products, prices, title = await shop(app)
    async with app.client() as client, owner_of(app).client(app) as console:
        cup = await create(client, products, sku="cup", nr=1, name="Cup")
        await create(client, prices, amount=5, product="cup")
        await create(client, prices, amount=6, product="cup")
        prices_title = (await client.get(f"/v1/public/tables/{prices}")).json()["title"]
        asked = {"expand": ["product"], "where": {"product.name": "Cup"}, "order_by": "amount"}
        found = (await client.post(f"{rows(prices)}/query", json=asked)).json()["data"]
        assert [one["expanded"]["product"]["id"] for one in found] == [cup, cup]
        source = f"{prices_title}.product"
        asked = {"expand": {"prices": {"from": source}}, "counts": {"prices": {"from": source}}}
        (one,) = (await client.post(f"{rows(products)}/query", json=asked)).json()["data"]
        assert [row["data"]["amount"] for row in one["expanded"]["prices"]] == [5, 6]
        assert one["counts"] == {"prices": 2}
        # Rules follow the reference as well.
        await save(app, prices, {"read": {"product.name": "Cup"}, "list": {"$not": {"product.nr": 7}}})
        assert (await client.get(rows(prices))).json()["total_count"] == 2
        await client.patch(f"{rows(products)}/{cup}", json={"data": {"nr": 7}})
        assert (await client.get(rows(prices))).json()["total_count"] == 0
        # The rename of a key's column, and of another one to its name, leaves it the same reference.
        await save(app, prices, None)
        for before, after in (("sku", "code"), ("name", "sku")):
            renamed = await console.post(f"/tables/{products}/columns/{before}/rename", json={"name": after})
            assert renamed.status_code == 200
        await create(client, prices, amount=7, product="cup")
        assert_missing(await client.post(rows(prices), json={"data": {"product": "Cup"}}), "data.product")
        assert (await client.get(f"/v1/public/tables/{products}")).json()["title"] == title


async def test_what_a_caller_may_not_list_is_not_guessed_by_keys(app: App):
    products, prices, _ = await shop(app)
    async with app.client() as client, app.client(app.secret_key) as own_side:
        await create(client, products, sku="cup", nr=1)
        own = await create(own_side, prices, product="cup")
        for rules in (
            {"read": True, "list": None},
            {"read": True, "columns": {"sku": {"read": None}}},
            {"read": {"nr": 2}},
        ):
            await save(app, products, rules)
            assert_missing(await client.post(rows(prices), json={"data": {"product": "cup"}}), "data.product")
            change = await client.patch(f"{rows(prices)}/{own}", json={"data": {"product": "cup"}})
            assert_missing(change, "data.product")
        await save(app, products, {"read": True, "columns": {"sku": {"read": None}}})
        row = (await client.get(f"{rows(prices)}/{own}", params={"expand": "product"})).json()
        assert row["expanded"] == {"product": None}
        assert (await own_side.post(rows(prices), json={"data": {"product": "cup"}})).status_code == 201


async def test_keys_that_cannot_be_referred_to(app: App):
    title = f"t {uuid4().hex[:8]}"
    schema = {"a": "string", "b": "int", "c": {"type": "string", "encrypted": True}, "d": "date", "e": "number"}
    unique = [
        {"name": "both", "columns": ["a", "b"]},
        {"name": "some", "columns": ["a"], "where": {"b": 1}},
        {"name": "folded", "columns": ["a"], "ignore_case": True},
        {"name": "secret", "columns": ["c"]},
        {"name": "dates", "columns": ["d"]},
        {"name": "mine", "columns": ["$creator"]},
        {"name": "e", "columns": ["e"]},
    ]
    table = await app.table(schema, title=title, unique=unique)
    async with app.client() as client, owner_of(app).client(app) as console:

        async def refused(key: str, type_: str, code: str, field: str = "schema.x.references.key") -> None:
            definition = {"title": uuid4().hex + "!", "access_level": "Public", "schema": {"x": by_key(title, key)}}
            definition["schema"]["x"]["type"] = type_
            body = assert_error(await client.post("/v1/public/tables", json=definition), 400, code)
            assert body["details"][0]["field"] == field

        for key in ("both", "some", "folded", "secret", "mine"):
            await refused(key, "string", "NOT_FOR_REFERENCES")
        await refused("none", "string", "UNKNOWN_KEY")
        await refused("e", "int", "NOT_FOR_REFERENCES")
        await refused("e", "object", "VALIDATION_FAILED", "schema.x.references")
        prices = await app.table({"x": by_key(title, "e", type_="number")}, title=f"u {uuid4().hex[:8]}")
        await create(client, table, e=1.10)
        await create(client, prices, x=1.1)
        shown = (await client.get(f"/v1/public/tables/{prices}")).json()["schema"]["x"]["references"]
        assert shown == {"table": title, "key": "e", "on_delete": "restrict"}
        (back,) = (await client.get(f"/v1/public/tables/{table}")).json()["referenced_by"]
        assert (back["key"], back["column"]) == ("e", "x")
        assert_error(await console.delete(f"/tables/{table}/unique/e"), 409, "KEY_REFERENCED")
        assert_error(await client.delete(f"/v1/public/tables/{table}"), 409, "TABLE_REFERENCED")
        # From the trash it comes back with its reference, and without one where the key is gone.
        column = f"/v1/public/tables/{prices}/columns/x"
        for has_key in (True, False):
            assert (await client.delete(column)).status_code == 200
            if not has_key:
                assert (await console.delete(f"/tables/{table}/unique/e")).status_code == 200
            (dropped,) = (await console.get("/trash")).json()["columns"]
            restored = await console.post(f"/trash/tables/{prices}/columns/{dropped['number']}/restore")
            assert restored.status_code == 200, restored.text
            definition = (await client.get(f"/v1/public/tables/{prices}")).json()["schema"]["x"]
            assert definition == ({"type": "number", "references": shown} if has_key else "number")
