"""Definitions in files: YAML or JSON, with the line of each value.

Of YAML, only what JSON can express is read: mappings with texts as keys, lists, texts, numbers, true, false and null,
by the core schema of YAML 1.2 (section 10.3). So `no` and `2026-01-01` are texts. An anchor may be referred to; there
are no tags and no merge keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pilotis.serve.errors import CommandError

MAX_BYTES = 2**20
_MAX_VALUES = 50_000
_MAX_DEPTH = 50
_INTEGER = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_PART = re.compile(r"(\.[^.\[\]]*|\[\d+\])$")


class Definition(NamedTuple):
    """What a file says, and the line of each of its fields, which are named as in `steps[2].function_id`."""

    file: Path
    value: dict[str, Any]
    lines: Mapping[str, int]

    def place(self, field: str | None) -> str:
        """Return the file and line of a field, or of the nearest field around it: `report.yaml:12`."""
        name = field or ""
        while name and name not in self.lines:
            shorter = _PART.sub("", name)
            name = shorter if shorter != name else ""
        return f"{self.file}:{self.lines.get(name, 1)}"


def read(file: Path) -> Definition:
    """Read a definition; raises `CommandError`, with the line, for a file that has none."""
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not UTF-8 text.") from None
    if len(content) > MAX_BYTES:
        raise CommandError(f"{file} has more than {MAX_BYTES} bytes.")
    reader = _Reader(file)
    if file.suffix == ".json":
        # JSON is YAML as well, but for tabs; none of its texts contains one.
        value = _json(file, text)
        reader.read(text.replace("\t", " "))
    else:
        value = reader.read(text)
    if not isinstance(value, dict):
        raise CommandError(f"{file}:1: a definition is expected: fields such as name and steps.")
    return Definition(file, value, reader.lines)


def dump(value: dict[str, Any]) -> str:
    """Return a definition as YAML that `read` reads as the same value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _json(file: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise CommandError(f"{file}:{error.lineno}: not valid JSON: {error.msg}.") from None
    except RecursionError:
        raise CommandError(f"{file}: nested too deep.") from None


class _Reader:
    """Reads one file."""

    def __init__(self, file: Path) -> None:
        self.lines: dict[str, int] = {}
        self._file = file
        self._left = _MAX_VALUES

    def read(self, text: str) -> Any:
        try:
            # The base loader recognizes no types, and composing creates no objects.
            node = yaml.compose(text, yaml.BaseLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = error.problem or error.context
            raise self._error(mark.line + 1 if mark else 1, f"not valid YAML: {problem}.") from None
        except yaml.YAMLError as error:
            raise self._error(1, f"not valid YAML: {str(error).splitlines()[0]}.") from None
        except RecursionError:
            raise self._error(1, "nested too deep.") from None
        return None if node is None else self._value(node, "", 0)

    def _value(self, node: yaml.Node, field: str, depth: int) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(field, line)
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            problem = f"{_MAX_VALUES} values" if self._left < 0 else f"{_MAX_DEPTH} levels"
            raise self._error(line, f"more than {problem}, references to anchors included.")
        if node.tag not in _TAGS:
            raise self._error(line, f"the tag {node.tag} is not supported.")
        if isinstance(node, yaml.ScalarNode):
            return node.value if node.style else _scalar(node.value)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(one, f"{field}[{at}]", depth + 1) for at, one in enumerate(node.value)]
        return self._mapping(node, field, depth)

    def _mapping(self, node: yaml.Node, field: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(line, "a field's name is a text.")
            name = key.value
            if name == "<<" and not key.style:
                raise self._error(line, "merge keys (<<) are not supported.")
            if name in found:
                raise self._error(line, f"the field {name} is there twice.")
            inner = f"{field}.{name}" if field else name
            self.lines.setdefault(inner, line)
            found[name] = self._value(value, inner, depth + 1)
        return found

    def _error(self, line: int, problem: str) -> CommandError:
        return CommandError(f"{self._file}:{line}: {problem}")


_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map")}


def _scalar(text: str) -> Any:
    """Return the value of a text without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text) and len(text) < 20:
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


class _Dumper(yaml.SafeDumper):
    """Writes texts that would be read as other values in quotes, and repeats values instead of referring to them."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class's signature
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if isinstance(_scalar(text), str) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else style)


_Dumper.add_representer(str, _text)
