"""The functions in `examples/functions` do what they say."""

import io
import tomllib
from pathlib import Path

from PIL import Image

from tests.acceptance.test_files import storage, upload
from tests.files.pictures import BLUE, RED, bands, encoded
from tests.functions.support import Functions
from tests.waiting import until

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "functions"


async def deployed(functions: Functions, name: str) -> str:
    place = EXAMPLES / name
    settings = tomllib.loads((place / "function.toml").read_text())
    files = {path.name: path.read_text() for path in place.iterdir() if path.name != "function.toml"}
    return await functions.made(settings["name"], files, settings["runtime"])


async def test_an_orders_total_comes_from_the_prices_on_the_server(functions: Functions):
    app = functions.app
    products = await app.table({"price": "number"}, title="products")
    await app.table({"items": "array", "total": "number"}, title="orders")
    product = await app.row(products, {"price": 12.5})
    await deployed(functions, "order-total")
    items = [{"product_id": product["id"], "quantity": 2, "price": 0.01}]
    assert (await functions.value("order-total", {"items": items, "total": 0.02}))["total"] == 25
    for wrong in ([], [{"product_id": product["id"], "quantity": -1}]):
        assert (await functions.result("order-total", {"items": wrong}))["error_code"] == "FUNCTION_ERROR"


async def test_a_comment_with_a_word_of_the_list_is_hidden(functions: Functions):
    app = functions.app
    table = await app.table({"text": "string", "hidden": "boolean"}, title="comments")
    function_id = await deployed(functions, "moderate-row")
    body = {"type": "event", "events": ["row.created"], "table_id": table}
    assert (await functions.console.post(f"{functions.base}/{function_id}/triggers", json=body)).status_code == 201
    bad, good = await app.row(table, {"text": "Win the LOTTERY now"}), await app.row(table, {"text": "Nice"})

    async def data_of(row: dict) -> dict:
        async with app.client() as client:
            return (await client.get(f"/v1/public/tables/{table}/data/{row['id']}")).json()["data"]

    async def hidden() -> bool:
        return (await data_of(bad)).get("hidden") is True

    assert await until(hidden)
    assert "hidden" not in await data_of(good)


async def test_an_uploaded_picture_is_listed_with_its_thumbnail(functions: Functions):
    app = functions.app
    pictures = await app.table(dict.fromkeys(("file_id", "name", "url", "thumbnail"), "string"), title="pictures")
    base = await storage(app)
    function_id = await deployed(functions, "thumbnail-on-upload")
    body = {"type": "event", "events": ["file.created"], "storage_id": base.rpartition("/")[2]}
    assert (await functions.console.post(f"{functions.base}/{function_id}/triggers", json=body)).status_code == 201
    async with app.client() as client:
        await upload(client, base, b"no picture", file_name="notes.txt", mime_type="text/plain")
        await upload(client, base, encoded(bands(640, 480, RED, BLUE)), file_name="sunset.png", mime_type="image/png")

        async def rows() -> list[dict]:
            return (await client.get(f"/v1/public/tables/{pictures}/data")).json()["data"]

        assert await until(rows)
        (row,) = await rows()
        assert row["data"]["name"] == "sunset.png"
        thumbnail = await client.get(row["data"]["thumbnail"])
    assert thumbnail.status_code == 200, thumbnail.text
    with Image.open(io.BytesIO(thumbnail.content)) as opened:
        assert (opened.format, opened.size) == ("WEBP", (200, 200))
