"""`pilotis test`: the tests of a project, with an app of their own."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import click

from pilotis.cli import project, project_settings
from pilotis.cli.local_server import local_server, program, scratch_app
from pilotis.cli.seeds import fill
from pilotis.serve.errors import CommandError


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, help="The tests' command; by default that of the project.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="The project; by default the current directory.",
)
@click.option("--url", metavar="URL", help="Use the server at this address, as a console user, instead of an own one.")
def test(command: tuple[str, ...], folder: Path, url: str | None) -> None:
    """Run a project's tests against a new app with its tables, storages, channels, functions, workflows and first rows.

    The command of [test] in `.pilotis.toml`, or the one that is given, finds the app by PILOTIS_URL, PILOTIS_PUBLIC_KEY
    and PILOTIS_SECRET_KEY. Its exit status is that of this command. The app is deleted afterwards.
    """
    tests = list(command or project_settings.read(folder).tests)
    if not tests:
        raise CommandError(f"Name the tests' command, or set it in [test] of {project_settings.FILE_NAME}.")
    with contextlib.ExitStack() as started:
        if url is None:
            url = started.enter_context(local_server(folder, 0, may_join=True)).remote.url
        target = started.enter_context(scratch_app(url.rstrip("/")))
        for part in project.parts_of(target.remote, folder):
            project.apply(project.compare(target.remote, folder, [part]))
        for _ in fill(target.remote, folder):
            pass
        with program(tests, {**os.environ, **target.environment}, folder) as running:
            status = running.wait()
    sys.exit(status if status >= 0 else 1)
