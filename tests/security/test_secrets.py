"""Secrets of apps and of the server: what opens, and that nothing opens anywhere else."""

from uuid import UUID

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from pilotis.kit.ids import uuid7
from pilotis.security.encryption.cipher import Cipher, DecryptionError
from pilotis.security.encryption.secrets import SERVER, AppSecrets, decrypt
from pilotis.security.encryption.types import Purpose

APP, KEY = UUID(int=1), bytes(range(32))
SECRETS = AppSecrets(APP, KEY)
PURPOSES = st.sampled_from(Purpose)


@given(PURPOSES, st.text(), st.binary())
def test_what_was_encrypted_is_decrypted(purpose: Purpose, name: str, value: bytes):
    encrypted = SECRETS.encrypt(purpose, name, value)
    assert encrypted[0] == 2
    assert len(encrypted) == 1 + 4 + 12 + len(value) + 16
    assert AppSecrets(APP, KEY).decrypt(purpose, name, encrypted) == value
    assert SECRETS.encrypt(purpose, name, value) != encrypted


@given(PURPOSES, st.text(), PURPOSES, st.text())
def test_no_other_place_decrypts_it(purpose: Purpose, name: str, other: Purpose, other_name: str):
    encrypted = SECRETS.encrypt(purpose, name, b"value")
    for owner, key in ((UUID(int=2), KEY), (APP, bytes(32)), (SERVER, KEY)):
        with pytest.raises(DecryptionError):
            decrypt(owner, [key], purpose, name, encrypted)
    if (purpose, name) != (other, other_name):
        with pytest.raises(DecryptionError):
            SECRETS.decrypt(other, other_name, encrypted)


@given(st.binary(max_size=40), st.integers(0, 1000), st.integers(1, 255))
def test_any_change_of_the_bytes_is_noticed(value: bytes, place: int, change: int):
    encrypted = bytearray(SECRETS.encrypt(Purpose.WEBHOOK_SECRET, "n", value))
    encrypted[place % len(encrypted)] ^= change
    with pytest.raises(DecryptionError):
        SECRETS.decrypt(Purpose.WEBHOOK_SECRET, "n", bytes(encrypted))


@given(st.binary(max_size=60))
def test_what_is_no_secret_is_refused(junk: bytes):
    for candidate in (junk, SECRETS.encrypt(Purpose.OAUTH_CLIENT, "n", b"")[: len(junk) % 33]):
        with pytest.raises(DecryptionError):
            SECRETS.decrypt(Purpose.OAUTH_CLIENT, "n", candidate)


def test_a_value_of_a_column_is_none_and_stays_what_it_was():
    cipher, table, row = Cipher(APP, KEY), uuid7(), uuid7()
    column = cipher.encrypt(b"v", table, 1, row)
    assert column[0] == 1
    assert cipher.decrypt(column, table, 1, row) == b"v"
    with pytest.raises(DecryptionError):
        SECRETS.decrypt(Purpose.WEBHOOK_SECRET, "n", column)
    with pytest.raises(DecryptionError):
        cipher.decrypt(SECRETS.encrypt(Purpose.WEBHOOK_SECRET, "n", b"v"), table, 1, row)


def test_the_format_is_the_documented_one():
    """Computed by hand: an own key for each purpose, and owner, purpose and name each with its length."""
    encrypted = SECRETS.encrypt(Purpose.WEBHOOK_HEADERS, "né", b"value")
    hkdf = HKDF(hashes.SHA256(), 32, salt=None, info=b"pilotis/secrets/webhook_headers")
    place = b"\0\0\0\x10" + APP.bytes + b"\0\0\0\x0fwebhook_headers" + b"\0\0\0\x03n\xc3\xa9"
    assert AESGCM(hkdf.derive(KEY)).decrypt(encrypted[5:17], encrypted[17:], place) == b"value"


def test_a_value_that_was_stored_earlier_still_opens():
    """Bytes are kept for years: neither derivation of keys nor place may ever change."""
    stored = bytes.fromhex(
        "029c377aad36fd70ec190af8898b9fff44d1ce5f5484c2f47ff3b5cf4230298c90b913aa0320c0c81617b19fb193"
    )
    assert SECRETS.decrypt(Purpose.WEBHOOK_SECRET, "wh_1", stored) == b"whsec_example"
