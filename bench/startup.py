"""Time from process start to the first answered request, cold and warm, and idle memory.

`python bench/startup.py [runs]` prints the median and the worst of each, beside a bare `python -c pass` and a bare
ASGI application served by uvicorn, started the same way.
"""

from __future__ import annotations

import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

PORT = 18_431
BARE = f"""
import uvicorn
async def app(scope, receive, send):
    await send({{"type": "http.response.start", "status": 200, "headers": []}})
    await send({{"type": "http.response.body", "body": b"{{}}"}})
uvicorn.run(app, port={PORT}, lifespan="off", log_level="error")
"""


def first_answer(command: list[str]) -> tuple[float, float]:
    """Start, wait for an answer, stop; return the seconds it took and the resident memory in MB."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not answers():
            assert process.poll() is None, command
            time.sleep(0.002)
        seconds = time.monotonic() - begun
        status = Path(f"/proc/{process.pid}/status").read_text()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
    kilobytes = re.findall(r"VmRSS:\s+(\d+)", status)
    return seconds, int(kilobytes[0]) * 1024 / 1e6


def answers() -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{PORT}/healthz", timeout=30).read()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def python() -> float:
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.monotonic() - begun


def told(name: str, values: list[float], unit: str) -> None:
    print(f"{name:28} median {statistics.median(values):7.3f} {unit}   worst {max(values):7.3f} {unit}")


def main(runs: int) -> None:
    print(f"{platform.machine()}, Python {platform.python_version()}, {runs} runs each")
    cold, warm, memory = [], [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as place:
            serve = [sys.executable, "-m", "pilotis", "serve", "--port", str(PORT), "--data-dir", f"{place}/data"]
            cold.append(first_answer(serve)[0])
            seconds, used = first_answer(serve)
            warm.append(seconds)
            memory.append(used)
    told("cold, a new data directory", cold, "s")
    told("warm", warm, "s")
    told("memory without PostgreSQL", memory, "MB")
    told("uvicorn, a bare application", [first_answer([sys.executable, "-c", BARE])[0] for _ in range(runs)], "s")
    told("python -c pass", [python() for _ in range(runs)], "s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
