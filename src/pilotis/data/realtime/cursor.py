"""Where a reader of an app's log of changes is: a snapshot of transactions, as the token of a stream. Pure.

A token grants nothing: what it leads to is judged under the rules of who presents it. So it is not signed; a made-up
one only makes its own stream miss changes, or repeat them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

RESUMABLE_SECONDS = 600
"""For how long a stream can go on after its connection broke. The log keeps entries longer: see `KEPT_SECONDS`."""
KEPT_SECONDS = 900
"""How long the log keeps an entry, counted from its writing. Its transaction commits within the difference."""

_MAX_LENGTH = 4096
_MAX_RUNNING = 100
# No log has this one.
_NO_EPOCH = b"00000000-0000-0000-0000-000000000000-0"
_FORM = re.compile(r"([0-9a-f-]{36}-\d{1,20})\.(\d{1,16})\.(\d{1,19}):(\d{1,19}):((?:\d{1,19}(?:_\d{1,19})*)?)")


class Cursor(NamedTuple):
    """The log's `epoch`, the `snapshot` in PostgreSQL's form (`xmin:xmax:xip,…`), and its time in milliseconds."""

    epoch: str
    snapshot: str
    moment: int

    @property
    def token(self) -> str:
        """The form in which clients have it."""
        return f"{self.epoch}.{self.moment}.{self.snapshot.replace(',', '_')}"


def cursor_of(epoch: str, snapshot: str, moment: int) -> Cursor:
    """Return a cursor. A snapshot with very many running transactions is cut: some changes will be read twice."""
    xmin, _, running = snapshot.split(":")
    if running.count(",") >= _MAX_RUNNING:
        snapshot = f"{xmin}:{xmin}:"
    return Cursor(epoch, snapshot, moment)


def unresumable(token: bytes) -> bytes:
    """Return a token of the same moment after which a stream is told to read everything again."""
    return _NO_EPOCH + token[token.index(b".") :]


def parse(token: str, moment: int) -> Cursor | None:
    """Return the cursor of a token; None for one that is damaged, or too old at a moment in milliseconds."""
    found = _FORM.fullmatch(token) if len(token) <= _MAX_LENGTH else None
    if found is None:
        return None
    epoch, at, xmin, xmax, running = found.groups()
    if not moment - RESUMABLE_SECONDS * 1000 <= int(at) <= moment + 60_000:
        return None
    xids = [int(xid) for xid in running.split("_") if xid]
    # What PostgreSQL requires of a snapshot; the lower half of a transaction's number is never zero.
    is_one = 0 < int(xmin) <= int(xmax) < 2**63 and int(xmin) % 2**32 and int(xmax) % 2**32
    if not is_one or xids != sorted(set(xids)) or any(not int(xmin) <= xid < int(xmax) for xid in xids):
        return None
    return Cursor(epoch, f"{xmin}:{xmax}:{running.replace('_', ',')}", int(at))
