"""Loads this machine's Debian package index into Pilotis, then asks it questions.

    python3 examples/packages/load.py --url http://127.0.0.1:8090 --public-key pk_…

Needs Python 3.11 only. See README.md beside this file.
"""

import argparse
import http.client
import itertools
import json
import sys
import textwrap
import time
import urllib.parse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import debian_index
from advanced_questions import ADVANCED_QUESTIONS, AdvancedQuestion
from questions import QUESTIONS, Question

TITLE = "Debian packages"
ROWS_IN_A_REQUEST = 1000


class Pilotis:
    """The public routes of one app, over one connection that is kept open."""

    def __init__(self, url: str, public_key: str) -> None:
        parts = urllib.parse.urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.netloc, timeout=60)
        self._headers = {"X-Public-Key": public_key, "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and return its answer; ends the program with the server's sentence if it is an error."""
        encoded = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        try:
            self._connection.request(method, f"/v1/public{path}", encoded, self._headers)
            answer = self._connection.getresponse()
        except OSError as error:
            sys.exit(f"{method} {path}: {error}. Is Pilotis running, and is --url its address?")
        decoded = json.load(answer)
        if answer.status >= 400:
            sys.exit(f"{method} {path}: {answer.status} {decoded['code']}: {decoded['message']}")
        return decoded


def make_table(pilotis: Pilotis) -> str:
    """Make the table, in place of an earlier run's, and return its id."""
    for table in pilotis.call("GET", "/tables")["tables"]:
        if table["title"] == TITLE:
            pilotis.call("DELETE", f"/tables/{table['id']}")
    body = {"title": TITLE, "schema": debian_index.SCHEMA, "access_level": "Public"}
    return str(pilotis.call("POST", "/tables", body)["id"])


def load(pilotis: Pilotis, table: str, packages: Iterable[dict[str, Any]]) -> int:
    """Create a row for each package, a thousand in a request, and return how many there are."""
    rows = iter(packages)
    loaded = 0
    while batch := list(itertools.islice(rows, ROWS_IN_A_REQUEST)):
        answer = pilotis.call("POST", f"/tables/{table}/data/bulk", {"data": batch})
        if answer["success"] < len(batch):
            sys.exit(f"Not every package was taken: {answer['failed'][0]}")
        loaded += len(batch)
    return loaded


def ask(pilotis: Pilotis, table: str, number: int, question: Question) -> None:
    """Print a question, its condition, and the answer with the time it took."""
    started = time.perf_counter()
    answer = pilotis.call("POST", f"/tables/{table}/data/query", question.query)
    milliseconds = (time.perf_counter() - started) * 1000
    print(f"\n{number}. {question.text}")
    where = f"where {json.dumps(question.query['where'])}"
    print(textwrap.fill(where, 100, initial_indent="   ", subsequent_indent="      ", break_long_words=False))
    print(f"   {answer['total_count']:,} found in {milliseconds:.1f} ms")
    for row in answer["data"]:
        shown = row["data"][question.shows]
        print(f"   {row['data']['name']:<32} {shown if isinstance(shown, str) else f'{shown:>15,}'}")


def ask_advanced(pilotis: Pilotis, table: str, number: int, question: AdvancedQuestion) -> None:
    """Print a question for an advanced data route, its body, and the answer with the time it took."""
    started = time.perf_counter()
    answer = pilotis.call("POST", f"/{question.route}", {"table_id": table, **question.body})
    milliseconds = (time.perf_counter() - started) * 1000
    print(f"\n{number}. {question.text}")
    body = f"{question.route} {json.dumps(question.body)}"
    print(textwrap.fill(body, 100, initial_indent="   ", subsequent_indent="      ", break_long_words=False))
    print(f"   answered in {milliseconds:.1f} ms")
    for line in question.lines(answer):
        print(f"   {line}")


def main() -> None:
    """Read, load, ask."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8090", help="where Pilotis is (default: %(default)s)")
    parser.add_argument("--public-key", required=True, help="the app's public key, pk_…")
    parser.add_argument("--index", type=Path, nargs="+", help="index files in place of this machine's own")
    arguments = parser.parse_args()

    indices = arguments.index or debian_index.indices()
    if not indices:
        sys.exit(f"{debian_index.LISTS} holds no package index. Run apt-get update, or name files with --index.")
    started = time.perf_counter()
    packages = list(itertools.chain.from_iterable(map(debian_index.packages, indices)))
    print(f"Read {len(packages):,} packages of {len(indices)} indices in {time.perf_counter() - started:.1f} s.")

    pilotis = Pilotis(arguments.url, arguments.public_key)
    table = make_table(pilotis)
    started = time.perf_counter()
    loaded = load(pilotis, table, packages)
    seconds = time.perf_counter() - started
    print(f"Loaded {loaded:,} rows in {seconds:.1f} s: {loaded / seconds:,.0f} rows a second.")

    for number, question in enumerate(QUESTIONS, start=1):
        ask(pilotis, table, number, question)
    for number, advanced in enumerate(ADVANCED_QUESTIONS, start=len(QUESTIONS) + 1):
        ask_advanced(pilotis, table, number, advanced)


if __name__ == "__main__":
    main()
