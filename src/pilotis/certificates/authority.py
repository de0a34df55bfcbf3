"""A certificate authority, by ACME (RFC 8555). Only jobs import this module: its library comes with `pilotis[https]`.

Every method blocks for a bounded time, and raises `OrderError`.
"""

from __future__ import annotations

import contextlib
import functools
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, ParamSpec, TypeVar

import requests
from acme import challenges, client, errors, messages
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from josepy.errors import Error as JoseError
from josepy.jwa import ES256
from josepy.jwk import JWKEC
from requests.adapters import HTTPAdapter

from pilotis.certificates.errors import AccountUnknownError, OrderError

_SECONDS = 20
_NONCE_TRIES = 4
_MAX_TEXT = 500

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Challenge(NamedTuple):
    """What the authority asks for at a name's port 80: the token of the path, and the answer."""

    token: str
    answer: str
    body: Any


class Order(NamedTuple):
    """An order of a certificate, and the challenges that are to be answered; empty if the name is proven already."""

    resource: messages.OrderResource
    challenges: Sequence[Challenge]


def new_key() -> bytes:
    """Return a new private key in PEM: ECDSA with P-256, for an account or a certificate."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _request_of(name: str, key: bytes) -> bytes:
    """Return a request for a certificate of a name, in PEM (RFC 2986)."""
    private = serialization.load_pem_private_key(key, None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    # A common name has at most 64 characters (RFC 5280, appendix A); the names are in the extension.
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)] if len(name) <= 64 else []
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name(subject))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(private, hashes.SHA256())
    )
    return request.public_bytes(serialization.Encoding.PEM)


def _mapped(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Raise `OrderError` for what the library raises; a rejected nonce is tried again (RFC 8555, section 6.5)."""

    @functools.wraps(call)
    def mapped(*arguments: _P.args, **named: _P.kwargs) -> _R:
        for tries_left in reversed(range(_NONCE_TRIES)):
            try:
                return call(*arguments, **named)
            except messages.Error as error:
                if error.code == "badNonce" and tries_left:
                    continue
                if error.code == "accountDoesNotExist":
                    raise AccountUnknownError(_text(error)) from None
                raise OrderError(_text(error)) from None
            except errors.ValidationError as error:
                raise OrderError(_failed(error)) from None
            except errors.TimeoutError:
                raise OrderError("The authority did not finish in time.") from None
            except requests.RequestException as error:
                raise OrderError(f"The authority cannot be reached: {type(error).__name__}.") from None
            except (errors.Error, JoseError, ValueError, KeyError, AttributeError) as error:
                raise OrderError(
                    f"The authority answered in a way that is not understood: {error}"[:_MAX_TEXT]
                ) from None
        raise AssertionError

    return mapped


class _Trusting(HTTPAdapter):
    """Connects with a context of one's own, which trusts more authorities."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **named: Any) -> None:
        super().init_poolmanager(*arguments, ssl_context=self._context, **named)

    def proxy_manager_for(self, proxy: Any, **named: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=self._context, **named)


class Authority:
    """An authority and an account there. `url` is that of the account, None for one that is to be created."""

    @_mapped
    def __init__(self, directory: str, key: bytes, url: str | None, ca_file: str | None, proxy: str | None) -> None:
        private = serialization.load_pem_private_key(key, None)
        self._net = client.ClientNetwork(JWKEC(key=private), alg=ES256, user_agent="pilotis", timeout=_SECONDS)
        # Neither proxies nor credentials of the environment.
        self._net.session.trust_env = False
        if ca_file is not None:
            context = ssl.create_default_context()
            context.load_verify_locations(ca_file)
            self._net.session.mount("https://", _Trusting(context))
        if proxy is not None:
            self._net.session.proxies = {"http": proxy, "https": proxy}
        if url is not None:
            self._net.account = messages.RegistrationResource(uri=url, body=messages.Registration())
        self._client = client.ClientV2(client.ClientV2.get_directory(directory, self._net), self._net)

    def close(self) -> None:
        """Close the connections."""
        self._net.session.close()

    @_mapped
    def register(self, email: str | None) -> str:
        """Create the account, accepting the terms of the authority, and return its URL."""
        wanted = messages.NewRegistration.from_data(email=email, terms_of_service_agreed=True)
        try:
            return str(self._client.new_account(wanted).uri)
        except errors.ConflictError as error:
            return str(error.location)

    @_mapped
    def begin(self, name: str, key: bytes) -> Order:
        """Order a certificate for a name with a key."""
        resource = self._client.new_order(_request_of(name, key))
        pending = [one for one in resource.authorizations if one.body.status != messages.STATUS_VALID]
        return Order(resource, [self._challenge(one) for one in pending])

    def _challenge(self, authorization: messages.AuthorizationResource) -> Challenge:
        for body in authorization.body.challenges:
            if isinstance(body.chall, challenges.HTTP01):
                token = body.chall.encode("token")
                return Challenge(token, body.chall.key_authorization(self._net.key), body)
        raise OrderError("The authority does not offer to look at port 80 (http-01).")

    @_mapped
    def answer(self, challenge: Challenge) -> None:
        """Tell the authority that a challenge can be looked at."""
        self._client.answer_challenge(challenge.body, challenge.body.response(self._net.key))

    @_mapped
    def is_ready(self, order: Order) -> bool:
        """Whether the name is proven; raises `OrderError` if the authority has found otherwise."""
        found = [self._client.poll(one)[0] for one in order.resource.authorizations]
        failed = [one for one in found if one.body.status not in {messages.STATUS_VALID, messages.STATUS_PENDING}]
        if failed:
            raise errors.ValidationError(failed)
        return all(one.body.status == messages.STATUS_VALID for one in found)

    @_mapped
    def finalize(self, order: Order) -> messages.OrderResource:
        """Ask for the certificate of an order whose name is proven."""
        return self._client.begin_finalization(order.resource)

    @_mapped
    def chain(self, finalized: messages.OrderResource) -> str | None:
        """Return the chain of the certificate in PEM; None after a moment in which it was not issued."""
        # The library waits a second before each question.
        deadline = datetime.now() + timedelta(seconds=1.5)  # noqa: DTZ005 - as the library does
        with contextlib.suppress(errors.TimeoutError):
            return str(self._client.poll_finalization(finalized, deadline).fullchain_pem)
        return None

    @_mapped
    def renewal(self, chain: str) -> tuple[datetime | None, datetime]:
        """Return when the authority wants a certificate renewed, if it says so, and when to ask again (RFC 9773)."""
        renew_at, ask_at = self._client.renewal_time(chain.encode())
        return (renew_at.astimezone(UTC) if renew_at else None), ask_at.astimezone(UTC)


def _text(error: messages.Error) -> str:
    parts = [error.detail or error.title or str(error.typ), *(_text(one) for one in error.subproblems or ())]
    return " ".join(parts)[:_MAX_TEXT]


def _failed(error: errors.ValidationError) -> str:
    found = [
        challenge.error
        for authorization in error.failed_authzrs
        for challenge in authorization.body.challenges
        if challenge.error is not None
    ]
    return " ".join(_text(one) for one in found)[:_MAX_TEXT] or "The authority did not accept the name."
