"""A base backup is unpacked below its directory, whatever the store says that its entries are."""

import io
import stat
import tarfile
from pathlib import Path

import pytest

from pilotis.backup.errors import DamagedError
from pilotis.backup.restore import Unpacking

ENTRIES = {"base/1/1259": b"pages", "PG_VERSION": b"18\n", "empty": b""}


def tar_of(*entries: tarfile.TarInfo, **contents: bytes) -> bytes:
    """A tar with entries without content, and then files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for entry in entries:
            tar.addfile(entry)
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.uid = len(data), 0o6777, 4711
            tar.addfile(info, io.BytesIO(data))
    return made.getvalue()


def entry(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def unpacked(directory: Path, tar: bytes) -> None:
    directory.mkdir()
    unpacking = Unpacking(directory)
    for start in range(0, len(tar), 1000):
        unpacking.feed(tar[start : start + 1000])
    unpacking.end()


def test_files_and_directories_are_nobody_elses(tmp_path: Path):
    place = tmp_path / "new"
    unpacked(place, tar_of(entry("./", tarfile.DIRTYPE), entry("base/1", tarfile.DIRTYPE), **ENTRIES))
    found = {str(path.relative_to(place)): path for path in place.rglob("*")}
    assert {name: path.read_bytes() for name, path in found.items() if path.is_file()} == ENTRIES
    for path in found.values():
        state = path.stat()
        assert stat.S_IMODE(state.st_mode) & 0o077 == 0 or path == place / "base"
        assert stat.S_IMODE(state.st_mode) & 0o7100 == (0o100 if path.is_dir() else 0)
        assert state.st_uid == tmp_path.stat().st_uid


@pytest.mark.parametrize(
    "hostile",
    [
        entry("../out", tarfile.REGTYPE),
        entry("base/../../out", tarfile.REGTYPE),
        entry("/dev/shm/out-of-a-backup", tarfile.REGTYPE),
        entry("../out", tarfile.DIRTYPE),
        entry("link", tarfile.SYMTYPE, "../out"),
        entry("link", tarfile.SYMTYPE, "/etc"),
        entry("link", tarfile.LNKTYPE, "../kept"),
        entry("pipe", tarfile.FIFOTYPE),
        entry("disk", tarfile.BLKTYPE),
    ],
    ids=lambda info: f"{info.name} {info.type.decode()}",
)
def test_what_leads_out_is_damage(tmp_path: Path, hostile: tarfile.TarInfo):
    (tmp_path / "kept").write_bytes(b"kept")
    with pytest.raises(DamagedError, match="is no file below its directory"):
        unpacked(tmp_path / "new", tar_of(hostile, **{"link/x": b"x"}))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["kept", "new"]
    assert not Path("/dev/shm/out-of-a-backup").exists()


@pytest.mark.parametrize("left", [100, 700])
def test_a_tar_that_ends_too_soon_is_damaged(tmp_path: Path, left: int):
    with pytest.raises(DamagedError):
        unpacked(tmp_path / "new", tar_of(large=b"x" * 5000)[:left])
