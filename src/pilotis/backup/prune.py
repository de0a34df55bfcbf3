"""Deleting backups that are older than the days to which the server can be restored, and what only they need."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from pilotis.backup import catalogue, files, gaps, streams, wal
from pilotis.backup.catalogue import Known
from pilotis.backup.place import Place
from pilotis.kit.clock import now, parse_rfc3339

_CLOCK_JUMP = timedelta(days=1)


class Pruned(NamedTuple):
    """The ids of the deleted backups, and the numbers of segments of the log and of blobs.

    `incomplete` are sentences about those that stay and cannot be restored, because one that they are based on is gone.
    """

    backup_ids: list[str]
    segments: int
    files: int
    incomplete: list[str]


async def prune(place: Place, moment: datetime | None = None) -> Pruned:
    """Delete what is not needed to restore to any moment of the last `keep_days`.

    The newest backup from before these days stays: the log of their beginning follows it. So do those that others are
    based on. One whose base is gone keeps nothing but itself, as long as it is not older.
    """
    oldest = (moment or now()) - timedelta(days=place.settings.backup.keep_days)
    known = await place.catalogue.all()
    old, kept = split(known, oldest)
    # The newest first: a run that is killed leaves none whose base is gone.
    for one in reversed(old):
        await place.catalogue.remove(one.backup.backup_id)
    missing = catalogue.incomplete(kept)
    if not kept:
        return Pruned([one.backup.backup_id for one in old], 0, 0, [])
    first = min(one.backup.start_wal for one in kept)
    segments = await wal.remove_before(place.store, first)
    await gaps.remove_before(place.store, await gaps.all_gaps(place.store, place.key), first)
    lists = [f"{catalogue.FOLDER}/{one.backup.backup_id}/files" for one in kept]
    gone = 0
    if old and (began := await streams.stored_at(place.store, f"{catalogue.FOLDER}/{kept[0].backup.backup_id}/base")):
        gone = await files.remove_unlisted(place.store, place.key, lists, began - _CLOCK_JUMP)
    return Pruned([one.backup.backup_id for one in old], segments, gone, list(missing.values()))


def split(known: list[Known], oldest: datetime) -> tuple[list[Known], list[Known]]:
    """Return the backups that nothing needs to restore to a moment from `oldest` on, and the others."""
    missing = catalogue.incomplete(known)
    before = [one for one in known if (ended := parse_rfc3339(one.backup.ended_at)) and ended <= oldest]
    whole = [one for one in before if one.backup.backup_id not in missing]
    last = whole[-1:] + [one for one in known if one not in before]
    needed = {one.backup.backup_id for one in last}
    for one in last:
        if one.backup.backup_id not in missing:
            needed |= {base.backup.backup_id for base in catalogue.chain(known, one.backup)}
    old = [one for one in known if one.backup.backup_id not in needed]
    return old, [one for one in known if one.backup.backup_id in needed]
