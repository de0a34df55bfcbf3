"""The least rate of a transfer."""

import pytest

from pilotis.kit.pace import MAX_PAUSE_SECONDS, Pace


def test_grace_is_all_that_a_client_has_that_moves_nothing():
    pace = Pace(2000, 30)
    pace.count(29, 0)
    assert not pace.is_too_slow
    pace.count(1, 0)
    assert pace.is_too_slow


@pytest.mark.parametrize(("rate", "too_slow"), [(1900, True), (2000, False), (2100, False)])
def test_a_rate_above_the_least_goes_on_for_ever(rate: int, too_slow: bool):
    pace = Pace(2000, 30)
    for _ in range(10_000):
        pace.count(1, rate)
    assert pace.is_too_slow is too_slow


def test_what_was_fast_at_first_buys_no_pause_longer_than_a_minute():
    pace = Pace(2000, 30)
    pace.count(0, 10**9)
    pace.count(MAX_PAUSE_SECONDS - 1, 0)
    assert not pace.is_too_slow
    pace.count(1, 0)
    assert pace.is_too_slow


def test_time_that_is_not_spent_waiting_for_the_client_does_not_count():
    pace = Pace(2000, 30)
    for _ in range(1000):
        pace.count(0, 0)
    assert not pace.is_too_slow


def test_without_a_least_rate_any_byte_will_do():
    pace = Pace(0, 30)
    for _ in range(1000):
        pace.count(59, 1)
        assert not pace.is_too_slow
    pace.count(60, 0)
    assert pace.is_too_slow
