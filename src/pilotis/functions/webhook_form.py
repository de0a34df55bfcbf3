"""The webhook form of a function, which receives the raw body and a context, and may reject the request. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from pilotis.functions.types import Rejection, WebhookRequest
from pilotis.kit.errors import invalid

# Hop-by-hop headers (RFC 9110, section 7.6.1), and the cookies of this server's host: they sign a browser in at pages
# of other apps.
_WITHHELD = {
    "connection", "cookie", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade",
}  # fmt: skip


def webhook_context(request: WebhookRequest) -> tuple[bytes, dict[str, Any]]:
    """Return the payload, which is the body as a JSON string, and the context of a request."""
    if request.body_base64 is not None:
        try:
            body = base64.b64decode(request.body_base64, validate=True)
        except (ValueError, binascii.Error):
            raise invalid("as_webhook.body_base64", "as_webhook.body_base64: must be base64.") from None
    else:
        body = (request.body or "").encode("utf-8", "surrogatepass")
    return form_of(request.method, request.headers, body, {})


def form_of(
    method: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]
) -> tuple[bytes, dict[str, Any]]:
    """Return the arguments of a function in the webhook form; it gets no cookies."""
    text = body.decode("utf-8", "replace")
    context = {
        "headers": {name.lower(): value for name, value in headers.items() if name.lower() not in _WITHHELD},
        "method": method,
        "query": dict(query),
        "rawBody": text,
        "rawBodyBase64": base64.b64encode(body).decode(),
    }
    return msgspec.json.encode(text), context


def rejection_of(result: bytes) -> Rejection | None:
    """Return the rejection in a result: an object with a non-null `error` and a `status`; None if there is none."""
    value = msgspec.json.decode(result)
    if not isinstance(value, dict) or value.get("error") is None or "status" not in value:
        return None
    status, error = value["status"], value["error"]
    is_status = isinstance(status, int) and not isinstance(status, bool) and 400 <= status <= 599
    message = error if isinstance(error, str) else msgspec.json.encode(error).decode()
    return Rejection(status if is_status else 400, message[:2000])
