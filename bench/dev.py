"""How long a saved function takes until its change answers, with `pilotis dev`: `python -m bench.dev`.

Also from `pilotis new` to the first row over HTTP, from nothing: without a browser and without packages of npm.
"""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

_SAVES = 30
_PILOTIS = [sys.executable, "-m", "pilotis"]


def main() -> None:
    """Print both times."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "XDG_CONFIG_HOME": f"{home}/config"}
        project = Path(home, "shop")
        began = time.perf_counter()
        subprocess.run([*_PILOTIS, "new", str(project)], check=True, stdout=subprocess.DEVNULL, env=environment)
        command = [*_PILOTIS, "dev", "--port", "0", "--site-port", "0"]
        running = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True, env=environment)
        assert running.stdout is not None
        try:
            places = dict[str, str]()
            for line in running.stdout:
                if found := re.match(r"  (.+?)  +(.+)", line):
                    places[found[1]] = found[2]
                if "Ctrl-C" in line:
                    break
            told = json.load(urllib.request.urlopen(f"{places['Site']}/pilotis-dev.json"))
            rows = _ask(told, "GET", "/v1/public/tables/notes/data")
            print(f"from `pilotis new` to {rows['total_count']} rows: {time.perf_counter() - began:.2f} s")
            times = [_save(project, told, number) for number in range(_SAVES)]
            worst = sorted(times)[int(_SAVES * 0.95)]
            print(f"a saved function answers: median {statistics.median(times):.0f} ms, 95 % within {worst:.0f} ms")
        finally:
            running.send_signal(signal.SIGINT)
            running.wait()


def _save(project: Path, told: dict[str, str], number: int) -> float:
    source = f"export default async () => {number};\n"
    began = time.perf_counter()
    (project / "functions" / "greet" / "index.ts").write_text(source)
    while _ask(told, "POST", "/v1/public/functions/greet/invoke", {"payload": {}})["result"] != number:
        time.sleep(0.005)
    return (time.perf_counter() - began) * 1000


def _ask(told: dict[str, str], method: str, path: str, body: object = None) -> dict[str, object]:
    headers = {"X-Public-Key": told["publicKey"], "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(told["url"] + path, data, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        found: dict[str, object] = json.load(answer)
        return found


if __name__ == "__main__":
    main()
