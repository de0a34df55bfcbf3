"""Any JSON made of the languages' own words gets an answer: rows, or a 4xx that says what is wrong."""

import json as stdlib_json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pilotis.data.query.aggregate.accumulators import ACCUMULATORS
from pilotis.data.query.aggregate.expressions import _OPERATORS as EXPRESSIONS
from pilotis.data.query.aggregate.pipeline import _STAGES
from pilotis.data.where.compiler import OPERATORS as CONDITIONS
from pilotis.kit import json
from tests.conftest import new_app
from tests.support import Server
from tests.whole import times

PROFILE = settings(
    max_examples=times(60, whole=400),
    deadline=None,
    phases=[Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
SCHEMA = {
    "a": "string",
    "n": "int",
    "x": "number",
    "b": "boolean",
    "d": "date",
    "u": "uuid",
    "o": "object",
    "l": "array",
}
ROWS = [
    {
        "a": "x",
        "n": 1,
        "x": 1.5,
        "b": True,
        "d": "2026-01-02T03:04:05Z",
        "o": {"k": [1, {"z": "y"}]},
        "l": [{"k": 1}, 2],
    },
    {"a": "", "n": -(2**63), "x": 1e300, "b": False, "d": "0001-01-01", "o": {}, "l": []},
    {"a": None, "o": None, "l": [[1], None]},
    {},
]
NAMES = [
    *SCHEMA,
    "o.k",
    "l.k",
    "l.0",
    "o.k.z",
    "a.k",
    "id",
    "created_at",
    "_id",
    "z",
    "z.y.x",
    "",
    ".",
    "$ROOT",
    "$$ROOT",
]

names = st.sampled_from(NAMES)
WORDS = """$and $or $not $cond $literal $dateToString $dateTrunc $count $inc $ref if then else date format unit timezone
    path includeArrayIndex preserveNullAndEmptyArrays onNull startOfWeek"""
words = st.sampled_from([*EXPRESSIONS, *ACCUMULATORS, *_STAGES, *CONDITIONS, *WORDS.split()])
TEXTS = """x $ $$ %Y-%m-%dT%H:%M:%S.%LZ %G-W%V-%u%%%j%U%w%z%Z day week UTC +23:59 +24:00 Asia/Seoul 2026-01-02
    9999-12-31T23:59:59Z ( a{1,2} %_ é 018f0000-0000-7000-8000-000000000001"""
texts = st.sampled_from(["", *TEXTS.split()])
numbers = st.sampled_from([0, 1, -1, 2, 20, 2**31, 2**53, 2**63, -(2**63), 10**30, 0.5, -2.25, 1e300, 1e-300])
leaves = st.one_of(names.map(lambda name: f"${name}"), names, texts, numbers, st.booleans(), st.none(), words)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(words, inner, min_size=1, max_size=2),
        st.dictionaries(names, inner, max_size=3),
        st.builds(lambda word, items: {word: items}, words, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=12,
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(
            lambda word, items: {word: items},
            st.sampled_from(sorted(EXPRESSIONS)),
            st.lists(inner, min_size=1, max_size=3),
        ),
        st.builds(lambda items: {"$cond": items}, st.lists(inner, min_size=3, max_size=3)),
        st.builds(
            lambda date, format_, zone: {"$dateToString": {"date": date, "format": format_, "timezone": zone}},
            inner,
            texts,
            texts,
        ),
        st.builds(
            lambda date, unit, zone: {"$dateTrunc": {"date": date, "unit": unit, "timezone": zone}},
            inner,
            values,
            texts,
        ),
        st.dictionaries(names, inner, max_size=2),
    ),
    max_leaves=10,
)
stages = st.one_of(
    st.dictionaries(names, expressions, min_size=1, max_size=3).map(lambda fields: {"$addFields": fields}),
    st.dictionaries(names, expressions | st.sampled_from([0, 1]), min_size=1, max_size=3).map(
        lambda f: {"$project": f}
    ),
    st.builds(
        lambda key, results: {"$group": {"_id": key, **results}},
        expressions,
        st.dictionaries(
            names, st.builds(lambda word, of: {word: of}, st.sampled_from(sorted(ACCUMULATORS)), expressions)
        ),
    ),
    st.dictionaries(names, st.sampled_from([1, -1]) | values, max_size=3).map(lambda keys: {"$sort": keys}),
    values.map(lambda where: {"$match": where}),
    names.map(lambda name: {"$unwind": f"${name}"}),
    st.builds(
        lambda name, index, keeps: {
            "$unwind": {"path": f"${name}", "includeArrayIndex": index, "preserveNullAndEmptyArrays": keeps}
        },
        names,
        names,
        st.booleans(),
    ),
    st.builds(lambda word, of: {word: of}, st.sampled_from(sorted(_STAGES)), values),
)


class Tables:
    """A typed table and one that takes any field, with the same rows."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.ids = []
        for schema in (SCHEMA, {}):
            body = {"title": f"of {len(schema)}", "schema": schema, "access_level": "Public"}
            self.ids.append(client.post("/v1/public/tables", json=body).json()["id"])
            made = client.post(f"/v1/public/tables/{self.ids[-1]}/data", json={"data": ROWS})
            assert made.json()["success"] == len(ROWS), made.text

    def answered(self, path: str, body: Any) -> None:
        answer = self.client.post(path, content=json.encode(body), headers={"Content-Type": "application/json"})
        assert answer.status_code in {200, 400}, (path, body, answer.text)
        decoded = json.decode(answer.content)
        if answer.status_code == 400:
            assert not [word for word in ("select", "SQL", "jsonb", "Traceback") if word in decoded["message"]], decoded
            return
        stdlib_json.loads(answer.text, object_pairs_hook=without_doubles)


def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({name for name, _ in pairs}) == len(pairs), pairs
    return dict(pairs)


@pytest.fixture(scope="module")
def tables(server: Server, console: dict[str, str]) -> Iterator[Tables]:
    app = new_app(server, console)
    with httpx.Client(base_url=server.url, headers={"X-Public-Key": app.public_key}, timeout=60) as client:
        yield Tables(client)


@PROFILE
@given(pipeline=st.lists(stages, min_size=1, max_size=4))
def test_pipelines(tables: Tables, pipeline: list[Any]):
    for table_id in tables.ids:
        tables.answered("/v1/public/aggregate", {"table_id": table_id, "pipeline": pipeline})


@PROFILE
@given(where=values | st.dictionaries(names, st.dictionaries(st.sampled_from(sorted(CONDITIONS)), leaves | values)))
def test_conditions(tables: Tables, where: Any):
    for table_id in tables.ids:
        tables.answered(f"/v1/public/tables/{table_id}/data/query", {"where": where, "order_by": "id"})


@PROFILE
@given(name=names, shape=st.sampled_from(["near", "within", "polygon"]), of=values)
def test_places(tables: Tables, name: str, shape: str, of: Any):
    for table_id in tables.ids:
        tables.answered("/v1/public/geo", {"table_id": table_id, "field": name, shape: of})


@PROFILE
@given(query=st.text(max_size=30) | texts, fields=st.lists(names, min_size=1, max_size=3))
def test_searches(tables: Tables, query: str, fields: list[str]):
    for table_id in tables.ids:
        tables.answered("/v1/public/search", {"table_id": table_id, "query": query, "fields": fields})
