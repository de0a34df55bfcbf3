"""Attacks of a function on its sandbox, at each isolation that this machine offers. The ids are those of the threats.

Each attack runs in a real sandbox; what the function could do comes back as its result.
"""

import asyncio
import contextlib
import ctypes
import functools
import json
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from pilotis.functions.runtime import frames, isolation, seccomp
from pilotis.functions.runtime.call import Invocation, Outcome, Program
from pilotis.functions.runtime.egress import Egress, EgressPolicy
from pilotis.functions.runtime.policy import Isolation, Runtime, tools
from pilotis.functions.runtime.pool import Pool
from pilotis.functions.runtime.process import NICE
from pilotis.functions.runtime.sandbox import Sandbox
from pilotis.functions.runtime.types import (
    FunctionBusyError,
    PoolSettings,
    QueueTimeoutError,
    Ran,
    RuntimeUnavailableError,
    Wanted,
)
from pilotis.http.outgoing import Outgoing, OutgoingSettings, Reach
from pilotis.http.outgoing_allowance import parse_host
from tests.certificates import Authority
from tests.receiver import Receiver
from tests.waiting import PATIENCE, children, is_running, until

LEVELS = list(Isolation)
"""`Isolation.PERMISSIONS` promises nothing to those who run code of others, but does what Deno's permissions can."""
USER = 702_001
PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(params=LEVELS, ids=[level.value for level in LEVELS])
async def level(request: pytest.FixtureRequest) -> Isolation:
    wanted: Isolation = request.param
    require(wanted, Runtime.JAVASCRIPT)
    return wanted


@functools.cache
def offered(level: Isolation, runtime: Runtime) -> isolation.Found:
    """How this machine isolates a runtime, if only this level is tried."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(isolation.probe(runtime, USER, [level]))).result()


def require(level: Isolation, runtime: Runtime) -> None:
    """Skip a test where the machine does not offer a level, as where another user cannot read its Python."""
    found = offered(level, runtime)
    if found.isolation is None:
        pytest.skip(f"this machine does not offer it: {found.reason}")


def clients(level: Isolation, **sources: str) -> list[tuple[Runtime, str]]:
    """The sources, by the name of their runtime, of those runtimes that the level has at all."""
    found = [(Runtime(name), source) for name, source in sources.items()]
    return [one for one in found if level is not Isolation.PERMISSIONS or one[0] is Runtime.JAVASCRIPT]


def require_namespaces(level: Isolation) -> None:
    """Skip a test of what Landlock alone does not give."""
    if not level.has_namespaces:
        pytest.skip("without namespaces there is no network and no file to write")


@asynccontextmanager
async def sandbox(
    level: Isolation, source: str, runtime: Runtime = Runtime.JAVASCRIPT, egress: Egress | None = None
) -> AsyncIterator[Sandbox]:
    require(level, runtime)
    if egress:
        require_namespaces(level)
    entry = "index.js" if runtime is Runtime.JAVASCRIPT else "main.py"
    made = Sandbox(level, runtime, 128, USER)
    await made.start(egress=egress)
    try:
        deadline = asyncio.get_running_loop().time() + PATIENCE
        await made.load(Program({entry: source.encode()}, entry, {"TOKEN": "a secret value"}), deadline)
        yield made
    finally:
        made.kill()
        await made.ended()


async def outcome_of(made: Sandbox, payload: Any = None, seconds: float = 60) -> Outcome:
    deadline = asyncio.get_running_loop().time() + seconds
    body = json.dumps(payload or {}).encode()
    return await made.invoke(Invocation(payload=body, context={}, deadline=deadline, cpu_seconds=seconds))


async def value(
    level: Isolation, source: str, runtime: Runtime = Runtime.JAVASCRIPT, egress: Egress | None = None
) -> Any:
    async with sandbox(level, source, runtime, egress) as made:
        outcome = await outcome_of(made)
    assert outcome.status == "success", outcome
    return json.loads(outcome.result)


async def test_f01_an_endless_loop_is_killed_at_its_deadline(level: Isolation):
    for runtime, source in clients(
        level,
        javascript="export default () => { for (;;); }",
        python="def handler(p, c):\n    while True: pass",
    ):
        async with sandbox(level, source, runtime) as made:
            outcome = await outcome_of(made, seconds=0.3)
            assert (outcome.status, outcome.error_code) == ("timeout", "FUNCTION_TIMEOUT")
            assert await until(lambda pid=made.pid: not is_running(pid))


async def test_f01_processor_time_is_bounded(level: Isolation):
    async with sandbox(level, "export default () => { for (;;); }") as made:
        loop = asyncio.get_running_loop()
        call = Invocation(payload=b"{}", context={}, deadline=loop.time() + PATIENCE, cpu_seconds=0.2)
        running = asyncio.ensure_future(made.invoke(call))
        while not running.done():
            await asyncio.sleep(0.02)
            made.check()
        assert running.result().error_code == "CPU_EXCEEDED"


JAVASCRIPT_READS = """
const paths = ["/etc/passwd", "/proc/self/environ", "/proc/1/environ", "/proc/1/mem", "/root", "/home", "/var",
  "/etc/shadow", "/run/harness.ts", "/bin/deno", "/sys", "%s"];
export default () => paths.filter((path) => { try { Deno.readTextFileSync(path); return true } catch {
  try { [...Deno.readDirSync(path)]; return true } catch { return false } } });
"""
# What Deno sets itself.
OF_DENO = {"DENO_NODE_SHIM_ACTIVE", "PATH"}
PYTHON_READS = """
import os
PATHS = ["/etc/passwd", "/proc/self/environ", "/proc/1/environ", "/root", "/home", "/var", "/etc/shadow", "/sys", "%s"]
def read(path):
    try:
        open(path, "rb").read(1)
    except OSError:
        try:
            return bool(os.listdir(path))
        except OSError:
            return False
    return True
def handler(p, c):
    return [path for path in PATHS if read(path)]
"""


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    made = tmp_path / "master.key"
    made.write_text("secret")
    tmp_path.chmod(0o755)
    made.chmod(0o644)
    return made


async def test_f05_nothing_of_the_host_can_be_read(level: Isolation, secret: Path):
    for runtime, source in clients(level, javascript=JAVASCRIPT_READS, python=PYTHON_READS):
        # The directories above the interpreter are there, with nothing else in them.
        there = {f"/{Path(str(tools().python)).parts[1]}"} if runtime is Runtime.PYTHON else set()
        assert set(await value(level, source % secret, runtime)) <= there


async def test_f05_the_environment_of_the_server_is_not_there(level: Isolation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PILOTIS_MASTER_KEY", "ab" * 32)
    own = {"DENO_DIR", "HOME", "NO_COLOR", "DENO_NO_UPDATE_CHECK", "PWD", "TOKEN"} | OF_DENO
    assert set(await value(level, "export default () => Object.keys(Deno.env.toObject())")) <= own
    for runtime, source in clients(level, python="import os\ndef handler(p, c): return sorted(os.environ)"):
        own = {"HOME", "LANG", "LC_CTYPE", "LD_LIBRARY_PATH", "MALLOC_ARENA_MAX", "PWD", "TOKEN"}
        assert set(await value(level, source, runtime)) <= own


SYSTEM_CALLS = """
import ctypes, os, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    return libc.syscall(*arguments) >= 0
def refused(work):
    try:
        return not work()
    except (OSError, subprocess.SubprocessError):
        return True
NUMBERS = %s
def handler(p, c):
    tries = {name: (lambda number=number: call(number, 0, 0, 0, 0, 0)) for name, number in NUMBERS.items()}
    tries["os.fork"] = lambda: os.fork() == 0 and os._exit(0)
    tries["subprocess"] = lambda: subprocess.run(["/bin/setpriv"]) or True
    tries["posix_spawn"] = lambda: os.posix_spawn("/run/harness.py", ["x"], {})
    tries["netlink"] = lambda: call(NUMBERS_SOCKET, 16, 3, 0)
    tries["packet"] = lambda: call(NUMBERS_SOCKET, 17, 3, 0)
    tries["setuid"] = lambda: os.setuid(0) is None and os.getuid() == 0 and open("/etc/shadow")
    return [name for name, work in tries.items() if not refused(work)]
"""


SHARED_MEMORY = """
import ctypes, mmap, os
def mapped():
    memory = mmap.mmap(-1, 1 << 30)
    for at in range(0, 1 << 30, 4096):
        memory[at] = 1
def in_file():
    file = os.memfd_create("x")
    for n in range(1024):
        os.write(file, bytes(1 << 20))
def segment():
    if ctypes.CDLL(None).shmget(0, 1 << 29, 0o1600) < 0:
        raise OSError
def handler(p, c):
    done = []
    for work in (mapped, in_file, segment):
        try:
            work()
            done.append(work.__name__)
        except (OSError, MemoryError):
            pass
    return done
"""


BOMBS = {
    "heap": "const a = []; for (;;) a.push(new Array(100000).fill(1.5));",
    "buffers": "const a = []; for (;;) a.push(new Uint8Array(5e7).fill(1));",
    "shared": "const a = []; for (;;) a.push(new Uint8Array(new SharedArrayBuffer(1 << 20)).fill(1));",
    # Memory that cannot grow throws an error of its own.
    "wasm": "const m = new WebAssembly.Memory({ initial: 1 }); for (;;) m.grow(1000);",
}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("bomb", BOMBS)
async def test_f02_a_bomb_of_memory_ends_its_own_call(level: Isolation, bomb: str):
    async with sandbox(level, f"export default () => {{ {BOMBS[bomb]} }};") as made:
        outcome = await outcome_of(made)
    assert outcome.status == "error", outcome
    assert outcome.error_code in {"MEMORY_EXCEEDED"} | ({"FUNCTION_ERROR"} if bomb == "wasm" else set()), outcome


async def test_f02_memory_of_python_is_bounded(level: Isolation):
    assert await value(level, SHARED_MEMORY, Runtime.PYTHON) == []
    async with sandbox(
        level, "def handler(p, c):\n a = []\n while True: a.append(bytearray(10**7))", Runtime.PYTHON
    ) as made:
        assert (await outcome_of(made)).error_code == "MEMORY_EXCEEDED"


async def test_f02_threads_are_bounded(level: Isolation):
    if os.geteuid() == 0 and level is Isolation.NAMESPACE:
        pytest.skip("the kernel does not count the threads of root")
    source = """
import threading
def handler(p, c):
    threading.stack_size(32768)
    end, number = threading.Event(), 0
    try:
        while number < 2000:
            threading.Thread(target=end.wait, daemon=True).start()
            number += 1
    except RuntimeError:
        pass
    end.set()
    return number
"""
    assert await value(level, source, Runtime.PYTHON) < 300


ENDS = {
    "exits": ("Deno.exit(0)", "SANDBOX_ENDED"),
    "never settles": ("return new Promise(() => {})", "FUNCTION_TIMEOUT"),
    "a cycle": ("const a = {}; a.a = a; return a", "RESULT_NOT_JSON"),
    "BigInt": ("return 10n", "RESULT_NOT_JSON"),
    "nesting": ("let a; for (let n = 0; n < 200; n++) a = [a]; return a", "RESULT_NOT_JSON"),
    "7 MB": ("return 'x'.repeat(7e6)", "RESULT_TOO_LARGE"),
}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("name", ENDS)
async def test_f03_f04_what_is_no_result_is_said(level: Isolation, name: str):
    statement, code = ENDS[name]
    async with sandbox(level, f"export default () => {{ {statement} }};") as made:
        seconds = 1 if code == "FUNCTION_TIMEOUT" else 60
        assert (await outcome_of(made, seconds=seconds)).error_code == code


async def test_f03_a_promise_that_is_rejected_late_ends_no_other_call(level: Isolation):
    source = """
        export default async ({ first }) => {
          if (first) setTimeout(() => Promise.reject(new Error("late")), 1);
          return 1;
        };"""
    async with sandbox(level, source) as made:
        assert (await outcome_of(made, {"first": True})).result == b"1"
        # The process ends; what is called next gets another.
        assert await until(lambda: not is_running(made.pid))
        assert (await outcome_of(made)).error_code == "SANDBOX_ENDED"
        assert made.is_dead


OTHERS = """
import ctypes, fcntl, os, resource, signal, socket
PARENT, SECRET = %d, %r
def socketpair():
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    left.sendto(b"x", "/run/any")
def owner():
    fcntl.fcntl(0, fcntl.F_SETOWN, PARENT)
def outlive():
    if ctypes.CDLL(None).prctl(1, 0, 0, 0, 0):
        raise OSError
TRIES = {
    "kill": lambda: os.kill(PARENT, 0), "limits": lambda: resource.prlimit(PARENT, resource.RLIMIT_CORE),
    "chmod": lambda: os.chmod(SECRET, 0), "utime": lambda: os.utime(SECRET), "truncate": lambda: os.truncate(SECRET, 0),
    "unlink": lambda: os.unlink(SECRET), "link": lambda: os.link(SECRET, "/tmp/pilotis-link"), "owner": owner,
    "write": lambda: open("/var/tmp/pilotis-written", "w"), "socketpair": socketpair, "outlive": outlive,
    "setsid": os.setsid, "nice": lambda: os.setpriority(os.PRIO_PROCESS, PARENT, 19),
    "list": lambda: os.listdir("/tmp"),
    "server": lambda: socket.socket().bind(("127.0.0.1", 0)), "root": lambda: os.setuid(0),
}
def handler(p, c):
    done = []
    for name, work in TRIES.items():
        try:
            work()
            done.append(name)
        except (OSError, RuntimeError):
            pass
    return done
"""


async def test_f06_without_namespaces_other_processes_and_files_are_out_of_reach(secret: Path):
    require(Isolation.LANDLOCK, Runtime.JAVASCRIPT)
    assert await value(Isolation.LANDLOCK, OTHERS % (os.getpid(), str(secret)), Runtime.PYTHON) == []
    assert secret.read_text() == "secret"  # noqa: ASYNC240


async def test_f06_system_calls_that_lead_out_are_refused(level: Isolation):
    machine = seccomp._MACHINES[os.uname().machine]
    source = SYSTEM_CALLS.replace("NUMBERS_SOCKET", str(machine.socket)) % machine.refused
    assert await value(level, source, Runtime.PYTHON) == []


SOCKETS = """
import asyncio, fcntl, os, socket
def pair(kind=socket.SOCK_STREAM, family=socket.AF_UNIX):
    return socket.socketpair(family, kind)
def larger(option):
    left, right = pair()
    left.setsockopt(socket.SOL_SOCKET, option, 1 << 24)
def pipe():
    fcntl.fcntl(os.pipe()[1], 1031, 1 << 20)
TRIES = {
    "tcp": lambda: socket.socket(), "tcp6": lambda: socket.socket(socket.AF_INET6),
    "unix": lambda: socket.socket(socket.AF_UNIX), "udp": lambda: socket.socket(type=socket.SOCK_DGRAM),
    "datagrams": lambda: pair(socket.SOCK_DGRAM), "packets": lambda: pair(socket.SOCK_SEQPACKET),
    "listen": lambda: pair()[0].listen(), "pipe": pipe,
    **{str(option): lambda option=option: larger(option) for option in (7, 8, 32, 33)},
}
async def echo():
    ours, theirs = pair()
    reader, writer = await asyncio.open_connection(sock=ours)
    theirs.sendall(b"x")
    return (await reader.read(1)).decode()
def handler(p, c):
    done = []
    for name, work in TRIES.items():
        try:
            work()
            done.append(name)
        except OSError:
            pass
    return done, asyncio.run(echo())
"""
PINS = """
import os, socket
def handler(p, c):
    held, pinned = [], 0
    try:
        while True:
            held += (pair := socket.socketpair())
            for one in pair:
                one.setblocking(False)
                try:
                    while True:
                        pinned += one.send(bytes(65536))
                except BlockingIOError:
                    pass
    except OSError:
        return pinned, len(held)
"""


async def test_f07_no_socket_holds_much_of_the_kernels_memory(level: Isolation):
    """Not even by messages that nobody reads; what event loops need remains."""
    assert await value(level, SOCKETS, Runtime.PYTHON) == [[], "x"]
    pinned, sockets = await value(level, PINS, Runtime.PYTHON)
    assert 16 <= sockets < 64
    assert pinned < 16 * 2**20


async def test_f05_sixteen_threads_fit_into_a_small_function(level: Isolation):
    source = """
import threading
def handler(p, c):
    barrier, done = threading.Barrier(17), []
    def run():
        data = bytearray(1 << 20)
        barrier.wait(60)
        done.append(len(data))
    threads = [threading.Thread(target=run) for _ in range(16)]
    for one in threads:
        one.start()
    barrier.wait(60)
    for one in threads:
        one.join()
    return len(done)
"""
    assert await value(level, source, Runtime.PYTHON) == 16


async def test_f06_javascript_starts_no_process_and_loads_no_library(level: Isolation):
    source = """
        export default () => {
          const tries = { command: () => new Deno.Command("/bin/deno").outputSync(),
            dlopen: () => Deno.dlopen("libc.so.6", {}), run: () => Deno.kill(1, "SIGKILL") };
          return Object.keys(tries).filter((name) => { try { tries[name](); return true } catch { return false } });
        };"""
    assert await value(level, source) == []


async def test_f07_there_is_no_network(level: Isolation):
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    datagrams.bind(("127.0.0.1", port))
    path = Path(f"/tmp/listening-{uuid4()}")
    local = await asyncio.start_unix_server(lambda r, w: w.close(), path)
    path.chmod(0o777)  # noqa: ASYNC240
    abstract = await asyncio.start_unix_server(lambda r, w: w.close(), f"\0listening-{port}")
    source = f"""
import socket
TRIES = [(socket.AF_INET, ("127.0.0.1", {port})), (socket.AF_INET, ("1.1.1.1", 53)),
    (socket.AF_INET6, ("::1", {port})), (socket.AF_UNIX, "{path}"), (socket.AF_UNIX, "\\0listening-{port}")]
def handler(p, c):
    made = []
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(b"x", ("127.0.0.1", {port}))
    except OSError:
        pass
    for family, address in TRIES:
        try:
            with socket.socket(family) as client:
                client.settimeout(2)
                client.connect(address)
                made.append(str(address))
        except OSError:
            pass
    try:
        made.append(socket.gethostbyname("example.com"))
    except OSError:
        pass
    return made
"""
    try:
        fetches = f'export default () => fetch("http://127.0.0.1:{port}").then(() => true, () => false)'
        assert await value(level, fetches) is False
        for runtime, text in clients(level, python=source):
            assert await value(level, text, runtime) == []
        with pytest.raises(BlockingIOError):
            datagrams.recv(1)
    finally:
        datagrams.close()
        for listening in (server, local, abstract):
            listening.close()
        path.unlink(missing_ok=True)  # noqa: ASYNC240


ON_LOOPBACK = ("127.0.0.0/8",)


@asynccontextmanager
async def way_out(
    hosts: list[str] | None,
    networks: tuple[str, ...] = (),
    lookup: Any = None,
    ca_file: Path | None = None,
    **limits: int,
) -> AsyncIterator[Egress]:
    settings = OutgoingSettings(host="0.0.0.0", base_url="https://api.example.com", egress_networks=networks)
    outgoing = Outgoing(settings, lookup=lookup)
    policy = EgressPolicy(None if hosts is None else [parse_host(host) for host in hosts], **limits)
    try:
        yield Egress(
            policy,
            lambda host, port: outgoing.connect(host, port, reach=Reach.FUNCTION),
            Counter(),
            str(ca_file) if ca_file else None,
        )
    finally:
        await outgoing.close()


FETCHES = """
export default async ({ urls }, ctx) => Promise.all(urls.map((url) =>
  fetch(url, { redirect: "follow", signal: AbortSignal.timeout(20000) })
    .then(async (answer) => [answer.status, (await answer.text()).slice(0, 20)], (error) => [0, error.name])));
"""
OPENS = """
import urllib.error, urllib.request
def fetched(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return [answer.status, answer.read(20).decode()]
    except urllib.error.HTTPError as error:
        return [error.status, error.read(20).decode()]
    except OSError as error:
        return [0, type(error).__name__]
def handler(payload, ctx):
    return [fetched(url) for url in payload["urls"]]
"""
CLIENTS = [(Runtime.JAVASCRIPT, FETCHES), (Runtime.PYTHON, OPENS)]
_USUAL = {(Isolation.OWN_USER, Runtime.PYTHON), (Isolation.NAMESPACE, Runtime.JAVASCRIPT)}
CLIENTS_AT_LEVELS = [
    pytest.param(
        level,
        client,
        id=f"{level.value}-{client[0].value}",
        marks=[] if (level, client[0]) in _USUAL else pytest.mark.whole,
    )
    for level in LEVELS
    for client in CLIENTS
]
"""One way out serves them all, so both runtimes at one level each are enough as a rule."""


async def fetched(
    level: Isolation, egress: Egress, client: tuple[Runtime, str], urls: list[str]
) -> tuple[Any, Outcome]:
    async with sandbox(level, client[1], client[0], egress) as made:
        outcome = await outcome_of(made, {"urls": urls})
    assert outcome.status == "success", outcome
    return json.loads(outcome.result), outcome


async def to_loopback(host: str) -> list[str]:
    """A resolver for which every name is loopback."""
    return ["127.0.0.1"]


@pytest.mark.parametrize(("level", "client"), CLIENTS_AT_LEVELS, indirect=["level"])
async def test_f08_a_function_reaches_the_hosts_of_its_list_alone(
    level: Isolation, client: tuple[Runtime, str], tmp_path: Path
):
    authority = Authority(tmp_path)
    async with (
        Receiver.listening() as plain,
        Receiver.listening(tls=authority.context("api.example.com")) as tls,
        way_out(
            [f"*.example.com:{plain.port}", f"api.example.com:{tls.port}"], ON_LOOPBACK, to_loopback, authority.ca_file
        ) as egress,
    ):
        urls = [
            f"http://www.example.com:{plain.port}/a?b=1",
            f"https://api.example.com:{tls.port}/",
            f"http://example.com:{plain.port}/",
            f"http://www.example.org:{plain.port}/",
            f"https://www.example.com:{tls.port}/",
        ]
        results, outcome = await fetched(level, egress, client, urls)
        assert results[:2] == [[200, "ok"], [200, "ok"]]
        assert [status for status, _ in results[2:]] in ([403, 403, 0], [0, 0, 0])
        assert [(one.path, one.headers["host"]) for one in plain.received] == [
            ("/a?b=1", f"www.example.com:{plain.port}")
        ]
        assert [one.path for one in tls.received] == ["/"]
    refusals = [line.message for line in outcome.logs if "was not made" in line.message]
    assert len(refusals) == 3
    assert all("Name it in the function's egress (docs/functions.md#other-servers)." in text for text in refusals)


@pytest.mark.parametrize(("level", "client"), CLIENTS_AT_LEVELS, indirect=["level"])
async def test_f08_no_spelling_of_a_private_address_is_reached(level: Isolation, client: tuple[Runtime, str]):
    async with Receiver.listening() as inside, way_out(None) as egress:
        hosts = [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "localhost",
            "10.0.0.1",
        ]
        urls = [f"http://{host}:{inside.port}/" for host in hosts] + ["http://169.254.169.254/", "https://127.0.0.1/"]
        # These ports are open to none, so that the address is what is refused.
        async with way_out([f"{host}:{inside.port}" for host in ("127.0.0.1", "127.1", "localhost")]) as listed:
            for way in (egress, listed):
                results, outcome = await fetched(level, way, client, urls)
                assert not any(status == 200 for status, _ in results), results
        assert any("egress_networks (docs/configuration.md)" in line.message for line in outcome.logs)
        assert not inside.received


async def test_f08_a_name_that_changes_its_address_is_reached_at_the_checked_one(level: Isolation):
    asked: list[str] = []

    async def rebinding(host: str) -> list[str]:
        asked.append(host)
        return ["8.8.8.8" if len(asked) > 1 else "127.0.0.1"]

    async with Receiver.listening() as inside, way_out([f"a.example.com:{inside.port}"], (), rebinding) as egress:
        results, _ = await fetched(level, egress, CLIENTS[1], [f"http://a.example.com:{inside.port}/"])
        assert results[0][0] == 403
        assert not inside.received
        assert len(asked) == 1


async def test_f08_a_redirect_leads_nowhere_else(level: Isolation):
    async with Receiver.listening() as inside:
        there = f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{inside.port}/secret\r\nContent-Length: 0\r\n\r\n"
        async with (
            Receiver.listening({"/": there.encode()}) as outside,
            way_out([f"a.example.com:{outside.port}"], ON_LOOPBACK, to_loopback) as egress,
        ):
            results, _ = await fetched(level, egress, CLIENTS[1], [f"http://a.example.com:{outside.port}/"])
            assert results == [[403, "The host is not one "]]
            assert len(outside.received) == 1
        assert not inside.received


async def test_f08_connections_and_bytes_of_a_call_are_bounded(level: Isolation):
    async with Receiver.listening() as inside:
        url = f"http://a.example.com:{inside.port}/"
        host = f"a.example.com:{inside.port}"
        async with way_out([host], ON_LOOPBACK, to_loopback, max_connections=3) as egress:
            results, _ = await fetched(level, egress, CLIENTS[1], [url] * 5)
            assert [status for status, _ in results] == [200, 200, 200, 403, 403]
        large = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000
        inside.answers["/"] = large
        async with way_out([host], ON_LOOPBACK, to_loopback, max_bytes=50_000) as egress:
            source = OPENS.replace("answer.read(20).decode()", "len(answer.read())")
            results, outcome = await fetched(level, egress, (Runtime.PYTHON, source), [url])
            assert results[0][0] == 0, results
            assert any("maximum number of bytes" in line.message for line in outcome.logs)


async def test_f08_between_two_calls_no_connection_carries_anything(level: Isolation):
    source = """
import socket, threading, time
def handler(p, c):
    client = socket.create_connection(("127.0.0.1", 3128), 20)
    client.sendall(b"CONNECT a.example.com:%d HTTP/1.1\\r\\n\\r\\n" % p["port"])
    client.recv(100)
    def go_on():
        while True:
            client.sendall(b"x")
            time.sleep(0.01)
    threading.Thread(target=go_on, daemon=True).start()
    return 1
"""
    async with Receiver.listening() as inside:
        host = f"a.example.com:{inside.port}"
        async with (
            way_out([host], ON_LOOPBACK, to_loopback) as egress,
            sandbox(level, source, Runtime.PYTHON, egress) as made,
        ):
            assert (await outcome_of(made, {"port": inside.port})).result == b"1"
            assert await until(lambda: egress._counts["host_not_allowed"])


async def test_f08_the_proxy_answers_nothing_that_is_not_a_request(level: Isolation):
    source = r"""
import socket
TEXTS = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"CONNECT a HTTP/1.1\r\n\r\n",
    b"\0" * 20000,
    b"CONNECT [::1]:99999999 x\r\n\r\n",
    b"GET http://u:p@a/ HTTP/1.1\r\n\r\n",
    b"GET ftp://a/ HTTP/1.1\r\n\r\n",
]
def handler(payload, ctx):
    answers = []
    for text in TEXTS:
        with socket.create_connection(("127.0.0.1", 3128), 20) as client:
            try:
                client.sendall(text)
                answers.append(client.recv(12).decode())
            except OSError:
                answers.append("")
    return answers
"""
    async with way_out(None) as egress:
        answers = await value(level, source, Runtime.PYTHON, egress)
    assert set(answers) <= {"", "HTTP/1.1 403"}, answers


FRAMINGS = {
    "none": b"",
    "length": b"Content-Length: 3",
    "chunks": b"transfer-encoding: Chunked",
    "both": b"Content-Length: 3\r\nTransfer-Encoding: chunked",
    "two lengths": b"Content-Length: 3\r\nContent-Length: 4",
    "no number": b"Content-Length: +3",
    "space": b"Content-Length : 3",
    "two codings": b"Transfer-Encoding: gzip, chunked",
    "line feed": b"A: b\nTransfer-Encoding: chunked",
}
BODIES = {"length": b"abc", "chunks": b"3;a=b\r\nabc\r\n0\r\nEnd: 1\r\n\r\n"}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("framing", FRAMINGS)
async def test_f08_a_connection_carries_one_plain_request(level: Isolation, framing: str):
    source = """
import socket
def handler(p, c):
    with socket.create_connection(("127.0.0.1", 3128), 20) as client:
        client.sendall(p["first"].encode())
        answer = client.recv(1000)
        try:
            client.sendall(p["second"].encode())
            while more := client.recv(1000):
                answer += more
        except OSError:
            pass
    return answer.decode()
"""
    taken: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(await reader.readuntil(b"\r\n\r\n"))
        taken.append(await reader.readexactly(len(body)))
        # It leaves the connection open, though it was asked to close it.
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        taken.append(await reader.read())
        writer.close()

    body = BODIES.get(framing, b"")
    upstream = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = upstream.sockets[0].getsockname()[1]
    host = f"a.example.com:{port}".encode()
    first = b"POST http://%b/first HTTP/1.1\r\nHost: %b\r\n%b\r\n\r\n" % (host, host, FRAMINGS[framing])
    first = first.replace(b"\r\n\r\n\r\n", b"\r\n\r\n") + body
    second = b"GET http://b.example.com/second HTTP/1.1\r\nHost: b.example.com\r\n\r\n"
    async with (
        upstream,
        way_out([host.decode()], ON_LOOPBACK, to_loopback) as egress,
        sandbox(level, source, Runtime.PYTHON, egress) as made,
    ):
        outcome = await outcome_of(made, {"first": first.decode(), "second": second.decode()})
        answer = json.loads(outcome.result)
        if framing in {"none", *BODIES}:
            assert answer == "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
            assert await until(lambda: len(taken) == 3)
            assert taken[0].startswith(b"POST /first HTTP/1.1\r\n")
            assert taken[1:] == [body, b""]
            assert any("one request" in line.message for line in outcome.logs)
        else:
            assert answer.startswith("HTTP/1.1 403"), answer
            assert taken == []


async def test_f08_without_egress_there_is_no_proxy(level: Isolation):
    require_namespaces(level)
    source = """
import socket
def handler(p, c):
    try:
        socket.create_connection(("127.0.0.1", 3128), 5)
    except OSError as error:
        return type(error).__name__
"""
    assert await value(level, source, Runtime.PYTHON) == "OSError"
    fetches = 'export default () => Deno.connect({ port: 3128 }).then(() => "", (error) => error.name)'
    assert await value(level, fetches) == "NotCapable"


async def test_f09_forged_frames_end_the_forgers_own_call(level: Isolation):
    head = "import os\ndef handler(p, c):\n    import sys\n    control = sys.modules['__main__'].control\n"
    for forged in (
        "b'\\xff\\xff\\xff\\xff'",
        "b'\\0\\0\\0\\x04null'",
        "b'\\0\\0\\0\\x02{}'",
        'b\'\\0\\0\\0\\x0b{"t":"wat"}\'',
        "b'\\0\\0\\0\\x05{]]]]'",
    ):
        source = head + f"    os.write(control, {forged})\n    import time; time.sleep(30)"
        async with sandbox(level, source, Runtime.PYTHON) as made:
            outcome = await outcome_of(made)
            assert (outcome.status, outcome.error_code) == ("error", "SANDBOX_ENDED"), forged
            assert made.is_dead


SENDS = {
    "results of no call": 'while True: send(b\'{"t":"result","id":9}\')',
    "calls of no call": 'while True: send(b\'{"t":"call","id":9}\')',
    "large logs": 'while True: send(b\'{"t":"log","message":"%s"}\' % (b\'x\' * 1000000))',
    "calls beyond the limit": 'while True: send(b\'{"t":"call","id":%d,"call":1,"path":"/"}\' % number)',
}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("name", SENDS)
async def test_f09_a_flood_of_frames_ends_the_call(level: Isolation, name: str):
    source = f"""
import os, sys
def handler(p, c):
    control, number = sys.modules["__main__"].control, 1
    def send(data):
        data = len(data).to_bytes(4, "big") + data
        while data:
            data = data[os.write(control, data):]
    {SENDS[name]}
"""
    async with sandbox(level, source, Runtime.PYTHON) as made:
        outcome = await outcome_of(made)
    assert (outcome.status, outcome.error_code) == ("error", "SANDBOX_ENDED"), outcome


def test_f09_a_frame_of_any_length_is_refused_before_it_is_read():
    with pytest.raises(frames.FrameError):
        list(frames.Reader().feed((frames.MAX_FRAME + 1).to_bytes(4)))
    reader = frames.Reader()
    assert list(reader.feed(b"\0\0\0\x09")) == []
    assert [frame.t for frame in reader.feed(b'{"t":"a"}\0')] == ["a"]


async def test_f10_what_a_function_may_write_is_bounded_and_gone_afterwards(level: Isolation):
    require_namespaces(level)
    source = """
import os
def handler(p, c):
    os.symlink("/etc/passwd", "/tmp/link")
    result = []
    try:
        open("/tmp/link").read()
    except OSError as error:
        result.append(error.errno)
    try:
        with open("/tmp/large", "wb") as file:
            for n in range(200):
                file.write(bytes(1 << 20))
                file.flush()
    except OSError as error:
        result.append([error.errno, n < 70])
    for path in ("/run/x", "/bin/x", "/x", "/dev/x", "/dev/shm/x"):
        try:
            open(path, "w")
            result.append(path)
        except OSError:
            pass
    return result
"""
    assert await value(level, source, Runtime.PYTHON) == [2, [28, True]]
    assert not os.path.exists("/tmp/large")  # noqa: ASYNC240, PTH110


async def test_f10_more_files_than_a_sandbox_may_have_end_the_call(level: Isolation):
    require_namespaces(level)
    source = """
def handler(p, c):
    for n in range(p["files"]):
        open(f"/tmp/{n}", "w").close()
    return n + 1
"""
    async with sandbox(level, source, Runtime.PYTHON) as made:
        assert (await outcome_of(made, {"files": 100})).result == b"100"
        made.check()
        assert not made.is_busy_alone()
        making = asyncio.ensure_future(outcome_of(made, {"files": 100_000}))
        while not making.done():
            await asyncio.sleep(0.01)
            made.check()
        assert (await making).error_code == "MEMORY_EXCEEDED"


async def test_a_sandbox_that_goes_on_computing_after_its_call_is_noticed(level: Isolation):
    source = """
        export default async ({ on }) => {
          if (on) setTimeout(() => { for (;;); }, 1);
          return 1;
        };"""
    async with sandbox(level, source) as made:
        assert (await outcome_of(made)).result == b"1"
        assert not made.is_busy_alone()
        assert (await outcome_of(made, {"on": True})).result == b"1"
        assert await until(made.is_busy_alone)


@pytest.mark.parametrize("runtime", Runtime)
async def test_functions_give_way_to_the_server(level: Isolation, runtime: Runtime):
    if level is Isolation.PERMISSIONS and runtime is Runtime.PYTHON:
        pytest.skip("Python has no permissions")
    source = "export default () => 1;" if runtime is Runtime.JAVASCRIPT else "def handler(p, c): return 1"
    before = session_priority("self")
    async with sandbox(level, source, runtime) as made:
        assert (await outcome_of(made)).result == b"1"
        threads = [int(name) for name in os.listdir(f"/proc/{made.pid}/task")]  # noqa: PTH208
        assert {os.getpriority(os.PRIO_PROCESS, one) for one in threads} == {NICE}
        # Without a namespace a sandbox is of the server's own session, in which priorities count.
        assert session_priority(made.pid) in {None, f"nice {NICE}" if level.has_namespaces else before}
    assert session_priority("self") == before


def session_priority(process: int | str) -> str | None:
    """That of a process's session, where the kernel has them."""
    try:
        with open(f"/proc/{process}/autogroup") as file:  # noqa: PTH123
            return file.read().strip().partition(" ")[2]
    except FileNotFoundError:
        return None


async def test_f11_a_flood_of_log_lines_is_dropped_and_counted(level: Isolation):
    async with sandbox(
        level, "export default () => { for (let n = 0; n < 5000; n++) console.log('x'.repeat(50)) }"
    ) as made:
        outcome = await outcome_of(made)
    assert len(outcome.logs) + outcome.log_dropped == 5000
    assert sum(len(line.message) for line in outcome.logs) <= 64 * 1024
    flood = "import os\ndef handler(p, c):\n    for n in range(640): os.write(2, b'x' * 100_000)\n    return 1"
    async with sandbox(level, flood, Runtime.PYTHON) as made:
        assert (await outcome_of(made)).result == b"1"
        assert len(made.output) <= 8192


async def test_f12_what_a_function_patches_is_its_own(level: Isolation):
    source = """
        JSON.stringify = () => "forged"; Object.prototype.ok = true; Array.prototype.map = () => [];
        Promise.prototype.then = new Proxy(Promise.prototype.then, {});
        export default (p) => ({ n: p.n });"""
    async with sandbox(level, source) as made:
        outcome = await outcome_of(made, {"n": 1})
    assert outcome.status == "error" or json.loads(outcome.result)["n"] == 1


async def test_f13_a_secret_is_masked_in_logs_and_errors(level: Isolation):
    source = "export default (p, c) => { console.log(c.env.TOKEN, btoa(c.env.TOKEN)); throw new Error(c.env.TOKEN) }"
    async with sandbox(level, source) as made:
        outcome = await outcome_of(made)
    assert outcome.error == "[TOKEN]"
    assert "a secret value" not in json.dumps([line.message for line in outcome.logs])


async def test_f18_the_runtime_cannot_be_steered(level: Isolation):
    source = """
        export default async () => {
          const results = [];
          const attempt = async (name, work) => { try { await work(); results.push(name) } catch { /* refused */ } };
          await attempt("inspector", async () => (await import("node:inspector")).open(9229));
          await import("node:v8").then((v8) => v8.setFlagsFromString("--max-old-space-size=9999")).catch(() => 0);
          const a = [];
          await attempt("memory", () => { for (let n = 0; n < 40; n++) a.push(new Uint8Array(1e7).fill(1)) });
          return results;
        };"""
    async with sandbox(level, source) as made:
        outcome = await outcome_of(made)
    assert outcome.status == "error" or json.loads(outcome.result) == []


@pytest.fixture
async def pool(sandboxes: None) -> AsyncIterator[Pool]:
    made = Pool(PoolSettings(4, 0, 0, 300, 703_000))
    yield made
    await made.close()


def wanted(app_id: UUID, function_id: UUID, source: str, at_once: int = 2, waiting: int = 3) -> Wanted:
    async def load() -> Program:
        return Program({"main.py": source.encode()}, "main.py", {})

    return Wanted((app_id, function_id, "1", 0), Runtime.PYTHON, 128, at_once, waiting, True, 8, load)


async def run(pool: Pool, want: Wanted, seconds: float = PATIENCE) -> Ran:
    loop = asyncio.get_running_loop()
    call = Invocation(payload=b"{}", context={}, deadline=loop.time() + seconds, cpu_seconds=seconds)
    return await pool.run(want, call)


async def test_f16_no_sandbox_serves_two_apps(pool: Pool):
    source = """
import os
def handler(p, c):
    seen = os.path.exists("/tmp/mark")
    open("/tmp/mark", "w")
    return seen
"""
    function_id = uuid4()
    first, second = wanted(uuid4(), function_id, source), wanted(uuid4(), function_id, source)
    assert (await run(pool, first)).outcome.result == b"false"
    again = await run(pool, first)
    assert (again.outcome.result, again.start) == (b"true", "warm")
    assert (await run(pool, second)).outcome.result == b"false"


async def test_f19_an_app_that_floods_is_refused_and_another_one_served(pool: Pool):
    greedy, modest = uuid4(), uuid4()
    slow = wanted(greedy, uuid4(), "import time\ndef handler(p, c): time.sleep(30)")
    running = [asyncio.ensure_future(run(pool, slow)) for _ in range(5)]
    await until(lambda: pool.counts()["busy"] == 2)
    with pytest.raises(FunctionBusyError):
        await run(pool, slow)
    running.pop().cancel()
    await asyncio.sleep(0)
    with pytest.raises(QueueTimeoutError):
        await run(pool, slow, seconds=0.2)
    quick = wanted(modest, uuid4(), "def handler(p, c): return 1")
    assert [(await run(pool, quick)).outcome.result for _ in range(3)] == [b"1"] * 3
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert pool.counts()["busy"] == 0


async def test_f20_where_bubblewrap_is_missing_the_next_level_is_used(monkeypatch: pytest.MonkeyPatch):
    require(Isolation.LANDLOCK, Runtime.JAVASCRIPT)
    for bwrap, said in ((None, "apt-get install bubblewrap"), ("/bin/false", "bwrap")):
        less = tools()._replace(bwrap=bwrap)
        monkeypatch.setattr("pilotis.functions.runtime.policy.tools", lambda less=less: less)
        monkeypatch.setattr("pilotis.functions.runtime.isolation.tools", lambda less=less: less)
        found = await isolation.probe(Runtime.JAVASCRIPT, USER)
        assert found.isolation is Isolation.LANDLOCK
        assert said in (found.reason or "")


async def test_without_namespaces_a_function_with_egress_is_unavailable(monkeypatch: pytest.MonkeyPatch):
    require(Isolation.LANDLOCK, Runtime.JAVASCRIPT)
    made = Pool(PoolSettings(4, 0, 0, 300, 703_000, isolation="landlock"))
    source = {
        "index.js": b"import { n } from './lib/n.js'; export default () => n;",
        "lib/n.js": b"export const n = 7;",
    }

    async def load() -> Program:
        return Program(source, "index.js", {})

    want = Wanted((uuid4(), uuid4(), "1", 0), Runtime.JAVASCRIPT, 128, 2, 3, True, 8, load)
    try:
        assert (await run(made, want)).outcome.result == b"7"
        (folder,) = [one.folder for one in made.idle()]
        assert folder
        assert Path(folder).is_dir()  # noqa: ASYNC240
        with pytest.raises(RuntimeUnavailableError, match="egress need bubblewrap"):
            await run(made, want._replace(egress=EgressPolicy(None)))
    finally:
        await made.close()
    assert not Path(folder).exists()  # noqa: ASYNC240


async def test_f20_where_no_sandbox_is_possible_there_are_no_functions(pool: Pool, monkeypatch: pytest.MonkeyPatch):
    broken = tools()._replace(bwrap="/bin/false", python="/bin/false")
    monkeypatch.setattr("pilotis.functions.runtime.policy.tools", lambda: broken)
    monkeypatch.setattr("pilotis.functions.runtime.isolation.tools", lambda: broken)
    with pytest.raises(RuntimeUnavailableError):
        await run(pool, wanted(uuid4(), uuid4(), "def handler(p, c): return 1"))
    assert pool.counts() == {"busy": 0, "idle": 0, "ready": 0}


@pytest.mark.usefixtures("sandboxes")
async def test_a_pool_that_closes_leaves_no_process():
    made = Pool(PoolSettings(4, 1, 1, 300, 703_000))
    await run(made, wanted(uuid4(), uuid4(), "def handler(p, c): return 1"))
    pids = [sandbox.pid for sandbox in made.idle()]
    assert len(pids) == 1
    await made.close()
    assert await until(lambda: not any(is_running(pid) for pid in pids))


async def test_a_sandbox_that_is_killed_while_it_starts_leaves_no_process(level: Isolation):
    def left() -> list[int]:
        found = [pid for pid in children(os.getpid()) if is_running(pid)]
        return [pid for pid in found if Path(f"/proc/{pid}/comm").read_text() == "bwrap\n"]

    # What an ended process leaves behind then becomes a child of this one.
    libc = ctypes.CDLL(None)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        for delay in range(40):
            made = Sandbox(level, Runtime.PYTHON, 128, USER)
            starting = asyncio.ensure_future(made.start())
            await asyncio.sleep(delay * 0.00025)
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            made.kill()
            await made.ended()
        assert await until(lambda: not left(), seconds=15)
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
