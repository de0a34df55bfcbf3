"""Deleting backups that are older than the days to which the server can be restored, and what only they need."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from pilotis.backup import catalogue, files, wal
from pilotis.backup.catalogue import Known
from pilotis.backup.place import Place
from pilotis.kit.clock import now, parse_rfc3339


class Pruned(NamedTuple):
    """The ids of the deleted backups, and the numbers of segments of the log and of blobs."""

    backup_ids: list[str]
    segments: int
    files: int


async def prune(place: Place, moment: datetime | None = None) -> Pruned:
    """Delete what is not needed to restore to any moment of the last `keep_days`.

    The newest backup from before these days stays: the log of their beginning follows it. So do those that others are
    based on.
    """
    oldest = (moment or now()) - timedelta(days=place.settings.backup.keep_days)
    known = await place.catalogue.all()
    old, kept = split(known, oldest)
    # The newest first: a run that is killed leaves none whose base is gone.
    for one in reversed(old):
        await place.catalogue.remove(one.backup.backup_id)
    if not kept:
        return Pruned([], 0, 0)
    segments = await wal.remove_before(place.store, min(one.backup.start_wal for one in kept))
    lists = [f"{catalogue.FOLDER}/{one.backup.backup_id}/files" for one in kept]
    gone = await files.remove_unlisted(place.store, place.key, lists) if old else 0
    return Pruned([one.backup.backup_id for one in old], segments, gone)


def split(known: list[Known], oldest: datetime) -> tuple[list[Known], list[Known]]:
    """Return the backups that nothing needs to restore to a moment from `oldest` on, and the others."""
    before = [one for one in known if (ended := parse_rfc3339(one.backup.ended_at)) and ended <= oldest]
    last = before[-1:] + [one for one in known if one not in before]
    needed = {base.backup.backup_id for one in last for base in catalogue.chain(known, one.backup)}
    old = [one for one in known if one.backup.backup_id not in needed]
    return old, [one for one in known if one.backup.backup_id in needed]
