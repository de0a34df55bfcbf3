"""The services of file storage in one object."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from uuid import UUID

from pilotis.blobs.protocol import BlobStore
from pilotis.data.rules.files.service import FileRules
from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.files.cleaning import Cleaning
from pilotis.files.delivery import AppFinder, Delivery
from pilotis.files.images.variants import Variants
from pilotis.files.items import Links
from pilotis.files.keys import blob_key
from pilotis.files.listing import Listing
from pilotis.files.ruling import Ruling
from pilotis.files.signatures import UrlSigner
from pilotis.files.storages import Storages
from pilotis.files.tus.service import ResumableUploads
from pilotis.files.uploads.service import Uploads
from pilotis.http.api.principals import Authenticator
from pilotis.kit.crypto import MasterKeyring
from pilotis.kit.generators import no_chunks


class Files:
    """Storages, uploads, items, delivery, variants of images, and cleanup.

    `base_url` is the address of this service, `files_base_url` that of the host for files, if there is one. `largest`
    is the largest size of any file, in bytes; `node_id` returns the id of this process; `rules` judges callers in
    storages with rules.
    """

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        master_keys: MasterKeyring,
        authenticator: Authenticator,
        apps: AppFinder,
        events: Events,
        *,
        base_url: str,
        files_base_url: str | None = None,
        redirects: bool = False,
        largest: int,
        node_id: Callable[[], UUID],
        rules: FileRules,
    ) -> None:
        ruling = Ruling(rules)
        signer, links = UrlSigner(master_keys), Links(files_base_url or base_url)
        self.storages = Storages(database, rules)
        self.uploads = Uploads(database, blobs, signer, links, events, base_url, node_id, ruling)
        self.resumable_uploads = ResumableUploads(database, blobs, signer, self.uploads, largest=largest)
        self.listing = Listing(database, signer, links, events, ruling)
        self.variants = Variants(database, blobs)
        self.delivery = Delivery(
            database,
            blobs,
            signer,
            authenticator,
            apps,
            self.variants,
            ruling,
            files_base_url=files_base_url,
            redirects=redirects,
        )
        self.cleaning = Cleaning(database, blobs)
        self._blobs = blobs

    def content(self, app_id: UUID, blob_id: UUID, size: int) -> AsyncGenerator[bytes]:
        """Return the bytes of a file, by its blob."""
        return self._blobs.open(blob_key(app_id, blob_id), 0, size) if size else no_chunks()
