"""Hashes that other products have made fit their passwords, and costly or malformed ones are rejected."""

import base64
import hashlib

import bcrypt
import pytest
from argon2 import PasswordHasher, Type

from pilotis.kit import foreign_passwords as foreign
from pilotis.kit.foreign_passwords import ForeignHashError
from pilotis.kit.passwords import Passwords

PASSWORD = "correct hörse"
BYTES = PASSWORD.encode()
# The example of Firebase's own program.
FIREBASE = {
    "digest": "lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==",
    "salt": "42xEC+ixf3L2lw==",
    "salt_separator": "Bw==",
    "signer_key": "jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==",
    "rounds": 8,
    "mem_cost": 14,
}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def stored() -> dict[str, str]:
    salt = b"salt of sixteen!"
    made = bcrypt.hashpw(BYTES, bcrypt.gensalt(4)).decode()
    derived = hashlib.scrypt(BYTES, salt=salt, n=1024, r=8, p=1, dklen=32)
    pbkdf2 = hashlib.pbkdf2_hmac("sha256", BYTES, salt, 1000)
    argon = {"time_cost": 2, "memory_cost": 256, "parallelism": 4}
    return {
        "2b": foreign.bcrypt(made),
        # As PocketBase, Supabase and PHP write them.
        "2a": foreign.bcrypt(made.replace("$2b$", "$2a$")),
        "2y": foreign.bcrypt(made.replace("$2b$", "$2y$")),
        "argon2id": foreign.argon2(PasswordHasher(**argon, type=Type.ID).hash(PASSWORD)),
        "argon2i": foreign.argon2(PasswordHasher(**argon, type=Type.I).hash(PASSWORD)),
        "scrypt": foreign.scrypt(f"$scrypt$ln=10,r=8,p=1${b64(salt).rstrip('=')}${b64(derived).rstrip('=')}"),
        "pbkdf2": foreign.pbkdf2_sha256(b64(pbkdf2), b64(salt), 1000),
    }


async def test_each_scheme_fits_its_password_alone():
    passwords = Passwords()
    try:
        for name, text in stored().items():
            assert await passwords.verify(text, PASSWORD), name
            assert not await passwords.verify(text, PASSWORD + "x"), name
            assert foreign.is_foreign(text) is (name != "argon2id")
    finally:
        passwords.close()


def test_firebase_without_its_key():
    text = foreign.firebase_scrypt(**FIREBASE)  # type: ignore[arg-type]
    assert foreign.matches(text, b"user1password")
    assert not foreign.matches(text, b"user2password")
    assert str(FIREBASE["signer_key"])[:20] not in text


def test_what_bcrypt_ignores_is_ignored():
    text = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4)).decode()
    assert foreign.matches(text, b"x" * 80)
    assert not foreign.matches(text, b"a\0b")


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        ("bcrypt", "$2b$31$" + "a" * 53),
        ("bcrypt", "$2x$10$" + "a" * 53),
        ("bcrypt", "$2b$10$short"),
        ("bcrypt", "$2b$10$" + "a" * 53 + "\n"),
        ("argon2", "$argon2id$v=19$m=4194304,t=3,p=1$c2FsdHNhbHRzYWx0c2FsdA$" + "a" * 43),
        ("argon2", "$argon2id$v=19$m=65536,t=999,p=1$c2FsdHNhbHRzYWx0c2FsdA$" + "a" * 43),
        ("argon2", "$argon2d$v=19$m=65536,t=3,p=1$c2FsdHNhbHRzYWx0c2FsdA$" + "a" * 43),
        ("scrypt", "$scrypt$ln=30,r=8,p=1$c2FsdA$" + "a" * 43),
        ("scrypt", "$scrypt$ln=14,r=8,p=999$c2FsdA$" + "a" * 43),
        ("scrypt", "$scrypt$ln=14,r=8,p=1$c2FsdA$"),
    ],
)
def test_a_bomb_or_another_text_is_rejected(scheme: str, text: str):
    with pytest.raises(ForeignHashError):
        getattr(foreign, scheme)(text)


@pytest.mark.parametrize(
    "change", [{"mem_cost": 30}, {"mem_cost": 0}, {"rounds": 999}, {"salt": "?"}, {"signer_key": "aaaa"}]
)
def test_a19_a_bomb_of_firebase_is_rejected(change: dict[str, object]):
    with pytest.raises(ForeignHashError):
        foreign.firebase_scrypt(**{**FIREBASE, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize(("salt", "iterations"), [("c2FsdA==", 10**9), ("c2FsdA==", 0), ("", 1000), ("é", 1000)])
def test_pbkdf2_is_bounded(salt: str, iterations: int):
    with pytest.raises(ForeignHashError):
        foreign.pbkdf2_sha256(b64(bytes(32)), salt, iterations)
