"""A peer that is one program, which listens on a port."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

import httpx

_SECONDS = 30


def free_address() -> str:
    """Return a host and port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


class Program:
    """A running program that takes JSON, until its context ends. It has started once it answers the path `health`."""

    name: str
    headers: Mapping[str, str] = MappingProxyType({"Content-Type": "application/json"})

    def __init__(self, command: Sequence[str | Path], address: str, health: str, log: Path) -> None:
        self.url = f"http://{address}"
        self._client = httpx.Client(timeout=60)
        with log.open("w") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=file)
        try:
            self._wait(health)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def pids(self) -> list[int]:
        return [self.pid]

    def stop(self) -> None:
        """End the program."""
        self._process.terminate()
        self._process.wait(_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait(self, health: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                self._client.get(self.url + health)
                return
            except httpx.ConnectError:
                time.sleep(0.05)
        raise RuntimeError(f"{self.name} did not start.")
