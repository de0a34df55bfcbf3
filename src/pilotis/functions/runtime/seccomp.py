"""The seccomp filter of every sandbox, as a program of classic BPF. Pure.

seccomp(2) gives the layout: the program reads `struct seccomp_data` (number at 0, architecture at 4, arguments from 16
on) and returns the action for the system call.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_LOAD, _AND, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16
_CLONE_THREAD = 0x00010000
# New namespaces of every kind (sched.h).
_CLONE_NAMESPACES = 0x7E020000
_FORKS = {"fork", "vfork"}
_UNIX, _FAMILIES = 1, (1, 2, 10)
_X32_BIT = 0x40000000

# From asm/unistd.h of each architecture: calls that leave the process, change namespaces, or expose the kernel.
_X86_64 = {
    "fork": 57, "vfork": 58, "ptrace": 101, "personality": 135, "pivot_root": 155, "chroot": 161, "acct": 163,
    "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "iopl": 172, "ioperm": 173,
    "init_module": 175, "delete_module": 176, "quotactl": 179, "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298, "open_by_handle_at": 304,
    "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313,
    "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
    "fspick": 433, "pidfd_getfd": 438, "mount_setattr": 442,
    # Memory that RLIMIT_DATA does not count, or that outlives the process.
    "shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "semop": 65, "semctl": 66, "msgget": 68, "msgsnd": 69,
    "msgrcv": 70, "msgctl": 71, "semtimedop": 220, "mq_open": 240, "memfd_create": 319, "memfd_secret": 447,
}  # fmt: skip
_AARCH64 = {
    "ptrace": 117, "personality": 92, "pivot_root": 41, "chroot": 51, "acct": 89, "mount": 40, "umount2": 39,
    "swapon": 224, "swapoff": 225, "reboot": 142, "init_module": 105, "delete_module": 106, "quotactl": 60,
    "kexec_load": 104, "add_key": 217, "request_key": 218, "keyctl": 219, "unshare": 97, "perf_event_open": 241,
    "open_by_handle_at": 265, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
    "finit_module": 273, "kexec_file_load": 294, "bpf": 280, "userfaultfd": 282, "io_uring_setup": 425,
    "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430,
    "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "mount_setattr": 442,
    "shmget": 194, "shmat": 196, "shmctl": 195, "semget": 190, "semop": 193, "semctl": 191, "msgget": 186,
    "msgsnd": 189, "msgrcv": 188, "msgctl": 187, "semtimedop": 192, "mq_open": 180, "memfd_create": 279,
    "memfd_secret": 447,
}  # fmt: skip
# Without namespaces around the process: what reaches sockets, other processes, and attributes of files, which Landlock
# does not control.
_ALONE_X86_64 = {
    "connect": 42, "accept": 43, "bind": 49, "listen": 50, "kill": 62, "chmod": 90, "fchmod": 91, "chown": 92,
    "fchown": 93, "lchown": 94, "syslog": 103, "setpgid": 109, "setsid": 112, "rt_sigqueueinfo": 129, "utime": 132,
    "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144, "setxattr": 188, "lsetxattr": 189,
    "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "tkill": 200,
    "sched_setaffinity": 203, "tgkill": 234, "utimes": 235, "ioprio_set": 251, "inotify_add_watch": 254,
    "migrate_pages": 256, "fchownat": 260, "futimesat": 261, "fchmodat": 268, "move_pages": 279, "utimensat": 280,
    "accept4": 288, "rt_tgsigqueueinfo": 297, "fanotify_init": 300, "fanotify_mark": 301, "sched_setattr": 314,
    "pidfd_send_signal": 424, "pidfd_open": 434, "process_madvise": 440, "process_mrelease": 448, "fchmodat2": 452,
    "setxattrat": 463, "removexattrat": 466, "file_setattr": 469,
}  # fmt: skip
_ALONE_AARCH64 = {
    "connect": 203, "accept": 202, "bind": 200, "listen": 201, "kill": 129, "fchmod": 52, "fchown": 55, "syslog": 116,
    "setpgid": 154, "setsid": 157, "rt_sigqueueinfo": 138, "setpriority": 140, "sched_setparam": 118,
    "sched_setscheduler": 119, "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15,
    "fremovexattr": 16, "tkill": 130, "sched_setaffinity": 122, "tgkill": 131, "ioprio_set": 30,
    "inotify_add_watch": 27, "migrate_pages": 238, "fchownat": 54, "fchmodat": 53, "move_pages": 239, "utimensat": 88,
    "accept4": 242, "rt_tgsigqueueinfo": 240, "fanotify_init": 262, "fanotify_mark": 263, "sched_setattr": 274,
    "pidfd_send_signal": 424, "pidfd_open": 434, "process_madvise": 440, "process_mrelease": 448, "fchmodat2": 452,
    "setxattrat": 463, "removexattrat": 466, "file_setattr": 469,
}  # fmt: skip
_PR_SET_PDEATHSIG = 1
_F_SETOWN, _F_SETOWN_EX, _F_SETPIPE_SZ, _FIOSETOWN, _SIOCSPGRP = 8, 15, 1031, 0x8901, 0x8902
_SOCK_TYPE, _SOCK_STREAM = 0xF, 1
# SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE, SO_RCVBUFFORCE (asm-generic/socket.h) of SOL_SOCKET.
_SOL_SOCKET, _BUFFERS = 1, (7, 8, 32, 33)


class _Machine(NamedTuple):
    audit: int
    clone: int
    clone3: int
    socket: int
    refused: Mapping[str, int]
    alone: Mapping[str, int]
    fcntl: int
    ioctl: int
    prctl: int
    prlimit: int
    socketpair: int
    setsockopt: int
    listen: int


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 56, 435, 41, _X86_64, _ALONE_X86_64, 72, 16, 157, 302, 53, 54, 50),
    "aarch64": _Machine(0xC00000B7, 220, 435, 198, _AARCH64, _ALONE_AARCH64, 25, 29, 167, 261, 199, 208, 201),
}


def supports(machine: str) -> bool:
    """Return whether there is a filter for a machine, by its name in `platform.machine()`."""
    return machine in _MACHINES


def program(machine: str, *, may_fork: bool = False, is_alone: bool = False, has_network: bool = False) -> bytes:
    """Return the filter for a machine as the bytes that `bwrap --seccomp` reads; raises `KeyError`.

    With `may_fork` it lets processes start others and open any socket of their network namespace, as builds have to.
    With `is_alone` there are no namespaces around the process: the filter rejects sockets, signals and whatever else
    reaches other processes of the same user.

    What is sent to a socket and not read is the kernel's memory, which no limit of a process counts. So a function
    opens pairs of connected sockets, as event loops need them, with `has_network` also TCP sockets that connect, and
    nothing else; and no socket or pipe gets larger buffers than the system gives each.
    """
    kind = _MACHINES[machine]
    lines = [
        _line(_LOAD, _ARCHITECTURE),
        *_unless_equal(kind.audit, _KILL),
        _line(_LOAD, _NUMBER),
        # The x32 calls are the same under other numbers.
        *([_line(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1), _errno(errno.ENOSYS)] if machine == "x86_64" else []),
        *_if_equal(kind.clone3, errno.ENOSYS),
    ]
    for name, number in kind.refused.items():
        if not (may_fork and name in _FORKS):
            lines += _if_equal(number, errno.EPERM)
    # Allow new threads, but no new processes, or with `may_fork` none in other namespaces.
    lines += [
        _line(_JUMP_EQUAL, kind.clone, 0, 4),
        _line(_LOAD, _ARGUMENT),
        _line(_JUMP_SET, _CLONE_NAMESPACES, 1, 0) if may_fork else _line(_JUMP_SET, _CLONE_THREAD, 0, 1),
        _line(_RETURN, _ALLOW),
        _errno(errno.EPERM),
    ]
    if may_fork:
        lines += _sockets(kind)
    else:
        lines += _functions_sockets(kind, _FAMILIES[1:] if has_network else ())
    if is_alone:
        lines += _alone(kind)
    lines.append(_line(_RETURN, _ALLOW))
    return b"".join(lines)


def _sockets(kind: _Machine) -> Sequence[bytes]:
    """Reject sockets of other families than those of the network namespace."""
    lines = [_line(_JUMP_EQUAL, kind.socket, 0, len(_FAMILIES) + 2), _line(_LOAD, _ARGUMENT)]
    lines += [_line(_JUMP_EQUAL, family, len(_FAMILIES) - at, 0) for at, family in enumerate(_FAMILIES)]
    return [*lines, _errno(errno.EAFNOSUPPORT)]


def _functions_sockets(kind: _Machine, families: Sequence[int]) -> Sequence[bytes]:
    """Reject all sockets but pairs and streams of the families, and larger buffers."""
    reload = _line(_LOAD, _NUMBER)
    lines = [*_if_equal(kind.listen, errno.EPERM)]
    is_stream = [_line(_LOAD, _ARGUMENT + 8), _line(_AND, _SOCK_TYPE), *_unless_equal_error(_SOCK_STREAM, errno.EPERM)]
    for number, permitted in ((kind.socket, families), (kind.socketpair, (_UNIX,))):
        inner = [_line(_LOAD, _ARGUMENT)]
        inner += [_line(_JUMP_EQUAL, family, len(permitted) - at, 0) for at, family in enumerate(permitted)]
        inner += [_errno(errno.EAFNOSUPPORT), *is_stream, reload]
        lines += [_line(_JUMP_EQUAL, number, 0, len(inner)), *inner]
    inner = [_line(_LOAD, _ARGUMENT + 8), _line(_JUMP_EQUAL, _SOL_SOCKET, 0, 1 + 2 * len(_BUFFERS))]
    inner += [_line(_LOAD, _ARGUMENT + 16)]
    inner += [line for option in _BUFFERS for line in _if_equal(option, errno.EPERM)]
    lines += [_line(_JUMP_EQUAL, kind.setsockopt, 0, len(inner) + 1), *inner, reload]
    return [*lines, *_if_argument(kind.fcntl, 1, _F_SETPIPE_SZ)]


def _alone(kind: _Machine) -> Sequence[bytes]:
    """Reject what a process could do to others of its user."""
    lines: list[bytes] = []
    for number in kind.alone.values():
        lines += _if_equal(number, errno.EPERM)
    # A file may send signals to its owner, and only the signal at its parent's death ends the process with the server.
    for number, at, values in (
        (kind.fcntl, 1, (_F_SETOWN, _F_SETOWN_EX)),
        (kind.ioctl, 1, (_FIOSETOWN, _SIOCSPGRP)),
        (kind.prctl, 0, (_PR_SET_PDEATHSIG,)),
    ):
        for value in values:
            lines += _if_argument(number, at, value)
    # 0 is the process itself: it may read its own limits, and not set those of others.
    lines += [_line(_JUMP_EQUAL, kind.prlimit, 0, 4), _line(_LOAD, _ARGUMENT)]
    return [*lines, _line(_JUMP_EQUAL, 0, 1, 0), _errno(errno.EPERM), _line(_LOAD, _NUMBER)]


def _if_argument(number: int, at: int, value: int) -> Sequence[bytes]:
    """Reject a system call whose argument number `at`, counted from 0, has the value."""
    lines = [_line(_JUMP_EQUAL, number, 0, 4), _line(_LOAD, _ARGUMENT + 8 * at)]
    return [*lines, *_if_equal(value, errno.EPERM), _line(_LOAD, _NUMBER)]


def _line(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _errno(number: int) -> bytes:
    return _line(_RETURN, _ERRNO | number)


def _if_equal(value: int, error: int) -> Sequence[bytes]:
    return [_line(_JUMP_EQUAL, value, 0, 1), _errno(error)]


def _unless_equal(value: int, action: int) -> Sequence[bytes]:
    return [_line(_JUMP_EQUAL, value, 1, 0), _line(_RETURN, action)]


def _unless_equal_error(value: int, error: int) -> Sequence[bytes]:
    return _unless_equal(value, _ERRNO | error)
