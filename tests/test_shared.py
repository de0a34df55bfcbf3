"""What runs share: a check that has passed is not repeated for the same files, and any change of them repeats it."""

from pathlib import Path

import pytest

from tests import shared


def test_a_check_is_repeated_when_a_file_changes_or_it_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared, "_ROOT", tmp_path)
    monkeypatch.setattr(shared, "_ARTIFACTS", tmp_path / "artifacts")
    first, second = tmp_path / "first.js", tmp_path / "second.js"
    first.write_text("1")
    second.write_text("2")
    runs: list[bool] = []

    def check(*, fails: bool = False) -> int:
        def run() -> None:
            runs.append(fails)
            assert not fails

        shared.check_once("check", tmp_path.glob("*.js"), run)
        return len(runs)

    with pytest.raises(AssertionError):
        check(fails=True)
    assert [check(), check()] == [2, 2]
    second.write_text("3")
    with pytest.raises(AssertionError):
        check(fails=True)
    assert [check(), check()] == [4, 4]
    # A file by another name is another one, too.
    second.rename(second.with_name("third.js"))
    assert check() == 5
    first.unlink()
    assert check() == 6


def test_what_was_made_is_kept_and_what_failed_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        assert list(folder.iterdir()) == []
        (folder / "half").touch()
        assert len(made) > 1

    with pytest.raises(AssertionError):
        shared.kept("thing", "1", make)
    assert shared.kept("thing", "1", make) == shared.kept("thing", "1", make) == made[1]
    assert shared.kept("thing", "2", make) == made[2] != made[1]
    assert len(made) == 3
