"""Writes the list of the commonest passwords that the package has: `common_passwords.py FILE`, one password a line.

The list in the package is that of zxcvbn (MIT), such as `FREQUENCY_LISTS["passwords"]` of its Python port. What is
written are the first six bytes of the SHA-256 of each, sorted: nobody reads the passwords, and one of nine thousand
million others is taken for one of them.
"""

import hashlib
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src" / "pilotis" / "kit" / "common_passwords.bin"
BYTES = 6


def main() -> None:
    """Write the file."""
    words = Path(sys.argv[1]).read_text("utf-8").split()
    hashes = {hashlib.sha256(word.lower().encode()).digest()[:BYTES] for word in words}
    TARGET.write_bytes(b"".join(sorted(hashes)))
    sys.stdout.write(f"wrote {len(hashes)} passwords to {TARGET.name}\n")


if __name__ == "__main__":
    main()
