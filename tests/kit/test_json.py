"""JSON: what is rejected, and what is preserved exactly."""

import json as stdlib
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.kit import json
from pilotis.kit.errors import MalformedJsonError, ValidationError


class Thing(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(max_length=3)]
    inner: dict[str, int] = {}


THING = json.decoder(Thing)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_the_standard_library_writes_comes_in_and_goes_out(value: Any):
    assert json.decode(stdlib.dumps(value).encode()) == value
    assert stdlib.loads(json.encode(value)) == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"{",
        b"{'a': 1}",
        b"[1,]",
        b"[1] 2",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"01",
        b"+1",
        b".5",
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
        b'"\x00"',
        b'"\n"',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf{}",
        b"{1: 2}",
        b"tru",
    ],
)
def test_what_is_no_json_is_refused(data: bytes):
    with pytest.raises(MalformedJsonError):
        json.decode(data)


@pytest.mark.parametrize(
    "data",
    [
        b"1e400",
        b"-1e400",
        b"1e-400",
        b"1" + b"0" * 2000 + b".5",
        b"[1e999999999]",
        b"1e99999999999999999999",
        b"0e-99999999999999999999",
        b"0e999999",
        b"-0.0e-20000",
    ],
)
def test_numbers_beyond_doubles_are_refused(data: bytes):
    with pytest.raises((MalformedJsonError, ValidationError)):
        json.decode(data)


@pytest.mark.parametrize("text", ["1.10", "0.1", "1e3", "123456789.123456789123456789", "-0.0", "0E-20", "0.00e+00"])
def test_numbers_are_kept_exactly(text: str):
    value = json.decode(text.encode())
    assert value == Decimal(text)
    assert Decimal(json.encode(value).decode()) == Decimal(text)


def test_of_equal_keys_the_last_one_counts_and_is_what_was_checked():
    assert json.decode(b'{"name":"ab","name":"abc"}', THING).name == "abc"
    assert json.decode(b'{"a":1,"a":2}') == {"a": 2}
    with pytest.raises(ValidationError):
        json.decode(b'{"name":"abc","name":"abcdef"}', THING)
    with pytest.raises(ValidationError):
        json.decode(b'{"name":"abc","\\u006eame":"abcdef"}', THING)


@pytest.mark.advisory("GHSA-9xp9-j92r-p88v")
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_depth(opening: bytes, closing: bytes):
    json.decode(opening * 64 + b"1" + closing * 64)
    for depth in (65, 1000, 100_000):
        with pytest.raises(MalformedJsonError, match="64 levels"):
            json.decode(opening * depth + b"1" + closing * depth)


def test_depth_does_not_count_siblings_nor_brackets_in_strings():
    json.decode(b"[" + b",".join([b"[]"] * 1000) + b"]")
    json.decode(stdlib.dumps(["[" * 100, '"[{' * 50, "\\" * 7 + '"' + "[" * 80]).encode())


@given(VALUES)
def test_depth_agrees_with_a_plain_count(value: Any):
    def depth(item: Any) -> int:
        if not isinstance(item, list | dict):
            return 0
        return 1 + max((depth(each) for each in (item.values() if isinstance(item, dict) else item)), default=0)

    padding = 64 - depth(value)
    data = b"[" * padding + stdlib.dumps(value).encode() + b"]" * padding
    json.check_depth(data)
    if depth(value):
        with pytest.raises(MalformedJsonError):
            json.check_depth(b"[" + data + b"]")


@pytest.mark.parametrize(
    ("data", "field", "code"),
    [
        (b"{}", "name", "REQUIRED"),
        (b'{"name":1}', "name", "INVALID_VALUE"),
        (b'{"name":"abcd"}', "name", "INVALID_VALUE"),
        (b'{"name":"a","more":1}', "more", "UNKNOWN_FIELD"),
        (b'{"name":"a","inner":{"x":"y"}}', "inner.x", "INVALID_VALUE"),
        (b"[]", "", "INVALID_VALUE"),
    ],
)
def test_errors_name_the_field(data: bytes, field: str, code: str):
    with pytest.raises(ValidationError) as caught:
        json.decode(data, THING)
    (detail,) = caught.value.details
    assert (detail.field, detail.code) == (field, code)


@pytest.mark.parametrize("value", ["a\0", {"a\0": 1}, [{"a": ["\0"]}]])
def test_nul_is_found(value: Any):
    assert json.has_nul(value)


@given(VALUES)
def test_nul_is_found_wherever_it_is(value: Any):
    assert json.has_nul(value) == ("\\u0000" in stdlib.dumps(value).replace("\\\\", ""))


def count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inner))


@given(VALUES | st.lists(st.text(alphabet='[]{},:"\\\\ a')))
def test_values_are_counted_before_they_are_decoded(value: Any):
    """Containers and their members are counted; the contents of strings are not."""
    text, values = stdlib.dumps(value).encode(), count(value)
    empty = text.count(b"[]") + text.count(b"{}")
    json.check_values(text, values + empty)
    if values > 1:
        with pytest.raises(json.TooManyValuesError):
            json.check_values(text, values - 1)


def test_strings_longer_than_a_slice_are_left_out_of_the_count():
    json.check_values(b'["' + b"," * 200_000 + b'","' + b"[" * 200_000 + b'"]', 3)
    with pytest.raises(json.TooManyValuesError):
        json.check_values(b'["' + b"," * 200_000 + b'",' + b'"a,[",' * 50_000 + b"1]", 50_000)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"where": {"a": 1}, "where": {"b": 1}}', "where"),
        ('{"where": {"a": 1}, "wh\\u0065re": {"b": 1}}', "where"),
        ('{"operations": [{}, {"data": {"l": [1, {"n": 1e400, "n": 2}]}}]}', "operations[1].data.l[1].n"),
        ('{"a": {"b": 1, "c": {"d": 1, "d": 1}, "b": 2}}', "a.c.d"),
    ],
)
def test_a_key_given_twice_is_refused_by_its_path(text: str, path: str):
    with pytest.raises(json.DuplicateKeyError) as refused:
        json.check_unique_keys(text.encode())
    assert [(detail.field, detail.code) for detail in refused.value.details] == [(path, "DUPLICATE_KEY")]


def test_equal_keys_of_different_objects_and_large_numbers_are_let_through():
    json.check_unique_keys(b'{"a": {"a": [{"a": %s}, {"a": 1e999}]}, "A": 1}' % (b"9" * 5000))


@pytest.mark.parametrize("offset", range(6))
def test_escapes_are_understood_across_slices(offset: int):
    """Wherever a slice ends, before or amid backslashes and quotes."""
    text = stdlib.dumps(["x" * (65_530 - offset) + '\\\\",[{\\', 'a","b', 1, {"k": "\\"}]).encode()
    json.check_values(text, 6)
    with pytest.raises(json.TooManyValuesError):
        json.check_values(text, 5)


def test_the_path_of_a_key_in_a_large_body():
    members = ",".join(f'"k{number}":"{number}"' for number in range(10_000))
    json.check_unique_keys(b'{"a":[{%b}]}' % members.encode())
    with pytest.raises(json.DuplicateKeyError, match=r"a\[0\].k77 "):
        json.check_unique_keys(b'{"a":[{%b,"k77":1}]}' % members.encode())


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        (b"1E+2", b"100"),
        (b"-0", b"0"),
        (b'{"a":-0.0}', b'{"a":0.0}'),
        (b"[1,-0]", b"[1,0]"),
        (b"[-0]", b"[0]"),
        (b'["1E5",":-0",2E-3]', b'["1E5",":-0",0.002]'),
        (b'["1E5"]', b'["1E5"]'),
        (b'["E-0"]', b'["E-0"]'),
        (b"-1.5", b"-1.5"),
        (b'{"a":"2026-01-05","b":-0.5,"c":-0}', b'{"a":"2026-01-05","b":-0.5,"c":0}'),
    ],
)
def test_numbers_are_spelled_without_exponents_and_texts_stay(written, plain):
    assert json.plain_numbers(written) == plain


def test_values_encoded_together_are_the_same():
    values = ["line\nbreak \u2028 \x85 \r \x0b", {}, [1, None], Decimal("1.10"), ""]
    assert json.encode_each(values) == [json.encode(value) for value in values]
    assert json.encode_each([]) == []
