"""The examples of the reference: as curl each is run against a server and answers what it shows.

In JavaScript and Python they run too, and send the same request.
"""

import gc
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import httpx
import msgspec
import pytest

from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.example import Example
from pilotis.http.reference.samples import VARIABLE, Request, curl, javascript, python, request_of
from pilotis.server import endpoint_table
from tests.conftest import first_console_user
from tests.hosting.sites import zipped
from tests.http.example_world import LOGO, World
from tests.support import Server
from tests.waiting import PATIENCE

ENDPOINTS = [endpoint for endpoint in endpoint_table() if endpoint.tag != "Pages"]
EXAMPLES = [(endpoint, endpoint.example) for endpoint in ENDPOINTS if endpoint.example]
NAMES = [example.operation for _, example in EXAMPLES]

# What a reader has as site.zip.
SITE = zipped({"index.html": b"<title>Cafe guide</title>\n"})
FILES = {"site.zip": SITE, "logo.png": LOGO, "shop.pilotis": b"nothing " * 1280}

# What differs each time, in the place of which an example shows something of the same form.
VARYING = [
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
    (re.compile(r"expires=\d+"), "expires=<moment>"),
    (re.compile(r"cafe-guide-[a-z0-9]{6}"), "<slug>"),
    (re.compile(r"localhost:\d+"), "<sites>"),
    (re.compile(r"cl_[\w-]{32}"), "cl_<id>"),
    (re.compile(r"cs_[\w…-]{4,}"), "cs_<secret>"),
]
VARYING_NUMBERS = {
    "duration_ms",
    "milliseconds",
    "duration",
    "queue_ms",
    "load_ms",
    "cpu_ms",
    "peak_memory_mb",
    "attempt_count",
    "execution_time_ms",
    "score",
    "storage_bytes",
    "bytes",
    "requests",
    "client_errors",
    "total",
}

# One verb for each kind of action. The method of a route leaves a choice only where its kind is not plain from it.
VERBS = {
    "GET": r"(get|list|export|download|signOut|check|call)",
    "PUT": r"(replace|update|upload|call)",
    "PATCH": r"update",
    "DELETE": r"delete",
    "OPTIONS": r"get",
    "POST": r"(create|complete|restore|reset|accept|sign(Up|In|Out)|refresh|import"
    r"|update|upsert|query|search|autocomplete|aggregate|run|retry|deploy|promote|verify"
    r"|approve|invoke|activate|deny|rotate|test|redeliver|recover|publish|delete|preview|rename|exchange"
    r"|validate|cancel|replay|call|merge)",
}


def test_every_operation_has_an_example() -> None:
    assert [f"{endpoint.method} {endpoint.path}" for endpoint in ENDPOINTS if endpoint.example is None] == []
    assert len(set(NAMES)) == len(NAMES)


def test_an_operation_is_named_by_verb_and_noun() -> None:
    names = [(endpoint.method, example.operation) for endpoint, example in EXAMPLES]
    assert [name for method, name in names if not re.fullmatch(VERBS[method] + r"([A-Z][a-z]+)+", name)] == []


def test_a_variable_is_none_of_the_shells() -> None:
    """An example that is pasted before its variables are set must not use the shell's own variables."""
    ours = re.compile(r"[A-Z_]+(_ID|_TOKEN|_KEY|_URL|_NUMBER)")
    for endpoint, example in EXAMPLES:
        variables = request_of(endpoint, example, "http://127.0.0.1:8090").variables
        assert [name for name in variables if not ours.fullmatch(name) or name in os.environ] == [], example.operation


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the examples' own: they show the first users and sessions of one, which other files make, too."""
    running = Server(tmp_path_factory.mktemp("examples") / "data").start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="module")
def console(server: Server) -> dict[str, str]:
    return first_console_user(server)


@pytest.mark.share(0.5)
@pytest.mark.parametrize(("endpoint", "example"), EXAMPLES, ids=NAMES)
def test_an_example_answers_what_it_shows(
    server: Server, console: dict[str, str], tmp_path: Path, endpoint: Endpoint, example: Example
) -> None:
    world = World(server, console)
    world.prepare(example.operation)
    request = request_of(endpoint, example, server.url)
    write_file(request, tmp_path)
    command = curl(request)
    if endpoint.media_type == "text/event-stream":
        # A stream that stays open is read for as long as its first event takes.
        command = command.replace("curl ", "curl --no-buffer --max-time 2 ", 1) + " || test $? = 28"
        answer = run_in_shell(command, {name: world.value(name) for name in request.variables}, tmp_path)
        assert isinstance(example.answer, str)
        shown, real = (text.partition("\nid:")[0] for text in (example.answer, answer))
        assert re.fullmatch(".+".join(map(re.escape, shown.split("…"))), real), real
        return
    answer = run_in_shell(command, {name: world.value(name) for name in request.variables}, tmp_path)
    if request.answers == "nothing":
        assert answer == ""
    elif request.answers == "json":
        assert same(example.answer, json.loads(answer), server), answer
    elif example.answer in {"RIFF…", "PK…", "server/…"}:
        assert answer.startswith(example.answer.removesuffix("…"))
    else:
        assert answer.splitlines() == example.answer.splitlines()


def write_file(request: Request, place: Path) -> None:
    """Give the reader the file that a request sends."""
    if name := request.file or request.upload:
        (place / name).write_bytes(FILES[name])


def run_in_shell(source: str, values: dict[str, str], place: Path) -> str:
    command = source.replace("curl ", "curl --silent --show-error --fail-with-body ", 1)
    return run(["bash", "-euc", command], values, place)


def run(command: list[str], values: dict[str, str], place: Path) -> str:
    environment = {"PATH": os.environ["PATH"], **values}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, errors="replace", timeout=PATIENCE, cwd=place
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Received(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Recorder:
    """A server that answers `{}` and keeps what it received."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        received = self.received

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                received.append(Received(self.command, self.path, headers, body))
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = handle_any  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture(scope="module")
def recording() -> Iterator[Recorder]:
    """The recorder, running in a thread."""
    made = Recorder()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture
def recorder(recording: Recorder) -> Recorder:
    """The recorder, which has received nothing."""
    recording.received.clear()
    return recording


def values_for(request: Request, recorder: Recorder) -> dict[str, str]:
    return {
        name: f"{recorder.url}/upload?signature=s" if name.endswith("URL") else f"value of {name} '\"".replace(" ", "-")
        for name in request.variables
    }


def same_request(sent: Received, expected: Received) -> bool:
    """Return whether the sent request is that of the example, however its JSON is formatted."""
    headers = {name: value for name, value in sent.headers.items() if name in expected.headers}
    if expected.body.startswith((b"PK", b"nothing")):
        same_body = expected.body in sent.body and sent.headers["content-type"].startswith("multipart/form-data")
    elif headers.get("content-type") == "application/json":
        same_body = json.loads(sent.body) == json.loads(expected.body)
    else:
        same_body = sent.body == expected.body
    # Which characters of a query string are percent-encoded differs from language to language.
    same_target = (sent.method, unquote(sent.path)) == (expected.method, unquote(expected.path))
    return same_target and headers == expected.headers and same_body


def expected_of(request: Request, values: dict[str, str], recorder: Recorder) -> Received:
    def filled(text: str) -> str:
        return VARIABLE.sub(lambda match: values[match[1]], text)

    def filled_json(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: filled_json(item) for name, item in value.items()}
        if isinstance(value, list):
            return [filled_json(item) for item in value]
        return filled(value) if isinstance(value, str) else value

    name = request.file or request.upload
    body = FILES[name] if name else (request.content or "").encode()
    if request.body is not msgspec.UNSET:
        body = json.dumps(filled_json(request.body)).encode()
    headers = {name.lower(): filled(value) for name, value in request.headers.items()}
    path = str(httpx.URL(filled(request.url)).raw_path, "ascii")
    return Received(request.method, path, headers, body)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_javascript_sends_the_request_of_the_example(recorder: Recorder, tmp_path: Path) -> None:
    requests = [request_of(endpoint, example, recorder.url) for endpoint, example in EXAMPLES]
    values = [values_for(request, recorder) for request in requests]
    parts = [
        f"await (async ({{ {', '.join(given)} }}) => {{\n{javascript(request)}\n}})({json.dumps(given)});"
        for request, given in zip(requests, values, strict=True)
    ]
    for request in requests:
        write_file(request, tmp_path)
    program = tmp_path / "requests.mjs"
    program.write_text("\n".join(parts))
    run(["node", str(program)], {}, tmp_path)
    for name, request, given, sent in zip(NAMES, requests, values, recorder.received, strict=True):
        assert same_request(sent, expected_of(request, given, recorder)), name


@pytest.mark.share(0.25)
@pytest.mark.parametrize(("endpoint", "example"), EXAMPLES, ids=NAMES)
@pytest.mark.filterwarnings("ignore:unclosed file")
def test_python_sends_the_request_of_the_example(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint, example: Example
) -> None:
    request = request_of(endpoint, example, recorder.url)
    monkeypatch.chdir(tmp_path)
    write_file(request, tmp_path)
    values = values_for(request, recorder)
    printed: list[Any] = []
    exec(compile(python(request), "example", "exec"), {**values, "print": printed.append})
    if request.file or request.upload:
        # Examples leave their file to the collector, whose warning belongs here and not to a later test.
        gc.collect()
    assert printed in ([{}], ["{}"], [200])
    assert same_request(recorder.received[0], expected_of(request, values, recorder))


def same(shown: Any, real: Any, server: Server, key: str = "") -> bool:
    """Return whether a real answer matches the documented one: `…` is any text, or any rest of a list or object."""
    if isinstance(shown, dict):
        names = [name for name in shown if name != "…"]
        known = [name for name in real if name in names] if "…" in shown else list(real)
        return sorted(names) == sorted(known) and all(same(shown[name], real[name], server, name) for name in names)
    if isinstance(shown, list):
        if shown[-1:] == ["…"]:
            shown, real = shown[:-1], real[: len(shown) - 1]
        return len(shown) == len(real) and all(same(one, other, server) for one, other in zip(shown, real, strict=True))
    if isinstance(shown, str) and isinstance(real, str):
        pattern = ".*".join(re.escape(part) for part in form(shown, "http://127.0.0.1:8090").split("…"))
        return key == "date" or re.fullmatch(pattern, form(real, server.url), re.DOTALL) is not None
    if key in VARYING_NUMBERS and isinstance(shown, int | float):
        return isinstance(real, int | float)
    if key == "may_create_apps":
        # Another example may have made the invited user an editor.
        return isinstance(real, bool)
    return bool(shown == real) and type(shown) is type(real)


def form(text: str, url: str) -> str:
    text = text.replace(url, "<server>").replace("owner@example.com", "<owner>").replace("first@example.com", "<owner>")
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return text


def test_another_answer_is_not_the_one_shown(server: Server) -> None:
    assert same({"id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"}, {"id": "01a20142-e42b-72e4-a828-eeb5b304575f"}, server)
    assert not same({"id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"}, {"id": "none"}, server)
    assert not same({"a": 1}, {"a": 1, "b": 2}, server)
    assert same({"a": 1, "…": "…"}, {"a": 1, "b": 2}, server)
    assert not same([1, 2], [1], server)
    assert not same({"n": 1}, {"n": True}, server)
