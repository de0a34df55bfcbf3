"""`pilotis dev`: a project runs on the developer's machine, and follows each file that is saved."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import click

from pilotis.cli import project, project_base, project_settings
from pilotis.cli.local_server import EMAIL, Target, local_server, program
from pilotis.cli.project_part import AppOnServer
from pilotis.cli.project_programs import Functions
from pilotis.cli.project_settings import ProjectSettings
from pilotis.cli.project_tables import Tables
from pilotis.cli.remote import Remote
from pilotis.cli.seeds import fill
from pilotis.cli.site_server import serve_site
from pilotis.cli.types import write_types
from pilotis.serve.errors import CommandError

_LOOK_SECONDS = 0.03
_SETTLE_SECONDS = 0.01
_SKIPPED = {"node_modules", "__pycache__"}
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_folder = click.argument(
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="The project; by default `.`.",
)


class _Ended(BaseException):
    """The terminal was closed, or the process is to end."""


@click.command()
@_folder
@click.option("--port", type=click.IntRange(0, 65535), default=8090, help="The server's port; 0 = any. Default: 8090.")
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", help="The server's address, for telephones. Default: 127.0.0.1."
)
@click.option("--site-port", type=click.IntRange(0, 65535), default=8080, help="The site's port; 0 = any.")
@click.option("--url", metavar="URL", help="Use the server at this address, as a console user, instead of an own one.")
@click.option("--app", metavar="ID", envvar="PILOTIS_APP", help="The app on that server.")
@click.option("--yes", is_flag=True, help="Permit a server that is not on this machine.")
def dev(folder: Path, port: int, host: str, site_port: int, url: str | None, app: str | None, yes: bool) -> None:
    """Run a project: its server, its site, and whatever is saved.

    Tables, functions and workflows are applied as their files are saved, and the types of the tables are written. A
    file that is wrong leaves the last good state. Ctrl-C ends all that was started.
    """
    settings = project_settings.read(folder)
    with _ends_by_signals(), contextlib.suppress(KeyboardInterrupt, _Ended), contextlib.ExitStack() as started:
        if url is None:
            target = started.enter_context(local_server(folder, port, host=host, may_join=False))
        else:
            if urlsplit(url).hostname not in _LOOPBACK and not yes:
                raise click.UsageError(f"Each change of a file would change the app at {url}; --yes permits that.")
            target = _elsewhere(url, app)
        follower = _Follower(folder, target, settings, may_drop=url is None)
        snapshot = _snapshot(folder)
        follower.begin()
        site = _site(started, folder, target, settings, site_port)
        _print_places(target, settings, site)
        _follow(folder, snapshot, follower)


class _Follower:
    """Applies what has changed in a project; an error is printed, and what was good stays."""

    def __init__(self, folder: Path, target: Target, settings: ProjectSettings, *, may_drop: bool) -> None:
        self._folder, self._target, self._may_drop = folder, target, may_drop
        self._types = folder / settings.types if settings.types else None
        self._remote = target.remote
        self._parts = project.parts_of(self._remote, folder)

    def begin(self) -> None:
        """Apply the whole project, and fill tables that are empty."""
        for part in self._parts:
            self._attempt(partial(self._apply, part))
        self._attempt(lambda: _say(fill(self._remote, self._folder)))
        self._attempt(self._write_types)

    def changed(self, paths: set[Path]) -> None:
        """Apply what files of these paths, which are relative to the project, say now."""
        places = {path.parts[0] for path in paths}
        for part in self._parts:
            if part.place not in places:
                continue
            if isinstance(part, Functions):
                folders = {self._folder / Path(*path.parts[:2]) for path in paths if path.parts[0] == part.place}
                self._attempt(partial(self._store_functions, part, folders))
            else:
                self._attempt(partial(self._apply, part))
            if isinstance(part, Tables):
                self._attempt(self._write_types)

    def _apply(self, part: Any) -> None:
        compared = project.compare(self._remote, self._folder, [part])
        drops = list[str]()
        for step in compared[0].steps:
            text, fields = part.shown(step)
            drops += fields["drops"]
            if step.kind != "left":
                click.echo(text)
        project.require_possible(compared, [] if self._may_drop else drops)
        project.apply(compared)
        project.keep_base(self._remote, self._folder, compared)

    def _store_functions(self, functions: Functions, folders: set[Path]) -> None:
        """Deploy the functions in these folders: one request each."""
        names = {folder: name for name, folder in functions.folders().items()}
        for folder in sorted(folders & names.keys()):
            began = time.monotonic()
            told = functions.store(names[folder])
            took = (time.monotonic() - began) * 1000
            click.echo(f"{names[folder]}: {told} ({took:.0f} ms)")
            stored = {names[folder]: functions.stored[names[folder]]}
            project_base.update(self._folder, self._remote.app_id, functions.kind, stored)
        if folders - names.keys():
            # One that is gone, or has another name.
            self._apply(functions)

    def _write_types(self) -> None:
        if self._types is None:
            return
        remote = Remote(f"{self._remote.url}/v1/public", {"X-Public-Key": self._target.public_key})
        if write_types(remote, self._types):
            click.echo(f"Wrote {self._types}.")

    def _attempt(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except CommandError as error:
            click.echo(str(error), err=True)
        except OSError as error:
            # A file that is removed while it is read: what is there instead is the next change.
            click.echo(f"{error.filename}: {error.strerror}", err=True)


def _say(told: Iterator[str]) -> None:
    for line in told:
        click.echo(line)


def _follow(folder: Path, before: dict[Path, tuple[int, int]], follower: _Follower) -> None:
    """Tell the follower of each change, for ever; raises `CommandError` when the project is gone."""
    place = folder.resolve()
    while True:
        now = _snapshot(folder)
        while now != before and (later := _snapshot_after(folder)) != now:
            # An editor that empties a file before it writes it has not finished.
            now = later
        if changed := {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}:
            before = now
            if not place.is_dir():
                raise CommandError(f"{place} is not there any more.")
            follower.changed(changed)
        time.sleep(_LOOK_SECONDS)


def _snapshot_after(folder: Path) -> dict[Path, tuple[int, int]]:
    time.sleep(_SETTLE_SECONDS)
    return _snapshot(folder)


def _snapshot(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the files that are followed, each with its time in nanoseconds and its size."""
    paths = [folder / part.place for part in project.PARTS if (folder / part.place).is_file()]
    for part in project.PARTS:
        for place, folders, files in os.walk(folder / part.place):
            folders[:] = [name for name in folders if name not in _SKIPPED and not name.startswith(".")]
            paths += (Path(place, name) for name in files)
    found = dict[Path, tuple[int, int]]()
    for path in paths:
        # It may be gone by now.
        with contextlib.suppress(OSError):
            status = path.stat()
            found[path.relative_to(folder)] = status.st_mtime_ns, status.st_size
    return found


def _elsewhere(url: str, app_id: str | None) -> Target:
    if app_id is None:
        raise click.UsageError("Name the app by --app.")
    remote = AppOnServer(url.rstrip("/"), f"/v1/apps/{quote(app_id, safe='')}")
    keys = remote.ask("GET", f"{remote.path}/keys/public?limit=1000")["data"]
    # A page on this machine may use one that is not restricted to other origins.
    usable = [key["key"] for key in keys if not key["allowed_origins"]]
    if not usable:
        raise CommandError("The app has no public key that every origin may use.")
    return Target(remote, usable[0])


def _site(
    started: contextlib.ExitStack, folder: Path, target: Target, settings: ProjectSettings, port: int
) -> str | None:
    """Start the site, and return what is printed of it."""
    if settings.site:
        environment = {**os.environ, **target.environment}
        started.enter_context(program(list(settings.site), environment, folder))
        return " ".join(settings.site)
    if settings.directory is None or not (folder / settings.directory).is_dir():
        return None
    told = {"url": target.remote.url, "publicKey": target.public_key}
    return started.enter_context(serve_site(folder / settings.directory, port, told))


def _print_places(target: Target, settings: ProjectSettings, site: str | None) -> None:
    url, app_id = target.remote.url, target.remote.app_id
    places = {
        "Server": url,
        "Console": f"{url}/console/apps/{app_id}",
        "Sign in": f"{EMAIL}, {target.password}" if target.password else None,
        "Mailbox": f"{url}/console/apps/{app_id}/mail",
        "Public key": target.public_key,
        "Types": settings.types,
        "Site": site,
    }
    shown = {name: value for name, value in places.items() if value}
    width = max(map(len, shown))
    lines = [f"  {name:{width}}  {value}" for name, value in shown.items()]
    click.echo("\n".join(["", *lines, "", "Ctrl-C ends all of it."]))
    sys.stdout.flush()


@contextlib.contextmanager
def _ends_by_signals() -> Generator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does."""

    def end(*_: Any) -> None:
        raise _Ended

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
