"""Parts of documentation pages that are made: between two marks, by a program beside this one."""

from __future__ import annotations

import sys
from pathlib import Path


def rewrite(page: Path, begin: str, end: str, made: str) -> int:
    """Put what was made between the marks, or with `--check` only compare; return the exit status."""
    text = page.read_text("utf-8")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    written = f"{before}{begin}\n{made}\n{end}{after}"
    if "--check" in sys.argv:
        return int(written != text)
    page.write_text(written, "utf-8")
    return 0
