"""What an operator must know of the backups of a server."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pilotis.backup import catalogue, gaps, keys, wal
from pilotis.backup.catalogue import Known
from pilotis.backup.gaps import Gap
from pilotis.backup.place import Place
from pilotis.backup.waiting import Waiting, waiting
from pilotis.kit.clock import now, parse_rfc3339
from pilotis.kit.reports import Report

SPOOL_BYTES = 1 << 30
SPOOL_SECONDS = 300.0
OLDEST = timedelta(hours=26)
UNPROVEN = timedelta(days=35)


class Trouble(NamedTuple):
    """What is wrong with the backups: with the `store`, their `age`, `proof`, the `spool`, or the `key`."""

    topic: Literal["store", "age", "proof", "spool", "key"]
    report: Report


class Status(NamedTuple):
    """The backups, what waits for the store, the last stored segment of the log, and what is wrong.

    What was committed before `rows_until` is in the store, and the files that the database named at `files_until`.

    With a problem the server cannot be restored to a moment to which it should; a warning is what may become one.
    """

    known: list[Known]
    waiting: Waiting
    last_wal: str | None
    rows_until: str | None
    files_until: str | None
    problems: list[Trouble]
    warnings: list[Trouble]
    gaps: list[Gap]

    def gap_moments(self) -> list[tuple[str, str | None]]:
        """Return between which moments the server cannot be restored; None while there is no backup after a gap."""
        ends = [[one.backup.ended_at for one in self.known if gap.is_bridged_by(one.backup)] for gap in self.gaps]
        return [(gap.since, next(iter(end), None)) for gap, end in zip(self.gaps, ends, strict=True)]

    def gap_sentences(self) -> list[str]:
        """Return the same for people."""
        return [
            f"No moment between {since} and {until or 'the next backup'} can be restored: the log was dropped then."
            for since, until in self.gap_moments()
        ]

    def fields(self) -> dict[str, Any]:
        """Return the status for JSON."""
        newest = self.known[-1] if self.known else None
        return {
            "backups": len(self.known),
            "newest": listed([newest], self.gaps)[0] if newest else None,
            "rows_until": self.rows_until,
            "files_until": self.files_until,
            "last_wal": self.last_wal,
            "spool_files": self.waiting.log.files,
            "spool_bytes": self.waiting.bytes,
            "spool_seconds": round(self.waiting.seconds, 1),
            "spool_unarchived": self.waiting.log.unarchived,
            "waiting_files": self.waiting.copies.waiting,
            "gaps": [{"since": since, "until": until} for since, until in self.gap_moments()],
            "problems": [str(one.report) for one in self.problems],
            "warnings": [str(one.report) for one in self.warnings],
        }


def listed(known: list[Known], gaps_: list[Gap]) -> list[dict[str, Any]]:
    """Return backups as lists show them; `log_until` is where the log ends that follows one before the next backup."""
    found = [_listed(one) for one in known]
    for gap in gaps_:
        before = [at for at, one in enumerate(known) if gap.follows(one.backup)]
        if before:
            found[before[-1]]["log_until"] = gap.since
    return found


def _listed(known: Known) -> dict[str, Any]:
    backup, proof = known
    return {
        "backup_id": backup.backup_id,
        "kind": backup.kind,
        "based_on": backup.based_on,
        "ended_at": backup.ended_at,
        "state": proof.state,
        "bytes": backup.bytes,
        "files": backup.files,
        "missing_files": backup.missing_files,
        "version": backup.version,
        "rehearsed_at": proof.rehearsed_at,
        "error": proof.error,
        "log_until": None,
    }


async def status(place: Place) -> Status:
    """Return the status; raises `DamagedError` if the store was changed."""
    known = await place.catalogue.all()
    segments = [name for name in await wal.segments(place.store) if "." not in name]
    waits = waiting(place.data_dir)
    problems = [
        _trouble(
            "store", sentence, "Look for it in the store's other versions; `pilotis backup create` makes a new one."
        )
        for sentence in (catalogue.hidden(place.data_dir, known),)
        if sentence
    ]
    problems += _problems(known)
    problems += spool_problems(waits, gaps.noted(place.data_dir))
    warnings = _warnings(known)
    if _is_on_same_disk(place):
        warnings.append(
            _trouble(
                "key",
                f"The backup key {keys.path_of(place.settings)} is on the disk that it is to save.",
                "Copy it elsewhere, or set key_file in [backup]: without it no backup can be read.",
            )
        )
    ended_at = known[-1].backup.ended_at if known else None
    last_wal = segments[-1].upper() if segments else None
    rows_until = max(filter(None, (wal.shipped_until(place.cluster), ended_at)), default=None)
    files_until = max(filter(None, (waits.copies.until, ended_at)), default=None)
    found = await gaps.all_gaps(place.store, place.key)
    return Status(known, waits, last_wal, rows_until, files_until, problems, warnings, found)


def _trouble(topic: Literal["store", "age", "proof", "spool", "key"], sentence: str, fix: str) -> Trouble:
    return Trouble(topic, Report(sentence, fix))


def spool_problems(waits: Waiting, gap: Gap | None) -> list[Trouble]:
    """Return what is wrong with what waits for the store, which is known also while the store is away."""
    if gap is not None:
        fix = "The server makes a backup as soon as the store is there; a larger spool_bytes in [backup] waits longer."
        return [_trouble("spool", f"{gap} No later moment can be restored until there is another backup.", fix)]
    if waits.bytes <= SPOOL_BYTES and waits.seconds <= SPOOL_SECONDS:
        return []
    spool = waits.log
    sentence = (
        f"{spool.files} files of the log, {spool.bytes} bytes, and {waits.copies.waiting} files of apps wait for the"
        f" store, the oldest for {waits.seconds:.0f} s."
    )
    if spool.unarchived:
        sentence += f" PostgreSQL could not archive {spool.unarchived} of them."
        return [_trouble("spool", sentence, "Make room on its disk if that is full; postgres.log says why it cannot.")]
    fix = "Start the server if none runs; else its log says why the store does not accept them (backups are held up)."
    return [_trouble("spool", sentence, fix)]


def _problems(known: list[Known]) -> list[Trouble]:
    makes = "`pilotis backup create` makes one."
    if not known:
        return [_trouble("age", "There is no backup yet.", makes)]
    newest, found = known[-1], []
    if _age(newest.backup.ended_at) > OLDEST:
        found.append(_trouble("age", f"The newest backup is from {newest.backup.ended_at}.", makes))
    proven = [one.proof.rehearsed_at for one in known if one.proof.rehearsed_at]
    if _age(max(proven, default=known[0].backup.ended_at)) > UNPROVEN:
        sentence = "For 35 days no backup was restored: all are unproven."
        found.append(_trouble("proof", sentence, "Run `pilotis backup rehearse`."))
    found += [
        _trouble(
            "proof", f"Backup {one.backup.backup_id}: {one.proof.error}", "`pilotis backup create` makes another one."
        )
        for one in known
        if one.proof.error
    ]
    return found + [_trouble("proof", sentence, makes) for sentence in catalogue.incomplete(known).values()]


def _warnings(known: list[Known]) -> list[Trouble]:
    found = []
    if known and not any(one.proof.rehearsed_at for one in known):
        sentence = "No backup was ever restored: all are unproven."
        found.append(_trouble("proof", sentence, "`pilotis backup rehearse` tries the newest."))
    if known and (missing := known[-1].backup.missing_files):
        sentence = f"{missing} files were deleted before the newest backup could copy them."
        found.append(_trouble("store", sentence, "An earlier backup may have them; the next one no longer names them."))
    return found


def _age(moment: str) -> timedelta:
    parsed = parse_rfc3339(moment)
    assert parsed is not None
    return now() - parsed


def _is_on_same_disk(place: Place) -> bool:
    if place.settings.backup.key is not None:
        return False
    path: Path = keys.path_of(place.settings)
    try:
        return path.stat().st_dev == place.data_dir.stat().st_dev
    except OSError:
        return False
