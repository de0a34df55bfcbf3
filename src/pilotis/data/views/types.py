"""The types of views."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from pilotis.data.rows.schemas import StageObject
from pilotis.data.rows.types import TableName
from pilotis.data.rules.types import Rule
from pilotis.data.tables.schema import Description

ViewName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$",
        description="The name by which the view is called: letters, digits, - and _, at most 63.",
    ),
]
ParameterType = Literal["string", "number", "int", "boolean", "date", "uuid", "array"]
CacheSeconds = Annotated[int, msgspec.Meta(ge=0, le=3600)]
RunAs = Literal["caller", "app"]


class ViewParameter(msgspec.Struct, forbid_unknown_fields=True):
    """A parameter of a view; without a `default` every call has to give it. An `array` has texts, numbers, booleans."""

    type: ParameterType
    default: Any = msgspec.UNSET
    description: Description | msgspec.UnsetType = msgspec.UNSET


Parameters = dict[str, ViewParameter]


class NewView(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A pipeline to save. In it, `{"$param": "since"}` stands for the value of the parameter `since`.

    With `run_as` "caller" it is computed from the rows that the caller may list, with "app" from all rows, hidden
    columns included. `read` says who may call it: null only the app's own side, true everybody, or a condition on
    `$member`. Absent, it is true; with `run_as` "app" it must be given, and only then answers may be cached.
    """

    name: ViewName
    table_id: TableName
    pipeline: list[StageObject]
    params: Parameters = {}
    read: Rule | msgspec.UnsetType = msgspec.UNSET
    run_as: RunAs = "caller"
    cache_seconds: CacheSeconds = 0
    description: Description | None = None


class ViewChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Changes of a view; absent fields stay as they are."""

    name: ViewName | msgspec.UnsetType = msgspec.UNSET
    table_id: TableName | msgspec.UnsetType = msgspec.UNSET
    pipeline: list[StageObject] | msgspec.UnsetType = msgspec.UNSET
    params: Parameters | msgspec.UnsetType = msgspec.UNSET
    read: Rule | msgspec.UnsetType = msgspec.UNSET
    run_as: RunAs | msgspec.UnsetType = msgspec.UNSET
    cache_seconds: CacheSeconds | msgspec.UnsetType = msgspec.UNSET
    description: Description | msgspec.UnsetType | None = msgspec.UNSET


class View(msgspec.Struct, kw_only=True):
    """A saved pipeline, with today's names of tables and columns. `table` is the title of its table."""

    id: UUID
    name: str
    table_id: UUID
    table: str
    pipeline: list[StageObject]
    params: Parameters
    read: Rule
    run_as: RunAs
    cache_seconds: int
    description: str | None
    created_at: str
    updated_at: str


class ViewList(msgspec.Struct):
    """An app's views, by name."""

    views: list[View]


class ViewCall(msgspec.Struct, forbid_unknown_fields=True):
    """The values of a view's parameters; those that are absent have their defaults."""

    params: dict[str, Any] = {}
