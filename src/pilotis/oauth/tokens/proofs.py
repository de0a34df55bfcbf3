"""The proofs of possession that requests contain; each is valid for one request."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from datetime import UTC, datetime
from uuid import UUID

from pilotis.db.pool import Database
from pilotis.oauth.tokens import dpop, store
from pilotis.oauth.tokens.dpop import InvalidDpopProofError, Nonces, Proof, UseDpopNonceError

_FIRST_EPOCH = datetime.fromtimestamp(0, UTC)

Headers = MutableSequence[tuple[bytes, bytes]]


class Proofs:
    """Checks proofs against the server's address, and stores used ones for all nodes."""

    def __init__(self, database: Database, issuer: str, nonces: Nonces) -> None:
        self._database = database
        self._issuer = issuer
        self._nonces = nonces.since(_FIRST_EPOCH.isoformat().encode())
        self._epoch = _FIRST_EPOCH

    async def key_of(
        self,
        app_id: UUID,
        request: tuple[str, str],
        lines: Sequence[bytes],
        answer_headers: Headers,
        *,
        nonce_required: bool = False,
        access_token: str | None = None,
    ) -> str | None:
        """Return the thumbprint of the key that a request proves; None if it contains no proof.

        `request` is its method and path. The response to a proof without the newest nonce contains that nonce. Raises
        `InvalidDpopProofError` or `UseDpopNonceError`.
        """
        if not lines:
            return None

        def check() -> Proof:
            return dpop.check(
                lines,
                request[0],
                self._issuer + request[1],
                self._nonces,
                nonce_required=nonce_required,
                access_token=access_token,
            )

        try:
            try:
                proof = check()
            except UseDpopNonceError:
                # Another node may have begun an epoch, and issued this nonce.
                if not self._learn(await store.proof_epoch(self._database, app_id)):
                    raise
                proof = check()
            await self._use(app_id, proof)
        except (InvalidDpopProofError, UseDpopNonceError):
            answer_headers.append((b"dpop-nonce", self._nonces.newest().encode()))
            raise
        newest = self._nonces.newest()
        if proof.nonce != newest:
            answer_headers.append((b"dpop-nonce", newest.encode()))
        return proof.jkt

    async def _use(self, app_id: UUID, proof: Proof) -> None:
        """Mark a proof as used for all nodes; raises `InvalidDpopProofError` if it was used before.

        Used proofs are forgotten in a crash of PostgreSQL. Then a new epoch begins: nonces of the previous one are
        rejected, and so, for the time in which they would be accepted, are proofs without a nonce.
        """
        row = await store.use_proof(self._database, app_id, proof.hash, dpop.REMEMBERED_SECONDS)
        if row is None:
            self._learn(await store.begin_proof_epoch(self._database, app_id))
            raise UseDpopNonceError
        is_new_epoch = self._learn(row.began_at)
        if is_new_epoch if proof.nonce is not None else not row.is_settled:
            raise UseDpopNonceError
        if not row.is_new:
            raise InvalidDpopProofError("The proof was used before.")

    def _learn(self, began_at: datetime | None) -> bool:
        """Issue and accept nonces of the current epoch alone; return whether it was not known."""
        if began_at is None or began_at == self._epoch:
            return False
        self._epoch, self._nonces = began_at, self._nonces.since(began_at.isoformat().encode())
        return True
