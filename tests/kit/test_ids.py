"""Identifiers sort by the time they were made, and are unique."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import RFC_4122, UUID

import pytest

from pilotis.kit import ids


def test_the_form_is_version_7():
    made = ids.uuid7()
    assert made.version == 7
    assert made.variant == RFC_4122
    assert abs((made.int >> 80) - time.time() * 1000) < 2000


def test_the_text_is_canonical():
    text = ids.uuid7_text()
    assert str(UUID(text)) == text
    assert UUID(text).version == 7


def test_many_have_the_same_form_and_continue_the_order():
    before = ids.uuid7_text()
    made = ids.uuid7_texts(5000)
    assert made == sorted(made)
    assert len({text[19:] for text in made}) == len(made)
    assert before < made[0] < made[-1] < ids.uuid7_text()
    # Each has the tick after that of the one before, also where a millisecond ends.
    ticks = [int(text[:8] + text[9:13] + text[15:18], 16) for text in made]
    assert ticks == list(range(ticks[0], ticks[0] + len(made)))
    for text in made:
        found = UUID(text)
        assert (str(found), found.version, found.variant) == (text, 7, RFC_4122)


def test_each_is_greater_than_the_one_before():
    made = [str(ids.uuid7()) if index % 2 else ids.uuid7_text() for index in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_a_clock_set_back_does_not_turn_the_order(monkeypatch: pytest.MonkeyPatch):
    before = ids.uuid7()
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3_600_000_000_000)
    assert ids.uuid7() > before


def test_threads_do_not_make_the_same_one():
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: ids.uuid7(), range(5000)))
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("text", ["019aa000-0000-7000-8000-000000000000", "019AA000-0000-7000-8000-00000000000F"])
def test_a_uuid_is_recognised(text: str):
    assert ids.is_uuid(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "019aa000000070008000000000000000",
        "{019aa000-0000-7000-8000-000000000000}",
        "019aa000-0000-7000-8000-00000000000g",
        "019aa000-0000-7000-8000-000000000000\n",
        " 019aa000-0000-7000-8000-000000000000",
        "urn:uuid:019aa000-0000-7000-8000-000000000000",
        "０19aa000-0000-7000-8000-000000000000",
    ],
)
def test_what_is_no_uuid_is_not(text: str):
    assert not ids.is_uuid(text)


def test_a_forked_process_makes_others():
    ids.uuid7_text()  # so that random bits are left over
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, "".join(ids.uuid7_text()[-17:] for _ in range(8)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    theirs = os.read(reading, 1000).decode()
    assert {theirs[place : place + 17] for place in range(0, 8 * 17, 17)}.isdisjoint(
        {ids.uuid7_text()[-17:] for _ in range(300)}
    )
