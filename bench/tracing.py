"""What tracing costs: `python -m bench.tracing [--seconds 3] [--rounds 6] [--share 0.05]`.

Three servers with one worker each and the same data: one without traces, one that traces `--share` of the requests, and
one that traces all. The collector takes what it is sent and answers at once, in a process of its own. Every round asks
each of them, by wrk on 16 kept-alive connections. `processor` is the ratio of the least processor times of a server for
a request, `rate` that of the best rounds' requests a second.
"""

from __future__ import annotations

import argparse
import http.server
import multiprocessing
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench import load
from bench.https import cases
from bench.servers import Pilotis

_CONNECTIONS = 16


class _Taking(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--share", type=float, default=0.05)
    options = parser.parse_args()
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Taking)
    endpoint = f"http://127.0.0.1:{collector.server_address[1]}/v1/traces"
    taking = multiprocessing.get_context("fork").Process(target=collector.serve_forever, daemon=True)
    taking.start()
    shares = {"none": None, f"{options.share:.0%}": options.share, "all": 1.0}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        servers = {
            label: stack.enter_context(
                Pilotis(
                    directory,
                    name=f"traced-{number}",
                    environment=None
                    if share is None
                    else {"PILOTIS_OTEL_ENDPOINT": endpoint, "PILOTIS_OTEL_SAMPLE": str(share)},
                )
            )
            for number, (label, share) in enumerate(shares.items())
        }
        found = {label: cases(server) for label, server in servers.items()}
        for case in ("row", "list", "create"):
            rates: dict[str, list[float]] = {label: [] for label in shares}
            costs: dict[str, list[float]] = {label: [] for label in shares}
            for _ in range(options.rounds):
                for label, server in servers.items():
                    url, requests, headers, _connections = found[label][case]
                    file = requests.write(directory / "requests")
                    before = server.processor_seconds()
                    result = load.run(url, requests.method, file, headers, options.seconds, _CONNECTIONS)
                    rates[label].append(result.rate)
                    costs[label].append((server.processor_seconds() - before) / result.requests)
            for label in list(shares)[1:]:
                print(
                    f"{case:8} {label:4} rate {max(rates[label]) / max(rates['none']):.3f}  "
                    f"processor {min(costs[label]) / min(costs['none']):.3f}  "
                    f"{min(costs[label]) * 1e6:.0f} µs for a request",
                    flush=True,
                )
    taking.terminate()


if __name__ == "__main__":
    main()
