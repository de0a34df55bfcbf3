"""Presigned URLs: AWS Signature Version 4 in the query string.

"Authenticating Requests: Using Query Parameters (AWS Signature Version 4)" in the Amazon S3 API reference. Implemented
here because obstore signs only the host header: the signature of an upload must also cover its size, type and digest.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

_ALGORITHM = "AWS4-HMAC-SHA256"
LONGEST_SECONDS = 7 * 24 * 3600


class Presigner:
    """Signs URLs of one bucket. `base` is the bucket's URL, to which keys are appended."""

    def __init__(self, base: str, access_key: str, secret_key: str, region: str) -> None:
        parts = urlsplit(base)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.netloc
        self._folder = parts.path.rstrip("/")
        self._access_key = access_key
        self._secret_key = secret_key
        self._region = region

    def sign(
        self,
        method: str,
        key: str,
        *,
        expires_seconds: int,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        now: datetime | None = None,
    ) -> str:
        """Return a URL valid for `expires_seconds` (at most 7 days); without a key it is that of the bucket.

        It is valid only for this method and these headers, whose values are compared with runs of spaces collapsed.
        """
        moment = f"{now or datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        scope = f"{moment[:8]}/{self._region}/s3/aws4_request"
        signed = {"host": self._host} | {name.lower(): " ".join(text.split()) for name, text in (headers or {}).items()}
        parameters = {
            **(query or {}),
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{self._access_key}/{scope}",
            "X-Amz-Date": moment,
            "X-Amz-Expires": str(min(expires_seconds, LONGEST_SECONDS)),
            "X-Amz-SignedHeaders": ";".join(sorted(signed)),
        }
        path = _encode(f"{self._folder}/{key}" if key else self._folder or "/", safe="/")
        asked = "&".join(f"{_encode(name)}={_encode(parameters[name])}" for name in sorted(parameters))
        request = _canonical_request(method, path, asked, signed)
        signature = self._signature(moment, scope, request)
        return f"{self._origin}{path}?{asked}&X-Amz-Signature={signature}"

    def _signature(self, moment: str, scope: str, request: str) -> str:
        key = f"AWS4{self._secret_key}".encode()
        for part in scope.split("/"):
            key = _hmac(key, part)
        digest = hashlib.sha256(request.encode()).hexdigest()
        return _hmac(key, f"{_ALGORITHM}\n{moment}\n{scope}\n{digest}").hex()


def _canonical_request(method: str, path: str, query: str, headers: Mapping[str, str]) -> str:
    names = sorted(headers)
    lines = [f"{name}:{headers[name]}" for name in names]
    return "\n".join([method, path, query, *lines, "", ";".join(names), "UNSIGNED-PAYLOAD"])


def _encode(text: str, safe: str = "") -> str:
    return quote(text, safe=safe + "-_.~")


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
