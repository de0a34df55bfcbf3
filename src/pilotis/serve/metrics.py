"""Where `/metrics` is served: on its own address and port, by default on the loopback interface."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from pilotis.serve.errors import CommandError
from pilotis.settings import Settings

_PREFIX = "pilotis-metrics-"


class Exposure(NamedTuple):
    """The listening socket of `/metrics`, and the directory in which several workers share their metrics."""

    listening: socket.socket
    directory: Path | None

    @property
    def url(self) -> str:
        """The URL of the metrics on this machine, or at the configured address."""
        host, port = self.listening.getsockname()[:2]
        return f"http://[{host}]:{port}/metrics" if ":" in host else f"http://{host}:{port}/metrics"


@contextmanager
def exposure(settings: Settings) -> Generator[Exposure | None]:
    """Listen for Prometheus during the block; yields None if metrics are off.

    By default this is the port after the server's, and a warning is logged if that is taken. A configured port that is
    not available raises `CommandError`. A server on a port chosen by the system has no metrics port unless one is
    configured.
    """
    listening = _listen(settings)
    if listening is None:
        yield None
        return
    with listening:
        if settings.workers == 1:
            yield Exposure(listening, None)
            return
        with _shared_directory() as directory:
            yield Exposure(listening, directory)


def _listen(settings: Settings) -> socket.socket | None:
    if settings.metrics_port == 0 or (settings.metrics_port is None and settings.port in {0, 65535}):
        return None
    host, port = settings.metrics_host, settings.metrics_port or settings.port + 1
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        sentence = f"Cannot serve metrics on port {port} of {host}: "
        reason = os.strerror(error.errno) if error.errno else str(error)
        sentence += "it is taken" if error.errno == errno.EADDRINUSE else reason
        if settings.metrics_port is not None:
            raise CommandError(
                f"{sentence}. Set metrics_host and metrics_port (PILOTIS_METRICS_PORT) to a free one, or the port to "
                "0 for none."
            ) from error
        print(f"{sentence}; going without.", file=sys.stderr)  # noqa: T201 - logs are not set up yet
        return None


@contextmanager
def _shared_directory() -> Generator[Path]:
    """Create a directory for the duration of the block, and delete those that killed servers left behind.

    A lock on the directory shows that its server, or a worker that inherited the lock, is alive.
    """
    _remove_abandoned(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        lock = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    for directory in parent.glob(f"{_PREFIX}*"):
        # It belongs to another user, or another server is deleting it.
        with suppress(OSError):
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(directory)
            finally:
                os.close(descriptor)
