"""The trie, against a matcher that tries every route in turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.http.api.router import Router

METHODS = ["GET", "POST"]
SEGMENTS = st.sampled_from(["a", "b", ":x", ":y"])
PATTERNS = st.builds(
    lambda segments, rest: "/" + "/".join([*segments, *rest]),
    st.lists(SEGMENTS, max_size=4),
    st.sampled_from([[], [], ["*rest"]]),
)
PATHS = st.lists(st.sampled_from(["a", "b", "c", "", "é", ":x"]), max_size=5).map(lambda parts: "/" + "/".join(parts))
Route = tuple[str, str]


def shape(pattern: str) -> str:
    """The pattern without its parameters' names: two of one shape are the same route."""
    return "/".join(part[:1] if part[:1] in {":", "*"} and part else part for part in pattern.split("/"))


def values(pattern: str, path: str) -> tuple[str, ...] | None:
    """The parameters' values if the pattern matches the path."""
    wanted, given_ = pattern.split("/")[1:], path.split("/")[1:]
    found: list[str] = []
    for index, part in enumerate(wanted):
        if index >= len(given_):
            return None
        if part.startswith("*"):
            return (*found, "/".join(given_[index:])) if given_[index] else None
        if part.startswith(":"):
            if not given_[index]:
                return None
            found.append(given_[index])
        elif part != given_[index]:
            return None
    return tuple(found) if len(wanted) == len(given_) else None


def rank(pattern: str) -> list[int]:
    """Sorts patterns by precedence: at the first difference a fixed segment, then a parameter, then the rest."""
    return [{":": 1, "*": 2}.get(part[:1], 0) for part in pattern.split("/")[1:]]


def naive(routes: list[Route], method: str, path: str) -> tuple[str, tuple[str, ...]] | set[str] | None:
    """The best pattern and its values; else the methods the path takes; else None."""
    matching = [route for route in routes if values(route[1], path) is not None]
    own = [pattern for name, pattern in matching if name == method]
    if own:
        best = min(own, key=rank)
        return best, values(best, path) or ()
    return {name for name, _ in matching} or None


@given(st.lists(st.tuples(st.sampled_from(METHODS), PATTERNS), max_size=8), st.sampled_from(METHODS), PATHS)
def test_it_agrees_with_the_naive_matcher(routes: list[Route], method: str, path: str):
    distinct = list({(name, shape(pattern)): (name, pattern) for name, pattern in routes}.values())
    router: Router[str] = Router()
    for name, pattern in distinct:
        router.add(name, pattern, pattern)
    expected, match = naive(distinct, method, path), router.find(method, path)
    if expected is None:
        assert match is None
    elif isinstance(expected, set):
        assert set(match.targets) == expected
    else:
        assert (match.targets[method], match.values) == expected


def test_a_fixed_segment_wins_even_where_it_came_later():
    router: Router[str] = Router()
    router.add("GET", "/tables/:id", "parameter")
    router.add("GET", "/tables/mine", "fixed")
    assert router.find("GET", "/tables/mine").targets["GET"] == "fixed"
    assert router.find("GET", "/tables/1").values == ("1",)


def test_a_dead_end_is_left_again():
    router: Router[str] = Router()
    router.add("GET", "/a/b/c", "deep")
    router.add("GET", "/:x/b/d", "other")
    assert router.find("GET", "/a/b/d").values == ("a",)


@pytest.mark.parametrize("path", ["/a/", "//a", "/a//b", "", "a"])
def test_slashes_count(path: str):
    router: Router[str] = Router()
    router.add("GET", "/a", "a")
    router.add("GET", "/a/:x", "x")
    router.add("GET", "/a/b", "b")
    assert router.find("GET", path) is None


def test_a_route_declared_twice_fails_at_the_start():
    router: Router[str] = Router()
    router.add("GET", "/a/:x", "1")
    with pytest.raises(ValueError, match="GET /a/:y is declared twice"):
        router.add("GET", "/a/:y", "2")


def test_the_rest_must_be_last():
    with pytest.raises(ValueError, match="must be the last segment"):
        Router[str]().add("GET", "/*rest/a", "x")
