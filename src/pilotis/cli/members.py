"""`pilotis members`: brings members of another product with the hashes of their passwords."""

from __future__ import annotations

import io
import itertools
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from uuid import UUID

import click

from pilotis.cli.command import Outcome, app_option, command
from pilotis.serve.errors import CommandError

if TYPE_CHECKING:
    from pilotis.cli.session import Session


@click.group()
def members() -> None:
    """Import members of another product."""


@command(members, "import")
@click.argument("file", type=click.Path(allow_dash=True), help="JSON lines, one member each; - for stdin.")
@app_option()
async def import_(on: Session, file: str, app: UUID) -> Outcome:
    """Import members with the hashes of their passwords. Prints the lines that were rejected, and why.

    A repetition rejects those that have come already.
    """
    from pilotis.accounts.feature import AccountsFeature
    from pilotis.accounts.imports.service import MAX_LINES
    from pilotis.http.api.principals import OPERATOR

    imports, info = on.features.get(AccountsFeature).imports, await on.apps.by_id(app)
    created, before = 0, 0
    rejected: list[dict[str, object]] = []
    try:
        with click.open_file(file, "rb") as opened:
            lines = io.BytesIO(opened.read())
    except OSError as error:
        raise CommandError(f"{file}: {error}") from None
    while batch := list(itertools.islice(lines, MAX_LINES)):
        made = await imports.run(info, OPERATOR, _stream(b"".join(batch)))
        created += made.created
        rejected += [{"line": before + one.line, "code": one.code, "message": one.message} for one in made.rejected]
        before += len(batch)
    said = [f"Line {one['line']}: {one['code']}. {one['message']}" for one in rejected]
    said.append(f"{created} members imported, {len(rejected)} lines rejected.")
    found = {"created": created, "rejected": rejected}
    return Outcome(found, found | {"rejected": len(rejected)}, said=said)


async def _stream(data: bytes) -> AsyncIterator[bytes]:
    yield data
