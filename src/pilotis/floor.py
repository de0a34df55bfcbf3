"""What every feature is built on: the settings, the database, and shared services."""

from __future__ import annotations

import secrets as random
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import msgspec

from pilotis.blobs.protocol import BlobStore
from pilotis.db.control import Control
from pilotis.db.extensions import Extensions
from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.http.outgoing import Outgoing, OutgoingSettings
from pilotis.jobs.node import addresses
from pilotis.jobs.queue import Jobs
from pilotis.kit.crypto import MasterKeyring, MasterKeys
from pilotis.kit.disk import DiskReserve
from pilotis.kit.passwords import Passwords
from pilotis.kit.signing import TokenSigner
from pilotis.limits import Limits
from pilotis.security import master_key
from pilotis.security.encryption.service import Encryption, Secrets
from pilotis.security.rate_limits import RateLimits
from pilotis.security.sessions.service import Sessions
from pilotis.settings import Settings


class Floor(msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=False):
    """One process's access to its database, object store and keys. Parts are created when they are first used.

    `master_keys` is None if there is no master key: then encrypted columns cannot be read, and signed tokens are valid
    nowhere. Outgoing requests never reach `own_ports` of this machine.
    """

    settings: Settings
    database: Database
    control: Control
    jobs: Jobs
    master_keys: MasterKeyring | None
    own_ports: frozenset[int] = frozenset()

    @property
    def limits(self) -> Limits:
        """The limits of the server, which an app may override."""
        return self.settings.limits

    @property
    def base_url(self) -> str:
        """The URL at which clients reach this service; empty if it does not serve."""
        return self.settings.base_url or ""

    @cached_property
    def signing_keys(self) -> MasterKeyring:
        """The keys that sign tokens."""
        return self.master_keys or MasterKeyring(MasterKeys(random.token_bytes(32)))

    @cached_property
    def sessions(self) -> Sessions:
        """The sessions of members and console users."""
        return Sessions(self.database, TokenSigner(self.signing_keys))

    @cached_property
    def rate_limits(self) -> RateLimits:
        """The counters of requests."""
        return RateLimits(self.database, self.limits)

    @cached_property
    def encryption(self) -> Encryption:
        """The data keys of apps."""
        return Encryption(self.database, self.master_keys)

    @cached_property
    def secrets(self) -> Secrets:
        """The secrets of apps and of the server."""
        return Secrets(self.encryption, self.master_keys)

    @cached_property
    def events(self) -> Events:
        """The events of apps, and their targets."""
        return Events(self.database)

    @cached_property
    def passwords(self) -> Passwords:
        """Password hashing, in its own threads."""
        return Passwords(memory_kib=self.limits.argon2_memory_kib, passes=self.limits.argon2_passes)

    @cached_property
    def extensions(self) -> Extensions:
        """The extensions of PostgreSQL."""
        return Extensions(self.database)

    @cached_property
    def room(self) -> DiskReserve:
        """The free space that must remain on the database's disk."""
        return DiskReserve(Path(self.settings.data_dir) / "postgres", self.settings.write_reserve_bytes)

    @cached_property
    def blobs(self) -> BlobStore:
        """The object store."""
        return open_blobs(self.settings)

    @cached_property
    def outgoing(self) -> Outgoing:
        """The client for requests that leave the server."""
        settings = self.settings
        return Outgoing(
            OutgoingSettings(
                host=settings.host,
                base_url=self.base_url,
                outgoing_networks=tuple(settings.outgoing_networks),
                egress_networks=tuple(settings.egress_networks),
                ca_file=settings.outgoing_ca_file,
                proxy=settings.outgoing_proxy,
            ),
            own_ports=self.own_ports,
            nodes=lambda: addresses(self.database),
        )

    def outgoing_refused(self) -> dict[str, int]:
        """Return the number of refused outgoing requests, by reason."""
        return dict(self.outgoing.refused) if "outgoing" in self.__dict__ else {}

    async def close_outgoing(self) -> None:
        """Close the connections of outgoing requests, if there were any."""
        if "outgoing" in self.__dict__:
            await self.outgoing.close()

    async def close_blobs(self) -> None:
        """Close the object store, if it was used."""
        if "blobs" in self.__dict__:
            await self.blobs.close()

    async def close_passwords(self) -> None:
        """Stop the threads that hash passwords, if there are any."""
        if "passwords" in self.__dict__:
            self.passwords.close()


def open_floor(settings: Settings, database: Database, own_ports: Iterable[int] = ()) -> Floor:
    """Return the floor of a server, which creates its master key if there is none yet."""
    return _floor(settings, database, master_key.keyring(settings), own_ports)


def command_floor(settings: Settings, database: Database) -> Floor:
    """Return the floor of a command, which may run without the master key."""
    keys = master_key.existing_keys(settings)
    return _floor(settings, database, MasterKeyring(keys) if keys else None)


def open_blobs(settings: Settings) -> BlobStore:
    """Return the object store that the settings configure, two during a move; raises `InvalidStoreUrlError`."""
    from pilotis.blobs.moving import MovingStore

    current = open_blobs_at(settings, settings.blob_store)
    if settings.previous_blob_store is None:
        return current
    return MovingStore(current, open_blobs_at(settings, settings.previous_blob_store))


def open_blobs_at(settings: Settings, url: str | None) -> BlobStore:
    """Return the object store at a URL, None for that in the data directory; raises `InvalidStoreUrlError`."""
    from pilotis.blobs.open import open_store

    return open_store(
        url,
        Path(settings.data_dir),
        access_key=settings.s3_access_key,
        secret_key=settings.s3_secret_key,
        reserve_bytes=settings.upload_reserve_bytes,
        reserve_percent=settings.upload_reserve_percent,
        reserve_least=_least_upload_reserve(settings),
    )


def _least_upload_reserve(settings: Settings) -> int:
    """Return the reserve in bytes that uploads leave on the smallest disks: more than what other writes leave.

    Otherwise the uploads of one app, of which 5 % may be little, would take the space that every app's rows need.
    """
    is_on = settings.upload_reserve_bytes and settings.upload_reserve_percent
    return 2 * settings.write_reserve_bytes if is_on else 0


def _floor(settings: Settings, database: Database, keys: MasterKeyring | None, own_ports: Iterable[int] = ()) -> Floor:
    return Floor(
        settings=settings,
        database=database,
        control=Control(database),
        jobs=Jobs(database),
        master_keys=keys,
        own_ports=frozenset(own_ports),
    )
