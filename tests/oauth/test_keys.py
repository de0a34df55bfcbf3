"""The keys that sign OAuth tokens: how they come, how they are replaced, and that every node knows the same ones."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import KeySet

from pilotis.kit import rs256
from pilotis.kit.errors import UnavailableError
from pilotis.oauth import store
from pilotis.oauth.feature import OAuthFeature
from pilotis.oauth.keys import SigningKeyMissingError, SigningKeyNotFoundError, SigningKeys
from tests import forked
from tests.backstage import run_sql
from tests.services import Services, connected, stale_node
from tests.support import Server
from tests.waiting import PATIENCE, until, wait_until


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two workers, without a key at first."""
    running = Server(tmp_path_factory.mktemp("oauth") / "data", "--workers", "2").start()
    yield running
    running.stop()


@pytest.fixture
async def node(own: Server) -> AsyncIterator[Services]:
    """A further node, which is never notified of changes, on a server that has no keys."""
    await run_sql(own, "delete from pilotis.oauth_keys")
    async with stale_node(own) as services:
        yield services


def keys_of(node: Services) -> SigningKeys:
    return node.features.get(OAuthFeature).keys


def pilotis(server: Server, *arguments: str, status: int = 0, **environment: str) -> str:
    done = forked.run("pilotis", *arguments, *server.place, environment={**os.environ, **environment})
    assert done.returncode == status, done
    return done.stdout + done.stderr


def published(server: Server) -> list[str]:
    answer = httpx.get(f"{server.url}/.well-known/jwks.json")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert all(set(key) == {"kty", "use", "alg", "kid", "n", "e"} for key in answer.json()["keys"])
    return [key["kid"] for key in answer.json()["keys"]]


def published_everywhere(server: Server, *kids: str) -> bool:
    """By whichever worker: a new connection each time, so that either gets its turn."""
    return all(sorted(published(server)) == sorted(kids) for _ in range(8))


async def moved(server: Server, kid: str, **ages: str) -> None:
    """Let a key be older than it is."""
    for column, age in ages.items():
        await run_sql(
            server, f"update pilotis.oauth_keys set {column} = {column} - $2::text::interval where kid = $1", kid, age
        )


def test_the_commands_beside_running_workers(own: Server):
    assert published(own) == []
    assert json.loads(pilotis(own, "oauth", "keys", "export", "--json")) == {"keys": []}
    assert "Create one with `pilotis oauth keys create`" in pilotis(own, "oauth", "keys", "rotate", status=1)
    assert "There is no key" in pilotis(own, "oauth", "keys", "list")
    said = pilotis(own, "oauth", "check", "--url", own.url, status=1)
    assert "FAIL  keys: Create a key with `pilotis oauth keys create`." in said
    assert "FAIL  token endpoint" in said

    first = json.loads(pilotis(own, "oauth", "keys", "create", "--json"))
    assert first["state"] == "signing"
    wait_until(lambda: published_everywhere(own, first["kid"]))
    said = pilotis(own, "oauth", "check", "--url", own.url + "/")
    assert said == "ok    https\nok    discovery\nok    keys\nok    token endpoint\n"
    assert "Replace it with `pilotis oauth keys rotate`" in pilotis(own, "oauth", "keys", "create", status=1)

    second = json.loads(pilotis(own, "oauth", "keys", "rotate", "--json"))
    assert second["state"] == "next"
    wait_until(lambda: published_everywhere(own, first["kid"], second["kid"]))
    assert "has already been published" in pilotis(own, "oauth", "keys", "rotate", status=1)
    listed = json.loads(pilotis(own, "oauth", "keys", "list", "--json"))
    assert [(key["kid"], key["state"]) for key in listed] == [(second["kid"], "next"), (first["kid"], "signing")]

    third = json.loads(pilotis(own, "oauth", "keys", "rotate", "--now", "--json"))
    assert third["state"] == "signing"
    wait_until(lambda: published_everywhere(own, third["kid"]))
    exported = json.loads(pilotis(own, "oauth", "keys", "export"))
    assert [key["kid"] for key in exported["keys"]] == [third["kid"]]


def test_check_tells_what_clients_miss(own: Server):
    # The issuer is compared by characters, as clients do.
    for url, wrong in (
        (own.url.replace("127.0.0.1", "localhost"), "FAIL  issuer: The issuer is"),
        ("http://127.0.0.1:9", "FAIL  discovery: "),
        ("http://provider.invalid", "FAIL  https: "),
    ):
        assert wrong in pilotis(own, "oauth", "check", "--url", url, status=1)
    assert "must begin with https://" in pilotis(own, "oauth", "check", "--url", "file:///etc/passwd", status=2)


async def test_what_is_signed_verifies_by_the_published_keys(own: Server, node: Services):
    keys = keys_of(node)
    with pytest.raises(SigningKeyMissingError):
        await keys.signing()
    made = await keys.create()
    keys.reset()
    key = await keys.signing()
    assert key.kid == made.kid
    token = rs256.sign(key, "at+jwt", {"sub": "m"})
    exported = json.loads(await asyncio.to_thread(pilotis, own, "oauth", "keys", "export"))
    assert jwt.decode(token, KeySet.import_key_set(exported), algorithms=["RS256"]).claims == {"sub": "m"}


async def test_a_new_key_is_published_before_it_signs_and_the_old_one_after(own: Server, node: Services):
    keys = keys_of(node)
    old, new = (await keys.create()).kid, (await keys.rotate()).kid

    async def now() -> tuple[str, set[str], set[str]]:
        keys.reset()
        found = await keys.current()
        assert found.signing is not None
        return found.signing.kid, set(found.published), set(found.known)

    await moved(own, old, signs_from="1 day")
    assert await now() == (old, {old, new}, {old, new})
    await moved(own, new, signs_from="9 minutes")
    assert (await now())[0] == old
    await moved(own, new, signs_from="2 minutes")
    assert await now() == (new, {old, new}, {old, new})
    await moved(own, old, published_until="24 hours 20 minutes")
    assert await now() == (new, {new}, {old, new})
    async with connected(own) as connection:
        await store.delete_expired(connection)
        left = await connection.fetch("select kid from pilotis.oauth_keys where private_key is null")
        assert [row["kid"] for row in left] == [old]
    await moved(own, old, known_until="31 days")
    assert await now() == (new, {new}, {new})
    async with connected(own) as connection:
        await store.delete_expired(connection)
    assert [key.kid for key in await keys.all()] == [new]


async def test_of_20_who_make_the_first_key_one_does(node: Services):
    keys = keys_of(node)
    done = await asyncio.gather(*(keys.create() for _ in range(20)), return_exceptions=True)
    assert Counter(type(one).__name__ for one in done) == {"ShownKey": 1, "SigningKeyExistsError": 19}


async def test_of_5_who_rotate_at_once_one_does(node: Services):
    keys = keys_of(node)
    with pytest.raises(SigningKeyNotFoundError):
        await keys.rotate()
    await keys.create()
    done = await asyncio.gather(*(keys.rotate() for _ in range(5)), return_exceptions=True)
    assert Counter(type(one).__name__ for one in done) == {"ShownKey": 1, "SigningKeyExistsError": 4}


async def test_the_private_key_is_stored_encrypted_alone(own: Server, node: Services):
    keys = keys_of(node)
    await keys.create()
    keys.reset()
    key = await keys.signing()
    stored: bytes = await run_sql(own, "select private_key from pilotis.oauth_keys")
    assert stored[0] == 2
    assert b"PRIVATE" not in stored
    assert key.pem()[100:140] not in stored
    # At another key's place it does not open.
    await run_sql(own, "update pilotis.oauth_keys set private_key = private_key || '\\x00'")
    keys.reset()
    with pytest.raises(SigningKeyMissingError):
        await keys.signing()
    assert list((await keys.current()).published) == [key.kid]


async def test_changes_of_keys_are_in_the_audit_log(own: Server, node: Services):
    made = await keys_of(node).create()
    query = "select count(*) from pilotis.audit_log where action = 'oauth_key.create' and target = $1"
    assert await run_sql(own, query, made.kid) == 1


def pem(key: Any) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def test_keys_of_the_environment_win(tmp_path: Path):
    first, second = (pem(rsa.generate_private_key(65537, 2048)) for _ in range(2))
    kids = [rs256.from_pem(text.encode()).kid for text in (first, second)]
    server = Server(tmp_path / "data").start()
    try:
        made = json.loads(pilotis(server, "oauth", "keys", "create", "--json"))["kid"]
        server.stop()
        server.environment = {"OAUTH_RSA_PRIVATE_KEY_PEM": (first + second).replace("\n", "\\n")}
        server.start()
        assert published(server) == [*kids, made]
        for action in ("create", "rotate"):
            said = pilotis(server, "oauth", "keys", action, status=1, **server.environment)
            assert "OAUTH_RSA_PRIVATE_KEY_PEM is set" in said
        server.stop()
        server.environment = {"OAUTH_RSA_PRIVATE_KEY_PEM": ""}
        server.start()
        assert published(server) == [made]
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense", "one or more private keys in PEM"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "not an RSA key"),
        (pem(rsa.generate_private_key(65537, 1024)), "2048 to 8192 bits"),
        (pem(rsa.generate_private_key(65537, 2048)) + "and more", "and nothing else"),
    ],
)
def test_a_key_of_the_environment_that_is_unfit_stops_the_start(tmp_path: Path, text: str, says: str):
    done = subprocess.run(
        [sys.executable, "-m", "pilotis", "serve", "--data-dir", str(tmp_path / "data"), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "OAUTH_RSA_PRIVATE_KEY_PEM": text},
    )
    assert done.returncode == 2
    assert "OAUTH_RSA_PRIVATE_KEY_PEM" in done.stderr
    assert says in done.stderr


async def test_a_stolen_key_is_not_accepted_because_a_read_failed(node: Services, monkeypatch: pytest.MonkeyPatch):
    """The notice of a rotation is not forgotten with the read that it caused."""
    keys = keys_of(node)
    stolen = (await keys.create()).kid
    assert set((await keys.current()).known) == {stolen}
    replacing = (await keys.rotate(at_once=True)).kid
    keys.reset()
    reading = store.keys

    async def failing(_: Any) -> list[Any]:
        raise UnavailableError

    monkeypatch.setattr(store, "keys", failing)
    with pytest.raises(UnavailableError):
        await keys.current()
    monkeypatch.setattr(store, "keys", reading)
    assert set((await keys.current()).known) == {replacing}


async def test_keys_read_before_a_change_are_not_cached_after_it(node: Services, monkeypatch: pytest.MonkeyPatch):
    keys = keys_of(node)
    stolen = (await keys.create()).kid
    reading = store.keys

    async def overtaken(connection: Any) -> list[Any]:
        monkeypatch.setattr(store, "keys", reading)
        rows = await reading(connection)
        await keys.rotate(at_once=True)
        keys.reset()
        return rows

    keys.reset()
    monkeypatch.setattr(store, "keys", overtaken)
    assert stolen in (await keys.current()).known
    assert stolen not in (await keys.current()).known


async def test_a_node_that_hears_of_nothing_reads_the_keys_again_in_time(node: Services, monkeypatch):
    keys = keys_of(node)
    assert (await keys.current()).signing is None
    await SigningKeys(node.database, node.floor.secrets).create()
    assert (await keys.current()).signing is None
    monkeypatch.setattr("pilotis.oauth.keys.CACHED_SECONDS", 0.0)
    keys.reset()
    await until(keys.signing)
