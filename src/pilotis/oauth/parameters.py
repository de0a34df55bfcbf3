"""Parses request parameters from a query string or a form (RFC 6749, sections 3.1 and 3.2). Pure."""

from __future__ import annotations

from collections import Counter
from urllib.parse import parse_qsl

import msgspec

from pilotis.oauth.errors import InvalidRequestError

_MAX_FIELDS = 200
MAX_BYTES = 64 * 1024
CODE_PREFIX = "ac_"
PUSHED_PREFIX = "urn:ietf:params:oauth:request_uri:"


class Parameters(msgspec.Struct, frozen=True):
    """The parameters by name, each once; only `resource` may be repeated (RFC 8707, section 2).

    A parameter without a value counts as absent.
    """

    values: dict[str, str]
    resources: list[str]

    def get(self, name: str) -> str | None:
        """Return a parameter, or None if it is absent."""
        return self.values.get(name)

    def need(self, name: str) -> str:
        """Return a parameter; raises `InvalidRequestError` if it is absent."""
        value = self.values.get(name)
        if value is None:
            raise InvalidRequestError(f"The parameter {name} is missing.")
        return value


def parse(text: bytes) -> Parameters:
    """Return the parameters of percent-encoded text; raises `InvalidRequestError`, also for a repeated one."""
    if len(text) > MAX_BYTES:
        raise InvalidRequestError("The parameters are too long.")
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise InvalidRequestError("The parameters must be percent-encoded UTF-8, as name=value joined by &.") from None
    if any("\0" in value for _, value in pairs):
        raise InvalidRequestError("A parameter contains the character U+0000.")
    twice = [name for name, number in Counter(name for name, _ in pairs if name != "resource").items() if number > 1]
    if twice:
        shown = twice[0] if twice[0].isidentifier() else "one"
        raise InvalidRequestError(f"A parameter is repeated: {shown[:40]}.")
    return Parameters(
        {name: value for name, value in pairs if value and name != "resource"},
        list(dict.fromkeys(value for name, value in pairs if value and name == "resource")),
    )
