"""Where `/metrics` is served: a port of its own on the server's address."""

from __future__ import annotations

import errno
import socket
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pilotis.serve.errors import CommandError
from pilotis.settings import Settings


class Exposure(NamedTuple):
    """The listening socket of `/metrics`, and the directory in which several workers share their numbers."""

    listening: socket.socket
    directory: Path | None


@contextmanager
def exposure(settings: Settings, serving: socket.socket) -> Generator[Exposure | None]:
    """Listen for Prometheus while the block runs; None where there is to be no such port.

    Without the setting it is the port after the server's, and a warning if that is taken. A port that was asked for
    and cannot be had raises `CommandError`. A server on a port of the system's choice has none unless asked for.
    """
    listening = _listen(settings, serving)
    if listening is None:
        yield None
        return
    with listening, tempfile.TemporaryDirectory(prefix="pilotis-metrics-") as directory:
        yield Exposure(listening, Path(directory) if settings.workers > 1 else None)


def _listen(settings: Settings, serving: socket.socket) -> socket.socket | None:
    if settings.metrics_port == 0 or (settings.metrics_port is None and settings.port in {0, 65535}):
        return None
    port = settings.metrics_port or settings.port + 1
    try:
        return socket.create_server((settings.host, port), family=serving.family)
    except OSError as error:
        sentence = f"Cannot serve metrics on port {port} of {settings.host}: "
        sentence += "it is taken" if error.errno == errno.EADDRINUSE else str(error.strerror)
        if settings.metrics_port is not None:
            raise CommandError(
                f"{sentence}. Set metrics_port (PILOTIS_METRICS_PORT) to another port, or to 0 for none."
            ) from error
        print(f"{sentence}; going without.", file=sys.stderr)  # noqa: T201 - logs are not set up yet
        return None
