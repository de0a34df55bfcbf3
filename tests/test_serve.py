"""`pilotis serve` as a process: start, stop, crash, several workers, several nodes."""

import asyncio
import functools
import json
import os
import pty
import pwd
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import httpx
import pytest

from pilotis.db.embedded import EmbeddedPostgres, running_address
from pilotis.functions.runtime import policy
from pilotis.functions.runtime.policy import Isolation, Runtime
from pilotis.serve import welcome
from pilotis.serve.installation import Prepared
from pilotis.serve.listening import accepting
from tests import databases, forked
from tests.functions.support import isolation_of, require_sandboxes
from tests.support import Server, assert_error
from tests.waiting import PATIENCE, children, is_running, reserved_port, wait_until
from tests.whole import sample

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change to another user")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")


@pytest.fixture
def start(tmp_path: Path) -> Iterator:
    """Starts servers on one data directory; those still running at the end are killed."""
    started: list[Server] = []

    def start(*arguments: str, from_nothing: bool = False, **environment: str) -> Server:
        server = Server(tmp_path / "data", *arguments, environment=environment, from_nothing=from_nothing)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        if server.process.poll() is None:
            server.kill()


def postgres_of(server: Server) -> int:
    return int((server.data_dir / "postgres" / "postmaster.pid").read_text().split()[0])


def has_another_postgres(server: Server, killed: int) -> bool:
    """Whether another PostgreSQL runs: the killed one's processes may answer for a moment longer."""
    try:
        return postgres_of(server) != killed
    except (OSError, IndexError):
        # It is being written.
        return False


def printed_key(server: Server) -> str:
    return re.search(r"public key +(\S+)", server.output)[1]


def rows_url(server: Server) -> str:
    return re.search(r"\S+/data", server.output)[0]


def serve_again(server: Server, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run `serve` where it is to refuse."""
    words = ["pilotis", "serve", "--port", "0", *server.place, *arguments]
    return forked.run(*words, environment={**os.environ, **environment})


def test_the_first_start_prints_commands_that_work_and_a_link_for_the_first_user(start):
    server = start(from_nothing=True)
    script = "\n".join(re.findall(r"^  (?:curl|     -H).*$", server.output, re.MULTILINE))
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    created, end = json.JSONDecoder().raw_decode(done.stdout)
    assert created["data"] == {"text": "Hello"}, done
    assert json.loads(done.stdout[end:])["data"] == [created]
    assert re.search(r"app id +[0-9a-f-]{36}", server.output)
    assert f"{server.url}/setup#{server.setup_token}" in server.output
    assert server.output.splitlines()[-1] == "Ctrl-C stops it."
    # Nobody has seen a secret key of the app, so it has none.
    app_id = re.search(r"app id +([0-9a-f-]{36})", server.output)[1]
    command = [sys.executable, "-m", "pilotis", "key", "list", "--app", app_id, *server.place]
    keys = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (keys.returncode, "pk_" in keys.stdout, "sk_" in keys.stdout) == (0, True, False), keys
    assert server.stop() == 0
    assert not (server.data_dir / "pilotis.address").exists()

    server.start()
    assert "public key" not in server.output, "the first app is made once"
    body = {"email": "first@example.com", "password": "correct horse battery", "token": server.setup_token}
    assert httpx.post(f"{server.url}/v1/auth/signup", json=body).status_code == 201
    assert_error(httpx.post(f"{server.url}/v1/auth/signup", json=body | {"email": "b@c"}), 403, "INVALID_INVITATION")
    assert server.stop() == 0

    server.start()
    assert "public key" not in server.output
    assert "setup#" not in server.output
    assert server.url in server.output


@pytest.mark.embedded("it lists what the data directory holds")
def test_what_it_writes_is_its_owners_alone(start):
    old = os.umask(0)
    try:
        server = start(from_nothing=True)
    finally:
        os.umask(old)
    assert httpx.get(f"{server.url}/healthz").status_code == 200  # by now everything is there
    modes = {path.name: path.stat().st_mode & 0o777 for path in server.data_dir.iterdir()}
    assert server.data_dir.stat().st_mode & 0o777 == 0o700
    files = dict.fromkeys(["master.key", "pilotis.address", "pilotis.lock", "postgres.log"], 0o600)
    assert modes == files | {"postgres": 0o700, "blobs": 0o700}


def test_on_every_interface_its_links_lead_to_this_machine(start):
    server = start("--host", "0.0.0.0")
    address = re.search(r"Pilotis is at (http://127\.0\.0\.1:\d+), listening on http://0\.0\.0\.0:\d+", server.output)
    assert address, server.output
    assert f"{address[1]}/setup#" in server.output
    assert httpx.get(f"{address[1]}/openapi.json").json()["servers"] == [{"url": address[1]}]


@on_linux
def test_it_may_have_as_many_connections_as_the_system_allows(start):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    try:
        server = start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    assert re.search(rf"Max open files +{hard} +{hard} ", limits), limits


def test_it_uses_less_than_90_mb(start):
    server = start()
    httpx.get(rows_url(server), headers={"X-Public-Key": printed_key(server)})
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    assert int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024 < 90e6


@pytest.mark.embedded("PostgreSQL is to end with the server")
@pytest.mark.parametrize(
    ("number", "workers"),
    [
        (signal.SIGINT, "1"),
        pytest.param(signal.SIGINT, "2", marks=pytest.mark.whole),
        pytest.param(signal.SIGTERM, "1", marks=pytest.mark.whole),
        (signal.SIGTERM, "2"),
    ],
)
def test_a_signal_stops_it_all_and_further_ones_change_nothing(start, workers, number):
    server = start("--workers", workers)
    postgres, forked = postgres_of(server), children(server.process.pid)
    for _ in range(20):
        server.process.send_signal(number)
        time.sleep(0.01)
    assert server.stop() == 0
    assert not any(map(is_running, [postgres, *forked]))
    assert not (server.data_dir / "postgres" / "postmaster.pid").exists()
    assert server.logs() == ""


@pytest.mark.parametrize(
    "delay", [0.02, pytest.param(0.1, marks=pytest.mark.whole), 0.2, pytest.param(0.4, marks=pytest.mark.whole)]
)
def test_a_signal_while_starting_stops_it_too(tmp_path, delay):
    command = [sys.executable, "-m", "pilotis", "serve", "--port", "0", "--data-dir", str(tmp_path / "data")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until((tmp_path / "data" / "pilotis.lock").exists)
    time.sleep(delay)
    while process.poll() is None:  # an impatient person's finger
        process.send_signal(signal.SIGTERM)
        time.sleep(0.005)
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, ""), output
    assert running_address(tmp_path / "data" / "postgres") is None


@pytest.mark.parametrize("workers", sample(["1", "2"], 0.5, of="a request in flight is answered before the end"))
def test_a_request_in_flight_is_answered_before_the_end(start, workers):
    server = start("--workers", workers)
    url = httpx.URL(rows_url(server))
    body = json.dumps({"data": {"text": "late"}}).encode()
    head = (
        f"POST {url.path} HTTP/1.1\r\nHost: x\r\nX-Public-Key: {printed_key(server)}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    )
    with socket.create_connection((url.host, url.port), timeout=PATIENCE) as connection:
        connection.sendall(head.encode())
        # The body is asked for, so the request is in flight: what only waits to be accepted is not.
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body[:5])
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert server.process.poll() is None
        connection.sendall(body[5:])
        assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")
    assert server.stop() == 0


@pytest.mark.embedded("PostgreSQL is to end with the server")
@on_linux
@pytest.mark.parametrize("workers", sample(["1", "2"], 0.5, of="killing it leaves nothing behind and loses nothing"))
def test_killing_it_leaves_nothing_behind_and_loses_nothing(start, workers):
    server = start("--workers", workers)
    url, headers = rows_url(server), {"X-Public-Key": printed_key(server)}
    assert httpx.post(url, headers=headers, json={"data": {"text": "kept"}}).status_code == 201
    postgres, count = postgres_of(server), 1 if workers == "1" else 3
    wait_until(lambda: len(children(server.process.pid)) == count)
    forked = children(server.process.pid)
    path = httpx.URL(url).path
    server.kill()
    server.start()  # at once, while the rest is still ending
    wait_until(lambda: not any(map(is_running, [postgres, *forked])))
    rows = httpx.get(server.url + path, headers=headers).json()["data"]
    assert [row["data"] for row in rows] == [{"text": "kept"}]


@pytest.mark.embedded("only then is the directory one server's")
def test_a_second_server_on_the_directory_names_the_first_and_ends(start):
    server = start()
    second = serve_again(server)
    assert second.returncode == 1
    assert f"process {server.process.pid}" in second.stderr
    assert str(server.data_dir) in second.stderr
    assert len(second.stderr.splitlines()) == 1
    assert httpx.get(rows_url(server), headers={"X-Public-Key": printed_key(server)}).status_code == 200


def test_a_taken_port_is_told_in_a_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = serve_again(Server(tmp_path / "data"), "--port", str(taken.getsockname()[1]))
    assert refused.returncode == 1
    assert re.fullmatch(r"pilotis: Cannot listen on 127.0.0.1 port \d+: .*in use; --port .*\n", refused.stderr)


@pytest.mark.embedded("it kills PostgreSQL")
@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.whole), "2"])
def test_a_postgresql_that_ends_by_itself_is_started_again_with_growing_pauses(start, workers):
    server = start("--workers", workers)
    url, headers = rows_url(server), {"X-Public-Key": printed_key(server)}
    assert httpx.post(url, headers=headers, json={"data": {"text": "kept"}}).status_code == 201
    seconds = []
    for number in range(3):
        killed = postgres_of(server)
        os.kill(killed, signal.SIGKILL)
        began = time.monotonic()
        seen = set()

        wait_until(functools.partial(has_another_postgres, server, killed))

        def stored(number: int = number, seen: set[int] = seen) -> bool:
            answer = httpx.post(url, headers=headers, json={"data": {"text": f"after {number}"}})
            seen.add(answer.status_code)
            return answer.status_code == 201

        wait_until(stored)
        seconds.append(time.monotonic() - began)
        # It may take rows before Pilotis has seen that it runs; what is killed until then has not started.
        wait_until(lambda number=number: server.logs().count("PostgreSQL is running again") == number + 1)
        assert seen <= {201, 503}
        assert postgres_of(server) != killed
        assert server.process.poll() is None
    assert seconds[1] >= 2
    assert seconds[2] >= 4
    rows = httpx.get(url, headers=headers).json()
    assert [row["data"]["text"] for row in rows["data"]] == ["kept", "after 0", "after 1", "after 2"]
    assert server.logs().count("PostgreSQL ended unexpectedly") == 3
    assert "signal 9" in server.logs()
    assert server.stop() == 0
    assert running_address(server.data_dir / "postgres") is None


@pytest.mark.embedded("it kills PostgreSQL")
@pytest.mark.parametrize("workers", sample(["1", "2"], 0.5, of="a stop while postgresql is away is heeded at once"))
def test_a_stop_while_postgresql_is_away_is_heeded_at_once(start, workers):
    server = start("--workers", workers)

    def wait_for(event: str, count: int) -> None:
        def happened() -> bool:
            assert server.process.poll() is None, server.logs()
            assert server.logs().count(event) <= count, server.logs()
            return server.logs().count(event) == count

        wait_until(happened)

    # A server that loses its database while it starts ends.
    wait_until(lambda: httpx.get(f"{server.url}/readyz").status_code == 200)
    for number in range(1, 5):
        os.kill(postgres_of(server), signal.SIGKILL)
        wait_for("PostgreSQL ended unexpectedly", number)
        if number < 4:
            wait_for("running again", number)
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 8, "it waited for the pause to end"
    assert server.logs().count("running again") == 3


def test_a_worker_that_ends_is_replaced(start):
    server = start("--workers", "2")
    url, headers = rows_url(server), {"X-Public-Key": printed_key(server)}

    def workers() -> set[int]:
        return set(children(server.process.pid)) - ({postgres_of(server)} if databases.is_embedded() else set())

    wait_until(lambda: len(workers()) == 2)
    time.sleep(1)  # one that lives shorter is restarted after a pause
    for number in (signal.SIGKILL, signal.SIGTERM):
        victim = min(workers())
        os.kill(victim, number)
        wait_until(lambda: victim not in workers() and len(workers()) == 2)  # noqa: B023 - called at once
        assert httpx.get(url, headers=headers).status_code == 200
    assert server.stop() == 0


@pytest.mark.parametrize(("workers", "accepted"), [(1, 8), (2, 2), (4, 2)])
def test_one_of_several_workers_takes_few_connections_at_once(workers: int, accepted: int):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sockets = accepting([listening], workers)
        assert [one.getsockname() for one in sockets] == [listening.getsockname()] * accepted
        for one in sockets:
            one.close()


def test_workers_answer_from_one_socket(start):
    server = start("--workers", "3")
    url, headers = rows_url(server), {"X-Public-Key": printed_key(server)}

    def post(number: int) -> int:
        return httpx.post(url, headers=headers, json={"data": {"text": str(number)}}).status_code

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(post, range(40))) == {201}
    assert httpx.get(url, headers=headers).json()["total_count"] == 40


@pytest.mark.advisory("GHSA-vm5r-c87r-pf6x", "Directus 12")
def test_client_addresses_are_not_taken_from_a_header_that_anybody_can_send(start):
    server = start(PILOTIS_LIMITS_GUEST_PER_MINUTE="2")
    headers = {"X-Public-Key": printed_key(server)}
    answers = [
        httpx.post(f"{server.url}/v1/public/app-members", headers=headers | {"X-Forwarded-For": f"10.0.0.{number}"})
        for number in range(3)
    ]
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    assert "server" not in answers[0].headers
    assert "date" in answers[0].headers


@as_root
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv of util-linux is not there")
def test_an_ordinary_user_can_serve():
    nobody = pwd.getpwnam("nobody").pw_uid
    place = Path(tempfile.mkdtemp(prefix="pilotis-test-", dir="/tmp"))
    os.chown(place, nobody, -1)
    # Python or Pilotis may lie where only root reads, so the one capability to read is kept.
    become = ["setpriv", f"--reuid={nobody}", "--clear-groups", "--bounding-set=-all,+dac_read_search"]
    become += ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
    serve = [sys.executable, "-m", "pilotis", "serve", "--port", "0", "--data-dir", str(place / "data")]
    try:
        with subprocess.Popen([*become, *serve], stdout=subprocess.PIPE, text=True, cwd=place) as process:
            output = ""
            while "Ctrl-C" not in output and (line := process.stdout.readline()):
                output += line
            url = re.search(r"\S+/data", output)[0]
            key = re.search(r"public key +(\S+)", output)[1]
            assert httpx.get(url, headers={"X-Public-Key": key}).status_code == 200
            assert {path.stat().st_uid for path in (place / "data").rglob("*")} == {nobody}
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
    finally:
        shutil.rmtree(place)


@pytest.mark.embedded("it asks whose process PostgreSQL is")
@as_root
def test_root_can_serve_below_a_directory_only_root_may_enter(tmp_path, start):
    tmp_path.chmod(0o700)
    server = start()
    assert Path(f"/proc/{postgres_of(server)}").stat().st_uid != 0
    assert httpx.get(rows_url(server), headers={"X-Public-Key": printed_key(server)}).status_code == 200


class External:
    """A PostgreSQL 15 that is not Pilotis' own, with a database for each test."""

    def __init__(self, directory: Path) -> None:
        self.server = EmbeddedPostgres(directory, binaries=DEBIAN_15)
        self.address = self.server.start()

    def url(self, name: str) -> str:
        asyncio.run(self._create(name))
        return f"postgresql://{self.address.user}@/{name}?host={self.address.host}&port={self.address.port}"

    async def _create(self, name: str) -> None:
        connection = await asyncpg.connect(**self.address._asdict())
        await connection.execute(f"create database {name}")
        await connection.close()


@pytest.fixture(scope="module")
def external(tmp_path_factory: pytest.TempPathFactory) -> Iterator[External]:
    if not DEBIAN_15.is_dir():
        pytest.skip("the system has no PostgreSQL 15")
    external = External(tmp_path_factory.mktemp("external") / "postgres")
    yield external
    external.server.stop()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator:
    """Starts two nodes at once on one database, each with a data directory of its own."""
    started: list[Server] = []

    def nodes(url: str, key: str = "ab" * 32) -> list[Server]:
        for number in range(2):
            arguments = ("--database-url", url)
            started.append(Server(tmp_path / f"node{number}", *arguments, environment={"PILOTIS_MASTER_KEY": key}))
        with ThreadPoolExecutor() as threads:
            return list(threads.map(Server.start, started))

    yield nodes
    assert [server.stop() for server in started] == [0] * len(started)


def test_two_nodes_on_one_database_make_one_first_app_and_see_each_others_changes(external, nodes):
    first, second = nodes(external.url("two_nodes"))
    assert [("public key" in node.output) for node in (first, second)].count(True) == 1
    maker = first if "public key" in first.output else second
    headers = {"X-Public-Key": printed_key(maker)}
    here = [httpx.Client(base_url=node.url, headers=headers, timeout=PATIENCE) for node in (first, second)]

    path = httpx.URL(rows_url(maker)).path
    for client in here:
        assert client.post(path, json={"data": {"text": "old"}}).status_code == 201
    column = {"name": "stars", "data_type": "int"}
    assert here[0].post(path.removesuffix("data") + "columns", json=column).status_code == 201
    assert here[1].post(path, json={"data": {"text": "new", "stars": 5}}).status_code == 201
    assert here[0].delete(path.removesuffix("data") + "columns/stars").status_code == 200
    assert_error(here[1].post(path, json={"data": {"text": "new", "stars": 5}}), 400, "UNKNOWN_COLUMN")

    member = here[0].post("/v1/public/app-members").json()
    bearer = {"Authorization": f"Bearer {member['access_token']}"}
    assert here[1].get("/v1/public/app-members/me", headers=bearer).status_code == 200
    assert here[0].post("/v1/public/app-members/signout", headers=bearer).status_code == 200
    assert here[1].get("/v1/public/app-members/me", headers=bearer).status_code == 401
    for client in here:
        client.close()


def test_a_node_with_another_master_key_is_refused(external, nodes, tmp_path):
    url = external.url("two_keys")
    nodes(url)
    stranger = Server(tmp_path / "stranger")
    other = serve_again(stranger, "--database-url", url, PILOTIS_MASTER_KEY="cd" * 32)
    assert other.returncode == 1
    assert "master key in the setting master_key is not the one this database was set up with" in other.stderr
    absent = serve_again(stranger, "--database-url", url)
    assert absent.returncode == 1
    assert "set PILOTIS_MASTER_KEY, or copy the file" in absent.stderr
    assert not (stranger.data_dir / "master.key").exists(), "a second key must not be made"


def test_the_commands_work_on_it_before_any_server(external, tmp_path):
    url = external.url("commands")

    def run(*arguments: str) -> str:
        done = forked.run("pilotis", *arguments, "--database-url", url, folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    for arguments in (("migrate",), ("app", "create", "Shop")):
        refused = forked.run("pilotis", *arguments, "--database-url", url, folder=tmp_path)
        assert "Pilotis has not been set up in this database" in refused.stderr
    assert "Applied 0001_initial.sql." in run("init")
    app = json.loads(run("app", "create", "Shop", "--json"))
    assert app["app_id"] in run("app", "list")
    assert app["public_key"] in run("key", "list", "--app", app["app_id"])
    assert list(tmp_path.iterdir()) == [], "no master key is made where nobody serves"
    server = Server(tmp_path / "data", "--database-url", url).start()
    answer = httpx.get(f"{server.url}/v1/public/tables", headers={"X-Public-Key": app["public_key"]})
    assert server.stop() == 0
    assert answer.status_code == 200
    assert "it is PostgreSQL 15." in run("doctor", "--data-dir", str(tmp_path / "data"))


def test_a_lost_master_key_is_not_replaced_in_silence(start):
    server = start()
    server.stop()
    (server.data_dir / "master.key").unlink()
    refused = serve_again(server)
    assert refused.returncode == 1
    assert "master.key does not hold it" in refused.stderr
    assert not (server.data_dir / "master.key").exists()


@pytest.mark.parametrize(
    "url", ["postgresql://127.0.0.1:1/x", "postgresql://x:sesame@/none?host=/nowhere", "http://example.com", "x"]
)
def test_an_unreachable_database_is_told_in_a_sentence_without_its_password(tmp_path, url):
    refused = serve_again(Server(tmp_path / "data"), "--database-url", url)
    assert refused.returncode == 1
    assert refused.stderr.startswith("pilotis: The database cannot be reached: ")
    assert len(refused.stderr.splitlines()) == 1
    assert "sesame" not in refused.stderr


@pytest.mark.parametrize("workers", sample(["1", "2"], 0.5, of="metrics are on a port of their own"))
def test_metrics_are_on_a_port_of_their_own(tmp_path, workers):
    with reserved_port() as port:
        metrics = {"PILOTIS_METRICS_PORT": str(port)}
        server = Server(tmp_path / "data", "--workers", workers, environment=metrics).start()
    try:
        assert f"\nMetrics for Prometheus are at http://127.0.0.1:{port}/metrics\n" in server.output
        assert httpx.get(f"{server.url}/healthz").status_code == 200
        assert httpx.get(f"{server.url}/metrics").status_code == 404

        def counted() -> bool:
            return 'route="/healthz"' in httpx.get(f"http://127.0.0.1:{port}/metrics").text

        wait_until(counted)
    finally:
        assert server.stop() == 0


def test_a_metrics_port_that_is_taken_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        environment = os.environ | {"PILOTIS_METRICS_PORT": str(taken.getsockname()[1])}
        command = [sys.executable, "-m", "pilotis", "serve", "--port", "0", "--data-dir", str(tmp_path / "data")]
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE)
    assert ended.returncode == 1
    assert "metrics_port" in ended.stderr


def listening_addresses(port: int) -> list[str]:
    """The IPv4 addresses on which somebody listens on the port, by /proc/net/tcp."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    addresses = [line[1].split(":") for line in lines if line[3] == "0A"]
    return [socket.inet_ntoa(bytes.fromhex(ip)[::-1]) for ip, number in addresses if int(number, 16) == port]


@on_linux
@pytest.mark.parametrize(("host", "setting"), [("127.0.0.1", {}), ("127.0.0.2", {"PILOTIS_METRICS_HOST": "127.0.0.2"})])
def test_metrics_listen_on_loopback_whatever_the_servers_address_is(tmp_path, host, setting):
    with reserved_port() as port:
        environment = {"PILOTIS_METRICS_PORT": str(port), **setting}
        server = Server(tmp_path / "data", "--host", "0.0.0.0", environment=environment).start()
    try:
        assert listening_addresses(port) == [host]
        assert f"Metrics for Prometheus are at http://{host}:{port}/metrics" in server.output
        assert "pilotis_database_pool_open" in httpx.get(f"http://{host}:{port}/metrics").text
        assert listening_addresses(int(server.url.rpartition(":")[2])) == ["0.0.0.0"]
    finally:
        assert server.stop() == 0


@on_linux
def test_a_killed_servers_shared_metrics_are_removed_by_the_next_start_and_a_living_ones_are_not(tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    foreign = temporary / "pilotis-metrics-link"
    foreign.symlink_to(tmp_path)

    def directories() -> set[str]:
        return {path.name for path in temporary.iterdir() if not path.is_symlink()}

    servers = []
    for number in range(3):
        with reserved_port() as port:
            environment = {"PILOTIS_METRICS_PORT": str(port), "TMPDIR": str(temporary)}
            servers.append(Server(tmp_path / f"data{number}", "--workers", "2", environment=environment).start())
        if number == 1:
            assert len(directories()) == 2
            workers = children(servers[0].process.pid)
            before = directories()
            servers[0].kill()
            wait_until(lambda: not any(map(is_running, workers)))  # noqa: B023 - called at once
            assert directories() == before
    assert len(directories()) == 2
    assert len(directories() & before) == 1
    assert foreign.is_symlink()
    for server in servers[1:]:
        assert server.stop() == 0
    assert directories() == set()


# What pip prints for two packages; then it unpacks them, for as long as a test lets it.
PIP = """#!/bin/sh
case "$*" in *requirements.lock) ;; *) exit 0 ;; esac
echo "Looking in links: wheels"
echo "Collecting idna==3.10 (from -r requirements.lock (line 7))"
echo "  Downloading idna-3.10-py3-none-any.whl (70 kB)"
echo "Collecting pilotis-postgres==18.6.1 (from -r requirements.lock (line 9))"
echo "Installing collected packages: pilotis-postgres, idna"
for n in $(seq 500); do [ -e {folder}/go ] && break; sleep 0.02; done
exit {status}
"""


@pytest.mark.parametrize("status", [0, 1])
def test_make_shows_what_it_installs_while_it_does(tmp_path: Path, status: int):
    venv, root = tmp_path / "venv", Path(__file__).parent.parent
    (venv / "bin").mkdir(parents=True)
    (venv / ".created").touch()
    python = venv / "bin" / "python"
    python.write_text(PIP.replace("{folder}", str(tmp_path)).replace("{status}", str(status)))
    python.chmod(0o755)
    # On a terminal, as a newcomer runs it; what is written to a pipe arrives at the end.
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["make", "--no-print-directory", f"VENV={venv}", f"{venv}/.installed"], cwd=root, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    while b"Unpacking" not in shown:
        shown += os.read(ours, 1000)
    assert process.poll() is None
    (tmp_path / "go").touch()
    assert (process.wait(PATIENCE) == 0) is (status == 0)
    os.close(ours)
    lines = shown.decode().replace("\r", "").splitlines()
    assert lines == [f"Installing Pilotis into {venv} …", "  idna 3.10", "  pilotis-postgres 18.6.1", "  Unpacking ..."]
    assert (venv / ".installed").exists() is (status == 0)
    assert not (venv / ".installed.failed").exists()


def test_the_start_says_that_functions_are_not_isolated_and_what_to_install():
    sample, sentence = Prepared(None, None), "Functions are not fully isolated: bubblewrap is missing."
    assert sentence in welcome.text(sample, "http://x", "http://x", isolation=sentence).splitlines()
    assert "isolated" not in welcome.text(sample, "http://x", "http://x")


def test_what_is_missing_for_isolation_is_named(tmp_path):
    script = (
        "from pilotis.functions.runtime import policy; policy._BINARY_PATHS = sys.argv[1]\n"
        "from pilotis.serve.start import _isolation; from pilotis.settings import Settings\n"
        "print(_isolation(Settings(functions_isolation=sys.argv[2])))"
    )
    # One that a container engine keeps from making namespaces, as bubblewrap 0.8 says it.
    forbidden = tmp_path / "bwrap"
    forbidden.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace, likely' >&2\nexit 1\n")
    forbidden.chmod(0o755)
    missing, programs = "apt install bubblewrap", str(tmp_path)
    for path, chosen, said in (
        (str(tmp_path / "none"), "auto", missing),
        (str(tmp_path / "none"), "permissions", None),
        (programs, "auto", "namespaces (bwrap: No permissions to create new namespace, likely). See Functions in"),
        (programs, "landlock", None),
    ):
        command = [sys.executable, "-c", f"import sys; {script}", path, chosen]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert said in done.stdout if said else done.stdout == "\n", done
    if policy.tools().bwrap is not None and isolation_of(policy.Runtime.PYTHON)[0] in {"bwrap", "bwrap-userns"}:
        assert policy.forbidden_namespaces() is None


def test_a_sandbox_needs_no_name_of_its_own():
    """Setting a host name is what container engines refuse to bubblewrap first."""
    require_sandboxes()
    for runtime in Runtime:
        line, _ = policy.command(Isolation.NAMESPACE, runtime, seccomp=3, user=0, memory_mb=128)
        assert "--unshare-net" in line
        assert "--hostname" not in line
