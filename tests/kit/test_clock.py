"""RFC 3339, as the RFC's own examples and edges have it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.kit.clock import are_plain_utc, is_plain_utc, parse_rfc3339, rfc3339


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1985-04-12T23:20:50.52Z", datetime(1985, 4, 12, 23, 20, 50, 520_000, UTC)),
        ("1996-12-19T16:39:57-08:00", datetime(1996, 12, 20, 0, 39, 57, tzinfo=UTC)),
        ("1990-12-31T23:59:60Z", datetime(1991, 1, 1, tzinfo=UTC)),
        ("1990-12-31T15:59:60-08:00", datetime(1991, 1, 1, tzinfo=UTC)),
        ("1937-01-01T12:00:27.87+00:20", datetime(1937, 1, 1, 11, 40, 27, 870_000, UTC)),
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        ("2026-01-31t12:00:00z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31 12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00.123456789Z", datetime(2026, 1, 31, 12, 0, 0, 123_456, UTC)),
        ("2026-01-31T12:00:00-00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_what_the_rfc_allows_is_read(text: str, moment: datetime):
    assert parse_rfc3339(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026",
        "2026-02-30",
        "2025-02-29",
        "2026-13-01",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:61Z",
        "2026-01-31T12:00:00+0100",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00.Z",
        "2026-W05-6",
        "2026-031",
        "20260131",
        "2026-01-31T12:00:00Z\n",
        "２026-01-31",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "9999-12-31T23:59:60Z",
        "1e9",
    ],
)
def test_anything_else_is_not(text: str):
    assert parse_rfc3339(text) is None


@given(st.datetimes(timezones=st.integers(-1439, 1439).map(lambda m: timezone(timedelta(minutes=m)))))
def test_what_is_written_is_read_again(moment: datetime):
    try:
        text = rfc3339(moment)
    except OverflowError:
        return
    read = parse_rfc3339(text)
    assert read is not None
    assert timedelta() <= moment - read < timedelta(milliseconds=1)


def test_the_form_is_utc_with_milliseconds():
    east = timezone(timedelta(hours=9))
    assert rfc3339(datetime(2026, 1, 1, 8, 30, 0, 999, east)) == "2025-12-31T23:30:00.000Z"


@pytest.mark.parametrize("text", ["2026-01-31T12:00:00Z", "0001-01-01T00:00:00Z", "2024-02-29T23:59:59.999Z"])
def test_the_plain_form_of_a_moment(text: str):
    assert is_plain_utc(text)
    assert parse_rfc3339(text) == datetime.fromisoformat(text)


@pytest.mark.parametrize(
    "text",
    [
        *("2026-02-30T12:00:00Z", "2026-01-31T24:00:00Z", "2026-01-31T12:00:60Z", "0000-01-01T00:00:00Z"),
        *("2026-01-31t12:00:00z", "2026-01-31 12:00:00Z", "2026-01-31T12:00:00z", "2026-01-31T12.00.00Z"),
        *("2026-01-31T12:00:00,000Z", "2026-01-31T12:00:00.00Z", "2026-W05-6T12:00:00Z", "２026-01-31T12:00:00Z"),
        *("2026-01-31T12:00:0 Z", "2026-01-31T12:00:+1Z", "2026-01-31", "", "2026-01-31T12:00:00+00Z"),
    ],
)
def test_no_other_form_is_plain(text: str):
    assert not is_plain_utc(text)
    for place in range(3):
        texts = ["2026-01-31T12:00:00Z"] * 3
        texts[place] = text
        assert not are_plain_utc(texts)


@pytest.mark.parametrize("text", ["2026-01-31T12:00:00Z", "2024-02-29T23:59:59.999Z"])
def test_many_plain_moments(text: str):
    assert are_plain_utc([text])
    assert are_plain_utc([text, f"2000{text[4:]}", text])
    # One of them is looked at by itself where their lengths differ.
    assert not are_plain_utc(["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000Z"])
    assert not are_plain_utc([])


@given(st.lists(st.text("0129-T:.Z", min_size=20, max_size=20) | st.datetimes().map(lambda one: f"{one:%FT%TZ}")))
def test_many_are_plain_only_if_each_is(texts: list[str]):
    assert are_plain_utc(texts) == (bool(texts) and all(map(is_plain_utc, texts)))
