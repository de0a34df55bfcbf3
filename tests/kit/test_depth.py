"""The depth of JSON is judged by its brackets, whatever its strings hold."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.kit.errors import MalformedJsonError
from pilotis.kit.json import MAX_DEPTH, check_depth

TEXTS = st.sampled_from(["", "a", "[", "]", "}{", '"', "\\", '\\"]', '"]["'])


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


@st.composite
def nested(draw: st.DrawFn) -> Any:
    """A value about as deep as allowed, with enough other brackets to be checked."""
    value: Any = draw(TEXTS)
    for _ in range(draw(st.integers(MAX_DEPTH - 3, MAX_DEPTH + 1))):
        sibling = draw(TEXTS)
        value = [sibling, value, sibling] if draw(st.booleans()) else {sibling: value, sibling + "2": sibling}
    return [value, *([] for _ in range(MAX_DEPTH))]


def is_taken(data: bytes) -> bool:
    try:
        check_depth(data)
    except MalformedJsonError:
        return False
    return True


@given(nested())
def test_what_is_taken_is_at_most_64_deep(value: Any) -> None:
    assert is_taken(msgspec.json.encode(value)) == (depth(value) <= MAX_DEPTH)


@pytest.mark.parametrize("text", ["]", "}", '"]', "\\", '\\"]', "]["])
def test_brackets_in_strings_neither_open_nor_close(text: str) -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 1):
        deep = [text, deep, text]
    assert not is_taken(msgspec.json.encode(deep))
    assert is_taken(msgspec.json.encode([[text] for _ in range(100)]))
