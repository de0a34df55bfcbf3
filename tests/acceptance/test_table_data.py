"""Interface: Table data."""

from tests.support import App, assert_error


async def test_a_row_goes_in_and_comes_out(app: App):
    table = await app.table({"name": {"type": "string", "required": True}, "price": "number"})
    async with app.client() as client:
        made = await client.post(f"/v1/public/tables/{table}/data", json={"data": {"name": "x", "price": 1.1}})
        assert made.status_code == 201
        assert set(made.json()) == {"id", "data", "created_at", "updated_at"}
        read = await client.get(f"/v1/public/tables/{table}/data/{made.json()['id']}")
    assert read.json() == made.json()


async def test_a_row_without_the_wrapper_is_refused(app: App):
    table = await app.table({"name": "string"})
    async with app.client() as client:
        answer = await client.post(f"/v1/public/tables/{table}/data", json={"name": "x"})
    body = assert_error(answer, 400, "VALIDATION_FAILED")
    assert body["details"][0]["field"] == "name"
