"""Processes that are killed, have no room, or may not write; and what a large upload takes of memory."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.blobs.conftest import opened
from tests.blobs.support import MIB, keys, put, read
from tests.forked import Program
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
KEY = "blobs/a/1"
IN_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]


def command(program: str, url: str, key: str = KEY) -> list[str]:
    return [sys.executable, "-m", "tests.blobs.programs", program, url, key]


def start(program: str, url: str, key: str = KEY) -> Program:
    return Program("tests.blobs.programs", program, url, key)


def output(arguments: list[str]) -> list[str]:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(arguments, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, timeout=5 * PATIENCE)
    assert done.returncode == 0, done
    return done.stdout.splitlines()


def first_line(process: Program) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(process: Program) -> list[str]:
    assert process.stdout is not None
    process.kill()
    with process.stdout:
        lines = process.stdout.read().splitlines()
    process.wait()
    return lines


async def test_a_killed_put_leaves_nothing(url: str, tmp_path: Path):
    process = start("stall", url)
    assert first_line(process) == "stalled"
    kill(process)
    store = opened(url, tmp_path)
    assert await keys(store) == []
    assert await store.stat(KEY) is None
    await put(store, KEY, b"retried")
    assert await read(store, KEY) == b"retried"
    await store.close()


async def test_a_killed_put_leaves_what_was_there(url: str, tmp_path: Path):
    store = opened(url, tmp_path)
    await put(store, KEY, b"before")
    process = start("stall", url)
    assert first_line(process) == "stalled"
    kill(process)
    assert await read(store, KEY) == b"before"
    await store.close()


async def test_after_kills_everything_acknowledged_is_there_and_nothing_is_in_part(url: str, tmp_path: Path):
    acknowledged = []
    for attempt in range(4):
        process = start("repeat", url, f"{attempt}")
        assert first_line(process) == "started"
        if attempt:
            acknowledged.append(first_line(process))
        await asyncio.sleep(0.13 * attempt)
        acknowledged += kill(process)
    store = opened(url, tmp_path)
    found = await keys(store)
    assert acknowledged, "killed too early to tell anything"
    assert set(acknowledged) <= set(found)
    for key in found:
        assert await read(store, key) == key.rpartition("/")[2].encode() * 100_000
    await store.close()


async def test_opening_sweeps_what_a_killed_process_left(tmp_path: Path):
    process = start("stall", str(tmp_path))
    assert first_line(process) == "stalled"
    running = opened(str(tmp_path), tmp_path)
    assert len(list((tmp_path / "tmp").iterdir())) == 1, "another process' upload was swept away"
    kill(process)
    assert len(list((tmp_path / "tmp").iterdir())) == 1
    await running.close()
    await opened(str(tmp_path), tmp_path).close()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_file_too_large_for_the_file_system(tmp_path: Path):
    assert output(command("limited", str(tmp_path))) == ["full", "['blobs/a/0'] []", str(MIB)]


def test_a_full_disk(tmp_path: Path):
    need_namespaces()
    script = f'mount -t tmpfs -o size=8m none {tmp_path} && exec "$@"'
    lines = output([*IN_NAMESPACE, script, "sh", *command("overfill", str(tmp_path))])
    assert lines == ["full", "['blobs/a/0'] []", str(MIB)]


def test_a_file_system_that_became_read_only(tmp_path: Path):
    need_namespaces()
    script = f'mount -t tmpfs none {tmp_path} && exec "$@"'
    line, *_ = output([*IN_NAMESPACE, script, "sh", *command("read_only", str(tmp_path))])
    assert line.startswith("unavailable b'before'")
    assert "Read-only file system" in line


def test_memory_of_a_large_upload(url: str):
    assert int(output(command("measure", url))[0]) < 40 * MIB


def need_namespaces() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    if subprocess.run([*IN_NAMESPACE, "mount -t tmpfs none /mnt"], capture_output=True).returncode:
        pytest.skip("needs user namespaces")
