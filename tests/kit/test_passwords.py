"""Password hashes are compatible with other implementations of argon2id."""

import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from pilotis.kit.passwords import MEMORY_KIB, PASSES, Passwords
from pilotis.limits import Limits

PASSWORD = "correct hörse 🐎 " + "x" * 200
REFERENCE = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=1)


def test_passwords_are_hashed_as_owasp_recommends():
    limits = Limits()
    assert (limits.argon2_memory_kib, limits.argon2_passes) == (MEMORY_KIB, PASSES) == (19_456, 2)


async def test_the_reference_implementation_and_ours_read_each_other():
    passwords = Passwords()
    try:
        ours, theirs = await passwords.hash(PASSWORD), REFERENCE.hash(PASSWORD)
        assert REFERENCE.verify(ours, PASSWORD)
        assert not REFERENCE.check_needs_rehash(ours)
        with pytest.raises(VerifyMismatchError):
            REFERENCE.verify(ours, PASSWORD + "x")
        assert await passwords.verify(theirs, PASSWORD)
        assert not await passwords.verify(theirs, PASSWORD + "x")
        assert await passwords.hash(PASSWORD) != ours
    finally:
        passwords.close()


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "nonsense",
        "$argon2id$v=19$m=19456,t=2,p=1$",
        "$argon2id$v=19$m=4294967295,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$aGFzaA",
        "$2b$12$abcdefghijklmnopqrstuu",
        "ü",
    ],
)
async def test_what_is_no_hash_matches_nothing(stored: str):
    passwords = Passwords()
    try:
        assert not await passwords.verify(stored, PASSWORD)
    finally:
        passwords.close()


async def test_a_password_is_one_in_every_normal_form_and_old_hashes_stay_valid():
    composed, decomposed = "caf\u00e9 au lait", "cafe\u0301 au lait"
    passwords = Passwords()
    try:
        for made, typed in ((composed, decomposed), (decomposed, composed)):
            stored = await passwords.hash(made)
            assert await passwords.verify(stored, typed)
            assert await passwords.verify(stored, made)
            assert REFERENCE.verify(stored, composed)
        old = REFERENCE.hash(decomposed)
        assert await passwords.verify(old, decomposed)
        assert not await passwords.verify(old, "cafe au lait")
        assert not await passwords.verify(None, decomposed)
    finally:
        passwords.close()
