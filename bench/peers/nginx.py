"""nginx with one worker on a plain directory, configured as Debian does where that matters for speed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from bench.servers import Process

PROGRAM = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
_START_SECONDS = 10

# sendfile, tcp_nopush and the log of every request are as in Debian's nginx.conf; the headers are those that Pilotis
# sends with a file, so that both answer with about as many bytes.
_CONFIGURATION = """
{user}
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/nginx-error.log;
events {{ worker_connections 768; }}
http {{
    sendfile on;
    tcp_nopush on;
    access_log {directory}/nginx-access.log;
    keepalive_requests 100000000;
    types {{ image/png png; }}
    default_type application/octet-stream;
    etag on;
    add_header Cache-Control "public, max-age=31536000, immutable";
    add_header Content-Disposition 'inline; filename="picture.png"';
    add_header X-Content-Type-Options nosniff;
    add_header Content-Security-Policy "default-src 'none'; media-src 'self'; style-src 'unsafe-inline'; sandbox";
    add_header Cross-Origin-Resource-Policy cross-origin;
    add_header Access-Control-Allow-Origin *;
    client_body_temp_path {directory}/nginx-body;
    proxy_temp_path {directory}/nginx-proxy;
    fastcgi_temp_path {directory}/nginx-fastcgi;
    uwsgi_temp_path {directory}/nginx-uwsgi;
    scgi_temp_path {directory}/nginx-scgi;
    server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


class Nginx(Process):
    """nginx serving the files below `root`. Its processor time is that of its worker."""

    def __init__(self, root: Path, directory: Path) -> None:
        assert PROGRAM is not None
        port = _free_port()
        configuration = directory / "nginx.conf"
        # A worker that gives up root's rights could not read the temporary directory.
        user = "user root;" if os.geteuid() == 0 else ""
        configuration.write_text(_CONFIGURATION.format(directory=directory, root=root, port=port, user=user))
        self._process = subprocess.Popen([PROGRAM, "-c", str(configuration), "-g", "daemon off;"])
        self.url = f"http://127.0.0.1:{port}"
        self._wait(port)

    @property
    def pid(self) -> int:
        """The worker's process id."""
        master = self._process.pid
        return int(Path(f"/proc/{master}/task/{master}/children").read_text().split()[0])

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.02)
        raise RuntimeError("nginx did not start.")


def version() -> str:
    """Return what nginx calls itself, such as `nginx/1.22.1`."""
    assert PROGRAM is not None
    return subprocess.run([PROGRAM, "-v"], capture_output=True, text=True, check=True).stderr.strip().partition(": ")[2]


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
