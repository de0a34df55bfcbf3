"""Writes the synchronous client from the asynchronous one: `python generate.py`, or with `--check` only compares."""

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "src" / "pilotis_client"
REPLACED = {
    r"\basync (def|with|for)\b": r"\1",
    r"\bawait ": "",
    r"\basyncio\.sleep\b": "time.sleep",
    r"\basyncio\.Lock\b": "threading.Lock",
    r"^import asyncio\n": "",
    r"^import time\n": "import threading\nimport time\n",
    r"\bAsync(Http|Sessions|Members|Query|RowByKey|Rows|Files|Functions|Channel|Iterator|BaseTransport)\b": r"\1",
    r"\bhttpx\.AsyncBaseTransport\b": "httpx.BaseTransport",
    r"\bhttpx\.AsyncClient\b": "httpx.Client",
    r"\bAsyncClient\b": "Client",
    r"__a(enter|exit|iter)__": r"__\1__",
    r"\baclose\b": "close",
    r"\baread\b": "read",
    r"\baiter_lines\b": "iter_lines",
    r"^\"\"\".*?\"\"\"": '"""The synchronous client, written from `_async.py` by `generate.py`: change that one."""',
}


def synchronous(text: str) -> str:
    """Return the text of the synchronous client."""
    for pattern, replacement in REPLACED.items():
        text = re.sub(pattern, replacement, text, count=1 if pattern.startswith("^") else 0, flags=re.MULTILINE)
    return text


def main() -> None:
    """Write the file, or end with an error if it is out of date."""
    source, target = FOLDER / "_async.py", FOLDER / "_sync.py"
    text = synchronous(source.read_text("utf-8"))
    if "--check" not in sys.argv:
        target.write_text(text, "utf-8")
    elif target.read_text("utf-8") != text:
        sys.exit("_sync.py is out of date: run generate.py")


if __name__ == "__main__":
    main()
