"""Takes away from a process what macOS lacks; Python imports it at its start from a directory of `PYTHONPATH`.

For modules of Pilotis alone `sys.platform` is `darwin` and `platform.system()` is `Darwin`: other libraries keep what
they found when they were built. What this cannot show is how macOS itself behaves.
"""

import builtins
import contextlib
import fcntl
import importlib.abc
import importlib.machinery
import os
import platform
import resource
import socket
import sys
from types import ModuleType
from typing import Any

LACKING = {
    os: [
        *("pidfd_open", "memfd_create", "setresuid", "setresgid", "getresuid", "getresgid", "O_PATH", "O_TMPFILE"),
        *("getxattr", "setxattr", "eventfd", "splice", "copy_file_range", "posix_fadvise", "fdatasync", "pipe2"),
        *(name for name in dir(os) if name.startswith("sched_") and name != "sched_yield"),
    ],
    resource: ["prlimit"],
    socket: ["TCP_USER_TIMEOUT", "TCP_KEEPIDLE", "SO_PEERCRED", "SOCK_CLOEXEC", "SOCK_NONBLOCK"],
}


class Instead(ModuleType):
    """A module of which some names are others."""

    def __init__(self, real: ModuleType, **changed: Any) -> None:
        super().__init__(real.__name__)
        self.__dict__["real"], self.__dict__["changed"] = real, changed

    def __getattr__(self, name: str) -> Any:
        changed = self.__dict__["changed"]
        return changed[name] if name in changed else getattr(self.__dict__["real"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["real"], name, value)


def _flush(descriptor: int, command: int, *arguments: Any) -> Any:
    return os.fsync(descriptor) if command == 51 else fcntl.fcntl(descriptor, command, *arguments)


# The names that macOS has and Linux lacks; their effect is that of their neighbours.
INSTEAD = {
    "sys": Instead(sys, platform="darwin"),
    "platform": Instead(platform, system=lambda: "Darwin"),
    "fcntl": Instead(fcntl, F_FULLFSYNC=51, fcntl=_flush),
    "socket": Instead(socket, TCP_KEEPALIVE=getattr(socket, "TCP_KEEPIDLE", 4)),
}


def _import(name: str, *arguments: Any, **more: Any) -> ModuleType:
    return INSTEAD[name] if name in INSTEAD else builtins.__import__(name, *arguments, **more)


class Loader(importlib.machinery.SourceFileLoader):
    """Runs a module with an import statement of its own."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import}
        super().exec_module(module)
        if module.__name__ == "pilotis.db.embedded.cluster":
            # PostgreSQL itself is that of Linux, which has no such method.
            module._SETTINGS_OF_MACOS.clear()


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of Pilotis."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith("pilotis"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event in {"open", "os.listdir", "os.scandir"} and isinstance(arguments[0], str | bytes):
        name = os.fsdecode(arguments[0])
        if name.startswith(("/proc", "/sys/")):
            raise FileNotFoundError(2, "macOS has no such file", name)
    elif event == "ctypes.dlsym" and arguments[1] in {"prctl", "syncfs", "syscall"}:
        raise AttributeError(f"macOS has no {arguments[1]}")


for module, names in LACKING.items():
    for name in names:
        with contextlib.suppress(AttributeError):
            delattr(module, name)
sys.meta_path.insert(0, Finder())
sys.addaudithook(_watch)
