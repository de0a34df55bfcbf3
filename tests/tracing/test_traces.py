"""Traces, as a collector on loopback receives them: which requests, what belongs to what, and what is in no span."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pilotis.blobs.errors import BlobStoreUnavailableError
from pilotis.blobs.protocol import BlobInfo
from pilotis.serve import start
from pilotis.serve.errors import CommandError
from pilotis.settings import Settings
from pilotis.tracing.blobs import trace_blobs
from pilotis.tracing.recorder import MAX_BLOBS, MAX_PER_SECOND, MAX_STATEMENTS, Recorder, context_of
from pilotis.tracing.statements import TracedStatements
from tests.acceptance.test_files import PNG, complete, permit, storage
from tests.conftest import first_console_user, new_app
from tests.console import owner_of
from tests.functions.support import Functions
from tests.mail.smtp_server import SmtpServer
from tests.receiver import Receiver
from tests.support import App, Server
from tests.waiting import until
from tests.webhooks.world import create
from tests.workflows.support import Workflows

TAKEN = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n"
SECRET = "the otter swims at midnight"


@dataclass
class Spanned:
    """A span as the collector got it."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    is_failed: bool


class Collector:
    """What a receiver was sent, decoded."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.receiver.port}/v1/traces"

    def of(self, trace_id: str) -> list[Spanned]:
        """The spans of a trace so far."""
        return [span for span in self.all() if span.trace_id == trace_id]

    def all(self) -> Iterator[Spanned]:
        for request in list(self.receiver.received):
            for resource in ExportTraceServiceRequest.FromString(request.body).resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        yield Spanned(
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            {one.key: value_of(one.value) for one in span.attributes},
                            span.status.code == span.status.STATUS_CODE_ERROR,
                        )

    async def names(self, trace_id: str, *wanted: str) -> dict[str, Spanned]:
        """Wait until a trace has spans of these names, and return the last of each name."""
        await until(lambda: set(wanted) <= {span.name for span in self.of(trace_id)})
        return {span.name: span for span in self.of(trace_id)}


def value_of(value: AnyValue) -> Any:
    return getattr(value, value.WhichOneof("value"))


def asking(flags: str = "01") -> tuple[str, str, dict[str, str]]:
    """The ids of a trace and of a caller's span, and the header that asks for it."""
    trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
    return trace_id, span_id, {"traceparent": f"00-{trace_id}-{span_id}-{flags}"}


@asynccontextmanager
async def traced(folder: Path, endpoint: str, **environment: str) -> AsyncIterator[App]:
    """An app on a server that exports traces at once."""
    settings = {
        "PILOTIS_OTEL_ENDPOINT": endpoint,
        "PILOTIS_OTEL_SAMPLE": "0",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "PILOTIS_OUTGOING_NETWORKS": "127.0.0.0/8",
        **environment,
    }
    server = Server(folder / "data", environment=settings)
    await asyncio.to_thread(server.start)
    try:
        yield await asyncio.to_thread(lambda: new_app(server, first_console_user(server)))
    finally:
        await asyncio.to_thread(server.stop)


@pytest.fixture(scope="module")
async def collector() -> AsyncIterator[Collector]:
    async with Receiver.listening({"/v1/traces": TAKEN}) as receiver:
        yield Collector(receiver)


@pytest.fixture(scope="module")
async def smtp() -> AsyncIterator[SmtpServer]:
    async with SmtpServer().listening() as listening:
        yield listening


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory, collector: Collector, smtp: SmtpServer) -> AsyncIterator[App]:
    mail = {"PILOTIS_SMTP_URL": smtp.url(), "PILOTIS_MAIL_FROM": "mail@test.invalid"}
    async with traced(tmp_path_factory.mktemp("traced"), collector.url, **mail) as made:
        yield made


async def test_a_request_and_what_it_leads_to_are_one_trace(app: App, collector: Collector):
    table = await app.table({"text": "string"})
    path = f"/v1/public/tables/{table}/data"
    async with Receiver.listening() as receiver:
        webhook = await create(app, f"http://127.0.0.1:{receiver.port}/hook/{SECRET.replace(' ', '-')}")
        trace_id, caller, headers = asking()
        async with app.client(**headers) as client:
            answer = await client.post(path, json={"data": {"text": SECRET}})
            assert answer.status_code == 201, answer.text
        server_span = f"POST {path.replace(table, ':table_id')}"
        spans = await collector.names(trace_id, server_span, "batch", "statement", "delivery", "request")
        (delivered,) = receiver.received
    request = spans[server_span]
    assert request.parent_id == caller
    assert request.attributes["http.response.status_code"] == 201
    assert request.attributes["pilotis.app_id"] == app.app_id
    assert spans["batch"].parent_id == request.span_id
    assert spans["statement"].parent_id == request.span_id
    # Where there are workers, a transaction is opened and committed around it.
    texts = [one.attributes["db.query.text"] for one in collector.of(trace_id) if one.name == "statement"]
    assert any("insert into" in text for text in texts), texts
    assert spans["delivery"].parent_id == request.span_id
    assert spans["delivery"].attributes["pilotis.webhook_id"] == webhook.id
    # The receiver can go on with the trace.
    assert spans["request"].parent_id == spans["delivery"].span_id
    assert delivered.headers["traceparent"] == f"00-{trace_id}-{spans['request'].span_id}-01"
    # The id of the request is that of its span.
    assert answer.headers["x-request-id"] == f"00-{trace_id}-{request.span_id}-01"
    unsafe = json.dumps([span.attributes for span in collector.all()])
    for hidden in (SECRET, SECRET.replace(" ", "-"), app.public_key, webhook.secret):
        assert hidden not in unsafe


async def test_requests_of_other_paths_have_their_statements(app: App, collector: Collector):
    table = await app.table({"text": "string"})
    trace_id, _, headers = asking()
    headers["X-Request-Id"] = f"mine-{trace_id}"
    async with app.client(**headers) as client:
        answer = await client.post(f"/v1/public/tables/{table}/data/query", json={"where": {"text": SECRET}})
        assert (answer.status_code, answer.headers["x-request-id"]) == (200, headers["X-Request-Id"])
        spans = await collector.names(trace_id, "POST /v1/public/tables/:table_id/data/query", "statement")
    assert spans["POST /v1/public/tables/:table_id/data/query"].attributes["pilotis.request_id"] == f"mine-{trace_id}"
    assert spans["statement"].parent_id == spans["POST /v1/public/tables/:table_id/data/query"].span_id
    assert SECRET not in json.dumps([span.attributes for span in collector.of(trace_id)])


async def test_reads_and_writes_of_files_are_in_the_trace(app: App, collector: Collector):
    base = await storage(app)
    trace_id, _, headers = asking()
    async with app.client(**headers) as client:
        permitted = await permit(client, base, PNG, file_name=f"{SECRET}.png")
        answer = await client.put(permitted["upload_url"], content=PNG, headers=permitted["headers"])
        assert answer.status_code == 200, answer.text
        spans = await collector.names(trace_id, "blob", "PUT /v1/uploads/:upload_id")
    blob, request = spans["blob"], spans["PUT /v1/uploads/:upload_id"]
    assert blob.parent_id == request.span_id
    assert blob.attributes == {"pilotis.blob.operation": "put", "pilotis.blob.bytes": len(PNG)}

    trace_id, _, headers = asking()
    async with app.client(**headers) as client:
        assert (await complete(client, base, permitted)).status_code == 200
        await collector.names(trace_id, "POST /v1/public/storages/files/:storage_id/complete-upload")
    assert SECRET not in json.dumps([span.attributes for span in collector.all()])


class _Blobs:
    """A store of one blob, as far as spans need one."""

    async def delete(self, keys: Sequence[str]) -> None:
        raise BlobStoreUnavailableError(SECRET)

    async def put(self, key: str, *_: Any, **__: Any) -> BlobInfo:
        return BlobInfo(key, 3, SECRET, None, None, datetime.now(UTC))

    finish = copy = put

    async def open(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        for part in (b"some", b"bytes"):
            yield part

    def append(self, key: str) -> AsyncIterator[bytes]:
        return self.open(key)


async def test_a_span_has_only_so_many_blobs_and_none_names_one():
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    recorder = Recorder(provider.get_tracer("test"), 1.0)
    store: Any = _Blobs()
    trace_blobs(recorder, store)
    assert [part async for part in store.open(SECRET)] == [b"some", b"bytes"]
    assert memory.get_finished_spans() == ()
    with recorder.span("job", {}, kind="consumer", request_id=None, is_root=True):
        with pytest.raises(BlobStoreUnavailableError):
            await store.delete([SECRET])
        async with aclosing(store.open(SECRET)) as parts:
            assert await anext(parts) == b"some"
        for _ in range(MAX_BLOBS):
            await store.put(SECRET)
    *recorded, job = memory.get_finished_spans()
    assert len(recorded) == MAX_BLOBS
    assert [dict(one.attributes) for one in recorded[:3]] == [
        {"pilotis.blob.operation": "delete", "error.type": "BlobStoreUnavailableError"},
        {"pilotis.blob.operation": "open", "pilotis.blob.bytes": 4},
        {"pilotis.blob.operation": "put", "pilotis.blob.bytes": 3},
    ]
    assert job.attributes["pilotis.blobs"] == MAX_BLOBS + 2
    assert SECRET not in str([one.to_json() for one in memory.get_finished_spans()])


async def test_a_call_of_a_function_has_its_calls_within(app: App, collector: Collector, sandboxes: None):
    table = await app.table({"text": "string"}, title="notes")
    functions = Functions(app)
    source = (
        "export default async (payload, ctx) => {"
        f" await ctx.api.fetch('/v1/public/tables/{table}/data');"
        " throw new Error(payload.text); };"
    )
    async with functions.console:
        name = await functions.made("reader", source, scopes=["rows:read"])
        # A sandbox that is used again belongs to nobody's trace.
        await functions.result(name, {"text": "first"})
        trace_id, _, headers = asking()
        async with app.client(**headers) as client:
            body = {"payload": {"text": SECRET}}
            answer = await client.post(f"/v1/public/functions/{name}/invoke", json=body)
    assert SECRET in answer.text
    server_span, inside = "POST /v1/public/functions/:function_id/invoke", "GET /v1/public/tables/:table_id/data"
    spans = await collector.names(trace_id, server_span, "function", inside)
    assert spans["function"].parent_id == spans[server_span].span_id
    assert spans["function"].is_failed
    assert spans["function"].attributes["pilotis.execution_id"] == answer.json()["execution_id"]
    assert spans[inside].parent_id == spans["function"].span_id
    assert SECRET not in json.dumps([span.attributes for span in collector.of(trace_id)])


async def test_a_step_and_its_function_follow_the_request_that_started_them(
    app: App, collector: Collector, sandboxes: None
):
    functions, workflows = Functions(app), Workflows(app)
    async with functions.console, workflows.console:
        function_id = await functions.made("adder", "export default async () => ({ sum: 3 });")
        workflow = await workflows.made([{"id": "add", "step_type": "function", "function_id": function_id}])
        trace_id, _, headers = asking()
        answer = await workflows.execute(workflow, **headers)
        await workflows.reached(workflow, answer.json()["execution_id"])
    server_span = "POST /v1/apps/:app_id/workflows/:workflow_id/execute"
    spans = await collector.names(trace_id, server_span, "step", "function")
    assert spans["step"].parent_id == spans[server_span].span_id
    assert spans["function"].parent_id == spans["step"].span_id


async def test_a_job_carries_the_trace_and_a_mail_names_nobody(app: App, collector: Collector, smtp: SmtpServer):
    trace_id, _, headers = asking()
    async with app.client(**headers) as client:
        body = {"login_id": "quiet-otter", "password": SECRET, "email": "quiet-otter@example.com"}
        answer = await client.post("/v1/public/app-members/signup", json=body)
        assert answer.status_code == 201, answer.text
    server_span = "POST /v1/public/app-members/signup"
    spans = await collector.names(trace_id, server_span, "job accounts.mail", "job mail.send", "mail")
    assert spans["job accounts.mail"].parent_id == spans[server_span].span_id
    # One job has enqueued the other.
    assert spans["job mail.send"].parent_id == spans["job accounts.mail"].span_id
    assert spans["mail"].parent_id == spans["job mail.send"].span_id
    assert spans["mail"].attributes["pilotis.mail.purpose"]
    unsafe = json.dumps([span.attributes for span in collector.of(trace_id)])
    for hidden in (SECRET, "quiet-otter", answer.json()["access_token"], answer.json()["member_id"]):
        assert hidden not in unsafe
    assert any("quiet-otter" in recipient for taken in smtp.taken for recipient in taken.recipients)


async def test_roles_claims_and_teams_of_a_member_cost_no_statement(app: App, collector: Collector):
    """A sign-in reads the account, and writes the session; a request looks the session up with all that rules ask."""
    counted: dict[str, list[int]] = {}
    signin, own = "/v1/public/app-members/signin", "/v1/public/app-members/me"
    for kind in ("plain", "rich"):
        member = await app.member(kind, password=SECRET)
        async with owner_of(app).client(app) as console:
            if kind == "rich":
                facts = {"roles": ["editor", "vip"], "claims": {"plan": "pro"}}
                answer = await console.patch(f"/members/{member['member_id']}", json=facts)
                assert answer.status_code == 200, answer.text
                for number in range(10):
                    team = (await console.post("/teams", json={"name": f"Team {number}"})).json()["team_id"]
                    answer = await console.put(f"/teams/{team}/members/{member['member_id']}", json={"roles": []})
                    assert answer.status_code == 200, answer.text
        async with app.client() as client:
            # The first sign-in has filled what is cached.
            for _ in range(2):
                trace_id, _, headers = asking()
                body = {"login_id": kind, "password": SECRET}
                signed_in = (await client.post(signin, json=body, headers=headers)).json()
            bearer = {"Authorization": f"Bearer {signed_in['access_token']}"}
            looked, _, headers = asking()
            assert (await client.get(own, headers={**headers, **bearer})).status_code == 200
        for trace, route in ((trace_id, f"POST {signin}"), (looked, f"GET {own}")):
            await collector.names(trace, route)
            texts = [one.attributes["db.query.text"] for one in collector.of(trace) if one.name == "statement"]
            counted.setdefault(route, []).append(len(texts))
    assert counted == {f"POST {signin}": [2, 2], f"GET {own}": [2, 2]}


async def test_only_what_is_asked_for_or_drawn_is_traced(app: App, collector: Collector):
    unsampled, _, headers = asking("00")
    invalid = secrets.token_hex(16)
    async with app.client() as client:
        assert (await client.get("/v1/public/tables", headers=headers)).status_code == 200
        answer = await client.get("/v1/public/tables", headers={"traceparent": f"00-{invalid}-{'0' * 16}-01"})
        assert (answer.status_code, answer.headers["x-request-id"][:3] == "00-") == (200, False)
        last, _, headers = asking()
        assert (await client.get("/v1/public/tables", headers=headers)).status_code == 200
    await collector.names(last, "GET /v1/public/tables")
    assert collector.of(unsampled) + collector.of(invalid) == []


async def test_every_request_is_traced_where_the_share_is_1_and_a_silent_collector_stops_nothing(tmp_path: Path):
    async def silent(*_: object) -> None:
        await asyncio.sleep(60)

    async with Receiver.listening({"/v1/traces": silent}) as receiver:
        url = f"http://127.0.0.1:{receiver.port}/v1/traces"
        async with traced(tmp_path, url, PILOTIS_OTEL_SAMPLE="1") as app, app.client() as client:
            table = await app.table({"text": "string"})
            path = f"/v1/public/tables/{table}/data"
            ids = [(await client.post(path, json={"data": {"text": "x"}})).headers["x-request-id"] for _ in range(3)]
            ids.append((await client.get(path)).headers["x-request-id"])
            assert all(context_of(one) for one in ids)
            assert len({context_of(one).trace_id for one in ids}) == 4
            await until(lambda: receiver.received)
            begun = time.monotonic()
        # The rest of a stop has a budget of its own; an export that hangs does not come on top of it.
        assert time.monotonic() - begun < 15


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_process_traces_only_so_much(share: float):
    recorder = Recorder(TracerProvider(shutdown_on_exit=False).get_tracer("test"), share)
    _, _, headers = asking()
    asking_for = None if share else headers["traceparent"].encode()
    asked = [recorder.request("GET", asking_for, None) for _ in range(3 * MAX_PER_SECOND)]
    begun = [active for active in asked if active is not None]
    # The second may change meanwhile.
    assert MAX_PER_SECOND <= len(begun) <= 2 * MAX_PER_SECOND
    for active in begun:
        recorder.discard(active)


def test_an_id_that_looks_like_a_trace_gets_no_more_than_a_trace():
    recorder = Recorder(TracerProvider(shutdown_on_exit=False).get_tracer("test"), 0.0)
    _, _, headers = asking()
    begun = 0
    for _ in range(3 * MAX_PER_SECOND):
        forged = headers["traceparent"]
        with recorder.span("function", {}, kind="internal", request_id=forged, is_root=False) as span:
            begun += span.traceparent is not None
    assert MAX_PER_SECOND <= begun <= 2 * MAX_PER_SECOND
    with recorder.span("function", {}, kind="internal", request_id="an-id-of-a-client", is_root=False) as span:
        assert span.traceparent is None


def test_a_span_has_only_so_many_statements():
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    recorder = Recorder(provider.get_tracer("test"), 1.0)
    statements = TracedStatements(recorder)
    with recorder.span("job", {}, kind="consumer", request_id=None, is_root=True):
        for number in range(MAX_STATEMENTS + 5):
            statements.ended(f"select {number} from pilotis.apps where name = 'x' and app_id = $1", 0.001)
    *recorded, job = memory.get_finished_spans()
    assert len(recorded) == MAX_STATEMENTS
    assert {one.attributes["db.query.text"] for one in recorded} == {
        "select ? from pilotis.apps where name = ? and app_id = $1"
    }
    assert recorded[0].attributes["pilotis.feature"] == "apps"
    assert job.attributes["pilotis.statements"] == MAX_STATEMENTS + 5
    # Nothing is being worked for any more.
    statements.ended("select 1", 0.001)
    assert len(memory.get_finished_spans()) == MAX_STATEMENTS + 1


def test_two_requests_of_one_id_are_not_told_apart_so_the_second_is_not_traced():
    recorder = Recorder(TracerProvider(shutdown_on_exit=False).get_tracer("test"), 1.0)
    first = recorder.request("GET", None, b"the-same-id")
    assert first is not None
    assert recorder.request("GET", None, b"the-same-id") is None
    recorder.answered(first, "GET", 200, None)
    assert recorder.request("GET", None, b"the-same-id") is not None


def test_a_start_without_the_extra_says_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CommandError, match=r"pilotis\[otel\]"):
        start._check_tracing(Settings(otel_endpoint="http://127.0.0.1:4318/v1/traces"))
    start._check_tracing(Settings())
