"""What argon2 gives by itself on all cores: `python -m bench.hashing SECONDS` prints verifications a second."""

from __future__ import annotations

import os
import sys
import threading
import time

from argon2 import PasswordHasher

from pilotis.kit.passwords import Passwords


def rate(seconds: float) -> float:
    """Return the verifications a second of one thread a core, with the parameters that Pilotis uses."""
    hasher: PasswordHasher = Passwords()._hasher
    stored = hasher.hash("correct horse battery")
    counts: list[int] = []
    begun = time.perf_counter()

    def verify() -> None:
        count = 0
        while time.perf_counter() < begun + seconds:
            hasher.verify(stored, "correct horse battery")
            count += 1
        counts.append(count)

    threads = [threading.Thread(target=verify) for _ in range(os.cpu_count() or 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begun)


if __name__ == "__main__":
    print(rate(float(sys.argv[1])))
