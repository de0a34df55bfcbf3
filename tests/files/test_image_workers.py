"""The processes that decode: how many, how long, what they may, and what happens when one dies."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from uuid import UUID

import psutil
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pilotis.files.errors import ImageTooLargeError, InvalidImageError
from pilotis.files.images.imaging import PROCESSOR_SECONDS, placement, scaled
from pilotis.files.images.workers import ImageWorkers
from pilotis.files.recipes import LARGEST_SIDE, Recipe
from pilotis.kit.errors import UnavailableError
from tests.files.pictures import RED, bands, encoded
from tests.waiting import until

RECIPE = Recipe("PNG", 10, None, "contain", "png", 0)
DATA = encoded(bands(64, 48, RED))
ONE, OTHER = UUID(int=1), UUID(int=2)


async def bytes_of(data: bytes) -> AsyncGenerator[bytes]:
    yield data


class Held:
    """Sources that send nothing until they are released."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.begun = 0

    async def source(self) -> AsyncGenerator[bytes]:
        self.begun += 1
        await self.gate.wait()
        yield DATA


def children() -> list[psutil.Process]:
    """The decoding processes of this one."""
    found = []
    for child in psutil.Process().children():
        # One that has ended in the meantime, or waits to be noticed, has no command line.
        with contextlib.suppress(psutil.NoSuchProcess):
            if "pilotis.files.images.imaging" in child.cmdline():
                found.append(child)
    return found


async def test_no_app_has_them_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    workers, held = ImageWorkers(), Held()
    tasks = [asyncio.create_task(workers.make(ONE, held.source(), RECIPE)) for _ in range(5)]
    await until(lambda: held.begun == 2)
    assert await workers.make(OTHER, bytes_of(DATA), RECIPE)
    assert (held.begun, len(children())) == (2, 2)
    held.gate.set()
    assert len({*await asyncio.gather(*tasks)}) == 1
    assert held.begun == 5


async def test_past_the_queue_requests_are_refused():
    workers, held = ImageWorkers(max_waiting=5, max_waiting_of_app=3), Held()
    tasks = [asyncio.create_task(workers.make(ONE, held.source(), RECIPE)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(UnavailableError):
        await workers.make(ONE, bytes_of(DATA), RECIPE)
    tasks += [asyncio.create_task(workers.make(OTHER, held.source(), RECIPE)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(UnavailableError):
        await workers.make(UUID(int=3), bytes_of(DATA), RECIPE)
    held.gate.set()
    await asyncio.gather(*tasks)
    assert await workers.make(ONE, bytes_of(DATA), RECIPE)


async def test_one_that_is_not_done_in_time_is_killed():
    workers, held = ImageWorkers(seconds=0.5), Held()
    for _ in range(3):
        with pytest.raises(UnavailableError):
            await workers.make(ONE, held.source(), RECIPE)
    assert children() == []


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (signal.SIGSEGV, InvalidImageError),
        (signal.SIGABRT, InvalidImageError),
        (signal.SIGKILL, ImageTooLargeError),
        (signal.SIGXCPU, ImageTooLargeError),
    ],
)
async def test_a_process_that_dies_takes_nothing_with_it(number: signal.Signals, error: type[Exception]):
    workers, held = ImageWorkers(), Held()
    task = asyncio.create_task(workers.make(ONE, held.source(), RECIPE))
    await until(lambda: held.begun)
    children()[0].send_signal(number)
    held.gate.set()
    with pytest.raises(error):
        await task
    assert await workers.make(ONE, bytes_of(DATA), RECIPE)


async def test_a_caller_that_gives_up_leaves_no_process():
    workers, held = ImageWorkers(), Held()
    task = asyncio.create_task(workers.make(ONE, held.source(), RECIPE))
    await until(lambda: held.begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() == []


async def test_it_gets_no_secret_and_no_signal_of_ours(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PILOTIS_MASTER_KEY", "secret")
    workers, held = ImageWorkers(), Held()
    task = asyncio.create_task(workers.make(ONE, held.source(), RECIPE))
    await until(lambda: held.begun)
    process = children()[0]
    assert process.environ() == {}
    assert os.getsid(process.pid) != os.getsid(0)
    held.gate.set()
    await task


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("bytearray(2 << 30)", "MemoryError"),
        ("open('written', 'wb', buffering=0).write(b'x')", "File too large"),
        ("import resource; print(resource.getrlimit(resource.RLIMIT_CPU)[1])", str(PROCESSOR_SECONDS)),
        ("import os; print(os.nice(0))", str(min(19, os.nice(0) + 5))),
    ],
)
def test_what_it_may(code: str, outcome: str, tmp_path: Path):
    program = f"from pilotis.files.images import imaging; imaging.confine(); {code}"
    ended = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert outcome in ended.stdout + ended.stderr


def test_the_server_does_not_load_the_decoders():
    code = "import sys, pilotis.server; print([name for name in sys.modules if name.startswith('PIL')])"
    ended = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.stdout == "[]\n"


sides = st.integers(1, 60_000)
wishes = st.none() | st.integers(1, LARGEST_SIDE)


# Rounding put the left edge of this one below zero.
@example((1717, 497), 1484, 313, "cover")
@given(st.tuples(sides, sides), wishes, wishes, st.sampled_from(["cover", "contain", "fill"]))
def test_a_placement_is_within_its_bounds(
    source: tuple[int, int], width: int | None, height: int | None, fit: str
) -> None:
    (left, top, right, bottom), (made_x, made_y) = placement(source, width, height, fit)
    assert 0 <= left < right <= source[0]
    assert 0 <= top < bottom <= source[1]
    assert 1 <= made_x <= min(source[0], width or LARGEST_SIDE)
    assert 1 <= made_y <= min(source[1], height or LARGEST_SIDE)
    if fit == "cover" and width and height and width <= source[0] and height <= source[1]:
        assert (made_x, made_y) == (width, height)
    if fit != "cover":
        assert (left, top, right, bottom) == (0, 0, *source)
    for part in (2, 4, 8):
        reduced = (-(-source[0] // part), -(-source[1] // part))
        x, y, end_x, end_y = scaled((left, top, right, bottom), source, reduced)
        assert 0 <= x < end_x <= reduced[0]
        assert 0 <= y < end_y <= reduced[1]
