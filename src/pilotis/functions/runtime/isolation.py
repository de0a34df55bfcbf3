"""Finds the isolation that this machine supports by running a canary that tries to escape."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Sequence

import msgspec

from pilotis.functions.runtime import seccomp
from pilotis.functions.runtime.call import Invocation, LoadError, Program, StartError
from pilotis.functions.runtime.policy import Isolation, Runtime, Tools, tools
from pilotis.functions.runtime.sandbox import Sandbox

_CANARY_SECONDS = 10.0
_JAVASCRIPT = b"""
const tries = {
  passwd: () => Deno.readTextFileSync("/etc/passwd"),
  write: () => Deno.writeTextFileSync("/var/tmp/canary", ""),
  proc: () => Deno.readTextFileSync("/proc/1/environ"),
  connect: () => Deno.connect({ hostname: "1.1.1.1", port: 53 }),
  fork: () => new Deno.Command("/bin/deno").outputSync(),
};
export default async () => {
  const escaped = Object.keys(Deno.env.toObject()).filter((name) => name.startsWith("PILOTIS"));
  for (const [name, attempt] of Object.entries(tries)) {
    try { await attempt(); escaped.push(name); } catch { /* as it should be */ }
  }
  return { escaped, version: Deno.version.deno };
};
"""
_PYTHON = b"""
import os, socket, sys
def connect():
    with socket.socket() as client:
        client.settimeout(2)
        client.connect(("1.1.1.1", 53))
TRIES = {
    "passwd": lambda: open("/etc/passwd").read(),
    "proc": lambda: open("/proc/1/environ").read(),
    "connect": connect,
    "fork": lambda: os._exit(0) if os.fork() == 0 else None,
}
def handler(payload, ctx):
    escaped = [name for name in os.environ if name.startswith("PILOTIS")]
    for name, attempt in TRIES.items():
        try:
            attempt()
            escaped.append(name)
        except OSError:
            pass
    return {"escaped": escaped, "version": sys.version.split()[0]}
"""
_VERSION = b"""
import sys
def handler(payload, ctx):
    return {"escaped": [], "version": sys.version.split()[0]}
"""
CANARIES = {
    Runtime.JAVASCRIPT: Program({"index.js": _JAVASCRIPT}, "index.js", {}),
    Runtime.PYTHON: Program({"main.py": _PYTHON}, "main.py", {}),
}


_PLAIN = Program({"main.py": _VERSION}, "main.py", {})


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """How a runtime can be isolated here; if `isolation` is None, `reason` says what to change."""

    runtime: Runtime
    isolation: Isolation | None
    reason: str | None
    version: str | None = None
    is_own_code: bool = False
    """Whether this machine serves the operator's own code alone: packages and egress work as in a program of theirs."""

    @property
    def has_network(self) -> bool:
        """Whether functions can have packages and egress."""
        return self.is_own_code or (self.isolation is not None and self.isolation.has_namespaces)


async def probe(
    runtime: Runtime, user: int, wanted: Sequence[Isolation] | None = None, *, is_local: bool = False
) -> Found:
    """Find the strongest isolation from which the runtime's canary cannot escape.

    If it is not the strongest of all, `reason` says why the stronger ones are not available. `wanted` are the only ones
    to try; `Isolation.PERMISSIONS` is tried only if it is among them. `is_local` says that only this machine reaches
    the server, without which no code runs unconfined.
    """
    own = tools()
    if own.of(runtime) is None:
        missing = (
            "Deno is not installed; run pip install deno" if runtime is Runtime.JAVASCRIPT else "Python was not found"
        )
        return Found(runtime=runtime, isolation=None, reason=f"{missing}.")
    reasons: list[str] = []
    if wanted and Isolation.OWN_CODE in wanted:
        return await _own_code(runtime, user, is_local=is_local)
    for isolation in wanted or CHOICES["auto"]:
        if isolation is Isolation.OWN_USER and os.geteuid() != 0:
            continue
        if reason := _missing(own, isolation, runtime):
            reasons.append(reason)
            continue
        try:
            version = await _try(isolation, runtime, user)
        except _UnsafeError as problem:
            reasons.append(f"{isolation.value}: {problem}")
        else:
            reason = "; ".join(dict.fromkeys(reasons)) or None
            return Found(runtime=runtime, isolation=isolation, reason=reason, version=version)
    advice = "Install bubblewrap, and allow user namespaces or run the server as root: see docs/functions.md."
    return Found(runtime=runtime, isolation=None, reason=f"{'; '.join(dict.fromkeys(reasons))}. {advice}")


CHOICES = {
    "auto": [Isolation.OWN_USER, Isolation.NAMESPACE, Isolation.LANDLOCK],
    "bwrap": [Isolation.OWN_USER, Isolation.NAMESPACE],
    "landlock": [Isolation.LANDLOCK],
    "permissions": [Isolation.PERMISSIONS],
    "own-code": [Isolation.PERMISSIONS, Isolation.OWN_CODE],
}
"""What each value of the setting `functions_isolation` permits, strongest first."""


def choice(setting: str) -> Sequence[Isolation]:
    """Return what a value of `functions_isolation` permits on this system: macOS has none but one's own code."""
    return CHOICES["own-code" if setting == "auto" and sys.platform == "darwin" else setting]


async def _own_code(runtime: Runtime, user: int, *, is_local: bool) -> Found:
    isolation = Isolation.PERMISSIONS if runtime is Runtime.JAVASCRIPT else Isolation.OWN_CODE
    if not is_local:
        text = "functions run without a sandbox here, so only on a server that listens on loopback for this machine"
        return Found(runtime=runtime, isolation=None, reason=f"{isolation.value}: {text}.")
    try:
        version = await _try(isolation, runtime, user)
    except _UnsafeError as problem:
        return Found(runtime=runtime, isolation=None, reason=f"{isolation.value}: {problem}")
    text = "for your own code only, which nothing keeps from what your account may do"
    return Found(runtime=runtime, isolation=isolation, reason=text, version=version, is_own_code=True)


def _missing(own: Tools, isolation: Isolation, runtime: Runtime) -> str | None:
    """Return why an isolation need not be tried here, or None."""
    if platform.system() != "Linux" or not seccomp.supports(platform.machine()):
        return f"functions run on Linux on x86-64 and arm64, but this is {platform.system()} on {platform.machine()}"
    if isolation.has_namespaces and own.bwrap is None:
        return "bubblewrap is not installed; on Debian, run apt-get install bubblewrap"
    if isolation is Isolation.OWN_USER and own.setpriv is None:
        return "bwrap: setpriv is not installed; on Debian, run apt-get install util-linux"
    if isolation is Isolation.PERMISSIONS and runtime is Runtime.PYTHON:
        return "permissions: Python has none"
    return None


class _UnsafeError(Exception):
    """The isolation is not safe; the text says why."""


async def _try(isolation: Isolation, runtime: Runtime, user: int) -> str:
    """Run the canary and return the runtime's version; raises `_UnsafeError`."""
    sandbox = Sandbox(isolation, runtime, 128, user)
    deadline = asyncio.get_running_loop().time() + _CANARY_SECONDS
    try:
        await sandbox.start()
        await sandbox.load(_PLAIN if isolation is Isolation.OWN_CODE else CANARIES[runtime], deadline)
        call = Invocation(payload=b"{}", context={}, deadline=deadline, cpu_seconds=_CANARY_SECONDS)
        outcome = await sandbox.invoke(call)
    except (StartError, LoadError, TimeoutError, OSError) as error:
        raise _UnsafeError(str(error)[:300] or type(error).__name__) from None
    finally:
        sandbox.kill()
        await sandbox.ended()
    if outcome.status != "success":
        raise _UnsafeError(f"the canary failed: {outcome.error}")
    said = msgspec.json.decode(outcome.result)
    if said["escaped"]:
        raise _UnsafeError(f"the canary escaped by {', '.join(said['escaped'])}")
    return str(said["version"])
