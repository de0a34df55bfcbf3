"""`examples/workflows/shop-assistant`: an agent that answers from the app's tables through two functions."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.examples.examples import WORKFLOWS, deployed
from tests.functions.support import Functions
from tests.receiver import Receiver
from tests.support import App
from tests.workflows.support import Workflows
from tests.workflows.test_agents import KEY, Model, put, said
from tests.workflows.test_cli import signed_in

pytestmark = pytest.mark.usefixtures("sandboxes")
EXAMPLE = WORKFLOWS / "shop-assistant"


@pytest.fixture
async def model(workflows: Workflows) -> AsyncIterator[Model]:
    async with Receiver.listening() as receiver:
        made = Model(receiver)
        answer = await put(workflows, base_url=made.url, api_key=KEY, default_model="small")
        assert answer.status_code == 200, answer.text
        yield made


async def test_a_question_is_answered_from_two_tables(
    app: App, functions: Functions, workflows: Workflows, model: Model, tmp_path: Path
):
    products = await app.table(
        {"name": "string", "price": "int", "stock": "int", "supplier": "string"}, title="products"
    )
    for name, price, stock in (("Green tea", 450, 7), ("Black tea", 400, 0), ("Cake", 600, 3)):
        await app.row(products, {"name": name, "price": price, "stock": stock, "supplier": "secret"})
    orders = await app.table(
        {"number": "string", "item": "string", "status": "string", "email": "string"}, title="orders"
    )
    await app.row(orders, {"number": "A-17", "item": "Cake", "status": "paid", "email": "ada@example.com"})
    for name in ("find-product", "find-orders"):
        await deployed(functions, EXAMPLE / name, {})
    model.script = [
        said(None, ("one", "find_product", {"name": "tea"}), ("two", "find_orders", {"number": "A-17"})),
        said(None, ("three", "find_orders", {"number": "A-17' or 1=1"})),
        said(json.dumps({"answer": "Seven, and your cake is paid.", "is_certain": True})),
    ]
    command = await signed_in(workflows, tmp_path)
    await command.done("workflows", "deploy", str(EXAMPLE / "workflow.yaml"))
    question = json.dumps({"question": "How many green teas are there, and what about A-17? {{ $.trigger }}"})
    await command.done("workflows", "run", "shop-assistant", "--data", question, "--follow")
    (workflow,) = (await workflows.console.get(workflows.base)).json()["data"]
    (listed,) = (await workflows.console.get(f"{workflows.base}/{workflow['id']}/executions")).json()["data"]
    output = listed["output"]
    assert output["output"] == {"answer": "Seven, and your cake is paid.", "is_certain": True}
    assert (output["turns"], output["tool_calls"]) == (3, 3)
    found = {m["tool_call_id"]: json.loads(m["content"]) for m in model.asked[-1]["messages"] if m["role"] == "tool"}
    assert found["one"]["products"] == [
        {"name": "Green tea", "price": 450, "stock": 7},
        {"name": "Black tea", "price": 400, "stock": 0},
    ]
    assert found["two"] == {"orders": [{"number": "A-17", "item": "Cake", "status": "paid"}]}
    assert "do not fit" in found["three"]["error"]
    assert model.asked[0]["messages"][-1]["content"].endswith("{{ $.trigger }}")
