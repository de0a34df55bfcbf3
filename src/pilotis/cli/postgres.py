"""`pilotis postgres`: the embedded PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import click

from pilotis.cli.command import Outcome, Place, command


@click.group()
def postgres() -> None:
    """Look after the embedded PostgreSQL."""


@command(postgres)
@click.option("--check", is_flag=True, help="Only say whether an upgrade by files is possible.")
@click.option("--by-archive", is_flag=True, help="Copy the contents, where files cannot be used.")
@click.option("--old-binaries", metavar="DIR", help="The old version's programs. Default: those of the system.")
@click.option("--forget-old", is_flag=True, help="Delete the database of before the last upgrade.")
def upgrade(place: Place, check: bool, by_archive: bool, old_binaries: str | None, forget_old: bool) -> Outcome:
    """Upgrade a stopped database to the programs' major version. The old one stays beside it, and can be used again."""
    from pilotis.db.embedded.upgrade import Upgrade, UpgradeRefusedError
    from pilotis.serve import data_directory, database

    settings = place.settings
    if settings.database_url is not None:
        raise UpgradeRefusedError("This is not the embedded database: upgrade it as its operator does.")
    if check + by_archive + forget_old > 1:
        raise click.UsageError("--check, --by-archive and --forget-old exclude each other.")
    work = Upgrade(
        database.postgres_directory(settings),
        binaries=Path(settings.postgres_binaries) if settings.postgres_binaries else None,
        old_binaries=Path(old_binaries) if old_binaries else None,
        said=lambda sentence: click.echo(f"{sentence[0].upper()}{sentence[1:]} …", err=True),
    )
    with data_directory.locked(Path(settings.data_dir), "command"):
        if forget_old:
            deleted = work.forget_old()
            return Outcome({"deleted": deleted}, [f"Deleted {path}." for path in deleted] or ["There is no old one."])
        if check:
            old = work.check()
            return Outcome({"possible": True, "old": old.major}, ["The database can be upgraded."])
        done = work.run(by_archive=by_archive)
    said = [
        f"The database is PostgreSQL {done.new}; it has {done.rows} rows in {done.tables} tables, as before.",
        f"The old one is in {done.old_directory}. `pilotis postgres upgrade --forget-old` deletes it.",
    ]
    if settings.backup.store is not None:
        said.append(
            "Give it a new backup store and make a backup: those of before are another database's, and restore with "
            "the old programs only."
        )
    return Outcome(done._asdict(), said)
