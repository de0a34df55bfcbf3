"""Decisions, Requests and answers: what holds for every route, taken from the document of the interface."""

import inspect
import re
import typing
from typing import Any

import msgspec
import pytest

from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.openapi import document
from pilotis.http.api.principals import Access
from pilotis.http.replies.errors import ErrorBody
from pilotis.server import endpoint_table
from tests.console import owner_of
from tests.support import App, assert_error

pytestmark = pytest.mark.share(0.3)

# What tus 1.0.0 lays down is another convention.
ENDPOINTS = [endpoint for endpoint in endpoint_table() if endpoint.tag != "Pages" and "/tus" not in endpoint.path]
DOCUMENT = document(ENDPOINTS, base_url="http://127.0.0.1", version="0")
PAGED = [
    endpoint
    for endpoint in ENDPOINTS
    if endpoint.method == "GET" and endpoint.query is not None and "offset" in endpoint.query.__struct_fields__
]
# Routes that make a thing with a name or an identifier of its own.
# Words of the pipeline's language.
MONGODB = {"_id", "includeArrayIndex", "localField", "preserveNullAndEmptyArrays"}
MAKES = {
    "signup",
    "passkeys",
    "app-members",
    "apps",
    "public",
    "secret",
    "invitations",
    "tables",
    "columns",
    "data",
    "bulk",
}
MAKES |= {"files", "folders", "webs", "domains", "webhooks", "events"}


def name_of(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


def operation(endpoint: Endpoint) -> dict[str, Any]:
    path = re.sub(r"[:*](\w+)", r"{\1}", endpoint.path)
    return DOCUMENT["paths"][path][endpoint.method.lower()]


def properties(node: Any) -> set[str]:
    """The names of every property that a schema in the document has."""
    if isinstance(node, list):
        return {name for item in node for name in properties(item)}
    if not isinstance(node, dict):
        return set()
    own = node.get("properties")
    return (set(own) if isinstance(own, dict) else set()) | properties(list(node.values()))


def test_names_are_in_snake_case():
    names = properties(DOCUMENT)
    assert len(names) > 100
    ours = {name for name in names if not name.startswith("$")} - MONGODB
    assert [name for name in ours if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name)] == []


def structs(kind: Any, found: set[type]) -> set[type]:
    """The structs of which a type consists."""
    origin = typing.get_origin(kind) or kind
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct) and origin not in found:
        found.add(origin)
        for field in msgspec.structs.fields(origin):
            structs(field.type, found)
    for argument in typing.get_args(kind):
        structs(argument, found)
    return found


def test_answers_of_more_than_three_fields_are_made_by_name():
    """Of many fields of the same type two swap unseen."""
    found: set[type] = {ErrorBody}
    for endpoint in endpoint_table():
        structs(endpoint.returns, found)
    assert len(found) > 50
    positional = [
        f"{struct.__module__}.{struct.__qualname__} is not kw_only"
        for struct in found
        if len(msgspec.structs.fields(struct)) > 3
        and any(one.kind is not one.KEYWORD_ONLY for one in inspect.signature(struct).parameters.values())
    ]
    assert positional == []


MAKES |= {
    "keys",
    "clients",
    "register",
    "functions",
    "versions",
    "triggers",
    "members",
    "workflows",
    "trigger",
    "unique",
    "views",
    "teams",
    "tickets",
}
# What is accepted now and done later.
ACCEPTS = {"archives", "branches", "execute", "replay", ":token", "email", "email-sign-in", "messages", "send"}
ACCEPTS |= {"mail-reset"}
ACCEPTING = {"/v1/public/app-members/password-reset", "/v1/auth/password-reset/request", "/v1/apps/import"}


@pytest.mark.parametrize("endpoint", [e for e in ENDPOINTS if e.method == "POST"], ids=name_of)
def test_making_a_named_thing_answers_201_and_any_other_action_200(endpoint: Endpoint):
    last = endpoint.path.rpartition("/")[2]
    is_accepting = last in ACCEPTS or endpoint.path in ACCEPTING
    assert endpoint.status == (201 if last in MAKES else 202 if is_accepting else 200)


@pytest.mark.parametrize("endpoint", [e for e in ENDPOINTS if e.method == "DELETE"], ids=name_of)
def test_a_delete_answers_200_with_a_message_and_what_it_deleted(endpoint: Endpoint):
    assert endpoint.status == 200
    schema = operation(endpoint)["responses"]["200"]["content"]["application/json"]["schema"]
    fields = set(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"])
    assert "message" in fields
    # A column and a domain are known by their name, a page by its path, and the emptied trash by what was in it.
    assert fields & {"id", "name", "tables", "path", "deleted_count"}


def test_no_list_ignores_a_parameter():
    """A filter that is ignored returns everything: `?order_by=`, `?text=eq.a`."""
    lists = [e for e in ENDPOINTS if e.method == "GET" and re.search("(List|Page|Trash|Catalog)$", _returned(e))]
    assert len(lists) > 40
    assert not [name_of(e) for e in lists if e.query is None or not e.query.__struct_config__.forbid_unknown_fields]


def _returned(endpoint: Endpoint) -> str:
    return getattr(endpoint.returns, "__name__", str(endpoint.returns))


@pytest.mark.parametrize("endpoint", PAGED, ids=name_of)
async def test_every_list_is_paged_alike(app: App, endpoint: Endpoint):
    table = await app.table({"a": "int"})
    async with owner_of(app).client(app) as console:
        made = await console.post("/storages/files", json={"name": "files"})
        site = await console.post("/storages/webs", json={"name": "site"})
        function = await console.post("/functions", json={"name": "greet", "runtime": "javascript"})
        workflow = await console.post("/workflows", json={"name": "flow"})
        team = await console.post("/teams", json={"name": "crew"})
        schedule = {"type": "schedule", "cron": "0 4 * * *"}
        trigger = await console.post(f"/functions/{function.json()['id']}/triggers", json=schedule)
    path = endpoint.path.replace(":app_id", app.app_id).replace(":table_id", table)
    path = path.replace("webs/:storage_id", f"webs/{site.json()['id']}").replace(":storage_id", made.json()["id"])
    path = path.replace(":function_id", function.json()["id"]).replace(":workflow_id", workflow.json()["id"])
    path = path.replace(":team_id", team.json()["team_id"])
    path = path.replace(":trigger_id", trigger.json()["id"])
    if ":member_id" in path:
        path = path.replace(":member_id", (await app.member("bob"))["member_id"])
    token = app.console["access_token"] if endpoint.access.is_console else None
    if endpoint.access is Access.SECRET_KEY:
        token = app.secret_key
    if endpoint.access in {Access.MEMBER, Access.ACCOUNT}:
        member = await app.member()
        token = member["access_token"]
        async with owner_of(app).client(app) as console:
            await console.put(f"/teams/{team.json()['team_id']}/members/{member['member_id']}", json={"roles": []})
    async with app.client(token) as client:
        for name in ("limit", "offset"):
            for value in ("-1", "1.5", "1e9", "x", "", "null"):
                answer = await client.get(path, params={name: value})
                assert assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]["field"] == name, value
        for name in ("where", "order_by", "filter", "text"):
            answer = await client.get(path, params={name: "eq.a", "limit": "1"})
            detail = assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]
            assert (detail["field"], detail["code"]) == (name, "UNKNOWN_PARAMETER")
        whole = (await client.get(path)).json()
        (rows,) = (value for value in whole.values() if isinstance(value, list))
        assert (whole["limit"], whole["offset"]) == (20, 0)
        assert len(rows) <= 20
        clamped = (await client.get(path, params={"limit": "1000000"})).json()
        assert clamped["limit"] == 1000
        total_only = (await client.get(path, params={"limit": "0"})).json()
        assert [value for value in total_only.values() if isinstance(value, list)] == [[]]
        assert total_only["total_count"] == whole["total_count"] == clamped["total_count"]
