"""Converts rows to the types of the API. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict
from uuid import UUID

import msgspec

from pilotis.hosting.deployment_store import DeploymentRecord
from pilotis.hosting.domain_store import DomainRecord
from pilotis.hosting.names import Addresses
from pilotis.hosting.page_store import PageRecord
from pilotis.hosting.storage_store import SizedStorageRecord, StorageRecord
from pilotis.hosting.types import (
    Changes,
    Creator,
    Deployment,
    DeploymentStatus,
    DeployWarning,
    Domain,
    NotFoundMode,
    PageMeta,
    Problem,
    PromoteMode,
    WebStorage,
)
from pilotis.kit.clock import optional_rfc3339, rfc3339

_WARNINGS: msgspec.json.Decoder[list[DeployWarning]] = msgspec.json.Decoder(list[DeployWarning])
_PROBLEM: msgspec.json.Decoder[Problem] = msgspec.json.Decoder(Problem)
TXT_PREFIX = "_pilotis-challenge"
TXT_VALUE = "pilotis-site-verification="


def storage_view(row: SizedStorageRecord, addresses: Addresses) -> WebStorage:
    """Return a storage."""
    return WebStorage(
        id=row.storage_id,
        app_id=row.app_id,
        name=row.name,
        description=row.description,
        slug=row.slug,
        promote_mode=PromoteMode(row.promote_mode),
        not_found_mode=NotFoundMode(row.not_found_mode),
        clean_urls=row.clean_urls,
        retain=row.retain,
        has_qa_password=row.qa_password_hash is not None,
        url=addresses.production(row.slug),
        qa_url=addresses.qa(row.slug),
        production_deployment_id=row.production_id,
        qa_deployment_id=row.qa_id,
        file_count=row.file_count,
        total_size=row.total_size,
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
    )


def deployment_view(row: DeploymentRecord, storage: StorageRecord, addresses: Addresses) -> Deployment:
    """Return a deployment of a storage, as its pointers are in `storage`."""
    version = row.version
    return Deployment(
        id=row.deployment_id,
        storage_id=row.storage_id,
        version=version,
        status=DeploymentStatus(row.status),
        source=row.source,
        target=row.target or ("production" if storage.promote_mode == "auto" else "qa"),
        base_deployment_id=row.base_id,
        file_count=row.file_count,
        total_size=row.total_size,
        uploaded_size=row.uploaded_size,
        changes=Changes(row.added, row.changed, row.removed),
        manifest_hash=row.manifest_hash.hex() if row.manifest_hash else None,
        message=row.message,
        url=addresses.version(storage.slug, version) if version is not None and row.status == "ready" else None,
        is_production=row.deployment_id == storage.production_id,
        is_qa=row.deployment_id == storage.qa_id,
        warnings=_WARNINGS.decode(row.warnings),
        error=_PROBLEM.decode(row.error) if row.error else None,
        created_by=Creator(row.actor_kind, row.actor_id),
        created_at=rfc3339(row.created_at),
        ready_at=optional_rfc3339(row.ready_at),
        branch=row.branch or msgspec.UNSET,
    )


def page_meta_view(row: PageRecord) -> PageMeta:
    """Return the metadata of a page."""
    extra: dict[str, Any] = msgspec.json.decode(row.extra)
    return PageMeta(
        path=row.path,
        title=row.title,
        description=row.description,
        image=row.image,
        og_type=row.og_type,
        created_at=rfc3339(row.created_at),
        updated_at=rfc3339(row.updated_at),
        **extra,
    )


def domain_view(row: DomainRecord) -> Domain:
    """Return a domain."""
    return Domain(
        hostname=row.hostname,
        is_verified=row.verified_at is not None,
        txt_name=txt_name(row.hostname),
        txt_value=txt_value(row.token),
        created_at=rfc3339(row.created_at),
        verified_at=optional_rfc3339(row.verified_at),
    )


def txt_name(hostname: str) -> str:
    """Return the name of the TXT record that verifies a domain."""
    return f"{TXT_PREFIX}.{hostname}"


def txt_value(token: str) -> str:
    """Return the value of the TXT record that verifies a domain."""
    return f"{TXT_VALUE}{token}"


def warnings_text(warnings: Sequence[DeployWarning]) -> str:
    """Return warnings in their stored form."""
    return msgspec.json.encode(warnings).decode()


class Pointers(TypedDict):
    """The production and the QA pointer of a storage, under their names in answers."""

    production_deployment_id: UUID | None
    qa_deployment_id: UUID | None


def pointers(row: StorageRecord) -> Pointers:
    """Return the production and the QA pointer of a storage."""
    return Pointers(production_deployment_id=row.production_id, qa_deployment_id=row.qa_id)
