"""Writes docs/configuration.md from the types of the settings: `python tools/configuration.py`."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from pilotis.limits import PER_APP, Limits
from pilotis.settings import Settings, variable_of

TARGET = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"

_HEAD = """# Configuration

Written by `tools/configuration.py` from the types in `pilotis.settings` and `pilotis.limits`.

A setting comes from the first of these that gives it:

1. a flag of the command, such as `--port 8099`;
2. an environment variable, such as `PILOTIS_PORT=8099`; one that is empty counts as unset, and commas separate
   the parts of a list;
3. a TOML file: the one named by `--config`, or `pilotis.toml` in the working directory;
4. the default.

A name that is no setting, or a value that does not fit, keeps Pilotis from starting: it lists every problem and exits
with status 2. The command's own flags are `--host`, `--port`, `--data-dir`, `--database-url`, `--workers` and
`--base-url`; everything else is a variable or a line of the file:

```toml
port = 8099
trusted_proxies = ["10.0.0.7"]

[limits]
row_bytes = 2_000_000
```
"""


def document() -> str:
    """Return the whole page."""
    limits = "Those marked *app* an app can have for itself; `GET /v1/apps/:app_id/limits` shows the ones in force."
    parts = [_HEAD, "## Settings", _table(Settings, ""), "## Limits", limits, _table(Limits, "limits.")]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _table(struct: type[msgspec.Struct], prefix: str) -> str:
    descriptions = _docstrings(struct)
    lines = ["| Setting | Variable | Value | Default | |", "|---|---|---|---|---|"]
    for field in msgspec.structs.fields(struct):
        if field.name == "limits":
            continue
        app = " *app*" if prefix and field.name in PER_APP else ""
        cells = [
            f"`{field.name}`",
            f"`{variable_of(prefix + field.name)}`",
            _values(field.type),
            _default(field),
            descriptions[field.name] + app,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _docstrings(struct: type) -> dict[str, str]:
    """Return the string below each attribute, which the language itself throws away."""
    (definition,) = ast.parse(inspect.getsource(struct)).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for attribute, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(attribute, ast.AnnAssign) and isinstance(attribute.target, ast.Name):
            assert isinstance(below, ast.Expr)
            assert isinstance(below.value, ast.Constant)
            found[attribute.target.id] = " ".join(str(below.value.value).split())
    return found


def _values(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        base, *metas = get_args(kind)
        return " ".join([_values(base), *(_bounds(meta) for meta in metas)]).strip()
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(_values(one) for one in get_args(kind) if one is not type(None))
    if get_origin(kind) is Literal:
        return ", ".join(f"`{one}`" for one in get_args(kind))
    if get_origin(kind) is list:
        return "list of texts"
    return {str: "text", int: "whole number", float: "number", bool: "`true`, `false`"}[kind]


def _bounds(meta: msgspec.Meta) -> str:
    least = meta.ge if meta.ge is not None else meta.gt
    if least is None and meta.le is None:
        return f"like `{meta.pattern}`" if meta.pattern else ""
    return f"from {'more than ' if meta.ge is None else ''}{least:,} to {meta.le:,}"


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return f"`{value}`" if value or value == 0 else "–"


if __name__ == "__main__":
    TARGET.write_text(document(), "utf-8")
    print(f"wrote {TARGET}", file=sys.stderr)  # noqa: T201 - what the tool did
