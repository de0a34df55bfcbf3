"""The running server against its own OpenAPI document, with generated requests."""

import itertools
import re
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from pilotis.http.api.openapi import document
from pilotis.server import endpoint_table
from tests.conftest import new_app
from tests.support import Server
from tests.waiting import PATIENCE
from tests.whole import WHOLE, sample, times

# `pyproject.toml` keeps it from all other files.
pytest_plugins = ["schemathesis.pytest.plugin"]

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
BOUNDED = settings(
    max_examples=times(2, whole=48),
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
# The bytes of a resumable upload are sent as they are.
schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")
_turns = itertools.cycle([True, True, False])
_connection = requests.Session()


ENDPOINTS = [endpoint for endpoint in endpoint_table() if endpoint.tag != "Pages"]
DOCUMENT = document(ENDPOINTS, base_url="http://127.0.0.1:8090", version="0")
LABELS = [f"{method.upper()} {path}" for path, methods in DOCUMENT["paths"].items() for method in methods]
OF_MEMBERS = "app-members/(me|signout)|signup"
# `test_examples` and `test_matrix` send something to others.
CHOSEN = {*sample(LABELS, 0.06), *sample([label for label in LABELS if re.search(OF_MEMBERS, label)], 0.03)}
schema = schemathesis.openapi.from_dict(DOCUMENT).exclude(lambda context: context.operation.label not in CHOSEN)
if not WHOLE:
    # `test_conventions` sends each route's other methods.
    schema.config.phases.coverage.unexpected_methods = set()


@pytest.fixture
def things(server: Server, console: dict[str, str]) -> dict[str, str]:
    """A fresh app's credentials, and ids of things in it."""
    return things_of_new_app(server, console)


def things_of_new_app(server: Server, console: dict[str, str]) -> dict[str, str]:
    """Make an app, and return its credentials, and ids of things in it."""
    app = new_app(server, console)
    with httpx.Client(base_url=server.url, headers={"X-Public-Key": app.public_key}) as client:
        columns = {"name": "string", "price": "number", "count": "int", "at": "date", "tags": "array", "more": "object"}
        body = {"title": "table", "schema": columns, "access_level": "Public"}
        table_id = client.post("/v1/public/tables", json=body).json()["id"]
        data = {"data": {"name": "x", "price": 1.5, "count": 1, "at": "2026-01-01", "tags": ["a"], "more": {"a": 1}}}
        row_id = client.post(f"/v1/public/tables/{table_id}/data", json=data).json()["id"]
        member = client.post("/v1/public/app-members").json()
    return {
        "url": server.url,
        "public_key": app.public_key,
        "access_token": member["access_token"],
        "app_id": app.app_id,
        "table_id": table_id,
        "row_id": row_id,
        "name": "name",
        "member_id": member["member_id"],
    }


def exercise(case: Any, things: dict[str, str], bearer: str | None) -> None:
    """Send the case, two times of three with ids that exist."""
    if next(_turns):
        for name in case.path_parameters.keys() & things.keys():
            case.path_parameters[name] = things[name]
    for header in ("Authorization", "X-Public-Key"):
        case.headers.pop(header, None)
    headers = {"X-Public-Key": things["public_key"]}
    if bearer:
        headers["Authorization"] = f"Bearer {bearer}"
    case.call_and_validate(
        base_url=things["url"], headers=headers, checks=CHECKS, timeout=PATIENCE, session=_connection
    )


@schema.exclude(path_regex="^/v1/a").parametrize()
@BOUNDED
def test_as_the_public(case: Any, things: dict[str, str]) -> None:
    exercise(case, things, None)


@schema.include(path_regex=OF_MEMBERS).parametrize()
@BOUNDED
def test_as_a_member(case: Any, things: dict[str, str]) -> None:
    exercise(case, things, things["access_token"])


# A stream of events has no end that a client could wait for.
@schema.include(path_regex="^/v1/a").exclude(path_regex="/events/stream$").parametrize()
@BOUNDED
def test_as_a_console_user(case: Any, things: dict[str, str], console: dict[str, str]) -> None:
    exercise(case, things, console["access_token"])
