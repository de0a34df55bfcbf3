"""Every limit, with its default. A server's settings change them; those in `PER_APP` an app may change for itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a request, an app or a client may use at most. Sizes are in bytes; rates are counted in a minute."""

    signin_per_minute: Positive = 10
    """Sign-ins with one login_id from one address; going past it doubles the wait each time, up to 15 minutes."""
    signup_per_minute: Positive = 120
    """Sign-ups from one address."""
    guest_per_minute: Positive = 120
    """Guests made from one address."""
    upload_per_minute: Count = 0
    """Uploads begun from one address; 0 is no limit of their own."""
    data_per_minute: Count = 0
    """Requests with the public key from one address; 0 is no limit."""
    password_min_length: Annotated[int, msgspec.Meta(ge=1, le=256)] = 8
    """Shortest password, in characters."""
    password_max_length: Annotated[int, msgspec.Meta(ge=8, le=4096)] = 256
    """Longest password, in characters."""
    custom_data_bytes: Positive = 64 * 1024
    """A member's custom_data, as JSON text."""
    row_bytes: Positive = 1024 * 1024
    """A row's data, as JSON text."""
    page_rows: Positive = 1000
    """Largest `limit` of a list or a query; a larger one is lowered to it."""
    page_bytes: Positive = 64 * 1024 * 1024
    """Rows of one page, as JSON text."""
    bulk_rows: Positive = 1000
    """Rows in one bulk create."""
    columns: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200
    """Columns of a table."""
    tables: Positive = 1000
    """Tables of an app."""
    storages: Positive = 100
    """File storages of an app."""
    file_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**43)] = 5 * 1024 * 1024 * 1024
    """Largest file; a storage may take less."""
    regex_length: Positive = 256
    """Characters of a `$matches` pattern."""
    where_depth: Annotated[int, msgspec.Meta(ge=1, le=60)] = 10
    """Nesting of a `where`."""
    where_conditions: Positive = 100
    """Conditions in a `where`."""
    where_list_values: Positive = 1000
    """Values in a list of a `where`."""
    search_query_length: Positive = 500
    """Characters of what is searched or completed."""
    polygon_points: Positive = 10_000
    """Points of a polygon."""
    reseal_rows: Count = 20_000
    """Rows up to which turning `encrypted` on or off rewrites a table at once; a larger one in the background."""
    index_rows: Positive = 10_000
    """Rows from which on a table gets the indexes by itself that its queries need."""
    indexes: Count = 200
    """Indexes that an app gets by itself."""
    table_indexes: Count = 16
    """Indexes that a table gets by itself."""
    index_percent: Count = 300
    """Size of a table's own indexes, in percent of the table's."""
    index_unused_days: Positive = 28
    """Days after which an index that no query has used is dropped."""


PER_APP = frozenset(
    {
        "signin_per_minute",
        "signup_per_minute",
        "guest_per_minute",
        "upload_per_minute",
        "data_per_minute",
        "password_min_length",
        "custom_data_bytes",
        "row_bytes",
        "page_rows",
        "bulk_rows",
        "columns",
        "tables",
        "indexes",
        "table_indexes",
        "index_percent",
        "storages",
        "file_bytes",
    }
)


def for_app(server: Limits, own: Mapping[str, int]) -> Limits:
    """Return the server's limits with an app's own in place of those it may set."""
    return msgspec.structs.replace(server, **{name: own[name] for name in PER_APP & own.keys()})
