"""What browsers are asked for, and the verification of what they answer. Imported with the first passkey. Pure.

Keys are discoverable and verify their user, so that one is two factors: something one has, and a finger, face or code.
Attestation is not asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fido2.server import Fido2Server
from fido2.utils import websafe_encode
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    AuthenticatorData,
    PublicKeyCredentialDescriptor,
    PublicKeyCredentialParameters,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

# ES256, EdDSA and RS256.
_ALGORITHMS = (-7, -8, -257)
# What the library raises for answers of unexpected forms.
_BROKEN = (ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError, OverflowError, RecursionError)


class Site(NamedTuple):
    """Where passkeys of an app work: their domain, and the origins of the pages that may ask for them."""

    name: str
    domain: str
    origins: tuple[str, ...]


class Registered(NamedTuple):
    """A new passkey: its id, what verifies it, and what its authenticator says."""

    credential_id: bytes
    credential: bytes
    sign_count: int
    is_synced: bool


class Used(NamedTuple):
    """A passkey that has signed a challenge."""

    sign_count: int
    is_synced: bool


class InvalidCredentialError(Exception):
    """What a browser answers does not prove a passkey."""


def creation(site: Site, challenge: bytes, member_id: str, name: str, known: Sequence[bytes]) -> dict[str, Any]:
    """Return the options of `navigator.credentials.create`, in JSON's form; `known` are the ids of existing ones."""
    excluded = [PublicKeyCredentialDescriptor(type=PublicKeyCredentialType.PUBLIC_KEY, id=one) for one in known]
    options, _ = _server(site).register_begin(
        PublicKeyCredentialUserEntity(name=name, id=member_id.encode(), display_name=name),
        excluded or None,
        resident_key_requirement=ResidentKeyRequirement.REQUIRED,
        user_verification=UserVerificationRequirement.REQUIRED,
        challenge=challenge,
    )
    return dict(dict(options)["publicKey"])


def request(site: Site, challenge: bytes, allowed: Sequence[bytes] = ()) -> dict[str, Any]:
    """Return the options of `navigator.credentials.get`, in JSON's form; without `allowed` for any passkey."""
    descriptors = [PublicKeyCredentialDescriptor(type=PublicKeyCredentialType.PUBLIC_KEY, id=one) for one in allowed]
    options, _ = _server(site).authenticate_begin(
        descriptors or None, user_verification=UserVerificationRequirement.REQUIRED, challenge=challenge
    )
    return dict(dict(options)["publicKey"])


def registered(site: Site, challenge: bytes, answer: Mapping[str, Any]) -> Registered:
    """Return the passkey that a browser has created; raises `InvalidCredentialError`."""
    try:
        data = _server(site).register_complete(_state(challenge), answer)
        credential = data.credential_data
        if credential is None or credential.public_key.get(3) not in _ALGORITHMS:
            raise InvalidCredentialError
    except _BROKEN as error:
        raise InvalidCredentialError from error
    return Registered(credential.credential_id, bytes(credential), data.counter, _is_synced(data))


def answered(answer: Mapping[str, Any]) -> AuthenticationResponse:
    """Return the answer of a passkey that a browser has used, whose id is `raw_id`; raises `InvalidCredentialError`.

    The library takes most of the time of a sign-in to read one, so it is read once.
    """
    try:
        return AuthenticationResponse.from_dict(answer)
    except _BROKEN as error:
        raise InvalidCredentialError from error


def used(site: Site, challenge: bytes, credential: bytes, sign_count: int, answer: AuthenticationResponse) -> Used:
    """Verify what a passkey has signed; raises `InvalidCredentialError`.

    A counter that does not rise says that the key was copied. One that is synced between devices has none.
    """
    try:
        _server(site).authenticate_complete(_state(challenge), [AttestedCredentialData(credential)], answer)
        data = answer.response.authenticator_data
    except _BROKEN as error:
        raise InvalidCredentialError from error
    is_synced = _is_synced(data)
    if not is_synced and (data.counter or sign_count) and data.counter <= sign_count:
        raise InvalidCredentialError
    return Used(data.counter, is_synced)


@functools.lru_cache(maxsize=256)
def _server(site: Site) -> Fido2Server:
    party = PublicKeyCredentialRpEntity(name=site.name, id=site.domain)
    server = Fido2Server(party, verify_origin=lambda origin: origin in site.origins)
    server.allowed_algorithms = [
        PublicKeyCredentialParameters(type=PublicKeyCredentialType.PUBLIC_KEY, alg=number) for number in _ALGORITHMS
    ]
    return server


def _state(challenge: bytes) -> dict[str, Any]:
    return {"challenge": websafe_encode(challenge), "user_verification": UserVerificationRequirement.REQUIRED}


def _is_synced(data: AuthenticatorData) -> bool:
    return bool(data.flags & AuthenticatorData.FLAG.BS)
