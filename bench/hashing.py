"""The rate of argon2 alone on all cores: `python -m bench.hashing SECONDS [--libsodium]`.

Prints verifications per second with one thread per core, with the parameters that Pilotis uses: those of the reference
implementation, which is what most services have, or those of libsodium, which is what Pilotis has.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable

import nacl.pwhash
from argon2 import PasswordHasher

from pilotis.kit.passwords import MEMORY_KIB, PASSES

_PASSWORD = "correct horse battery"
_REFERENCE = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=1)


def rate(verify: Callable[[str, str], object], seconds: float) -> float:
    """Return the verifications per second of all cores together."""
    stored = _REFERENCE.hash(_PASSWORD)
    counts: list[int] = []
    begun = time.perf_counter()

    def repeat() -> None:
        count = 0
        while time.perf_counter() < begun + seconds:
            verify(stored, _PASSWORD)
            count += 1
        counts.append(count)

    threads = [threading.Thread(target=repeat) for _ in range(os.cpu_count() or 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begun)


def _libsodium(stored: str, password: str) -> object:
    return nacl.pwhash.verify(stored.encode(), password.encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.hashing", description=__doc__)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--libsodium", action="store_true", help="ask libsodium, not the reference implementation")
    options = parser.parse_args()
    print(rate(_libsodium if options.libsodium else _REFERENCE.verify, options.seconds))
