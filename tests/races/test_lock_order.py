"""The order of locks (docs/design/architecture.md), as PostgreSQL reports the locks of every statement."""

import asyncio
import json
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import first_console_user
from tests.races.requests import families, prepared, send
from tests.support import Server

# How strong a mode is in PostgreSQL's table of conflicts between row locks: two conflict if their sum is at least 5.
_STRENGTH = {
    "For Key Share": 1,
    "For Share": 2,
    "For No Key Update": 3,
    "No Key Update": 3,
    "For Update": 4,
    "Update": 4,
}

Edges = dict[tuple[str, str], list[tuple[int, int, str]]]
"""For a table and one that was locked after it: both strengths, and which code did so."""


def strengths(modes: str) -> int:
    return max(_STRENGTH[mode.strip()] for mode in modes.split(","))


def edges(lines: list[dict[str, Any]]) -> Edges:
    """What each transaction locked after what, by tables."""
    found: Edges = defaultdict(list)
    held: dict[int, dict[str, int]] = defaultdict(dict)
    for line in lines:
        before = dict(held[line["transaction"]])
        for table, mode in line["locks"]:
            strength = strengths(mode)
            for other, its in before.items():
                if other != table:
                    found[other, table].append((its, strength, " > ".join(line["by"])))
            held[line["transaction"]][table] = max(strength, held[line["transaction"]].get(table, 0))
    return found


def inversions(found: Edges) -> list[str]:
    """Pairs of tables that one transaction locks in the one order and another in the other, so that both can wait."""
    return [
        f"{first} before {second} in {way}; {second} before {first} in {other}"
        for (first, second), ways in found.items()
        if first < second
        for its, then, way in ways
        for second_its, then_first, other in found.get((second, first), [])
        if its + then_first >= 5 and then + second_its >= 5
    ]


def upgrades(lines: list[dict[str, Any]]) -> list[str]:
    """Pairs of transactions that hold a lock on one row together, and both want a stronger one."""
    found: dict[str, set[tuple[int, int, str]]] = defaultdict(set)
    for line in lines:
        for table, old, new in line["upgrades"]:
            if strengths(new) > strengths(old):
                found[table].add((strengths(old), strengths(new), " > ".join(line["by"])))
    return [
        f"{table} by {way}, and by {other}"
        for table, ways in found.items()
        for held, wanted, way in ways
        for other_held, other_wanted, other in ways
        if held + other_held < 5 and wanted + other_held >= 5 and other_wanted + held >= 5
    ]


def test_an_inversion_is_found():
    def line(transaction: int, *locks: tuple[str, str]) -> dict[str, Any]:
        return {"transaction": transaction, "locks": locks, "by": [f"transaction {transaction}"], "upgrades": []}

    change, keep, delete = "For No Key Update", "For Key Share", "Update"
    first = [line(1, ("apps", change)), line(1, ("functions", change))]
    assert inversions(edges([*first, line(2, ("functions", change)), line(2, ("apps", change))]))
    assert not inversions(edges([*first, line(2, ("functions", change)), line(2, ("apps", keep))]))
    # What is deleted conflicts even with those who only keep it.
    stats = [line(1, ("stats", change)), line(1, ("functions", keep))]
    assert not inversions(edges([*stats, line(2, ("functions", change)), line(2, ("stats", change))]))
    assert inversions(edges([*stats, line(2, ("functions", delete)), line(2, ("stats", change))]))
    one, other = line(1) | {"upgrades": [("f", keep, change)]}, line(2) | {"upgrades": [("f", change, delete)]}
    assert upgrades([one, other])
    assert not upgrades([one])


@pytest.mark.embedded("it needs the extension pgrowlocks, and a superuser's view of all transactions")
async def test_every_statement_locks_in_one_order(tmp_path: Path):
    """Every writing route, once on its own: what is locked when, and no connection while another is held."""
    record = tmp_path / "locks.jsonl"
    wrapper = [sys.executable, "-m", "tests.races.recorder", str(record)]
    server = Server(tmp_path / "data", wrapper=wrapper).start()
    try:
        console = await asyncio.to_thread(first_console_user, server)
        async with httpx.AsyncClient(verify=False, timeout=120) as client:
            for routes in families().values():
                for wanted in await asyncio.to_thread(prepared, server, console, routes):
                    assert (await send(client, wanted)).status < 500
    finally:
        server.stop()
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [line["nested"] for line in lines if "nested" in line] == []
    found = edges([line for line in lines if "locks" in line])
    assert upgrades([line for line in lines if "locks" in line]) == []
    # What everything else stands on was seen, and seen first.
    assert found["apps", "functions"]
    assert inversions(found) == []
    strong = {pair for pair, ways in found.items() if any(its >= 3 and then >= 3 for its, then, _ in ways)}
    assert [first for first, second in strong if second == "apps"] == []
    order: dict[str, set[str]] = defaultdict(set)
    for first, second in strong:
        order[second].add(first)
    try:
        TopologicalSorter(order).prepare()
    except CycleError as error:
        pytest.fail(f"These tables are locked in a ring: {error.args[1]}")
