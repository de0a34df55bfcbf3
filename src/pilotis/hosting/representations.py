"""Representations of a file: the encoding for a client, validators, ranges (RFC 9110). Pure."""

from __future__ import annotations

import functools
import re
from typing import Literal, NamedTuple

Encoding = Literal["br", "gzip", ""]
BROTLI: Encoding = "br"
GZIP: Encoding = "gzip"
IDENTITY: Encoding = ""
SUFFIXES: dict[Encoding, str] = {"br": "-br", "gzip": "-gz", "": ""}

_MAX_HEADER = 500
_ETAG = re.compile(rb'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_RANGE = re.compile(rb"[ \t]*(\d{0,19})-(\d{0,19})[ \t]*")


class Accepted(NamedTuple):
    """The encodings that a client accepts."""

    brotli: bool
    gzip: bool


NOTHING_ACCEPTED = Accepted(False, False)


class Span(NamedTuple):
    """The bytes [start, end) of a representation."""

    start: int
    end: int


def accepted(header: bytes | None) -> Accepted:
    """Return the encodings that `Accept-Encoding` allows (section 12.5.3); without it only the unencoded bytes."""
    if header is None or len(header) > _MAX_HEADER:
        return NOTHING_ACCEPTED
    return _accepted(header)


@functools.lru_cache(maxsize=1024)
def _accepted(header: bytes) -> Accepted:
    weights: dict[bytes, bool] = {}
    for part in header.lower().split(b","):
        name, _, parameter = part.partition(b";")
        weight = parameter.strip().replace(b" ", b"")
        weights[name.strip()] = not re.fullmatch(rb"q=0(\.0*)?", weight)
    default = weights.get(b"*", False)
    return Accepted(weights.get(b"br", default), weights.get(b"gzip", weights.get(b"x-gzip", default)))


def etag(sha256: bytes, encoding: Encoding) -> bytes:
    """Return a strong validator; each encoding has its own (section 8.8.3.3)."""
    return f'"{sha256.hex()[:32]}{SUFFIXES[encoding]}"'.encode()


def known_etag(if_none_match: bytes | None, sha256: bytes, encoding: Encoding, takes: Accepted) -> bytes | None:
    """Return the validator of a representation that the client already has, by weak comparison (section 13.1.2).

    The one that would be sent comes first; the same bytes in another encoding that the client accepts count as well.
    """
    if if_none_match is None:
        return None
    tag = etag(sha256, encoding)
    if if_none_match == tag or if_none_match.strip() == b"*":
        return tag
    known = {one.removeprefix(b"W/") for one in _ETAG.findall(if_none_match)}
    others = [IDENTITY, *([BROTLI] if takes.brotli else []), *([GZIP] if takes.gzip else [])]
    return next((one for one in (tag, *(etag(sha256, other) for other in others)) if one in known), None)


def span_of(header: bytes | None, if_range: bytes | None, tag: bytes, size: int) -> Span | Literal["invalid"] | None:
    """Return the requested range; None for the whole, `invalid` for one that cannot be satisfied (416).

    A request for several ranges gets the whole, which section 14.2 allows, as does one whose `If-Range` is not met.
    """
    if header is None or (if_range is not None and if_range.strip() != tag):
        return None
    unit, _, ranges = header.partition(b"=")
    if unit.strip().lower() != b"bytes" or b"," in ranges:
        return None
    match = _RANGE.fullmatch(ranges)
    first, last = match.groups() if match else (b"", b"")
    if not first and not last:
        return None
    if first:
        if last and int(last) < int(first):
            return None
        start, end = int(first), min(int(last) + 1, size) if last else size
    else:
        start, end = size - min(int(last), size), size
    return "invalid" if start >= end else Span(start, end)
