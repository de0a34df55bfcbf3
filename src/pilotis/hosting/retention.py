"""Deletes surplus deployments and unused contents, and fails abandoned processing."""

from __future__ import annotations

from asyncpg import Connection

from pilotis.hosting import content_store, deployment_store, storage_store
from pilotis.hosting.deployments import Deployments, StorageJob
from pilotis.jobs.kinds import Job

_BATCH_SIZE = 1000


class Retention:
    """Runs the job and the periodic task of retention."""

    def __init__(self, deployments: Deployments) -> None:
        self._deployments = deployments

    async def run(self, job: Job[StorageJob]) -> None:
        """Expire a storage's deployments beyond those it retains."""
        await self._deployments.retain(job.app_id, job.payload.storage_id)

    async def run_periodically(self, connection: Connection) -> None:
        """Expire deployments whose assets need no longer be preserved, and collect contents."""
        for app_id, storage_id in await storage_store.storages_with_surplus(connection, _BATCH_SIZE):
            await self._deployments.retain(app_id, storage_id)
        await deployment_store.fail_abandoned(connection)
        while await content_store.collect_blobs(connection, _BATCH_SIZE) == _BATCH_SIZE:
            pass
        await storage_store.forget_freed_slugs(connection)
