"""Functions, sections 2, 3, 6 and 8: versions, variables, the app's API, logs."""

import asyncio
import base64
import json
from uuid import UUID

import httpx
import pytest

from pilotis.functions.runtime.policy import Isolation
from pilotis.http.api.openapi import document
from pilotis.server import endpoint_table
from tests.background import run_task
from tests.backstage import run_sql
from tests.console import second_node, set_limits
from tests.functions.support import Functions
from tests.hosting.sites import zipped
from tests.support import App, assert_error, plain_client
from tests.waiting import until
from tests.workflows.support import Workflows

ONE, TWO = "export default () => 1", "export default () => 2"


async def test_a_new_version_is_called_at_once_and_an_earlier_one_again_after_a_rollback(functions: Functions):
    function_id = await functions.made("greet", "export default () => 1")
    assert await functions.value("greet") == 1
    second = await functions.deploy(function_id, "export default () => 2", message="two")
    assert (second.json()["version"], second.json()["is_active"]) == (2, True)
    assert await functions.value("greet") == 2
    third = await functions.deploy(function_id, "export default () => 3", activate=False)
    assert third.json()["is_active"] is False
    assert await functions.value("greet") == 2
    path = f"{functions.base}/{function_id}"
    rolled = await functions.console.post(f"{path}/versions/1/activate")
    assert rolled.json()["active_version"] == 1
    assert await functions.value("greet") == 1
    listed = (await functions.console.get(f"{path}/versions")).json()
    assert [(one["version"], one["is_active"]) for one in listed["data"]] == [(3, False), (2, False), (1, True)]
    called = await functions.console.post(f"{path}/invoke", json={"version": 3})
    assert called.json()["result"] == 3
    assert_error(await functions.console.post(f"{path}/versions/9/activate"), 404, "VERSION_NOT_FOUND")
    # By its name as by its id.
    source = (await functions.console.get(f"{functions.base}/greet/versions/2/source")).json()
    assert source == {"files": {"index.js": "export default () => 2"}}
    renamed = await functions.console.patch(f"{functions.base}/greet", json={"name": "welcome"})
    assert renamed.json()["id"] == function_id
    assert (await functions.console.get(f"{functions.base}/welcome")).json()["id"] == function_id
    assert_error(await functions.console.get(f"{functions.base}/greet"), 400, "INVALID_ID")


async def test_the_console_calls_as_a_client_does_and_is_recorded_as_itself(functions: Functions):
    function_id = await functions.made("asks", "export default (p, ctx) => [ctx.trigger.type, ctx.caller.type];")
    called = await functions.console.post(f"{functions.base}/{function_id}/invoke", json={})
    assert called.json()["result"] == ["invoke", "console_user"]
    path = f"{functions.base}/{function_id}/executions/{called.json()['execution_id']}"

    async def recorded() -> str | None:
        return (await functions.console.get(path)).json().get("trigger")

    assert await until(recorded) == "console"


def test_both_statuses_of_a_deployment_are_described():
    described = document(endpoint_table(), base_url="http://127.0.0.1", version="0")["paths"]
    responses = described["/v1/apps/{app_id}/functions/{function_id}/versions"]["post"]["responses"]
    assert {"201", "202"} <= set(responses)
    assert responses["201"]["content"] == responses["202"]["content"]


@pytest.mark.parametrize("form", [False, True])
async def test_a_repeated_deployment_creates_one_version(functions: Functions, form: bool):
    function_id = await functions.create("greet")
    path, key = f"{functions.base}/{function_id}/versions", {"Idempotency-Key": "deploy-greet"}

    archives = {source: zipped({"index.js": source.encode()}) for source in (ONE, TWO)}

    async def deploy(source: str) -> httpx.Response:
        if form:
            # Each request has another boundary.
            files = {"file": archives[source]}
            return await functions.console.post(path, files=files, data={"message": "one"}, headers=key)
        body = {"files": {"index.js": source}, "message": "one"}
        return await functions.console.post(path, json=body, headers=key)

    answers = await asyncio.gather(*(deploy(ONE) for _ in range(3)))
    assert [answer.status_code for answer in answers] == [201] * 3, answers[0].text
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotent-replayed" in answer.headers for answer in answers) == 2
    assert_error(await deploy(TWO), 409, "IDEMPOTENCY_KEY_REUSED")
    # The process dies between the deployment and its answer.
    lost = "update pilotis.idempotency_keys set status = null, reply = null where app_id = $1"
    await run_sql(functions.app.server, lost, UUID(functions.app.app_id))
    again = await deploy(ONE)
    assert (again.status_code, again.json()) == (201, answers[0].json())
    assert again.headers["idempotent-replayed"] == "true"
    assert (await functions.console.get(path)).json()["total_count"] == 1


async def test_a_draft_is_its_users_alone(functions: Functions):
    function_id = await functions.made("greet", "export default () => 'active'")
    path = f"{functions.base}/{function_id}"
    for text in ("first", "second"):
        files = {"files": {"index.js": f"export default () => '{text}'"}}
        assert (await functions.console.put(f"{path}/draft", json=files)).json()["version"] == "draft"
        called = await functions.console.post(f"{path}/invoke", json={"version": "draft"})
        assert called.json()["result"] == text
        read = (await functions.console.get(f"{path}/draft")).json()
        assert read["files"] == files["files"]
        assert read["stored_at"]
    assert await functions.value("greet") == "active"
    key = {"Authorization": f"Bearer {functions.app.secret_key}"}
    async with plain_client(functions.app.server.url, **key) as other:
        answer = await other.post(f"{path}/invoke", json={"version": "draft"})
        read = (await other.get(f"{path}/draft")).json()
    assert_error(answer, 404, "VERSION_NOT_FOUND")
    assert read == {"files": None, "stored_at": None}


async def test_source_that_cannot_be_loaded_makes_no_version(functions: Functions):
    javascript, python = await functions.create("js"), await functions.create("py", "python")
    for function_id, source, text in [
        (javascript, "export default (", "index.js"),
        (javascript, "import './absent.js'; export default () => 1", "absent.js"),
        (
            javascript,
            "import z from 'https://packages.example.com/z.js'; export default () => 1",
            "packages.example.com",
        ),
        (javascript, "export const other = 1", "exports no function"),
        (python, "def handler(:", "main.py"),
        (python, "import absent", "absent"),
        (python, "x = 1", "no function"),
    ]:
        body = assert_error(await functions.deploy(function_id, source), 400, "SOURCE_INVALID")
        assert text in body["message"], body
    for function_id in (javascript, python):
        assert (await functions.console.get(f"{functions.base}/{function_id}")).json()["latest_version"] == 0


async def test_files_that_cannot_be_are_refused(functions: Functions):
    function_id = await functions.create("greet")
    for files, code in [
        ({}, "VALIDATION_FAILED"),
        ({"other.js": "1"}, "ENTRYPOINT_NOT_FOUND"),
        ({"index.js": "1", "../up.js": "1"}, "VALIDATION_FAILED"),
        ({"index.js": "1", "/etc/passwd": "1"}, "VALIDATION_FAILED"),
        ({"index.js": "1", "index.js/a.js": "1"}, "VALIDATION_FAILED"),
    ]:
        assert_error(await functions.deploy(function_id, files), 400, code)
    answer = await functions.deploy(function_id, {"main.py": "def handler(p, c): return 1"})
    message = assert_error(answer, 400, "ENTRYPOINT_NOT_FOUND")["message"]
    assert message.startswith("This function's runtime is javascript")
    assert "index.mjs or index.cjs" in message
    assert "main.py is one for another runtime." in message
    assert_error(await functions.deploy(function_id, {"index.js": "x" * 10_485_761}), 413, "PAYLOAD_TOO_LARGE")
    path = f"{functions.base}/{function_id}/versions"
    for archive in (b"no zip", zipped({"../up.js": b"1"}), zipped({"index.js": bytes(9_000_000)})):
        answer = await functions.console.post(path, files={"file": ("a.zip", archive)})
        assert answer.status_code in {400, 413}, answer.text
        assert answer.json()["code"] in {"INVALID_ARCHIVE", "SOURCE_TOO_LARGE"}
    good = await functions.console.post(
        path, files={"file": ("a.zip", zipped({"index.js": b"export default () => 7"}))}
    )
    assert good.status_code == 201, good.text
    assert await functions.value("greet") == 7


@pytest.mark.parametrize("runtime", ["javascript", "python"])
async def test_a_variable_reaches_the_function_and_no_log(functions: Functions, runtime: str):
    source = {
        "javascript": """
            export default (p, ctx) => {
              console.log(ctx.env.TOKEN);
              if (p.bad) throw new Error(ctx.env.TOKEN);
              return [ctx.env.TOKEN, Deno.env.get("TOKEN"), ctx.env.SHARED];
            };""",
        "python": """
import os
def handler(p, ctx):
    print(ctx.env["TOKEN"])
    if p.get("bad"): raise ValueError(ctx.env["TOKEN"])
    return [ctx.env["TOKEN"], os.environ["TOKEN"], ctx.env.get("SHARED")]
""",
    }[runtime]
    function_id = await functions.made("secret", source, runtime)
    path = f"{functions.base}/{function_id}"
    app_env = f"/v1/apps/{functions.app.app_id}/env"
    assert (await functions.console.put(f"{app_env}/SHARED", json={"value": "of the app"})).status_code == 200
    for value in ("very secret 1", "very secret 2"):
        put = await functions.console.put(f"{path}/env/TOKEN", json={"value": value})
        assert value not in put.text
        assert await functions.value("secret", {}) == [value, value, "of the app"]
    called = (await functions.console.post(f"{path}/invoke", json={"payload": {"bad": True}})).json()
    assert called["error"] == "[TOKEN]"
    assert called["logs"][0]["message"] == "[TOKEN]"
    assert "very secret" not in json.dumps(called)
    listed = await functions.console.get(f"{path}/env")
    assert [one["name"] for one in listed.json()["variables"]] == ["TOKEN"]
    assert "very secret" not in listed.text
    for name in ("lower", "1A", "PILOTIS_X", "LD_PRELOAD", "DENO_DIR", "NODE_OPTIONS", "PYTHONPATH"):
        answer = await functions.console.put(f"{path}/env/{name}", json={"value": "x"})
        assert_error(answer, 400, "INVALID_VARIABLE_NAME")
    both = await functions.console.patch(f"{path}/env", json={"set": {"A": "1"}, "delete": ["ABSENT"]})
    assert_error(both, 404, "VARIABLE_NOT_FOUND")
    assert len((await functions.console.get(f"{path}/env")).json()["variables"]) == 1


@pytest.mark.parametrize("runtime", ["javascript", "python"])
async def test_a_function_uses_the_apps_api_within_its_scopes(functions: Functions, runtime: str):
    table = await functions.app.table({"name": "string"}, title="orders")
    source = {
        "javascript": """
            export default async (p, ctx) => {
              const row = await ctx.api.rows("orders").create({ name: p.name });
              await ctx.api.rows(p.table).update(row.id, { name: p.name + "!" });
              const found = await ctx.api.rows("orders").query({ where: { name: p.name + "!" } });
              const raw = await ctx.api.fetch(`/v1/public/tables/${p.table}/data/${row.id}`);
              let refused;
              try { await ctx.api.table(p.table) } catch (error) { refused = [error.status, error.code] }
              return [found.total_count, raw.status, (await raw.json()).data.name, refused];
            };""",
        "python": """
from pilotis import ApiError
async def handler(p, ctx):
    row = await ctx.api.rows("orders").create({"name": p["name"]})
    await ctx.api.rows(p["table"]).update(row["id"], {"name": p["name"] + "!"})
    found = await ctx.api.rows("orders").query(where={"name": p["name"] + "!"})
    raw = await ctx.api.fetch(f"/v1/public/tables/{p['table']}/data/{row['id']}")
    try:
        await ctx.api.table(p["table"])
    except ApiError as error:
        refused = [error.status, error.code]
    return [found["total_count"], raw.status, raw.json()["data"]["name"], refused]
""",
    }[runtime]
    await functions.made("orders", source, runtime)
    value = await functions.value("orders", {"name": "Ada", "table": table})
    assert value == [1, 200, "Ada!", [403, "SCOPE_REQUIRED"]]


async def test_as_caller_has_the_callers_rights_and_no_more(functions: Functions):
    app = functions.app
    table = await app.table({"name": "string"}, access_level="Creator", title="notes")
    ada, bob = await app.member("ada"), await app.member("bob")
    await app.row(table, {"name": "of Ada"}, ada["access_token"])
    source = """
        export default async (p, ctx) => {
          const seen = {};
          for (const who of ["api", "asCaller"]) {
            const answer = await ctx[who].fetch(`/v1/public/tables/${p.table}/data`);
            seen[who] = answer.status === 200 ? (await answer.json()).data.length : (await answer.json()).code;
          }
          const inner = await ctx.asCaller.fetch("/v1/public/functions/seen/invoke", { method: "POST" });
          return { ...seen, inner: inner.status };
        };"""
    await functions.made("seen", source, scopes=["rows:read", "functions:invoke"])
    for token, caller in ((ada["access_token"], 1), (bob["access_token"], 0), (None, "MEMBER_TOKEN_REQUIRED")):
        answer = await functions.call("seen", {"table": table}, token=token)
        assert answer.json()["result"] == {"api": 1, "asCaller": caller, "inner": 403}, answer.text


@pytest.mark.parametrize("runtime", ["javascript", "python"])
async def test_as_member_has_that_members_rights_by_rules_and_needs_a_scope(functions: Functions, runtime: str):
    app = functions.app
    table = await app.table({"name": "string"}, access_level="Creator", title="notes")
    ada, bob = await app.member("ada"), await app.member("bob")
    await app.row(table, {"name": "of Ada"}, ada["access_token"])
    source = {
        "javascript": """
        export default async (p, ctx) => {
          const member = ctx.asMember(p.member);
          try {
            const seen = (await member.rows("notes").list()).data.length;
            await member.rows("notes").create({ name: "by the function" });
            return [seen, (await member.fetch("/v1/public/functions/seen/invoke", { method: "POST" })).status];
          } catch (error) { return error.code; }
        };""",
        "python": """
from pilotis import ApiError
async def handler(p, ctx):
    member = ctx.as_member(p["member"])
    try:
        seen = len((await member.rows("notes").list())["data"])
        await member.rows("notes").create({"name": "by the function"})
        return [seen, (await member.fetch("/v1/public/functions/seen/invoke", method="POST")).status]
    except ApiError as error:
        return error.code
""",
    }[runtime]
    scopes = ["rows:read", "rows:write", "functions:invoke"]
    await functions.made("seen", source, runtime=runtime, scopes=[*scopes, "members:act"])
    await functions.made("mute", source, runtime=runtime, scopes=scopes)
    assert await functions.value("seen", {"member": ada["member_id"]}) == [1, 403]
    assert await functions.value("seen", {"member": bob["member_id"]}) == [0, 403]
    assert await functions.value("seen", {"member": "nobody"}) == "MEMBER_NOT_FOUND"
    assert await functions.value("mute", {"member": ada["member_id"]}) == "SCOPE_REQUIRED"
    async with app.client(ada["access_token"]) as client:
        assert (await client.get(f"/v1/public/tables/{table}/data")).json()["total_count"] == 2


async def test_functions_call_functions_five_deep(functions: Functions):
    source = """
        export default async ({ n }, ctx) => {
          try {
            const inner = await ctx.api.functions.invoke("deeper", { n: n + 1 });
            return inner.result;
          } catch (error) { return [n, error.code] }
        };"""
    await functions.made("deeper", source, scopes=["functions:invoke"])
    assert await functions.value("deeper", {"n": 0}) == [5, "EVENT_LOOP"]


async def test_a_call_uses_the_api_a_thousand_times(functions: Functions):
    source = """
        export default async (p, ctx) => {
          let last;
          for (let n = 0; n < 1001; n++) last = await ctx.api.fetch("/v1/public/nothing");
          return [last.status, (await last.json()).code];
        };"""
    await functions.made("many", source)
    assert await functions.value("many") == [429, "LIMIT_REACHED"]


async def test_calls_are_recorded_with_their_logs_and_counted(functions: Functions):
    function_id = await functions.made(
        "logs", "export default ({ bad }) => { console.warn('careful', { a: 1 }); if (bad) throw new Error('broken') }"
    )
    path = f"{functions.base}/{function_id}"
    result = await functions.result("logs", {"bad": True})
    await functions.result("logs", {})

    async def recorded() -> list[dict]:
        rows = (await functions.console.get(f"{path}/executions")).json()["data"]
        return rows if len(rows) == 2 else []

    success, error = await until(recorded)
    assert (success["status"], error["status"], error["error_code"]) == ("success", "error", "FUNCTION_ERROR")
    assert error["id"] == result["execution_id"]
    details = (await functions.console.get(f"{path}/executions/{error['id']}")).json()
    assert (details["logs"][0]["level"], details["logs"][0]["message"]) == ("warn", "careful { a: 1 }")
    assert "broken" in details["logs"][1]["message"]
    lines = (await functions.console.get(f"{path}/logs?level=warn&limit=1")).json()
    assert len(lines["lines"]) == 1
    rest = (await functions.console.get(f"{path}/logs?level=warn&limit=1&after={lines['next']}")).json()
    assert (len(rest["lines"]), rest["next"]) == (1, None)
    buckets = (await functions.console.get(f"{path}/stats")).json()["buckets"]
    assert (sum(one["success"] for one in buckets), sum(one["error"] for one in buckets)) == (1, 1)


async def test_a_function_in_the_webhook_form_may_reject_the_request(functions: Functions):
    source = """
        export default async (body, ctx) =>
          ctx.headers["x-signature"] === ctx.rawBodyBase64 ? JSON.parse(body) : { error: "The signature does not match.", status: 401 };
    """  # noqa: E501
    function_id = await functions.made("hook", source)
    body = '{"a": "ä"}'
    for signature, rejected in ((base64.b64encode(body.encode()).decode(), None), ("wrong", 401)):
        webhook = {"method": "POST", "headers": {"X-Signature": signature}, "body": body}
        path = f"{functions.base}/{function_id}/invoke"
        answer = (await functions.console.post(path, json={"as_webhook": webhook})).json()
        assert answer["success"] is True
        assert answer.get("rejected", {}).get("status") == rejected
    assert answer["rejected"]["message"] == "The signature does not match."


async def test_a_function_runs_where_the_server_says_it_does(functions: Functions, app: App):
    found = (await functions.console.get(f"/v1/apps/{app.app_id}/runtime")).json()
    assert found["isolation"] in {level.value for level in Isolation}
    assert [one["is_available"] for one in found["runtimes"]] == [True, True]


async def test_a_function_that_a_workflow_calls_is_deleted_by_force_alone(functions: Functions):
    used = await functions.made("used", "export default () => 1;")
    workflows = Workflows(functions.app)
    call = {"id": "call", "step_type": "function", "function_id": "used"}
    nested = {"id": "both", "step_type": "parallel", "branches": [{"id": "one", "steps": [call]}]}
    workflow = await workflows.made([nested], name="order")
    answer = await functions.console.delete(f"{functions.base}/{used}")
    error = assert_error(answer, 409, "FUNCTION_IN_USE")
    assert [detail["message"] for detail in error["details"]] == ["order"]
    # Definitions that are no longer current do not count.
    other = {"name": "order", "steps": [{"id": "c", "step_type": "condition", "condition": {"$.input.a": 1}}]}
    assert (await workflows.console.put(f"{workflows.base}/{workflow}", json=other)).status_code == 200
    free = await functions.made("free", "export default () => 1;")
    await workflows.made([call | {"function_id": "free"}], name="bill")
    assert (await functions.console.delete(f"{functions.base}/{used}")).status_code == 200
    assert (await functions.console.delete(f"{functions.base}/{free}", params={"force": "true"})).status_code == 200
    await workflows.console.aclose()


async def test_records_of_calls_are_kept_as_long_as_the_app_says(functions: Functions, other_app: App):
    app = functions.app
    others = Functions(other_app)
    places = [(app, await functions.made("aged", "export default () => 1;"))]
    places.append((other_app, await others.made("aged", "export default () => 1;")))
    await others.console.aclose()
    await set_limits(app, function_record_days=2)
    for place, function_id in places:
        for days in (1, 3, 8):
            await run_sql(
                place.server,
                """
                insert into pilotis.function_executions (app_id, function_id, execution_id, version, status, trigger,
                    caller_type, duration, queue_ms, load_ms, cpu_ms, log_lines, log_dropped, started_at, finished_at)
                select $1, $2, gen_random_uuid(), 1, 'success', 'invoke', 'public', $3, 0, 0, 0, 0, 0, at, at
                from (select now() - make_interval(days => $3) as at) t
                """,
                UUID(place.app_id),
                UUID(function_id),
                days,
            )
    async with second_node(app.server) as node:
        await run_task(node, "functions.expire")
    kept = "select array_agg(duration order by duration) from pilotis.function_executions where function_id = $1"
    assert await run_sql(app.server, kept, UUID(places[0][1])) == [1]
    assert await run_sql(app.server, kept, UUID(places[1][1])) == [1, 3]
