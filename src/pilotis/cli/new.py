"""`pilotis new`: a project as files to begin with."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path

import click

from pilotis.cli.remote import json_option
from pilotis.http.reference.sdk import client_versions
from pilotis.serve.errors import CommandError

_TEMPLATES = Path(__file__).parent / "templates"
_PROJECTS = _TEMPLATES / "projects"
_BASE = "base"
"""What every project has."""
TEMPLATES = tuple(sorted(place.name for place in _PROJECTS.iterdir() if place.name != _BASE))


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), help="The directory to create.")
@click.option("--template", type=click.Choice(TEMPLATES), default="vanilla", help="What the page is made with.")
@json_option
def new(directory: Path, template: str, as_json: bool) -> None:
    """Create a project: a page that uses the client, a table, a function, a test and a README."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise CommandError(f"{directory} is there already.")
    ignored = shutil.ignore_patterns("__pycache__", "node_modules")
    for source in (_PROJECTS / _BASE, _PROJECTS / template):
        shutil.copytree(source, directory, ignore=ignored, dirs_exist_ok=True)
    for file in directory.rglob("_*"):
        # Names that tools would take for their own among the files of Pilotis.
        file.rename(file.with_name(file.name.replace("_", ".", 1)))
    shutil.copy(_TEMPLATES / "javascript" / "pilotis.d.ts", directory / "functions" / "greet")
    needs_npm = (directory / "package.json").exists()
    if needs_npm:
        _copy_client(directory / "vendor")
    name = directory.resolve().name
    for file in (directory / "README.md", directory / "package.json"):
        if file.exists():
            file.write_text(file.read_text("utf-8").replace("PROJECT", name), "utf-8")
    steps = [f"cd {directory}", *(["npm install"] if needs_npm else []), "pilotis dev"]
    click.echo(
        {"directory": str(directory), "template": template, "next": steps}
        if as_json
        else f"Wrote {directory}. Next:\n\n  " + "\n  ".join(steps)
    )


def _copy_client(vendor: Path) -> None:
    """Write the client as a package, so that a project depends on no registry for it."""
    version = client_versions()[0]
    with resources.as_file(resources.files("pilotis.http.reference") / "client" / version) as source:
        shutil.copytree(source, vendor / "client" / "dist")
    manifest = (_TEMPLATES / "client-package.json").read_text("utf-8")
    (vendor / "client" / "package.json").write_text(manifest.replace("VERSION", version), "utf-8")
