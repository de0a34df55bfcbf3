"""OpenStack Swift with its S3 API on loopback: a real object store to test against, from PyPI.

Of the S3 servers that can be installed without a container it is the one that checks everything a presigned upload is
bound to. It runs as four processes of one node, in a virtual environment of its own, made once under the user's cache
directory. It needs a file system with extended attributes.
"""

import contextlib
import fcntl
import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
import venv
from pathlib import Path

from tests import shared
from tests.waiting import PATIENCE, reserved_port

REQUIREMENTS = ("swift==2.38.3", "setuptools<81")
ACCESS_KEY = "test:tester"
SECRET_KEY = "testing"
REGION = "us-east-1"
BUCKET = "pilotis-test"
STORAGE = ("account", "container", "object")
STORAGE_DOMAIN = "s3.test"
ALLOWED_ORIGIN = "https://app.test"
_SECONDS_TO_START = 120

_SERVER = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
swift_dir = {etc}
devices = {node}
mount_check = false
user = {user}
log_level = WARNING
log_address = {root}/no-syslog
"""
_RINGS = """
import sys
from swift.common.ring import RingBuilder
for name, _, port in (one.partition(":") for one in sys.argv[2:]):
    builder = RingBuilder(2, 1, 0)
    place = {"region": 1, "zone": 1, "ip": "127.0.0.1", "port": int(port), "device": "d1", "weight": 1}
    builder.add_dev(place | {"replication_ip": "127.0.0.1", "replication_port": int(port), "meta": ""})
    builder.rebalance()
    builder.get_ring().save(f"{sys.argv[1]}/{name}.ring.gz")
"""
# Swift gives its own servers from half a second to ten to answer each other, and goes on without: on a busy machine
# a bucket would not list what is in it.
_PATIENT = """
conn_timeout = 60
node_timeout = 120
recoverable_node_timeout = 120
client_timeout = 120
container_update_timeout = 60
error_suppression_limit = 1000000
"""
_STORAGE = (
    """
[pipeline:main]
pipeline = {name}-server

[app:{name}-server]
use = egg:swift#{name}"""
    + _PATIENT
)
_FILTERS = ("catch_errors", "gatekeeper", "cache", "listing_formats", "s3api", "tempauth", "copy", "slo", "symlink")
_FILTER_OPTIONS = {
    "cache": {"memcache_servers": "127.0.0.1:9"},
    "s3api": {"location": REGION, "storage_domain": STORAGE_DOMAIN, "cors_preflight_allow_origin": ALLOWED_ORIGIN},
    "tempauth": {"user_test_tester": f"{SECRET_KEY} .admin"},
}
_PLUGINS = {"cache": "memcache"}


class UnavailableError(Exception):
    """Swift cannot run here; the message says why."""


class Swift:
    """A running server; `stop` ends it."""

    def __init__(self, root: Path) -> None:
        """Start below an empty directory; raises `UnavailableError`."""
        self._root = root
        self._processes: list[subprocess.Popen[bytes]] = []
        _need_attributes(root)
        self._bin = _installed() / "bin"
        self._etc = root / "etc"
        (root / "node" / "d1").mkdir(parents=True)
        self._etc.mkdir()
        (self._etc / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = a\nswift_hash_path_prefix = b\n")
        with contextlib.ExitStack() as reserved:
            ports = {name: reserved.enter_context(reserved_port()) for name in (*STORAGE, "proxy")}
            self._make_rings(ports)
            for name in STORAGE:
                self._start(name, ports[name], _STORAGE.format(name=name))
            self.port = ports["proxy"]
            self._start("proxy", self.port, _proxy())
            for port in ports.values():
                self._wait_for(port)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, bucket: str, prefix: str) -> str:
        """The store's URL as Pilotis takes it."""
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}&region={REGION}"

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()

    def _make_rings(self, ports: dict[str, int]) -> None:
        # The command swift-ring-builder takes nine processes for the same.
        command = [self._bin / "python", "-c", _RINGS, self._etc, *(f"{name}:{ports[name]}" for name in STORAGE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode:
            raise UnavailableError(f"Swift made no rings: {done.stderr}")

    def _start(self, name: str, port: int, rest: str) -> None:
        user = pwd.getpwuid(os.getuid()).pw_name
        head = _SERVER.format(port=port, etc=self._etc, node=self._root / "node", root=self._root, user=user)
        configuration = self._etc / f"{name}.conf"
        configuration.write_text(head + rest)
        with self._log(name).open("wb") as log:
            command = [self._bin / f"swift-{name}-server", configuration]
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def _wait_for(self, port: int) -> None:
        deadline = time.monotonic() + _SECONDS_TO_START
        while time.monotonic() < deadline and all(process.poll() is None for process in self._processes):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.1)
        logs = "\n".join(self._log(name).read_text() for name in (*STORAGE, "proxy"))
        self.stop()
        raise RuntimeError(f"Swift did not start:\n{logs[-4000:]}")

    def _log(self, name: str) -> Path:
        return self._root / f"{name}.log"


def _installed() -> Path:
    """The virtual environment, made on first use; test runs at the same time wait for each other."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pilotis-tests"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"swift-{REQUIREMENTS[0].split('==')[1]}-py{sys.version_info.major}{sys.version_info.minor}"
    with (cache / "swift.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _install(folder)
            (folder / "complete").touch()
    return folder


def _install(folder: Path) -> None:
    venv.create(folder, with_pip=True)
    command = [folder / "bin" / "python", "-m", "pip", "install", *shared.PIP]
    try:
        done = subprocess.run(
            [*command, *REQUIREMENTS], capture_output=True, text=True, timeout=shared.SECONDS_TO_INSTALL
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError("Swift could not be installed in time.") from None
    if done.returncode:
        raise UnavailableError(f"Swift could not be installed: {done.stderr.strip().splitlines()[-1]}")


def _need_attributes(folder: Path) -> None:
    if sys.platform != "linux":
        raise UnavailableError("Swift runs on Linux.")
    try:
        os.setxattr(folder, "user.pilotis", b"1")
    except OSError as error:
        raise UnavailableError(f"Swift needs extended attributes on files: {error}") from None


def _proxy() -> str:
    lines = ["", "[pipeline:main]", f"pipeline = {' '.join(_FILTERS)} proxy-server", ""]
    lines += ["[app:proxy-server]", "use = egg:swift#proxy", "account_autocreate = true", _PATIENT]
    for name in _FILTERS:
        lines += [f"[filter:{name}]", f"use = egg:swift#{_PLUGINS.get(name, name)}"]
        lines += [f"{option} = {value}" for option, value in _FILTER_OPTIONS.get(name, {}).items()]
    return "\n".join(lines) + "\n"
