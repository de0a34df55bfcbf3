"""A table's schema, pure: columns, their names and types, and how they read in requests and answers."""

from __future__ import annotations

import enum
import functools
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

import msgspec

from pilotis.kit.errors import BadRequestError, invalid

OWN_FIELDS = ("id", "created_at", "updated_at")
LONGEST_NAME = 63

Description = Annotated[str, msgspec.Meta(max_length=2000)]

# PostgreSQL has columns of these names in every table.
_SYSTEM_COLUMNS = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})


class ColumnType(enum.StrEnum):
    """The types of columns, as they read in a table's `schema`."""

    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    OBJECT = "object"
    ARRAY = "array"
    UUID = "uuid"
    INT = "int"

    @property
    def data_type(self) -> str:
        """The type's name on the column routes, which say `bool`."""
        return "bool" if self is ColumnType.BOOLEAN else self.value


PHYSICAL_TYPES = {
    ColumnType.STRING: 'text collate "C"',
    ColumnType.NUMBER: "numeric",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.DATE: "text",
    ColumnType.OBJECT: "jsonb",
    ColumnType.ARRAY: "jsonb",
    ColumnType.UUID: "uuid",
    ColumnType.INT: "bigint",
}


class AccessLevel(enum.StrEnum):
    """Who may read and write a table's rows."""

    CREATOR = "Creator"
    PUBLIC = "Public"
    APP_MEMBER = "AppMember"


class InvalidColumnNameError(BadRequestError):
    """400 `INVALID_COLUMN_NAME`: the name is not one that a column may have."""

    code = "INVALID_COLUMN_NAME"


class Column(msgspec.Struct, frozen=True):
    """One column. `number` never changes and is never used again; options that were not given are None.

    With `rewriting` its values are being sealed, or opened, in the background: see `pilotis.tables.rewriting`.
    """

    number: int
    name: str
    type: ColumnType
    required: bool | None = None
    default: Any = None
    description: str | None = None
    encrypted: bool | None = None
    rewriting: bool = False

    @property
    def physical(self) -> str:
        """The column's name in PostgreSQL, quoted.

        Sealed values never go by the name of plain ones: a statement compiled for the others would not fail.
        """
        if self.encrypted:
            return f'"__e{self.number}"'
        return f'"__c{self.number}"' if self.name in _SYSTEM_COLUMNS else f'"{self.name}"'

    @property
    def physical_columns(self) -> Mapping[str, str]:
        """All that PostgreSQL has of the column, quoted names with their types."""
        if self.encrypted:
            return {self.physical: "bytea", self.hash: "bytea"}
        own = {self.physical: PHYSICAL_TYPES[self.type]}
        return own | {self.time: "timestamptz"} if self.has_time else own

    @property
    def converse(self) -> Column:
        """The column in its other form: sealed if it is plain, and plain if it is sealed."""
        return msgspec.structs.replace(self, encrypted=not self.encrypted, rewriting=False)

    @property
    def time(self) -> str:
        """The quoted name of the column that holds a date's moment, to compare by."""
        return f'"__t{self.number}"'

    @property
    def hash(self) -> str:
        """The quoted name of the column that holds the hash of an encrypted value, to find equal ones by."""
        return f'"__h{self.number}"'

    @property
    def has_time(self) -> bool:
        """Whether there is such a column."""
        return self.type is ColumnType.DATE and not self.encrypted

    def definition(self) -> str | dict[str, Any]:
        """Return the column as a table's `schema` shows it: its type alone, or an object with its options."""
        options = {
            "required": self.required,
            "default": self.default,
            "description": self.description,
            "encrypted": self.encrypted,
        }
        given = {name: value for name, value in options.items() if value is not None}
        return {"type": self.type.value, **given} if given else self.type.value


class TableSchema(msgspec.Struct, frozen=True, dict=True):
    """A table at one version of its schema."""

    app_id: UUID
    table_id: UUID
    title: str
    access_level: AccessLevel
    version: int
    columns: tuple[Column, ...]

    @functools.cached_property
    def by_name(self) -> Mapping[str, Column]:
        """The columns by name."""
        return {column.name: column for column in self.columns}

    @property
    def is_free_form(self) -> bool:
        """Whether the table takes any field, because its schema is empty."""
        return not self.columns

    @property
    def physical(self) -> str:
        """The table's qualified name in PostgreSQL; hexadecimal digits, so it needs no quoting."""
        return f"app_{self.app_id.hex}.t_{self.table_id.hex}"

    @property
    def counts(self) -> str:
        """The qualified name of the tally of the app's row counts."""
        return f"app_{self.app_id.hex}.__row_counts"

    @property
    def version_column(self) -> str:
        """The quoted name of the column that every statement names, so that it fails under any other version."""
        return f'"__v{self.version}"'

    @property
    def at_this_version(self) -> str:
        """A condition for reads: always true, but an error under any other version of the schema.

        PostgreSQL looks the column up and then leaves the condition out, so it costs nothing.
        """
        return f"(true or {self.version_column})"


def physical_type(column: Column) -> str:
    """Return the PostgreSQL type that holds a column's values."""
    return "bytea" if column.encrypted else PHYSICAL_TYPES[column.type]


def column_name(name: str) -> str:
    """Return a column's name in NFC.

    A letter or `_` first, then letters, digits and `_`, of any script; at most 63 bytes of UTF-8; not beginning with
    `__`, and none of `id`, `created_at`, `updated_at`, which every row has. Raises `InvalidColumnNameError`.
    """
    normal = unicodedata.normalize("NFC", name)
    if not normal or not all(map(_is_name_character, normal)) or not _may_begin(normal[0]):
        raise InvalidColumnNameError("A column's name begins with a letter or _, then has letters, digits and _ only.")
    if len(normal.encode()) > LONGEST_NAME:
        raise InvalidColumnNameError(f"A column's name has at most {LONGEST_NAME} bytes of UTF-8.")
    if normal.startswith("__"):
        raise InvalidColumnNameError("Names that begin with __ are Pilotis' own.")
    if normal in OWN_FIELDS:
        raise InvalidColumnNameError(f"Every row has {normal} already; choose another name.")
    return normal


def _may_begin(character: str) -> bool:
    return character == "_" or unicodedata.category(character).startswith("L")


def _is_name_character(character: str) -> bool:
    # Marks belong to the letters of many scripts: Devanagari cannot be written without them.
    return character == "_" or unicodedata.category(character) in {"Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Mn", "Mc"}


class _Definition(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    required: bool | None = None
    default: Any = None
    description: Description | None = None
    encrypted: bool | None = None


def parse_schema(schema: Mapping[str, Any], most: int) -> list[Column]:
    """Return the columns of a request's `schema`, numbered 0 for now; raises a 400 error that names the column."""
    if len(schema) > most:
        raise invalid("schema", f"A table has at most {most} columns.", "TOO_MANY_COLUMNS")
    columns = [_parse_column(name, definition) for name, definition in schema.items()]
    names = [column.name for column in columns]
    if twice := {name for name in names if names.count(name) > 1}:
        raise invalid("schema", f"The column {min(twice)} is given twice.", "DUPLICATE_COLUMN")
    return columns


def _parse_column(name: str, definition: Any) -> Column:
    field = f"schema.{name}"
    if isinstance(definition, str):
        definition = {"type": definition}
    try:
        parsed = msgspec.convert(definition, _Definition)
    except msgspec.ValidationError as error:
        raise invalid(field, f"{name}: {error}.") from None
    type_ = column_type(parsed.type, f"{field}.type")
    return Column(0, column_name(name), type_, parsed.required, parsed.default, parsed.description, parsed.encrypted)


def column_type(text: str, field: str) -> ColumnType:
    """Return the type of this name; `bool` and `boolean` are one."""
    try:
        return ColumnType("boolean" if text == "bool" else text)
    except ValueError:
        allowed = ", ".join(ColumnType)
        raise invalid(field, f"{text[:64]} is no column type; the types are {allowed}.", "INVALID_TYPE") from None


def numbered(columns: Sequence[Column], first: int) -> list[Column]:
    """Return new columns with the numbers from `first` on."""
    return [msgspec.structs.replace(column, number=number) for number, column in enumerate(columns, start=first)]
