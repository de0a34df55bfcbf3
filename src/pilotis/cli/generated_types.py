"""The types of an app's tables as source text, in TypeScript for `@pilotis/client` and in Python for `pilotis-client`.

In rows that are read every column is optional: a row from before the column was added lacks it, even where new rows
must have it. `null` is possible unless the column is required.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from pilotis import __version__

_TYPESCRIPT = {
    "string": "string",
    "uuid": "string",
    "date": "string",
    "number": "number",
    "int": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "object": "JsonObject",
    "array": "Json[]",
}
_PYTHON = {
    "string": "str",
    "uuid": "str",
    "date": "str",
    "number": "float",
    "int": "int",
    "boolean": "bool",
    "bool": "bool",
    "object": "dict[str, Any]",
    "array": "list[Any]",
}
# What TypeScript reads as an identifier and Pilotis permits as a column's name is not the same for all scripts.
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


class _Column(NamedTuple):
    name: str
    type: str
    is_required: bool
    has_default: bool
    is_encrypted: bool
    values: Sequence[Any] | None


def typescript(tables: Sequence[Mapping[str, Any]]) -> str:
    """Return a module with the type `App`; `tables` are as `GET /v1/public/tables` lists them."""
    lines = [
        f"// Written by `pilotis types` {__version__}; do not change it by hand.",
        "// Each column may be missing in a row from before the column was added.",
        'import type { Json, JsonObject, RowOf } from "@pilotis/client";',
        "",
        "export interface App {",
        "  tables: {",
    ]
    titles = {table["title"] for table in tables}
    for table in _sorted(tables):
        columns = _columns(table)
        encrypted = [column.name for column in columns if column.is_encrypted]
        lines += [
            f"    {_text(table['title'])}: {{",
            *_typescript_object("row", columns, is_new=False),
            *_typescript_object("new", columns, is_new=True),
            f"      keys: {_union(_keys(table))};",
            f"      encrypted: {_union(encrypted)};",
            *_typescript_expanded(table, titles),
            "    };",
        ]
    # The imports are used whatever the columns are.
    lines += ["  };", "}", "", "export type { Json, JsonObject, RowOf };", ""]
    return "\n".join(lines)


def _typescript_object(name: str, columns: Sequence[_Column], *, is_new: bool) -> list[str]:
    if not columns:
        return [f"      {name}: JsonObject;"]
    lines = [f"      {name}: {{"]
    for column in columns:
        kind = _typescript_type(column)
        optional = not (is_new and column.is_required and not column.has_default)
        shown = column.name if _IDENTIFIER.fullmatch(column.name) else _text(column.name)
        lines.append(f"        {shown}{'?' * optional}: {kind}{'' if column.is_required else ' | null'};")
    return [*lines, "      };"]


def _typescript_expanded(table: Mapping[str, Any], titles: Collection[str]) -> list[str]:
    """Return the rows to which columns refer. Other names, which a query gives to rows that refer to it, are any."""
    lines = ["      expanded: {"]
    for name, definition in table["schema"].items():
        target = {} if isinstance(definition, str) else definition.get("references") or {}
        if target.get("table") in titles:
            shown = name if _IDENTIFIER.fullmatch(name) else _text(name)
            lines.append(f'        {shown}?: RowOf<App["tables"][{_text(target["table"])}]> | null;')
    return [*lines, "        [name: string]: any;", "      };"]


def _typescript_type(column: _Column) -> str:
    if column.values is None or not all(isinstance(value, str | int | float) for value in column.values):
        return _TYPESCRIPT[column.type]
    return " | ".join(_text(value) for value in column.values)


def _union(names: Sequence[str]) -> str:
    return " | ".join(map(_text, names)) or "never"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def python(tables: Sequence[Mapping[str, Any]]) -> str:
    """Return a module with a `TypedDict` for the rows and one for the new rows of each table."""
    lines = [
        f'"""Written by `pilotis types` {__version__}; do not change it by hand.',
        "",
        "Each column may be missing in a row from before the column was added.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Any, Literal, NotRequired, TypedDict",
        "",
        '__all__ = ["Any", "Literal", "NotRequired", "TypedDict"]',
    ]
    names: set[str] = set()
    for table in _sorted(tables):
        columns, name = _columns(table), _class_name(str(table["title"]), names)
        for suffix, is_new in (("", False), ("New", True)):
            fields = {column.name: _python_type(column, is_new=is_new) for column in columns}
            # The form of a call takes any name; the annotations are texts, as those of a class are here.
            shown = "".join(f"    {_literal(field)}: {_literal(kind)},\n" for field, kind in fields.items())
            lines += [
                "",
                f"{suffix}{name} = TypedDict({_literal(suffix + name)}, {{\n{shown}}})"
                if fields
                else f"{suffix}{name} = dict[str, Any]",
                f'"""{"A new row" if is_new else "A row"} of {_plain(str(table["title"]))}."""',
            ]
    return "\n".join([*lines, ""])


def _python_type(column: _Column, *, is_new: bool) -> str:
    kind = _PYTHON[column.type]
    values = column.values
    if values is not None and all(type(value) in {str, int} for value in values):
        kind = f"Literal[{', '.join(map(_literal, values))}]"
    kind = kind if column.is_required else f"{kind} | None"
    return kind if is_new and column.is_required and not column.has_default else f"NotRequired[{kind}]"


def _class_name(title: str, taken: set[str]) -> str:
    words = re.findall(r"[^\W_]+", title)
    name = "".join(word[0].upper() + word[1:] for word in words)
    if not name.isidentifier() or keyword.iskeyword(name) or name in {"Any", "Literal", "NotRequired", "TypedDict"}:
        name = f"Table{name}"
    if not name.isidentifier():
        name = "Table"
    found, number = name, 1
    while found in taken or f"New{found}" in taken or found.removeprefix("New") in taken:
        number += 1
        found = f"{name}{number}"
    taken.add(found)
    return found


def _literal(value: Any) -> str:
    # JSON's texts and numbers are Python's, too.
    return json.dumps(value, ensure_ascii=False)


def _plain(title: str) -> str:
    return re.sub(r"[^\w ,.()-]", " ", title)


def _columns(table: Mapping[str, Any]) -> list[_Column]:
    found = []
    for name, definition in table["schema"].items():
        options = {"type": definition} if isinstance(definition, str) else definition
        found.append(
            _Column(
                name,
                options["type"],
                bool(options.get("required")),
                "default" in options,
                bool(options.get("encrypted")),
                options.get("enum"),
            )
        )
    return found


def _keys(table: Mapping[str, Any]) -> list[str]:
    return [key["name"] for key in table.get("unique", ())]


def _sorted(tables: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(tables, key=lambda table: str(table["title"]))
