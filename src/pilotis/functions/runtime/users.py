"""The numeric users of sandboxes and builds: no two of a machine have the same at a time."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Generator
from contextlib import contextmanager

from pilotis.functions.runtime.types import FunctionsOverloadedError, RuntimeUnavailableError

_BLOCKS = 512
_BLOCK_USERS = 512


class UserBlock:
    """The numeric users of this process's sandboxes: a block that no other process of the machine has.

    Two processes whose sandboxes shared a user would share its limits, and without namespaces nothing would keep these
    sandboxes apart. The name of an abstract socket reserves a block, and the kernel releases it when the process ends.
    """

    def __init__(self, uid_base: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.users = range(uid_base, uid_base + _BLOCK_USERS)
        if platform.system() != "Linux":  # Others have neither such sockets nor sandboxes with users of their own.
            return
        for at in range(_BLOCKS):
            number = (os.getpid() + at) % _BLOCKS
            try:
                self._socket.bind(f"\0pilotis-sandboxes-{uid_base}-{number}")
            except OSError:
                continue
            first = uid_base + number * _BLOCK_USERS
            self.users = range(first, first + _BLOCK_USERS)
            return
        self._socket.close()
        raise RuntimeUnavailableError("Other processes of this machine have all numeric users of sandboxes.")

    def release(self) -> None:
        """Let another process have the block."""
        self._socket.close()


class Users:
    """The users of this process, from the block that it reserves when it needs the first."""

    def __init__(self, uid_base: int) -> None:
        self._uid_base = uid_base
        self._taken: set[int] = set()
        self._block: UserBlock | None = None

    def acquire(self) -> int:
        """Return a numeric user that no other sandbox of this process has."""
        if self._block is None:
            self._block = UserBlock(self._uid_base)
        user = next((user for user in self._block.users if user not in self._taken), None)
        if user is None:
            raise FunctionsOverloadedError
        self._taken.add(user)
        return user

    def release(self, user: int) -> None:
        """Let another sandbox have a user."""
        self._taken.discard(user)

    @contextmanager
    def one(self) -> Generator[int]:
        """Yield a user that nothing else has, for a build."""
        user = self.acquire()
        try:
            yield user
        finally:
            self.release(user)

    def close(self) -> None:
        """Let another process have the block."""
        if self._block is not None:
            self._block.release()
            self._block = None
