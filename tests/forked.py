"""Programs of Pilotis in processes of their own, forked from one that has imported their modules.

To import a server or a command takes half a second of a processor, and the tests start more than a thousand. A forked
program has its own arguments, environment, folder and streams, and ends as Python ends. How Pilotis starts from nothing
is what `tests/test_serve.py` and `tests/test_cli.py` are about.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from tests.waiting import PATIENCE

_ROOT = Path(__file__).parents[1]
_LENGTH = 4
_ID = 10
_DESCRIPTORS = 4  # standard input, output, errors, and where the process tells its id and its end


def is_alike(environment: Mapping[str, str]) -> bool:
    """Return whether Python starts in an environment as it did in that of this process, so that a fork is the same."""

    def at_start(variables: Mapping[str, str]) -> dict[str, str]:
        # Pilotis looks where temporary files go as it is imported.
        read = ("PYTHON", "LD_", "LC_", "LANG", "TMPDIR")
        return {name: value for name, value in variables.items() if name.startswith(read)}

    return at_start(environment) == at_start(os.environ)


class Program:
    """`python -m module`, with what `subprocess.Popen` has."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        stdin: IO[Any] | None = None,
        stdout: IO[Any] | None = None,
        stderr: IO[Any] | None = None,
        reads: bool = False,
    ) -> None:
        """Start it, with `stdin` as a pipe if it reads. Otherwise, where no stream is given, its input is empty, its
        output a pipe, and its errors go where those of this process go.
        """
        given = dict(os.environ if environment is None else environment)
        if not is_alike(given):
            raise ValueError("Python has read some of these variables already.")
        self.args = [sys.executable, "-m", module, *arguments]
        self.returncode: int | None = None
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        self._reading = threading.Lock()
        self._status, theirs = socket.socketpair()
        with contextlib.ExitStack() as ends:
            ends.callback(theirs.close)
            if reads:
                reading, writing = os.pipe()
                self.stdin, stdin = os.fdopen(writing, "w"), ends.enter_context(os.fdopen(reading))
            if stdout is None:
                reading, writing = os.pipe()
                self.stdout, stdout = os.fdopen(reading), ends.enter_context(os.fdopen(writing, "w"))
            if stdin is None:
                stdin = ends.enter_context(Path(os.devnull).open())
            asked = {
                "module": module,
                "arguments": arguments,
                "folder": str(folder or Path.cwd()),
                "environment": given,
            }
            errors = 2 if stderr is None else stderr.fileno()
            _template().fork(asked, [stdin.fileno(), stdout.fileno(), errors, theirs.fileno()])
        self.pid = int(self._status.recv(_ID, socket.MSG_WAITALL))

    def poll(self) -> int | None:
        """Return the exit status of a program that has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once the program has ended; raises `subprocess.TimeoutExpired`."""
        with selectors.DefaultSelector() as selector:
            if self.returncode is None:
                selector.register(self._status, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        with self._reading:
            if self.returncode is None:
                self.returncode = int(self._status.recv(100))
                self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the program has ended."""
        # Its parent may have taken its status and not have told it yet.
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask the program to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the program."""
        self.send_signal(signal.SIGKILL)


def run(
    module: str,
    *arguments: str,
    typed: str | bytes = "",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout: float = PATIENCE,
) -> "subprocess.CompletedProcess[Any]":
    """Run `python -m module` to its end, and return its output: bytes if what is typed are bytes, text otherwise.

    Kills it after so many seconds, and raises `subprocess.TimeoutExpired`.
    """
    mode = "w+b" if isinstance(typed, bytes) else "w+"
    with contextlib.ExitStack() as open_files:
        stdin, stdout, stderr = (open_files.enter_context(tempfile.TemporaryFile(mode)) for _ in range(3))
        stdin.write(typed)
        stdin.seek(0)
        program = Program(
            module, *arguments, environment=environment, folder=folder, stdin=stdin, stdout=stdout, stderr=stderr
        )
        try:
            status = program.wait(timeout)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
            raise
        # The program's streams share their positions with these files.
        for file in (stdout, stderr):
            file.seek(0)
        return subprocess.CompletedProcess(program.args, status, stdout.read(), stderr.read())


class _Template:
    """The process that is forked."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        self._asking = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=_ROOT,
            )
        atexit.register(self._end)

    def fork(self, asked: Mapping[str, Any], descriptors: list[int]) -> None:
        """Start a program with these descriptors as its own."""
        body = json.dumps(asked).encode()
        with self._asking:
            socket.send_fds(self._control, [len(body).to_bytes(_LENGTH)], descriptors)
            self._control.sendall(body)

    def _end(self) -> None:
        self._control.close()
        self._process.wait()


_made: list[_Template] = []
_making = threading.Lock()


def _template() -> _Template:
    with _making:
        if not _made:
            _made.append(_Template())
    return _made[0]


# In the process that is forked:


class _Asked(NamedTuple):
    module: str
    arguments: list[str]
    folder: str
    environment: dict[str, str]

    def run(self) -> None:
        """Become the program."""
        os.environ.clear()
        os.environ.update(self.environment)
        time.tzset()
        os.chdir(self.folder)
        sys.argv[1:] = self.arguments
        runpy.run_module(self.module, run_name="__main__", alter_sys=True)


def _import_all() -> None:
    import pilotis.cli

    for module in pkgutil.iter_modules(pilotis.cli.__path__, "pilotis.cli."):
        if not module.ispkg:
            importlib.import_module(module.name)
    for name in ("pilotis.serve.start", "pilotis.serve.worker", "pilotis.serve.welcome", "pilotis.server"):
        importlib.import_module(name)
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    gc.collect()
    gc.freeze()


def _serve(control: socket.socket) -> _Asked | None:
    """Fork a process for each program that is asked for; returns in each of them, and None once nobody can ask."""
    running: dict[int, socket.socket] = {}
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # A terminal sends it to every process of the run; each program looks after itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if woken in ready:
                woken.recv(4096)
                _tell_ended(running)
            if control not in ready:
                continue
            head, descriptors, _, _ = socket.recv_fds(control, _LENGTH, _DESCRIPTORS)
            if not head:
                return None
            body = bytearray()
            while len(body) < int.from_bytes(head):
                body += control.recv(int.from_bytes(head) - len(body))
            status = socket.socket(fileno=descriptors.pop())
            pid = os.fork()
            if pid == 0:
                for number, descriptor in enumerate(descriptors):
                    os.dup2(descriptor, number)
                    os.close(descriptor)
                for held in (control, woken, wakes, *running.values()):
                    held.close()
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                status.sendall(b"%*d" % (_ID, os.getpid()))
                status.close()
                return _Asked(**json.loads(body))
            running[pid] = status
            for descriptor in descriptors:
                os.close(descriptor)


def _tell_ended(running: dict[int, socket.socket]) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with running.pop(pid) as told, contextlib.suppress(OSError):
                told.sendall(b"%d" % os.waitstatus_to_exitcode(status))


def _main() -> None:
    # In the fork nothing of this process is left to do, and the program ends like one that was started alone.
    control = socket.socket(fileno=int(sys.argv[1]))
    _import_all()
    if asked := _serve(control):
        asked.run()


if __name__ == "__main__":
    _main()
