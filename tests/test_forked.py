"""Programs that are forked behave as ones that a shell starts."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from pilotis import __version__
from tests.forked import Program, run
from tests.waiting import PATIENCE


def test_output_and_status() -> None:
    done = run("pilotis", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"pilotis {__version__}\n", "")
    done = run("pilotis", "serve", "--colour")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--colour" in done.stderr


def test_input_folder_and_environment(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a":"한"}')
    assert run("json.tool", "--compact", "x.json", folder=tmp_path).stdout == '{"a":"\\ud55c"}\n'
    assert run("json.tool", "--compact", typed="[1, 2]").stdout == "[1,2]\n"
    assert run("json.tool", "--compact", typed=b"[1, 2]").stdout == b"[1,2]\n"
    refused = run("pilotis", "serve", environment={**os.environ, "PILOTIS_COLOUR": "red"})
    assert refused.returncode == 2
    assert "PILOTIS_COLOUR" in refused.stderr
    assert "PILOTIS_COLOUR" not in os.environ


def test_what_python_reads_at_its_start_cannot_be_given(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="already"):
        run("pilotis", "--version", environment={**os.environ, "PYTHONPATH": str(tmp_path)})


def test_signals() -> None:
    program = Program("json.tool", "--compact", reads=True)
    assert program.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.01)
    program.kill()
    assert program.wait(PATIENCE) == program.poll() == -signal.SIGKILL
    program.terminate()
    program.stdin.close()
    program.stdout.close()


def test_many_at_once() -> None:
    programs = [Program("json.tool", "--compact", reads=True) for _ in range(5)]
    assert len({program.pid for program in programs}) == 5
    # None of them holds the input of another open.
    for number, program in enumerate(programs):
        program.stdin.write(f"[{number}]")
        program.stdin.close()
        assert program.stdout.read() == f"[{number}]\n"
        program.stdout.close()
        assert program.wait(PATIENCE) == 0
