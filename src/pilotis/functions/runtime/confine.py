"""Confines itself by Landlock and seccomp, and then becomes the program of a sandbox.

A program of its own, started as `python -I -S confine.py SECCOMP USER PARENT PATHS PROGRAM ARGUMENTS`, where bubblewrap
cannot be used: SECCOMP is the descriptor of the filter, USER a numeric user or 0 to stay the same, PARENT the server's
process, with which this one ends, and PATHS, separated by colons, are all that the program may read and run.

The layouts and numbers are those of linux/landlock.h, and the same on every machine (landlock(7)).
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
LEAST_ABI = 4
EXECUTE, READ_FILE, READ_DIR = 1 << 0, 1 << 2, 1 << 3
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1 << 0, 1 << 1
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 1, 22, 38, 2
SIGKILL = 9
O_PATH = 0o10000000
# Of the process itself, which thus learns the size of its stack (pthread_getattr_np(3)).
MAPS = "/proc/self/maps"

libc = ctypes.CDLL(None, use_errno=True)


def call(function: Callable[..., int], *arguments: object) -> int:
    """Call a function of the C library; raises `OSError`."""
    result = function(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def restrict(paths: Sequence[str]) -> None:
    """Let this process read and run what lies below the paths, and nothing else of the file system."""
    abi = call(libc.syscall, CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if abi < LEAST_ABI:
        raise OSError(f"Landlock has version {abi} here; {LEAST_ABI} is needed.")
    # Version 5 added ioctl on devices to the 15 rights on files, version 6 the scopes.
    every = (1 << (16 if abi >= 5 else 15)) - 1
    scopes = struct.pack("Q", SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS) if abi >= 6 else b""
    attributes = struct.pack("QQ", every, BIND_TCP | CONNECT_TCP) + scopes
    rules = call(libc.syscall, CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    for path in [*paths, MAPS]:
        file = os.open(path, O_PATH | os.O_CLOEXEC)
        rights = EXECUTE | READ_FILE | (READ_DIR if os.path.isdir(path) else 0)  # noqa: PTH112
        call(libc.syscall, ADD_RULE, rules, 1, struct.pack("=Qi", rights, file), 0)
        if path == MAPS:
            # While it is open, the kernel keeps the inode that the rule is about.
            os.set_inheritable(file, True)
        else:
            os.close(file)
    call(libc.syscall, RESTRICT_SELF, rules, 0)
    os.close(rules)


def main() -> None:
    """Confine this process and run the program."""
    seccomp, user, parent, paths, *program = sys.argv[1:]
    code = os.read(int(seccomp), 1 << 16)
    os.close(int(seccomp))
    # Python sets it where there is no locale.
    os.environ.pop("LC_CTYPE", None)
    if own_user := int(user):
        os.setgroups([])
        if sys.platform == "linux":
            os.setresgid(own_user, own_user, own_user)
            os.setresuid(own_user, own_user, own_user)
    call(libc.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    restrict(paths.split(":"))
    call(libc.prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit("The server has ended.")
    text = ctypes.create_string_buffer(code, len(code))
    filter_ = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(text))
    call(libc.prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0)
    os.execv(program[0], program)  # noqa: S606


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"It cannot be confined: {error}")
