"""Schedules, section 6 of the notes on workflows: when a cron expression is due, and which slot after an outage."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from pilotis.jobs.schedules import next_run, slots

# Clocks in Vienna go from 02:00 to 03:00 on the first of these days, and from 03:00 to 02:00 on the second.
SPRING, AUTUMN = "2026-03-29", "2026-10-25"
VIENNA = "Europe/Vienna"


def day(cron: str, zone: str, date: str) -> list[str]:
    """The times in UTC at which an expression is due on a day of a time zone, which is a little east of it."""
    moment = datetime.fromisoformat(f"{date}T00:00:00+00:00") - timedelta(hours=2, seconds=1)
    end, found = moment + timedelta(hours=25), []
    while (due := next_run(cron, zone, moment)) is not None and due < end:
        found.append(due.isoformat(timespec="minutes").removesuffix("+00:00"))
        moment = due
    return found


@pytest.mark.parametrize(
    ("cron", "date", "times"),
    [
        # There is no 02:30: it is due at the jump, 03:00 in Vienna.
        ("30 2 * * *", SPRING, [f"{SPRING}T01:00"]),
        ("30 2 * * *", AUTUMN, [f"{AUTUMN}T00:30"]),
        ("30 1 * * *", SPRING, [f"{SPRING}T00:30"]),
        # There are two 02:15; the first counts.
        ("15 2 * * *", AUTUMN, [f"{AUTUMN}T00:15"]),
        ("0 3 * * *", SPRING, [f"{SPRING}T01:00"]),
        ("0 3 * * *", AUTUMN, [f"{AUTUMN}T02:00"]),
    ],
)
def test_once_a_day_on_the_days_when_clocks_change(cron: str, date: str, times: list[str]):
    assert day(cron, VIENNA, date) == times


@pytest.mark.parametrize("date", [SPRING, AUTUMN])
@pytest.mark.parametrize(("cron", "minutes"), [("*/30 * * * *", 30), ("0 * * * *", 60), ("* * * * *", 1)])
def test_what_repeats_is_due_by_elapsed_time(cron: str, date: str, minutes: int):
    moments = [datetime.fromisoformat(time) for time in day(cron, VIENNA, date)]
    assert len(moments) == 25 * 60 // minutes
    assert {after - before for before, after in pairwise(moments)} == {timedelta(minutes=minutes)}


def test_a_date_that_is_rare():
    assert next_run("0 0 29 2 *", None, datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2028, 2, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "late", "slot", "following"),
    [
        ("* * * * *", timedelta(seconds=1), timedelta(0), timedelta(minutes=1)),
        # What was missed runs once, with the newest slot.
        ("* * * * *", timedelta(minutes=5, seconds=1), timedelta(minutes=5), timedelta(minutes=6)),
        ("*/15 * * * *", timedelta(days=7, seconds=1), timedelta(days=7), timedelta(days=7, minutes=15)),
        # Too old to run: the caller compares the slot with the present.
        ("0 0 * * *", timedelta(hours=5), timedelta(0), timedelta(days=1)),
    ],
)
def test_the_slot_after_an_outage(cron: str, late: timedelta, slot: timedelta, following: timedelta):
    due = datetime(2026, 1, 5, tzinfo=UTC)
    assert slots(due, due + late, None, cron, "UTC") == (due + slot, due + following)
