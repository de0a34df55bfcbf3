"""Compresses a deployment's files after it is ready: brotli and gzip, each if it saves at least a tenth."""

from __future__ import annotations

import gzip
from uuid import UUID

import brotli

from pilotis.blobs.errors import BlobNotFoundError
from pilotis.db.pool import Database
from pilotis.db.topics import Topic, publish
from pilotis.hosting import content_store, media
from pilotis.hosting.contents import Contents, prefix_of
from pilotis.hosting.deployments import DeploymentJob
from pilotis.jobs.kinds import Job

MAX_COMPRESSED = 16 << 20
"""Files above this size in bytes are not compressed."""
_MAX_SLOW = 2 << 20
_BEST, _FAST = 11, 6
_WORTH = 0.9
_ANNOUNCE_EVERY = 200


class Compression:
    """Runs the compression jobs."""

    def __init__(self, database: Database, contents: Contents) -> None:
        self._database = database
        self._contents = contents

    async def run(self, job: Job[DeploymentJob]) -> None:
        """Compress the files of a deployment that are not compressed yet; a repeat continues after the last one."""
        app_id, deployment_id = job.app_id, job.payload.deployment_id
        rows = await content_store.uncompressed(self._database, app_id, deployment_id, media.MIN_COMPRESSED)
        for number, row in enumerate(rows, 1):
            job.require_lease()
            wanted = media.is_compressible(row.content_type, row.size) and row.size <= MAX_COMPRESSED
            if wanted:
                await self._compress(app_id, row.blob_id)
            if number % _ANNOUNCE_EVERY == 0:
                await self._announce(job)
        await self._announce(job)

    async def _compress(self, app_id: UUID, blob_id: UUID) -> None:
        try:
            data = await self._contents.read(app_id, blob_id)
        except BlobNotFoundError:
            return
        forms = await self._contents.in_thread(compressed, data)
        kept = [(await self._contents.put_form(app_id, form), len(form)) if form else None for form in forms]
        async with self._database.transaction(app_id) as connection:
            await content_store.set_compressed(connection, app_id, blob_id, kept[0], kept[1], prefix_of(app_id))

    async def _announce(self, job: Job[DeploymentJob]) -> None:
        async with self._database.transaction(job.app_id) as connection:
            await publish(connection, Topic.SITE, f"{job.payload.storage_id}/{job.payload.deployment_id}")


def compressed(data: bytes) -> tuple[bytes | None, bytes | None]:
    """Return the brotli and the gzip form of bytes; None for a form that is not worthwhile."""
    slow = len(data) <= _MAX_SLOW
    forms = (
        brotli.compress(data, quality=_BEST if slow else _FAST),
        gzip.compress(data, 9, mtime=0),
    )
    brotli_form, gzip_form = (form if len(form) <= len(data) * _WORTH else None for form in forms)
    return brotli_form, gzip_form
