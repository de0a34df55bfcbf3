"""Resource indicators (RFC 8707): the APIs that access tokens are for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from pilotis.http.outgoing import Outgoing, Reach
from pilotis.http.outgoing_types import OutgoingError, OutgoingRequest
from pilotis.kit.errors import BadRequestError, ConflictError
from pilotis.oauth.errors import InvalidTargetError
from pilotis.oauth.records import KnownClient

_WELL_KNOWN = "/.well-known/oauth-protected-resource"
_SECONDS = 5.0
_MAX_BYTES = 64 * 1024


class ResourceNotProvenError(BadRequestError):
    """400: the metadata document of an OAuth resource does not name this server and this app (RFC 9728)."""

    code = "RESOURCE_NOT_PROVEN"

    def __init__(self, resource: str, reason: str) -> None:
        super().__init__(f"{metadata_url(resource)} must show that {resource} belongs to this app: {reason}")


class ResourceTakenError(ConflictError):
    """409: the OAuth resource belongs to another app."""

    code = "RESOURCE_TAKEN"
    message = "This resource belongs to another app."


class _Metadata(msgspec.Struct):
    resource: str
    authorization_servers: list[str]
    pilotis_app_id: str


class ResourceProofs:
    """Fetches what resources say of themselves; `issuer` is the server's address."""

    def __init__(self, outgoing: Callable[[], Outgoing], issuer: str) -> None:
        self._outgoing = outgoing
        self._issuer = issuer

    async def require(self, resource: str, app_id: UUID) -> None:
        """Raise `ResourceNotProvenError` unless a resource's own metadata names this server and the app.

        Otherwise one app could have tokens issued that the API of another accepts.
        """
        request = OutgoingRequest(url=metadata_url(resource), method="GET", headers={"Accept": "application/json"})
        try:
            answer = await self._outgoing().send(
                request, reach=Reach.SERVER, seconds=_SECONDS, max_bytes=_MAX_BYTES, tenant=app_id
            )
        except OutgoingError as error:
            raise ResourceNotProvenError(resource, f"the request failed ({error.failure.value}).") from None
        if answer.status != 200 or answer.is_truncated:
            raise ResourceNotProvenError(resource, f"it answered {answer.status}, or more than {_MAX_BYTES} bytes.")
        try:
            found = msgspec.json.decode(answer.body, type=_Metadata)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ResourceNotProvenError(
                resource, "resource, authorization_servers and pilotis_app_id are required."
            ) from None
        if not same_resource(found.resource, resource):
            raise ResourceNotProvenError(resource, "its resource is another URI.")
        if self._issuer not in found.authorization_servers:
            raise ResourceNotProvenError(resource, f"authorization_servers must contain {self._issuer}.")
        if found.pilotis_app_id != str(app_id):
            raise ResourceNotProvenError(resource, f"pilotis_app_id must be {app_id}.")


def own_resources(issuer: str, app_id: UUID | str) -> tuple[str, str]:
    """Return the resources that each app has on this server: its API, which is the default one, and its MCP server.

    A token is for one of them only if the client requested it, so a token for the one does not open the other.
    """
    return f"{issuer}/apps/{app_id}", f"{issuer}/mcp/{app_id}"


def metadata_url(resource: str) -> str:
    """Return where a resource's metadata is: the well-known path comes between host and path (RFC 9728, section 3)."""
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{_WELL_KNOWN}{parts.path.rstrip('/')}"


def check_resource(resource: str, issuer: str) -> None:
    """Raise `ValueError` for a URI that cannot be an API outside of this server (RFC 8707, section 2)."""
    parts = urlsplit(resource)
    if parts.query:
        raise ValueError("A resource must not have a query.")
    if normal_resource(f"{parts.scheme}://{parts.netloc}") == normal_resource(issuer):
        raise ValueError("A resource must not be on this server, which already issues tokens for itself.")


def chosen_resources(client: KnownClient, issuer: str, wanted: Sequence[str]) -> list[str]:
    """Return the resources that a client requests, in their registered form; `issuer` is the server's address.

    A client may be limited to some of the app's resources, and then gets all of them unless it requests fewer. Raises
    `InvalidTargetError`.
    """
    known = [*own_resources(issuer, client.app_id), *client.provider.resources]
    allowed = [one for one in known if one in client.resources] if client.resources else known
    if not wanted:
        return allowed if client.resources else []
    return narrowed_resources(allowed, wanted)


def narrowed_resources(allowed: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the requested resources in their registered form; raises `InvalidTargetError` for any other."""
    chosen = []
    for resource in wanted:
        found = next((known for known in allowed if same_resource(known, resource)), None)
        if found is None:
            raise InvalidTargetError
        chosen.append(found)
    return chosen


def same_resource(one: str, other: str) -> bool:
    """Return whether two URIs are equal but for the host's case and a trailing slash (RFC 3986, section 6.2.3)."""
    return normal_resource(one) == normal_resource(other)


def normal_resource(uri: str) -> str:
    """Return a URI with its host in lower case, and without a trailing slash."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{parts.path.rstrip('/')}?{parts.query}#{parts.fragment}"
