"""Listens on loopback inside a sandbox's network namespace, and passes the socket out by standard input.

A program of its own, started as `python -I -S listener.py PID PORT`: a process with several threads, such as the
server, cannot change its user namespace (setns(2)). The server accepts on the socket from then on, so nothing in the
sandbox takes part in its connections, and nothing in the sandbox is connected to from outside.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import sys
from pathlib import Path

NS_GET_USERNS = 0xB701  # linux/nsfs.h
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
# The least, the initial and the largest size in bytes of a TCP socket's buffer: the kernel's memory, which no limit of
# the sandbox counts.
BUFFERS = "4096 65536 262144"

libc = ctypes.CDLL(None, use_errno=True)


def enter(namespace: int, kind: int) -> None:
    """Move this process into a namespace."""
    if libc.setns(namespace, kind):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main() -> None:
    """Pass a listening socket out."""
    network = os.open(f"/proc/{int(sys.argv[1])}/ns/net", os.O_RDONLY)
    if os.geteuid():
        enter(fcntl.ioctl(network, NS_GET_USERNS), CLONE_NEWUSER)
    enter(network, CLONE_NEWNET)
    # In a container /proc/sys may be read-only; then the number of sockets is the only limit.
    with contextlib.suppress(OSError):
        for name in ("tcp_rmem", "tcp_wmem"):
            Path("/proc/sys/net/ipv4", name).write_text(BUFFERS)
    with socket.create_server(("127.0.0.1", int(sys.argv[2])), backlog=16) as listening:
        socket.send_fds(socket.socket(fileno=0), [b"s"], [listening.fileno()])


if __name__ == "__main__":
    main()
