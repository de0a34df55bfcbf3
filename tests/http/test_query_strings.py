"""Query strings: what has nothing to decode is read by a shorter way, which must come to the same."""

from urllib.parse import parse_qsl

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.http.api import binding
from pilotis.kit.errors import BadRequestError, ValidationError


class Asked(msgspec.Struct, kw_only=True):
    a: str | None = None
    b: str | None = None


class Required(msgspec.Struct, kw_only=True):
    a: str


@pytest.mark.parametrize("text", [b"", b"b=1"])
def test_a_missing_parameter_is_named(text):
    with pytest.raises(ValidationError) as caught:
        binding.query(Required, text)
    assert "a" in caught.value.message


@given(st.text(alphabet="ab&&==;?%2+ 0", max_size=12))
def test_a_query_string_means_what_the_standard_library_reads(text):
    try:
        read = dict(parse_qsl(text, keep_blank_values=True, errors="strict"))
        expected = read.get("a"), read.get("b")
    except ValueError:
        expected = None
    try:
        asked = binding.query(Asked, text.encode())
        found = asked.a, asked.b
    except BadRequestError:
        found = None
    assert found == expected
