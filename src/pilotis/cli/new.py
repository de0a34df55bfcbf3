"""`pilotis new`: a project as files to begin with."""

from __future__ import annotations

import json
import re
import shutil
from importlib import resources
from pathlib import Path

import click

from pilotis.cli.remote import json_option
from pilotis.http.reference.sdk import client_versions
from pilotis.serve.errors import CommandError

_TEMPLATES = Path(__file__).parent / "templates"
_PROJECTS = _TEMPLATES / "projects"
_LAYERS = {"base", "npm"}
"""What every project has, and what those have that are made with npm."""
TEMPLATES = tuple(sorted(place.name for place in _PROJECTS.iterdir() if place.name not in _LAYERS))


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), help="The directory to create.")
@click.option("--template", type=click.Choice(TEMPLATES), default="vanilla", help="What the page is made with.")
@json_option
def new(directory: Path, template: str, as_json: bool) -> None:
    """Create a project: a page that uses the client, a table, a function, a test and a README."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise CommandError(f"{directory} is there already.")
    needs_npm = (_PROJECTS / template / "package.json").exists()
    ignored = shutil.ignore_patterns("__pycache__", "node_modules")
    for layer in ("base", *(["npm"] if needs_npm else []), template):
        shutil.copytree(_PROJECTS / layer, directory, ignore=ignored, dirs_exist_ok=True)
    for file in directory.glob("_*"):
        # Among the files of Pilotis, tools would take these for their own.
        file.rename(file.with_name(file.name.replace("_", ".", 1)))
    for types in ("pilotis.d.ts", "client.d.ts"):
        shutil.copy(_TEMPLATES / "javascript" / types, directory / "functions" / "greet")
    if needs_npm:
        _copy_clients(directory / "vendor")
    _name(directory / "README.md", directory.resolve().name)
    # npm has its own opinion on names.
    _name(directory / "package.json", re.sub(r"[^a-z0-9]+", "-", directory.resolve().name.lower()).strip("-") or "app")
    steps = [f"cd {directory}", *(["npm install"] if needs_npm else []), "pilotis dev"]
    told = {"directory": str(directory), "template": template, "next": steps}
    click.echo(json.dumps(told) if as_json else f"Wrote {directory}. Next:\n\n  " + "\n  ".join(steps))


def _copy_clients(vendor: Path) -> None:
    """Write the clients as packages, so that a project depends on no registry for them."""
    version = client_versions()[0]
    with resources.as_file(resources.files("pilotis.http.reference") / "client" / version) as source:
        shutil.copytree(source, vendor / "client" / "dist")
    manifest = (_TEMPLATES / "client-package.json").read_text("utf-8")
    (vendor / "client" / "package.json").write_text(manifest.replace("VERSION", version), "utf-8")
    shutil.copytree(_TEMPLATES / "react-package", vendor / "react")


def _name(file: Path, name: str) -> None:
    if file.exists():
        file.write_text(file.read_text("utf-8").replace("PROJECT", name), "utf-8")
