"""`pilotis types`: the types of an app's tables, for programs that use a client."""

from __future__ import annotations

import time
from pathlib import Path

import click

from pilotis.cli.generated_types import python, typescript
from pilotis.cli.remote import DEFAULT_URL, Remote
from pilotis.serve.errors import CommandError

_PAUSE_SECONDS = 1.0


@click.command()
@click.option("--url", envvar="PILOTIS_URL", default=DEFAULT_URL, help="The server's address.")
@click.option("--key", envvar="PILOTIS_PUBLIC_KEY", metavar="KEY", required=True, help="The app's public key.")
@click.option("--lang", type=click.Choice(["ts", "python"]), default="ts", help="The language; TypeScript by default.")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="The file; else it is printed."
)
@click.option("--check", is_flag=True, help="Write nothing, and fail if the file is out of date.")
@click.option("--watch", is_flag=True, help="Write the file again after each change of a table, until Ctrl-C.")
def types(url: str, key: str, lang: str, output: Path | None, check: bool, watch: bool) -> None:
    """Write the types of an app's tables, for `createClient<App>` or for `pilotis_client`."""
    if output is None and (check or watch):
        raise click.UsageError("--check and --watch need --output FILE.")
    remote = Remote(f"{url.rstrip('/')}/v1/public", {"X-Public-Key": key})
    while True:
        if output is None:
            click.echo(_text(remote, lang), nl=False)
        elif check:
            if _read(output) != _text(remote, lang):
                raise CommandError(f"{output} is out of date. Run `pilotis types --output {output}`.")
        elif write_types(remote, output, lang):
            click.echo(f"Wrote {output}.", err=True)
        if not watch:
            return
        time.sleep(_PAUSE_SECONDS)


def write_types(remote: Remote, file: Path, lang: str | None = None) -> bool:
    """Write the types of an app's tables, and return whether they have changed.

    `remote` is the public API with the app's key; the language is that of the file's ending, unless it is given.
    """
    text = _text(remote, lang or ("python" if file.suffix == ".py" else "ts"))
    if _read(file) == text:
        return False
    file.write_text(text, "utf-8")
    return True


def _text(remote: Remote, lang: str) -> str:
    return (typescript if lang == "ts" else python)(remote.ask("GET", "/tables")["tables"])


def _read(file: Path) -> str | None:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}.") from None
