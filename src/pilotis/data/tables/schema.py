"""A table's schema: columns, their names and types, and their form in requests and answers. Pure."""

from __future__ import annotations

import enum
import functools
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

import msgspec

from pilotis.data.tables.checks import NAMES as CHECKS
from pilotis.data.tables.checks import Checks, GivenChecks, merged, require_sensible
from pilotis.data.tables.generated import Maker, Normalization, check_made, check_normalized, maker_of
from pilotis.data.tables.keys import CREATOR_NUMBER, Names, UniqueKey
from pilotis.kit import json
from pilotis.kit.errors import BadRequestError, invalid
from pilotis.limits import Limits

OWN_FIELDS = ("id", "created_at", "updated_at")
LONGEST_NAME = 63

Description = Annotated[str, msgspec.Meta(max_length=2000)]

# PostgreSQL's system columns, which every table has.
_SYSTEM_COLUMNS = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})


class ColumnType(enum.StrEnum):
    """The types of columns, as written in a table's `schema`."""

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
        """The type's name on the column routes, which use `bool`."""
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
    """400 `INVALID_COLUMN_NAME`: the name is not valid for a column."""

    code = "INVALID_COLUMN_NAME"


class VectorState(enum.StrEnum):
    """The state of a column's stored words; every write keeps them up to date in both states."""

    FILLING = "filling"
    STORED = "stored"


class OnDelete(enum.StrEnum):
    """What happens to a row when the row that it refers to is deleted."""

    RESTRICT = "restrict"
    SET_NULL = "set_null"
    CASCADE = "cascade"
    KEEP = "keep"
    """Nothing: only the reference to a member stays without one."""


class Reference(msgspec.Struct, frozen=True):
    """What a column refers to: the ids of a table's rows, or their values of a unique key of one column.

    `table` is the table's title, or as a request has it, its title or id; `table_id` and `column`, the number of the
    key's column, are known once it was looked up.
    """

    table: str
    on_delete: OnDelete = OnDelete.RESTRICT
    table_id: UUID | None = None
    key: str | None = None
    column: int | None = None

    @property
    def target(self) -> UUID:
        """The id of the table, which was looked up."""
        assert self.table_id is not None
        return self.table_id


class Referrer(msgspec.Struct, frozen=True):
    """A column that refers to a table: the id and title of its own table, its number and name.

    `key` is the unique key of the table to which it refers, `of` the number of that key's column; both are None for a
    reference to ids.
    """

    table_id: UUID
    table: str
    number: int
    column: str
    on_delete: OnDelete
    key: str | None = None
    of: int | None = None


class Column(msgspec.Struct, frozen=True):
    """One column. `number` never changes and is never reused; options that were not given are None.

    `migrating` says that its values are being migrated in the background by `pilotis.data.tables.column_migrator`.
    `vector` says whether its words are stored beside it: see `pilotis.data.tables.vectors`.
    """

    number: int
    name: str
    type: ColumnType
    required: bool | None = None
    default: Any = None
    description: str | None = None
    encrypted: bool | None = None
    migrating: bool = False
    vector: VectorState | None = None
    references: Reference | None = None
    checks: Checks | None = None
    on_update: Any = None
    normalize: tuple[str, ...] | None = None
    of_member: OnDelete | None = None
    """What the deletion of the member does to which the column refers; None for one that refers to no member."""

    @property
    def default_maker(self) -> Maker | None:
        """What makes the value of a new row that has none."""
        return maker_of(self.type.value, self.default)

    @property
    def update_maker(self) -> Maker | None:
        """What makes the value of a row that changes."""
        return maker_of(self.type.value, self.on_update)

    @property
    def physical(self) -> str:
        """The column's name in PostgreSQL, quoted.

        Encrypted and plain values never share a name, or a statement compiled for one form would not fail on the other.
        """
        if self.encrypted:
            return f'"__e{self.number}"'
        return f'"__c{self.number}"' if self.name in _SYSTEM_COLUMNS else f'"{self.name}"'

    @property
    def physical_columns(self) -> Mapping[str, str]:
        """The physical columns, quoted names with their types."""
        if self.encrypted:
            return {self.physical: "bytea", self.hash: "bytea"}
        own = {self.physical: PHYSICAL_TYPES[self.type]}
        return own | {self.time: "timestamptz"} if self.has_time else own

    @property
    def other_form(self) -> Column:
        """The column in its other form: encrypted if it is plain, and plain if it is encrypted."""
        return msgspec.structs.replace(self, encrypted=not self.encrypted, migrating=False, vector=None)

    @property
    def time(self) -> str:
        """The quoted name of the physical column with a date's moment, for comparisons."""
        return f'"__t{self.number}"'

    @property
    def hash(self) -> str:
        """The quoted name of the physical column with the hash of an encrypted value, to find equal values."""
        return f'"__h{self.number}"'

    @property
    def words(self) -> str:
        """The quoted name of the physical column with the words of a text, a tsvector for search and ranking."""
        return f'"__w{self.number}"'

    @property
    def may_store_words(self) -> bool:
        """Whether the words of its values may be stored: they are texts, not encrypted, and not being encrypted."""
        return self.type is ColumnType.STRING and not self.encrypted and not self.migrating

    @property
    def has_time(self) -> bool:
        """Whether the physical column exists."""
        return self.type is ColumnType.DATE and not self.encrypted

    def definition(self) -> str | dict[str, Any]:
        """Return the column as a table's `schema` shows it: its type alone, or an object with its options."""
        options = {
            "required": self.required,
            "default": self.default,
            "description": self.description,
            "encrypted": self.encrypted,
            "on_update": self.on_update,
            "normalize": self.shown_normalize,
        }
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        if self.references is not None:
            key = {} if self.references.key is None else {"key": self.references.key}
            given["references"] = {
                "table": self.references.table,
                **key,
                "on_delete": self.references.on_delete.value,
            }
        if self.of_member is not None:
            given["references"] = {"member": True, "on_delete": self.of_member.value}
        if self.checks is not None:
            given |= self.shown_checks
        return {"type": self.type.value, **given} if given else self.type.value

    @property
    def shown_normalize(self) -> list[str] | None:
        """The steps to the normal form of its texts."""
        return None if self.normalize is None else list(self.normalize)

    @property
    def shown_checks(self) -> dict[str, Any]:
        """The checks of its values, by their names."""
        checks = {} if self.checks is None else msgspec.structs.asdict(self.checks)
        return {name: value for name, value in checks.items() if value is not None}


class TableSchema(msgspec.Struct, frozen=True, dict=True):
    """A table at one version of its schema."""

    app_id: UUID
    table_id: UUID
    title: str
    access_level: AccessLevel
    version: int
    columns: tuple[Column, ...]
    emits: frozenset[str] = frozenset()
    """The operations whose statements write events: `created`, `updated`, `deleted`."""
    rules: Any = None
    """The stored document of its rules, which decides in place of the access level; see `pilotis.data.rules`."""
    hidden: frozenset[str] = frozenset()
    """The names of columns that were left out, because the caller may not read them."""
    keys: tuple[UniqueKey, ...] = ()
    """The unique keys."""
    referrers: tuple[Referrer, ...] = ()
    """The columns that refer to the table, its own included."""
    watched: bool = False
    """Whether its statements write the app's log of changes; see `pilotis.data.rows.change_log`."""
    profile_key: str | None = None
    """The unique key by which its rows are the profiles of the app's members; None for another table."""

    def without(self, hidden: frozenset[str]) -> TableSchema:
        """Return the table as a caller sees it who may not read some of its columns."""
        known: dict[frozenset[str], TableSchema] = self.__dict__.setdefault("seen", {})
        if hidden not in known:
            columns = tuple(column for column in self.columns if column.name not in hidden)
            known[hidden] = msgspec.structs.replace(self, columns=columns, hidden=hidden)
        return known[hidden]

    @functools.cached_property
    def by_name(self) -> Mapping[str, Column]:
        """The columns by name."""
        return {column.name: column for column in self.columns}

    @functools.cached_property
    def key_columns(self) -> Mapping[int, Names]:
        """What unique keys compare, by the number of the column."""
        known = {CREATOR_NUMBER: Names("__creator", is_text=False)}
        for column in self.columns:
            sql = column.hash if column.encrypted else column.time if column.has_time else column.physical
            known[column.number] = Names(sql, is_text=column.type is ColumnType.STRING and not column.encrypted)
        return known

    @functools.cached_property
    def enforced_keys(self) -> Sequence[UniqueKey]:
        """The unique keys that may forbid a row; one that is being built may already."""
        return [key for key in self.keys if key.state != "failed"]

    @functools.cached_property
    def texts_in_keys(self) -> frozenset[int]:
        """The numbers of the columns whose texts must fit into an entry of a key's index."""
        return frozenset(n for key in self.enforced_keys for n in key.columns if self.key_columns[n].is_text)

    @functools.cached_property
    def references(self) -> Sequence[tuple[Column, Reference]]:
        """The columns that refer to tables, hidden ones included, with what they refer to."""
        return [(column, column.references) for column in self.columns if column.references is not None]

    @functools.cached_property
    def of_members(self) -> Sequence[Column]:
        """The columns that refer to members, hidden ones included."""
        return [column for column in self.columns if column.of_member is not None]

    @property
    def refers(self) -> bool:
        """Whether the table's rows refer to rows or to members."""
        return bool(self.references or self.of_members)

    def referred_column(self, number: int | None) -> str:
        """Return the name in PostgreSQL of the column to which references lead: the id, or that of a key."""
        return next((column.physical for column in self.columns if column.number == number), "__id")

    @functools.cached_property
    def copies_nickname(self) -> bool:
        """Whether new rows get the nickname of the member who creates them."""
        return any(column.default_maker is Maker.NICKNAME for column in self.columns)

    @property
    def is_free_form(self) -> bool:
        """Whether the table accepts any field, because its schema is empty."""
        return not self.columns and not self.hidden

    @functools.cached_property
    def physical(self) -> str:
        """The table's qualified name in PostgreSQL; hexadecimal digits, which need no quoting."""
        return self.physical_of(self.table_id)

    @property
    def schema_name(self) -> str:
        """The name of the app's schema in PostgreSQL."""
        return f"app_{self.app_id.hex}"

    def physical_of(self, other_id: UUID) -> str:
        """Return the qualified name of another table of the app."""
        return f"{self.schema_name}.t_{other_id.hex}"

    @functools.cached_property
    def counts(self) -> str:
        """The qualified name of the table with the app's row counts."""
        return f"{self.schema_name}.__row_counts"

    @property
    def version_column(self) -> str:
        """The quoted name of the column that every statement mentions, so that it fails under any other version."""
        return f'"__v{self.version}"'

    @property
    def at_this_version(self) -> str:
        """A condition for reads: always true, but an error under any other version of the schema.

        PostgreSQL resolves the column and then removes the condition, so it costs nothing.
        """
        return f"(true or {self.version_column})"

    @property
    def at_this_version_within(self) -> str:
        """The condition for a select that is part of another, whose rows may have a column of the same version."""
        return f"(true or {self.physical}.{self.version_column})"


def physical_type(column: Column) -> str:
    """Return the PostgreSQL type of a column's values."""
    return "bytea" if column.encrypted else PHYSICAL_TYPES[column.type]


def column_name(name: str, max_bytes: int = LONGEST_NAME) -> str:
    """Return a column's name in NFC.

    A letter or `_` first, then letters, digits and `_`, of any script; at most `max_bytes` of UTF-8; not beginning with
    `__`, and none of `id`, `created_at`, `updated_at`, which every row has. Raises `InvalidColumnNameError`.
    """
    normal = unicodedata.normalize("NFC", name)
    if not normal or not all(map(_is_name_character, normal)) or not _may_begin(normal[0]):
        raise InvalidColumnNameError(
            f"{name[:100]!r} cannot name a column: names begin with a letter or _, and have letters, digits and _ only."
        )
    if len(normal.encode()) > max_bytes:
        raise InvalidColumnNameError(
            f"{name[:100]!r} is too long: a column's name has at most {max_bytes} bytes of UTF-8."
        )
    if normal.startswith("__"):
        raise InvalidColumnNameError(f"{normal} cannot name a column: names that begin with __ are reserved.")
    if normal in OWN_FIELDS:
        raise InvalidColumnNameError(f"Every row has {normal} already; choose another name.")
    return normal


def normal_path(path: str) -> str:
    """Return a field's name, or a dotted path, with its first name in NFC, as column names are.

    Names after a dot are keys inside a value, and values are stored as sent.
    """
    if path.isascii():
        return path
    first, dot, rest = path.partition(".")
    return unicodedata.normalize("NFC", first) + dot + rest


def free_field_name(name: str) -> str:
    """Return the name of a free-form table's field in NFC; raises `InvalidColumnNameError`."""
    if not name:
        raise InvalidColumnNameError("A field's name is not empty.")
    if name.startswith("__"):
        raise InvalidColumnNameError(f"{name[:100]}: names that begin with __ are reserved.")
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def _may_begin(character: str) -> bool:
    return character == "_" or unicodedata.category(character).startswith("L")


def _is_name_character(character: str) -> bool:
    # Many scripts need combining marks: Devanagari cannot be written without them.
    return character == "_" or unicodedata.category(character) in {"Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Mn", "Mc"}


# Generators of clients want to be told what the items are.
Normalize = Annotated[list[Normalization], msgspec.Meta(max_length=3)]


class NewReference(msgspec.Struct, forbid_unknown_fields=True):
    """What a column refers to, and what its deletion does: by default `restrict` for rows, `keep` for members.

    It is a `table`, by its title or id, whose rows are named by their ids, or by a unique `key` of one column; or with
    `member` the members of the app.
    """

    table: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | None = None
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)] | None = None
    member: bool | None = None
    on_delete: OnDelete | None = None

    @property
    def stored(self) -> Reference | None:
        """The reference to rows, whose table is to be looked up; None for one to members."""
        if self.table is None:
            return None
        return Reference(self.table, self.on_delete or OnDelete.RESTRICT, key=self.key)

    @property
    def of_member(self) -> OnDelete | None:
        """What the deletion of a member does; None for a reference to rows."""
        return (self.on_delete or OnDelete.KEEP) if self.member else None

    def check(self, place: str) -> None:
        """Raise a 400 error for a reference that is to nothing or to two things; `place` is its own."""
        if bool(self.member) == (self.table is not None):
            raise invalid(place, 'references names a table, or members as {"member": true}.')
        if self.member and self.key is not None:
            raise invalid(f"{place}.key", "A reference to members has no key: it holds a member's id.")


class _Definition(GivenChecks, forbid_unknown_fields=True):
    type: str
    required: bool | None = None
    default: Any = None
    description: Description | None = None
    encrypted: bool | None = None
    references: NewReference | None = None
    on_update: Any = None
    normalize: Normalize | None = None
    unique: bool | None = None


def parse_schema(schema: Mapping[str, Any], limits: Limits) -> list[Column]:
    """Return the columns of a request's `schema`, numbered 0 for now; raises a 400 error that names the column."""
    if len(schema) > limits.columns:
        raise invalid("schema", f"A table has at most {limits.columns} columns.", "TOO_MANY_COLUMNS")
    columns = [_parse_column(name, definition, limits.column_name_bytes) for name, definition in schema.items()]
    names = [column.name for column in columns]
    if twice := {name for name in names if names.count(name) > 1}:
        raise invalid("schema", f"The column {min(twice)} is given twice.", "DUPLICATE_COLUMN")
    return columns


def given_checks(schema: Mapping[str, Any], name: str) -> GivenChecks:
    """Return the checks that a valid definition gives the column of a name; those of no name are absent."""
    for key, definition in schema.items():
        if isinstance(definition, dict) and normal_path(key) == name:
            return msgspec.convert({one: definition[one] for one in CHECKS if one in definition}, GivenChecks)
    return GivenChecks()


def unique_columns(schema: Mapping[str, Any]) -> list[str]:
    """Return the names of the columns to which valid definitions give unique keys of their own."""
    return [normal_path(name) for name, one in schema.items() if isinstance(one, dict) and one.get("unique")]


def _parse_column(name: str, definition: Any, max_name_bytes: int) -> Column:
    field = f"schema.{name}"
    if isinstance(definition, str):
        definition = {"type": definition}
    try:
        parsed = msgspec.convert(definition, _Definition)
    except msgspec.ValidationError as error:
        raise json.field_error(error, _Definition, definition).within(field) from None
    type_ = column_type(parsed.type, f"{field}.type")
    try:
        name = column_name(name, max_name_bytes)
    except InvalidColumnNameError as error:
        error.at(field[:200])
        raise
    column = Column(
        0,
        name,
        type_,
        parsed.required,
        parsed.default,
        parsed.description,
        parsed.encrypted,
        references=None if parsed.references is None else parsed.references.stored,
        of_member=None if parsed.references is None else parsed.references.of_member,
        checks=merged(None, parsed),
        on_update=parsed.on_update,
        normalize=steps_of(parsed.normalize),
    )
    check_reference(column, field, parsed.references)
    check_makers(column, (f"{field}.default", f"{field}.on_update", f"{field}.normalize"))
    require_sensible(column.checks, type_.value, field)
    return column


def steps_of(normalize: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the steps of a request to the normal form of a text, each once; None for none."""
    return tuple(dict.fromkeys(normalize)) if normalize else None


def check_makers(column: Column, fields: tuple[str, str, str]) -> None:
    """Raise a 400 error if the values of a column cannot be made, or normalized, as it is defined.

    `fields` are the places of its default, `on_update` and `normalize`.
    """
    check_made(column.type.value, column.encrypted, column.default, column.on_update, fields[:2])
    check_normalized(column.type.value, column.normalize, fields[2])


REFERRING_TYPES = (ColumnType.STRING, ColumnType.INT, ColumnType.NUMBER, ColumnType.UUID)
"""The types of columns that can refer to unique keys."""


def check_reference(column: Column, field: str, given: NewReference | None) -> None:
    """Raise a 400 error for a column that cannot refer to rows or members as it is defined; `field` is its place.

    `given` is the reference of the request, if there is one.
    """
    place = f"{field}.references" if field else "references"
    if given is not None:
        given.check(place)
    refers, member = column.references, column.of_member
    if refers is None and member is None:
        return
    on_delete = refers.on_delete if refers is not None else member
    if refers is not None and refers.key is None and column.type is not ColumnType.UUID:
        raise invalid(place, "A reference holds a row's id, so that its column is of type uuid.")
    if refers is not None and column.type not in REFERRING_TYPES:
        raise invalid(place, f"A reference to a key is of its type: {', '.join(REFERRING_TYPES)}.")
    if member is not None and column.type is not ColumnType.STRING:
        raise invalid(place, "A reference to members holds a member's id, so that its column is of type string.")
    if column.encrypted:
        raise invalid(place, "An encrypted column cannot refer to anything: the database does not know its values.")
    if refers is not None and on_delete is OnDelete.KEEP:
        raise invalid(f"{place}.on_delete", "on_delete is restrict, set_null or cascade; keep is for members.")
    if member is OnDelete.RESTRICT:
        raise invalid(f"{place}.on_delete", "on_delete of members is keep, set_null or cascade: members may go.")
    if column.required and on_delete is OnDelete.SET_NULL:
        raise invalid(f"{place}.on_delete", "A required column cannot become null. Use another on_delete.")


def column_type(text: str, field: str) -> ColumnType:
    """Return the type with this name; `bool` and `boolean` are synonyms."""
    try:
        return ColumnType("boolean" if text == "bool" else text)
    except ValueError:
        allowed = ", ".join(ColumnType)
        raise invalid(field, f"{text[:64]} is not a column type; the types are {allowed}.", "INVALID_TYPE") from None


def numbered(columns: Sequence[Column], first: int) -> list[Column]:
    """Return new columns with the numbers from `first` on."""
    return [msgspec.structs.replace(column, number=number) for number, column in enumerate(columns, start=first)]
