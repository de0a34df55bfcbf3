"""The server of a project on the developer's machine, with an app and a console user of its own.

Its data is in `.pilotis/data`, and how to sign in to it in `.pilotis/local.json`, next to the master key in secrecy.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pilotis import settings as settings_module
from pilotis.cli.login import sign_in
from pilotis.cli.project_base import private_folder
from pilotis.cli.project_part import AppOnServer
from pilotis.cli.remote import Remote
from pilotis.serve.data_directory import running_url
from pilotis.serve.errors import CommandError

EMAIL = "dev@example.com"
_LOOK_SECONDS = 0.02
_START_SECONDS = 120
_STOP_SECONDS = 30
_LOG_LINES = 10
_OTHER_PLACES = (
    "PILOTIS_DATABASE_URL",
    "PILOTIS_BLOB_STORE",
    "PILOTIS_MASTER_KEY",
    "PILOTIS_SMTP_URL",
    "PILOTIS_BASE_URL",
    "PILOTIS_DATA_DIR",
    "PILOTIS_HOST",
    "PILOTIS_PORT",
)
"""Settings of a shell that would let the server use what belongs to another one."""


class Target(NamedTuple):
    """An app that the commands of a project work with; `secret_key` is known of those that they have created."""

    remote: AppOnServer
    public_key: str
    secret_key: str | None = None
    password: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What the project's own programs are told, by the names from which common tools pass variables to a page."""
        told = {"URL": self.remote.url, "PUBLIC_KEY": self.public_key}
        names = ("PILOTIS", "VITE_PILOTIS", "NEXT_PUBLIC_PILOTIS", "EXPO_PUBLIC_PILOTIS", "PUBLIC_PILOTIS")
        secret = {"PILOTIS_SECRET_KEY": self.secret_key} if self.secret_key else {}
        found = {f"{name}_{key}": value for name in names for key, value in told.items()}
        return {**found, "PILOTIS_APP": self.remote.app_id, **secret}


@contextlib.contextmanager
def local_server(folder: Path, port: int, *, host: str = "127.0.0.1", may_join: bool) -> Generator[Target]:
    """Run the server of the project in a folder while the block runs.

    It listens at an address, on a port; 0 is any free one. One that runs already may be used, and is left running.
    Raises `CommandError` if it cannot start.
    """
    data = private_folder(folder) / "data"
    url = running_url(data)
    if url is not None and not may_join:
        raise CommandError(f"This project is already served at {url}, by another `pilotis dev`.")
    known = _prepared(folder, data)
    with contextlib.ExitStack() as started:
        if url is None:
            url = started.enter_context(_serving(data, host, port))
        sign_in(url, EMAIL, known["password"])
        remote = AppOnServer(url, f"/v1/apps/{known['app_id']}")
        yield Target(remote, known["public_key"], known["secret_key"], known["password"])


@contextlib.contextmanager
def scratch_app(url: str) -> Generator[Target]:
    """Create an app on a server, and delete it at the end of the block."""
    user = AppOnServer(url, "")
    made = user.ask("POST", "/v1/apps", {"name": f"test {time.strftime('%Y-%m-%d %H:%M:%S')}"})
    remote = AppOnServer(url, f"/v1/apps/{made['app_id']}")
    try:
        yield Target(remote, made["public_key"], made["secret_key"])
    finally:
        remote.ask("DELETE", remote.path)


@contextlib.contextmanager
def program(command: list[str], environment: Mapping[str, str], folder: Path, **streams: Any) -> Generator[Any]:
    """Run a program while the block runs, and then end it with all that it has started."""
    try:
        # A group of its own: Ctrl-C at the terminal is for this process, which ends the others in order.
        process = subprocess.Popen(command, cwd=folder, env=dict(environment), start_new_session=True, **streams)  # noqa: S603
    except OSError as error:
        raise CommandError(f"{command[0]} cannot be started: {error.strerror}.") from None
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # Also a child that outlived its parent.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _prepared(folder: Path, data: Path) -> dict[str, str]:
    """Return the app and the password of the console user, which are created the first time."""
    file, known = data.parent / "local.json", dict[str, str]()
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(file.read_text("utf-8"))
    if "app_id" not in known or not (data / "postgres").exists():
        # First, so that the user of a start that is interrupted can sign in after the next one.
        known = {"password": known.get("password") or secrets.token_urlsafe(9)}
        _store(file, known)
        known |= _created(data, folder.resolve().name[:100] or "app", known["password"])
        _store(file, known)
    return known


def _store(file: Path, values: dict[str, str]) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        json.dump(values, opened)


def _created(data: Path, name: str, password: str) -> dict[str, str]:
    from pilotis.cli import session
    from pilotis.cli.server import migrate_to_current
    from pilotis.kit.errors import PilotisError

    settings = settings_module.load({"data_dir": str(data)}, _own_environment(), Path(os.devnull))

    async def work(on: session.Session) -> dict[str, str]:
        # A start that was interrupted may have created it.
        with contextlib.suppress(PilotisError):
            await on.users.create(EMAIL, password)
        app = await on.apps.create(name, await on.users.id_of(EMAIL))
        return {"app_id": str(app.app_id), "public_key": app.public_key, "secret_key": app.secret_key}

    migrate_to_current(settings, may_create=True)
    return session.run(settings, work)


@contextlib.contextmanager
def _serving(data: Path, host: str, port: int) -> Generator[str]:
    environment = {**_own_environment(), "PILOTIS_METRICS_PORT": "0"}
    log = data.parent / "server.log"
    command = [sys.executable, "-m", "pilotis", "serve", "--config", os.devnull, "--host", host, "--port", str(port)]
    with (
        log.open("wb") as opened,
        program(
            [*command, "--data-dir", str(data.resolve())],
            environment,
            data.parent,
            stdin=subprocess.DEVNULL,
            stdout=opened,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        deadline = time.monotonic() + _START_SECONDS
        while (url := running_url(data)) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                last = log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:]
                raise CommandError("\n".join(["The server has not started.", *last]))
            time.sleep(_LOOK_SECONDS)
        # It listens already, and answers once it has started.
        Remote(url, {}).ask("GET", "/readyz")
        yield url


def _own_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OTHER_PLACES}
