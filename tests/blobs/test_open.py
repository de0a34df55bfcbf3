"""URLs of object stores."""

from pathlib import Path

import pytest

from pilotis.blobs.errors import InvalidStoreUrlError
from pilotis.blobs.local import LocalStore
from pilotis.blobs.objects import ObjectStore
from pilotis.blobs.open import open_store


def presigned(url: str, tmp_path: Path) -> str | None:
    store = open_store(url, tmp_path, access_key="access", secret_key="secret")
    assert isinstance(store, ObjectStore)
    return store.presign_get("key", expires_seconds=60)


def test_directories(tmp_path: Path):
    for url, directory in [
        (None, tmp_path / "blobs"),
        (str(tmp_path / "other"), tmp_path / "other"),
        ((tmp_path / "with space").as_uri(), tmp_path / "with space"),
    ]:
        assert isinstance(open_store(url, tmp_path), LocalStore)
        assert (directory / "objects").is_dir()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("s3://bucket", "https://bucket.s3.us-east-1.amazonaws.com/key?"),
        ("s3://bucket/pre/fix?region=eu-west-1", "https://bucket.s3.eu-west-1.amazonaws.com/pre/fix/key?"),
        ("s3://bucket?addressing=path", "https://s3.us-east-1.amazonaws.com/bucket/key?"),
        ("s3://bucket?endpoint=http://127.0.0.1:9000", "http://127.0.0.1:9000/bucket/key?"),
        ("s3://bucket?endpoint=https://a.test/&addressing=virtual", "https://bucket.a.test/key?"),
        ("s3://bucket?endpoint=http://in:9000&public_endpoint=https://out.test", "https://out.test/bucket/key?"),
    ],
)
def test_where_clients_reach_an_s3_bucket(url: str, address: str, tmp_path: Path):
    assert (presigned(url, tmp_path) or "").startswith(address)


def test_without_keys_nothing_is_presigned(tmp_path: Path):
    store = open_store("s3://bucket?credentials=instance", tmp_path)
    assert store.presign_get("key", expires_seconds=60) is None


def test_other_clouds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    assert presigned("gs://bucket/prefix", tmp_path) is None
    assert presigned("az://container/prefix", tmp_path) is None


NO_STORES = ["ftp://a/b", "http://bucket/a", "s3://", "s3:///a", "s3://bucket/Pre", "s3://bucket/../a", "gs://"]
NO_STORES += [f"s3://bucket?{query}" for query in ("endpiont=http://a", "x", "endpoint=a.test", "addressing=maybe")]


@pytest.mark.parametrize("url", NO_STORES)
def test_what_is_no_store(url: str, tmp_path: Path):
    with pytest.raises(InvalidStoreUrlError):
        open_store(url, tmp_path, access_key="access", secret_key="secret")
