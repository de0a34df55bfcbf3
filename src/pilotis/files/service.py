"""File storage as other parts see it: one object with what it is made of."""

from __future__ import annotations

from pilotis.blobs.protocol import BlobStore
from pilotis.db.pool import Database
from pilotis.files.cleaning import Cleaning
from pilotis.files.delivery import AppFinder, Delivery
from pilotis.files.items import Links
from pilotis.files.listing import Listing
from pilotis.files.signatures import UrlSigner
from pilotis.files.storages import Storages
from pilotis.files.tus.service import ResumableUploads
from pilotis.files.uploads import Uploads
from pilotis.files.variants import Variants
from pilotis.http.principals import Authenticator
from pilotis.kit.crypto import MasterKeyring


class Files:
    """Storages, uploads, what is in them, its delivery, variants of images, and the cleaning up.

    `base_url` is where clients reach this service, `files_base_url` the address of files' own host, if they have one.
    `largest` is the size of the largest file of all, in bytes.
    """

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        master_keys: MasterKeyring,
        authenticator: Authenticator,
        apps: AppFinder,
        *,
        base_url: str,
        files_base_url: str | None = None,
        redirects: bool = False,
        largest: int,
    ) -> None:
        signer, links = UrlSigner(master_keys), Links(files_base_url or base_url)
        self.storages = Storages(database)
        self.uploads = Uploads(database, blobs, signer, links, base_url)
        self.resumable_uploads = ResumableUploads(database, blobs, signer, self.uploads, largest=largest)
        self.listing = Listing(database, signer, links)
        self.variants = Variants(database, blobs)
        self.delivery = Delivery(
            database,
            blobs,
            signer,
            authenticator,
            apps,
            self.variants,
            files_base_url=files_base_url,
            redirects=redirects,
        )
        self.cleaning = Cleaning(database, blobs)
