"""The stores under test. Every test has its own directory or bucket prefix."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from pilotis.blobs.objects import ObjectStore
from pilotis.blobs.open import open_store
from pilotis.blobs.protocol import BlobStore
from tests.blobs import swift


@pytest.fixture
async def s3(s3_url: str, tmp_path: Path) -> AsyncIterator[ObjectStore]:
    store = opened(s3_url, tmp_path)
    assert isinstance(store, ObjectStore)
    yield store
    await store.close()


@pytest.fixture(params=["local", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store's URL, for tests that open it more than once."""
    return str(tmp_path / "store") if request.param == "local" else request.getfixturevalue("s3_url")


@pytest.fixture(params=["local", "s3", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BlobStore]:
    """Each implementation; `memory` is the object store's without presigning, as on Google Cloud Storage and Azure."""
    if request.param == "memory":
        made: BlobStore = ObjectStore(MemoryStore())
    else:
        made = opened(None if request.param == "local" else request.getfixturevalue("s3_url"), tmp_path)
    yield made
    await made.close()


def opened(url: str | None, tmp_path: Path) -> BlobStore:
    return open_store(url, tmp_path, access_key=swift.ACCESS_KEY, secret_key=swift.SECRET_KEY)
