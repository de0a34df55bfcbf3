"""File storages, uploads, delivery and variants of images."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import structlog

from pilotis.apps.feature import AppsFeature
from pilotis.blobs.watch import StoreWatch
from pilotis.data.rules.feature import RulesFeature
from pilotis.data.rules.trying.service import FileTrials
from pilotis.feature import Feature
from pilotis.files.cleaning import MISSING, Cleaning
from pilotis.files.endpoints import (
    FileAdministrationEndpoints,
    FileEndpoints,
    FileTransferEndpoints,
    StorageEndpoints,
    StorageRuleEndpoints,
    StorageRuleTestEndpoints,
)
from pilotis.files.events import EVENT_TYPES
from pilotis.files.media import checked_type
from pilotis.files.paths import checked_name, checked_path
from pilotis.files.rule_tests import FileRuleTests
from pilotis.files.service import Files
from pilotis.files.store import RECOUNT
from pilotis.files.tasks import periodic
from pilotis.files.tus.endpoints import TusEndpoints
from pilotis.files.uploads.store import ReceivedUploads
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, BlobColumns, Copied, LeftOut
from pilotis.kit.errors import UnavailableError
from pilotis.members.feature import MembersFeature
from pilotis.security.feature import SecurityFeature

_SECONDS_TO_LOOK = 5.0
_log = structlog.get_logger("pilotis.files")


class FilesFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Files."""

    described = (
        StorageEndpoints,
        StorageRuleEndpoints,
        StorageRuleTestEndpoints,
        FileAdministrationEndpoints,
        FileEndpoints,
        FileTransferEndpoints,
        TusEndpoints,
    )
    archived: ClassVar[Archived] = {
        "file_storages": Copied(
            columns="storage_id name upload_access delete_access read_access allowed_mime_types max_file_size"
            " quota_bytes created_at updated_at list_access rules rules_updated_at levels",
            fresh=["storage_id"],
        ),
        "files": Copied(
            part="files",
            columns="storage_id file_id parent_id path name is_folder is_fixed blob_id mime_type size sha256 version"
            " creator created_at updated_at",
            fresh=["storage_id", "file_id", "parent_id"],
            checks={"path": checked_path, "name": checked_name, "mime_type": checked_type},
            blobs=BlobColumns("blob_id", "size", "sha256"),
            finishing=[RECOUNT],
        ),
        "uploads": LeftOut("an upload ends where it began"),
        "variants": LeftOut("variants of images are made again"),
        "pending_deletions": LeftOut("what is to be deleted does not move"),
        "pending_copies": LeftOut("the backup store of a server has no archives"),
    }

    files: Files


async def _warn_of_missing_bytes(cleaning: Cleaning) -> None:
    """Warn if the database and the object store do not belong together."""
    try:
        async with asyncio.timeout(_SECONDS_TO_LOOK):
            missing, looked_for = await cleaning.missing_sample()
    except (TimeoutError, UnavailableError):
        return  # readiness and the log say more
    if missing:
        _log.warning("bytes are missing", reason=str(MISSING).format(missing, looked_for))


def feature(
    floor: Floor, security: SecurityFeature, apps: AppsFeature, rules: RulesFeature, members: MembersFeature
) -> FilesFeature:
    """Return the feature."""
    files = Files(
        floor.database,
        floor.blobs,
        floor.signing_keys,
        security.authentication,
        apps.apps,
        floor.events,
        base_url=floor.base_url,
        files_base_url=floor.settings.files_base_url,
        redirects=floor.settings.files_delivery == "redirect",
        largest=floor.limits.file_bytes,
        node_id=floor.jobs.node_id,
        rules=rules.file_rules,
    )
    trials = FileTrials(rules.file_rules, members.members.acting)
    watch = StoreWatch(floor.blobs)

    async def start() -> None:
        await watch.start()
        await _warn_of_missing_bytes(files.cleaning)

    async def close() -> None:
        await watch.stop()
        await files.uploads.finishing.stop()
        await files.variants.stop()

    return FilesFeature(
        name="files",
        endpoints=[
            StorageEndpoints(files.storages),
            StorageRuleEndpoints(files.storages),
            StorageRuleTestEndpoints(FileRuleTests(floor.database, trials)),
            FileAdministrationEndpoints(files.listing),
            FileEndpoints(files.uploads, files.listing),
            FileTransferEndpoints(files.uploads, files.delivery),
            TusEndpoints(files.resumable_uploads),
        ],
        periodic=periodic(floor.database, files.cleaning),
        holdings=[ReceivedUploads()],
        event_types=EVENT_TYPES,
        names=dict.fromkeys(
            ["/v1/public/storages/files/:storage_id", "/v1/apps/:app_id/storages/files/:storage_id"],
            files.storages.id_of,
        ),
        checks={"object_store": watch.check},
        start=start,
        close=close,
        files=files,
    )
