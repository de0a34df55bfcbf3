"""Serves a site while it is developed, with `/pilotis-dev.json`, which names the server and the public key."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Generator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pilotis.serve.errors import CommandError

CONFIG_PATH = "/pilotis-dev.json"
_LOOK_SECONDS = 0.05


@contextlib.contextmanager
def serve_site(folder: Path, port: int, told: Mapping[str, str]) -> Generator[str]:
    """Serve a folder on the loopback while the block runs, and yield its URL; `told` is what a page reads.

    Raises `CommandError` where the port is in use; 0 is any free one.
    """
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, json.dumps(told).encode(), folder))
    except OSError as error:
        raise CommandError(f"Port {port} cannot be used ({error.strerror}); choose another with --site-port.") from None
    thread = threading.Thread(target=server.serve_forever, args=[_LOOK_SECONDS], daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, told: bytes, folder: Path, *arguments: Any) -> None:
        self._told = told
        super().__init__(*arguments, directory=str(folder))

    def do_GET(self) -> None:
        if self.path != CONFIG_PATH:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self._told)))
        self.end_headers()
        self.wfile.write(self._told)

    def end_headers(self) -> None:
        # What was saved is shown at the next reload.
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """Leave the terminal to what has changed."""
