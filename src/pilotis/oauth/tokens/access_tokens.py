"""Access tokens as credentials of the server's own routes."""

from __future__ import annotations

import msgspec

from pilotis.apps.service import AppNotFoundError, Apps
from pilotis.db.pool import Database
from pilotis.http.api.challenges import resource_challenge
from pilotis.http.api.principals import (
    DpopRefusedError,
    InvalidTokenError,
    MemberInfo,
    OAuthClient,
    TokenCall,
    TokenFault,
)
from pilotis.kit.crypto import from_base64url
from pilotis.oauth.public_keys import ALGORITHMS
from pilotis.oauth.registry import find_client
from pilotis.oauth.tokens.dpop import InvalidDpopProofError, UseDpopNonceError
from pilotis.oauth.tokens.inspection import Inspection, InvalidOAuthTokenError
from pilotis.oauth.tokens.issuing import ACCESS_TYPE, AccessClaims, InvalidAccessTokenError, Issuer
from pilotis.oauth.tokens.proofs import Proofs


class _Header(msgspec.Struct):
    typ: str


class AccessTokens:
    """Checks access tokens that requests contain."""

    def __init__(self, database: Database, apps: Apps, issuer: Issuer, inspection: Inspection, proofs: Proofs) -> None:
        self._database = database
        self._apps = apps
        self._issuer = issuer
        self._inspection = inspection
        self._proofs = proofs

    async def client_of(self, call: TokenCall) -> OAuthClient | None:
        """Return the client, and the member if there is one, of a request's access token for an app's API.

        None if the request has no OAuth access token. Raises `InvalidTokenError` or `DpopRefusedError`.
        """
        scheme, _, given = (call.header(b"authorization") or "").partition(" ")
        scheme, token = scheme.lower(), given.strip()
        if scheme not in {"bearer", "dpop"} or not _is_access_token(token):
            return None
        try:
            claims = await self._issuer.read_access_token(token, expired=True)
        except InvalidAccessTokenError:
            raise InvalidTokenError(fault=TokenFault.MALFORMED) from None
        try:
            # An expired token of ours still tells which app it was for.
            claims = await self._issuer.read_access_token(token)
            audience = claims.aud if isinstance(claims.aud, list) else [claims.aud]
            if self._issuer.default_resource(claims.app_id) not in audience:
                raise InvalidTokenError("The access token is for another resource.")
            await self.require_bound(call, claims, scheme, token)
            if not await self._inspection.is_valid(claims):
                raise InvalidTokenError(fault=TokenFault.REVOKED)
            app = await self._apps.by_id(claims.app_id)
        except (InvalidTokenError, InvalidAccessTokenError, InvalidOAuthTokenError, AppNotFoundError) as error:
            fault = TokenFault.EXPIRED if isinstance(error, InvalidAccessTokenError) else TokenFault.REVOKED
            known = error if isinstance(error, InvalidTokenError | InvalidOAuthTokenError) else None
            found = known or InvalidTokenError(fault=fault)
            found.headers |= resource_challenge(self._issuer.issuer, claims.app_id, error="invalid_token")
            raise found from None
        except (InvalidDpopProofError, UseDpopNonceError) as error:
            raise dpop_refused(error) from None
        member = None if claims.sid is None else MemberInfo(claims.sub, claims.sid, is_guest=False)
        return OAuthClient(app, claims.client_id, claims.scopes, member, msgspec.to_builtins(claims))

    async def require_bound(self, call: TokenCall, claims: AccessClaims, scheme: str, token: str) -> None:
        """Raise an error unless a bound token is sent with a proof of its key, and any other as a bearer token."""
        if claims.jkt is None:
            if scheme == "dpop":
                raise InvalidOAuthTokenError("The access token is not bound to a key.")
            return
        if scheme != "dpop":
            raise InvalidOAuthTokenError(
                "The access token is bound to a key. Send it with the DPoP scheme and a proof."
            )
        client = await find_client(self._database, claims.client_id, claims.app_id)
        jkt = await self._proofs.key_of(
            claims.app_id,
            (call.scope["method"], call.scope["path"]),
            proof_lines(call),
            call.answer_headers,
            nonce_required=client is not None and client.provider.dpop_nonce == "required",
            access_token=token,
        )
        if jkt != claims.jkt:
            raise InvalidDpopProofError("The access token is bound to another key, or the proof is missing.")


def dpop_refused(error: InvalidDpopProofError | UseDpopNonceError) -> DpopRefusedError:
    """Return the error of a resource for a proof that was refused (RFC 9449, section 7.1)."""
    algorithms = " ".join(ALGORITHMS)
    challenge = f'DPoP error="{error.oauth_code}", algs="{algorithms}"'
    return DpopRefusedError(error.text, error.oauth_code, {"WWW-Authenticate": challenge})


def proof_lines(call: TokenCall) -> list[bytes]:
    """Return the values of a request's `DPoP` headers."""
    return [value for name, value in call.scope["headers"] if name == b"dpop"]


def _is_access_token(token: str) -> bool:
    """Return whether a text has the header of an access token (RFC 9068, section 2.1)."""
    try:
        head = from_base64url(token.partition(".")[0]) or b""
        return msgspec.json.decode(head, type=_Header).typ == ACCESS_TYPE
    except (msgspec.DecodeError, ValueError):
        return False
