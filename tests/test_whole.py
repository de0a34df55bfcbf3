"""What a usual run leaves out of tests with many equal cases: the same in each process, and never a whole test."""

from pathlib import Path

import pytest

from tests import whole

NUMBERS = range(40)


@pytest.mark.share(0.25)
@pytest.mark.parametrize("number", NUMBERS)
def test_of_many(number: int):
    assert number in NUMBERS


@pytest.mark.share(0.01)
@pytest.mark.parametrize("number", range(4))
def test_of_few(number: int):
    assert number in NUMBERS


@pytest.mark.share(0.34, of="alternatives")
def test_one_way():
    assert NUMBERS


@pytest.mark.share(0.34, of="alternatives")
def test_another_way():
    assert NUMBERS


@pytest.mark.share(0.34, of="alternatives")
def test_a_third_way():
    assert NUMBERS


@pytest.fixture
def tests(request: pytest.FixtureRequest) -> list[pytest.Item]:
    """All tests of this file."""
    module = pytest.Module.from_parent(request.node.parent.parent, path=Path(__file__))
    return list(request.session.genitems(module))


def run(tests: list[pytest.Item]) -> list[str]:
    left = whole.left_out(tests)
    return [test.name for test in tests if test not in left]


def test_a_part_runs_that_depends_on_the_seed_alone(tests: list[pytest.Item], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(whole, "WHOLE", False)
    every: set[str] = set()
    for seed in map(str, range(40)):
        monkeypatch.setattr(whole, "SEED", seed)
        names = run(tests)
        assert names == run(tests)
        assert sum("of_many" in name for name in names) == 10
        assert sum("of_few" in name for name in names) == whole.FEWEST
        assert sum(name.endswith("_way") for name in names) == 1
        assert {"test_a_part_runs_that_depends_on_the_seed_alone", "test_a_whole_run_has_all"} <= {*names}
        every |= {*names}
    assert every == {test.name for test in tests}


def test_a_whole_run_has_all(tests: list[pytest.Item], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(whole, "WHOLE", True)
    assert len(run(tests)) == len(tests)
