"""Keys that are derived from others are those of the standard, whoever computes them."""

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from pilotis.kit.crypto import derive_key


@given(st.binary(min_size=1, max_size=100), st.text())
def test_a_derived_key_is_that_of_hkdf(key: bytes, purpose: str) -> None:
    expected = HKDF(SHA256(), 32, salt=None, info=b"pilotis/" + purpose.encode())
    assert derive_key(key, purpose) == expected.derive(key)
