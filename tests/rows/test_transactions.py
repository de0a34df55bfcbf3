"""Transactions against a sequential model: concurrent clients, and kills of the whole server in their midst."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilotis.data.rows.references import InvalidReferenceError, with_references
from pilotis.kit import json
from tests.conftest import first_console_user, new_app
from tests.support import App, Server, assert_error
from tests.waiting import PATIENCE, until
from tests.whole import times

TRANSACTIONS = "/v1/public/transactions"
NOWHERE = "01900000-0000-7000-8000-000000000000"
ACCOUNTS = 3

Steps = tuple[list[tuple[int, int]], bool]
"""What a transaction does, amounts added to accounts one after the other, and whether its last operation fails."""

steps = st.tuples(
    st.lists(st.tuples(st.integers(0, ACCOUNTS - 1), st.integers(-9, 9)), min_size=1, max_size=4),
    st.sampled_from([False, False, False, True]),
)
clients = st.lists(st.lists(steps, min_size=1, max_size=4), min_size=2, max_size=5)


class Bank:
    """A table of accounts and one of entries. An account counts its changes in `version` and names the last one."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def open(self) -> "Bank":
        self.accounts = await self.app.table({"balance": "int", "version": "int", "last": "string"})
        self.entries = await self.app.table({"tag": "string", "of": "uuid"})
        empty = {"balance": 0, "version": 0, "last": ""}
        self.ids = [(await self.app.row(self.accounts, empty))["id"] for _ in range(ACCOUNTS)]
        return self

    def operations(self, tag: str, amounts: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
        entry = {"type": "create", "table_id": self.entries}
        changes = [
            {
                "type": "update",
                "table_id": self.accounts,
                "doc_id": self.ids[account],
                "data": {"balance": {"$inc": amount}, "version": {"$inc": 1}, "last": tag},
            }
            for account, amount in amounts
        ]
        first, second = entry | {"data": {"tag": tag}}, entry | {"data": {"tag": tag, "of": {"$ref": 0}}}
        return [first, *changes, second]

    async def rows(self, table: str) -> list[dict[str, Any]]:
        async with self.app.client() as client:
            page = (await client.get(f"/v1/public/tables/{table}/data?limit=1000")).json()
        assert page["total_count"] == len(page["data"])
        return page["data"]

    async def standing(self) -> dict[int, dict[str, Any]]:
        found = {row["id"]: row["data"] for row in await self.rows(self.accounts)}
        return {account: found[row_id] for account, row_id in enumerate(self.ids)}


def serial_order(done: dict[str, list[tuple[int, dict[str, Any]]]]) -> list[str]:
    """Return an order in which the transactions can have run one by one; raises `CycleError` if there is none.

    Each account's versions give the order of the transactions that changed it.
    """
    sorter: TopologicalSorter[str] = TopologicalSorter({tag: set() for tag in done})
    for account in range(ACCOUNTS):
        versions = sorted((data["version"], tag) for tag, seen in done.items() for at, data in seen if at == account)
        assert [version for version, _ in versions] == list(range(1, len(versions) + 1))
        for (_, before), (_, after) in pairwise(versions):
            if before != after:
                sorter.add(after, before)
    return list(sorter.static_order())


def check_against_model(done: dict[str, list[tuple[int, dict[str, Any]]]], sent: dict[str, Steps]) -> dict[int, Any]:
    """Run the transactions one by one in plain Python; each must have seen what it was answered."""
    state = {account: {"balance": 0, "version": 0, "last": ""} for account in range(ACCOUNTS)}
    for tag in serial_order(done):
        for (account, amount), (at, seen) in zip(sent[tag][0], done[tag], strict=True):
            before = state[account]
            state[account] = {"balance": before["balance"] + amount, "version": before["version"] + 1, "last": tag}
            assert (at, seen) == (account, state[account])
    return state


async def through(client: httpx.AsyncClient, operations: list[dict[str, Any]]) -> httpx.Response:
    """Send a transaction until it has run: if too many wait for too long, the last ones get 503."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = await client.post(TRANSACTIONS, json={"operations": operations})
            if answer.status_code not in {409, 503}:
                return answer
            assert answer.json()["code"] in {"TRANSACTION_CONFLICT", "UNAVAILABLE"}, answer.text


async def run_clients(bank: Bank, plan: list[list[Steps]]) -> None:
    done: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    sent: dict[str, Steps] = {}

    async def run(number: int, transactions: list[Steps]) -> None:
        async with bank.app.client() as client:
            for turn, (amounts, fails) in enumerate(transactions):
                tag = f"{number}/{turn}"
                sent[tag] = amounts, fails
                operations = bank.operations(tag, amounts)
                if fails:
                    operations.append({"type": "delete", "table_id": bank.entries, "doc_id": NOWHERE})
                answer = await through(client, operations)
                if fails:
                    assert_error(answer, 404, "ROW_NOT_FOUND", failed_index=len(operations) - 1)
                else:
                    assert answer.status_code == 200, answer.text
                    results = answer.json()["results"][1:-1]
                    done[tag] = [(at, result["data"]) for (at, _), result in zip(amounts, results, strict=True)]

    await asyncio.gather(*(run(number, transactions) for number, transactions in enumerate(plan)))
    assert await bank.standing() == check_against_model(done, sent)
    entries = await bank.rows(bank.entries)
    assert Counter(entry["data"]["tag"] for entry in entries) == Counter(dict.fromkeys(done, 2))
    firsts = {entry["id"]: entry["data"]["tag"] for entry in entries if "of" not in entry["data"]}
    assert all(firsts[entry["data"]["of"]] == entry["data"]["tag"] for entry in entries if "of" in entry["data"])


def test_concurrent_transactions_are_as_if_one_after_the_other(server: Server, console: dict[str, str]):
    app = new_app(server, console)

    @settings(max_examples=times(5, whole=25), deadline=None, suppress_health_check=list(HealthCheck))
    @given(clients)
    def check(plan: list[list[Steps]]) -> None:
        async def run() -> None:
            await run_clients(await Bank(app).open(), plan)

        asyncio.run(run())

    check()


def transfers(count: int, turns: int) -> list[list[Steps]]:
    """Transfers of so many clients; one of ten fails at its end."""
    chance = random.Random(7)

    def transfer() -> Steps:
        source, target = chance.sample(range(ACCOUNTS), 2)
        amount = chance.randint(1, 9)
        return [(source, -amount), (target, amount)], chance.random() < 0.1

    return [[transfer() for _ in range(turns)] for _ in range(count)]


async def test_transfers_keep_the_sum(app: App):
    """Many clients on three accounts: despite conflicts, all of them succeed."""
    bank = await Bank(app).open()
    await run_clients(bank, transfers(40, 5))
    assert sum(account["balance"] for account in (await bank.standing()).values()) == 0


async def test_transfers_through_several_processes_keep_the_sum(tmp_path: Path):
    """They know nothing of each other's transactions: PostgreSQL undoes those that met, and they are run again."""
    server = Server(tmp_path / "data", "--workers", "2").start()
    try:
        bank = await Bank(new_app(server, first_console_user(server))).open()
        await run_clients(bank, transfers(8, 5))
        assert sum(account["balance"] for account in (await bank.standing()).values()) == 0
    finally:
        server.stop()


async def transact_until_it_dies(bank: Bank, number: int, acknowledged: set[str]) -> None:
    """Send transactions until the server is gone."""
    async with bank.app.client() as client:
        for turn in range(100_000):
            tag = f"{number}/{turn}"
            account = (number + turn) % ACCOUNTS
            operations = bank.operations(tag, [(account, -1), ((account + 1) % ACCOUNTS, 1)])
            try:
                answer = await client.post(TRANSACTIONS, json={"operations": operations})
            except httpx.HTTPError:
                return
            if answer.status_code == 200:
                acknowledged.add(tag)
            else:
                # The database may be gone a moment before the server is.
                assert answer.status_code in {409, 503}, answer.text


@pytest.mark.parametrize("moment", [0.3, *(pytest.param(moment, marks=pytest.mark.whole) for moment in (0.0, 0.9))])
async def test_a_killed_server_leaves_each_transaction_whole_or_not_at_all(tmp_path: Path, moment: float):
    server = Server(tmp_path / "data").start()
    try:
        bank = await Bank(new_app(server, first_console_user(server))).open()
        acknowledged: set[str] = set()
        running = [asyncio.create_task(transact_until_it_dies(bank, number, acknowledged)) for number in range(6)]
        await until(lambda: acknowledged)
        await asyncio.sleep(moment)
        server.kill()
        await asyncio.gather(*running)
        server.start()
        entries = Counter(entry["data"]["tag"] for entry in await all_rows(bank, bank.entries))
        accounts = await bank.standing()
    finally:
        server.kill()
    assert acknowledged, "nothing was written before the kill"
    assert set(entries.values()) == {2}, "a transaction was written in part"
    assert acknowledged <= entries.keys(), "an acknowledged transaction was lost"
    # Nothing was written but what was answered, or was under way in one of the clients.
    assert len(entries) <= len(acknowledged) + len(running)
    assert sum(account["version"] for account in accounts.values()) == 2 * len(entries)
    assert sum(account["balance"] for account in accounts.values()) == 0
    assert all(account["last"] in entries for account in accounts.values() if account["version"])


async def all_rows(bank: Bank, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async with bank.app.client() as client:
        while True:
            path = f"/v1/public/tables/{table}/data?limit=1000&offset={len(found)}"
            page = (await client.get(path)).json()
            found += page["data"]
            if not page["data"]:
                assert page["total_count"] == len(found)
                return found


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "$ref"]), inner, max_size=2),
    max_leaves=8,
)


@given(values, st.lists(st.sampled_from(["one", "two", None]), max_size=3))
def test_references_are_replaced_as_the_model_says(value: Any, made: list[str | None]):
    def replaced(item: Any) -> Any:
        if isinstance(item, dict):
            if list(item) == ["$ref"]:
                index = item["$ref"]
                if type(index) is not int or index not in range(len(made)) or made[index] is None:
                    raise LookupError
                return made[index]
            return {name: replaced(member) for name, member in item.items()}
        return [replaced(member) for member in item] if isinstance(item, list) else item

    raw = json.encode(value)
    for text in (raw, raw.replace(b"$", b"\\u0024")):
        try:
            expected = replaced(value)
        except LookupError:
            with pytest.raises(InvalidReferenceError):
                with_references(msgspec.Raw(text), made)
        else:
            assert json.decode(bytes(with_references(msgspec.Raw(text), made))) == expected
