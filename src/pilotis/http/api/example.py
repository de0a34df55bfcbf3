"""Examples of operations, written by hand next to their endpoints.

`/docs` shows each as curl, JavaScript and Python; a test runs all three against a server and compares the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Example(msgspec.Struct, frozen=True):
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
