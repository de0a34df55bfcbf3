"""What lies between two sets of definitions, such as a project's files and an app: pure, without files and requests.

A table is identified by its title; `was` names the title that a file had before. The base is what both sides were at
the last pull or push: it tells who has changed a table since.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

Tables = Mapping[str, Mapping[str, Any]]
"""Canonical definitions by title."""
Kind = Literal["create", "change", "drop", "conflict", "left", "newer", "gone"]

_DEFAULTS: dict[str, Any] = {"required": False, "encrypted": False, "description": None, "unique": False}


class Step(NamedTuple):
    """What is to be done with a table: its title in the files, and its title on the server, if that is another one.

    `conflict`: both sides have changed it since the base. `left`: the server alone has it, and always had. `newer`: the
    server alone has changed it. `gone`: the server has dropped it.
    """

    kind: Kind
    title: str
    before: str | None = None


def canonical(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition in the form in which two that say the same are equal.

    Raises `ValueError`, with a sentence, for one that is no table's.
    """
    schema = definition.get("schema", {})
    if not isinstance(schema, Mapping):
        raise ValueError("schema must be a mapping of columns.")
    columns: dict[str, Any] = {}
    unique = [_key(key) for key in definition.get("unique") or ()]
    for name, column in schema.items():
        options = {"type": column} if isinstance(column, str) else column
        if not isinstance(options, Mapping) or not isinstance(options.get("type"), str):
            raise ValueError(f"schema.{name} must be a type, or a mapping with a type.")
        if options.get("unique") is True:
            unique.append(_key({"columns": [name]}))
        kept: dict[str, Any] = {
            key: value for key, value in options.items() if key not in _DEFAULTS or value != _DEFAULTS[key]
        }
        kept.pop("unique", None)
        kept["type"] = {"bool": "boolean"}.get(kept["type"], kept["type"])
        if isinstance(kept.get("references"), Mapping):
            kept["references"] = {"on_delete": "restrict", **kept["references"]}
        columns[name] = kept if len(kept) > 1 else kept["type"]
    found: dict[str, Any] = {
        "title": definition.get("title"),
        "schema": columns,
        "access_level": definition.get("access_level"),
        # A key by column and the same in the list is one key.
        "unique": sorted({repr(key): key for key in unique}.values(), key=lambda key: str(key["name"])),
    }
    if definition.get("rules") is not None:
        found["rules"] = definition["rules"]
    return found


def _key(key: Any) -> dict[str, Any]:
    if not isinstance(key, Mapping) or not isinstance(key.get("columns"), list):
        raise ValueError("unique must be a list of keys with columns.")
    return {
        "name": key.get("name") or "_".join(key["columns"]),
        "columns": key["columns"],
        "ignore_case": bool(key.get("ignore_case")),
        "nulls": key.get("nulls") or "distinct",
        "where": key.get("where"),
    }


def written(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a canonical definition as a file says it, without what is usual."""
    found = {key: value for key, value in definition.items() if key != "unique"}
    keys = [
        {name: value for name, value in key.items() if name == "columns" or value not in (None, False, "distinct")}
        for key in definition["unique"]
    ]
    for key in keys:
        if key.get("name") == "_".join(key["columns"]):
            del key["name"]
    return {**found, **({"unique": keys} if keys else {})}


def plan(files: Tables, renamed: Mapping[str, str], server: Tables, base: Tables) -> list[Step]:
    """Return the steps that make the server what the files say; those without a difference are left out.

    `renamed` has the former titles of files by their present ones.
    """
    steps = list[Step]()
    taken = set[str]()
    for title, wanted in files.items():
        before = renamed.get(title) if title not in server else None
        name = before or title
        found = server.get(name)
        if found is None:
            known = base.get(title)
            steps.append(Step("create" if known is None else "gone" if known == wanted else "conflict", title))
            continue
        taken.add(name)
        if found == wanted:
            continue
        known = base.get(name)
        if known is None or known == found:
            steps.append(Step("change", title, before))
        elif known == wanted:
            steps.append(Step("newer", title))
        else:
            steps.append(Step("conflict", title, before))
    for title, found in server.items():
        if title in taken or title in files:
            continue
        known = base.get(title)
        steps.append(Step("left" if known is None else "drop" if known == found else "conflict", title))
    return steps


def references(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the columns that refer to rows, each with the title of their table."""
    for name, column in definition["schema"].items():
        if isinstance(column, Mapping) and isinstance(column.get("references"), Mapping):
            yield name, str(column["references"].get("table"))


def alone(definition: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a table is created with before those that it names exist: closed; None if it names none.

    Columns that refer to rows refer to none yet, and rules come last.
    """
    referring = {name for name, _ in references(definition)}
    if not referring and "rules" not in definition:
        return None
    return {**definition, "schema": without_references(definition, referring), "rules": {}}


def without_references(definition: Mapping[str, Any], columns: Container[str]) -> dict[str, Any]:
    """Return a schema in which some columns refer to no rows."""
    return {
        name: {key: value for key, value in column.items() if key != "references"} if name in columns else column
        for name, column in definition["schema"].items()
    }


def in_order_of_dropping(titles: Iterable[str], server: Tables) -> list[str]:
    """Return tables so that one that refers to another is dropped before it."""
    left, order = list(titles), list[str]()
    while left:
        # One to which no other of them refers; in a circle, any.
        targets = {target for title in left for _, target in references(server[title]) if target != title}
        following = next((title for title in left if title not in targets), left[0])
        left.remove(following)
        order.append(following)
    return order


def named(step: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Return a step with its function's name in place of the id, which only this app has."""
    told = dict(step)
    if step.get("function_id"):
        told["function_id"] = names.get(step["function_id"], step["function_id"])
    if step.get("branches"):
        told["branches"] = [
            {**branch, "steps": [named(inner, names) for inner in branch["steps"]]} for branch in step["branches"]
        ]
    if tools := (step.get("config") or {}).get("tools"):
        tools = [{**tool, "function_id": names.get(tool["function_id"], tool["function_id"])} for tool in tools]
        told["config"] = {**step["config"], "tools": tools}
    return told
