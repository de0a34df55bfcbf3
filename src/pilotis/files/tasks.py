"""The periodic tasks of files."""

from __future__ import annotations

from pilotis.db.pool import Database
from pilotis.files.cleaning import Cleaning
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection


def periodic(database: Database, cleaning: Cleaning) -> list[Periodic]:
    """Return the tasks, which delete expired uploads, unused variants, and blobs without a file."""
    return [
        on_connection(database, "uploads.expire", 300, cleaning.expire_uploads),
        on_connection(database, "variants.expire", 3600, cleaning.delete_unused_variants, queue="bytes"),
        on_connection(database, "blobs.delete", 60, cleaning.delete_pending_blobs, queue="bytes"),
    ]
