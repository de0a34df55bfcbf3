"""What a backup store has is readable with its key alone, at its own place."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.backup import streams, wal
from pilotis.backup.catalogue import Backup, Known, Proof
from pilotis.backup.encryption import BackupKey
from pilotis.backup.errors import DamagedError
from pilotis.backup.keeper import _Due
from pilotis.backup.prune import split
from pilotis.backup.status import _problems, _warnings
from pilotis.blobs.local import LocalStore
from pilotis.kit.clock import now, parse_rfc3339, rfc3339

KEY = BackupKey(bytes(range(32)))


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


@given(st.binary(max_size=100), st.binary(max_size=100), st.integers(0, 130))
def test_bytes_open_at_their_own_place_alone(data: bytes, other: bytes, at: int):
    sealed = KEY.of("one").seal("00000", data)
    assert KEY.of("one").open("00000", sealed) == data
    for key, place in ((KEY.of("two"), "00000"), (KEY.of("one"), "00001"), (BackupKey(bytes(32)).of("one"), "00000")):
        with pytest.raises(DamagedError):
            key.open(place, sealed)
    with pytest.raises(DamagedError):
        KEY.of("one").open("00000", other)
    if at < len(sealed):
        with pytest.raises(DamagedError):
            KEY.of("one").open("00000", sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :])
        with pytest.raises(DamagedError):
            KEY.of("one").open("00000", sealed[:at])


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 20, 35])
async def test_a_stream_comes_back_and_lacks_no_part(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streams, "PART_BYTES", 10)
    store, key, data = LocalStore(tmp_path / "store"), KEY.of("a/b"), bytes(range(size))
    await streams.write(store, key, "a/b", pieces(data, 3))
    assert b"".join([part async for part in streams.read(store, key, "a/b")]) == data
    names = [info.key async for info in store.list("a/b")]
    assert len(names) == max(1, -(-size // 10))
    for name in names:
        saved = await streams.get(store, name)
        await store.delete([name])
        with pytest.raises(DamagedError):
            async for _ in streams.read(store, key, "a/b"):
                pass
        await streams.put(store, name, saved)
    if len(names) > 2:
        one, other = await streams.get(store, names[0]), await streams.get(store, names[1])
        await streams.put(store, names[0], other)
        await streams.put(store, names[1], one)
        with pytest.raises(DamagedError):
            async for _ in streams.read(store, key, "a/b"):
                pass
    await streams.remove(store, "a/b")
    assert [info async for info in store.list("a/b")] == []
    await store.close()


async def test_a_stream_that_breaks_off_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streams, "PART_BYTES", 10)
    store = LocalStore(tmp_path / "store")

    async def broken() -> AsyncIterator[bytes]:
        yield bytes(35)
        raise RuntimeError

    before = asyncio.all_tasks()
    with pytest.raises(RuntimeError):
        await streams.write(store, KEY.of("a"), "a", broken())
    assert not [info.key async for info in store.list("a") if info.key.endswith(streams.END)]
    assert asyncio.all_tasks() <= before
    await store.close()


def test_names_and_signatures_depend_on_the_key():
    assert KEY.name_of("blobs/a/b") == KEY.name_of("blobs/a/b") != BackupKey(bytes(32)).name_of("blobs/a/b")
    assert KEY.is_signed(b"entry", KEY.sign(b"entry"))
    assert not KEY.is_signed(b"entry!", KEY.sign(b"entry"))
    assert not BackupKey(bytes(32)).is_signed(b"entry", KEY.sign(b"entry"))


def test_segments_follow_one_another():
    assert wal.following("00000001000000000000000a") == "00000001000000000000000b"
    assert wal.following("0000000100000000000000ff") == "000000010000000100000000"


def test_a_time_that_was_missed_counts_once(monkeypatch: pytest.MonkeyPatch):
    def at(text: str) -> None:
        monkeypatch.setattr("pilotis.backup.keeper.now", lambda: parse_rfc3339(text))

    due = _Due("0 3 * * *", parse_rfc3339("2026-01-01T02:00:00Z"))
    at("2026-01-01T02:59:59Z")
    assert not due.is_due()
    at("2026-01-03T03:00:00Z")
    assert due.is_due()
    assert not due.is_due()
    assert not _Due("", parse_rfc3339("2026-01-01T02:00:00Z")).is_due()


def test_what_an_operator_must_know():
    def known(ended_at: str, **proof: str) -> Known:
        fields = dict.fromkeys(("started_at", "system_id", "version", "master_key", "start_wal", "end_wal"), "")
        numbers = dict.fromkeys(("format", "number", "postgres", "schema", "bytes", "files", "missing_files"), 0)
        entry = Backup(backup_id="x", previous=None, ended_at=ended_at, **fields, **numbers)
        return Known(entry, Proof(**proof))

    def ago(**time: int) -> str:
        return rfc3339(now() - timedelta(**time))

    def problems(known: list[Known]) -> list[str]:
        return [one.report.sentence for one in _problems(known)]

    def warnings(known: list[Known]) -> list[str]:
        return [f"{one.report.sentence} {one.report.fix}" for one in _warnings(known)]

    assert "no backup yet" in problems([])[0]
    assert problems([known(ago(hours=1))]) == []
    assert "rehearse" in warnings([known(ago(hours=1))])[0]
    assert "The newest backup is from" in problems([known(ago(hours=27))])[0]
    old = [known(ago(days=36)), known(ago(hours=1))]
    assert "all are unproven" in problems(old)[0]
    assert problems([*old, known(ago(hours=1), rehearsed_at=ago(days=34))]) == []
    assert problems([known(ago(hours=1), error="It is damaged.")]) == ["Backup x: It is damaged."]


def test_no_backup_is_old_that_a_moment_of_the_days_needs():
    class Ended:
        def __init__(self, ended_at: str) -> None:
            self.backup = self
            self.backup_id = self.ended_at = ended_at
            self.based_on = None

    known = [Ended(f"2026-01-0{day}T00:00:00Z") for day in (1, 2, 3, 4)]
    for oldest, expected in (("01", 0), ("02", 1), ("03", 2), ("09", 3)):
        old, kept = split(known, parse_rfc3339(f"2026-01-{oldest}T00:00:00Z"))
        assert (old, kept) == (known[:expected], known[expected:])
    assert split([], parse_rfc3339("2026-01-01T00:00:00Z")) == ([], [])
