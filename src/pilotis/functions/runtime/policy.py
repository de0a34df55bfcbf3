"""What a sandbox may access: the command line that starts one. Pure, except that it inspects this machine.

Under bubblewrap a sandbox has no network and no `/proc`, sees no files of the host except libraries and the runtime
itself, has an empty environment, no capabilities, and its own `/tmp`. Under Landlock it has the same limits but for
what namespaces give: it writes no files. It communicates with the server by its standard input and output, which are
one socket; it accepts no connections.
"""

from __future__ import annotations

import enum
import os
import py_compile
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

TMP_BYTES = 64 * 1024 * 1024
BUILD_TMP_BYTES = 512 * 1024 * 1024
NOBODY = 65534
PROXY_PORT = 3128
CERTIFICATES = "/run/certificates.pem"
_HERE = Path(__file__).parent
_DENO_RUN = ("run", "--no-prompt", "--no-config", "--no-lock", "--no-remote", "--no-npm", "--quiet")
# Bounds that every system has: no core files, and few open files.
_BOUNDED = ("/bin/sh", "-c", 'ulimit -c 0; ulimit -n 256; exec "$@"', "sh")
_UNSHARED = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
_TRY_SECONDS = 5.0
_BINARY_PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Runtime(enum.StrEnum):
    """The runtime of a function."""

    JAVASCRIPT = "javascript"
    PYTHON = "python"


class Isolation(enum.StrEnum):
    """The kinds of isolation, strongest first."""

    OWN_USER = "bwrap"
    """bubblewrap started by root: each sandbox has its own numeric user, and needs no user namespace."""
    NAMESPACE = "bwrap-userns"
    """bubblewrap started by another user: the sandbox is nobody in a user namespace."""
    LANDLOCK = "landlock"
    """Landlock and a narrower seccomp filter, without namespaces: no network, no packages of Python, no files of its
    own. Started by root, each sandbox has its own numeric user."""
    PERMISSIONS = "permissions"
    """Deno's permissions alone, for JavaScript: only where the operator chose it by name, or beside `OWN_CODE`."""
    OWN_CODE = "own-code"
    """A plain process, for Python: for the operator's own code, on a server that only this machine reaches."""

    @property
    def has_namespaces(self) -> bool:
        """Whether a sandbox has file systems and a network of its own."""
        return self in {Isolation.OWN_USER, Isolation.NAMESPACE}

    @property
    def is_confined(self) -> bool:
        """Whether the kernel protects this machine from what runs in a sandbox."""
        return self not in {Isolation.PERMISSIONS, Isolation.OWN_CODE}


class Tools(NamedTuple):
    """The programs that sandboxes need; None for those that are not installed."""

    bwrap: str | None
    setpriv: str | None
    deno: str | None
    python: str | None

    def of(self, runtime: Runtime) -> str | None:
        """Return the program of a runtime."""
        return self.deno if runtime is Runtime.JAVASCRIPT else self.python


@cache
def tools() -> Tools:
    """Return the programs that this machine has."""
    python = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
    return Tools(
        bwrap=shutil.which("bwrap", path=_BINARY_PATHS),
        setpriv=shutil.which("setpriv", path=_BINARY_PATHS),
        deno=_deno(),
        python=str(python) if python.is_file() else None,
    )


def forbidden_namespaces() -> str | None:
    """Return why bubblewrap may not make the namespaces of a sandbox here, in its own words; None if it may.

    Container engines and some distributions forbid them. Not known without bubblewrap.
    """
    bwrap = tools().bwrap
    if bwrap is None:
        return None
    problem = None
    for own in ([], ["--unshare-user"]) if os.geteuid() == 0 else (["--unshare-user"],):
        line = [bwrap, *_UNSHARED, *own, "--ro-bind", "/", "/", "/bin/true"]
        try:
            done = subprocess.run(  # noqa: S603
                line, capture_output=True, timeout=_TRY_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return type(error).__name__
        if done.returncode == 0:
            return None
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        problem = said[:200] or f"bwrap ended with {done.returncode}"
    return problem


def command(
    isolation: Isolation,
    runtime: Runtime,
    *,
    seccomp: int,
    user: int,
    memory_mb: int,
    packages: str | None = None,
    certificates: int | None = None,
    folder: str = "",
) -> tuple[list[str], dict[str, str]]:
    """Return the command that starts a confined sandbox, whose harness then sends `ready`, and its environment.

    `seccomp` is the descriptor of the filter, `user` the numeric user if root starts the sandbox, `packages` a
    directory of Python packages. `certificates` is the descriptor of the certificate authorities that clients in the
    sandbox trust; if it is set, their environment names a proxy, and Deno lets them connect to it. Without namespaces,
    `folder` is where the function's files are.
    """
    program = tools().of(runtime)
    assert program
    if not isolation.has_namespaces:
        inner = _without_mounts(runtime, program, memory_mb, folder)
        return _alone(inner, seccomp, user, folder), inner.environment
    if runtime is Runtime.JAVASCRIPT:
        inner = _javascript(program, memory_mb, has_network=certificates is not None)
    else:
        inner = _python(program, packages)
    return _confined(isolation, inner, seccomp, user, certificates, TMP_BYTES), {}


def own_code_command(
    runtime: Runtime, memory_mb: int, folder: str, packages: str | None, proxy: Proxy | None
) -> tuple[list[str], dict[str, str]]:
    """Return the command that starts a sandbox that is not confined, and its environment; see `command`.

    JavaScript has Deno's permissions. `proxy` is named by the environment: a client that ignores it is not stopped.
    """
    program = tools().of(runtime)
    assert program
    inner = _without_mounts(runtime, program, memory_mb, folder, has_network=proxy is not None)
    arguments = [*inner.arguments, packages] if packages else inner.arguments
    return [*_BOUNDED, *arguments], {**inner.environment, **(proxied(proxy) if proxy else {})}


def own_code_build_command(runtime: Runtime, folder: str, proxy: Proxy) -> tuple[list[str], dict[str, str]]:
    """Return the command that starts a build below `folder` that is not confined, and its environment."""
    program = tools().of(runtime)
    assert program
    environment = {"HOME": folder, "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1", "DENO_DIR": f"{folder}/.deno"}
    if runtime is Runtime.JAVASCRIPT:
        allowed = [f"--allow-run={program}", f"--allow-read={folder}", f"--allow-write={folder}", "--allow-env"]
        line = [program, *_DENO_RUN, *allowed, str(_HERE / "builder.ts"), folder, program]
    else:
        line = [program, "-I", "-S", "-B", str(_HERE / "builder.py"), folder, str(_pip())]
    return [*_BOUNDED, *line], environment | proxied(proxy)


class Proxy(NamedTuple):
    """The proxy that clients in a sandbox use, and the file of the certificate authorities that they trust."""

    port: int
    certificates: str


def proxied(proxy: Proxy) -> dict[str, str]:
    """Return the environment that names a proxy.

    Deno, Node, OpenSSL with Python's ssl and httpx, and requests each have names of their own for the same.
    """
    return {
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), f"http://127.0.0.1:{proxy.port}"),
        **dict.fromkeys(("DENO_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), proxy.certificates),
        "NODE_USE_ENV_PROXY": "1",
    }


def build_command(isolation: Isolation, runtime: Runtime, *, seccomp: int, user: int, certificates: int) -> list[str]:
    """Return the command that starts a build, whose builder says `ready`; the descriptors are those of `command`."""
    program = tools().of(runtime)
    assert program
    inner = _bundler(program) if runtime is Runtime.JAVASCRIPT else _installer(program)
    return _confined(isolation, inner, seccomp, user, certificates, BUILD_TMP_BYTES)


def _confined(
    isolation: Isolation, inner: _Inner, seccomp: int, user: int, certificates: int | None, tmp_bytes: int
) -> list[str]:
    own = tools()
    assert own.bwrap
    is_root = isolation is Isolation.OWN_USER
    line = [own.bwrap, *_UNSHARED]
    if is_root:
        line += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"]
    else:
        line += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY), "--cap-drop", "ALL"]
    line += ["--die-with-parent", "--new-session", "--clearenv"]
    network = {} if certificates is None else proxied(Proxy(PROXY_PORT, CERTIFICATES))
    environment = {**inner.environment, **network}
    mounts = [part for directory in _libraries() for part in ("--ro-bind", directory, directory)]
    mounts += inner.mounts
    if is_root:
        assert own.setpriv
        mounts += ["--ro-bind", own.setpriv, "/bin/setpriv"]
    # When root starts bwrap, the directories above a mount are accessible to root alone.
    for directory in _above(mounts[2::3]):
        line += ["--perms", "0755", "--dir", directory]
    line += mounts
    if certificates is not None:
        line += ["--perms", "0444", "--ro-bind-data", str(certificates), CERTIFICATES]
    line += ["--dev", "/dev", "--perms", "1777", "--size", str(tmp_bytes), "--tmpfs", "/tmp"]  # noqa: S108
    line += inner.hidden
    for name, value in environment.items():
        line += ["--setenv", name, value]
    # Otherwise the directory would be unlimited and in the server's memory.
    line += ["--remount-ro", "/dev", "--remount-ro", "/"]
    line += ["--chdir", "/tmp", "--seccomp", str(seccomp), "--"]  # noqa: S108
    if is_root:
        ids = ["--reuid", str(user), "--regid", str(user), "--clear-groups"]
        line += ["/bin/setpriv", *ids, "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]
        line += ["--no-new-privs", "--"]
    return [*line, *inner.arguments]


def _alone(inner: _Inner, seccomp: int, user: int, folder: str) -> list[str]:
    """Return the command of a process that confines itself before it becomes the runtime."""
    python = tools().python
    assert python
    paths = [*_libraries(), *inner.mounts[1::3], folder, "/dev/null", "/dev/urandom"]
    own_user = str(user if os.geteuid() == 0 else 0)
    line = [python, "-I", "-S", "-B", str(_HERE / "confine.py"), str(seccomp), own_user, str(os.getpid())]
    return [*line, ":".join(paths), *inner.arguments]


def _without_mounts(
    runtime: Runtime, program: str, memory_mb: int, folder: str, *, has_network: bool = False
) -> _Inner:
    """Return a runtime that finds everything where it is on this machine."""
    if runtime is Runtime.PYTHON:
        inner = _python(program, None)
        return inner._replace(arguments=[*inner.arguments[:-1], _harness()])
    harness = str(_HERE / "harness.ts")
    environment = {"HOME": folder, "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1", "DENO_DIR": f"{folder}/.deno"}
    arguments = [
        program, *_DENO_RUN, f"--v8-flags=--max-old-space-size={memory_mb}", "--allow-env", f"--allow-read={folder}",
        *(["--allow-net"] if has_network else []), harness,
    ]  # fmt: skip
    mounts = ["--ro-bind", program, program, "--ro-bind", harness, harness]
    return _Inner(mounts, (), environment, arguments)


class _Inner(NamedTuple):
    mounts: Sequence[str]
    """Options with two arguments, of which the last is the path in the sandbox."""
    hidden: Sequence[str]
    environment: dict[str, str]
    arguments: Sequence[str]


def _javascript(deno: str, memory_mb: int, *, has_network: bool) -> _Inner:
    # Deno looks for its own program when `node:process` is imported; there is no /proc to find it by.
    mounts = ["--ro-bind", deno, "/bin/deno", "--symlink", "/bin/deno", "/proc/self/exe"]
    mounts += ["--ro-bind", str(_HERE / "harness.ts"), "/run/harness.ts"]
    environment = {"DENO_DIR": "/tmp/.deno", "HOME": "/tmp", "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"}  # noqa: S108
    arguments = [
        "/bin/deno", *_DENO_RUN,
        f"--v8-flags=--max-old-space-size={memory_mb}", "--allow-env", "--allow-read=/tmp,/packages",
        "--allow-write=/tmp", *(["--allow-net"] if has_network else []), "/run/harness.ts",
    ]  # fmt: skip
    return _Inner(mounts, (), environment, arguments)


def _python(python: str, packages: str | None) -> _Inner:
    stdlib = sysconfig.get_path("stdlib")
    binaries = [python]
    libraries = sysconfig.get_config_var("LIBDIR")
    shared = sysconfig.get_config_var("INSTSONAME") or ""
    if ".so" in shared and libraries and Path(libraries, shared).is_file():
        binaries.append(str(Path(libraries, shared)))
    mounts = [part for path in binaries for part in ("--ro-bind", path, path)]
    mounts += ["--ro-bind", stdlib, stdlib]
    # Packages beside the standard library are not part of the runtime.
    beside = [f"{stdlib}/{name}" for name in ("site-packages", "dist-packages") if Path(stdlib, name).is_dir()]
    hidden = [part for place in beside for part in ("--tmpfs", place, "--remount-ro", place)]
    harness = _harness()
    inside = f"/run/harness{Path(harness).suffix}"
    mounts += ["--ro-bind", harness, inside]
    if packages:
        mounts += ["--ro-bind", packages, "/packages"]
    environment = {"HOME": "/tmp", "LANG": "C.UTF-8", "LD_LIBRARY_PATH": libraries or ""}  # noqa: S108
    # Each further one would reserve 64 MB of addresses, which the limit of a process counts.
    environment["MALLOC_ARENA_MAX"] = "1"
    return _Inner(mounts, hidden, environment, [python, "-I", "-S", "-B", "-u", "-X", "utf8", inside])


@cache
def _harness() -> str:
    """Return the path of Python's harness, compiled where its cache can be written: that takes 4 ms at each start."""
    source = str(_HERE / "harness.py")
    try:
        return py_compile.compile(source, doraise=True) or source
    except (OSError, py_compile.PyCompileError):
        return source


def _bundler(deno: str) -> _Inner:
    inner = _javascript(deno, 512, has_network=True)
    arguments = [inner.arguments[0], *_DENO_RUN]
    builder = "/run/builder.ts"
    mounts = [*inner.mounts, "--ro-bind", str(_HERE / "builder.ts"), builder]
    allowed = ["--allow-run=/bin/deno", "--allow-read=/tmp", "--allow-write=/tmp", "--allow-env", builder]
    return _Inner(mounts, (), inner.environment, [*arguments, *allowed])


def _installer(python: str) -> _Inner:
    inner = _python(python, None)
    mounts = [*inner.mounts, "--ro-bind", str(_HERE / "builder.py"), "/run/builder.py"]
    mounts += ["--ro-bind", str(_pip()), "/pip/pip"]
    return _Inner(mounts, inner.hidden, inner.environment, [*inner.arguments[:-1], "/run/builder.py"])


def _pip() -> Path:
    """Return the folder of pip, which Python can run."""
    found = find_spec("pip")
    assert found
    assert found.origin
    return Path(found.origin).parent


@cache
def _libraries() -> Sequence[str]:
    """Return this machine's directories of shared libraries."""
    machine = sysconfig.get_config_var("MULTIARCH") or ""
    named = [f"/lib/{machine}", f"/usr/lib/{machine}"] if machine else []
    named += ["/lib64", "/usr/lib64"]
    return [name for name in named if Path(name).is_dir()]


def _deno() -> str | None:
    try:
        import deno

        return str(Path(deno.find_deno_bin()).resolve())
    except (ImportError, FileNotFoundError):
        return shutil.which("deno")


def _above(paths: Sequence[str]) -> list[str]:
    """Return the parent directories of paths without duplicates, outermost first."""
    return sorted({str(parent) for path in paths for parent in Path(path).parents} - {"/"})
