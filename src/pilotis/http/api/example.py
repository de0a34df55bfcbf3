"""Examples of operations, written by hand in an `examples.yaml` beside their endpoints.

`/docs` shows each as curl, JavaScript and Python; a test runs all three against a server and compares the answer.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One operation: its `operation` id, the request that shows it, and the answer.

    `route` is method and path as declared. `$NAME` in a text stands for a value of the reader's, such as `$TABLE_ID`; a
    path parameter missing in `path` has the variable of its own name. `body` is sent as JSON, `content` unchanged;
    `file` names a file of the reader's that is sent as the form part `file`, `upload` one that is the body. `url`
    replaces the path if an earlier answer contains the URL. In `answer`, `…` stands for any text; it is unset if the
    answer has no body.
    """

    route: str
    operation: str
    path: Mapping[str, str] = {}
    query: Mapping[str, str | int] = {}
    headers: Mapping[str, str] = {}
    body: Any = msgspec.UNSET
    content: str | None = None
    file: str | None = None
    upload: str | None = None
    url: str | None = None
    answer: Any = msgspec.UNSET


@functools.cache
def examples_beside(module: str) -> Mapping[str, Example]:
    """Return the examples in the folder of a module by their `route`; there are none without a file of them."""
    # Only documentation needs them, so a server starts without the reader.
    import yaml

    path = Path(sys.modules[module].__file__ or "").with_name("examples.yaml")
    if not path.exists():
        return {}
    given = yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)
    return {example.route: example for example in msgspec.convert(given, list[Example])}
