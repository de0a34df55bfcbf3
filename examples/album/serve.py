"""Serves the album on a port of its own, another origin than Pilotis'.

    python3 examples/album/serve.py --url http://127.0.0.1:8090 --public-key pk_… --storage ID

Needs Python 3.11 only. See README.md beside this file.
"""

import argparse
import contextlib
import functools
import http.server
import urllib.parse
from pathlib import Path


def main() -> None:
    """Print the link, serve the page until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8090", help="where Pilotis is (default: %(default)s)")
    parser.add_argument("--public-key", required=True, help="the app's public key, pk_…")
    parser.add_argument("--storage", required=True, help="the id of a file storage of the app")
    parser.add_argument("--port", type=int, default=8098, help="port of the page (default: %(default)s, 0 for any)")
    arguments = parser.parse_args()

    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=Path(__file__).parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), handler) as server:
        given = {"api": arguments.url.rstrip("/"), "key": arguments.public_key, "storage": arguments.storage}
        query = urllib.parse.urlencode(given, safe=":/")
        print(f"The album is at http://127.0.0.1:{server.server_port}/?{query}\nCtrl-C stops it.", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
