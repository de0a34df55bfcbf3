"""The OpenAPI document: valid, whole, and the one that is served."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs
import pytest
from schemathesis.specs.openapi import definitions

from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.openapi import document
from pilotis.server import endpoint_table
from tests.support import Server

STEP_ID = r"^[a-z0-9_-]{1,64}$"
SUBSCRIPTION_ID = r"^[A-Za-z0-9_.:-]{1,64}$"
REQUEST_ID = r"^[A-Za-z0-9_.:-]{8,128}$"
# What has a name in place of an id, and those who act: members, users, keys, functions.
OF_SEVERAL_FORMS = {
    ".Caller",
    ".ContextEntry",
    ".Creator",
    ".DeletedMailTemplate",
    ".DeletedSuppression",
    ".DeletedType",
    ".DeletedVariable",
    ".EventActor",
    ".InspectedStream",
    ".TestedMember",
}
PROVIDER_ID = "^[A-Za-z0-9._-]+$"
MEMBER_ID = r"^(guest_)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
CLIENT_ID = r"^[\x21-\x7E]+$"
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
    assert count == len(ENDPOINTS) + len([endpoint for endpoint in ENDPOINTS if endpoint.head])
    identifiers = re.findall(r'"operationId": "(\w+)"', json.dumps(DOCUMENT))
    assert len(set(identifiers)) == len(identifiers) == count


def test_each_operation_tells_what_its_endpoint_does():
    found = [endpoint.operation_id for endpoint, operation in operations() if not tells(endpoint, operation)]
    assert not found


def tells(endpoint: Endpoint, operation: dict[str, Any]) -> bool:
    """Whether an operation says of its endpoint what a client has to know."""
    responses = operation["responses"]
    in_path = {given["name"] for given in operation.get("parameters", ()) if given["in"] == "path"}
    schemes = {scheme for requirement in operation["security"] for scheme in requirement}
    return all(
        (
            operation["summary"],
            {str(endpoint.status), "500"} <= responses.keys(),
            all(str(error.status) in responses for error in endpoint.errors),
            ("requestBody" in operation) == (endpoint.body is not None),
            ({"413", "415"} <= responses.keys()) == (endpoint.body is not None) or endpoint.errors,
            ("401" in responses) == bool(endpoint.access.any_of) or endpoint.errors,
            in_path == set(endpoint.parameters),
            schemes <= DOCUMENT["components"]["securitySchemes"].keys(),
            bool(schemes) == bool(endpoint.access.any_of),
            all(response["headers"]["X-Request-Id"] for response in responses.values()),
        )
    )


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


def parts(schema: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each schema within the components, with its place."""
    if isinstance(schema, dict):
        yield place, schema
        for name, part in schema.items():
            yield from parts(part, f"{place}.{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from parts(part, place)


def test_schemas_have_names_that_a_person_would_choose():
    names = list(DOCUMENT["components"]["schemas"])
    assert [name for name in names if not re.fullmatch(r"(OAuth|[A-Z][a-z]+)+", name)] == []
    assert [name for name in names if name.endswith(("Body", "Struct"))] == []


def test_no_field_has_the_name_of_its_schema():
    """openapi-python-client would take one for the other."""
    for name, schema in DOCUMENT["components"]["schemas"].items():
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        assert snake not in schema.get("properties", {}), name


def test_objects_say_what_they_may_hold_and_nothing_is_null_by_default():
    for place, schema in parts(DOCUMENT["components"]["schemas"]):
        assert "default" not in schema or schema["default"] is not None, place
        if schema.get("type") == "object":
            assert "properties" in schema or "additionalProperties" in schema, place


def test_times_and_ids_have_a_format():
    for place, schema in parts(DOCUMENT["components"]["schemas"]):
        for name, field in schema.get("properties", {}).items() if schema.get("type") == "object" else ():
            options = [option for option in field.get("anyOf", [field]) if option.get("type") == "string"]
            if name.endswith(("_at", "_time", "_until")):
                assert all(option.get("format") == "date-time" for option in options), f"{place}.{name}"
            # Whoever asks for the context of a request names any id.
            elif (place, name) == (".RequestContext", "request_id"):
                assert "format" not in field
            # Requests name tables by their titles, too.
            elif name == "table_id" and "title" in field.get("description", ""):
                assert (field["type"], field["maxLength"]) == ("string", 255)
            elif name in {"id", "app_id", "table_id", "file_id", "user_id", "key_id", "request_id"}:
                # Members' ids may have a prefix before the UUID, those of OAuth clients may be URLs, and the authors
                # of workflows, operators of social login, pages that listen and clients choose the ids of steps,
                # providers, subscriptions and requests.
                exact = {option.get("format") or option.get("pattern") for option in options}
                chosen = {STEP_ID, PROVIDER_ID, SUBSCRIPTION_ID, REQUEST_ID}
                free = {None} if place in OF_SEVERAL_FORMS and name == "id" else set()
                assert exact <= {"uuid", MEMBER_ID, CLIENT_ID, *chosen, *free}, f"{place}.{name}"


SCHEMAS = DOCUMENT["components"]["schemas"]


def test_go_and_java_find_no_name_twice():
    """In Go `NewApp` is the constructor of `App`, and a constant's name is its value; a file's name has no capitals."""
    assert [name for name in SCHEMAS if re.match(r"(New|Nullable)[A-Z]", name)] == []
    assert len({name.lower() for name in SCHEMAS}) == len(SCHEMAS)
    constants = [value.lower() for schema in SCHEMAS.values() for value in schema.get("enum", ())]
    assert len(set(constants)) == len(constants)
    assert {"AccessLevel", "ColumnType", "ErrorCode"} <= SCHEMAS.keys()


def test_no_parameter_has_the_name_of_the_body():
    """orval names the arguments of an operation by its path's parameters, and by the schema of its body."""
    for endpoint, operation in operations():
        bodies = re.findall(r'schemas/(\w+)"', json.dumps(operation.get("requestBody", {})))
        assert {name.title().replace("_", "") for name in endpoint.parameters}.isdisjoint(bodies), endpoint.path


def test_numbers_have_64_bits():
    """Without a format Go, Java, Kotlin, Swift and C# use 32 bits, too few for a size or a row count."""
    numbers = [schema for _, schema in parts(DOCUMENT) if schema.get("type") in ("integer", "number")]
    assert len(numbers) > 400
    wide = {"integer": "int64", "number": "double"}
    assert [one for one in numbers if "enum" not in one and one.get("format") != wide[one["type"]]] == []


def test_what_a_request_may_leave_out_has_no_default():
    """openapi-typescript requires a property with a `default`; answers say by `required` what they always contain."""
    assert [
        place for place, schema in parts(DOCUMENT) if "default" in schema and not place.endswith(".properties")
    ] == []
    query = SCHEMAS["Query"]
    assert "required" not in query
    assert query["properties"]["order_direction"]["description"] == 'Default `"asc"`.'
    assert SCHEMAS["DayUsage"]["required"] == list(SCHEMAS["DayUsage"]["properties"])
    assert "details" not in SCHEMAS["Error"]["required"]  # an error without details has none


def test_every_type_exists_in_go_and_java():
    """Go has no type for null alone, Java none for a choice between a list and anything else."""
    for place, schema in parts(DOCUMENT):
        kinds = [one.get("type") for one in schema.get("anyOf", ())]
        for name, field in schema.get("properties", {}).items() if schema.get("type") == "object" else ():
            assert field.get("type") != "null", f"{place}.{name}"
        if "array" in kinds:
            assert sorted({*kinds} - {"null"}) == ["array"], place


def test_further_properties_have_a_type_that_the_named_ones_have():
    """TypeScript's index types include the named properties."""
    for place, schema in parts(DOCUMENT):
        if schema.get("properties") and isinstance(further := schema.get("additionalProperties"), dict):
            options = [resolved(one) for one in further.get("anyOf", [further])]
            assert any({"type", "anyOf", "properties", "enum"}.isdisjoint(one) for one in options), place


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    return SCHEMAS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def resolve(schema: dict[str, Any], given: Any) -> bool:
    validator = jsonschema_rs.validator_for({**schema, "components": DOCUMENT["components"]})
    return validator.is_valid(given)


@pytest.mark.parametrize(
    ("name", "given", "right"),
    [
        ("Where", {"rating": {"$gte": 4}, "$or": [{"a": 1}, {"b": {"$in": [1, None]}}]}, True),
        ("Where", {"$or": {"a": 1}}, False),
        ("Condition", {"$between": [1]}, False),
        ("Stage", {"$group": {"_id": "$a", "n": {"$count": {}}}}, True),
        ("Stage", {"$group": {"n": {"$sum": 1}}}, False),
        ("Stage", {"$lookup": {}}, False),
        ("ColumnDefinition", "string", True),
        ("ColumnDefinition", {"type": "int", "required": True}, True),
        ("ColumnDefinition", {"type": "text"}, False),
        ("Polygon", {"points": [{"latitude": 1, "longitude": 2}]}, True),
        ("Polygon", {"type": "Polygon", "coordinates": [[[1, 2], [3, 4], [5, 6], [1, 2]]]}, True),
        ("Polygon", "north", False),
        ("Near", {"center": {"latitude": 91, "longitude": 0}}, False),
    ],
)
def test_the_languages_are_typed(name: str, given: Any, right: bool):
    assert resolve({"$ref": f"#/components/schemas/{name}"}, given) is right


def test_every_error_code_is_in_the_list():
    codes = DOCUMENT["components"]["schemas"]["ErrorCode"]["enum"]
    described = set(re.findall(r"- `([A-Z_0-9]+)`:", json.dumps(DOCUMENT["paths"])))
    assert described == set(codes)


def test_a_reference_to_a_function_by_id_or_name_is_no_uuid():
    (reference,) = [one for one in SCHEMAS["Step"]["properties"]["function_id"]["anyOf"] if one["type"] == "string"]
    assert "format" not in reference


def test_tus_clients_find_head_and_the_headers_described():
    path = DOCUMENT["paths"]["/v1/uploads/tus/{upload_id}"]
    head = path["head"]
    assert "content" not in head["responses"]["200"]
    assert {"Upload-Offset", "Upload-Length", "Tus-Resumable"} <= head["responses"]["200"]["headers"].keys()
    assert "Tus-Resumable" in {parameter["name"] for parameter in head["parameters"]}
    assert "Upload-Offset" in {parameter["name"] for parameter in path["patch"]["parameters"]}
    assert list(path["patch"]["requestBody"]["content"]) == ["application/offset+octet-stream"]


@pytest.mark.parametrize("base", ["/v1/public", "/v1/apps/{app_id}"])
def test_a_body_of_either_type_is_described_as_each(base: str):
    content = DOCUMENT["paths"][f"{base}/storages/webs/{{storage_id}}/deploy/incremental"]["post"]["requestBody"][
        "content"
    ]
    request = {"$ref": "#/components/schemas/IncrementalDeploy"}
    assert content == {
        "application/json": {"schema": request},
        "multipart/form-data": {"schema": {"$ref": "#/components/schemas/IncrementalForm"}},
    }
    form = DOCUMENT["components"]["schemas"]["IncrementalForm"]["properties"]
    assert form["manifest"] == request
    assert form["file"] == {"type": "array", "items": {"type": "string", "format": "binary"}}


@pytest.mark.parametrize("base", ["/v1/public", "/v1/apps/{app_id}"])
def test_the_form_of_a_deploy_is_described(base: str):
    request = DOCUMENT["paths"][f"{base}/storages/webs/{{storage_id}}/deploy"]["post"]["requestBody"]
    assert request["content"] == {"multipart/form-data": {"schema": {"$ref": "#/components/schemas/DeployForm"}}}
    form = DOCUMENT["components"]["schemas"]["DeployForm"]
    assert form["properties"]["file"] == {"type": "string", "format": "binary"}
    assert form["required"] == ["file"]
