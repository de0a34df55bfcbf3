"""The OpenAPI document: valid, whole, and the one that is served."""

import json
import re
from typing import Any

import httpx
import jsonschema_rs
import pytest
from schemathesis.specs.openapi import definitions

from pilotis.http.endpoint import Endpoint
from pilotis.http.openapi import document
from pilotis.http.principals import Access
from pilotis.server import endpoint_table
from tests.support import Server

ENDPOINTS = [endpoint for endpoint in endpoint_table() if endpoint.tag != "Pages"]
DOCUMENT = json.loads(json.dumps(document(ENDPOINTS, base_url="http://127.0.0.1:8090", version="1.2.3")))


def operations() -> list[tuple[Endpoint, dict[str, Any]]]:
    found = []
    for endpoint in ENDPOINTS:
        path = re.sub(r"[:*](\w+)", r"{\1}", endpoint.path)
        found.append((endpoint, DOCUMENT["paths"][path][endpoint.method.lower()]))
    return found


def test_it_satisfies_the_meta_schema():
    definitions.OPENAPI_31_VALIDATOR.validate(DOCUMENT)
    broken = {**DOCUMENT, "info": {"title": "no version"}}
    with pytest.raises(jsonschema_rs.ValidationError):
        definitions.OPENAPI_31_VALIDATOR.validate(broken)


def test_every_reference_leads_somewhere():
    references = set(re.findall(r'"#/components/(\w+)/([^"]+)"', json.dumps(DOCUMENT)))
    assert {group for group, _ in references} == {"schemas", "headers"}
    for group, name in references:
        assert name in DOCUMENT["components"][group]


def test_every_schema_is_a_json_schema():
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema_rs.meta.validate({**schema, "$schema": "https://json-schema.org/draft/2020-12/schema"})


def test_every_endpoint_is_there_once():
    count = sum(len(path) for path in DOCUMENT["paths"].values())
    assert count == len(ENDPOINTS)
    identifiers = [operation["operationId"] for _, operation in operations()]
    assert len(set(identifiers)) == len(identifiers)


@pytest.mark.parametrize(("endpoint", "operation"), operations(), ids=lambda value: getattr(value, "path", ""))
def test_an_operation_tells_what_its_endpoint_does(endpoint: Endpoint, operation: dict[str, Any]):
    responses = operation["responses"]
    assert operation["summary"]
    assert {str(endpoint.status), "500"} <= responses.keys()
    assert all(str(error.status) in responses for error in endpoint.errors)
    assert ("requestBody" in operation) == (endpoint.body is not None)
    assert ({"413", "415"} <= responses.keys()) == (endpoint.body is not None) or endpoint.errors
    assert ("401" in responses) == (endpoint.access is not Access.OPEN) or endpoint.errors
    in_path = {given["name"] for given in operation.get("parameters", ()) if given["in"] == "path"}
    assert in_path == set(endpoint.parameters)
    schemes = {scheme for requirement in operation["security"] for scheme in requirement}
    assert schemes <= DOCUMENT["components"]["securitySchemes"].keys()
    assert bool(schemes) == (endpoint.access is not Access.OPEN)
    for response in responses.values():
        assert response["headers"]["X-Request-Id"]


def test_a_code_stands_with_its_status():
    responses = DOCUMENT["paths"]["/v1/public/app-members/signup"]["post"]["responses"]
    assert "`LOGIN_ID_TAKEN`" in responses["409"]["description"]
    assert "`PUBLIC_KEY_REQUIRED`" in responses["401"]["description"]
    assert "`RATE_LIMITED`" in responses["429"]["description"]


async def test_it_is_served(server: Server):
    async with httpx.AsyncClient(base_url=server.url) as client:
        answer = await client.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    served = answer.json()
    assert served["servers"] == [{"url": server.url}]
    assert served["paths"] == DOCUMENT["paths"]
    assert served["components"] == DOCUMENT["components"]
