"""What the OpenAPI description says of the requests of a page."""

import functools
import json
import re
from urllib.parse import parse_qsl, urlsplit

from pilotis.http.api.openapi import document
from pilotis.server import endpoint_table


@functools.cache
def _described() -> list[tuple[str, re.Pattern[str], frozenset[str]]]:
    """The method, path and query parameters of each operation in the OpenAPI description."""
    endpoints = [endpoint for endpoint in endpoint_table() if endpoint.tag != "Pages"]
    paths = json.loads(json.dumps(document(endpoints, base_url="http://127.0.0.1", version="1.0.0")))["paths"]
    whole = {re.sub(r"[:*](\w+)", r"{\1}", endpoint.path) for endpoint in endpoints if "*" in endpoint.path}
    found = []
    for path, operations in paths.items():
        last = re.sub(r"\{\w+\}$", ".+", path) if path in whole else path
        pattern = re.compile(re.sub(r"\{\w+\}", "[^/]+", last))
        for method, operation in operations.items():
            query = frozenset(one["name"] for one in operation.get("parameters", []) if one["in"] == "query")
            found.append((method.upper(), pattern, query))
    return found


_CALLBACK = re.compile("/v1/public/oauth/[a-z]+/callback")


def undescribed(method: str, url: str) -> list[str]:
    """What the OpenAPI description does not have of a request to the interface: its path and method, or a parameter."""
    parts = urlsplit(url)
    # Where vendors send browsers is a page.
    if not parts.path.startswith("/v1/") or _CALLBACK.fullmatch(parts.path):
        return []
    fits = [query for one, path, query in _described() if one == method and path.fullmatch(parts.path)]
    if not fits:
        return [f"The OpenAPI description has no {method} {parts.path}"]
    unknown = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)} - frozenset().union(*fits)
    return [f"The OpenAPI description has no {name} in {method} {parts.path}" for name in sorted(unknown)]
