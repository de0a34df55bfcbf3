"""What the operator of a server must know of its certificates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from asyncpg import Connection

from pilotis.certificates import store
from pilotis.certificates.contexts import CertificateError
from pilotis.certificates.own_files import OwnFiles
from pilotis.kit.clock import now

SOON = timedelta(days=14)
_MAX_DOMAINS = 10


class Report(NamedTuple):
    """Sentences: problems are about the server's own names, notes about the domains of sites."""

    problems: list[str]
    notes: list[str]


async def report(connection: Connection, names: Sequence[str], files: tuple[Path, Path] | None) -> Report:
    """Return what is wrong with the certificates of a server: of its own names, in its own files, and of domains."""
    problems, notes = [], []
    own = None
    if files is not None:
        try:
            own = OwnFiles(*files)
        except CertificateError as error:
            problems.append(str(error))
        else:
            if _ends_soon(own.facts.not_before, own.facts.not_after):
                problems.append(f"The certificate in {files[0]} {_end(own.facts.not_after)}.")
    known = {one.name: one for one in await store.certificates(connection)}
    for name in names:
        if own is not None and own.covers(name):
            continue
        one = known.pop(name, None)
        if one is None or one.not_after is None:
            problems.append(f"There is no certificate for {name} yet{_why(one)}.")
        elif one.not_before is not None and _ends_soon(one.not_before, one.not_after):
            problems.append(f"The certificate for {name} {_end(one.not_after)}{_why(one)}.")
    failed = [one for one in known.values() if one.error is not None]
    notes += [f"The domain {one.name} of a site has no new certificate{_why(one)}." for one in failed[:_MAX_DOMAINS]]
    if len(failed) > _MAX_DOMAINS:
        notes.append(f"{len(failed) - _MAX_DOMAINS} further domains have none either.")
    return Report(problems, notes)


def _ends_soon(begin: datetime, end: datetime) -> bool:
    """Whether a certificate ends within 14 days, or within a third of its life if that is less."""
    return end - now() < min(SOON, (end - begin) / 3)


def _end(end: datetime) -> str:
    return f"{'ended' if end < now() else 'ends'} on {end:%Y-%m-%d %H:%M} UTC"


def _why(one: store.Certificate | None) -> str:
    return f": {one.error.rstrip('.')}" if one is not None and one.error else ""
