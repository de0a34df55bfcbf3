"""Guessing a schema: conservative."""

import pytest

from pilotis.data.tables.schema import column_name
from pilotis.data.transfer.formats import Record
from pilotis.data.transfer.inference import column_names, infer_csv, infer_json_lines

UUID_TEXT = "019aa000-0000-7000-8000-000000000001"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["1", "-2", "", r"\N"], "int"),
        (["1", "2.5"], "number"),
        (["9223372036854775807"], "int"),
        (["9223372036854775808"], "number"),
        (["1", "x"], "string"),
        (["01234", "99999"], "string"),
        (["+1"], "string"),
        ([" 1"], "string"),
        (["1e5"], "string"),
        (["-0"], "int"),
        (["true", "false"], "boolean"),
        (["true", "1"], "string"),
        (["yes"], "string"),
        (["2026-01-31", "2026-01-31T12:00:00+09:00"], "date"),
        (["2026-01-31 12:00:00"], "string"),
        (["31.01.2026"], "string"),
        ([UUID_TEXT], "uuid"),
        ([UUID_TEXT.upper().replace("019AA", "019AB")], "string"),
        (['{"a":1}'], "object"),
        (["[1]", "[]"], "array"),
        (['{"a":1}', "[1]"], "string"),
        (["{a}"], "string"),
        (["", r"\N"], "string"),
        ([], "string"),
    ],
)
def test_csv(fields: list[str], expected: str):
    records = [Record(1, 1, 0, b"", ["x", field]) for field in fields]
    assert infer_csv(["first", "guessed"], records)["guessed"] == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2"], "int"),
        (["1", "2.0"], "number"),
        (["1", "true"], "string"),
        (["true", "null"], "boolean"),
        (['"2026-01-31"'], "date"),
        (['"2026-01-31"', '"soon"'], "string"),
        ([f'"{UUID_TEXT}"'], "uuid"),
        (['{"a":1}'], "object"),
        (["[]"], "array"),
        (["null"], "string"),
    ],
)
def test_json_lines(values: list[str], expected: str):
    records = [Record(1, 1, 0, b'{"x":%b}' % value.encode()) for value in values]
    assert infer_json_lines([*records, Record(1, 1, 0, b"nonsense")]) == {"x": expected}


def test_names_become_names_that_columns_may_have():
    names = ["First name", "id", "9 lives", "", "__own", "가격(원)", "a-b", "a b", "x" * 100, "kept", "क्षेत्र"]
    made = column_names(names, {"kept"})
    assert list(made.values()) == [
        "First_name", "id_", "_9_lives", "_", "_own", "가격_원_", "a_b", "a_b_2", "x" * 59, "kept", "क्षेत्र",
    ]  # fmt: skip
    for name in set(made.values()):
        assert column_name(name) == name
