"""Requests to a trigger URL: what becomes of them, and how a function may answer them. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from pilotis.functions.webhook_form import form_of
from pilotis.http.replies.reply import Reply
from pilotis.kit import json
from pilotis.kit.crypto import secret_hash
from pilotis.kit.errors import PilotisError
from pilotis.workflows.paths import follow, parse
from pilotis.workflows.types import Dedupe

MAX_BODY_BYTES = 2**20
MAX_VALUES = 100_000
_MAX_RECORDED = 16 * 1024
_MAX_ID = 255
_SECRET = re.compile(r"signature|hmac|digest|authorization$|^cookie$|^x-public-key$|token|secret|api-key")
_IDS = ("webhook-id", "idempotency-key")
_ANSWER_HEADER = re.compile(r"x-[a-z0-9-]{1,60}")
# What the server itself says about an answer.
_RESERVED = re.compile(r"x-(request-id|ratelimit-.*|content-type-options|frame-options|accel-.*|xss-protection)")
_VALUE = re.compile(r"[\x20-\x7e\t]{0,1000}")
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(\s*;[\x20-\x7e]*)?")
_MAX_HEADERS = 20
# A page that a function composes must not act as a page of this server.
_CONFINED = ((b"content-security-policy", b"sandbox; default-src 'none'"), (b"x-content-type-options", b"nosniff"))


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a trigger URL: headers are keyed by lower-case name, `query` is the query string."""

    method: str
    headers: Mapping[str, str]
    query: str
    body: bytes
    request_id: str = ""

    def form(self) -> tuple[bytes, dict[str, Any]]:
        """Return the arguments of a function in the webhook form."""
        return form_of(self.method, self.headers, self.body, self.parameters())

    def parameters(self) -> dict[str, str]:
        """Return the parameters of the query string; of duplicate names the last counts."""
        return dict(parse_qsl(self.query.replace("%00", "%EF%BF%BD"), keep_blank_values=True, errors="replace"))

    def json(self) -> Any:
        """Return the body as JSON; None if it is not JSON that can be stored."""
        try:
            json.check_values(self.body, MAX_VALUES)
            value = json.decode(self.body)
            # A text with a lone surrogate or a number out of range can be read, but not written.
            json.encode(value)
        except (PilotisError, ValueError, TypeError, msgspec.MsgspecError):
            return None
        return None if b"\\u0000" in self.body and json.has_nul(value) else value

    def input(self) -> dict[str, Any]:
        """Return the execution's input: the body if it is a JSON object, else `raw` with its text.

        `raw_base64` has the bytes of a body that is not UTF-8, or has zeros. An empty body is `{}`.
        """
        if not self.body:
            return {}
        value = self.json()
        if isinstance(value, dict):
            return value
        try:
            if b"\0" not in self.body:
                return {"raw": self.body.decode()}
        except UnicodeDecodeError:
            pass
        text = self.body.decode(errors="replace").replace("\0", "\ufffd")
        return {"raw": text, "raw_base64": base64.b64encode(self.body).decode()}

    def record(self, delivery: str | None) -> dict[str, Any]:
        """Return what an execution keeps of the request: nothing that would let its reader send it again."""
        headers = {name: value for name, value in self.headers.items() if not _SECRET.search(name)}
        return {
            "type": "webhook",
            "method": self.method,
            "delivery_id": delivery[:_MAX_ID] if delivery else None,
            "query": _bounded(self.parameters()),
            "headers": _bounded(headers),
        }

    def packed(self) -> bytes:
        """Return the request as bytes."""
        return msgspec.msgpack.encode(self)

    def delivery(self, dedupe: Dedupe | None) -> str | None:
        """Return what names the delivery, by which a repeated one is recognised; None if nothing does."""
        if dedupe is None:
            return None
        if dedupe.path is not None:
            found = follow(self.json(), parse("$.input" + dedupe.path[1:])[1:])
            return str(found) if isinstance(found, (str, int)) and not isinstance(found, bool) else None
        if dedupe.header is not None:
            return self.headers.get(dedupe.header.lower()) or None
        for name in _IDS:
            if self.headers.get(name):
                return self.headers[name]
        # An event's id is unique within its source only (CloudEvents 1.0, section 3.1.1).
        identity = self.headers.get("ce-id")
        return f"{self.headers.get('ce-source', '')} {identity}" if identity else None


def unpacked(data: bytes) -> Incoming:
    """Return a request of which `packed` made bytes."""
    return msgspec.msgpack.decode(data, type=Incoming)


def hash_of(delivery: str) -> bytes:
    """Return the fixed length under which a delivery is known."""
    return secret_hash(delivery)


def answer_of(result: Any) -> Reply | None:
    """Return the answer that a function's result asks for by `http_response`; None if it asks for none.

    It has a `status` of 200 to 299, `headers`, of which only `content-type` and those with `x-` are sent, and a `body`:
    a text, or a value that is sent as JSON.
    """
    asked = result.get("http_response") if isinstance(result, dict) else None
    if not isinstance(asked, dict):
        return None
    status = asked.get("status", 200)
    if not isinstance(status, int) or isinstance(status, bool) or not 200 <= status <= 299:
        return None
    body = asked.get("body", "")
    is_text = isinstance(body, str)
    content_type = b"text/plain; charset=utf-8" if is_text else b"application/json"
    lines: list[tuple[bytes, bytes]] = []
    headers = asked.get("headers")
    for name, value in list(headers.items())[:_MAX_HEADERS] if isinstance(headers, dict) else ():
        lower = name.lower()
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            continue
        if lower == "content-type" and _MEDIA_TYPE.fullmatch(value):
            content_type = value.encode()
        elif _ANSWER_HEADER.fullmatch(lower) and not _RESERVED.fullmatch(lower):
            lines.append((lower.encode(), value.encode()))
    data = body.encode("utf-8", "replace") if is_text else json.encode(body)
    if status in {204, 205}:
        data = b""
    return Reply(data, status, [*lines, *_CONFINED], content_type)


def dedupe_path(text: str) -> bool:
    """Tell whether a text is a path into a JSON body, such as `$.id`."""
    try:
        parse("$.input" + text[1:])
    except ValueError:
        return False
    return text.startswith(("$.", "$["))


def _bounded(values: dict[str, str]) -> dict[str, str]:
    room, kept = _MAX_RECORDED, {}
    for name, value in values.items():
        room -= len(name) + len(value)
        if room < 0:
            break
        kept[name] = value
    return kept
